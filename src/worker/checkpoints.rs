//! The checkpoints of pods on disk: read once when the agent starts, written by the worker of each name.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tracing::warn;

use crate::host::Dirs;
use crate::host::boot::boot_id;
use crate::host::state::{Durability, StateError, Store};
use crate::plan::PullRecord;
use crate::plan::checkpoint::{Age, Checkpoint, Remembered};
use crate::pod::object::Object;
use crate::pod::object::kept::KeptObject;
use crate::pod::{PodName, PodUid};
use crate::runtime::Answer;
use crate::text::chain;

/// File systems take names of 255 bytes; the rest is for suffixes.
const MAX_FILE_NAME: usize = 240;
/// The name of the file of an instance's objects.
const OBJECTS: &str = "kept";

/// Where workers keep what must outlive the agent. A simulation has a disk of its own.
pub(crate) trait Checkpoints: Debug + Send + Sync {
    /// Replaces the checkpoint of a pod.
    fn write<'a>(
        &'a self,
        pod: &'a PodName,
        checkpoint: &'a Checkpoint,
        durability: Durability,
    ) -> Answer<'a, Result<(), StateError>>;

    /// Forgets a pod.
    fn remove<'a>(&'a self, pod: &'a PodName) -> Answer<'a, Result<(), StateError>>;

    /// What is remembered of failed pulls of an instance, for each of these containers.
    fn read_pulls<'a>(
        &'a self,
        uid: &'a PodUid,
        containers: Vec<String>,
    ) -> Answer<'a, Vec<Result<(String, PullRecord), StateError>>>;

    /// The objects that an instance has and that nobody else has any more.
    fn read_objects<'a>(&'a self, uid: &'a PodUid) -> Answer<'a, Result<Vec<Object>, StateError>>;

    /// Remembers such objects, in place of those that are remembered.
    fn write_objects<'a>(
        &'a self,
        uid: &'a PodUid,
        objects: Vec<Arc<Object>>,
    ) -> Answer<'a, Result<(), StateError>>;

    /// Remembers a failed pull, or forgets it.
    fn write_pull<'a>(
        &'a self,
        uid: &'a PodUid,
        container: &'a str,
        pull: Option<PullRecord>,
    ) -> Answer<'a, Result<(), StateError>>;
}

/// The checkpoints under the agent's root directory. What is remembered of pulls lies in the instance's directory, so that
/// it goes with it.
#[derive(Debug, Clone)]
pub(crate) struct DiskCheckpoints {
    store: Store,
    dirs: Dirs,
    /// The kernel's name for the time since the machine booted; empty if it has none.
    boot: String,
}

/// A checkpoint as it is on disk.
#[derive(Serialize, Deserialize)]
struct CheckpointFile {
    #[serde(default)]
    boot: String,
    /// Namespace and name, where the file's own name does not tell them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pod: Option<(String, String)>,
    #[serde(flatten)]
    checkpoint: Checkpoint,
}

impl DiskCheckpoints {
    /// The checkpoints of an agent with this root directory.
    pub(crate) fn new(root_dir: &Path, dirs: Dirs) -> Self {
        Self { store: Store::new(root_dir, "pods"), dirs, boot: boot_id() }
    }

    /// What is remembered of every pod. A checkpoint that cannot be read is named and counts as empty, so that its file
    /// is removed or replaced. Blocks: it is read before anything runs.
    pub(crate) fn read_all(&self) -> BTreeMap<PodName, Remembered> {
        let names = self.store.names().unwrap_or_else(|error| {
            warn!(error = chain(&error), "cannot read the checkpoints of the pods");
            Vec::new()
        });
        let each = names.iter().filter_map(|file| {
            let (namespace, name) = file.split_once('_')?;
            let kept = self.store.read::<CheckpointFile>(file).unwrap_or_else(|error| {
                warn!(error = chain(&error), "the checkpoint of a pod is lost");
                None
            });
            let mut pod = PodName::new(namespace, name);
            let remembered = kept.map(|CheckpointFile { boot, pod: named, checkpoint }| {
                named.into_iter().for_each(|(namespace, name)| pod = PodName::new(namespace, name));
                let age = if boot == self.boot && !boot.is_empty() { Age::ThisBoot } else { Age::Earlier };
                Remembered { checkpoint, age }
            });
            Some((pod, remembered.unwrap_or_default()))
        });
        each.collect()
    }

    fn objects(&self, uid: &PodUid) -> Store {
        Store::new(&self.dirs.pod(uid), "objects")
    }

    fn pulls(&self, uid: &PodUid) -> Store {
        Store::new(&self.dirs.pod(uid), "pulls")
    }
}

