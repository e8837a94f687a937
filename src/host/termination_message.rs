//! The file that a container leaves its termination message in, and what is read of it and of its log.
//!
//! The file is in the container's hands: it may be endless, or be made into something else by whoever can reach the
//! node's directories. No read here waits, follows a link, or takes in more than its limit. Blocking: called through
//! `smol::unblock`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use super::files::{self, FileError};
use crate::pod::termination_message::{LOG_WINDOW, MAX_FILE, MessageFallback, from_file, from_log};

/// Any user in the container may write it.
const MODE: u32 = 0o666;

/// Makes the empty file of a new container. One that an earlier container left empty is used again: that writes nothing to
/// the disk.
pub(crate) fn make_file(path: &Path) -> Result<(), FileError> {
    if empty(path).unwrap_or(false) {
        return Ok(());
    }
    if let Some(dir) = path.parent() {
        files::make_dir(dir, 0o750)?;
    }
    files::remove_file(path)?;
    let made = OpenOptions::new().write(true).create_new(true).open(path);
    let file = made.map_err(files::on("cannot create", path))?;
    // Whatever the umask is.
    file.set_permissions(fs::Permissions::from_mode(MODE)).map_err(files::on("cannot set the mode of", path))
}

/// Whether the file is there, as it would be made anew. What an earlier container wrote is taken out of it; what was made into
/// something else, or is known by a second name, is left to be replaced.
fn empty(path: &Path) -> io::Result<bool> {
    let found = fs::symlink_metadata(path)?;
    if found.len() == 0 || !is_as_made(&found) {
        return Ok(is_as_made(&found));
    }
    let file = open(path, OpenOptions::new().write(true))?;
    let opened = is_as_made(&file.metadata()?);
    if opened {
        file.set_len(0)?;
    }
    Ok(opened)
}

fn is_as_made(found: &fs::Metadata) -> bool {
    found.is_file()
        && found.nlink() == 1
        && found.permissions().mode() & 0o7777 == MODE
        && found.uid() == rustix::process::geteuid().as_raw()
        && found.gid() == rustix::process::getegid().as_raw()
}

/// Opens what may be anything by now: never waits, never follows a link.
fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    options.custom_flags(i32::try_from(flags.bits()).map_err(io::Error::other)?).open(path)
}

/// The termination message of a container: of its file, if it has one, or else of its log.
pub(crate) fn read(file: Option<&Path>, log: &Path, fallback: MessageFallback) -> String {
    let words = match file.map(|path| (path, read_end(path, MAX_FILE))) {
        None => String::new(),
        Some((_, Ok((bytes, _)))) => from_file(&bytes),
        Some((_, Err(error))) if error.kind() == ErrorKind::NotFound => String::new(),
        Some((path, Err(error))) => {
            return format!("Error on reading termination log {}: {error}", path.display());
        }
    };
    if !words.is_empty() || fallback == MessageFallback::None {
        return words;
    }
    match read_end(log, LOG_WINDOW) {
        Ok((bytes, whole)) => from_log(&bytes, whole),
        Err(error) => format!("Error on reading termination message from logs: {error}"),
    }
}

/// The end of a regular file, and whether that is all of it.
fn read_end(path: &Path, most: usize) -> io::Result<(Vec<u8>, bool)> {
    let most = most as u64;
    let mut file = open(path, OpenOptions::new().read(true))?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let start = metadata.len().saturating_sub(most);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok((bytes, start == 0))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn words_from_the_file_or_else_from_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let (file, log) = (dir.path().join("c/00000000"), dir.path().join("0.log"));
        fs::write(&log, "2026-11-16T00:39:04Z stderr F out of cheese\n").unwrap();
        make_file(&file).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o666);
        assert_eq!(read(Some(&file), &log, MessageFallback::None), "");
        assert_eq!(read(Some(&file), &log, MessageFallback::Logs), "out of cheese\n");
        assert_eq!(read(None, &log, MessageFallback::Logs), "out of cheese\n");
        assert_eq!(read(Some(&dir.path().join("gone")), &log, MessageFallback::Logs), "out of cheese\n");
        fs::write(&file, "so long").unwrap();
        assert_eq!(read(Some(&file), &log, MessageFallback::Logs), "so long");
        make_file(&file).unwrap();
        assert_eq!(read(Some(&file), &log, MessageFallback::None), "", "made anew");
    }

    #[test]
    fn a_file_is_used_again_unless_it_was_made_into_something_else() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let dir = tempfile::tempdir().unwrap();
        let (file, other) = (dir.path().join("c/00000001"), dir.path().join("other"));
        let state = || fs::symlink_metadata(&file).map(|found| (found.ino(), found.ctime_nsec())).unwrap();
        make_file(&file).unwrap();
        let before = state();
        make_file(&file).unwrap();
        assert_eq!(state(), before, "an empty one is not touched");
        fs::write(&file, "so long").unwrap();
        make_file(&file).unwrap();
        assert_eq!((state().0, fs::read(&file).unwrap()), (before.0, Vec::new()), "emptied in place");

        fs::write(&other, "precious").unwrap();
        let mode = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let gone = || fs::remove_file(&file).unwrap();
        let planted: [(&str, &dyn Fn()); 7] = [
            ("unwritable", &|| mode(0o444)),
            ("setuid", &|| mode(0o4777)),
            ("of another user", &|| std::os::unix::fs::chown(&file, Some(1234), None).unwrap()),
            ("a second name", &|| fs::hard_link(&file, dir.path().join("second")).unwrap()),
            ("a link", &|| (gone(), symlink(&other, &file).unwrap()).1),
            ("a FIFO", &|| (gone(), mknodat(CWD, &file, FileType::Fifo, Mode::RWXU, 0).unwrap()).1),
            ("gone", &gone),
        ];
        for (case, plant) in planted {
            plant();
            make_file(&file).unwrap();
            let found = fs::symlink_metadata(&file).unwrap();
            let as_new = (found.is_file(), found.len(), found.nlink(), found.permissions().mode() & 0o7777);
            assert_eq!(as_new, (true, 0, 1, 0o666), "{case}");
        }
        assert_eq!(fs::read_to_string(&other).unwrap(), "precious");
    }

    #[test]
    fn nothing_that_is_planted_blocks_fills_or_leads_astray() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let dir = tempfile::tempdir().unwrap();
        let planted = |name: &str| dir.path().join(name);
        let said = |path: &Path| read(Some(path), Path::new("/none"), MessageFallback::None);
        fs::write(planted("secret"), "secret").unwrap();
        symlink(planted("secret"), planted("link")).unwrap();
        let link = said(&planted("link"));
        assert!(link.starts_with("Error on reading termination log ") && !link.contains("secret"), "{link}");
        mknodat(CWD, planted("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        assert!(said(&planted("fifo")).ends_with(": not a regular file"));
        assert!(said(dir.path()).ends_with(": not a regular file"));
        File::create(planted("huge")).unwrap().set_len(8 << 30).unwrap();
        assert_eq!(said(&planted("huge")), "\0".repeat(4096));
    }
}
