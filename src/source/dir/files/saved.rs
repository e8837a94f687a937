//! What the disk holds of the files, what it should hold, and what a new agent makes of it. Pure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{
    Audit, FileJudgement, FileState, Files, HiddenText, Newest, Signed, Subject, ValidManifest, Version,
};

/// What all records may weigh together: a node's disk is not for manifests.
const MAX_KEPT: usize = 64 << 20;
/// How many serials of what no file holds any more are remembered.
const MAX_SERIALS: usize = 4096;

/// The version of a file that counts, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::source::dir) struct LastGoodRecord {
    /// The file.
    pub(in crate::source::dir) path: PathBuf,
    /// As it was written.
    pub(in crate::source::dir) text: HiddenText,
    /// Where it came from.
    pub(in crate::source::dir) audit: Audit,
    /// When it came to be.
    pub(in crate::source::dir) since: (i64, i64),
}

/// What must be done so that the disk holds what counts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::source::dir) struct Unsaved {
    /// To be put in place of what is kept of the same file.
    pub(in crate::source::dir) write: Vec<LastGoodRecord>,
    /// To be forgotten.
    pub(in crate::source::dir) remove: Vec<PathBuf>,
    /// The newest serials, if they changed: by what was signed, such as `namespace/name` of a pod.
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
    /// By file, what is kept of it.
    versions: BTreeMap<PathBuf, SavedVersion>,
    serials: BTreeMap<Subject, Newest>,
}

/// What tells two records of a file apart: its digest, and who signed it.
type SavedVersion = (String, Option<Signed>);

impl Audit {
    fn saved_version(&self) -> SavedVersion {
        (self.sha256.clone(), self.signed.clone())
    }
}

impl Files {
    /// What an earlier agent kept: each record with the manifest that it holds, and the serials.
    pub(in crate::source::dir) fn restored(
        records: Vec<(LastGoodRecord, ValidManifest)>,
        serials: BTreeMap<String, Newest>,
    ) -> Self {
        let parse = |(name, newest): (String, Newest)| Some((Subject::parse(&name)?, newest));
        let serials: BTreeMap<_, _> = serials.into_iter().filter_map(parse).collect();
        let mut files = Self { serials: serials.clone(), ..Self::default() };
        files.saved.serials = serials;
        for (record, manifest) in records {
            let judged = FileJudgement::Good(manifest.decoded.subjects());
            files.saved.versions.insert(record.path.clone(), record.audit.saved_version());
            let version = Version::new(manifest.decoded, record.audit, record.text.0.len());
            let (good, runs) = (Some(version.clone()), Some(version));
            let file = FileState { good, runs, judged, logged: None, is_read: false, since: record.since };
            files.files.insert(record.path, file);
        }
        files.assign_names();
        files
    }

    /// What the disk does not hold yet, or need not hold any more.
    pub(in crate::source::dir) fn unsaved(&self) -> Unsaved {
        let mut unsaved = Unsaved::default();
        let (kept, left_out) = self.to_keep();
        unsaved.left_out = left_out;
        for (path, (file, version)) in &kept {
            if self.saved.versions.get(*path) != Some(&version.audit.saved_version())
                && let Some(text) = &version.text
            {
                let (path, audit) = (path.to_path_buf(), version.audit.clone());
                unsaved.write.push(LastGoodRecord { path, text: text.clone(), audit, since: file.since });
            }
        }
        let obsolete = self.saved.versions.keys().filter(|path| !kept.contains_key(path.as_path()));
        unsaved.remove = obsolete.cloned().collect();
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
        for LastGoodRecord { path, audit, .. } in &written.write {
            self.saved.versions.insert(path.clone(), audit.saved_version());
            let Some(file) = self.files.get_mut(path) else { continue };
            // What there was no room for keeps its text: there may be room later.
            for version in [&mut file.runs, &mut file.good].into_iter().flatten() {
                if version.audit.saved_version() == audit.saved_version() {
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
            let forget = excess > 0 && !claims.has(name);
            excess -= usize::from(forget);
            !forget
        });
    }

    /// The versions that count, as far as there is room, and the files that there is no room for. What is on disk
    /// already stays there: its text is known no more.
    fn to_keep(&self) -> (BTreeMap<&Path, (&FileState, &Version)>, Vec<PathBuf>) {
        let (mut kept, mut left_out, mut room) = (BTreeMap::new(), Vec::new(), MAX_KEPT);
        let counts = self.files.iter().filter_map(|(path, file)| Some((path, file, file.runs.as_ref()?)));
        let (on_disk, new): (Vec<_>, Vec<_>) = counts.partition(|(path, _, version)| {
            self.saved.versions.get(*path) == Some(&version.audit.saved_version())
        });
        for (path, file, version) in on_disk.into_iter().chain(new) {
            // A path that is no text has no place in a record.
            match room.checked_sub(version.size).filter(|_| path.to_str().is_some()) {
                Some(rest) => {
                    room = rest;
                    kept.insert(path.as_path(), (file, version));
                }
                None => left_out.push(path.clone()),
            }
        }
        (kept, left_out)
    }
}
