//! Which pods the files of a directory stand for: the last good version of each file, one pod per name. Pure.
//!
//! Invariants: a file that turns bad keeps its pod; a file that is gone loses it; of two files with one pod name
//! the one that had it stays; a directory that cannot be read notices nothing; a signed pod never goes back to an
//! older serial. All of it holds across a restart, if what [`Files::unsaved`] tells was written.

mod claims;
mod missing_files;
#[cfg(test)]
mod property;
mod saved;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::scan::{DirectoryReading, FileContents, FileReading, FoundFiles};
use crate::pod::decode::Decoded;
use crate::pod::finding::{Finding, Refusal};
use crate::pod::{Pod, PodName, Source};
use crate::source::claims::{Claims, Clash};
use crate::source::signature::{Newest, accepts, digest};
use crate::sync::mux::Snapshot;
use crate::sync::view::{Outcome, Verdict};
pub(super) use missing_files::MissingFiles;
pub(super) use saved::{LastGoodRecord, Unsaved};

/// A change, to be logged once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Notice {
    /// The directory cannot be read any more.
    Unreadable(String),
    /// The directory can be read again.
    Readable,
    /// An entry of the directory that is not read, and why.
    Skipped(PathBuf, &'static str),
    /// So many more entries are not read, and not named either.
    SkippedUnnamed(usize),
    /// A file is gone.
    Removed(PathBuf),
    /// A file is judged differently, or again.
    Verdict {
        /// The file.
        path: PathBuf,
        /// The judgement.
        outcome: Outcome,
        /// Of an accepted version: where it came from.
        audit: Option<Audit>,
    },
}

/// Where a version came from.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Audit {
    /// The digest of its contents.
    pub(super) sha256: String,
    /// The file's owner.
    pub(super) owner: u32,
    /// The file's mode, without its type.
    pub(super) mode: u32,
    /// The key that signed it, and as what version.
    pub(super) signed: Option<Signed>,
}

/// A valid signature.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Signed {
    /// The public key.
    pub(super) key: String,
    /// The version, if it names one.
    pub(super) serial: Option<u64>,
}

/// Contents that are a pod of this node, signed if they must be.
#[derive(Debug)]
pub(super) struct ValidManifest {
    /// The pod, with what its author should know.
    pub(super) decoded: Decoded,
    /// Its signature, where one was asked for.
    pub(super) signed: Option<Signed>,
}

/// What is known of the directory.
#[derive(Debug, Default)]
pub(super) struct Files {
    files: BTreeMap<PathBuf, FileState>,
    claims: Claims<PathBuf>,
    /// Of every pod that was ever signed with a serial.
    serials: BTreeMap<PodName, Newest>,
    saved: saved::Saved,
    skipped: BTreeMap<PathBuf, &'static str>,
    skipped_unnamed: usize,
    unreadable: Option<String>,
    /// There is a file of which nothing is known yet, since it is still being written.
    unread_files: bool,
    /// Files of an earlier agent that are not there, but may come back: their pods are neither started nor ended.
    not_started: BTreeSet<PathBuf>,
    /// It was read at least once.
    has_been_read: bool,
}

/// What is known of one file.
#[derive(Debug)]
struct FileState {
    /// The last valid version.
    good: Option<Version>,
    /// The version that counts: the last valid one that clashed with no other file.
    runs: Option<Version>,
    /// The judgement on the file as it is now, clashes aside.
    judged: Outcome,
    /// The judgement that was last logged.
    logged: Option<Outcome>,
    /// This agent has read the file; before that, only what an earlier one kept of it is known.
    is_read: bool,
    /// When the file came to be as it is.
    since: (i64, i64),
}

/// A valid version of a file.
#[derive(Debug, Clone)]
struct Version {
    pod: Arc<Pod>,
    audit: Audit,
    size: usize,
    /// As it was written, until it is on disk.
    text: Option<Arc<str>>,
}

impl FileState {
    /// The file as it is now is valid.
    fn is_good(&self) -> bool {
        matches!(self.judged, Outcome::Accepted { .. })
    }
}

