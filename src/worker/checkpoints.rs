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
use crate::host::files::make_dir;
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

    /// The objects that an instance has, as last remembered.
    fn read_objects<'a>(&'a self, uid: &'a PodUid) -> Answer<'a, Result<Vec<Object>, StateError>>;

    /// Remembers its objects, in place of those that are remembered.
    fn write_objects<'a>(
        &'a self,
        uid: &'a PodUid,
        objects: Vec<Arc<Object>>,
        durability: Durability,
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
    /// What became of pods since their files in `store` were written, in memory.
    updates: Option<Store>,
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
    /// The checkpoints of an agent with this root directory. Without `updates`, a store in memory, all is written to disk.
    pub(crate) fn new(root_dir: &Path, dirs: Dirs, updates: Option<Store>) -> Self {
        Self { store: Store::new(root_dir, "pods"), updates, dirs, boot: boot_id() }
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
            let kept = read(&self.store, file).map(|kept| self.updated(file, kept));
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

    /// What is remembered, with what became of the pod since: if that is of this boot, and about the same instance.
    fn updated(&self, file: &str, kept: CheckpointFile) -> CheckpointFile {
        let update = self.updates.as_ref().and_then(|updates| read(updates, file));
        let newer = update.filter(|update| {
            update.boot == self.boot
                && !self.boot.is_empty()
                && update.checkpoint.is_update_of(&kept.checkpoint)
        });
        newer.unwrap_or(kept)
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
        let (store, updates, name) = (self.store.clone(), self.updates.clone(), file_name(pod));
        let pod = (name != plain_file_name(pod)).then(|| (pod.namespace.clone(), pod.name.clone()));
        let file = CheckpointFile { boot: self.boot.clone(), pod, checkpoint: checkpoint.clone() };
        Box::pin(smol::unblock(move || {
            let Some(updates) = &updates else {
                return store.write(&name, &file, on_disk(&file, durability));
            };
            // A full memory is no reason to forget.
            if durability == Durability::Boot && updates.write(&name, &file, durability).is_ok() {
                return Ok(());
            }
            store.write(&name, &file, on_disk(&file, durability))?;
            // One that stays tells of an earlier state of the same instance, or is not believed.
            let _ = updates.remove(&name);
            Ok(())
        }))
    }

    fn remove<'a>(&'a self, pod: &'a PodName) -> Answer<'a, Result<(), StateError>> {
        let (store, updates, name) = (self.store.clone(), self.updates.clone(), file_name(pod));
        Box::pin(smol::unblock(move || {
            store.remove(&name)?;
            updates.map_or(Ok(()), |updates| updates.remove(&name))
        }))
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
        durability: Durability,
    ) -> Answer<'a, Result<(), StateError>> {
        let (store, dir) = (self.objects(uid), self.dirs.pod(uid));
        Box::pin(smol::unblock(move || {
            if objects.is_empty() {
                return store.remove(OBJECTS);
            }
            // Others read the directory of a pod: the store alone would be closed to them. A failure shows in the write.
            let _ = make_dir(&dir, 0o750);
            let kept: Vec<_> = objects.iter().map(|object| KeptObject::new(object)).collect();
            store.write(OBJECTS, &kept, durability)
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

/// How a checkpoint is written to the disk.
fn on_disk(file: &CheckpointFile, durability: Durability) -> Durability {
    if durability == Durability::Boot { file.checkpoint.durability_of_all() } else { durability }
}

/// A file as it is, if it can be read.
fn read(store: &Store, file: &str) -> Option<CheckpointFile> {
    store.read(file).unwrap_or_else(|error| {
        warn!(error = chain(&error), "the checkpoint of a pod is lost");
        None
    })
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
    use std::sync::Arc;

    use super::*;
    use crate::plan::checkpoint::Life;
    use crate::pod::state::PodState;
    use crate::pod::testing::pod;

    #[test]
    fn the_longest_names_have_files() {
        let root = tempfile::tempdir().unwrap();
        let checkpoints =
            DiskCheckpoints::new(root.path(), Dirs::new(root.path().into(), root.path().into()), None);
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
        let checkpoints = DiskCheckpoints::new(root.path(), dirs, None);
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

    #[test]
    fn what_a_running_pod_goes_through_is_kept_in_memory_and_counts_for_one_boot_and_instance() {
        let root = tempfile::tempdir().unwrap();
        let dirs = Dirs::new(root.path().to_owned(), root.path().join("logs"));
        let updates = Store::new(&root.path().join("memory"), "pods");
        let checkpoints = DiskCheckpoints::new(root.path(), dirs, Some(updates));
        let name = PodName::new("default", "p");
        let on_disk = || fs::read(root.path().join("rkubelet/pods/default_p.json")).unwrap();
        let state = |note: &str| Arc::new(PodState { pod_ips: vec![note.into()], ..PodState::default() });
        let mut written = Checkpoint::default();
        let mut write = |uid: &str, life, message: &str| {
            let mut checkpoint = written.clone();
            checkpoint.turn_to(Some(&pod("p", uid)));
            checkpoint.note(&pod("p", uid), life, state(message));
            let durability = checkpoint.durability(&written).unwrap();
            smol::block_on(checkpoints.write(&name, &checkpoint, durability)).unwrap();
            written = checkpoint;
            durability
        };
        let said = |checkpoints: &DiskCheckpoints| {
            let instance = checkpoints.read_all().remove(&name)?.checkpoint.instance?;
            Some(format!("{} {}", instance.uid, instance.state.pod_ips.concat()))
        };
        let says = |text: &str| assert_eq!(said(&checkpoints).as_deref(), Some(text));
        assert_eq!(write("u", Life::Open, "begun"), Durability::Process);
        let first = on_disk();
        for message in ["restarted", "restarted again"] {
            assert_eq!(write("u", Life::Open, message), Durability::Boot);
            assert!(on_disk() == first, "the disk is not written to");
            says(&format!("u {message}"));
        }
        let rebooted = DiskCheckpoints { boot: "another".into(), ..checkpoints.clone() };
        assert_eq!(said(&rebooted).as_deref(), Some("u begun"), "memory is lost with the boot");
        let stale = fs::read(root.path().join("memory/rkubelet/pods/default_p.json")).unwrap();

        assert_eq!(write("u", Life::Completed, "done"), Durability::Power);
        says("u done");
        // The agent was killed between the two files.
        fs::write(root.path().join("memory/rkubelet/pods/default_p.json"), stale).unwrap();
        says("u done");
        assert_eq!(write("u", Life::Completed, "done, and more"), Durability::Power, "never in memory alone");
        assert_eq!(write("v", Life::Open, "the next"), Durability::Process);
        says("v the next");

        // Without space in memory all of it is on disk.
        fs::remove_dir_all(root.path().join("memory")).unwrap();
        fs::write(root.path().join("memory"), "no directory").unwrap();
        assert_eq!(write("v", Life::Open, "restarted"), Durability::Boot);
        says("v restarted");
        fs::remove_file(root.path().join("memory")).unwrap();
        smol::block_on(checkpoints.remove(&name)).unwrap();
        assert_eq!(said(&checkpoints), None);
    }
}
