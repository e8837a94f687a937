//! The public key of signed manifests: read again with each reading, so that a new one counts without a restart.

use std::path::{Path, PathBuf};

use tracing::{info, warn};

use super::files::{Audit, Signed};
use super::scan::FileContents;
use crate::pod::finding::Finding;
use crate::source::key::read_key;
use crate::source::signature::{EXTENSION, PublicKey, check_signer};
use crate::text::chain;

/// The key file, and what it held when it was last read.
#[derive(Debug, Clone)]
pub(super) struct SigningKey {
    path: PathBuf,
    /// Why there is none.
    key: Result<PublicKey, String>,
}

impl SigningKey {
    /// The key at a path, which is not read yet.
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path, key: Err("the public key was not read yet".into()) }
    }

    /// Where it lies.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it; true if it is another one. Blocking.
    pub(super) fn reread(&mut self, own_uid: Option<u32>) -> bool {
        let key = read_key(&self.path, own_uid).map_err(|error| chain(&error));
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

    /// Checks the signature of a manifest.
    ///
    /// # Errors
    /// When it has none, or one that proves nothing.
    pub(super) fn check(&self, contents: &FileContents) -> Result<Signed, Finding> {
        let key = self.key.as_ref().map_err(|reason| Finding::whole(format!("not checked: {reason}")))?;
        let Some(signature) = &contents.signature else {
            return Err(Finding::whole(format!("not signed: there is no .{EXTENSION} file beside it")));
        };
        let trusted = key.verify(&contents.bytes, signature);
        let trusted = trusted.map_err(|error| Finding::whole(error.to_string()))?;
        Ok(Signed { key: key.to_string(), serial: trusted.serial })
    }

    /// Whether a version that was accepted before may be started: see [`check_signer`].
    ///
    /// # Errors
    /// When it may not, with the reason.
    pub(super) fn check_signer(&self, audit: &Audit) -> Result<(), String> {
        let signer = audit.signed.as_ref().map(|signed| signed.key.as_str());
        check_signer(self.key.as_ref().map_err(String::as_str), signer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_good_version_must_be_signed_by_the_key_that_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key.pub");
        let texts = [
            include_str!("../../../tests/fixtures/minisign/key.pub"),
            include_str!("../../../tests/fixtures/minisign/other.pub"),
        ];
        let [one, other] = texts.map(|text| PublicKey::parse(text).unwrap().to_string());
        let audit = |key: Option<&str>| Audit {
            sha256: "0".into(),
            owner: 0,
            mode: 0o644,
            signed: key.map(|key| Signed { key: key.into(), serial: None }),
        };
        // What the key's file holds, who signed the version, and the reason if it may not be started.
        let cases = [
            (Some(texts[0]), Some(&one), None),
            (Some(texts[1]), Some(&one), Some("it was signed by")),
            (Some(texts[1]), Some(&other), None),
            (Some(texts[0]), None, Some("before manifests had to be signed")),
            (Some("no key"), Some(&one), Some("not a public key of minisign")),
            (None, Some(&one), Some("cannot read the public key")),
        ];
        for (text, signer, expect) in cases {
            let _ = std::fs::remove_file(&path);
            if let Some(text) = text {
                std::fs::write(&path, text).unwrap();
            }
            let mut key = SigningKey::at(path.clone());
            let signed = audit(signer.map(String::as_str));
            assert!(key.check_signer(&signed).is_err(), "before it was read");
            key.reread(None);
            match (key.check_signer(&signed), expect) {
                (Ok(()), None) => {}
                (Err(reason), Some(words)) => assert!(reason.contains(words), "{reason}"),
                (found, expect) => panic!("{found:?}, not {expect:?}"),
            }
        }
    }
}
