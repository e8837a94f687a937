//! The directories, logs and links of a pod on disk. Blocking: called through `smol::unblock`.

use std::fs;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::mounts::{mount_under, read_mounts};
use super::remove_tree;

/// The longest file of the system that is read; lists of blocked hosts in `/etc/hosts` have a few MiB.
const MAX_TEXT: u64 = 16 << 20;

/// A file or directory that could not be made, read or removed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// The file system refused.
    #[error("{operation} {}", path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// With which path.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A mount lies where a directory is to be removed: what is mounted there is not ours to delete.
    #[error("{} is a mount point, {} stays", mount.display(), dir.display())]
    Mounted {
        /// The mount point.
        mount: PathBuf,
        /// The directory.
        dir: PathBuf,
    },
}

impl FileError {
    /// There is no such file.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::File { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// Makes a directory and its parents, with this mode.
pub(crate) fn make_dir(path: &Path, mode: u32) -> Result<(), FileError> {
    fs::DirBuilder::new().recursive(true).mode(mode).create(path).map_err(on("cannot create directory", path))
}

/// Makes a directory whose mode counts whatever the umask is.
pub(crate) fn make_dir_exactly(path: &Path, mode: u32) -> Result<(), FileError> {
    make_dir(path, mode)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(on("cannot set the mode of", path))
}

/// Reads a file of the system as text. What is not UTF-8 in it (a comment in Latin-1) is replaced, and refuses nothing. Does not
/// wait for who writes to a FIFO, nor read without end.
pub(crate) fn read_text(path: &Path) -> Result<String, FileError> {
    let read = || -> io::Result<Vec<u8>> {
        let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
        let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let mut bytes = Vec::new();
        file.take(MAX_TEXT + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_TEXT {
            return Err(io::Error::new(ErrorKind::FileTooLarge, format!("longer than {MAX_TEXT} bytes")));
        }
        Ok(bytes)
    };
    let bytes = read().map_err(on("cannot read", path))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Points a link at a container's log. Names that were cut may be the same for several logs: the newest has the link.
pub(crate) fn link_log(link: &Path, log: &Path) -> Result<(), FileError> {
    if let Some(parent) = link.parent() {
        make_dir(parent, 0o755)?;
    }
    if leads_to(link, log) {
        return Ok(());
    }
    remove_file(link)?;
    symlink(log, link).map_err(on("cannot create link", link))
}

/// Removes a log with its rotated parts, and its link, unless that leads to a newer log.
pub(crate) fn remove_log(log: &Path, link: &Path) -> Result<(), FileError> {
    let (Some(dir), Some(name)) = (log.parent(), log.file_name().and_then(|n| n.to_str())) else {
        return Ok(());
    };
    let entries = match fs::read_dir(dir) {
        Err(error) if is_absent(&error) => None,
        entries => Some(entries.map_err(on("cannot read", dir))?),
    };
    for entry in entries.into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|found| found.starts_with(name)) {
            remove_file(&entry.path())?;
        }
    }
    if leads_to(link, log) { remove_file(link) } else { Ok(()) }
}

fn leads_to(link: &Path, log: &Path) -> bool {
    fs::read_link(link).is_ok_and(|target| target == log)
}

/// Replaces a file that only root may read, so that a power cut leaves the old or the new one.
pub(crate) fn replace_synced(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let unfinished = path.with_extension("tmp");
    let put = || -> io::Result<()> {
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&unfinished, path)
    };
    put().map_err(on("cannot write", path))
}

/// Removes a file; one that is gone is removed.
pub(crate) fn remove_file(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Err(error) if is_absent(&error) => Ok(()),
        done => done.map_err(on("cannot remove", path)),
    }
}

/// Removes a directory with all that is in it, unless something is mounted there.
pub(crate) fn remove_tree(dir: &Path) -> Result<(), FileError> {
    // The kernel lists mounts by their real path.
    let real = match fs::canonicalize(dir) {
        Err(error) if is_absent(&error) => return Ok(()),
        real => real.map_err(on("cannot resolve", dir))?,
    };
    let mounts = read_mounts()?;
    if let Some(mount) = mount_under(&mounts, &real) {
        return Err(FileError::Mounted { mount: mount.point.clone(), dir: dir.to_owned() });
    }
    match remove_tree::remove_tree(&real) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done.map_err(on("cannot remove", dir)),
    }
}

/// There is no such file, nor can there be: a name that is too long for the file system was never made.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidFilename)
}

/// Names what failed.
pub(crate) fn on(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
    let path = path.to_owned();
    move |source| FileError::File { operation, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_exist_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let long = dir.path().join("n".repeat(300));
        remove_tree(&long).unwrap();
        remove_file(&long).unwrap();
        remove_log(&long.join("0.log"), &long).unwrap();
    }

    #[test]
    fn a_file_of_the_system_may_be_anything() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let dir = tempfile::tempdir().unwrap();
        let (odd, fifo) = (dir.path().join("odd"), dir.path().join("fifo"));
        fs::write(&odd, b"nameserver 192.0.2.1 # caf\xe9\n").unwrap();
        assert_eq!(read_text(&odd).unwrap(), "nameserver 192.0.2.1 # caf\u{fffd}\n");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        assert_eq!(read_text(&fifo).unwrap(), "", "nobody writes to it");
        assert_eq!(read_text(Path::new("/dev/null")).unwrap(), "");
        assert!(read_text(Path::new("/dev/zero")).is_err(), "it has no end");
        assert!(read_text(dir.path()).is_err());
    }

    #[test]
    fn a_link_with_the_name_of_another_leads_to_the_newest_log() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second, link) =
            (dir.path().join("0.log"), dir.path().join("1.log"), dir.path().join("l"));
        for log in [&first, &second] {
            fs::write(log, "x").unwrap();
            link_log(&link, log).unwrap();
            assert_eq!(fs::read_link(&link).unwrap(), *log);
        }
        remove_log(&first, &link).unwrap();
        assert_eq!(fs::read_link(&link).unwrap(), second, "it is the other's by now");
        remove_log(&second, &link).unwrap();
        assert!(fs::symlink_metadata(&link).is_err());
    }

    #[test]
    fn a_log_goes_with_its_rotated_parts_and_link() {
        let dir = tempfile::tempdir().unwrap();
        let (log, link) = (dir.path().join("1.log"), dir.path().join("link"));
        for name in ["1.log", "1.log.20260101-000000.gz", "11.log", "0.log"] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        link_log(&link, &log).unwrap();
        link_log(&link, &log).unwrap();
        remove_log(&log, &link).unwrap();
        remove_log(&log, &link).unwrap();
        let mut left: Vec<_> =
            fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        assert_eq!(left, ["0.log", "11.log"]);
    }
}
