//! Reads the manifest files of a directory: which there are, and what those hold that changed. Blocking.
//!
//! Nothing is followed that could hang, and nothing is believed that others than root could have written.

mod file;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::access::{Role, distrust};
use crate::source::signature::EXTENSION;
pub(crate) use file::read_regular;
pub(super) use file::{Contents, FileReading};
use file::{Stamps, read_manifest, signature_of};

/// A file that was written to within this time may not be whole, unless its writer was seen to close it.
pub(super) const QUIET: Duration = Duration::from_millis(50);
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];
/// The bits of a mode that say who may do what.
const PERMISSIONS: u32 = 0o7777;

/// What was found at the path.
#[derive(Debug)]
pub(super) enum Reading {
    /// The directory could not be read, or cannot be trusted; with the reason.
    Unreadable(String),
    /// Everything that is there.
    Files(Found),
}

/// What a directory holds.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Every manifest file.
    pub(super) files: BTreeMap<PathBuf, FileReading>,
    /// Directories in it: they are not looked into.
    pub(super) subdirectories: BTreeSet<PathBuf>,
    /// Known files that are not there, but may be back in a moment: they count as unchanged.
    pub(super) missing: BTreeSet<PathBuf>,
    /// Some were left alone, since they were written to just now: look again soon.
    pub(super) unfinished: bool,
    /// What was read.
    pub(super) read: Vec<Read>,
}

impl Found {
    /// Takes what was read of these manifests for unread.
    pub(super) fn disregard(&mut self, paths: &[PathBuf], known: &mut Known) {
        for path in paths {
            self.files.insert(path.clone(), FileReading::Unchanged);
            known.read.remove(path);
        }
    }
}

/// A manifest that was read.
#[derive(Debug)]
pub(super) struct Read {
    /// By its path in the directory.
    pub(super) path: PathBuf,
    /// The files that were opened for it, by their [`real`] paths.
    pub(super) files: Vec<PathBuf>,
}

/// What files must be to be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// The user whose files are trusted beside root's; none if everybody's are.
    pub(super) own_uid: Option<u32>,
    /// Signatures are read, too.
    pub(super) signatures: bool,
}

/// What is known of those who write files, by the files' [`real`] paths.
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
}

impl Writers {
    /// The file may hold half of what it will say.
    fn are_at(&self, path: &Path) -> Option<Unfinished> {
        if self.writing.contains(path) {
            return Some(Unfinished::Written);
        }
        let young = || fs::metadata(path).is_ok_and(|metadata| !is_older(&metadata, self.quiet));
        (!self.whole.contains(path) && young()).then_some(Unfinished::Young)
    }
}

/// Why a file is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unfinished {
    /// Its writer will be seen to close it.
    Written,
    /// Its time will tell.
    Young,
}

/// The files as they were at the last reading.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    read: BTreeMap<PathBuf, Stamps>,
    /// Files that were found empty, and since when. Whoever writes a file anew cuts it short first, and while that goes on,
    /// there is neither an event nor a new time of its last change.
    empty: BTreeMap<PathBuf, Instant>,
}

/// The directory to read: the path itself, or the one that holds the single file, which may be gone.
pub(super) fn directory_of(path: &Path, was_single: bool) -> PathBuf {
    let is_single = match fs::metadata(path) {
        Ok(metadata) => metadata.is_file(),
        Err(_) => was_single,
    };
    path.parent().filter(|_| is_single).unwrap_or(path).to_owned()
}

/// The manifests that are links: what they say depends on more than their directory.
pub(super) fn links(path: &Path) -> Vec<PathBuf> {
    // What cannot be listed has no links; the reading tells why.
    list(path, false).map(|listed| listed.links).unwrap_or_default()
}

