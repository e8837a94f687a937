//! The records of pods on disk: read once when the agent starts, written by the worker of each name.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::host::state::{Durability, StateError, Store};
use crate::plan::checkpoint::{Age, Record, Remembered};
use crate::pod::PodName;
use crate::text::chain;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Where the records are.
#[derive(Debug, Clone)]
pub(crate) struct Records {
    store: Store,
    /// The kernel's name for the time since the machine booted; empty if it has none.
    boot: String,
}

/// A record as it is on disk.
#[derive(Serialize, Deserialize)]
struct Kept {
    #[serde(default)]
    boot: String,
    #[serde(flatten)]
    record: Record,
}

impl Records {
    /// The records under the agent's root directory.
    pub(crate) fn new(root_dir: &Path) -> Self {
        let boot = fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned();
        Self { store: Store::new(root_dir, "pods"), boot }
    }

    /// What is remembered of every pod. A record that cannot be read is named and counts as empty, so that its file
    /// goes or is written over. Blocks: it is read before anything runs.
    pub(crate) fn read_all(&self) -> BTreeMap<PodName, Remembered> {
        let names = self.store.names().unwrap_or_else(|error| {
            warn!(error = chain(&error), "cannot read what was remembered of the pods");
            Vec::new()
        });
        let each = names.iter().filter_map(|file| {
            let (namespace, name) = file.split_once('_')?;
            let kept = self.store.read::<Kept>(file).unwrap_or_else(|error| {
                warn!(error = chain(&error), "what was remembered of a pod is lost");
                None
            });
            let remembered = kept.map(|Kept { boot, record }| {
                let age = if boot == self.boot && !boot.is_empty() { Age::ThisBoot } else { Age::Earlier };
                Remembered { record, age }
            });
            Some((PodName::new(namespace, name), remembered.unwrap_or_default()))
        });
        each.collect()
    }

    /// Puts a record in place of the last one.
    pub(super) async fn write(
        &self,
        pod: &PodName,
        record: Record,
        durability: Durability,
    ) -> Result<(), StateError> {
        let (store, file, boot) = (self.store.clone(), file(pod), self.boot.clone());
        smol::unblock(move || store.write(&file, &Kept { boot, record }, durability)).await
    }

    /// Forgets a pod.
    pub(super) async fn remove(&self, pod: &PodName) -> Result<(), StateError> {
        let (store, file) = (self.store.clone(), file(pod));
        smol::unblock(move || store.remove(&file)).await
    }
}

/// Neither a namespace nor a name holds an underscore.
fn file(pod: &PodName) -> String {
    format!("{}_{}", pod.namespace, pod.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::checkpoint::Life;
    use crate::pod::testing::pod;

    #[test]
    fn what_is_written_is_read_again_and_damage_costs_what_it_held() {
        let root = tempfile::tempdir().unwrap();
        let records = Records::new(root.path());
        assert!(records.read_all().is_empty());
        let (good, bad) = (PodName::new("default", "good-node1"), PodName::new("kube-system", "bad"));
        let mut record = Record::default();
        record.note(&pod("good-node1", "u"), Life::Completed, Default::default());
        for name in [&good, &bad] {
            smol::block_on(records.write(name, record.clone(), Durability::Process)).unwrap();
        }
        fs::write(root.path().join("rkubelet/pods/kube-system_bad.json"), "{\"instance\"").unwrap();
        fs::write(root.path().join("rkubelet/pods/strange.json"), "{}").unwrap();
        let whole = Remembered { record, age: Age::ThisBoot };
        let expect = BTreeMap::from([(good.clone(), whole), (bad.clone(), Remembered::default())]);
        assert_eq!(records.read_all(), expect);
        let rebooted = Records { boot: "another".into(), ..records.clone() };
        assert_eq!(rebooted.read_all()[&good].age, Age::Earlier);
        smol::block_on(records.remove(&bad)).unwrap();
        assert_eq!(records.read_all().len(), 1);
    }
}
