//! Opens files below a directory, whatever others put there: no link is followed, and nothing is waited for.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Component, Path};

use rustix::fs::{CWD, Mode, OFlags, openat};

const DIRECTORY: OFlags =
    OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::RDONLY);
/// A pipe in the place of a file must not hold up anybody.
const FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Opens a regular file or a directory, for reading. `path` must lie below `root`, which itself may be reached through
/// links.
pub(crate) fn open_below_any(root: &Path, path: &Path) -> io::Result<File> {
    let below = path.strip_prefix(root).map_err(|_| io::Error::from(ErrorKind::PermissionDenied))?;
    let mut at = openat(CWD, root, DIRECTORY.difference(OFlags::NOFOLLOW), Mode::empty())?;
    let mut parts = below.components().peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else { return Err(ErrorKind::PermissionDenied.into()) };
        let flags = if parts.peek().is_some() { DIRECTORY } else { FILE };
        at = openat(&at, name, flags, Mode::empty())?;
    }
    let file = File::from(at);
    let kind = file.metadata()?.file_type();
    if kind.is_file() || kind.is_dir() { Ok(file) } else { Err(ErrorKind::InvalidInput.into()) }
}

/// Opens a regular file for reading.
pub(crate) fn open_below(root: &Path, path: &Path) -> io::Result<File> {
    let file = open_below_any(root, path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(ErrorKind::InvalidInput.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_lies_below_is_opened_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        fs::create_dir_all(root.join("a")).unwrap();
        fs::write(root.join("a/file"), "text").unwrap();
        fs::write(directory.path().join("outside"), "secret").unwrap();
        symlink(directory.path().join("outside"), root.join("link")).unwrap();
        symlink(directory.path(), root.join("up")).unwrap();
        rustix::fs::mknodat(
            CWD,
            root.join("pipe"),
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        for (path, opens) in [
            ("root/a/file", true),
            ("root/a/./file", true),
            ("root/a", false),
            ("root/link", false),
            ("root/up/outside", false),
            ("root/../outside", false),
            ("root/a/../../outside", false),
            ("outside", false),
            ("root/pipe", false),
            ("root/none", false),
        ] {
            assert_eq!(open_below(&root, &directory.path().join(path)).is_ok(), opens, "{path}");
        }
        assert!(open_below_any(&root, &root.join("a")).is_ok());
        assert!(open_below_any(&root, &root).is_ok());
    }
}
