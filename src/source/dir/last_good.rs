//! The last good versions on disk: one record per file, which directory they came from, and the newest serials.
//!
//! Written before a change is passed on: what an agent once wanted, the next one knows. Blocking.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::files::{Files, LastGoodRecord, Unsaved, ValidManifest};
use super::identity::DirectoryId;
use crate::host::state::{Durability, StateError, Store};
use crate::pod::finding::Refusal;
use crate::source::signature::digest;
use crate::text::chain;
use crate::text::last_logged::LastLogged;

/// The names of the two files that are not records.
const DIRECTORY: &str = "directory";
const SERIALS: &str = "serials";

/// Why a last good version is not started.
#[derive(Debug)]
pub(super) enum Unusable {
    /// It is no valid manifest any more.
    Refused(Refusal),
    /// No key that counts now has signed it.
    Untrusted(String),
}

/// Which directory the records are of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct DirectoryRecord {
    /// As it was given to the agent.
    path: PathBuf,
    /// The one that was read there last.
    identity: DirectoryId,
}

/// What is kept on disk.
pub(super) struct LastGoodStore {
    store: Store,
    /// The manifests' path.
    path: PathBuf,
    directory: Option<DirectoryRecord>,
    left_out: Vec<PathBuf>,
    logged: LastLogged,
}

impl LastGoodStore {
    /// What is kept of a path's manifests under the agent's root directory.
    pub(super) fn new(root_dir: &Path, path: &Path) -> Self {
        Self {
            store: Store::new(root_dir, "files"),
            path: path.to_owned(),
            directory: None,
            left_out: Vec::new(),
            logged: LastLogged::default(),
        }
    }

    /// What an earlier agent kept, and the directory that it read. What is damaged is said, and gone.
    pub(super) fn load(
        &mut self,
        revive: impl Fn(&LastGoodRecord) -> Result<ValidManifest, Unusable>,
    ) -> (Files, Option<DirectoryId>) {
        let serials = self.read::<BTreeMap<_, _>>(SERIALS).unwrap_or_default();
        let directory =
            self.read::<DirectoryRecord>(DIRECTORY).filter(|directory| directory.path == self.path);
        let names = self.store.names().unwrap_or_else(|error| {
            warn!(error = chain(&error), "cannot read what is kept of the manifests");
            Vec::new()
        });
        let mut records = Vec::new();
        for name in names.iter().filter(|name| ![DIRECTORY, SERIALS].contains(&name.as_str())) {
            let Some(record) = self.read::<LastGoodRecord>(name) else { continue };
            if record.path != self.path && record.path.parent() != Some(&self.path) {
                // Of another path: this agent was not asked to look after its pods.
                self.forget(name);
                continue;
            }
            match revive(&record) {
                Ok(manifest) => records.push((record, manifest)),
                Err(Unusable::Untrusted(reason)) => {
                    // Kept: its key may count again.
                    warn!(file = %record.path.display(), reason, "the last good version is not used");
                }
                Err(Unusable::Refused(refusal)) => {
                    warn!(file = %record.path.display(), reason = %refusal, "the last good version is of no use any more");
                    self.forget(name);
                }
            }
        }
        if !records.is_empty() {
            info!(files = records.len(), "last good versions of manifests are known");
        }
        self.directory = directory;
        (
            Files::restored(records, serials),
            self.directory.as_ref().map(|directory| directory.identity.clone()),
        )
    }

    /// Brings the disk up to date. A failure is said once and tried again: pods do not wait for it.
    pub(super) fn save(&mut self, files: &mut Files, identity: Option<&DirectoryId>) {
        let unsaved = files.unsaved();
        if unsaved.left_out != self.left_out {
            for path in &unsaved.left_out {
                warn!(file = %path.display(), "too much to keep: its last good version will not outlive the agent");
            }
            self.left_out.clone_from(&unsaved.left_out);
        }
        match self.write(&unsaved, identity).map_err(|error| chain(&error)) {
            Ok(()) => {
                self.logged.clear();
                if !unsaved.is_empty() {
                    files.mark_saved(&unsaved);
                }
            }
            Err(error) if self.logged.is_new(&error) => {
                warn!(error, "cannot keep the last good versions of manifests");
            }
            Err(_) => {}
        }
    }

    fn write(&mut self, unsaved: &Unsaved, identity: Option<&DirectoryId>) -> Result<(), StateError> {
        if let Some(identity) = identity
            && self.directory.as_ref().is_none_or(|kept| kept.identity != *identity)
        {
            let directory = DirectoryRecord { path: self.path.clone(), identity: identity.clone() };
            self.store.write(DIRECTORY, &directory, Durability::Power)?;
            self.directory = Some(directory);
        }
        if let Some(serials) = &unsaved.serials {
            self.store.write(SERIALS, serials, Durability::Power)?;
        }
        let names: Vec<String> = unsaved.write.iter().map(|record| name_of(&record.path)).collect();
        let records = names.iter().map(String::as_str).zip(&unsaved.write);
        self.store.write_all(records, Durability::Power)?;
        unsaved.remove.iter().try_for_each(|path| self.store.remove(&name_of(path)))
    }

    /// What is kept under a name; nothing if it is damaged.
    fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        self.store.read(name).unwrap_or_else(|error| {
            warn!(error = chain(&error), "lost what was kept of the manifests");
            if matches!(error, StateError::Damaged { .. }) {
                self.forget(name);
            }
            None
        })
    }

    fn forget(&self, name: &str) {
        if let Err(error) = self.store.remove(name) {
            warn!(error = chain(&error), "cannot forget what was kept of the manifests");
        }
    }
}

/// The name of a file's record.
fn name_of(path: &Path) -> String {
    digest(path.as_os_str().as_encoded_bytes())
}
