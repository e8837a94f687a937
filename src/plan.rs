//! The heart: what to do next for one pod name, as data (kubelet's computePodActions, made pure).
//!
//! [`plan_pod`] looks at the wish, at what was observed and at what failed before, and returns a [`Plan`] that
//! leaves nothing to decide. After a failed step the worker observes and plans anew: a plan is never resumed.
//!
//! Invariants: nothing of an instance starts while another instance of the name is alive; applying plans
//! reaches rest; nothing starts while the wish is to stop.

mod containers;
mod init;
mod sandbox;
mod stop;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::backoff::Backoff;
use crate::observed::Observed;
use crate::pod::{ContainerId, ContainerRef, Pod, PodUid, SandboxId};

/// The newest whole wish for a pod name.
#[derive(Debug, Clone, PartialEq)]
pub enum Want {
    /// Run this instance, and no other.
    Run(Arc<Pod>),
    /// End every instance and leave nothing behind.
    Stop,
}

impl Want {
    /// Both wish for the same thing, so work begun for one serves the other.
    pub fn same_as(&self, other: &Want) -> bool {
        match (self, other) {
            (Want::Run(a), Want::Run(b)) => a.uid == b.uid && a.hash == b.hash,
            (Want::Stop, Want::Stop) => true,
            _ => false,
        }
    }
}

/// A wish as it is told: its number changes when the wish does.
#[derive(Debug, Clone, PartialEq)]
pub struct Wish {
    /// Tells this wish from every other.
    pub number: u64,
    /// What is wished for.
    pub want: Want,
}

/// What to do next, and when to look again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// In this order. Empty means rest.
    pub steps: Vec<Step>,
    /// Look again after this long, though nothing happens.
    pub wake_in: Option<Duration>,
    /// Why containers that should run do not, by container name.
    pub waiting: BTreeMap<String, Waiting>,
    /// How far the init containers are.
    pub init: Init,
}

/// How far the init containers of a pod are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Init {
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
pub enum Step {
    /// Stop these containers, all at the same time.
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
    },
    /// Start a container of the wanted pod in its ready sandbox.
    StartContainer(StartContainer),
}

/// A container to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopContainer {
    /// Which.
    pub id: ContainerId,
    /// Seconds between SIGTERM and SIGKILL.
    pub grace: i64,
}

/// A dead container to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoveContainer {
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
pub struct StartContainer {
    /// Which one of the pod.
    pub container: ContainerRef,
    /// The sandbox to start it in.
    pub sandbox: SandboxId,
    /// Counts the containers of this name in this instance.
    pub attempt: u32,
    /// Crashes in a row before it, for the annotation.
    pub crashes: u32,
}

/// Why a container waits: kubelet's reason and message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// A word, such as `CrashLoopBackOff`.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

/// What failed, since the worker began with this instance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// The sandbox could not be made.
    pub sandbox: Option<Failure>,
    /// Containers that could not be started, by name.
    pub starts: BTreeMap<String, Failure>,
}

/// Failures of one kind in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// How many.
    pub count: u32,
    /// When the last one was.
    pub at: Timestamp,
    /// How to wait before the next try.
    pub backoff: Backoff,
    /// The reason and message to show.
    pub waiting: Waiting,
}

impl Failure {
    /// One more failure of the same kind, after `earlier`.
    pub fn after(earlier: Option<&Failure>, at: Timestamp, backoff: Backoff, waiting: Waiting) -> Self {
        let count = earlier.map_or(0, |failure| failure.count).saturating_add(1);
        Self { count, at, backoff, waiting }
    }

    fn remaining(&self, now: Timestamp) -> Option<Duration> {
        self.backoff.remaining(self.count, self.at, now)
    }
}

/// Decides what to do next for one pod name.
pub fn plan_pod(
    want: &Want,
    observed: &Observed,
    history: &History,
    crash_loop: Backoff,
    now: Timestamp,
) -> Plan {
    let pod = match want {
        Want::Stop => return Plan { steps: stop::plan_end(observed, |_, _| true), ..Plan::default() },
        Want::Run(pod) => pod,
    };
    let is_other = |uid: &PodUid, hash: Option<&crate::pod::ConfigHash>| {
        *uid != pod.uid || hash.is_some_and(|hash| *hash != pod.hash)
    };
    let others: Vec<SandboxId> = observed
        .sandboxes
        .iter()
        .filter(|s| is_other(&s.uid, s.hash.as_ref()))
        .map(|s| s.id.clone())
        .collect();
    let belongs_to_other = |sandbox: &SandboxId, uid: &PodUid| *uid != pod.uid || others.contains(sandbox);

    // Another instance that is alive ends first; a dead one is swept up once the wanted one needs nothing.
    let quiet = stop::plan_quiet(observed, belongs_to_other);
    if !quiet.is_empty() {
        return Plan { steps: quiet, ..Plan::default() };
    }
    let mut plan = containers::plan_run(pod, observed, history, crash_loop, now, &others);
    if plan.steps.is_empty() {
        let mut sweep = stop::plan_end(observed, belongs_to_other);
        // With a fixed metadata.uid the successor lives in the same directories.
        sweep.retain(|step| *step != Step::RemoveInstance(pod.uid.clone()));
        sweep.extend(sandbox::plan_tidy(pod, observed, &others));
        plan.steps = sweep;
    }
    plan
}
