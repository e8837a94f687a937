//! The unix socket's file: made so that nobody else can ever connect, and removed at the end.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use super::ServerError;

/// Binds the socket. It gets its permissions under another name, so that it never stands under its own with wider
/// ones; one that a killed agent left is replaced.
pub(super) fn bind(path: &Path) -> Result<UnixListener, ServerError> {
    if UnixStream::connect(path).is_ok() {
        return Err(ServerError::SocketTaken { path: path.to_owned() });
    }
    bind_anew(path).map_err(|source| ServerError::Socket { path: path.to_owned(), source })
}

fn bind_anew(path: &Path) -> io::Result<UnixListener> {
    if fs::symlink_metadata(path).is_ok_and(|there| !is_socket(&there)) {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "there is a file that is not a socket"));
    }
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let unfinished = with_suffix(path, ".new");
    remove_if_there(&unfinished)?;
    let listener = UnixListener::bind(&unfinished)?;
    let named = fs::set_permissions(&unfinished, Permissions::from_mode(0o600))
        .and_then(|()| fs::rename(&unfinished, path));
    named.inspect_err(|_| drop(fs::remove_file(&unfinished)))?;
    Ok(listener)
}

fn is_socket(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_socket(&metadata.file_type())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes the socket's file when the agent ends. One that stays is replaced by the next agent.
pub(crate) fn remove_socket(path: &Path) {
    if fs::symlink_metadata(path).is_ok_and(|there| is_socket(&there)) {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_socket_is_made_replaced_and_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run/agent.sock");
        let first = bind(&path).unwrap();
        assert_eq!(fs::symlink_metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(matches!(bind(&path), Err(ServerError::SocketTaken { .. })), "one that is listened on stays");
        drop(first);
        let _second = bind(&path).unwrap();
        assert!(UnixStream::connect(&path).is_ok(), "one that was left is replaced");
        assert_eq!(fs::read_dir(directory.path().join("run")).unwrap().count(), 1, "nothing else is left");
        remove_socket(&path);
        assert!(!path.exists());
    }

    #[test]
    fn what_is_no_socket_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "text").unwrap();
        assert!(matches!(bind(&path), Err(ServerError::Socket { .. })));
        remove_socket(&path);
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
    }
}
