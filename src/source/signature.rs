//! Signed manifests: what a signature of minisign's proves, and which signed versions may follow each other. Pure.
//!
//! Invariant: nothing of a signature is believed before both of its halves, the one over the contents and the one over
//! the trusted comment, are found to be made by the key that was given.

#[cfg(test)]
mod tests;

use std::fmt;
use std::fmt::Write as _;

use minisign_verify::{Error as Verification, Signature};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// What follows a file's name, or a URL's path, in the name of its signature.
pub(crate) const EXTENSION: &str = "minisig";
/// A longer signature was not made by minisign.
pub(crate) const MAX_SIGNATURE: usize = 16 << 10;
/// How a trusted comment names the version.
const SERIAL: &str = "serial:";

/// Why signed contents are not believed, or not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The public key is none.
    #[error("not a public key of minisign: a comment line and a line of base64, or the second alone")]
    Key,
    /// The signature is not one of minisign's.
    #[error("the signature is malformed: not the four lines that minisign writes")]
    Malformed,
    /// Contents or trusted comment are not what was signed.
    #[error("tampered with: the signature does not belong to these contents")]
    Tampered,
    /// Somebody else signed it.
    #[error("signed by another key than {key}")]
    OtherKey {
        /// The key that was given.
        key: String,
    },
    /// It signs the contents themselves, not their hash.
    #[error("the signature is of minisign's legacy format: sign it anew, without -l")]
    Legacy,
    /// The serial of the trusted comment cannot be read.
    #[error("the trusted comment {comment:?} does not name one serial, a whole number")]
    Serial {
        /// The comment.
        comment: String,
    },
    /// An older version than one that was taken.
    #[error("replayed: serial {serial} is older than {last}, which was taken before")]
    Older {
        /// Its serial.
        serial: u64,
        /// The newest so far.
        last: u64,
    },
    /// The serial was used before, for something else.
    #[error("serial {serial} was taken before with other contents: give each version a serial of its own")]
    Reused {
        /// The serial.
        serial: u64,
    },
    /// Without a serial nobody can tell whether it is an older one.
    #[error("no serial in the trusted comment, but {last} was taken before")]
    NoSerial {
        /// The newest so far.
        last: u64,
    },
}

/// The key that signatures are checked against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    key: minisign_verify::PublicKey,
    /// As `minisign -P` takes it.
    text: String,
}

/// What a valid signature says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trusted {
    /// The version, if the trusted comment holds `serial:N`.
    pub serial: Option<u64>,
}

/// The newest version with a serial that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Newest {
    /// Its serial.
    pub serial: u64,
    /// The [`digest`] of its contents.
    pub sha256: String,
}

impl PublicKey {
    /// Reads a key as minisign writes it, or its base64 alone.
    ///
    /// # Errors
    /// When it is neither.
    pub fn parse(text: &str) -> Result<Self, SignatureError> {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let base64 = match (lines.next(), lines.next(), lines.next()) {
            (Some(alone), None, None) => alone,
            (Some(comment), Some(base64), None) if comment.starts_with("untrusted comment:") => base64,
            _ => return Err(SignatureError::Key),
        };
        let key = minisign_verify::PublicKey::from_base64(base64).map_err(|_| SignatureError::Key)?;
        Ok(Self { key, text: base64.to_owned() })
    }

    /// What the signature proves of the contents.
    ///
    /// # Errors
    /// When it proves nothing, and why.
    pub fn verify(&self, contents: &[u8], signature: &str) -> Result<Trusted, SignatureError> {
        let signature = Signature::decode(signature).map_err(|_| SignatureError::Malformed)?;
        self.key.verify(contents, &signature, false).map_err(|error| match error {
            Verification::UnexpectedKeyId => SignatureError::OtherKey { key: self.text.clone() },
            Verification::UnexpectedAlgorithm | Verification::UnsupportedLegacyMode => SignatureError::Legacy,
            Verification::InvalidSignature => SignatureError::Tampered,
            Verification::InvalidEncoding | Verification::UnsupportedAlgorithm | Verification::IoError(_) => {
                SignatureError::Malformed
            }
        })?;
        Ok(Trusted { serial: serial(signature.trusted_comment())? })
    }
}

/// The key as `minisign -P` takes it.
impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether a version may follow the newest that was taken: never an older one, never another of the same serial.
///
/// # Errors
/// When it may not.
pub(crate) fn accepts(
    newest: Option<&Newest>,
    serial: Option<u64>,
    sha256: &str,
) -> Result<(), SignatureError> {
    let Some(newest) = newest else { return Ok(()) };
    let last = newest.serial;
    match serial {
        None => Err(SignatureError::NoSerial { last }),
        Some(serial) if serial < last => Err(SignatureError::Older { serial, last }),
        Some(serial) if serial == last && sha256 != newest.sha256 => Err(SignatureError::Reused { serial }),
        Some(_) => Ok(()),
    }
}

/// Whether a version may be started that was taken before: the current key must have signed it. A key that cannot be read
/// has signed nothing.
///
/// # Errors
/// When it may not, with the reason.
pub(crate) fn check_signer(key: Result<&PublicKey, &str>, signer: Option<&str>) -> Result<(), String> {
    let Some(signer) = signer else {
        return Err("it was taken before manifests had to be signed".into());
    };
    match key {
        Err(reason) => Err(reason.to_owned()),
        Ok(key) if key.to_string() == signer => Ok(()),
        Ok(key) => Err(format!("it was signed by {signer}, and manifests must be signed by {key}")),
    }
}

/// SHA-256 as `sha256sum` prints it.
pub fn digest(contents: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(contents) {
        let _ = write!(text, "{byte:02x}"); // Writing to a String does not fail.
    }
    text
}

/// The serial that a trusted comment names, among other words or alone.
fn serial(comment: &str) -> Result<Option<u64>, SignatureError> {
    let mut named = comment.split_whitespace().filter_map(|word| word.strip_prefix(SERIAL));
    let bad = || SignatureError::Serial { comment: comment.to_owned() };
    match (named.next(), named.next()) {
        (None, _) => Ok(None),
        // `parse` takes a sign, too.
        (Some(number), None) if number.bytes().all(|b| b.is_ascii_digit()) => {
            number.parse().map(Some).map_err(|_| bad())
        }
        _ => Err(bad()),
    }
}