impl Files {
    /// Takes in a reading. The snapshot is there when anything changed.
    pub(super) fn apply(&mut self, reading: DirectoryReading) -> (Vec<Notice>, Option<Snapshot>) {
        let mut notices = Vec::new();
        let FoundFiles { files: found, skipped, skipped_unnamed, missing, .. } = match reading {
            DirectoryReading::Unreadable(reason) => {
                self.not_started.clear();
                let first = self.unreadable.as_ref() != Some(&reason);
                if first {
                    self.unreadable = Some(reason.clone());
                    notices.push(Notice::Unreadable(reason));
                }
                // Also for the first reading: sources of lower precedence wait for a first snapshot of this one.
                let snapshot = first.then(|| self.snapshot(false));
                return (notices, snapshot);
            }
            DirectoryReading::Files(found) => found,
        };
        let unsaid = skipped.iter().filter(|(path, _)| !self.skipped.contains_key(*path));
        notices.extend(unsaid.map(|(path, reason)| Notice::Skipped(path.clone(), reason)));
        let mut changed = !self.has_been_read || skipped != self.skipped;
        self.skipped = skipped;
        if skipped_unnamed > 0 && self.skipped_unnamed == 0 {
            notices.push(Notice::SkippedUnnamed(skipped_unnamed));
        }
        self.skipped_unnamed = skipped_unnamed;
        if !self.has_been_read && self.unreadable.is_none() {
            // The first reading: no pod of these was asked for yet.
            self.not_started = missing.clone();
        }
        self.has_been_read = true;
        if self.unreadable.take().is_some() {
            notices.push(Notice::Readable);
            changed = true;
        }
        let is_gone = |path: &&PathBuf| !found.contains_key(*path) && !missing.contains(*path);
        let gone: Vec<_> = self.files.keys().filter(is_gone).cloned().collect();
        for path in gone {
            self.files.remove(&path);
            notices.push(Notice::Removed(path));
        }
        self.not_started.retain(|path| missing.contains(path));
        let unread_files = self.unread_files;
        self.unread_files = false;
        for (path, reading) in found {
            self.unread_files |=
                matches!(reading, FileReading::Unfinished) && !self.files.contains_key(&path);
            self.judge(path, reading);
        }
        changed |= self.unread_files != unread_files;
        self.assign_names();
        for path in self.files.keys().cloned().collect::<Vec<_>>() {
            // A clash with one that is missing: likely the same file under another name. A moment will tell.
            let is_open = self.clash(&path).is_some_and(|clash| missing.contains(clash.owner));
            if is_open || self.not_started.contains(&path) {
                continue;
            }
            let outcome = self.outcome(&path);
            if let (Some(outcome), Some(file)) = (outcome, self.files.get_mut(&path))
                && file.is_read
                && file.logged.as_ref() != Some(&outcome)
            {
                file.logged = Some(outcome.clone());
                let good = file.good.as_ref().filter(|_| matches!(outcome, Outcome::Accepted { .. }));
                let audit = good.map(|good| good.audit.clone());
                notices.push(Notice::Verdict { path, outcome, audit });
            }
        }
        changed |= !notices.is_empty();
        let snapshot = changed.then(|| self.snapshot(true));
        (notices, snapshot)
    }

