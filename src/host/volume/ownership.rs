//! The group of a volume (`fsGroup`): its files belong to it, and it may use them. Blocking.
//!
//! Nothing is reached by a path that somebody in a container could turn elsewhere: every step is from an open directory, and
//! no link is followed.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, chownat, fstat, openat};
use rustix::io::Errno;

use crate::host::files::{FileError, on};
use crate::host::walk::{FLAGS, Visitor, walk};

const SETGID: u32 = 0o2000;

/// The mode of a file or directory whose group may use it.
pub(super) fn group_mode(mode: u32, is_dir: bool, read_only: bool) -> u32 {
    let mode = mode | if read_only { 0o440 } else { 0o660 };
    if is_dir { mode | 0o110 | SETGID } else { mode }
}

/// Gives a volume to a group, unless its directory is the group's already.
pub(super) fn apply_group(root: &Path, gid: u32, read_only: bool) -> Result<(), FileError> {
    let fail = |error: Errno| on("cannot set the group of", root)(error.into());
    let dir = open(CWD, root).map_err(fail)?;
    let stat = fstat(&dir).map_err(fail)?;
    let mode = stat.st_mode & 0o7777;
    if stat.st_gid == gid && mode == group_mode(mode, true, read_only) {
        return Ok(());
    }
    let dir = openat(&dir, ".", FLAGS, Mode::empty()).map_err(fail)?;
    walk(dir, &mut Giving { gid, read_only }).map_err(fail)
}

fn open(at: impl AsFd, name: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    openat(at, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Gives what it visits to the group. What is inside first: a directory that is the group's says that all below it is.
struct Giving {
    gid: u32,
    read_only: bool,
}

impl Giving {
    fn give(&self, file: BorrowedFd<'_>, stat: &Stat) -> rustix::io::Result<()> {
        let kind = FileType::from_raw_mode(stat.st_mode);
        chownat(file, "", None, Some(Gid::from_raw(self.gid)), AtFlags::EMPTY_PATH)?;
        if kind == FileType::Symlink {
            return Ok(());
        }
        let is_dir = kind == FileType::Directory;
        let mode = Mode::from_raw_mode(group_mode(stat.st_mode & 0o7777, is_dir, self.read_only));
        // The mode of a file that is open as a path only can be set in no other way.
        rustix::fs::chmod(format!("/proc/self/fd/{}", file.as_raw_fd()), mode)
    }
}

impl Visitor for Giving {
    fn entry(&mut self, dir: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<bool> {
        let file = match open(dir, name) {
            // Gone meanwhile.
            Err(Errno::NOENT) => return Ok(false),
            file => file?,
        };
        let stat = fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            return Ok(true);
        }
        self.give(file.as_fd(), &stat)?;
        Ok(false)
    }

    fn enters(&self, _: &Stat) -> bool {
        true
    }

    fn leave(&mut self, dir: BorrowedFd<'_>) -> rustix::io::Result<()> {
        self.give(dir, &fstat(dir)?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    #[test]
    fn modes() {
        let rows = [
            (0o777, true, false, 0o2777),
            (0o755, true, false, 0o2775),
            (0o755, true, true, 0o2755),
            (0o700, true, true, 0o2750),
            (0o600, false, false, 0o660),
            (0o400, false, true, 0o440),
            (0o644, false, true, 0o644),
        ];
        for (mode, is_dir, read_only, expect) in rows {
            assert_eq!(group_mode(mode, is_dir, read_only), expect, "{mode:o} {is_dir} {read_only}");
        }
    }

    #[test]
    fn links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let own = fs::metadata(dir.path()).unwrap();
        let (volume, outside) = (dir.path().join("v"), dir.path().join("outside"));
        fs::create_dir_all(volume.join("d/e")).unwrap();
        fs::write(volume.join("d/e/file"), "x").unwrap();
        fs::write(&outside, "x").unwrap();
        fs::set_permissions(&outside, fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&outside, volume.join("link")).unwrap();
        symlink(dir.path(), volume.join("d/dir-link")).unwrap();
        rustix::fs::mknodat(CWD, volume.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        // Root may give a file to any group, others to their own.
        let gid = if own.uid() == 0 { 4242 } else { own.gid() };
        apply_group(&volume, gid, false).unwrap();
        let mode = |path: &str| fs::metadata(volume.join(path)).unwrap().mode() & 0o7777;
        assert_eq!((mode("."), mode("d"), mode("d/e/file"), mode("fifo")), (0o2775, 0o2775, 0o664, 0o660));
        for path in ["d", "d/e", "d/e/file", "fifo"] {
            assert_eq!(fs::metadata(volume.join(path)).unwrap().gid(), gid, "{path}");
        }
        let untouched = fs::metadata(&outside).unwrap();
        assert_eq!((untouched.mode() & 0o7777, untouched.gid()), (0o600, own.gid()));
        assert_eq!(fs::metadata(dir.path()).unwrap().mode(), own.mode());
    }

    #[test]
    fn a_tree_may_be_as_deep_as_a_shell_can_make_it() {
        let dir = tempfile::tempdir().unwrap();
        crate::host::walk::testing::nest(dir.path(), 5_000, b"x");
        apply_group(dir.path(), fs::metadata(dir.path()).unwrap().gid(), true).unwrap();
        assert_eq!(fs::metadata(dir.path()).unwrap().mode() & SETGID, SETGID);
        crate::host::files::remove_tree(&dir.keep()).unwrap();
    }
}
