//! The state of one instance of a pod: what is remembered of it, decided from and published.
//!
//! Owns the types alone: `status::pod_state` computes them, and `status::pod_status` makes Kubernetes' `PodStatus` of them
//! where it is served. Invariant: times are whole seconds, so that a state that was read from disk equals the one that was
//! written. Must not: hold what the manifest tells (resources, mounts, QoS class) or what follows from the rest
//! (messages of conditions).

use jiff::Timestamp;
use jiff::fmt::serde::timestamp::second;
use serde::{Deserialize, Serialize};

use super::ContainerId;

/// The state of one instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PodState {
    /// The phase.
    pub phase: Phase,
    /// When the pod began.
    #[serde(with = "second::required")]
    pub started_at: Timestamp,
    /// Why the agent ended the pod before it was done; none if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Failed>,
    /// Why there is no sandbox, if one could not be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_sandbox: Option<Waiting>,
    /// All conditions, in kubelet's order.
    pub conditions: Vec<Condition>,
    /// The init containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub init_containers: Vec<ContainerSummary>,
    /// The containers.
    pub containers: Vec<ContainerSummary>,
    /// The pod's addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pod_ips: Vec<String>,
    /// The node's addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_ips: Vec<String>,
}

impl PodState {
    /// The condition `Ready` holds.
    pub(crate) fn is_ready(&self) -> bool {
        self.condition(ConditionType::Ready).is_some_and(|ready| ready.holds)
    }

    /// The condition of a type, if the pod has it.
    pub(crate) fn condition(&self, kind: ConditionType) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }

    /// Init containers and containers.
    pub(crate) fn all_containers(&self) -> impl Iterator<Item = &ContainerSummary> {
        self.init_containers.iter().chain(&self.containers)
    }
}

/// The phase of a pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Phase {
    /// Not all containers have begun.
    #[default]
    Pending,
    /// All containers have begun, and not all are done.
    Running,
    /// All containers are done, none of them failed.
    Succeeded,
    /// All containers are done, or the pod was ended; something failed.
    Failed,
}

impl Phase {
    /// Kubernetes' name of it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }
}

/// Why the agent ended a pod before it was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failed {
    /// What it was ended for.
    pub reason: FailedReason,
    /// kubelet's sentence for it.
    pub message: String,
}

/// What a pod was ended for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FailedReason {
    /// It was active for longer than `activeDeadlineSeconds`.
    DeadlineExceeded,
    /// It used more of the node than it may.
    Evicted,
    /// A pod of higher priority needed its room. It runs again when there is room for it.
    Preempting,
}

impl FailedReason {
    /// kubelet's word for it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::DeadlineExceeded => "DeadlineExceeded",
            Self::Evicted => "Evicted",
            Self::Preempting => "Preempting",
        }
    }
}

/// Why a container waits, or a sandbox could not be made: kubelet's reason and message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Waiting {
    /// A word, such as `CrashLoopBackOff`.
    pub reason: String,
    /// A sentence; empty if there is nothing to add.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// One condition of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Condition {
    /// Which one.
    #[serde(rename = "type")]
    pub kind: ConditionType,
    /// Its status is `True`.
    pub holds: bool,
    /// When it last changed.
    #[serde(with = "second::required")]
    pub since: Timestamp,
    /// Why it is so, if there is something to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ConditionReason>,
}

/// The types of conditions, by their Kubernetes names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ConditionType {
    PodReadyToStartContainers,
    Initialized,
    Ready,
    ContainersReady,
    PodScheduled,
    AllContainersRestarting,
}

impl ConditionType {
    /// All of them, in kubelet's order.
    pub(crate) const ALL: [Self; 6] = [
        Self::PodReadyToStartContainers,
        Self::Initialized,
        Self::Ready,
        Self::ContainersReady,
        Self::PodScheduled,
        Self::AllContainersRestarting,
    ];

