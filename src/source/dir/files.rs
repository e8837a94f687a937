//! Which pods, ConfigMaps and Secrets the files of a directory stand for: the last good version of each file, each name once.
//! Pure.
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
mod version;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::scan::{DirectoryReading, FileContents, FileReading, FoundFiles};
use crate::pod::Source;
use crate::pod::decode::file::DecodedFile;
use crate::pod::decode::list::ItemPath;
use crate::pod::finding::{Finding, Refusal};
use crate::pod::object::{HiddenText, Subject};
use crate::source::claims::{Claims, Clash};
use crate::source::signature::{Newest, accepts, digest};
use crate::sync::mux::Snapshot;
use crate::sync::view::{Outcome, Verdict};
pub(super) use missing_files::MissingFiles;
pub(super) use saved::{LastGoodRecord, Unsaved};
use version::{FileJudgement, Version, WHOLE};

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
        /// The judgements, one for each of its documents, or one on all.
        outcomes: Vec<(ItemPath, Outcome)>,
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

/// Contents that are valid on this node, signed if they must be.
#[derive(Debug)]
pub(super) struct ValidManifest {
    /// What they hold, with what its author should know.
    pub(super) decoded: DecodedFile,
    /// Its signature, where one was asked for.
    pub(super) signed: Option<Signed>,
}

