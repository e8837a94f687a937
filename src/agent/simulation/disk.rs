//! The checkpoints on a simulated disk: full at times, and after a power cut without what was not durable.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::world::{Sim, Slot, World};
use crate::host::state::{Durability, StateError};
use crate::plan::PullRecord;
use crate::plan::checkpoint::{Age, Checkpoint, Life, Remembered};
use crate::pod::object::Object;
use crate::pod::{Pod, PodName, PodUid, SandboxId};
use crate::runtime::Answer;
use crate::worker::checkpoints::Checkpoints;

/// What is on disk.
#[derive(Default)]
pub(super) struct Disk {
    /// As the file system shows it.
    files: BTreeMap<PodName, Stored>,
    /// As a power cut would leave it.
    durable: BTreeMap<PodName, Stored>,
    pulls: BTreeMap<(PodUid, String), PullRecord>,
    /// No write succeeds.
    pub(super) full: bool,
    /// Counts the boots of the machine.
    pub(super) boot: u32,
}

#[derive(Debug, Clone, PartialEq)]
struct Stored {
    boot: u32,
    checkpoint: Checkpoint,
}

impl Disk {
    /// The names of which something is kept.
    pub(super) fn holds(&self, pod: &PodName) -> bool {
        self.files.contains_key(pod)
    }

    /// The end of this sandbox was noted.
    pub(super) fn is_ended(&self, pod: &PodName, sandbox: &SandboxId) -> bool {
        self.files.get(pod).is_some_and(|stored| stored.checkpoint.terminating_sandboxes.contains(sandbox))
    }

    /// The sandboxes whose end was noted.
    pub(super) fn ended(&self, pod: &PodName) -> Vec<SandboxId> {
        self.files
            .get(pod)
            .map(|stored| stored.checkpoint.terminating_sandboxes.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// That the pod has completed would outlive a power cut.
    pub(super) fn has_completed(&self, pod: &Pod) -> bool {
        let completed = |files: &BTreeMap<PodName, Stored>| {
            files.get(&pod.name).is_some_and(|stored| stored.checkpoint.has_completed(pod))
        };
        completed(&self.files) && completed(&self.durable)
    }

    /// What the next agent is given: each file as it is read back.
    pub(super) fn read_all(&self) -> BTreeMap<PodName, Remembered> {
        let each = self.files.iter().map(|(name, stored)| {
            let text = serde_json::to_string(&stored.checkpoint).unwrap();
            let checkpoint = serde_json::from_str(&text).unwrap();
            let age = if stored.boot == self.boot { Age::ThisBoot } else { Age::Earlier };
            (name.clone(), Remembered { checkpoint, age })
        });
        each.collect()
    }
}

impl World {
    /// What is not durable is lost, or not, file by file.
    pub(super) fn cut_power_to_disk(&mut self) {
        self.disk.boot += 1;
        let mut names: Vec<_> = self.disk.files.keys().chain(self.disk.durable.keys()).cloned().collect();
        names.sort();
        names.dedup();
        for name in names {
            if self.chance(0.7) {
                match self.disk.durable.get(&name).cloned() {
                    Some(stored) => drop(self.disk.files.insert(name, stored)),
                    None => drop(self.disk.files.remove(&name)),
                }
            }
        }
        self.disk.durable = self.disk.files.clone();
        if self.rng.bool() {
            self.disk.pulls.clear();
        }
    }

    /// The instance's directory is removed, with what is kept there.
    pub(super) fn remove_directory(&mut self, uid: &PodUid) {
        self.disk.pulls.retain(|(of, _), _| of != uid);
    }
}

/// The disk as one agent uses it.
#[derive(Debug)]
pub(super) struct SimCheckpoints {
    pub(super) sim: Sim,
    pub(super) agent: u32,
}

fn refused() -> StateError {
    let source = io::Error::from_raw_os_error(28);
    StateError::File { operation: "write", path: PathBuf::from("/simulated"), source }
}

impl SimCheckpoints {
    /// Changes the disk after a moment, unless the agent is killed before, or the disk refuses.
    async fn change<T: Send + 'static>(
        &self,
        can_fail: bool,
        effect: impl FnOnce(&mut World) -> T + Send + 'static,
    ) -> Result<T, StateError> {
        let slot = Slot::default();
        {
            let mut world = self.sim.lock();
            if world.agent != Some(self.agent) {
                return Err(refused());
            }
            let wait = if world.chance(0.5) { Duration::ZERO } else { world.millis(0, 40) };
            let (agent, filled) = (self.agent, slot.clone());
            world.after(wait, move |world| {
                let share = world.faults.write_fails;
                let refuses = can_fail && (world.disk.full || world.chance(share));
                if world.agent != Some(agent) || refuses {
                    filled.fill(Err(refused()));
                } else {
                    let result = effect(world);
                    filled.fill(Ok(result));
                }
            });
        }
        std::future::poll_fn(|context| slot.poll(context)).await
    }
}

impl Checkpoints for SimCheckpoints {
    fn write<'a>(
        &'a self,
        pod: &'a PodName,
        checkpoint: &'a Checkpoint,
        durability: Durability,
    ) -> Answer<'a, Result<(), StateError>> {
        let (pod, checkpoint) = (pod.clone(), checkpoint.clone());
        Box::pin(self.change(true, move |world| {
            let of = checkpoint.instance.as_ref();
            let life = of.map(|of| (of.life == Life::Completed, of.state.phase));
            let ended: Vec<_> = checkpoint.terminating_sandboxes.iter().cloned().collect();
            world.note(format_args!("write {pod} ended {ended:?} completed {life:?} {durability:?}"));
            world.check_noted_ends(&pod, &ended);
            let stored = Stored { boot: world.disk.boot, checkpoint };
            if durability == Durability::Power {
                world.disk.durable.insert(pod.clone(), stored.clone());
            }
            world.disk.files.insert(pod, stored);
        }))
    }

    fn remove<'a>(&'a self, pod: &'a PodName) -> Answer<'a, Result<(), StateError>> {
        let pod = pod.clone();
        Box::pin(self.change(true, move |world| {
            world.note(format_args!("forget {pod}"));
            world.disk.files.remove(&pod);
        }))
    }

    fn read_pulls<'a>(
        &'a self,
        uid: &'a PodUid,
        containers: Vec<String>,
    ) -> Answer<'a, Vec<Result<(String, PullRecord), StateError>>> {
        let uid = uid.clone();
        Box::pin(async move {
            let read = self.change(false, move |world| {
                let read = |name: String| {
                    let pull = world.disk.pulls.get(&(uid.clone(), name.clone()))?;
                    Some(Ok((name, pull.clone())))
                };
                containers.into_iter().filter_map(read).collect()
            });
            read.await.unwrap_or_default()
        })
    }

    fn read_objects<'a>(&'a self, _: &'a PodUid) -> Answer<'a, Result<Vec<Object>, StateError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn write_objects<'a>(
        &'a self,
        _: &'a PodUid,
        _: Vec<Arc<Object>>,
        _: Durability,
    ) -> Answer<'a, Result<(), StateError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn write_pull<'a>(
        &'a self,
        uid: &'a PodUid,
        container: &'a str,
        pull: Option<PullRecord>,
    ) -> Answer<'a, Result<(), StateError>> {
        let key = (uid.clone(), container.to_owned());
        Box::pin(self.change(true, move |world| match pull {
            Some(pull) => drop(world.disk.pulls.insert(key, pull)),
            None => drop(world.disk.pulls.remove(&key)),
        }))
    }
}
