//! What the files of a directory come to: the last good version of each, and one pod per name. Pure.
//!
//! Invariants: a file that turns bad keeps its pod; a file that is gone loses it; of two files with one pod name
//! the one that had it stays; a directory that cannot be read changes nothing; a signed pod never goes back to an
//! older serial. All of it holds across a restart, if what [`Files::unsaved`] tells was written.

mod claims;
mod missing;
#[cfg(test)]
mod property;
mod saved;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::scan::{Contents, FileReading, Found, Reading};
use crate::pod::decode::Decoded;
use crate::pod::finding::{Finding, Refusal};
use crate::pod::{Pod, PodName, Source};
use crate::source::signature::{Newest, accepts, digest};
use crate::sync::mux::Snapshot;
use crate::sync::view::{Outcome, Verdict};
use claims::Claims;
pub(super) use missing::Missing;
pub(super) use saved::{Record, Unsaved};

/// A change of mind, to be said once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// The directory cannot be read any more.
    Unreadable(String),
    /// The directory can be read again.
    Readable,
    /// A directory inside the directory, which is not looked into.
    NotFollowed(PathBuf),
    /// A file is gone.
    Removed(PathBuf),
    /// A file is judged differently, or again.
    Verdict {
        /// The file.
        path: PathBuf,
        /// The judgement.
        outcome: Outcome,
        /// Of what was taken: what an auditor asks.
        taken: Option<Audit>,
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
pub(super) struct Taken {
    /// The pod, with what its author should know.
    pub(super) decoded: Decoded,
    /// Its signature, where one was asked for.
    pub(super) signed: Option<Signed>,
}

/// What is known of the directory.
#[derive(Debug, Default)]
pub(super) struct Files {
    files: BTreeMap<PathBuf, Held>,
    claims: Claims,
    /// Of every pod that was ever signed with a serial.
    serials: BTreeMap<PodName, Newest>,
    saved: saved::Saved,
    not_followed: BTreeSet<PathBuf>,
    unreadable: Option<String>,
    /// There is a file of which nothing is known yet: it is still being written.
    unjudged: bool,
    /// What an earlier agent kept of files that are not there, but may come back: it is neither begun nor ended.
    unseen: BTreeSet<PathBuf>,
    spoken: bool,
}

#[derive(Debug)]
struct Held {
    /// The last valid version.
    good: Option<Version>,
    /// The version that counts: the last valid one that clashed with no other file.
    runs: Option<Version>,
    /// The judgement on the file as it is now, clashes aside.
    judged: Outcome,
    /// The judgement that was last said.
    said: Option<Outcome>,
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

/// Who stands in a file's way.
struct Rival<'a> {
    /// What both name.
    field: &'static str,
    what: String,
    path: &'a Path,
}

impl Held {
    /// The file as it is now is valid.
    fn is_good(&self) -> bool {
        matches!(self.judged, Outcome::Accepted { .. })
    }
}

impl Files {
    /// Takes in a reading. The snapshot is there when anything changed.
    pub(super) fn apply(
        &mut self,
        reading: Reading,
        take: impl Fn(&Path, &Contents) -> Result<Taken, Refusal>,
    ) -> (Vec<Change>, Option<Snapshot>) {
        let mut changes = Vec::new();
        let Found { files: found, subdirectories, missing, .. } = match reading {
            Reading::Unreadable(reason) => {
                self.unseen.clear();
                let first = self.unreadable.as_ref() != Some(&reason);
                if first {
                    self.unreadable = Some(reason.clone());
                    changes.push(Change::Unreadable(reason));
                }
                // Said once even so: the source has spoken, and holds what it held.
                let snapshot = first.then(|| self.snapshot(false));
                return (changes, snapshot);
            }
            Reading::Files(found) => found,
        };
        changes.extend(subdirectories.difference(&self.not_followed).cloned().map(Change::NotFollowed));
        self.not_followed = subdirectories;
        let mut changed = !self.spoken;
        if !self.spoken && self.unreadable.is_none() {
            // Nothing was wanted of anybody yet.
            self.unseen = missing.clone();
        }
        self.spoken = true;
        if self.unreadable.take().is_some() {
            changes.push(Change::Readable);
            changed = true;
        }
        let is_gone = |path: &&PathBuf| !found.contains_key(*path) && !missing.contains(*path);
        let gone: Vec<_> = self.files.keys().filter(is_gone).cloned().collect();
        for path in gone {
            self.files.remove(&path);
            changes.push(Change::Removed(path));
        }
        self.unseen.retain(|path| missing.contains(path));
        let unjudged = self.unjudged;
        self.unjudged = false;
        for (path, reading) in found {
            self.unjudged |= matches!(reading, FileReading::Unchanged) && !self.files.contains_key(&path);
            self.judge(path, reading, &take);
        }
        changed |= self.unjudged != unjudged;
        self.settle();
        for path in self.files.keys().cloned().collect::<Vec<_>>() {
            // A clash with one that is missing: likely the same file under another name. A moment will tell.
            let is_open = self.rival(&path).is_some_and(|rival| missing.contains(rival.path));
            if is_open || self.unseen.contains(&path) {
                continue;
            }
            let outcome = self.outcome(&path);
            if let (Some(outcome), Some(held)) = (outcome, self.files.get_mut(&path))
                && held.is_read
                && held.said.as_ref() != Some(&outcome)
            {
                held.said = Some(outcome.clone());
                let good = held.good.as_ref().filter(|_| matches!(outcome, Outcome::Accepted { .. }));
                let taken = good.map(|good| good.audit.clone());
                changes.push(Change::Verdict { path, outcome, taken });
            }
        }
        changed |= !changes.is_empty();
        let snapshot = changed.then(|| self.snapshot(true));
        (changes, snapshot)
    }

    /// The files that are known.
    pub(super) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.keys()
    }

    fn judge(
        &mut self,
        path: PathBuf,
        reading: FileReading,
        take: &impl Fn(&Path, &Contents) -> Result<Taken, Refusal>,
    ) {
        let (since, good, judged) = match reading {
            FileReading::Unchanged => return,
            FileReading::Refused(reason) => {
                ((i64::MAX, 0), None, Outcome::Refused(Finding::whole(reason).into()))
            }
            FileReading::Contents(contents) => {
                let taken = take(&path, &contents);
                match taken.and_then(|taken| self.version(taken, &contents)) {
                    Ok((version, warnings)) => {
                        let pod = version.pod.name.clone();
                        (contents.since, Some(version), Outcome::Accepted { pod, warnings })
                    }
                    Err(refusal) => (contents.since, None, Outcome::Refused(refusal)),
                }
            }
        };
        let held = self.files.entry(path).or_insert(Held {
            good: None,
            runs: None,
            judged: judged.clone(),
            said: None,
            is_read: true,
            since,
        });
        held.judged = judged;
        held.is_read = true;
        let Some(mut version) = good else { return };
        if let Some(known) = &held.good {
            if known.audit.sha256 == version.audit.sha256 {
                // Read again, or signed again.
                version.text = known.text.clone();
            } else {
                // An edit is worth saying even if it is accepted too.
                held.said = None;
            }
            if known.pod.hash == version.pod.hash && known.pod.uid == version.pod.uid {
                version.pod = known.pod.clone();
                if let Some(runs) = held.runs.as_mut().filter(|runs| Arc::ptr_eq(&runs.pod, &known.pod)) {
                    *runs = version.clone();
                }
            } else {
                held.since = since;
            }
        } else {
            held.since = since;
        }
        held.good = Some(version);
    }

    /// The version that was taken, with its warnings; refused if it is an older one.
    fn version(&self, taken: Taken, contents: &Contents) -> Result<(Version, Vec<Finding>), Refusal> {
        let Taken { decoded: Decoded { pod, warnings }, signed } = taken;
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

    /// Gives out the names anew, and remembers the serials of what runs.
    fn settle(&mut self) {
        self.claims = Claims::assign(&mut self.files);
        for Version { pod, audit, .. } in self.files.values().filter_map(|held| held.runs.as_ref()) {
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
        let held = self.files.get(path)?;
        let mut outcome = held.judged.clone();
        if let Some(Rival { field, what, path }) = self.rival(path) {
            let reason = format!("{what} is already defined by {}", path.display());
            let warnings = outcome.warnings().to_vec();
            outcome = Outcome::Refused(Refusal::from(Finding::new(field, reason)).with_warnings(warnings));
        }
        if let (Outcome::Refused(refusal), Some(_)) = (&mut outcome, &held.runs) {
            refusal.note = Some("the last good version runs on");
        }
        Some(outcome)
    }

    /// The file that has what a valid file wants, too.
    fn rival(&self, path: &Path) -> Option<Rival<'_>> {
        let pod = &self.files.get(path).filter(|held| held.is_good())?.good.as_ref()?.pod;
        let other = |owner: &&Path| *owner != path;
        if let Some(path) = self.claims.name(&pod.name).filter(other) {
            return Some(Rival { field: "metadata.name", what: format!("pod {}", pod.name), path });
        }
        let path = self.claims.uid(&pod.uid).filter(other)?;
        Some(Rival { field: "metadata.uid", what: format!("UID {}", pod.uid), path })
    }

    fn snapshot(&self, readable: bool) -> Snapshot {
        let seen = || self.files.iter().filter(|(path, _)| !self.unseen.contains(*path));
        let owned = seen().filter_map(|(_, held)| held.runs.as_ref());
        let verdicts = seen().filter_map(|(path, _)| {
            let origin = path.to_string_lossy().into_owned();
            Some(Verdict {
                source: Source::File,
                origin,
                document: 1,
                item: None,
                outcome: self.outcome(path)?,
            })
        });
        Snapshot {
            source: Source::File,
            pods: owned.map(|version| version.pod.clone()).collect(),
            // A file that was never good, or is away, may be the manifest of a pod that runs.
            complete: readable
                && !self.unjudged
                && self.unseen.is_empty()
                && self.files.values().all(|held| held.good.is_some()),
            verdicts: verdicts.collect(),
        }
    }
}
