//! How much disk a directory takes, as `du -x` counts it. Blocking.
//!
//! Every step is from an open directory and follows no link, so that nobody in a container can lead the count elsewhere; a
//! mount inside is not entered.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, Stat, fstat, openat, statat};
use rustix::io::Errno;

use super::files::{FileError, on};
use super::walk::{FLAGS, Visitor, walk};

/// A block as `stat` counts them.
const BLOCK: u64 = 512;

/// The bytes that a directory and all below it take; one that is not there takes none.
///
/// # Errors
/// When it cannot be read. What goes away meanwhile takes nothing.
pub(crate) fn disk_usage(dir: &Path) -> Result<u64, FileError> {
    Ok(count_disk(dir, Counted::Whole)?.bytes)
}

/// What is counted of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    /// A directory and all below it.
    Whole,
    /// What is below it alone.
    Inside,
    /// A file.
    File,
}

/// What something takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DiskCount {
    /// Bytes.
    pub(crate) bytes: u64,
    /// Inodes.
    pub(crate) inodes: u64,
}

/// What a file or a directory takes; one that is not there takes nothing.
///
/// # Errors
/// When it cannot be read. What goes away meanwhile takes nothing.
pub(crate) fn count_disk(path: &Path, counted: Counted) -> Result<DiskCount, FileError> {
    let measure = || -> rustix::io::Result<DiskCount> {
        if counted == Counted::File {
            let stat = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
            let mut count = UsageCount::on(&stat);
            count.add(&stat);
            return Ok(count.count);
        }
        let open = openat(CWD, path, FLAGS, Mode::empty())?;
        let stat = fstat(&open)?;
        let mut count = UsageCount::on(&stat);
        if counted == Counted::Whole {
            count.add(&stat);
        }
        walk(open, &mut count)?;
        Ok(count.count)
    };
    match measure() {
        Err(Errno::NOENT) => Ok(DiskCount::default()),
        measured => measured.map_err(|error| on("cannot measure", path)(error.into())),
    }
}

struct UsageCount {
    device: u64,
    /// Files with several names, which count once.
    seen: BTreeSet<u64>,
    count: DiskCount,
}

impl UsageCount {
    fn on(stat: &Stat) -> Self {
        Self { device: stat.st_dev, seen: BTreeSet::new(), count: DiskCount::default() }
    }

    fn add(&mut self, stat: &Stat) {
        let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if !is_dir && stat.st_nlink > 1 && !self.seen.insert(stat.st_ino) {
            return;
        }
        let blocks = u64::try_from(stat.st_blocks).unwrap_or_default();
        self.count.bytes = self.count.bytes.saturating_add(blocks.saturating_mul(BLOCK));
        self.count.inodes += 1;
    }
}

impl Visitor for UsageCount {
    fn entry(&mut self, dir: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<bool> {
        let stat = match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(false),
            stat => stat?,
        };
        if !self.enters(&stat) {
            return Ok(false);
        }
        self.add(&stat);
        Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }

    fn enters(&self, stat: &Stat) -> bool {
        stat.st_dev == self.device
    }

    fn leave(&mut self, _: BorrowedFd<'_>) -> rustix::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn as_du_counts() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("v");
        assert_eq!(disk_usage(&root).unwrap(), 0, "what is not there takes nothing");
        fs::create_dir_all(root.join("a/b/c")).unwrap();
        fs::write(root.join("a/file"), vec![1; 100_000]).unwrap();
        fs::hard_link(root.join("a/file"), root.join("a/b/again")).unwrap();
        let outside = dir.path().join("outside");
        fs::write(&outside, vec![1; 1_000_000]).unwrap();
        symlink(&outside, root.join("link")).unwrap();
        symlink("/", root.join("a/b/root")).unwrap();
        let sparse = fs::File::create(root.join("sparse")).unwrap();
        sparse.set_len(1 << 40).unwrap();
        for name in ["a/file", "a/b/again"] {
            fs::File::open(root.join(name)).unwrap().sync_all().unwrap();
        }
        let du = std::process::Command::new("du").args(["-sx", "-B1"]).arg(&root).output().unwrap();
        let expect: u64 =
            String::from_utf8(du.stdout).unwrap().split_whitespace().next().unwrap().parse().unwrap();
        let found = disk_usage(&root).unwrap();
        assert_eq!(found, expect);
        assert!((100_000..400_000).contains(&found), "{found}");
        let count = |path: &Path, counted| count_disk(path, counted).unwrap();
        // Two links, a file of two names, a sparse one, and three directories below the first.
        assert_eq!(count(&root, Counted::Whole), DiskCount { bytes: expect, inodes: 8 });
        assert_eq!(count(&root, Counted::Inside).inodes, 7);
        assert_eq!(count(&outside, Counted::File).inodes, 1);
        assert!(count(&outside, Counted::File).bytes >= 1_000_000);
        assert_eq!(count(&root.join("none"), Counted::File), DiskCount::default());
    }

    #[test]
    fn nothing_lies_too_deep_to_be_counted() {
        let dir = tempfile::tempdir().unwrap();
        crate::host::walk::testing::nest(dir.path(), 5_000, b"here");
        let found = disk_usage(dir.path()).unwrap();
        let deepest = 1 << 20;
        assert!(found > deepest, "{found}");
        crate::host::files::remove_tree(&dir.keep()).unwrap();
    }
}
