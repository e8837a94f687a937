//! Goes through all that is below a directory, however deep that is. Blocking.
//!
//! What lies in a volume is a container's doing: a shell loop makes directories a hundred thousand deep. So neither the stack
//! nor the number of open files grows with the depth. Every step is from an open directory, and no link is followed. The way
//! back up from great depth is `..`, which counts only if it leads to where the way down came from.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Dir, Mode, OFlags, Stat, fstat, openat};
use rustix::io::{Errno, Result};

/// How a directory is opened.
pub(in crate::host) const FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOATIME);
/// So many of the levels stay open: what is moved there meanwhile does not disturb.
const OPEN_LEVELS: usize = 64;

/// What is done on the way.
pub(in crate::host) trait Visitor {
    /// Something in a directory; says whether it is a directory to go into.
    fn entry(&mut self, dir: BorrowedFd<'_>, name: &CStr) -> Result<bool>;

    /// Whether a directory that was opened is gone into.
    fn enters(&self, stat: &Stat) -> bool;

    /// All that is in a directory was visited.
    fn leave(&mut self, dir: BorrowedFd<'_>) -> Result<()>;
}

struct Level {
    open: Option<OwnedFd>,
    id: (u64, u64),
    /// The directories in it that are still to be visited.
    below: Vec<CString>,
}

/// Visits all below a directory, each directory after what is in it.
///
/// # Errors
/// The first of the visitor, or of the file system; that something deep was moved meanwhile.
pub(in crate::host) fn walk(top: OwnedFd, visitor: &mut impl Visitor) -> Result<()> {
    let mut dir = top;
    let mut levels = vec![Level { open: None, id: id(&fstat(&dir)?), below: list(&dir, visitor)? }];
    loop {
        let depth = levels.len();
        let Some(level) = levels.last_mut() else { return Ok(()) };
        if let Some(name) = level.below.pop() {
            let child = match openat(dir.as_fd(), &name, FLAGS, Mode::empty()) {
                // Gone, or something else by now.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                child => child?,
            };
            let stat = fstat(&child)?;
            if !visitor.enters(&stat) {
                continue;
            }
            let parent = std::mem::replace(&mut dir, child);
            level.open = (depth <= OPEN_LEVELS).then_some(parent);
            let below = list(&dir, visitor)?;
            levels.push(Level { open: None, id: id(&stat), below });
            continue;
        }
        visitor.leave(dir.as_fd())?;
        levels.pop();
        let Some(parent) = levels.last_mut() else { return Ok(()) };
        dir = match parent.open.take() {
            Some(open) => open,
            None => openat(dir.as_fd(), c"..", FLAGS, Mode::empty())?,
        };
        if id(&fstat(&dir)?) != parent.id {
            return Err(Errno::STALE);
        }
    }
}

fn id(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

fn list(dir: &OwnedFd, visitor: &mut impl Visitor) -> Result<Vec<CString>> {
    let mut below = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if !matches!(name.to_bytes(), b"." | b"..") && visitor.entry(dir.as_fd(), name)? {
            below.push(name.to_owned());
        }
    }
    Ok(below)
}

#[cfg(test)]
pub(super) mod testing {
    //! Trees as containers make them.

    use std::path::Path;

    use rustix::fs::{CWD, mkdirat};

    use super::*;

    /// Makes directories in each other, so many, and a file of 1 MiB in the last.
    pub(crate) fn nest(dir: &Path, depth: usize, content: &[u8]) {
        let mut open = openat(CWD, dir, FLAGS, Mode::empty()).unwrap();
        for _ in 0..depth {
            mkdirat(&open, c"d", Mode::RWXU).unwrap();
            open = openat(&open, c"d", FLAGS, Mode::empty()).unwrap();
        }
        let flags = OFlags::CREATE | OFlags::WRONLY;
        let file = openat(&open, c"file", flags, Mode::RUSR | Mode::WUSR).unwrap();
        let written = rustix::io::write(&file, &content.repeat((1 << 20) / content.len())).unwrap();
        assert_eq!(written, 1 << 20);
        rustix::fs::fsync(&file).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Count {
        moves: Option<std::path::PathBuf>,
        left: usize,
    }

    impl Visitor for Count {
        fn entry(&mut self, _: BorrowedFd<'_>, name: &CStr) -> Result<bool> {
            Ok(name == c"d")
        }

        fn enters(&self, _: &Stat) -> bool {
            true
        }

        fn leave(&mut self, _: BorrowedFd<'_>) -> Result<()> {
            self.left += 1;
            if let Some(dir) = self.moves.take() {
                // Somebody moves a directory out while we are below it.
                let deep = dir.join("d/".repeat(OPEN_LEVELS + 10));
                std::fs::rename(deep, dir.join("moved")).unwrap();
            }
            Ok(())
        }
    }

    fn visit(depth: usize, is_moved: bool) -> (Result<()>, usize) {
        let dir = tempfile::tempdir().unwrap();
        testing::nest(dir.path(), depth, b"x");
        let mut count = Count { moves: is_moved.then(|| dir.path().to_owned()), left: 0 };
        let top = openat(rustix::fs::CWD, dir.path(), FLAGS, Mode::empty()).unwrap();
        let result = walk(top, &mut count);
        super::super::files::remove_tree(&dir.keep()).unwrap();
        (result, count.left)
    }

    #[test]
    fn each_directory_once_and_nowhere_else() {
        for depth in [0, 1, OPEN_LEVELS - 1, OPEN_LEVELS, OPEN_LEVELS + 1, 3_000] {
            assert_eq!(visit(depth, false), (Ok(()), depth + 1));
        }
        let (result, left) = visit(OPEN_LEVELS + 20, true);
        assert_eq!(result, Err(Errno::STALE));
        assert_eq!(left, 11, "nothing outside of the tree was visited");
    }
}
