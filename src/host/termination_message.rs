//! The file that a container leaves its termination message in, and what is read of it and of its log.
//!
//! The file is in the container's hands: it may be endless, or be made into something else by whoever can reach the
//! node's directories. No read here waits, follows a link, or takes in more than its limit. Blocking: called through
//! `smol::unblock`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use super::files::{self, FileError};
use crate::pod::termination_message::{LOG_WINDOW, MAX_FILE, MessageFallback, from_file, from_log};

/// Makes the empty file of a new container, which any user in it may write.
pub(crate) fn make_file(path: &Path) -> Result<(), FileError> {
    const MODE: u32 = 0o666;
    if let Some(dir) = path.parent() {
        files::make_dir(dir, 0o750)?;
    }
    // One that a container of this attempt left, which was made and never started, is not opened but replaced.
    files::remove_file(path)?;
    let made = OpenOptions::new().write(true).create_new(true).open(path);
    let file = made.map_err(files::on("cannot create", path))?;
    // Whatever the umask is.
    file.set_permissions(fs::Permissions::from_mode(MODE)).map_err(files::on("cannot set the mode of", path))
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
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let mut file: File = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
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
