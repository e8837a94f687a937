//! The status of one container: what it does, what it did before, how often it was restarted.

use k8s_openapi::api::core::v1::{
    Container as ContainerSpec, ContainerState as ApiState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, VolumeMountStatus,
};

use super::{some, time};
use crate::plan::Waiting;
use crate::pod::is_sidecar;
use crate::pod::observed::{Container, ContainerState};
use crate::pod::termination_message::shown;
use crate::probe::target::Verdicts;

/// kubelet's exit code for a container whose end nobody saw.
const UNKNOWN_EXIT_CODE: i32 = 137;

/// What a container is to its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An init container that runs to its end.
    Init,
    /// An init container that runs as long as the pod.
    Sidecar,
    Main,
}

impl Kind {
    /// Which kind an init container is: a sidecar restarts always.
    pub(super) fn of_init(spec: &ContainerSpec) -> Self {
        if is_sidecar(spec) { Self::Sidecar } else { Self::Init }
    }
}

/// What the status of one container is made from.
pub(super) struct Found<'a> {
    pub(super) spec: &'a ContainerSpec,
    pub(super) kind: Kind,
    /// What the runtime holds of it, newest first.
    pub(super) containers: Vec<&'a Container>,
    /// Why it does not run, if it should.
    pub(super) waiting: Option<&'a Waiting>,
    /// What probes found.
    pub(super) probes: &'a Verdicts,
    /// What was last shown of it.
    pub(super) previous: Option<&'a ContainerStatus>,
    /// The pod has init containers.
    pub(super) has_init: bool,
    /// A container other than an init container was made, so the init containers have passed.
    pub(super) main_was_made: bool,
}

/// The status of one container.
pub(super) fn container_status(found: &Found<'_>) -> ContainerStatus {
    let spec = found.spec;
    let newest = found.containers.first().copied();
    let (mut state, lost) = match newest {
        Some(newest) => (state_of(newest, found), None),
        None => without_container(found),
    };
    // One that runs and waits has not started, or is not to go on.
    if let Some(waiting) = found.waiting {
        state = waits(&waiting.reason, &waiting.message);
    }
    let runs = state.running.is_some();
    let ready = match found.kind {
        Kind::Init => exit_code(&state) == Some(0),
        Kind::Sidecar | Kind::Main => runs && newest.is_some_and(|c| found.probes.is_ready(&c.id)),
    };
    let attempt = newest.map_or(0, |c| i32::try_from(c.attempt).unwrap_or(i32::MAX));
    let counted = found.previous.map_or(0, |previous| previous.restart_count);
    let base = base(found);
    let last_state = match &lost {
        Some(lost) => lost.clone(),
        None => ended_before(found, &state, base.container_id.as_ref()).unwrap_or_default(),
    };
    ContainerStatus {
        name: spec.name.clone(),
        restart_count: attempt.max(counted.saturating_add(i32::from(lost.is_some()))),
        started: Some(runs && newest.is_some_and(|c| found.probes.has_started(&c.id))),
        ready,
        volume_mounts: some(volume_mounts(spec)),
        last_state: Some(last_state),
        state: Some(state),
        ..base
    }
}

/// What does not depend on the state. What the runtime has forgotten is still known if its end was shown.
fn base(found: &Found<'_>) -> ContainerStatus {
    let spec = found.spec;
    let ended = |previous: &&ContainerStatus| previous.state.as_ref().is_some_and(|s| s.terminated.is_some());
    match (found.containers.first(), found.previous.filter(ended)) {
        (Some(newest), _) => ContainerStatus {
            image: newest.image.clone(),
            image_id: newest.image_ref.clone(),
            container_id: Some(id_of(newest)),
            // As asked for: kubelet shows what the runtime gives, where that tells.
            resources: Some(spec.resources.clone().unwrap_or_default()),
            allocated_resources: spec.resources.as_ref().and_then(|r| r.requests.clone()),
            ..ContainerStatus::default()
        },
        (None, Some(previous)) => previous.clone(),
        (None, None) => {
            ContainerStatus { image: spec.image.clone().unwrap_or_default(), ..ContainerStatus::default() }
        }
    }
}

/// Cuts the last words of a container to its share of what so many containers may show.
pub(super) fn share_messages(status: &mut ContainerStatus, containers: usize) {
    let states = [&mut status.state, &mut status.last_state].into_iter().flatten();
    for ended in states.filter_map(|state| state.terminated.as_mut()) {
        if let Some(message) = &mut ended.message {
            message.truncate(shown(message, containers).len());
        }
    }
}

/// The exit code of a state that is an end.
pub(super) fn exit_code(state: &ApiState) -> Option<i32> {
    state.terminated.as_ref().map(|ended| ended.exit_code)
}

/// How a container ended that does nothing now: by its state or, if it waits to be started again, by its last one.
pub(super) fn last_end(status: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    let ended = |state: &'_ Option<ApiState>| state.as_ref().is_some_and(|state| state.terminated.is_some());
    let state = if ended(&status.state) { &status.state } else { &status.last_state };
    state.as_ref().and_then(|state| state.terminated.as_ref())
}

