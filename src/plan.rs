//! The heart: what to do next for one pod name, as data (kubelet's computePodActions, made pure).
//!
//! [`plan_pod`] looks at the desired state, at what was observed and at what failed before, and returns a [`Plan`] that
//! leaves nothing to decide. After a failed step the worker observes and plans anew: a plan is never resumed.
//!
//! Invariants: nothing of an instance starts while another instance of the name is alive; applying plans
//! reaches rest; nothing starts while the pod is to stop.

pub(crate) mod checkpoint;
mod containers;
mod deadline;
mod ending;
mod gate;
mod init;
mod lacks;
pub(crate) mod log_rotation;
mod needs;
pub(crate) mod order;
mod pull;
mod round;
mod sandbox;
mod starts;
mod stop;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::plan::checkpoint::Checkpoint;
use crate::plan::order::{Gate, Unmet};
use crate::pod::object::PodObjects;
use crate::pod::observed::{Container, Exit, Observed, Sandbox};
use crate::pod::{ContainerId, ContainerRef, Pod, PodUid, SandboxId};
use crate::probe::target::Verdicts;
use crate::time::backoff::Backoff;
use crate::time::since::Since;
use stop::{StopProgress, Stopping};

pub(crate) use crate::pod::state::{Failed, Waiting};
pub(crate) use deadline::{active_since, date_of};
pub(crate) use ending::{Signalling, StopAction, StopContainer, Terminations};
pub(crate) use lacks::Lacks;
pub(crate) use pull::{PullFailure, PullPermit, PullRecord};
pub(crate) use sandbox::{MAX_RELEASES, MadeSandbox};
pub(crate) use starts::Starts;

/// What is wanted for a pod name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Want {
    /// Run this instance, and no other.
    Run(Arc<Pod>),
    /// End this instance as Failed, and run no other. The object stays, with its status.
    End {
        /// The instance.
        pod: Arc<Pod>,
        /// Why, as its status tells.
        failed: Failed,
        /// Seconds that its containers have at the most; none for their own grace periods.
        grace: Option<i64>,
    },
    /// End every instance and leave nothing behind.
    Stop {
        /// Seconds that containers have at the most; none for their own grace periods.
        grace: Option<i64>,
    },
}

impl Want {
    /// Both want the same, so work begun for one serves the other.
    pub(crate) fn same_as(&self, other: &Want) -> bool {
        match (self, other) {
            (Want::Run(a), Want::Run(b)) => a.same_as(b),
            (
                Want::End { pod: a, failed: a_failed, grace: a_grace },
                Want::End { pod: b, failed: b_failed, grace: b_grace },
            ) => a.same_as(b) && a_failed == b_failed && a_grace == b_grace,
            (Want::Stop { grace: a }, Want::Stop { grace: b }) => a == b,
            _ => false,
        }
    }

    /// The instance that it is about, if it is about one.
    pub(crate) fn pod(&self) -> Option<&Arc<Pod>> {
        match self {
            Want::Run(pod) | Want::End { pod, .. } => Some(pod),
            Want::Stop { .. } => None,
        }
    }

    /// Nothing of the name is to be left.
    pub(crate) fn is_stop(&self) -> bool {
        matches!(self, Want::Stop { .. })
    }

    /// Seconds that containers have at the most.
    pub(crate) fn grace(&self) -> Option<i64> {
        match self {
            Want::Run(_) => None,
            Want::End { grace, .. } | Want::Stop { grace } => *grace,
        }
    }
}

/// The whole desired state of a pod name. The newest one replaces all earlier ones.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Desired {
    /// Tells this desired state from every other.
    pub generation: u64,
    /// What is wanted.
    pub want: Want,
    /// Whom it waits for before it starts. The generation stays when this changes.
    pub blocked_on: Vec<Unmet>,
    /// Whether its containers may be started. The generation stays when this changes.
    pub starts: Starts,
    /// Containers that are to be replaced by new ones. The generation stays when this changes.
    pub restarts: BTreeSet<ContainerId>,
    /// The ConfigMaps and Secrets that it refers to; none if it refers to none. The generation stays when this changes.
    pub objects: Option<Arc<PodObjects>>,
}

