//! Removes a directory with all that is in it, however deep that is. Blocking.
//!
//! What lies in a volume is a container's doing: a shell loop makes directories a hundred thousand deep, and a removal that goes
//! down with them takes as many open files and overflows its stack, which ends the agent. So what is too deep is moved up
//! first. No link is followed.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, renameat, statat, unlinkat};
use rustix::io::{Errno, Result};

/// How deep the removal goes; each level takes two open files.
const MAX_DEPTH: usize = 16;

/// Removes a directory that is there.
///
/// # Errors
/// At the first that cannot be removed.
pub(super) fn remove_tree(dir: &Path) -> io::Result<()> {
    let top = open(CWD, dir)?;
    let mut removal = Removal { top: top.as_fd(), moved: 0 };
    loop {
        let before = removal.moved;
        removal.empty(top.as_fd(), 0)?;
        if removal.moved == before {
            return fs::remove_dir(dir);
        }
    }
}

struct Removal<'top> {
    /// The directory that is being removed.
    top: BorrowedFd<'top>,
    /// How many directories were moved into it.
    moved: u64,
}

impl Removal<'_> {
    /// Removes what is in a directory.
    fn empty(&mut self, dir: BorrowedFd<'_>, depth: usize) -> Result<()> {
        for entry in Dir::read_from(dir)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let is_dir = is_dir(dir, name, entry.file_type())?;
            if is_dir {
                if depth == MAX_DEPTH {
                    self.move_up(dir, name)?;
                    continue;
                }
                match open(dir, name) {
                    Ok(child) => self.empty(child.as_fd(), depth + 1)?,
                    Err(Errno::NOENT) => continue,
                    Err(error) => return Err(error),
                }
            }
            let flags = if is_dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            gone(unlinkat(dir, name, flags))?;
        }
        Ok(())
    }

    /// Moves a directory to the top, under a name that nobody has there.
    fn move_up(&mut self, dir: BorrowedFd<'_>, name: &CStr) -> Result<()> {
        loop {
            self.moved += 1;
            match renameat(dir, name, self.top, format!(".moved-{}", self.moved)) {
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
                moved => return gone(moved),
            }
        }
    }
}

fn open(at: impl AsFd, name: impl rustix::path::Arg) -> Result<OwnedFd> {
    openat(at, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Some file systems do not tell with the name.
fn is_dir(at: BorrowedFd<'_>, name: &CStr, told: FileType) -> Result<bool> {
    if told != FileType::Unknown {
        return Ok(told == FileType::Directory);
    }
    match statat(at, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(false),
        found => Ok(FileType::from_raw_mode(found?.st_mode) == FileType::Directory),
    }
}

fn gone(removed: Result<()>) -> Result<()> {
    if removed == Err(Errno::NOENT) { Ok(()) } else { removed }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Makes `depth` directories, each in the one before, with a file and a link in each.
    fn nest(top: &Path, depth: usize, outside: &Path) {
        let mut dir = open(CWD, top).unwrap();
        for _ in 0..depth {
            rustix::fs::mkdirat(&dir, "d", Mode::RWXU).unwrap();
            rustix::fs::symlinkat(outside, &dir, "link").unwrap();
            let file = OFlags::CREATE | OFlags::WRONLY;
            drop(openat(&dir, ".moved-1", file, Mode::RWXU).unwrap());
            dir = open(&dir, "d").unwrap();
        }
    }

    #[test]
    fn however_deep_it_is() {
        let root = tempfile::tempdir().unwrap();
        let (tree, outside) = (root.path().join("tree"), root.path().join("outside"));
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("precious"), "x").unwrap();
        for depth in [0, 1, MAX_DEPTH, MAX_DEPTH + 1, 5000] {
            fs::create_dir_all(tree.join("wide/a")).unwrap();
            fs::create_dir_all(tree.join("wide/b/c")).unwrap();
            symlink(&outside, tree.join("wide/b/link")).unwrap();
            nest(&tree.join("wide/a"), depth, &outside);
            nest(&tree, depth, &outside);
            let removed = std::thread::Builder::new().stack_size(256 << 10).spawn({
                let tree = tree.clone();
                move || remove_tree(&tree)
            });
            removed.unwrap().join().unwrap().unwrap();
            assert!(!tree.exists(), "{depth}");
        }
        assert_eq!(fs::read_to_string(outside.join("precious")).unwrap(), "x");
        assert!(remove_tree(&tree).is_err_and(|error| error.kind() == io::ErrorKind::NotFound));
        symlink(&outside, &tree).unwrap();
        assert!(remove_tree(&tree).is_err(), "a link is not followed");
    }
}
