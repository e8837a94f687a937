//! What is remembered of a pod name beyond the agent's life and beyond what the runtime holds.
//!
//! Three things: the wanted instance with its last state, so that what completed stays completed and no condition changes
//! over a restart; the sandboxes whose end was begun, so that it is finished, and what it killed did not fail; and the
//! containers that were ended because their sandbox had died. Pure: workers keep it on disk.

mod old_form;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Step;
use crate::pod::observed::{Container, Observed};
use crate::pod::state::{Failed, Phase, PodState, RunState};
use crate::pod::{ConfigHash, ContainerId, HostPort, Pod, PodUid, SandboxId, Source};

/// What a write must survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The end of the agent, but no boot: a file in memory suffices, and spares the disk.
    Boot,
    /// The end of the agent; a power cut may take it back. Costs next to nothing.
    Process,
    /// A power cut, once the call has returned.
    Power,
}

/// What is remembered of one pod name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Checkpoint {
    /// The instance that was wanted last; none while the pod is to stop.
    pub instance: Option<InstanceRecord>,
    /// Sandboxes that the runtime still holds, and whose end was begun.
    #[serde(rename = "ended", skip_serializing_if = "BTreeSet::is_empty")]
    pub terminating_sandboxes: BTreeSet<SandboxId>,
    /// Containers that the runtime still holds, and whose sandbox died under them, or a probe of which failed: they were
    /// ended by us, and have not completed, whatever their exit code.
    #[serde(rename = "lost", skip_serializing_if = "BTreeSet::is_empty")]
    pub killed_containers: BTreeSet<ContainerId>,
    /// What tells the ConfigMaps and Secrets of the wanted instance from others, as it was started with; for a pod that is
    /// replaced when they change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects: Option<String>,
}

/// One instance of the name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "old_form::OldInstance")]
pub(crate) struct InstanceRecord {
    /// Its UID.
    pub uid: PodUid,
    /// The hash of its manifest.
    pub hash: ConfigHash,
    /// Who wants it.
    pub source: Source,
    /// Where it is in its life.
    pub life: Life,
    /// Its state as last computed.
    pub state: Arc<PodState>,
    /// When its first sandbox was created, if it has come that far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub began: Option<Timestamp>,
    /// The ports of the host that it has for as long as something of it runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub host_ports: Vec<HostPort>,
}

/// Where an instance is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Life {
    /// Something of it may run, or will.
    Open,
    /// It ran to its end, and will not run again.
    Completed,
}

/// What an earlier agent remembered of one pod name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Remembered {
    /// What it remembered.
    pub checkpoint: Checkpoint,
    /// When.
    pub age: Age,
}

/// When something was remembered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Age {
    /// Since the machine booted: nothing may have changed.
    ThisBoot,
    /// Before, or nobody knows: nothing of it runs any more.
    #[default]
    Earlier,
}

impl Remembered {
    /// The state to publish of a pod until its worker has observed it.
    pub(crate) fn state(&self, pod: &Pod) -> Option<Arc<PodState>> {
        let last = self.checkpoint.of(pod)?;
        let holds = self.age == Age::ThisBoot || last.life == Life::Completed;
        holds.then(|| last.state.clone())
    }
}

impl InstanceRecord {
    /// The instance that a pod asks for.
    pub(crate) fn is(&self, pod: &Pod) -> bool {
        self.uid == pod.uid && self.hash == pod.hash
    }
}

impl Checkpoint {
    /// What is remembered of the instance that a pod asks for.
    pub(crate) fn of(&self, pod: &Pod) -> Option<&InstanceRecord> {
        self.instance.as_ref().filter(|instance| instance.is(pod))
    }

    /// The pod ran to its end.
    pub(crate) fn has_completed(&self, pod: &Pod) -> bool {
        self.of(pod).is_some_and(|instance| instance.life == Life::Completed)
    }

    /// The pod was ended before it was done, and why.
    pub(crate) fn failed(&self, pod: &Pod) -> Option<&Failed> {
        let over = self.of(pod).filter(|instance| instance.life == Life::Completed)?;
        over.state.failed.as_ref()
    }

    /// Another instance is wanted, or none: the last one is of no interest any more.
    pub(crate) fn turn_to(&mut self, pod: Option<&Pod>) {
        if self.instance.as_ref().is_some_and(|instance| pod.is_none_or(|pod| !instance.is(pod))) {
            self.instance = None;
            self.objects = None;
        }
    }

    /// Forgets the ends that are finished.
    pub(crate) fn forget_gone(&mut self, observed: &Observed) {
        self.terminating_sandboxes.retain(|id| observed.sandboxes.iter().any(|sandbox| sandbox.id == *id));
        // Once a container has a successor, nothing depends on how it ended.
        let all = &observed.containers;
        let has_successor = |c: &Container| {
            all.iter().any(|other| other.uid == c.uid && other.name == c.name && other.attempt > c.attempt)
        };
        self.killed_containers.retain(|id| all.iter().any(|c| c.id == *id && !has_successor(c)));
    }