/// What to do next, and when to look again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// In this order. Empty means rest.
    pub steps: Vec<Step>,
    /// Look again after this long, though nothing happens.
    pub wake_in: Option<Duration>,
    /// Why containers that should run do not, by container name.
    pub waiting: BTreeMap<String, Waiting>,
    /// Why there is no sandbox, if one could not be made.
    pub sandbox: Option<Waiting>,
    /// How far the init containers are.
    pub init: Init,
    /// The pod was ended before it was done, and stays so.
    pub failed: Option<Failed>,
    /// The wanted instance is to end as Failed: from now on [`Want::End`] is what counts for it.
    pub end: Option<Failed>,
    /// What becomes of the wanted instance.
    pub lifecycle: PodLifecycle,
    /// Sandboxes whose end has begun: to be remembered before the steps are carried out.
    pub terminating: BTreeSet<SandboxId>,
    /// Containers of the wanted instance whose sandbox died under them, or that are ended for a probe: to be remembered
    /// likewise.
    pub killed: BTreeSet<ContainerId>,
}

/// What becomes of the wanted instance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum PodLifecycle {
    /// It runs, or will.
    #[default]
    Active,
    /// It ran to its end.
    Completed,
    /// An earlier desired state began to end it: what is left of it is removed first, then it runs afresh.
    TerminatesFirst,
}

/// How far the init containers of a pod are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Init {
    /// One of them is still to be run, or to be started; the containers wait.
    Pending,
    /// One of them failed for good; the containers will never start.
    Failed,
    /// Nothing holds the containers back.
    #[default]
    Passed,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Do the next thing about containers that are to end, without waiting for it.
    StopContainers(Vec<StopContainer>),
    /// Stop a sandbox and free its network.
    StopSandbox(SandboxId),
    /// Remove a dead container and its log.
    RemoveContainer(RemoveContainer),
    /// Remove what an instance has on disk: its directory and its logs.
    RemoveInstance(PodUid),
    /// Remove a stopped sandbox.
    RemoveSandbox(SandboxId),
    /// Create the sandbox of the wanted pod.
    CreateSandbox {
        /// Counts the sandboxes of one UID.
        attempt: u32,
        /// The first containers to start in it, whose images are seen to meanwhile.
        images: Vec<ContainerRef>,
    },
    /// Start a container of the wanted pod in its ready sandbox.
    StartContainer(StartContainer),
}

/// A dead container to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoveContainer {
    /// Which.
    pub id: ContainerId,
    /// Its instance.
    pub uid: PodUid,
    /// Its name in the pod.
    pub name: String,
    /// Its attempt, the name of its log file.
    pub attempt: u32,
}

/// A container to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StartContainer {
    /// Which one of the pod.
    pub container: ContainerRef,
    /// The sandbox to start it in.
    pub sandbox: SandboxId,
    /// Counts the containers of this name in this instance.
    pub attempt: u32,
    /// Crashes in a row before it, for the annotation.
    pub crashes: u32,
    /// How often all containers of the pod were restarted before it, for the annotation.
    pub round: u32,
}

/// What failed, since the worker began with this instance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct History {
    /// The sandbox could not be made.
    pub sandbox: Option<Failure>,
    /// The last sandbox that was made.
    pub made: Option<MadeSandbox>,
    /// Containers that could not be started, by name.
    pub starts: BTreeMap<String, Failure>,
    /// Containers whose image could not be pulled, by name.
    pub pulls: BTreeMap<String, PullFailure>,
    /// Containers whose image is being pulled, by name.
    pub pulling: BTreeSet<String>,
    /// Dead sandboxes whose network could not be released, and how often in a row.
    pub unreleased: BTreeMap<SandboxId, u32>,
}

/// Failures of one kind in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// How many.
    pub count: u32,
    /// When the last one was.
    pub since: Since,
    /// How to wait before the next try.
    pub backoff: Backoff,
    /// The reason and message to show.
    pub waiting: Waiting,
}

impl Failure {
    /// One more failure of the same kind, after `earlier`.
    pub(crate) fn after(
        earlier: Option<&Failure>,
        uptime: Duration,
        backoff: Backoff,
        waiting: Waiting,
    ) -> Self {
        let count = earlier.map_or(0, |failure| failure.count).saturating_add(1);
        Self { count, since: Since::now(uptime), backoff, waiting }
    }

    fn remaining(&self, uptime: Duration) -> Option<Duration> {
        self.backoff.remaining(self.count, self.since.elapsed(uptime))
    }
}

/// How far the postStart hook of a container is that runs. One that is over is not mentioned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StartHook {
    /// It runs; until it is done, the container does not count as started.
    Running,
    /// It failed, with this message: the container is to be killed.
    Failed(String),
}

