//! Reads the manifest files of a directory: which there are, and what those hold that changed. Blocking.
//!
//! Nothing is followed that could hang by itself, and nothing is believed that others than root could have written. The
//! directory is opened once, with every step of its path checked: what was checked is what is listed and read.

mod file;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, FileType, StatxFlags, statx};

use super::files::ValidManifest;
use super::identity::{DirectoryId, MountId};
use crate::pod::finding::Refusal;
use crate::source::signature::EXTENSION;
use crate::source::trust::{Located, PathRole, WalkError, check, locate, locate_in};
pub(super) use file::{FileContents, FileReading};
use file::{ManifestRead, ManifestStamp, read_manifest, signature_of};

const EXTENSIONS: [&str; 4] = ["yaml", "yml", "json", "manifest"];
/// Why other files are skipped.
pub(crate) const OTHER_NAME: &str = "its name does not end in .yaml, .yml, .json or .manifest";
/// Why directories are skipped.
pub(crate) const SUBDIRECTORY: &str = "is a directory: manifests in it are not read";
/// How many skipped files are named: a directory may hold any number of them.
const MAX_SKIPPED: usize = 100;
/// Asks statx for a number of the mount that no later mount gets: `STATX_MNT_ID_UNIQUE`, from Linux 6.8 on.
const UNIQUE_MOUNT_ID: StatxFlags = StatxFlags::from_bits_retain(0x4000);
/// Asks statx for the mount's number, a unique one if the kernel has it.
pub(super) const MOUNT_ID: StatxFlags = StatxFlags::MNT_ID.union(UNIQUE_MOUNT_ID);

/// What was found at the path.
#[derive(Debug)]
pub(super) enum DirectoryReading {
    /// The directory could not be read, or cannot be trusted; with the reason.
    Unreadable(String),
    /// Everything that is there.
    Files(FoundFiles),
}

/// What a directory holds.
#[derive(Debug, Default)]
pub(super) struct FoundFiles {
    /// Which directory was read.
    pub(super) directory: Option<DirectoryId>,
    /// Every manifest file.
    pub(super) files: BTreeMap<PathBuf, FileReading>,
    /// Every other visible entry, and why it is not read.
    pub(super) skipped: BTreeMap<PathBuf, &'static str>,
    /// How many more are not read, and not named either.
    pub(super) skipped_unnamed: usize,
    /// Known files that are not there, but may be back in a moment: they count as unchanged.
    pub(super) missing: BTreeSet<PathBuf>,
    /// Some were left alone, since they were written to just now: look again soon.
    pub(super) unfinished: bool,
    /// What was read.
    pub(super) read: Vec<ReadFile>,
}

impl FoundFiles {
    /// Takes what was read of these manifests for unread.
    pub(super) fn disregard(&mut self, paths: &[PathBuf], known: &mut KnownFiles) {
        for path in paths {
            self.files.insert(path.clone(), FileReading::Unfinished);
            known.read.remove(path);
        }
    }
}

/// A manifest that was read.
#[derive(Debug)]
pub(super) struct ReadFile {
    /// By its path in the directory.
    pub(super) path: PathBuf,
    /// The files that were opened for it, by their paths without links.
    pub(super) files: Vec<PathBuf>,
}

/// What files must be to be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadRules {
    /// The user whose files are trusted beside root's; none if everybody's are.
    pub(super) own_uid: Option<u32>,
    /// Signatures are read, too.
    pub(super) signatures: bool,
}

/// What is known of those who write files, by the files' paths without links.
#[derive(Debug, Default)]
pub(super) struct Writers {
    /// Somebody has them open.
    pub(super) writing: BTreeSet<PathBuf>,
    /// They were seen to be closed, or moved into place.
    pub(super) whole: BTreeSet<PathBuf>,
    /// They were there since the last reading, and were removed or moved away.
    pub(super) gone: BTreeSet<PathBuf>,
    /// How long any other must have been left alone.
    pub(super) quiet: Duration,
    /// How long a file must have been empty.
    pub(super) empty: Duration,
}

/// Why a file is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unfinished {
    /// Its writer will be seen to close it.
    Written,
    /// Its time will tell.
    Young,
}

impl Writers {
    /// The file may hold half of what it will say.
    fn are_at(&self, file: &Located) -> Option<Unfinished> {
        if self.writing.contains(&file.path) {
            return Some(Unfinished::Written);
        }
        let young = !self.whole.contains(&file.path) && !is_older(&file.metadata, self.quiet);
        young.then_some(Unfinished::Young)
    }
}

/// The files as they were at the last reading.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownFiles {
    read: BTreeMap<PathBuf, ManifestStamp>,
    /// Files that were found empty, and since when. Whoever writes a file anew cuts it short first, and while that goes on,
    /// there is neither an event nor a new time of its last change.
    empty: BTreeMap<PathBuf, Instant>,
}

