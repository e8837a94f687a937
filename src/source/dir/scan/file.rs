//! Reads one manifest with its signature, and tells whether it is the one that was read before. Blocking.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;

use super::{PERMISSIONS, Rules, is_absent, is_older, real, trust};
use crate::pod::decode::MAX_MANIFEST;
use crate::source::dir::access::Role;
use crate::source::signature::{EXTENSION, MAX_SIGNATURE};

/// A stamp that is younger may stand for two different contents.
const TICK: Duration = Duration::from_millis(50);

/// What was found of one file.
#[derive(Debug)]
pub(in crate::source::dir) enum FileReading {
    /// The same as at the last reading, or to be taken for it.
    Unchanged,
    /// It was read.
    Contents(Contents),
    /// It cannot be a manifest; with the reason.
    Refused(String),
}

/// A file that was read.
#[derive(Debug)]
pub(in crate::source::dir) struct Contents {
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

impl Contents {
    /// There is nothing in the file, or in its signature.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty() || self.signature.as_ref().is_some_and(String::is_empty)
    }
}

/// What tells a file that changed from one that did not.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    mode: u32,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
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

/// A file with all that the judgement on it depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamps {
    file: Stamp,
    signature: Option<Stamp>,
    /// Owner and mode of the directory that a link leads into.
    target_directory: Option<(u32, u32)>,
}

/// The first bytes of a regular file, with what is known of it; one more than `limit` if there are more.
///
/// # Errors
/// When it cannot be read. It may have become a FIFO since it was looked at: that does not hang.
pub(crate) fn read_regular(path: &Path, limit: usize) -> std::io::Result<(Vec<u8>, Metadata)> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(std::io::Error::other("is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut bytes)?;
    Ok((bytes, metadata))
}

/// The name of a file's signature.
pub(super) fn signature_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".");
    name.push(EXTENSION);
    name.into()
}

/// A reading, and the stamps by which it will be known again.
type Known = (FileReading, Option<Stamps>);

/// Reads a manifest, unless it is as it was `before`; none if there is no such file.
///
/// # Errors
/// When it cannot be read.
pub(super) fn read_manifest(
    path: &Path,
    rules: Rules,
    before: Option<&Stamps>,
) -> std::io::Result<Option<Known>> {
    let metadata = match fs::metadata(path) {
        Err(error) if is_absent(path, &error) => return Ok(None),
        metadata => metadata?,
    };
    let signature_path = signature_of(path);
    let signature = fs::metadata(&signature_path).ok().filter(|_| rules.signatures);
    let target = target_directory(path)?;
    let stamps_of = |file: &Metadata| Stamps {
        file: Stamp::of(file),
        signature: signature.as_ref().map(Stamp::of),
        target_directory: target.as_ref().map(|(_, metadata)| (metadata.uid(), metadata.mode())),
    };
    let stamps = stamps_of(&metadata);
    if before == Some(&stamps) {
        return Ok(Some((FileReading::Unchanged, Some(stamps))));
    }
    let refuse = |reason: String| Ok(Some((FileReading::Refused(reason), Some(stamps.clone()))));
    if metadata.is_dir() {
        return refuse("is a directory".into());
    }
    if !metadata.is_file() {
        return refuse("is not a regular file".into());
    }
    if metadata.size() > MAX_MANIFEST as u64 {
        return refuse("is larger than 10 MiB".into());
    }
    let (bytes, metadata) = read_regular(path, MAX_MANIFEST)?;
    if bytes.len() > MAX_MANIFEST {
        return refuse("is larger than 10 MiB".into());
    }
    // Of the file that was opened: the name may mean another by now.
    let trusted = match &target {
        None => trust(path, Role::File, &metadata, rules),
        Some((directory, holder)) => trust(&real(path), Role::File, &metadata, rules)
            .and_then(|()| trust(directory, Role::TargetDirectory, holder, rules)),
    };
    if let Err(reason) = trusted {
        return refuse(reason);
    }
    let signed = match &signature {
        Some(_) => match read_signature(&signature_path) {
            Ok(text) => Some(text),
            Err(error) => return refuse(format!("its signature cannot be read: {error}")),
        },
        None => None,
    };
    let stamps = stamps_of(&metadata);
    let since = stamps.file.changed;
    let settled = is_settled(&metadata) && signature.as_ref().is_none_or(is_settled);
    let (owner, mode) = (metadata.uid(), metadata.mode() & PERMISSIONS);
    let contents = Contents { bytes, signature: signed, owner, mode, since };
    Ok(Some((FileReading::Contents(contents), Some(stamps).filter(|_| settled))))
}

/// The directory that a link leads into; none if the path is not a link.
fn target_directory(path: &Path) -> std::io::Result<Option<(PathBuf, Metadata)>> {
    if !fs::symlink_metadata(path)?.is_symlink() {
        return Ok(None);
    }
    let Some(directory) = fs::canonicalize(path)?.parent().map(Path::to_owned) else { return Ok(None) };
    let metadata = fs::metadata(&directory)?;
    Ok(Some((directory, metadata)))
}

fn read_signature(path: &Path) -> std::io::Result<String> {
    let (bytes, _) = read_regular(path, MAX_SIGNATURE)?;
    if bytes.len() > MAX_SIGNATURE {
        return Err(std::io::Error::other("it is larger than 16 KiB"));
    }
    // Whatever is no text is no signature either.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The clock behind a stamp is coarse: another write in the same tick would look like this one.
fn is_settled(metadata: &Metadata) -> bool {
    is_older(metadata, TICK)
}