    /// The files that are known.
    pub(super) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.keys()
    }

    /// The versions that count, each with where it came from.
    pub(super) fn versions(&self) -> impl Iterator<Item = (&PodName, &Audit)> {
        let running = self.files.values().filter_map(|file| file.runs.as_ref());
        running.map(|version| (&version.pod.name, &version.audit))
    }

    /// All that is known now, as it was last told.
    pub(super) fn latest(&self) -> Snapshot {
        self.snapshot(self.unreadable.is_none())
    }

    /// How many pods there would be to lose.
    pub(super) fn running(&self) -> usize {
        self.files.values().filter(|file| file.runs.is_some()).count()
    }

    /// How many valid manifests a reading found. A file that is no pod says nothing about its directory.
    pub(super) fn count_valid(&self, found: &FoundFiles) -> usize {
        let is_known = |path: &Path| self.files.get(path).is_some_and(|file| file.is_read && file.is_good());
        let is_valid = |path: &Path, reading: &FileReading| match reading {
            FileReading::Read(_, checked) => checked.is_ok(),
            FileReading::Unchanged => is_known(path),
            FileReading::Unfinished | FileReading::Refused(_) => false,
        };
        found.files.iter().filter(|(path, reading)| is_valid(path, reading)).count()
    }

    fn judge(&mut self, path: PathBuf, reading: FileReading) {
        let (since, good, judged) = match reading {
            FileReading::Unchanged | FileReading::Unfinished => return,
            FileReading::Refused(reason) => {
                ((i64::MAX, 0), None, Outcome::Refused(Finding::whole(reason).into()))
            }
            FileReading::Read(contents, checked) => {
                match checked.and_then(|manifest| self.version(*manifest, &contents)) {
                    Ok((version, warnings)) => {
                        let pod = version.pod.name.clone();
                        (contents.since, Some(version), Outcome::Accepted { pod, warnings })
                    }
                    Err(refusal) => (contents.since, None, Outcome::Refused(refusal)),
                }
            }
        };
        let file = self.files.entry(path).or_insert(FileState {
            good: None,
            runs: None,
            judged: judged.clone(),
            logged: None,
            is_read: true,
            since,
        });
        file.judged = judged;
        file.is_read = true;
        let Some(mut version) = good else { return };
        if let Some(known) = &file.good {
            if known.audit.sha256 != version.audit.sha256 {
                // An edit is logged even if the version before was accepted too.
                file.logged = None;
            } else if known.audit.signed == version.audit.signed {
                // Read again. What is signed again is written again.
                version.text = known.text.clone();
            }
            if known.pod.hash == version.pod.hash && known.pod.uid == version.pod.uid {
                version.pod = known.pod.clone();
                if let Some(runs) = file.runs.as_mut().filter(|runs| Arc::ptr_eq(&runs.pod, &known.pod)) {
                    *runs = version.clone();
                }
            } else {
                file.since = since;
            }
        } else {
            file.since = since;
        }
        file.good = Some(version);
    }

    /// The version of a valid manifest, with its warnings; refused if it is an older one.
    fn version(
        &self,
        manifest: ValidManifest,
        contents: &FileContents,
    ) -> Result<(Version, Vec<Finding>), Refusal> {
        let ValidManifest { decoded: Decoded { pod, warnings }, signed } = manifest;
        let sha256 = digest(&contents.bytes);
        if let Some(signed) = &signed {
            accepts(self.serials.get(&pod.name), signed.serial, &sha256)
                .map_err(|error| Finding::whole(error.to_string()))?;
        }
        let version = Version {
            pod: Arc::new(pod),
            audit: Audit { sha256, owner: contents.owner, mode: contents.mode, signed },
            size: contents.bytes.len(),
            text: std::str::from_utf8(&contents.bytes).ok().map(Arc::from),
        };
        Ok((version, warnings))
    }

    /// Assigns names and UIDs to files, and remembers the serials of what runs.
    fn assign_names(&mut self) {
        self.claims = claims::assign(&mut self.files);
        for Version { pod, audit, .. } in self.files.values().filter_map(|file| file.runs.as_ref()) {
            if let Some(serial) = audit.signed.as_ref().and_then(|signed| signed.serial)
                && self.serials.get(&pod.name).is_none_or(|newest| newest.serial < serial)
            {
                self.serials.insert(pod.name.clone(), Newest { serial, sha256: audit.sha256.clone() });
            }
        }
        self.limit_serials();
    }

    /// The judgement on a file, clashes included.
    fn outcome(&self, path: &Path) -> Option<Outcome> {
        let file = self.files.get(path)?;
        let mut outcome = file.judged.clone();
        if let Some(clash) = self.clash(path) {
            let warnings = outcome.warnings().to_vec();
            let refusal = Refusal::from(clash.finding(clash.owner.display()));
            outcome = Outcome::Refused(refusal.with_warnings(warnings));
        }
        if let (Outcome::Refused(refusal), Some(_)) = (&mut outcome, &file.runs) {
            refusal.note = Some("the last good version runs on");
        }
        Some(outcome)
    }

    /// Which other file has the name or UID that a valid file names, too.
    fn clash(&self, path: &Path) -> Option<Clash<'_, PathBuf>> {
        let pod = &self.files.get(path).filter(|file| file.is_good())?.good.as_ref()?.pod;
        self.claims.clash(pod, &path.to_owned())
    }

    fn snapshot(&self, readable: bool) -> Snapshot {
        let seen = || self.files.iter().filter(|(path, _)| !self.not_started.contains(*path));
        let owned = seen().filter_map(|(_, file)| file.runs.as_ref());
        let verdict = |path: &Path, outcome: Outcome| Verdict {
            source: Source::File,
            origin: path.to_string_lossy().into_owned(),
            document: 1,
            item: None,
            outcome,
        };
        let judged = seen().filter_map(|(path, _)| Some(verdict(path, self.outcome(path)?)));
        let skipped = self.skipped.iter().map(|(path, reason)| {
            let reason = (*reason).to_owned();
            verdict(path, Outcome::Skipped { reason })
        });
        Snapshot {
            source: Source::File,
            pods: owned.map(|version| version.pod.clone()).collect(),
            // A file that was never good, or is away, may be the manifest of a pod that runs.
            complete: readable
                && !self.unread_files
                && self.not_started.is_empty()
                && self.files.values().all(|file| file.good.is_some()),
            // For whoever knows the key.
            unvouched: BTreeMap::new(),
            verdicts: judged.chain(skipped).collect(),
        }
    }
}