/// What is known of the directory.
#[derive(Debug, Default)]
pub(super) struct Files {
    files: BTreeMap<PathBuf, FileState>,
    claims: Claims<PathBuf>,
    /// Of all that was ever signed with a serial.
    serials: BTreeMap<Subject, Newest>,
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
    judged: FileJudgement,
    /// The judgements that were last logged.
    logged: Option<Vec<(ItemPath, Outcome)>>,
    /// This agent has read the file; before that, only what an earlier one kept of it is known.
    is_read: bool,
    /// When the file came to be as it is.
    since: (i64, i64),
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
            let outcomes = self.outcomes(&path);
            if let Some(file) = self.files.get_mut(&path)
                && file.is_read
                && file.logged.as_ref() != Some(&outcomes)
            {
                file.logged = Some(outcomes.clone());
                let is_accepted = outcomes.iter().all(|(_, outcome)| outcome.taken().is_some());
                let audit = file.good.as_ref().filter(|_| is_accepted).map(|good| good.audit.clone());
                notices.push(Notice::Verdict { path, outcomes, audit });
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

    /// What counts, each with where it came from.
    pub(super) fn versions(&self) -> impl Iterator<Item = (Subject, &Audit)> {
        let running = self.files.values().filter_map(|file| file.runs.as_ref());
        running.flat_map(|version| version.claimed().subjects().map(|subject| (subject, &version.audit)))
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
                ((i64::MAX, 0), None, FileJudgement::Bad(Finding::whole(reason).into()))
            }
            FileReading::Read(contents, checked) => {
                match checked.and_then(|manifest| self.version(&path, *manifest, &contents)) {
                    Ok((version, judged)) => (contents.since, Some(version), judged),
                    Err(refusal) => (contents.since, None, FileJudgement::Bad(refusal)),
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
            if version.same_pod(known) {
                // The same instance read again is the pod that is known.
                version.pod.clone_from(&known.pod);
            }
            if version.same_as(known) {
                version.objects.clone_from(&known.objects);
                if let Some(runs) = file.runs.as_mut().filter(|runs| runs.same_as(known)) {
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

    /// The version of a valid manifest, and the judgement on it; refused if it is an older one.
    fn version(
        &self,
        path: &Path,
        manifest: ValidManifest,
        contents: &FileContents,
    ) -> Result<(Version, FileJudgement), Refusal> {
        let ValidManifest { decoded, signed } = manifest;
        let sha256 = digest(&contents.bytes);
        let subjects = decoded.subjects();
        if let Some(signed) = &signed {
            for (_, subject, _) in &subjects {
                accepts(self.serials.get(subject), signed.serial, &sha256)
                    .map_err(|error| Finding::whole(error.to_string()))?;
            }
        }
        let audit = Audit { sha256, owner: contents.owner, mode: contents.mode, signed };
        let text = std::str::from_utf8(&contents.bytes).ok().map(|text| HiddenText(text.into()));
        let version = Version { text, ..Version::new(decoded, audit, contents.bytes.len()) };
        let before = self.files.get(path).and_then(|file| file.runs.as_ref());
        match before.and_then(|before| version.changes_immutable(before)) {
            Some(finding) => Err(finding.into()),
            None => Ok((version, FileJudgement::Good(subjects))),
        }
    }

    /// Assigns names and UIDs to files, and remembers the serials of what runs.
    fn assign_names(&mut self) {
        self.claims = claims::assign(&mut self.files);
        for version in self.files.values().filter_map(|file| file.runs.as_ref()) {
            let Some(serial) = version.audit.signed.as_ref().and_then(|signed| signed.serial) else {
                continue;
            };
            for subject in version.claimed().subjects() {
                if self.serials.get(&subject).is_none_or(|newest| newest.serial < serial) {
                    let sha256 = version.audit.sha256.clone();
                    self.serials.insert(subject, Newest { serial, sha256 });
                }
            }
        }
        self.limit_serials();
    }

    /// The judgements on a file, clashes included.
    fn outcomes(&self, path: &Path) -> Vec<(ItemPath, Outcome)> {
        let Some(file) = self.files.get(path) else { return Vec::new() };
        let mut outcomes = file.judged.outcomes();
        if let Some(clash) = self.clash(path) {
            let warnings = outcomes.iter().flat_map(|(_, outcome)| outcome.warnings().to_vec()).collect();
            let refusal = Refusal::from(clash.finding(clash.owner.display()));
            outcomes = vec![(WHOLE, Outcome::Refused(refusal.with_warnings(warnings)))];
        }
        for (_, outcome) in &mut outcomes {
            if let (Outcome::Refused(refusal), Some(_)) = (outcome, &file.runs) {
                refusal.note = Some("the last good version runs on");
            }
        }
        outcomes
    }

    /// Which other file has a name or UID that a valid file names, too.
    fn clash(&self, path: &Path) -> Option<Clash<'_, PathBuf>> {
        let good = self.files.get(path).filter(|file| file.is_good())?.good.as_ref()?;
        self.claims.clash(good.claimed(), &path.to_owned())
    }

    fn snapshot(&self, readable: bool) -> Snapshot {
        let seen = || self.files.iter().filter(|(path, _)| !self.not_started.contains(*path));
        let owned = seen().filter_map(|(_, file)| file.runs.as_ref());
        // Also of files that are away: nothing starts because of an object, and what uses it keeps it.
        let objects = self.files.values().filter_map(|file| file.runs.as_ref());
        let objects = objects.flat_map(|version| version.objects.iter().cloned());
        let verdict = |path: &Path, at: ItemPath, outcome: Outcome| Verdict {
            source: Source::File,
            origin: path.to_string_lossy().into_owned(),
            document: at.document.unwrap_or(1),
            item: at.item,
            outcome,
        };
        let judged = seen().flat_map(|(path, _)| {
            self.outcomes(path).into_iter().map(move |(at, outcome)| verdict(path, at, outcome))
        });
        let skipped = self.skipped.iter().map(|(path, reason)| {
            let reason = (*reason).to_owned();
            verdict(path, WHOLE, Outcome::Skipped { reason })
        });
        Snapshot {
            source: Source::File,
            pods: owned.filter_map(|version| version.pod.clone()).collect(),
            objects: objects.collect(),
            // A file that was never good, or is away, may be the manifest of a pod that runs.
            complete: readable
                && !self.unread_files
                && self.not_started.is_empty()
                && self.files.values().all(|file| file.good.is_some()),
            // For whoever knows the key.
            untrusted_signatures: BTreeMap::new(),
            verdicts: judged.chain(skipped).collect(),
        }
    }
}
