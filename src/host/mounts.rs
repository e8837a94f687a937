//! The node's mounts: what is mounted where, making mounts and taking them away. Blocking.

use std::ffi::{CString, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::mount::{MountFlags, UnmountFlags};

use super::files::{FileError, on};
use super::program::run_program;

/// What the kernel calls file systems of other machines that we mount.
const NFS: &[&str] = &["nfs", "nfs4"];
/// How long the program that unmounts them may take; the server may be away.
const UNMOUNT_DEADLINE: Duration = Duration::from_secs(20);

const MOUNTS: &str = "/proc/self/mountinfo";

/// A mount, as the kernel lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mounted {
    /// Where it is, by its real path.
    pub(crate) point: PathBuf,
    /// The type of its file system, such as `tmpfs`.
    pub(crate) kind: String,
}

/// All mounts that this process sees, in the order in which they were made.
pub(crate) fn read_mounts() -> Result<Vec<Mounted>, FileError> {
    let text = fs::read(MOUNTS).map_err(on("cannot read", Path::new(MOUNTS)))?;
    Ok(parse_mounts(&text).collect())
}

/// The mounts of a mountinfo file.
fn parse_mounts(mountinfo: &[u8]) -> impl Iterator<Item = Mounted> {
    mountinfo.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut fields = line.split(|byte| *byte == b' ');
        let point = unescape(fields.nth(4)?);
        // Any number of optional fields ends in a dash; the type follows.
        let kind = fields.skip_while(|field| *field != b"-").nth(1).unwrap_or_default();
        Some(Mounted { point, kind: String::from_utf8_lossy(kind).into_owned() })
    })
}

/// The first mount at or under a directory, which is given by its real path.
pub(crate) fn mount_under<'m>(mounts: &'m [Mounted], dir: &Path) -> Option<&'m Mounted> {
    mounts.iter().find(|mount| mount.point.starts_with(dir))
}

/// Those of the mounts that we make for an instance, whose directory is given by its real path; the last made first.
///
/// Volumes are mounted at `volumes/PLUGIN/NAME`, subpaths at `volume-subpaths/VOLUME/CONTAINER/INDEX`. Anything else that is
/// mounted there was not made by us.
pub(crate) fn select_ours<'m>(mounts: &'m [Mounted], pod_dir: &Path) -> Vec<&'m Mounted> {
    let ours = |mount: &&Mounted| {
        let Ok(path) = mount.point.strip_prefix(pod_dir) else { return false };
        let parts: Vec<_> = path.iter().filter_map(|part| part.to_str()).collect();
        match parts.as_slice() {
            ["volumes", plugin, _] => {
                let kinds: &[&str] = match *plugin {
                    "kubernetes.io~empty-dir" => &["tmpfs", "hugetlbfs"],
                    "kubernetes.io~downward-api"
                    | "kubernetes.io~projected"
                    | "kubernetes.io~configmap"
                    | "kubernetes.io~secret" => &["tmpfs"],
                    "kubernetes.io~nfs" => NFS,
                    _ => &[],
                };
                kinds.contains(&mount.kind.as_str())
            }
            ["volume-subpaths", _, _, _] => true,
            _ => false,
        }
    };
    mounts.iter().rev().filter(ours).collect()
}

/// Whether something is mounted at a path, which may go through links.
pub(crate) fn is_mounted(path: &Path) -> Result<Option<Mounted>, FileError> {
    let real = fs::canonicalize(path).map_err(on("cannot resolve", path))?;
    // The last one covers those before it.
    Ok(read_mounts()?.into_iter().rfind(|mount| mount.point == real))
}

/// Mounts a new file system of this type, with these options, unless one of its type is mounted there.
pub(crate) fn mount_new(kind: &'static str, options: &str, at: &Path) -> Result<(), FileError> {
    if is_mounted(at)?.is_some_and(|mount| mount.kind == kind) {
        return Ok(());
    }
    let options =
        CString::new(options).map_err(|error| on("cannot mount at", at)(io::Error::other(error)))?;
    rustix::mount::mount(kind, at, kind, MountFlags::empty(), options.as_c_str())
        .map_err(|error| on("cannot mount at", at)(error.into()))
}

/// Unmounts what is mounted at a path. What is not mounted any more is unmounted.
pub(crate) fn unmount(at: &Path) -> Result<(), FileError> {
    match rustix::mount::unmount(at, UnmountFlags::NOFOLLOW) {
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => Ok(()),
        done => done.map_err(|error| on("cannot unmount", at)(error.into())),
    }
}