/// Where a path leads to; the path itself if that cannot be told.
pub(super) fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Reads what changed since `known`, but for files that their writers are at. A single file that is not there was
/// removed, if `was_single`.
pub(super) fn read(
    path: &Path,
    was_single: bool,
    rules: Rules,
    known: &Known,
    writers: &Writers,
) -> (Reading, Known) {
    let unreadable = |reason| (Reading::Unreadable(reason), known.clone());
    let listed = match list(path, was_single) {
        Ok(listed) => listed,
        Err(error) => return unreadable(error.to_string()),
    };
    if let Err(reason) = trust_directory(path, &listed, rules) {
        return unreadable(reason);
    }
    let directory = real(&directory_of(path, listed.single));
    let links: BTreeSet<PathBuf> = listed.links.into_iter().collect();
    let mut found = Found { subdirectories: listed.subdirectories, ..Found::default() };
    let mut now_known = Known::default();
    for path in listed.manifests {
        let is_linked = links.contains(&path);
        let real_path = |path: &Path| match path.file_name() {
            Some(name) if !is_linked => directory.join(name),
            _ => real(path),
        };
        let signature = || {
            let signature = rules.signatures.then(|| real_path(&signature_of(&path)))?;
            writers.are_at(&signature)
        };
        if let Some(unfinished) = writers.are_at(&real_path(&path)).or_else(signature) {
            found.unfinished |= unfinished == Unfinished::Young;
            found.files.insert(path, FileReading::Unchanged);
            continue;
        }
        let (reading, stamp) = match read_manifest(&path, rules, known.read.get(&path)) {
            // Removed since it was listed.
            Ok(None) => continue,
            Ok(Some(read)) => read,
            Err(error) => (FileReading::Refused(format!("cannot be read: {error}")), None),
        };
        if let FileReading::Contents(contents) = &reading
            && contents.is_empty()
        {
            let since = known.empty.get(&path).copied().unwrap_or_else(Instant::now);
            if since.elapsed() < writers.quiet {
                now_known.empty.insert(path.clone(), since);
                found.unfinished = true;
                found.files.insert(path, FileReading::Unchanged);
                continue;
            }
        }
        if let Some(stamp) = stamp {
            now_known.read.insert(path.clone(), stamp);
        }
        if let FileReading::Contents(contents) = &reading {
            let signature = contents.signature.as_ref().map(|_| real_path(&signature_of(&path)));
            let files = [real_path(&path)].into_iter().chain(signature).collect();
            found.read.push(Read { path: path.clone(), files });
        }
        found.files.insert(path, reading);
    }
    (Reading::Files(found), now_known)
}

/// Only what ends as a manifest does, and is not hidden: editors and backups leave other names behind.
pub(crate) fn is_manifest_name(name: &str) -> bool {
    let extension = Path::new(name).extension().and_then(|e| e.to_str());
    !name.starts_with('.') && extension.is_some_and(|e| EXTENSIONS.contains(&e))
}

/// The name of a manifest, or of a manifest's signature.
pub(super) fn is_name_of_interest(name: &str) -> bool {
    let signed = name.strip_suffix(EXTENSION).and_then(|name| name.strip_suffix('.'));
    is_manifest_name(signed.unwrap_or(name))
}

/// What there is to say against trusting a file or directory, with its path, mode and owner.
///
/// # Errors
/// When it is not to be trusted.
pub(super) fn trust(path: &Path, role: Role, metadata: &Metadata, rules: Rules) -> Result<(), String> {
    let (owner, mode) = (metadata.uid(), metadata.mode() & PERMISSIONS);
    match rules.own_uid.and_then(|own_uid| distrust(role, owner, mode, own_uid)) {
        None => Ok(()),
        Some(reason) => Err(format!(
            "{} (mode {mode:04o}, owner {owner}) {reason}; change that, or give --allow-unsafe-manifest-permissions",
            path.display()
        )),
    }
}

/// What a path holds, by name.
#[derive(Default)]
struct Listed {
    /// One file, not a directory of them.
    single: bool,
    manifests: Vec<PathBuf>,
    /// Those of the manifests that are links.
    links: Vec<PathBuf>,
    subdirectories: BTreeSet<PathBuf>,
}

fn list(path: &Path, was_single: bool) -> std::io::Result<Listed> {
    let mut listed = Listed::default();
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {
            let links = if is_link(path) { vec![path.to_owned()] } else { Vec::new() };
            return Ok(Listed { single: true, manifests: vec![path.to_owned()], links, ..listed });
        }
        Err(error) if was_single && is_absent(path, &error) => return Ok(Listed { single: true, ..listed }),
        metadata => metadata?,
    };
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let (name, kind) = (entry.file_name().to_string_lossy().into_owned(), entry.file_type()?);
        if is_manifest_name(&name) {
            listed.manifests.push(entry.path());
            listed.links.extend(kind.is_symlink().then(|| entry.path()));
        } else if !name.starts_with('.') && kind.is_dir() {
            listed.subdirectories.insert(entry.path());
        }
    }
    Ok(listed)
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink())
}

/// Nothing has that name: it is not a link that leads nowhere.
fn is_absent(path: &Path, error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::NotFound
        && fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// The directory of the manifests, and the one that its own link leads into.
fn trust_directory(path: &Path, listed: &Listed, rules: Rules) -> Result<(), String> {
    let directory = directory_of(path, listed.single);
    // Nobody can add a manifest to a single file.
    let role = if listed.single { Role::TargetDirectory } else { Role::Directory };
    let linked = is_link(&directory);
    let directory = real(&directory);
    let holder = directory.parent().filter(|_| linked).map(|holder| (holder, Role::TargetDirectory));
    for (directory, role) in [(directory.as_path(), role)].into_iter().chain(holder) {
        let metadata =
            fs::metadata(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        trust(directory, role, &metadata, rules)?;
    }
    Ok(())
}

/// It was last written to longer ago, or at a time that tells nothing.
fn is_older(metadata: &Metadata, time: Duration) -> bool {
    metadata.modified().ok().and_then(|modified| modified.elapsed().ok()).is_none_or(|age| age >= time)
}
