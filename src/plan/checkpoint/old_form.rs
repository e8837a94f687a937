//! Reads an instance from disk, in today's form or in that of rkubelet 0.1, which kept Kubernetes' `PodStatus`.
//!
//! Owns the old form. Invariant: nothing that is decided from is lost over an upgrade: what completed stays completed,
//! restart counts and times of conditions stay. Must not: write the old form.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;

use super::{ConfigHash, Life, PodUid, Source};
use crate::pod::state::{
    Condition, ConditionReason, ConditionType, ContainerSummary, CreatedContainer, Failed, FailedReason,
    Phase, PodState, RunState, Termination, Waiting,
};
use crate::pod::{ContainerId, HostPort};

/// An instance in either form.
#[derive(Deserialize)]
pub(super) struct OldInstance {
    uid: PodUid,
    hash: ConfigHash,
    source: Source,
    life: Life,
    #[serde(default)]
    began: Option<Timestamp>,
    #[serde(default)]
    host_ports: Vec<HostPort>,
    /// Today's form.
    #[serde(default)]
    state: Option<PodState>,
    /// The old form.
    #[serde(default)]
    status: Option<PodStatus>,
}

/// What is on disk has neither form.
#[derive(Debug, thiserror::Error)]
#[error("an instance without its state")]
pub(super) struct NoState;

impl TryFrom<OldInstance> for super::InstanceRecord {
    type Error = NoState;

    fn try_from(read: OldInstance) -> Result<Self, NoState> {
        let OldInstance { uid, hash, source, life, began, host_ports, state, status } = read;
        let state = state.or_else(|| status.map(PodState::from)).ok_or(NoState)?;
        Ok(Self { uid, hash, source, life, state: Arc::new(state), began, host_ports })
    }
}

/// What matters of a `PodStatus`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    phase: Phase,
    start_time: Timestamp,
    reason: Option<String>,
    message: Option<String>,
    conditions: Vec<PodCondition>,
    init_container_statuses: Vec<ContainerStatus>,
    container_statuses: Vec<ContainerStatus>,
    #[serde(rename = "podIPs")]
    pod_ips: Vec<OldAddress>,
    #[serde(rename = "hostIPs")]
    host_ips: Vec<OldAddress>,
}

#[derive(Deserialize)]
struct OldAddress {
    ip: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    #[serde(default)]
    last_transition_time: Timestamp,
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus {
    name: String,
    #[serde(rename = "containerID")]
    container_id: Option<String>,
    image: String,
    #[serde(rename = "imageID")]
    image_id: String,
    restart_count: i32,
    started: bool,
    ready: bool,
    state: OldContainerState,
    last_state: OldContainerState,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OldContainerState {
    waiting: Option<ContainerStateWaiting>,
    running: Option<ContainerStateRunning>,
    terminated: Option<ContainerStateTerminated>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContainerStateWaiting {
    reason: String,
    message: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStateRunning {
    started_at: Timestamp,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStateTerminated {
    #[serde(rename = "containerID")]
    container_id: Option<String>,
    exit_code: i32,
    reason: String,
    message: String,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
}

impl From<PodStatus> for PodState {
    fn from(status: PodStatus) -> Self {
        let message = status.message.unwrap_or_default();
        let (failed, no_sandbox) = match status.reason {
            None => (None, None),
            Some(reason) if reason == FailedReason::DeadlineExceeded.as_str() => {
                (Some(Failed { reason: FailedReason::DeadlineExceeded, message }), None)
            }
            // The one other reason that was written: why there is no sandbox.
            Some(reason) => (None, Some(Waiting { reason, message })),
        };
        let addresses = |ips: Vec<OldAddress>| ips.into_iter().map(|address| address.ip).collect();
        Self {
            phase: status.phase,
            started_at: status.start_time,
            failed,
            no_sandbox,
            conditions: status.conditions.into_iter().filter_map(condition).collect(),
            init_containers: status.init_container_statuses.into_iter().map(summary).collect(),
            containers: status.container_statuses.into_iter().map(summary).collect(),
            pod_ips: addresses(status.pod_ips),
            host_ips: addresses(status.host_ips),
        }
    }
}

/// None for a type that is not known.
fn condition(old: PodCondition) -> Option<Condition> {
    let reason = |reason: &str| ConditionReason::ALL.into_iter().find(|known| known.as_str() == reason);
    Some(Condition {
        kind: ConditionType::ALL.into_iter().find(|known| known.as_str() == old.kind)?,
        holds: old.status == "True",
        since: old.last_transition_time,
        reason: old.reason.as_deref().and_then(reason),
    })
}

fn summary(old: ContainerStatus) -> ContainerSummary {
    let OldContainerState { waiting, running, terminated } = old.state;
    let state = match (running, terminated) {
        (Some(running), _) => RunState::Running { started_at: running.started_at },
        (None, Some(ended)) => RunState::Terminated(Box::new(termination(ended))),
        (None, None) => {
            let ContainerStateWaiting { reason, message } = waiting.unwrap_or_default();
            RunState::Waiting(Waiting { reason, message })
        }
    };
    let created = old.container_id.map(|id| CreatedContainer {
        id: without_runtime(&id),
        image: old.image,
        image_ref: old.image_id,
    });
    ContainerSummary {
        name: old.name,
        created,
        state,
        last_termination: old.last_state.terminated.map(termination).map(Box::new),
        restarts: old.restart_count,
        started: old.started,
        ready: old.ready,
    }
}

fn termination(old: ContainerStateTerminated) -> Termination {
    Termination {
        id: old.container_id.as_deref().map(without_runtime),
        exit_code: old.exit_code,
        reason: old.reason,
        message: old.message,
        started_at: old.started_at,
        finished_at: old.finished_at,
    }
}

/// The status has ids with their runtime: `containerd://ID`.
fn without_runtime(id: &str) -> ContainerId {
    ContainerId(id.rsplit_once("://").map_or(id, |(_, id)| id).to_owned())
}