/// Reads what changed since `known`, but for files that their writers are at, and checks each. A single file that is not
/// there was removed, if `was_single`.
pub(super) fn read(
    path: &Path,
    was_single: bool,
    rules: ReadRules,
    known: &KnownFiles,
    writers: &Writers,
    check: impl Fn(&Path, &FileContents) -> Result<ValidManifest, Refusal>,
) -> (DirectoryReading, KnownFiles) {
    let listed = match list(path, was_single, rules.own_uid) {
        Ok(listed) => listed,
        Err(error) => return (DirectoryReading::Unreadable(error.to_string()), known.clone()),
    };
    let mut found = FoundFiles {
        directory: observe_directory(&listed.directory).ok(),
        skipped: listed.skipped,
        skipped_unnamed: listed.skipped_unnamed,
        ..FoundFiles::default()
    };
    let mut now_known = KnownFiles::default();
    for (path, name) in listed.manifests {
        let file = match locate_in(&listed.directory, &name, rules.own_uid) {
            Ok(file) => file,
            // Removed since it was listed.
            Err(WalkError::Absent) => continue,
            Err(WalkError::Distrusted(reason)) => {
                found.files.insert(path, FileReading::Refused(reason));
                continue;
            }
            Err(WalkError::Io(error)) => {
                found.files.insert(path, FileReading::Refused(format!("cannot be read: {error}")));
                continue;
            }
        };
        // What it says is checked, so it may lie anywhere.
        let signature =
            rules.signatures.then(|| locate_in(&listed.directory, &signature_of(&name), None).ok()).flatten();
        let at_signature = || signature.as_ref().and_then(|signature| writers.are_at(signature));
        if let Some(unfinished) = writers.are_at(&file).or_else(at_signature) {
            found.unfinished |= unfinished == Unfinished::Young;
            found.files.insert(path, FileReading::Unfinished);
            continue;
        }
        let (reading, stamp) = match read_manifest(&file, signature.as_ref(), rules, known.read.get(&path)) {
            ManifestRead::Unchanged(stamp) => (FileReading::Unchanged, Some(stamp)),
            ManifestRead::Refused(reason, stamp) => (FileReading::Refused(reason), stamp),
            ManifestRead::FileContents(contents, stamp) => {
                let since = known.empty.get(&path).copied().unwrap_or_else(Instant::now);
                if contents.is_empty() && since.elapsed() < writers.empty {
                    now_known.empty.insert(path.clone(), since);
                    found.unfinished = true;
                    found.files.insert(path, FileReading::Unfinished);
                    continue;
                }
                let signature = signature.filter(|_| contents.signature.is_some());
                let files = [file.path].into_iter().chain(signature.map(|signature| signature.path));
                found.read.push(ReadFile { path: path.clone(), files: files.collect() });
                let checked = check(&path, &contents).map(Box::new);
                (FileReading::Read(contents, checked), stamp)
            }
        };
        if let Some(stamp) = stamp {
            now_known.read.insert(path.clone(), stamp);
        }
        found.files.insert(path, reading);
    }
    (DirectoryReading::Files(found), now_known)
}

/// Only what ends as a manifest does, and is not hidden: editors and backups leave other names behind.
pub(crate) fn is_manifest_name(name: &str) -> bool {
    let extension = Path::new(name).extension().and_then(|e| e.to_str());
    !is_hidden(name) && extension.is_some_and(|e| EXTENSIONS.contains(&e))
}

/// Why a visible entry of the directory is not read; none if it is a manifest, a signature or hidden.
pub(crate) fn why_skipped(name: &str, is_dir: bool) -> Option<&'static str> {
    let is_signature = signed_name(name).is_some_and(is_manifest_name);
    if is_hidden(name) || is_signature || is_manifest_name(name) {
        return None;
    }
    Some(if is_dir { SUBDIRECTORY } else { OTHER_NAME })
}

/// The name of a manifest, or of a manifest's signature. What is said of other files can wait for the next reading.
pub(super) fn is_name_of_interest(name: &str) -> bool {
    is_manifest_name(signed_name(name).unwrap_or(name))
}

fn is_hidden(name: &str) -> bool {
    name.starts_with('.')
}

/// The name of the file that this is the signature of.
fn signed_name(name: &str) -> Option<&str> {
    name.strip_suffix(EXTENSION).and_then(|name| name.strip_suffix('.'))
}

/// What a path holds, by name.
struct ListedDirectory {
    /// The directory of the manifests, or of the single one.
    directory: Located,
    /// Each by its path as it is shown, and by its name in the directory.
    manifests: Vec<(PathBuf, OsString)>,
    skipped: BTreeMap<PathBuf, &'static str>,
    skipped_unnamed: usize,
}