impl Checkpoints for DiskCheckpoints {
    fn write<'a>(
        &'a self,
        pod: &'a PodName,
        checkpoint: &'a Checkpoint,
        durability: Durability,
    ) -> Answer<'a, Result<(), StateError>> {
        let (store, name) = (self.store.clone(), file_name(pod));
        let pod = (name != plain_file_name(pod)).then(|| (pod.namespace.clone(), pod.name.clone()));
        let file = CheckpointFile { boot: self.boot.clone(), pod, checkpoint: checkpoint.clone() };
        Box::pin(smol::unblock(move || store.write(&name, &file, durability)))
    }

    fn remove<'a>(&'a self, pod: &'a PodName) -> Answer<'a, Result<(), StateError>> {
        let (store, name) = (self.store.clone(), file_name(pod));
        Box::pin(smol::unblock(move || store.remove(&name)))
    }

    fn read_pulls<'a>(
        &'a self,
        uid: &'a PodUid,
        containers: Vec<String>,
    ) -> Answer<'a, Vec<Result<(String, PullRecord), StateError>>> {
        let store = self.pulls(uid);
        Box::pin(smol::unblock(move || {
            let read = |name: String| Some(store.read(&name).transpose()?.map(|record| (name, record)));
            containers.into_iter().filter_map(read).collect()
        }))
    }

    fn read_objects<'a>(&'a self, uid: &'a PodUid) -> Answer<'a, Result<Vec<Object>, StateError>> {
        let store = self.objects(uid);
        Box::pin(smol::unblock(move || {
            let kept: Option<Vec<KeptObject>> = store.read(OBJECTS)?;
            Ok(kept.into_iter().flatten().filter_map(KeptObject::revive).collect())
        }))
    }

    fn write_objects<'a>(
        &'a self,
        uid: &'a PodUid,
        objects: Vec<Arc<Object>>,
    ) -> Answer<'a, Result<(), StateError>> {
        let store = self.objects(uid);
        Box::pin(smol::unblock(move || {
            if objects.is_empty() {
                return store.remove(OBJECTS);
            }
            let kept: Vec<_> = objects.iter().map(|object| KeptObject::new(object)).collect();
            store.write(OBJECTS, &kept, Durability::Power)
        }))
    }

    fn write_pull<'a>(
        &'a self,
        uid: &'a PodUid,
        container: &'a str,
        pull: Option<PullRecord>,
    ) -> Answer<'a, Result<(), StateError>> {
        let (store, name) = (self.pulls(uid), container.to_owned());
        Box::pin(smol::unblock(move || match pull {
            Some(pull) => store.write(&name, &pull, Durability::Process),
            None => store.remove(&name),
        }))
    }
}

/// The name of a pod's file, without its extension. One that is too long for a file system is cut, and told apart by a digest.
fn file_name(pod: &PodName) -> String {
    let plain = plain_file_name(pod);
    if plain.len() <= MAX_FILE_NAME {
        return plain;
    }
    let digest = Sha256::digest(plain.as_bytes());
    let digest: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    // Names are ASCII.
    format!("{}-{digest}", plain.get(..MAX_FILE_NAME - 33).unwrap_or_default())
}

/// Neither a namespace nor a name holds an underscore.
fn plain_file_name(pod: &PodName) -> String {
    format!("{}_{}", pod.namespace, pod.name)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::plan::checkpoint::Life;
    use crate::pod::testing::pod;

    #[test]
    fn the_longest_names_have_files() {
        let root = tempfile::tempdir().unwrap();
        let checkpoints =
            DiskCheckpoints::new(root.path(), Dirs::new(root.path().into(), root.path().into()));
        let names = ["a", "b"].map(|last| PodName::new("n".repeat(63), format!("{}{last}", "p".repeat(252))));
        let mut checkpoint = Checkpoint::default();
        checkpoint.note(&pod("p", "u"), Life::Completed, Default::default());
        for name in &names {
            smol::block_on(checkpoints.write(name, &checkpoint, Durability::Process)).unwrap();
        }
        assert_eq!(checkpoints.read_all().into_keys().collect::<Vec<_>>(), names);
        for name in &names {
            smol::block_on(checkpoints.remove(name)).unwrap();
        }
        assert!(checkpoints.read_all().is_empty());
    }

    #[test]
    fn what_is_written_is_read_again_and_damage_costs_what_it_held() {
        let root = tempfile::tempdir().unwrap();
        let dirs = Dirs::new(root.path().to_owned(), root.path().join("logs"));
        let checkpoints = DiskCheckpoints::new(root.path(), dirs);
        assert!(checkpoints.read_all().is_empty());
        let (good, bad) = (PodName::new("default", "good-node1"), PodName::new("kube-system", "bad"));
        let mut checkpoint = Checkpoint::default();
        checkpoint.note(&pod("good-node1", "u"), Life::Completed, Default::default());
        for name in [&good, &bad] {
            smol::block_on(checkpoints.write(name, &checkpoint, Durability::Process)).unwrap();
        }
        fs::write(root.path().join("rkubelet/pods/kube-system_bad.json"), "{\"instance\"").unwrap();
        fs::write(root.path().join("rkubelet/pods/strange.json"), "{}").unwrap();
        let whole = Remembered { checkpoint, age: Age::ThisBoot };
        let expect = BTreeMap::from([(good.clone(), whole), (bad.clone(), Remembered::default())]);
        assert_eq!(checkpoints.read_all(), expect);
        let rebooted = DiskCheckpoints { boot: "another".into(), ..checkpoints.clone() };
        assert_eq!(rebooted.read_all()[&good].age, Age::Earlier);
        smol::block_on(checkpoints.remove(&bad)).unwrap();
        assert_eq!(checkpoints.read_all().len(), 1);
    }
}
