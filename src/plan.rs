//! The heart: what to do next for one pod name, as data (kubelet's computePodActions, made pure).
//!
//! [`plan_pod`] looks at the wish, at what was observed and at what failed before, and returns a [`Plan`] that
//! leaves nothing to decide. After a failed step the worker observes and plans anew: a plan is never resumed.
//!
//! Invariants: nothing of an instance starts while another instance of the name is alive; applying plans
//! reaches rest; nothing starts while the wish is to stop.

pub(crate) mod checkpoint;
mod containers;
mod deadline;
mod ending;
mod gate;
mod init;
mod needs;
pub(crate) mod order;
mod pull;
mod round;
mod sandbox;
mod stop;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::plan::checkpoint::Record;
use crate::plan::order::{Gate, Unmet};
use crate::pod::observed::{Container, Exit, Observed, Sandbox};
use crate::pod::{ContainerId, ContainerRef, Pod, PodUid, SandboxId};
use crate::probe::target::Verdicts;
use crate::time::backoff::Backoff;
use crate::time::since::Since;
use stop::{Quiet, Stopping};

pub(crate) use crate::pod::state::{Failed, Waiting};
pub(crate) use deadline::Activity;
pub(crate) use ending::{Ask, Endings, Signalling, StopContainer};
pub(crate) use pull::{PullFailure, PullPermit, PullRecord};
pub(crate) use sandbox::MadeSandbox;

/// The newest whole wish for a pod name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Want {
    /// Run this instance, and no other.
    Run(Arc<Pod>),
    /// End every instance and leave nothing behind.
    Stop,
}

impl Want {
    /// Both wish for the same thing, so work begun for one serves the other.
    pub(crate) fn same_as(&self, other: &Want) -> bool {
        match (self, other) {
            (Want::Run(a), Want::Run(b)) => a.same_as(b),
            (Want::Stop, Want::Stop) => true,
            _ => false,
        }
    }
}

/// A wish as it is told: its number changes when the wish does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wish {
    /// Tells this wish from every other.
    pub number: u64,
    /// What is wished for.
    pub want: Want,
    /// Whom it waits for before it starts. The number stays when this changes.
    pub unmet: Vec<Unmet>,
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
    /// What becomes of the wanted instance.
    pub outlook: Outlook,
    /// Sandboxes whose end has begun: to be remembered before the steps are carried out.
    pub ends: BTreeSet<SandboxId>,
    /// Containers of the wanted instance whose sandbox died under them, or that are ended for a probe: to be remembered
    /// likewise.
    pub lost: BTreeSet<ContainerId>,
}

/// What becomes of the wanted instance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Outlook {
    /// It runs, or will.
    #[default]
    Lives,
    /// It ran to its end.
    Completed,
    /// Its end was begun under an earlier wish: what is left of it goes first, then it runs afresh.
    EndsFirst,
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
    /// The newest wish.
    pub want: &'a Want,
    /// What the runtime holds.
    pub observed: &'a Observed,
    /// What failed before.
    pub history: &'a History,
    /// Whether the wanted instance may start; one that is up may.
    pub gate: &'a Gate,
    /// What is remembered of the name.
    pub record: &'a Record,
    /// The postStart hooks that are not over.
    pub start_hooks: &'a BTreeMap<ContainerId, StartHook>,
    /// What probes found.
    pub probes: &'a Verdicts,
    /// The ends that have begun.
    pub endings: &'a Endings,
    /// Since when the wanted instance is at work, if it is: waiting for its turn is no part of that.
    pub activity: Option<Activity>,
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
        Want::Stop => return plan_stop(situation),
        Want::Run(pod) => pod,
    };
    let others: Vec<SandboxId> =
        observed.sandboxes.iter().filter(|s| !s.is_of(pod)).map(|s| s.id.clone()).collect();
    let is_ended = |s: &Sandbox| s.is_of(pod) && situation.record.ended.contains(&s.id);
    if observed.sandboxes.iter().any(is_ended) {
        return Plan { outlook: Outlook::EndsFirst, ..plan_stop(situation) };
    }
    let belongs_to_other = |sandbox: &SandboxId, uid: &PodUid| *uid != pod.uid || others.contains(sandbox);

    // Another instance that is alive ends first; a dead one is swept up once the wanted one needs nothing.
    let ends: BTreeSet<_> = others.iter().cloned().collect();
    if let Quiet::Busy(stopping) = stop::plan_quiet(situation, belongs_to_other) {
        if let Gate::Shut { unmet, left } = situation.gate
            && situation.endings.is_empty()
            && situation.record.ended.is_disjoint(&ends)
        {
            // It may run on for as long as its successor has to wait, unless its end has begun.
            return gate::plan_wait(pod, unmet, *left);
        }
        return Plan { ends, ..stopping.into() };
    }
    let mut plan = containers::plan_run(pod, situation, &others);
    plan.ends = ends;
    if plan.steps.is_empty() {
        let mut sweep = stop::plan_remove(observed, belongs_to_other);
        // With a fixed metadata.uid the successor lives in the same directories.
        sweep.retain(|step| *step != Step::RemoveInstance(pod.uid.clone()));
        sweep.extend(sandbox::plan_tidy(pod, observed, &others));
        plan.steps = sweep;
    }
    plan
}

/// Ends every instance of the name.
fn plan_stop(situation: &Situation<'_>) -> Plan {
    let observed = situation.observed;
    let mut plan = match stop::plan_quiet(situation, |_, _| true) {
        Quiet::Busy(stopping) => stopping.into(),
        Quiet::Reached => Plan::default(),
    };
    plan.ends = observed.sandboxes.iter().map(|sandbox| sandbox.id.clone()).collect();
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
