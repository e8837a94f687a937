//! A part of a volume (`subPath`), bound where nobody in a container can turn it elsewhere. Blocking.
//!
//! The path is opened beneath the volume: the kernel refuses a link that leads out of it, and what was opened is what is
//! bound, whatever becomes of its name.

use std::fs;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat, openat2, stat};
use rustix::io::Errno;

use crate::host::files::{FileError, make_dir, on, remove_file};
use crate::host::mounts::{is_mounted, unmount};

const PATH: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// A part of a volume, and where it is bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SubPath {
    /// The volume on the node.
    pub(super) volume: PathBuf,
    /// The part of it.
    pub(super) path: String,
    /// Where it is bound.
    pub(super) target: PathBuf,
}

impl SubPath {
    /// Opens the part, makes its directories if they are missing, and binds it.
    pub(super) fn apply(&self) -> Result<(), FileError> {
        let full = self.volume.join(&self.path);
        let fail = |error: Errno| on("cannot open the subPath", &full)(error.into());
        let part = open_part(&self.volume, Path::new(&self.path)).map_err(fail)?;
        let found = fstat(&part).map_err(fail)?;
        if let Ok(bound) = stat(&self.target)
            && is_mounted(&self.target)?.is_some()
        {
            if (bound.st_dev, bound.st_ino) == (found.st_dev, found.st_ino) {
                return Ok(());
            }
            // Of an earlier container, which is gone.
            unmount(&self.target)?;
        }
        make_target(&self.target, FileType::from_raw_mode(found.st_mode) == FileType::Directory)?;
        let source = format!("/proc/self/fd/{}", part.as_raw_fd());
        rustix::mount::mount_bind(source, &self.target)
            .map_err(|error| on("cannot mount at", &self.target)(error.into()))
    }
}

/// What something is bound to must be of its kind.
fn make_target(target: &Path, is_dir: bool) -> Result<(), FileError> {
    if let Some(parent) = target.parent() {
        make_dir(parent, 0o750)?;
    }
    match fs::symlink_metadata(target) {
        Ok(found) if found.is_dir() && is_dir => return Ok(()),
        // Not a tree: only ever empty.
        Ok(found) if found.is_dir() => fs::remove_dir(target).map_err(on("cannot remove", target))?,
        _ => remove_file(target)?,
    }
    if is_dir {
        return make_dir(target, 0o750);
    }
    fs::File::create_new(target).map(drop).map_err(on("cannot create", target))
}

/// Opens a path beneath a volume; directories that are missing are made. As in kubelet, the last one has the mode of the
/// volume, those on the way are not for others to write to; unlike there, all of them keep the set-group-ID bit.
fn open_part(volume: &Path, path: &Path) -> rustix::io::Result<OwnedFd> {
    let base = openat(CWD, volume, PATH | OFlags::DIRECTORY, Mode::empty())?;
    let mode = Mode::from_raw_mode(fstat(&base)?.st_mode & 0o7777);
    let names = path.components().filter(|part| *part != Component::CurDir).collect::<Vec<_>>();
    if !names.iter().all(|part| matches!(part, Component::Normal(_))) {
        return Err(Errno::INVAL);
    }
    let mut prefix = PathBuf::new();
    let mut last: Option<OwnedFd> = None;
    let count = names.len();
    for (index, name) in names.into_iter().enumerate() {
        prefix.push(name);
        let parent = last.as_ref().unwrap_or(&base);
        let mode = if index + 1 == count { mode } else { mode - (Mode::WGRP | Mode::WOTH) };
        let next = match open_beneath(&base, &prefix) {
            Err(Errno::NOENT) => make_and_open(parent, name.as_ref(), mode)?,
            opened => opened?,
        };
        last = Some(next);
    }
    Ok(last.unwrap_or(base))
}

fn make_and_open(parent: &OwnedFd, name: &Path, mode: Mode) -> rustix::io::Result<OwnedFd> {
    match mkdirat(parent, name, mode) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error),
    }
    // A link, or a file, that came in between is refused.
    let dir = openat(parent, name, PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
    // Whatever the umask is.
    rustix::fs::chmod(format!("/proc/self/fd/{}", dir.as_raw_fd()), mode)?;
    Ok(dir)
}

/// Opens a path that no link leads out of `base`.
fn open_beneath(base: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    // The kernel asks to try again when something was renamed meanwhile and it could not be sure.
    for _ in 0..128 {
        match openat2(base, path, PATH, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => continue,
            // Before Linux 5.6, or kept from us by a filter.
            Err(Errno::NOSYS | Errno::PERM) => return open_without_links(base, path),
            opened => return opened,
        }
    }
    Err(Errno::AGAIN)
}

/// Reads a file beneath a volume: a regular one, of this many bytes at the most.
pub(super) fn read_beneath(volume: &Path, path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let base = openat(CWD, volume, PATH | OFlags::DIRECTORY, Mode::empty())?;
    let found = open_beneath(&base, path)?;
    // Looked at before it is opened to be read: to open a FIFO would wait for a writer.
    if FileType::from_raw_mode(fstat(&found)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("not a regular file"));
    }
    let mut contents = Vec::new();
    fs::File::open(format!("/proc/self/fd/{}", found.as_raw_fd()))?
        .take(most + 1)
        .read_to_end(&mut contents)?;
    if contents.len() as u64 > most {
        return Err(io::Error::other(format!("larger than {most} bytes")));
    }
    Ok(contents)
}