/// The state of the newest container that the runtime holds.
fn state_of(newest: &Container, found: &Found<'_>) -> ApiState {
    match &newest.state {
        ContainerState::Running { started_at } => ApiState {
            running: Some(ContainerStateRunning { started_at: Some(time(*started_at)) }),
            ..ApiState::default()
        },
        ContainerState::Exited(_) => terminated(newest).unwrap_or_default(),
        ContainerState::Created => waits_to_begin(found),
        ContainerState::Unknown => {
            let shown =
                found.previous.filter(|previous| previous.container_id.as_ref() == Some(&id_of(newest)));
            match shown.and_then(|previous| previous.state.as_ref()) {
                Some(ran) if ran.running.is_some() => {
                    ended_unseen("The container could not be located when the pod was terminated")
                }
                Some(ended) if ended.terminated.is_some() => ended.clone(),
                _ => waits_to_begin(found),
            }
        }
    }
}

/// The state of a container that the runtime does not hold, and the end that it met unseen.
fn without_container(found: &Found<'_>) -> (ApiState, Option<ApiState>) {
    let shown = found.previous.and_then(|previous| previous.state.as_ref());
    match shown {
        Some(ended) if ended.terminated.is_some() => (ended.clone(), None),
        _ if found.kind == Kind::Init && found.main_was_made => {
            let message = "Unable to get init container status from container runtime and pod has been \
                           initialized, treat it as exited normally";
            let completed = ContainerStateTerminated {
                message: Some(message.into()),
                reason: Some("Completed".into()),
                ..ContainerStateTerminated::default()
            };
            (ApiState { terminated: Some(completed), ..ApiState::default() }, None)
        }
        Some(ran) if ran.running.is_some() => {
            let message = "The container could not be located when the pod was deleted.  The container used \
                           to be Running";
            (waits_to_begin(found), Some(ended_unseen(message)))
        }
        _ => (waits_to_begin(found), None),
    }
}

/// What ended before the state that is shown.
fn ended_before(found: &Found<'_>, state: &ApiState, id: Option<&String>) -> Option<ApiState> {
    let waits = state.waiting.is_some();
    let earlier = found.containers.iter().skip(usize::from(!waits)).find_map(|c| terminated(c));
    earlier.or_else(|| {
        let previous = found.previous?;
        let is_earlier = |shown: &&ApiState| {
            let ended = shown.terminated.as_ref();
            ended.is_some_and(|ended| waits || id.is_some() && ended.container_id.as_ref() != id)
        };
        let last = || previous.last_state.as_ref().filter(|shown| shown.terminated.is_some());
        previous.state.as_ref().filter(is_earlier).or_else(last).cloned()
    })
}

/// kubelet shows a container that was made and not started without a reason.
fn waits_to_begin(found: &Found<'_>) -> ApiState {
    waits(if found.has_init { "PodInitializing" } else { "ContainerCreating" }, "")
}

fn waits(reason: &str, message: &str) -> ApiState {
    let message = Some(message.to_owned()).filter(|message| !message.is_empty());
    ApiState {
        waiting: Some(ContainerStateWaiting { reason: Some(reason.into()), message }),
        ..ApiState::default()
    }
}

fn ended_unseen(message: &str) -> ApiState {
    let ended = ContainerStateTerminated {
        exit_code: UNKNOWN_EXIT_CODE,
        message: Some(message.into()),
        reason: Some("ContainerStatusUnknown".into()),
        ..ContainerStateTerminated::default()
    };
    ApiState { terminated: Some(ended), ..ApiState::default() }
}

fn terminated(container: &Container) -> Option<ApiState> {
    let exit = container.exit()?;
    let ended = ContainerStateTerminated {
        container_id: Some(id_of(container)),
        exit_code: exit.code,
        finished_at: Some(time(exit.finished_at)),
        message: Some(exit.message.clone()).filter(|m| !m.is_empty()),
        reason: Some(exit.reason.clone()).filter(|r| !r.is_empty()),
        // kubelet never sets it: CRI tells a signal as 128 and its number.
        signal: None,
        started_at: exit.started_at.map(time),
    };
    Some(ApiState { terminated: Some(ended), ..ApiState::default() })
}

fn id_of(container: &Container) -> String {
    format!("containerd://{}", container.id)
}

fn volume_mounts(spec: &ContainerSpec) -> Vec<VolumeMountStatus> {
    let mounts = spec.volume_mounts.iter().flatten();
    let each = mounts.map(|mount| {
        let read_only = mount.read_only.filter(|read_only| *read_only);
        VolumeMountStatus {
            name: mount.name.clone(),
            mount_path: mount.mount_path.clone(),
            read_only,
            // Asked for or not, it is not done yet.
            recursive_read_only: read_only.map(|_| "Disabled".to_owned()),
            ..VolumeMountStatus::default()
        }
    });
    each.collect()
}