/// All that is known of one pod name when its plan is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Situation<'a> {
    /// What is wanted.
    pub want: &'a Want,
    /// What the runtime holds.
    pub observed: &'a Observed,
    /// What failed before.
    pub history: &'a History,
    /// Whether the wanted instance may start; one that is up may.
    pub gate: &'a Gate,
    /// Whether its containers may be started, at first or again.
    pub starts: &'a Starts,
    /// Containers that are to be replaced by new ones, though nothing is wrong with them.
    pub restarts: &'a BTreeSet<ContainerId>,
    /// The ConfigMaps and Secrets that it cannot start without.
    pub lacks: &'a Lacks,
    /// What is remembered of the name.
    pub checkpoint: &'a Checkpoint,
    /// The postStart hooks that are not over.
    pub start_hooks: &'a BTreeMap<ContainerId, StartHook>,
    /// What probes found.
    pub probes: &'a Verdicts,
    /// The ends that have begun.
    pub terminations: &'a Terminations,
    /// Since when the wanted instance is at work, if it is: waiting for its turn is no part of that.
    pub active_since: Option<Since>,
    /// How crash loops wait.
    pub crash_loop: Backoff,
    /// When containers ended, as counted since it was first seen. One that is missing is dated by the wall clock.
    pub exits: &'a BTreeMap<ContainerId, Since>,
    /// The time of day.
    pub now: Timestamp,
    /// The time on a clock that never jumps.
    pub uptime: Duration,
}

impl Situation<'_> {
    /// How long ago a container ended.
    fn since_exit(&self, container: &Container, exit: &Exit) -> Duration {
        let dated = || Since::dated(exit.finished_at, self.now, self.uptime);
        self.exits.get(&container.id).copied().unwrap_or_else(dated).elapsed(self.uptime)
    }
}

/// Decides what to do next for one pod name.
pub(crate) fn plan_pod(situation: &Situation<'_>) -> Plan {
    let observed = situation.observed;
    let pod = match situation.want {
        Want::Stop { .. } => return plan_end_all(situation),
        Want::Run(pod) | Want::End { pod, .. } => pod,
    };
    let others: Vec<SandboxId> =
        observed.sandboxes.iter().filter(|s| !s.is_of(pod)).map(|s| s.id.clone()).collect();
    let is_ended = |s: &Sandbox| s.is_of(pod) && situation.checkpoint.terminating_sandboxes.contains(&s.id);
    if observed.sandboxes.iter().any(is_ended) {
        return Plan { lifecycle: PodLifecycle::TerminatesFirst, ..plan_end_all(situation) };
    }
    let belongs_to_other = |sandbox: &SandboxId, uid: &PodUid| *uid != pod.uid || others.contains(sandbox);

    // Another instance that is alive ends first; a dead one is swept up once the wanted one needs nothing.
    let terminating: BTreeSet<_> = others.iter().cloned().collect();
    if let StopProgress::Busy(stopping) = stop::plan_stop_living(situation, belongs_to_other) {
        // It may run on for as long as its successor cannot start, unless its end has begun.
        if situation.terminations.is_empty()
            && situation.checkpoint.terminating_sandboxes.is_disjoint(&terminating)
        {
            if let Some(waiting) = situation.starts.waiting().or_else(|| situation.lacks.first()) {
                return starts::plan_refused(pod, situation.starts, &waiting);
            }
            if let Gate::Shut { unmet, left } = situation.gate {
                return gate::plan_wait(pod, unmet, *left);
            }
        }
        return Plan { terminating, ..stopping.into() };
    }
    let mut plan = match situation.want {
        Want::End { failed, .. } => containers::plan_end(pod, situation, failed),
        _ => containers::plan_run(pod, situation, &others),
    };
    plan.terminating = terminating;
    if plan.steps.is_empty() {
        let mut sweep = stop::plan_remove(observed, belongs_to_other);
        // With a fixed metadata.uid the successor lives in the same directories.
        sweep.retain(|step| *step != Step::RemoveInstance(pod.uid.clone()));
        sweep.extend(sandbox::plan_late_release(pod, situation, &others));
        sweep.extend(sandbox::plan_tidy(pod, observed, &others));
        plan.steps = sweep;
    }
    plan
}

/// Ends every instance of the name.
fn plan_end_all(situation: &Situation<'_>) -> Plan {
    let observed = situation.observed;
    let mut plan = match stop::plan_stop_living(situation, |_, _| true) {
        StopProgress::Busy(stopping) => stopping.into(),
        StopProgress::Done => Plan::default(),
    };
    plan.terminating = observed.sandboxes.iter().map(|sandbox| sandbox.id.clone()).collect();
    if !observed.containers.iter().any(Container::is_alive) {
        plan.steps.extend(stop::plan_remove(observed, |_, _| true));
    }
    plan
}

impl From<Stopping> for Plan {
    fn from(stopping: Stopping) -> Self {
        Self { steps: stopping.steps, wake_in: stopping.wake_in, ..Self::default() }
    }
}
