//! What is known of one container: what it does, how it ended before, how often it was restarted.

use k8s_openapi::api::core::v1::Container as ContainerSpec;

use super::containers::ContainerRole;
use crate::plan::Waiting;
use crate::pod::ContainerId;
use crate::pod::observed::{Container, ContainerState};
use crate::pod::state::{ContainerSummary, CreatedContainer, RunState, Termination, whole_second};
use crate::pod::termination_message::shown;
use crate::probe::target::Verdicts;

/// kubelet's exit code for a container whose end nobody saw.
const UNKNOWN_EXIT_CODE: i32 = 137;

/// What the summary of one container is made from.
pub(super) struct ContainerFacts<'a> {
    pub(super) spec: &'a ContainerSpec,
    pub(super) role: ContainerRole,
    /// What the runtime holds of it, newest first.
    pub(super) containers: Vec<&'a Container>,
    /// Why it does not run, if it should.
    pub(super) waiting: Option<&'a Waiting>,
    /// What probes found.
    pub(super) probes: &'a Verdicts,
    /// The summary before this one.
    pub(super) previous: Option<&'a ContainerSummary>,
    /// The pod has init containers.
    pub(super) has_init: bool,
    /// A container other than an init container was created, so the init containers have passed.
    pub(super) main_was_created: bool,
}

/// The summary of one container.
pub(super) fn summarize(found: &ContainerFacts<'_>) -> ContainerSummary {
    let newest = found.containers.first().copied();
    let (mut state, lost) = match newest {
        Some(newest) => (state_of(newest, found), None),
        None => without_container(found),
    };
    // A container that runs and waits has not started, or is not to go on.
    if let Some(waiting) = found.waiting {
        state = RunState::Waiting(waiting.clone());
    }
    let runs = matches!(state, RunState::Running { .. });
    let ready = match found.role {
        ContainerRole::Init => matches!(&state, RunState::Terminated(ended) if ended.exit_code == 0),
        ContainerRole::Sidecar | ContainerRole::Main => {
            runs && newest.is_some_and(|c| found.probes.is_ready(&c.id))
        }
    };
    let attempt = newest.map_or(0, |c| i32::try_from(c.attempt).unwrap_or(i32::MAX));
    let counted = found.previous.map_or(0, |previous| previous.restarts);
    let restarts = attempt.max(counted.saturating_add(i32::from(lost.is_some())));
    let created = created(found);
    let id = created.as_ref().map(|created| &created.id);
    let last_termination = lost.or_else(|| ended_before(found, &state, id)).map(Box::new);
    ContainerSummary {
        name: found.spec.name.clone(),
        restarts,
        started: runs && newest.is_some_and(|c| found.probes.has_started(&c.id)),
        ready,
        created,
        state,
        last_termination,
    }
}

/// The newest container of the runtime. One that the runtime has forgotten is still known if its end was.
fn created(found: &ContainerFacts<'_>) -> Option<CreatedContainer> {
    let ended = |previous: &&ContainerSummary| matches!(previous.state, RunState::Terminated(_));
    match found.containers.first() {
        Some(newest) => Some(CreatedContainer {
            id: newest.id.clone(),
            image: newest.image.clone(),
            image_ref: newest.image_ref.clone(),
        }),
        None => found.previous.filter(ended)?.created.clone(),
    }
}

/// Cuts the termination messages of a container to its share of what so many containers may show.
pub(super) fn limit_messages(summary: &mut ContainerSummary, containers: usize) {
    let state = match &mut summary.state {
        RunState::Terminated(ended) => Some(ended),
        RunState::Waiting(_) | RunState::Running { .. } => None,
    };
    for ended in state.into_iter().chain(&mut summary.last_termination) {
        ended.message.truncate(shown(&ended.message, containers).len());
    }
}

/// The state of the newest container that the runtime holds.
fn state_of(newest: &Container, found: &ContainerFacts<'_>) -> RunState {
    match &newest.state {
        ContainerState::Running { started_at } => RunState::Running { started_at: whole_second(*started_at) },
        ContainerState::Exited(_) => RunState::Terminated(Box::new(termination(newest).unwrap_or_default())),
        ContainerState::Created => waits_to_begin(found),
        ContainerState::Unknown => {
            let known = found.previous.filter(|previous| previous.id() == Some(&newest.id));
            match known.map(|previous| &previous.state) {
                Some(RunState::Running { .. }) => RunState::Terminated(Box::new(ended_unseen(
                    "The container could not be located when the pod was terminated",
                ))),
                Some(ended @ RunState::Terminated(_)) => ended.clone(),
                _ => waits_to_begin(found),
            }
        }
    }
}

/// The state of a container that the runtime does not hold, and the end of it that nobody saw.
fn without_container(found: &ContainerFacts<'_>) -> (RunState, Option<Termination>) {
    match found.previous.map(|previous| &previous.state) {
        Some(ended @ RunState::Terminated(_)) => (ended.clone(), None),
        _ if found.role == ContainerRole::Init && found.main_was_created => {
            let message = "Unable to get init container status from container runtime and pod has been \
                           initialized, treat it as exited normally";
            let completed =
                Termination { message: message.into(), reason: "Completed".into(), ..Termination::default() };
            (RunState::Terminated(Box::new(completed)), None)
        }
        Some(RunState::Running { .. }) => {
            let message = "The container could not be located when the pod was deleted.  The container used \
                           to be Running";
            (waits_to_begin(found), Some(ended_unseen(message)))
        }
        _ => (waits_to_begin(found), None),
    }
}

/// How the container before this state ended.
fn ended_before(
    found: &ContainerFacts<'_>,
    state: &RunState,
    id: Option<&ContainerId>,
) -> Option<Termination> {
    let waits = matches!(state, RunState::Waiting(_));
    let earlier = found.containers.iter().skip(usize::from(!waits)).find_map(|c| termination(c));
    earlier.or_else(|| {
        let previous = found.previous?;
        let is_earlier = |ended: &Termination| waits || id.is_some() && ended.id.as_ref() != id;
        match &previous.state {
            RunState::Terminated(ended) if is_earlier(ended) => Some(Termination::clone(ended)),
            _ => previous.last_termination.as_deref().cloned(),
        }
    })
}

/// kubelet's reason for a container that was not started yet, and that nothing else holds up.
fn waits_to_begin(found: &ContainerFacts<'_>) -> RunState {
    let reason = if found.has_init { "PodInitializing" } else { "ContainerCreating" };
    RunState::Waiting(Waiting { reason: reason.into(), message: String::new() })
}

fn ended_unseen(message: &str) -> Termination {
    Termination {
        exit_code: UNKNOWN_EXIT_CODE,
        message: message.into(),
        reason: "ContainerStatusUnknown".into(),
        ..Termination::default()
    }
}

fn termination(container: &Container) -> Option<Termination> {
    let exit = container.exit()?;
    Some(Termination {
        id: Some(container.id.clone()),
        exit_code: exit.code,
        finished_at: Some(whole_second(exit.finished_at)),
        message: exit.message.clone(),
        reason: exit.reason.clone(),
        started_at: exit.started_at.map(whole_second),
    })
}