/// Opens a path on which there is no link at all.
fn open_without_links(base: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let mut open = openat(base, ".", PATH, Mode::empty())?;
    for name in path.components() {
        let Component::Normal(name) = name else { return Err(Errno::INVAL) };
        open = openat(&open, name, PATH | OFlags::NOFOLLOW, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&open)?.st_mode) == FileType::Symlink {
            return Err(Errno::LOOP);
        }
    }
    Ok(open)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    type Opener = fn(&OwnedFd, &Path) -> rustix::io::Result<OwnedFd>;

    fn inode(fd: &OwnedFd) -> u64 {
        fstat(fd).unwrap().st_ino
    }

    #[test]
    fn links_lead_nowhere_outside() {
        let dir = tempfile::tempdir().unwrap();
        let (volume, outside) = (dir.path().join("v"), dir.path().join("outside"));
        fs::create_dir_all(volume.join("d/e")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(volume.join("d/file"), "x").unwrap();
        symlink("d", volume.join("inside")).unwrap();
        symlink("/etc", volume.join("absolute")).unwrap();
        symlink("../outside", volume.join("climbs")).unwrap();
        symlink("nowhere", volume.join("dangling")).unwrap();
        symlink("loop", volume.join("loop")).unwrap();
        // The path; what is opened, if anything.
        let rows = [
            ("d", Some("d")),
            ("d/e", Some("d/e")),
            ("./d//e/", Some("d/e")),
            ("d/file", Some("d/file")),
            ("inside/e", Some("d/e")),
            ("made/by/us", Some("made/by/us")),
            ("absolute", None),
            ("absolute/passwd", None),
            ("climbs", None),
            ("climbs/new", None),
            ("dangling", None),
            ("dangling/new", None),
            ("loop", None),
            ("d/../../outside", None),
            ("/etc", None),
            ("d/file/below", None),
        ];
        for (path, expect) in rows {
            let opened = open_part(&volume, Path::new(path));
            match expect {
                Some(name) => {
                    let wanted = fs::metadata(volume.join(name)).unwrap().ino();
                    assert_eq!(opened.map(|fd| inode(&fd)), Ok(wanted), "{path}");
                }
                None => assert!(opened.is_err(), "{path}"),
            }
        }
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        assert!(!volume.join("nowhere").exists());
        let base = openat(CWD, &volume, PATH, Mode::empty()).unwrap();
        assert_eq!(open_without_links(&base, Path::new("inside/e")).err(), Some(Errno::LOOP));
        assert!(open_without_links(&base, Path::new("d/e")).is_ok());
    }

    #[test]
    fn directories_have_the_modes_that_kubelet_gives() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o2777)).unwrap();
        open_part(dir.path(), Path::new("a/b")).unwrap();
        for (path, mode) in [("a", 0o2755), ("a/b", 0o2777)] {
            assert_eq!(fs::metadata(dir.path().join(path)).unwrap().mode() & 0o7777, mode, "{path}");
        }
    }

    #[test]
    fn a_link_that_is_swapped_in_a_loop_never_leads_outside() {
        let dir = tempfile::tempdir().unwrap();
        let (volume, outside) = (dir.path().join("v"), dir.path().join("outside"));
        fs::create_dir_all(volume.join("d/e")).unwrap();
        fs::create_dir_all(outside.join("e")).unwrap();
        symlink(&outside, volume.join("link")).unwrap();
        symlink("../outside", volume.join("climbing")).unwrap();
        let forbidden = [&outside, &outside.join("e")].map(|path| fs::metadata(path).unwrap().ino());
        let stop = AtomicBool::new(false);
        let (mut opened, mut refused) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut turn = 0_usize;
                while !stop.load(Ordering::Relaxed) {
                    let link = volume.join(["link", "climbing"][turn % 2]);
                    turn += 1;
                    let exchange = rustix::fs::RenameFlags::EXCHANGE;
                    rustix::fs::renameat_with(CWD, volume.join("d"), CWD, &link, exchange).unwrap();
                    rustix::fs::renameat_with(CWD, volume.join("d"), CWD, &link, exchange).unwrap();
                }
            });
            let base = openat(CWD, &volume, PATH, Mode::empty()).unwrap();
            let without: Opener = open_without_links;
            for attempt in 0..10_000 {
                let path = Path::new(["d/e", "d/new", "d"][attempt % 3]);
                let part = if attempt % 4 == 3 { without(&base, path) } else { open_part(&volume, path) };
                match part {
                    Ok(part) => {
                        assert!(!forbidden.contains(&inode(&part)), "{path:?} led outside");
                        opened += 1;
                    }
                    Err(_) => refused += 1,
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(opened > 0 && refused > 0, "no race: {opened} opened, {refused} refused");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "nothing was made outside");
    }
}
