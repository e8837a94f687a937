//! The conditions of a pod, and since when each of them is as it is.
//!
//! A condition's time is that of the event that brought it about, as the runtime tells it; so it is the same
//! after a restart of the agent. Why a condition is as it is, is an enum; the sentence for it follows from the state.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container as ContainerSpec;

use super::containers::{ContainerRole, Containers};
use crate::pod::Pod;
use crate::pod::observed::Sandbox;
use crate::pod::restart::{AfterExit, after_exit, may_restart_all};
use crate::pod::state::{
    Condition, ConditionReason, ConditionType, ContainerSummary, Phase, PodState, whole_second,
};

/// What the conditions are made from.
pub(super) struct Facts<'a> {
    pub(super) pod: &'a Pod,
    pub(super) sandbox: Option<&'a Sandbox>,
    pub(super) phase: Phase,
    pub(super) containers: &'a Containers<'a>,
    /// When the pod began.
    pub(super) started_at: Timestamp,
    /// The state before this one.
    pub(super) previous: Option<&'a PodState>,
    pub(super) now: Timestamp,
}

/// All conditions, in kubelet's order.
pub(super) fn conditions(facts: &Facts<'_>) -> Vec<Condition> {
    let containers_ready = containers_ready(facts);
    let all = [
        (ConditionType::PodReadyToStartContainers, ready_to_start(facts)),
        (ConditionType::Initialized, initialized(facts)),
        (ConditionType::Ready, ready(facts, containers_ready)),
        (ConditionType::ContainersReady, containers_ready),
        (ConditionType::PodScheduled, holds(None, facts.started_at)),
    ];
    let restarting =
        all_restarting(facts).map(|judgement| (ConditionType::AllContainersRestarting, judgement));
    let conditions = all.into_iter().chain(restarting);
    conditions.map(|(kind, judgement)| condition(kind, judgement, facts)).collect()
}

/// kubelet's sentence for the reason of a condition, if it has one.
pub(in crate::status) fn condition_message(
    reason: ConditionReason,
    pod: &Pod,
    containers: &Containers<'_>,
) -> Option<String> {
    let names = |all: &mut dyn Iterator<Item = &ContainerSummary>| {
        all.map(|summary| summary.name.as_str()).collect::<Vec<_>>().join(" ")
    };
    match reason {
        ConditionReason::PodCompleted | ConditionReason::PodFailed => None,
        ConditionReason::ContainersNotInitialized => {
            let incomplete = names(&mut containers.incomplete());
            Some(format!("containers with incomplete status: [{incomplete}]"))
        }
        ConditionReason::ContainersNotReady => {
            let unready = names(&mut containers.needed().filter(|summary| !summary.ready));
            Some(format!("containers with unready status: [{unready}]"))
        }
        ConditionReason::ReadinessGatesNotReady => {
            let closed = closed_gates(pod).map(|gate| {
                format!("corresponding condition of pod readiness gate {gate:?} does not exist.")
            });
            Some(closed.collect::<Vec<_>>().join(", "))
        }
        ConditionReason::RestartAllContainersStarted => {
            Some("container exited with restart policy rule".to_owned())
        }
    }
}

/// Whether a condition holds, why, and the time of what made it so.
#[derive(Clone, Copy)]
struct Judgement {
    holds: bool,
    reason: Option<ConditionReason>,
    since: ConditionTime,
}

/// When something came about.
#[derive(Clone, Copy)]
enum ConditionTime {
    /// At this time: the runtime tells.
    Event(Timestamp),
    /// When it was first noticed, by a probe. It cannot be older than this.
    Noticed { not_before: Timestamp },
}

fn holds(reason: Option<ConditionReason>, since: Timestamp) -> Judgement {
    Judgement { holds: true, reason, since: ConditionTime::Event(since) }
}

fn fails(reason: Option<ConditionReason>, since: Timestamp) -> Judgement {
    Judgement { holds: false, reason, since: ConditionTime::Event(since) }
}

fn condition(kind: ConditionType, judgement: Judgement, facts: &Facts<'_>) -> Condition {
    let Judgement { holds, reason, since } = judgement;
    let before = facts.previous.and_then(|previous| previous.condition(kind));
    let known = before.map(|before| (before.holds == holds, before.since));
    let since = match (since, known) {
        (ConditionTime::Noticed { not_before }, Some((true, at))) => at.max(not_before),
        (ConditionTime::Noticed { .. }, _) => facts.now,
        (ConditionTime::Event(_), Some((true, at))) if !holds => at,
        // It cannot have held for longer than what it needs is there: if that is newer, it failed in between.
        (ConditionTime::Event(event), Some((_, at))) => event.min(facts.now).max(at),
        (ConditionTime::Event(event), None) => event.min(facts.now),
    };
    Condition { kind, holds, since: whole_second(since), reason }
}

