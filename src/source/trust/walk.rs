//! Follows a path step by step, as the kernel does, with a handle on each step: nobody can put another directory, link or
//! file in the place of one that was checked. Blocking.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, open, openat, readlinkat};

use super::{PathRole, check};

/// As many links as the kernel follows.
const MAX_LINKS: usize = 40;
/// A handle on whatever lies at a name: nothing is opened for reading, and no link is followed.
const HANDLE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Why a path could not be followed to its end.
#[derive(Debug, thiserror::Error)]
pub(in crate::source) enum WalkError {
    /// The name that was asked for does not exist. A link that leads nowhere does.
    #[error("{}", io::Error::from(rustix::io::Errno::NOENT))]
    Absent,
    /// The file system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Others than root could decide where it leads to.
    #[error("{0}")]
    Distrusted(String),
}

/// What a path leads to.
#[derive(Debug, Clone)]
pub(in crate::source) struct Located {
    /// Its path, without links.
    pub(in crate::source) path: PathBuf,
    /// What the handle is of.
    pub(in crate::source) metadata: Metadata,
    handle: Arc<File>,
}

impl Located {
    fn new(handle: File, path: PathBuf) -> io::Result<Self> {
        Ok(Self { metadata: handle.metadata()?, path, handle: Arc::new(handle) })
    }

    /// Opens it to be read. A FIFO does not hang, but there is nothing to be read from it.
    pub(in crate::source) fn open(&self) -> io::Result<File> {
        // The handle itself cannot be read; this name means the same file, whatever became of its path.
        let handle = format!("/proc/self/fd/{}", self.handle.as_raw_fd());
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
        File::options().read(true).custom_flags(flags).open(handle)
    }

    /// The first bytes of a regular file; one more than `limit` if there are more.
    pub(in crate::source) fn read(&self, limit: usize) -> io::Result<(Vec<u8>, Metadata)> {
        if !self.metadata.is_file() {
            return Err(io::Error::other("is not a regular file"));
        }
        let file = self.open()?;
        let metadata = file.metadata()?;
        let mut bytes = Vec::new();
        file.take(limit as u64 + 1).read_to_end(&mut bytes)?;
        Ok((bytes, metadata))
    }
}

/// Follows a path from the root directory; every directory and link on the way must be trusted.
///
/// # Errors
/// When it leads nowhere, or cannot be trusted.
pub(in crate::source) fn locate(path: &Path, own_uid: Option<u32>) -> Result<Located, WalkError> {
    let path = std::path::absolute(path)?;
    walk(root()?, names(&path).collect(), own_uid)
}

/// Follows a name in a directory that was located.
///
/// # Errors
/// When it leads nowhere, or cannot be trusted.
pub(in crate::source) fn locate_in(
    directory: &Located,
    name: &OsStr,
    own_uid: Option<u32>,
) -> Result<Located, WalkError> {
    walk(directory.clone(), VecDeque::from([name.to_owned()]), own_uid)
}

fn root() -> Result<Located, WalkError> {
    let handle = open("/", HANDLE, Mode::empty()).map_err(io::Error::from)?;
    Ok(Located::new(handle.into(), "/".into())?)
}

fn walk(start: Located, mut ahead: VecDeque<OsString>, own_uid: Option<u32>) -> Result<Located, WalkError> {
    let mut here = start;
    let mut links = 0;
    while let Some(name) = ahead.pop_front() {
        let opened = openat(&*here.handle, &name, HANDLE, Mode::empty()).map_err(io::Error::from);
        let handle = match opened {
            Err(error) if error.kind() == ErrorKind::NotFound && links == 0 => return Err(WalkError::Absent),
            handle => handle?,
        };
        let path = if name == ".." {
            here.path.parent().unwrap_or(&here.path).to_owned()
        } else {
            here.path.join(&name)
        };
        let next = Located::new(handle.into(), path)?;
        let role = if next.metadata.is_dir() { PathRole::Ancestor } else { PathRole::Holder };
        check(&here.path, role, &here.metadata, own_uid).map_err(WalkError::Distrusted)?;
        if !next.metadata.is_symlink() {
            here = next;
            continue;
        }
        check(&next.path, PathRole::Link, &next.metadata, own_uid).map_err(WalkError::Distrusted)?;
        links += 1;
        if links > MAX_LINKS {
            return Err(io::Error::from(rustix::io::Errno::LOOP).into());
        }
        let target = readlinkat(&*next.handle, "", Vec::new()).map_err(io::Error::from)?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            here = root()?;
        }
        names(&target).collect::<Vec<_>>().into_iter().rev().for_each(|name| ahead.push_front(name));
    }
    Ok(here)
}

