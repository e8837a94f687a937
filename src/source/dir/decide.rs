//! Decides what a reading of the directory proves, and keeps what follows on disk. Blocks for the agent's own disk alone.

use std::time::Duration;

use super::files::{Files, MissingFiles, Notice};
use super::identity::{DirectoryId, Evidence, weigh};
use super::last_good::{LastGoodStore, Unusable};
use super::reader::{Scan, until_finished};
use super::scan::{DirectoryReading, KnownFiles};
use super::signing_key::SigningKey;
use super::timing::{MISSING_RETRY, REMOVAL_GRACE, REPLACED_GRACE};
use super::{DirSource, check_manifest};
use crate::sync::mux::Snapshot;

/// Why a directory does not count that is not the one that was read before.
const MISPLACED: &str = "another directory, without a valid pod, is in its place";

/// What is known of the directory.
pub(super) struct Decider {
    source: DirSource,
    files: Files,
    store: LastGoodStore,
    missing: MissingFiles,
    /// The directory that was last read, with none of its files missing.
    directory: Option<DirectoryId>,
}

/// What follows from a reading.
pub(super) struct Decided {
    /// To be logged.
    pub(super) notices: Vec<Notice>,
    /// There when anything changed.
    pub(super) snapshot: Option<Snapshot>,
    /// When to look again, events or no events.
    pub(super) next: Duration,
    /// The files as they were read, if the reading counts.
    pub(super) known: Option<KnownFiles>,
}

impl Decider {
    /// Begins where an earlier agent ended. What the key does not vouch for, where one is needed, is not started.
    pub(super) fn load(source: DirSource, key: Option<&SigningKey>) -> Self {
        let mut store = LastGoodStore::new(&source.root_dir, &source.path);
        let (files, directory) = store.load(|record| {
            if let Some(key) = key {
                key.vouch(&record.audit).map_err(Unusable::Unvouched)?;
            }
            let signed = record.audit.signed.clone();
            check_manifest(&source, &record.path, record.text.as_bytes(), signed).map_err(Unusable::Refused)
        });
        Self { source, files, store, missing: MissingFiles::default(), directory }
    }

    /// The path was seen to be a single file, not a directory.
    pub(super) fn was_single(&self) -> bool {
        self.files.paths().any(|known| *known == self.source.path)
    }

    /// Applies a reading.
    pub(super) fn decide(mut self, mut scan: Scan) -> (Self, Decided) {
        let mut next = if scan.exists { self.source.rescan } else { MISSING_RETRY };
        next = next.min(until_finished(&scan.reading).unwrap_or(next));
        let evidence = self.evidence(&scan.reading);
        if evidence == Evidence::Misplaced {
            scan.reading = DirectoryReading::Unreadable(MISPLACED.into());
        }
        let mut known = None;
        match &mut scan.reading {
            // What happens to the files meanwhile cannot be seen.
            DirectoryReading::Unreadable(_) => self.missing = MissingFiles::default(),
            DirectoryReading::Files(found) => {
                let lost = self.files.paths().filter(|path| !found.files.contains_key(*path));
                let lost: Vec<_> = lost.cloned().collect();
                let grace = if evidence == Evidence::Replaced { REPLACED_GRACE } else { REMOVAL_GRACE };
                self.missing.note(lost, |path| scan.just_removed.contains(path), scan.ended);
                found.missing = self.missing.within(grace, scan.began);
                next = next.min(self.missing.until_over(grace, scan.began, scan.ended).unwrap_or(next));
                // One that has taken the place of another is the new one once it has had time to be filled.
                if found.missing.is_empty() {
                    self.directory.clone_from(&found.directory);
                }
                known = Some(scan.take_known());
            }
        }
        let (notices, snapshot) = self.files.apply(scan.reading);
        self.store.save(&mut self.files, self.directory.as_ref());
        (self, Decided { notices, snapshot, next, known })
    }

    fn evidence(&self, reading: &DirectoryReading) -> Evidence {
        let DirectoryReading::Files(found) = reading else { return Evidence::Same };
        let (valid, running) = (self.files.count_valid(found), self.files.running());
        weigh(self.directory.as_ref(), found.directory.as_ref(), valid, running)
    }
}
