//! Reads the public key that manifests must be signed with: a short file that only root can have written.

use std::io;
use std::path::{Path, PathBuf};

use super::signature::{PublicKey, SignatureError};
use super::trust::{PathRole, WalkError, check, locate};

/// A longer file is not a key.
const MAX_KEY: usize = 4 << 10;

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeyError {
    /// It cannot be read.
    #[error("cannot read the public key {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others than root could have written it.
    #[error("the public key cannot be trusted: {reason}")]
    Distrusted {
        /// The file, its mode and its owner.
        reason: String,
    },
    /// No key is as long.
    #[error("the public key {} has more than {MAX_KEY} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// It is none.
    #[error("the public key {}", path.display())]
    Bad {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: SignatureError,
    },
}

/// Reads a key that only root, or `own_uid`, can have written; anybody's if that is none. Blocking.
///
/// # Errors
/// When it cannot be read, cannot be trusted, or is none.
pub(super) fn read_key(path: &Path, own_uid: Option<u32>) -> Result<PublicKey, KeyError> {
    let at = || path.to_owned();
    let read_error = |source| KeyError::Read { path: at(), source };
    let file = locate(path, own_uid).map_err(|error| match error {
        WalkError::Absent => read_error(rustix::io::Errno::NOENT.into()),
        WalkError::Io(source) => read_error(source),
        WalkError::Distrusted(reason) => KeyError::Distrusted { reason },
    })?;
    let (bytes, metadata) = file.read(MAX_KEY).map_err(read_error)?;
    check(&file.path, PathRole::File, &metadata, own_uid)
        .map_err(|reason| KeyError::Distrusted { reason })?;
    if bytes.len() > MAX_KEY {
        return Err(KeyError::TooLong { path: at() });
    }
    PublicKey::parse(&String::from_utf8_lossy(&bytes)).map_err(|source| KeyError::Bad { path: at(), source })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;
    use crate::text::chain;

    const KEY: &str = include_str!("../../tests/fixtures/minisign/other.pub");

    #[test]
    fn a_key_is_a_short_file_that_only_root_can_have_written() {
        let dir = tempfile::tempdir().unwrap();
        let own_uid = Some(rustix::process::geteuid().as_raw());
        let file = |name: &str, text: &str, mode| {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            path
        };
        let fifo = dir.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let (good, open) = (file("good", KEY, 0o644), file("open", KEY, 0o666));
        let long = file("long", &format!("{KEY}{}", "\n".repeat(MAX_KEY)), 0o644);
        let cases = [
            ("good", &good, own_uid, None),
            ("anybody's", &open, own_uid, Some("can be written by group or others")),
            ("anybody's, which is allowed", &open, None, None),
            ("long", &long, own_uid, Some("has more than 4096 bytes")),
            ("a FIFO", &fifo, own_uid, Some("is not a regular file")),
            ("gone", &dir.path().join("gone"), own_uid, Some("cannot read the public key")),
            ("no key", &file("none", "none", 0o600), own_uid, Some("not a public key of minisign")),
        ];
        for (name, path, own_uid, expect) in cases {
            let reason = read_key(path, own_uid).err().map(|error| chain(&error));
            match (reason, expect) {
                (None, None) => {}
                (Some(reason), Some(words)) => assert!(reason.contains(words), "{name}: {reason}"),
                (reason, _) => panic!("{name}: {reason:?}"),
            }
        }
    }
}