    /// Kubernetes' name of it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::PodReadyToStartContainers => "PodReadyToStartContainers",
            Self::Initialized => "Initialized",
            Self::Ready => "Ready",
            Self::ContainersReady => "ContainersReady",
            Self::PodScheduled => "PodScheduled",
            Self::AllContainersRestarting => "AllContainersRestarting",
        }
    }
}

/// Why a condition holds or fails, by kubelet's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ConditionReason {
    PodCompleted,
    PodFailed,
    ContainersNotInitialized,
    ContainersNotReady,
    ReadinessGatesNotReady,
    RestartAllContainersStarted,
}

impl ConditionReason {
    /// All of them.
    pub(crate) const ALL: [Self; 6] = [
        Self::PodCompleted,
        Self::PodFailed,
        Self::ContainersNotInitialized,
        Self::ContainersNotReady,
        Self::ReadinessGatesNotReady,
        Self::RestartAllContainersStarted,
    ];

    /// kubelet's word for it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::PodCompleted => "PodCompleted",
            Self::PodFailed => "PodFailed",
            Self::ContainersNotInitialized => "ContainersNotInitialized",
            Self::ContainersNotReady => "ContainersNotReady",
            Self::ReadinessGatesNotReady => "ReadinessGatesNotReady",
            Self::RestartAllContainersStarted => "RestartAllContainersStarted",
        }
    }
}

/// What is known of one container of the manifest, restarts included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContainerSummary {
    /// Its name in the pod.
    pub name: String,
    /// The container of the runtime that this tells of; none before the first was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<CreatedContainer>,
    /// What it does.
    pub state: RunState,
    /// How the container before it ended, or this one if it waits to be started again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_termination: Option<Box<Termination>>,
    /// How often it was restarted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub restarts: i32,
    /// It runs, and its startup probe has succeeded.
    #[serde(default, skip_serializing_if = "is_default")]
    pub started: bool,
    /// It can serve; an init container has completed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ready: bool,
}

/// A container that the runtime created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CreatedContainer {
    /// The runtime's id.
    pub id: ContainerId,
    /// The image as the manifest names it.
    pub image: String,
    /// The image as the runtime resolved it.
    pub image_ref: String,
}

/// What a container of the manifest does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RunState {
    /// It is to be started.
    Waiting(Waiting),
    /// It runs.
    Running {
        /// Since when.
        #[serde(with = "second::required")]
        started_at: Timestamp,
    },
    /// It ended.
    Terminated(Box<Termination>),
}

/// How a container ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Termination {
    /// The container that ended; none if nobody saw it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<ContainerId>,
    /// Its exit code.
    #[serde(skip_serializing_if = "is_default")]
    pub exit_code: i32,
    /// The runtime's word for it: `Completed`, `Error`, `OOMKilled`, ...; empty if there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The runtime's sentence for it, and the termination message; empty if there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it began, if it is known.
    #[serde(with = "second::optional", skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended, if it is known.
    #[serde(with = "second::optional", skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
}

impl ContainerSummary {
    /// The runtime's id of the container that this tells of.
    pub(crate) fn id(&self) -> Option<&ContainerId> {
        self.created.as_ref().map(|created| &created.id)
    }

    /// Since when it runs, if it does.
    pub(crate) fn running_since(&self) -> Option<Timestamp> {
        match self.state {
            RunState::Running { started_at } => Some(started_at),
            RunState::Waiting(_) | RunState::Terminated(_) => None,
        }
    }

    /// How it ended: by its state or, if it waits to be started again, or runs, by what came before.
    pub(crate) fn newest_termination(&self) -> Option<&Termination> {
        match &self.state {
            RunState::Terminated(ended) => Some(ended),
            RunState::Waiting(_) | RunState::Running { .. } => self.last_termination.as_deref(),
        }
    }
}

/// The API writes times in whole seconds, and so do we.
pub(crate) fn whole_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// What has its default value is not written: the disk may be flash.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