fn list(path: &Path, was_single: bool, own_uid: Option<u32>) -> Result<ListedDirectory, WalkError> {
    let (directory, single) = locate_directory(path, was_single, own_uid)?;
    let mut listed =
        ListedDirectory { directory, manifests: Vec::new(), skipped: BTreeMap::new(), skipped_unnamed: 0 };
    match single {
        Some(Single::There(name)) => listed.manifests.push((path.to_owned(), name)),
        Some(Single::Gone) => {}
        None => list_entries(path, &mut listed)?,
    }
    Ok(listed)
}

/// The path means one file, not a directory of them.
enum Single {
    There(OsString),
    Gone,
}

/// The directory to read, and the name of the single file in it if the path means one.
fn locate_directory(
    path: &Path,
    was_single: bool,
    own_uid: Option<u32>,
) -> Result<(Located, Option<Single>), WalkError> {
    let distrusted = |directory: &Located, role| {
        check(&directory.path, role, &directory.metadata, own_uid).map_err(WalkError::Distrusted)
    };
    let path = std::path::absolute(path)?;
    if let (Some(parent), Some(name)) = (path.parent(), path.file_name()) {
        let parent = locate(parent, own_uid)?;
        match locate_in(&parent, name, own_uid) {
            Ok(file) if file.metadata.is_file() => return Ok((parent, Some(Single::There(name.to_owned())))),
            Err(WalkError::Absent) if was_single => {
                distrusted(&parent, PathRole::Holder)?;
                return Ok((parent, Some(Single::Gone)));
            }
            Ok(directory) => {
                distrusted(&directory, PathRole::ManifestDirectory)?;
                return Ok((directory, None));
            }
            Err(error) => return Err(error),
        }
    }
    let directory = locate(&path, own_uid)?;
    distrusted(&directory, PathRole::ManifestDirectory)?;
    Ok((directory, None))
}

fn list_entries(path: &Path, listed: &mut ListedDirectory) -> Result<(), WalkError> {
    let directory = listed.directory.open()?;
    for entry in Dir::read_from(&directory).map_err(io::Error::from)? {
        let entry = entry.map_err(io::Error::from)?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        let (shown, text) = (path.join(name), name.to_string_lossy());
        if is_manifest_name(&text) {
            listed.manifests.push((shown, name.to_owned()));
            continue;
        }
        let is_dir = match entry.file_type() {
            FileType::Unknown => locate_in(&listed.directory, name, None).is_ok_and(|e| e.metadata.is_dir()),
            file_type => file_type.is_dir(),
        };
        if let Some(reason) = why_skipped(&text, is_dir) {
            listed.skipped.insert(shown, reason);
            if listed.skipped.len() > MAX_SKIPPED {
                listed.skipped.pop_last();
                listed.skipped_unnamed += 1;
            }
        }
    }
    listed.manifests.sort();
    Ok(())
}

/// Which directory was opened.
fn observe_directory(directory: &Located) -> io::Result<DirectoryId> {
    let handle = directory.open()?;
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME | MOUNT_ID;
    let seen = statx(&handle, "", AtFlags::EMPTY_PATH, wanted)?;
    let told = StatxFlags::from_bits_retain(seen.stx_mask);
    let created = told.contains(StatxFlags::BTIME).then_some((seen.stx_btime.tv_sec, seen.stx_btime.tv_nsec));
    let mount = told.intersects(MOUNT_ID).then_some(seen.stx_mnt_id);
    let namespace = fs::read_link("/proc/self/ns/mnt").map(|link| link.to_string_lossy().into_owned());
    Ok(DirectoryId {
        device: directory.metadata.dev(),
        inode: directory.metadata.ino(),
        created,
        mount: mount.zip(namespace.ok()).map(|(number, namespace)| MountId {
            namespace,
            number,
            unique: told.contains(UNIQUE_MOUNT_ID),
        }),
        // Where there is none, every boot is the same.
        boot: fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned(),
    })
}

/// The first bytes of a regular file, with what is known of it; one more than `limit` if there are more.
///
/// # Errors
/// When it cannot be read. A FIFO does not hang.
pub(crate) fn read_regular(path: &Path, limit: usize) -> io::Result<(Vec<u8>, Metadata)> {
    let file = locate(path, None).map_err(|error| match error {
        WalkError::Io(error) => error,
        error => io::Error::other(error.to_string()),
    })?;
    file.read(limit)
}

/// It was last written to longer ago, or at a time that tells nothing.
fn is_older(metadata: &Metadata, time: Duration) -> bool {
    metadata.modified().ok().and_then(|modified| modified.elapsed().ok()).is_none_or(|age| age >= time)
}