    /// Remembers where the wanted instance is, and its state. What has completed stays so.
    pub(crate) fn note(&mut self, pod: &Pod, life: Life, state: Arc<PodState>) {
        let life = if self.has_completed(pod) { Life::Completed } else { life };
        let began = self.of(pod).and_then(|instance| instance.began);
        let (uid, hash) = (pod.uid.clone(), pod.hash.clone());
        let host_ports = pod.host_ports();
        self.instance =
            Some(InstanceRecord { uid, hash, source: pod.source, life, state, began, host_ports });
    }

    /// When an instance began: with its first sandbox, though that may be gone. What is being ended is no part of it.
    pub(crate) fn began(&self, pod: &Pod, observed: &Observed) -> Option<Timestamp> {
        let own =
            observed.sandboxes.iter().filter(|s| s.is_of(pod) && !self.terminating_sandboxes.contains(&s.id));
        let remembered = self.of(pod).and_then(|instance| instance.began);
        remembered.or_else(|| own.map(|sandbox| sandbox.created_at).min())
    }

    /// Remembers when the instance began, given what was remembered so far.
    pub(crate) fn note_began(&mut self, began: impl Fn(Option<Timestamp>) -> Timestamp) {
        if let Some(instance) = &mut self.instance {
            instance.began = Some(began(instance.began));
        }
    }

    /// The state of a pod that completed, unless the runtime still holds every container that it names: then it can be
    /// computed as ever.
    pub(crate) fn standing(&self, pod: &Pod, observed: &Observed) -> Option<Arc<PodState>> {
        let completed = self.of(pod).filter(|instance| instance.life == Life::Completed)?;
        let mut ids = completed.state.all_containers().filter_map(|container| container.id()).peekable();
        let is_held = |id: &ContainerId| observed.containers.iter().any(|held| held.id == *id);
        let can_be_computed = ids.peek().is_some() && ids.all(is_held);
        (!can_be_computed).then(|| as_over(&completed.state))
    }

    /// There is nothing to remember.
    pub(crate) fn is_empty(&self) -> bool {
        self.instance.is_none() && self.terminating_sandboxes.is_empty() && self.killed_containers.is_empty()
    }

    /// How this must be written when `written` was written last; none if it need not be.
    ///
    /// A file that holds a fact which only it knows is never replaced by one that a power cut may tear. What a running instance
    /// goes through, restarts of its containers among them, is no such fact.
    pub(crate) fn durability(&self, written: &Checkpoint) -> Option<Durability> {
        let ends = !self.terminating_sandboxes.is_empty();
        if self == written || ends && self.has_facts_of(written) {
            // The state of what ends is not shown after a restart of the agent: what is on disk suffices.
            return None;
        }
        Some(if self.is_update_of(written) && !self.has_ended() {
            Durability::Boot
        } else {
            self.durability_of_all()
        })
    }

    /// How this must be written where nothing of it is kept elsewhere.
    pub(crate) fn durability_of_all(&self) -> Durability {
        let holds_facts =
            !self.terminating_sandboxes.is_empty() || self.has_ended() || !self.killed_containers.is_empty();
        if holds_facts { Durability::Power } else { Durability::Process }
    }

    /// It differs from another in what the instance has gone through, at most.
    pub(crate) fn is_update_of(&self, other: &Checkpoint) -> bool {
        let began =
            |checkpoint: &Checkpoint| checkpoint.instance.as_ref().and_then(|instance| instance.began);
        self.has_facts_of(other) && began(self) == began(other)
    }

    fn has_ended(&self) -> bool {
        self.instance.as_ref().is_some_and(|instance| instance.life == Life::Completed)
    }

    /// It is early enough to write this after these steps: all that is new in it can be asked of the runtime, and no step
    /// removes anything there.
    pub(crate) fn may_wait(&self, written: &Checkpoint, steps: &[Step]) -> bool {
        let creates = |step: &Step| matches!(step, Step::CreateSandbox { .. } | Step::StartContainer(_));
        !steps.is_empty()
            && (self.has_facts_of(written) && steps.iter().all(creates)
                || self.durability(written) == Some(Durability::Process)
                    && self.instance_id() != written.instance_id())
    }

    /// Both hold the same facts that nobody else knows.
    fn has_facts_of(&self, other: &Checkpoint) -> bool {
        let life = |checkpoint: &Checkpoint| checkpoint.instance.as_ref().map(|instance| instance.life);
        self.terminating_sandboxes == other.terminating_sandboxes
            && self.killed_containers == other.killed_containers
            && self.instance_id() == other.instance_id()
            && life(self) == life(other)
    }

    fn instance_id(&self) -> Option<(&PodUid, &ConfigHash)> {
        self.instance.as_ref().map(|instance| (&instance.uid, &instance.hash))
    }
}

/// The state of a pod that is over: it may have been noted while sidecars still ran.
fn as_over(state: &Arc<PodState>) -> Arc<PodState> {
    if matches!(state.phase, Phase::Succeeded | Phase::Failed) {
        return state.clone();
    }
    let succeeded = state
        .containers
        .iter()
        .all(|container| matches!(&container.state, RunState::Terminated(ended) if ended.exit_code == 0));
    let phase = if succeeded { Phase::Succeeded } else { Phase::Failed };
    Arc::new(PodState { phase, ..(**state).clone() })
}
