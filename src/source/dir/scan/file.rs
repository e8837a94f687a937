//! Reads one manifest with its signature, and tells whether it is the one that was read before. Blocking.

use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use super::{ReadRules, is_older};
use crate::pod::decode::MAX_MANIFEST;
use crate::pod::finding::Refusal;
use crate::source::dir::files::ValidManifest;
use crate::source::dir::timing::STAMP_GRANULARITY;
use crate::source::signature::{EXTENSION, MAX_SIGNATURE};
use crate::source::trust::{Located, PERMISSIONS, PathRole, check};

/// What was found of one file.
#[derive(Debug)]
pub(in crate::source::dir) enum FileReading {
    /// The same as at the last reading.
    Unchanged,
    /// It is being written: what was known of it stays, until it is whole.
    Unfinished,
    /// It was read: a valid manifest, or why it is none.
    Read(FileContents, Result<Box<ValidManifest>, Refusal>),
    /// It cannot be a manifest; with the reason.
    Refused(String),
}

/// A file that was read.
#[derive(Debug)]
pub(in crate::source::dir) struct FileContents {
    /// Its bytes.
    pub(in crate::source::dir) bytes: Vec<u8>,
    /// The signature beside it, if one was looked for and found.
    pub(in crate::source::dir) signature: Option<String>,
    /// The file's owner.
    pub(in crate::source::dir) owner: u32,
    /// The file's mode, without its type.
    pub(in crate::source::dir) mode: u32,
    /// When its inode last changed: which of two files is the older one.
    pub(in crate::source::dir) since: (i64, i64),
}

impl FileContents {
    /// There is nothing in the file, or in its signature.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty() || self.signature.as_ref().is_some_and(String::is_empty)
    }
}

/// What tells a file that changed from one that did not.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileStamp {
    device: u64,
    inode: u64,
    size: u64,
    mode: u32,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            mode: metadata.mode(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// A file with its signature. The directories on their way are checked anew each time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ManifestStamp {
    file: FileStamp,
    signature: Option<FileStamp>,
}

/// What there is of one manifest.
pub(super) enum ManifestRead {
    /// The same as before.
    Unchanged(ManifestStamp),
    /// It cannot be a manifest; with the reason.
    Refused(String, Option<ManifestStamp>),
    /// It was read. Without a stamp it may have been written to at the same time.
    FileContents(FileContents, Option<ManifestStamp>),
}

/// The name of a file's signature.
pub(super) fn signature_of(name: &OsStr) -> OsString {
    let mut name = name.to_owned();
    name.push(".");
    name.push(EXTENSION);
    name
}

/// Reads a manifest with its signature, unless both are as they were `before`.
pub(super) fn read_manifest(
    file: &Located,
    signature: Option<&Located>,
    rules: ReadRules,
    before: Option<&ManifestStamp>,
) -> ManifestRead {
    let stamp = |file: &Metadata| ManifestStamp {
        file: FileStamp::of(file),
        signature: signature.map(|signature| FileStamp::of(&signature.metadata)),
    };
    let now = stamp(&file.metadata);
    if before == Some(&now) {
        return ManifestRead::Unchanged(now);
    }
    let refuse = |reason: String| ManifestRead::Refused(reason, Some(now.clone()));
    if file.metadata.is_dir() {
        return refuse("is a directory".into());
    }
    if file.metadata.size() > MAX_MANIFEST as u64 && file.metadata.is_file() {
        return refuse("is larger than 10 MiB".into());
    }
    let (bytes, metadata) = match file.read(MAX_MANIFEST) {
        Ok(read) => read,
        Err(_) if !file.metadata.is_file() => return refuse("is not a regular file".into()),
        Err(error) => return ManifestRead::Refused(format!("cannot be read: {error}"), None),
    };
    if bytes.len() > MAX_MANIFEST {
        return refuse("is larger than 10 MiB".into());
    }
    if let Err(reason) = check(&file.path, PathRole::File, &metadata, rules.own_uid) {
        return refuse(reason);
    }
    let signed = match signature.map(read_signature).transpose() {
        Ok(signed) => signed,
        Err(error) => return refuse(format!("its signature cannot be read: {error}")),
    };
    let now = stamp(&metadata);
    // The clock behind a stamp is coarse: another write in the same tick would look like this one.
    let is_certain = |metadata: &Metadata| is_older(metadata, STAMP_GRANULARITY);
    let certain = is_certain(&metadata) && signature.is_none_or(|signature| is_certain(&signature.metadata));
    let (owner, mode) = (metadata.uid(), metadata.mode() & PERMISSIONS);
    let contents = FileContents { bytes, signature: signed, owner, mode, since: now.file.changed };
    ManifestRead::FileContents(contents, Some(now).filter(|_| certain))
}

fn read_signature(file: &Located) -> std::io::Result<String> {
    let (bytes, _) = file.read(MAX_SIGNATURE)?;
    if bytes.len() > MAX_SIGNATURE {
        return Err(std::io::Error::other("it is larger than 16 KiB"));
    }
    // Whatever is no text is no signature either.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