fn ready_to_start(facts: &Facts<'_>) -> Judgement {
    match facts.sandbox {
        Some(sandbox) if sandbox.ready => holds(None, sandbox.created_at),
        None => fails(None, facts.started_at),
        // A sandbox does not tell when it ended; its containers ended before it.
        Some(_) => {
            let ends = facts.containers.all().filter_map(|(_, summary)| finished_at(summary));
            fails(None, ends.max().unwrap_or(facts.now))
        }
    }
}

fn initialized(facts: &Facts<'_>) -> Judgement {
    // Once a container has run, the pod was initialized, whatever its sidecars do now.
    let has_run = |summary: &ContainerSummary| {
        summary.running_since().is_some() || summary.newest_termination().is_some()
    };
    let has_begun = facts.containers.main.iter().any(|(_, summary)| has_run(summary));
    let reason = if facts.phase == Phase::Succeeded {
        Some(ConditionReason::PodCompleted)
    } else if facts.containers.incomplete().next().is_none() || has_begun {
        None
    } else {
        return fails(Some(ConditionReason::ContainersNotInitialized), facts.started_at);
    };
    let done =
        facts.containers.init.iter().filter_map(|(spec, summary)| match ContainerRole::of_init(spec) {
            // A sidecar that was restarted began earlier than it tells.
            ContainerRole::Sidecar if summary.restarts > 0 => None,
            ContainerRole::Sidecar => summary.running_since(),
            ContainerRole::Init | ContainerRole::Main => finished_at(summary),
        });
    holds(reason, done.max().unwrap_or(facts.started_at).max(facts.started_at))
}

/// Ready when the containers are, and all gates are open. Only a client of an API server can open a gate.
fn ready(facts: &Facts<'_>, containers: Judgement) -> Judgement {
    if !containers.holds || closed_gates(facts.pod).next().is_none() {
        return containers;
    }
    Judgement { holds: false, reason: Some(ConditionReason::ReadinessGatesNotReady), ..containers }
}

/// The readiness gates of a pod that are not open. Those that the agent sets itself hold when the containers are ready.
fn closed_gates(pod: &Pod) -> impl Iterator<Item = &str> {
    let own = ["PodReadyToStartContainers", "Initialized", "ContainersReady", "PodScheduled"];
    let gates = pod.spec.readiness_gates.iter().flatten().map(|gate| gate.condition_type.as_str());
    gates.filter(move |gate| !own.contains(gate))
}

fn containers_ready(facts: &Facts<'_>) -> Judgement {
    let needed: Vec<_> = facts.containers.needed().collect();
    let unready = |reason| fails(Some(reason), unready_since(facts, &needed));
    match facts.phase {
        Phase::Succeeded => unready(ConditionReason::PodCompleted),
        Phase::Failed => unready(ConditionReason::PodFailed),
        Phase::Pending | Phase::Running if needed.iter().all(|summary| summary.ready) => {
            let running_since = needed.iter().filter_map(|summary| summary.running_since());
            let began = running_since.max().unwrap_or(facts.started_at);
            let is_probed = |c: &ContainerSpec| c.readiness_probe.is_some() || c.startup_probe.is_some();
            let probed = facts.containers.all().any(|(spec, _)| is_probed(spec));
            let since = if probed {
                ConditionTime::Noticed { not_before: began }
            } else {
                ConditionTime::Event(began)
            };
            Judgement { holds: true, reason: None, since }
        }
        Phase::Pending | Phase::Running => unready(ConditionReason::ContainersNotReady),
    }
}

/// Whether a rule restarts all containers just now; none for a pod without such a rule.
fn all_restarting(facts: &Facts<'_>) -> Option<Judgement> {
    let all = || facts.containers.all();
    if !all().any(|(spec, _)| may_restart_all(spec)) {
        return None;
    }
    let reason = match facts.phase {
        Phase::Succeeded => Some(ConditionReason::PodCompleted),
        Phase::Failed => Some(ConditionReason::PodFailed),
        Phase::Pending | Phase::Running => {
            let cause = all().find_map(|(spec, summary)| {
                let ended = summary.newest_termination().filter(|_| summary.running_since().is_none())?;
                let follows = after_exit(&facts.pod.spec, spec, ended.exit_code);
                (follows == AfterExit::RestartsAll).then_some(ended)
            });
            if let Some(ended) = cause {
                let since = ended.finished_at.unwrap_or(facts.now);
                return Some(holds(Some(ConditionReason::RestartAllContainersStarted), since));
            }
            None
        }
    };
    // Nobody tells when it began to be over.
    let began = all().filter_map(|(_, summary)| summary.running_since()).max();
    Some(fails(reason, began.unwrap_or(facts.started_at)))
}

/// Since when a pod is not ready: never was, if one of its containers never ran; else since the first one ended.
fn unready_since(facts: &Facts<'_>, needed: &[&ContainerSummary]) -> Timestamp {
    let down = || needed.iter().filter(|summary| summary.running_since().is_none());
    if down().any(|summary| summary.newest_termination().is_none()) {
        return facts.started_at;
    }
    down().filter_map(|summary| finished_at(summary)).min().unwrap_or(facts.now)
}

fn finished_at(summary: &ContainerSummary) -> Option<Timestamp> {
    summary.newest_termination()?.finished_at
}