/// The names of a path, one by one.
pub(in crate::source) fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn every_directory_and_link_on_the_way_is_checked() {
        let temporary = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(temporary.path()).unwrap();
        let at = |path: &str| root.join(path);
        fs::create_dir_all(at("outer/inner/manifests")).unwrap();
        fs::create_dir(at("other")).unwrap();
        fs::write(at("outer/inner/manifests/a.yaml"), "a").unwrap();
        symlink("outer/inner", at("link")).unwrap();
        symlink(at("link/manifests/../manifests/a.yaml"), at("other/to-file")).unwrap();
        symlink("nowhere", at("other/dangling")).unwrap();
        symlink("round", at("round")).unwrap();
        let own_uid = Some(rustix::process::geteuid().as_raw());
        let found = |path: &str, own_uid| match locate(&at(path), own_uid) {
            Ok(located) => located.path.strip_prefix(&root).unwrap().display().to_string(),
            Err(error) => error.to_string().replace(&format!("{}/", root.display()), ""),
        };
        let file = "outer/inner/manifests/a.yaml";
        let cases = [
            // The directory whose mode is changed, the mode, the path, and what is found.
            ("outer", 0o755, file, file),
            ("outer", 0o755, "other/to-file", file),
            ("outer", 0o755, "link/manifests", "outer/inner/manifests"),
            ("outer", 0o777, file, "outer (mode 0777, owner"),
            ("outer", 0o777, "other/to-file", "outer (mode 0777, owner"),
            ("outer", 0o1777, file, file),
            ("outer/inner", 0o775, file, "outer/inner (mode 0775, owner"),
            ("outer/inner/manifests", 0o1777, file, "outer/inner/manifests (mode 1777, owner"),
            ("other", 0o1777, "other/to-file", "other (mode 1777, owner"),
            ("other", 0o755, "other/dangling", "No such file or directory"),
            ("other", 0o755, "nowhere", "No such file or directory"),
            ("other", 0o755, "round", "Too many levels of symbolic links"),
        ];
        for (changed, mode, path, expect) in cases {
            fs::set_permissions(at(changed), fs::Permissions::from_mode(mode)).unwrap();
            let (strict, lax) = (found(path, own_uid), found(path, None));
            fs::set_permissions(at(changed), fs::Permissions::from_mode(0o755)).unwrap();
            assert!(strict.starts_with(expect), "{changed} {mode:o} {path}: {strict}");
            let leads = expect.starts_with("outer") || expect.starts_with("other");
            assert!(!lax.contains("mode"), "{changed} {mode:o} {path}: {lax}");
            assert_eq!(lax == file || lax == "outer/inner/manifests", leads, "{path}: {lax}");
        }
    }

    #[test]
    fn what_was_located_is_read_whatever_takes_its_name() {
        let temporary = tempfile::tempdir().unwrap();
        let at = |path: &str| temporary.path().join(path);
        fs::create_dir(at("manifests")).unwrap();
        fs::write(at("manifests/a"), "checked").unwrap();
        let directory = locate(&at("manifests"), None).unwrap();
        let file = locate_in(&directory, OsStr::new("a"), None).unwrap();
        fs::rename(at("manifests"), at("moved")).unwrap();
        fs::create_dir(at("manifests")).unwrap();
        fs::write(at("manifests/a"), "swapped").unwrap();
        assert_eq!(file.read(100).unwrap().0, b"checked");
        let again = locate_in(&directory, OsStr::new("a"), None).unwrap();
        assert_eq!(
            again.read(3).unwrap().0,
            b"chec",
            "one byte more than the limit tells that there are more"
        );
        assert!(matches!(locate_in(&directory, OsStr::new("b"), None), Err(WalkError::Absent)));
    }
}
