//! What the disk holds of the files, what it should hold, and what a new agent makes of it. Pure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Audit, Files, Held, Newest, PodName, Taken, Version};
use crate::sync::view::Outcome;

/// What all records may weigh together: a node's disk is not for manifests.
const MAX_KEPT: usize = 64 << 20;
/// How many serials of pods that no file holds any more are remembered.
const MAX_SERIALS: usize = 4096;

/// The version of a file that counts, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::source::dir) struct Record {
    /// The file.
    pub(in crate::source::dir) path: PathBuf,
    /// As it was written.
    pub(in crate::source::dir) text: String,
    /// Where it came from.
    pub(in crate::source::dir) audit: Audit,
    /// When it came to be.
    pub(in crate::source::dir) since: (i64, i64),
}

/// What must be done so that the disk holds what counts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::source::dir) struct Unsaved {
    /// To be put in place of what is kept of the same file.
    pub(in crate::source::dir) write: Vec<Record>,
    /// To be forgotten.
    pub(in crate::source::dir) remove: Vec<PathBuf>,
    /// The newest serials, if they changed: by pod, as `namespace/name`.
    pub(in crate::source::dir) serials: Option<BTreeMap<String, Newest>>,
    /// Files whose last good version is not kept, since all together are too large.
    pub(in crate::source::dir) left_out: Vec<PathBuf>,
}

impl Unsaved {
    /// Nothing has to be done.
    pub(in crate::source::dir) fn is_empty(&self) -> bool {
        self.write.is_empty() && self.remove.is_empty() && self.serials.is_none()
    }
}

/// What the disk holds.
#[derive(Debug, Default)]
pub(super) struct Saved {
    /// By file, the digest of what is kept of it.
    versions: BTreeMap<PathBuf, String>,
    serials: BTreeMap<PodName, Newest>,
}

impl Files {
    /// What an earlier agent kept: each record with what it is taken for now, and the serials.
    pub(in crate::source::dir) fn restored(
        records: Vec<(Record, Taken)>,
        serials: BTreeMap<String, Newest>,
    ) -> Self {
        let parse = |(name, newest): (String, Newest)| {
            let (namespace, name) = name.split_once('/')?;
            Some((PodName::new(namespace, name), newest))
        };
        let serials: BTreeMap<_, _> = serials.into_iter().filter_map(parse).collect();
        let mut files = Self { serials: serials.clone(), ..Self::default() };
        files.saved.serials = serials;
        for (record, taken) in records {
            let warnings = taken.decoded.warnings;
            let judged = Outcome::Accepted { pod: taken.decoded.pod.name.clone(), warnings };
            files.saved.versions.insert(record.path.clone(), record.audit.sha256.clone());
            let (pod, size) = (Arc::new(taken.decoded.pod), record.text.len());
            let version = Version { pod, audit: record.audit, size, text: None };
            let (good, runs) = (Some(version.clone()), Some(version));
            let held = Held { good, runs, judged, said: None, is_read: false, since: record.since };
            files.files.insert(record.path, held);
        }
        files.settle();
        files
    }

    /// What the disk does not hold yet, or holds in vain.
    pub(in crate::source::dir) fn unsaved(&self) -> Unsaved {
        let mut unsaved = Unsaved::default();
        let (kept, left_out) = self.to_keep();
        unsaved.left_out = left_out;
        for (path, (held, version)) in &kept {
            if self.saved.versions.get(*path) != Some(&version.audit.sha256)
                && let Some(text) = &version.text
            {
                let (path, audit) = (path.to_path_buf(), version.audit.clone());
                unsaved.write.push(Record { path, text: text.to_string(), audit, since: held.since });
            }
        }
        let in_vain = self.saved.versions.keys().filter(|path| !kept.contains_key(path.as_path()));
        unsaved.remove = in_vain.cloned().collect();
        if self.serials != self.saved.serials {
            let serials = self.serials.iter().map(|(name, newest)| (name.to_string(), newest.clone()));
            unsaved.serials = Some(serials.collect());
        }
        unsaved
    }

    /// The disk holds it: what was told is written.
    pub(in crate::source::dir) fn mark_saved(&mut self, written: &Unsaved) {
        for path in &written.remove {
            self.saved.versions.remove(path);
        }
        for Record { path, audit, .. } in &written.write {
            self.saved.versions.insert(path.clone(), audit.sha256.clone());
            let Some(held) = self.files.get_mut(path) else { continue };
            // What there was no room for keeps its text: there may be room later.
            for version in [&mut held.runs, &mut held.good].into_iter().flatten() {
                if version.audit.sha256 == audit.sha256 {
                    version.text = None;
                }
            }
        }
        if written.serials.is_some() {
            self.saved.serials = self.serials.clone();
        }
    }

    /// Forgets serials of pods that no file holds, where there are too many.
    pub(super) fn limit_serials(&mut self) {
        let mut excess = self.serials.len().saturating_sub(MAX_SERIALS);
        let claims = &self.claims;
        self.serials.retain(|name, _| {
            let forget = excess > 0 && claims.name(name).is_none();
            excess -= usize::from(forget);
            !forget
        });
    }

    /// The versions that count, as far as there is room, and the files that there is no room for. What is on disk
    /// already stays there: its text is known no more.
    fn to_keep(&self) -> (BTreeMap<&Path, (&Held, &Version)>, Vec<PathBuf>) {
        let (mut kept, mut left_out, mut room) = (BTreeMap::new(), Vec::new(), MAX_KEPT);
        let counts = self.files.iter().filter_map(|(path, held)| Some((path, held, held.runs.as_ref()?)));
        let (on_disk, new): (Vec<_>, Vec<_>) = counts
            .partition(|(path, _, version)| self.saved.versions.get(*path) == Some(&version.audit.sha256));
        for (path, held, version) in on_disk.into_iter().chain(new) {
            // A path that is no text has no place in a record.
            match room.checked_sub(version.size).filter(|_| path.to_str().is_some()) {
                Some(rest) => {
                    room = rest;
                    kept.insert(path.as_path(), (held, version));
                }
                None => left_out.push(path.clone()),
            }
        }
        (kept, left_out)
    }
}