/// Unmounts all that we mounted for an instance, the last first. Goes on after one that refuses to go.
///
/// # Errors
/// The first of the reasons.
pub(crate) fn unmount_ours(pod_dir: &Path) -> Result<(), FileError> {
    let real = match fs::canonicalize(pod_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        real => real.map_err(on("cannot resolve", pod_dir))?,
    };
    let mounts = read_mounts()?;
    let unmount = |mount: &&Mounted| {
        let at = &mount.point;
        if !NFS.contains(&mount.kind.as_str()) {
            return unmount(at).err();
        }
        // The call waits for a server that may be away, and would never end.
        let done = run_program("umount", &[at.clone().into_os_string()], UNMOUNT_DEADLINE);
        done.map_err(|error| on("cannot unmount", at)(io::Error::other(error))).err()
    };
    let failed = select_ours(&mounts, &real).iter().filter_map(unmount).collect::<Vec<_>>();
    failed.into_iter().next().map_or(Ok(()), Err)
}

/// Whether something is mounted at a path, which is not looked at itself: the server of what is there may be away.
pub(crate) fn is_mounted_unseen(path: &Path) -> Result<bool, FileError> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(false) };
    let real = match fs::canonicalize(parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        real => real.map_err(on("cannot resolve", parent))?.join(name),
    };
    Ok(read_mounts()?.iter().any(|mount| mount.point == real))
}

/// mountinfo writes space, tab, newline and backslash as three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let code = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn under(info: &[u8], dir: &str) -> Option<PathBuf> {
        let mounts: Vec<_> = parse_mounts(info).collect();
        mount_under(&mounts, Path::new(dir)).map(|mount| mount.point.clone())
    }

    #[test]
    fn mounts_under_a_directory_are_found() {
        let info = b"25 1 8:1 / / rw - ext4 /dev/sda1 rw\n36 25 0:31 / /var/lib/kubelet/pods/a/volumes/x rw - tmpfs tmpfs rw\n";
        assert_eq!(under(info, "/var/lib/kubelet/pods/a"), Some("/var/lib/kubelet/pods/a/volumes/x".into()));
        assert_eq!(under(info, "/var/lib/kubelet/pods/ab"), None);
        assert_eq!(under(info, "/var/lib/kubelet/pods/a/volumes/xy"), None);
        let spaced = br"36 25 0:31 / /my\040root/pods/a\134b/x rw - tmpfs tmpfs rw";
        assert_eq!(under(spaced, "/my root/pods"), Some(r"/my root/pods/a\b/x".into()));
        let latin =
            b"30 25 0:31 / /media/caf\xe9 rw - tmpfs tmpfs rw\n36 25 0:31 / /pods/a/x rw - tmpfs tmpfs rw\n";
        assert_eq!(under(latin, "/pods/a"), Some("/pods/a/x".into()), "not all names are UTF-8");
    }

    #[test]
    fn types_stand_after_the_dash() {
        let info = b"1 0 0:1 / /a rw - tmpfs tmpfs rw\n2 0 0:2 / /b rw shared:3 master:1 - nfs4 s:/ rw\n3 0 0:3 / /c rw\n";
        let kinds: Vec<_> = parse_mounts(info).map(|mount| mount.kind).collect();
        assert_eq!(kinds, ["tmpfs", "nfs4", ""]);
    }

    #[test]
    fn only_what_we_mount_is_ours() {
        let pod = "/k/pods/u";
        let table = [
            ("volumes/kubernetes.io~empty-dir/m", "tmpfs", true),
            ("volumes/kubernetes.io~empty-dir/m", "hugetlbfs", true),
            ("volumes/kubernetes.io~downward-api/d", "tmpfs", true),
            ("volumes/kubernetes.io~projected/p", "tmpfs", true),
            ("volume-subpaths/v/main/0", "ext4", true),
            ("volumes/kubernetes.io~empty-dir/m", "ext4", false),
            ("volumes/kubernetes.io~nfs/m", "tmpfs", false),
            ("volumes/kubernetes.io~nfs/m", "nfs", true),
            ("volumes/kubernetes.io~nfs/m", "nfs4", true),
            ("volumes/kubernetes.io~nfs/m/inside", "nfs4", false),
            ("volumes/kubernetes.io~empty-dir/m", "nfs4", false),
            ("volumes/kubernetes.io~empty-dir/m/inside", "tmpfs", false),
            ("volumes/kubernetes.io~empty-dir", "tmpfs", false),
            ("volumes", "tmpfs", false),
            ("", "tmpfs", false),
            ("volume-subpaths/v/main", "ext4", false),
            ("volume-subpaths/v/main/0/inside", "ext4", false),
            ("containers/main/x", "tmpfs", false),
        ];
        for (path, kind, ours) in table {
            let mounts = [Mounted { point: Path::new(pod).join(path), kind: kind.into() }];
            assert_eq!(select_ours(&mounts, Path::new(pod)).len(), usize::from(ours), "{path} {kind}");
            assert!(select_ours(&mounts, Path::new("/k/pods/other")).is_empty());
        }
        let both = ["volumes/kubernetes.io~empty-dir/m", "volume-subpaths/m/main/0"]
            .map(|path| Mounted { point: Path::new(pod).join(path), kind: "tmpfs".into() });
        let order = select_ours(&both, Path::new(pod));
        assert!(order[0].point.ends_with("volume-subpaths/m/main/0"), "the last made first: {order:?}");
    }
}
