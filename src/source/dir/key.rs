//! The public key of signed manifests: read again each time, so that a new one counts without a restart.

use std::io;
use std::path::{Path, PathBuf};

use tracing::{info, warn};

use super::access::Role;
use super::files::Signed;
use super::scan::{Contents, Rules, read_regular, trust};
use crate::pod::finding::Finding;
use crate::source::signature::{EXTENSION, PublicKey, SignatureError};
use crate::text::chain;

/// A longer file is not a key.
const MAX_KEY: usize = 4 << 10;

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub(in crate::source) enum KeyError {
    /// It cannot be read.
    #[error("cannot read the public key {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others than root could have written it.
    #[error("the public key {reason}")]
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

/// The key file, and what it held when it was last read.
pub(super) struct Key {
    path: PathBuf,
    /// Why there is none.
    key: Result<PublicKey, String>,
}

impl Key {
    /// The key at a path, which is not read yet.
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path, key: Err("the public key was not read yet".into()) }
    }

    /// Where it lies.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it; true if it is another one. Blocking.
    pub(super) fn reread(&mut self, rules: Rules) -> bool {
        let key = read_key(&self.path, rules.own_uid).map_err(|error| chain(&error));
        if key == self.key {
            return false;
        }
        match &key {
            Ok(key) => info!(path = %self.path.display(), %key, "manifests must be signed with this key"),
            Err(reason) => warn!(reason, "no signature can be checked; what runs stays as it is"),
        }
        self.key = key;
        true
    }

    /// The signature of a manifest.
    ///
    /// # Errors
    /// When it has none, or one that proves nothing.
    pub(super) fn check(&self, contents: &Contents) -> Result<Signed, Finding> {
        let key = self.key.as_ref().map_err(|reason| Finding::whole(format!("not checked: {reason}")))?;
        let Some(signature) = &contents.signature else {
            return Err(Finding::whole(format!("not signed: there is no .{EXTENSION} file beside it")));
        };
        let trusted = key.verify(&contents.bytes, signature);
        let trusted = trusted.map_err(|error| Finding::whole(error.to_string()))?;
        Ok(Signed { key: key.to_string(), serial: trusted.serial })
    }
}

/// Reads a key that only root, or `own_uid`, can have written; anybody's if that is none. Blocking, but never for long.
///
/// # Errors
/// When it cannot be read, cannot be trusted, or is none.
pub(in crate::source) fn read_key(path: &Path, own_uid: Option<u32>) -> Result<PublicKey, KeyError> {
    let at = || path.to_owned();
    let (bytes, metadata) =
        read_regular(path, MAX_KEY).map_err(|source| KeyError::Read { path: at(), source })?;
    let rules = Rules { own_uid, signatures: false };
    trust(path, Role::File, &metadata, rules).map_err(|reason| KeyError::Distrusted { reason })?;
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

    const KEY: &str = include_str!("../../../tests/fixtures/minisign/other.pub");

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
