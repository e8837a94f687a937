//! The conditions of a pod, and since when each of them is as it is.
//!
//! A condition's time is that of the event that brought it about, as the runtime tells it; so it is the same
//! after a restart of the agent.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container as ContainerSpec, ContainerStateTerminated, ContainerStatus, PodCondition, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::container::{Kind, last_end};
use super::{Specified, time};
use crate::pod::Pod;
use crate::pod::observed::Sandbox;
use crate::pod::restart::{AfterExit, after_exit, may_restart_all};

/// What the conditions are made from.
pub(super) struct Facts<'a> {
    pub(super) pod: &'a Pod,
    pub(super) sandbox: Option<&'a Sandbox>,
    pub(super) phase: &'a str,
    pub(super) init: &'a Specified<'a>,
    pub(super) main: &'a Specified<'a>,
    /// When the pod began.
    pub(super) start: Timestamp,
    /// The `metadata.generation` that is looked at.
    pub(super) generation: Option<i64>,
    /// What was last shown.
    pub(super) previous: Option<&'a PodStatus>,
    pub(super) now: Timestamp,
}

/// All conditions, in kubelet's order.
pub(super) fn conditions(facts: &Facts<'_>) -> Vec<PodCondition> {
    let containers_ready = containers_ready(facts);
    let all = [
        ("PodReadyToStartContainers", ready_to_start(facts)),
        ("Initialized", initialized(facts)),
        ("Ready", ready(facts, containers_ready.clone())),
        ("ContainersReady", containers_ready),
        ("PodScheduled", holds(None, None, facts.start)),
    ];
    let restarting = all_restarting(facts).map(|judged| ("AllContainersRestarting", judged));
    all.into_iter().chain(restarting).map(|(kind, judged)| condition(kind, judged, facts)).collect()
}

fn holds(why: Option<&'static str>, message: Option<String>, since: Timestamp) -> Judged {
    Judged { verdict: Verdict::Holds { why, message }, since: Since::Event(since) }
}

/// Whether a condition holds, and the time of what made it so.
#[derive(Clone)]
struct Judged {
    verdict: Verdict,
    since: Since,
}

/// When something came about.
#[derive(Clone, Copy)]
enum Since {
    /// Then: the runtime tells.
    Event(Timestamp),
    /// When it was first noticed, by a probe. It cannot be older than this.
    Noticed { not_before: Timestamp },
}

#[derive(Clone)]
enum Verdict {
    Holds { why: Option<&'static str>, message: Option<String> },
    Fails { why: Option<&'static str>, message: Option<String> },
}

fn condition(kind: &str, judged: Judged, facts: &Facts<'_>) -> PodCondition {
    let (status, reason, message) = match judged.verdict {
        Verdict::Holds { why, message } => ("True", why, message),
        Verdict::Fails { why, message } => ("False", why, message),
    };
    let shown = facts.previous.and_then(|p| p.conditions.as_ref());
    let before = shown.and_then(|all| all.iter().find(|c| c.type_ == kind));
    let known = before.and_then(|c| Some((c.status == status, c.last_transition_time.as_ref()?.0)));
    let since = match (judged.since, known) {
        (Since::Noticed { not_before }, Some((true, at))) => at.max(not_before),
        (Since::Noticed { .. }, _) => facts.now,
        (Since::Event(_), Some((true, at))) if status == "False" => at,
        // It cannot have held for longer than what it takes is there: if that is newer, it failed in between.
        (Since::Event(event), Some((_, at))) => event.min(facts.now).max(at),
        (Since::Event(event), None) => event.min(facts.now),
    };
    PodCondition {
        type_: kind.into(),
        status: status.into(),
        last_transition_time: Some(time(since)),
        observed_generation: facts.generation,
        reason: reason.map(str::to_owned),
        message,
        ..PodCondition::default()
    }
}

fn ready_to_start(facts: &Facts<'_>) -> Judged {
    let fails =
        |since| Judged { verdict: Verdict::Fails { why: None, message: None }, since: Since::Event(since) };
    match facts.sandbox {
        Some(sandbox) if sandbox.ready => holds(None, None, sandbox.created_at),
        None => fails(facts.start),
        // A sandbox does not tell when it ended; its containers did so before.
        Some(_) => {
            let all = facts.init.iter().chain(facts.main);
            fails(all.filter_map(|(_, status)| finished_at(last_end(status)?)).max().unwrap_or(facts.now))
        }
    }
}

fn initialized(facts: &Facts<'_>) -> Judged {
    let incomplete: Vec<_> = facts
        .init
        .iter()
        .filter(|(spec, status)| match Kind::of_init(spec) {
            Kind::Sidecar => status.started != Some(true),
            Kind::Init | Kind::Main => !status.ready,
        })
        .map(|(spec, _)| spec.name.as_str())
        .collect();
    // Once a container has run, the pod was initialised, whatever its sidecars do now.
    let has_begun =
        facts.main.iter().any(|(_, status)| runs_since(status).is_some() || last_end(status).is_some());
    let verdict = if facts.phase == "Succeeded" {
        Verdict::Holds { why: Some("PodCompleted"), message: None }
    } else if incomplete.is_empty() || has_begun {
        Verdict::Holds { why: None, message: None }
    } else {
        let message = format!("containers with incomplete status: [{}]", incomplete.join(" "));
        Verdict::Fails { why: Some("ContainersNotInitialized"), message: Some(message) }
    };
    let since = match verdict {
        Verdict::Fails { .. } => facts.start,
        Verdict::Holds { .. } => {
            let done = facts.init.iter().filter_map(|(spec, status)| match Kind::of_init(spec) {
                // A sidecar that was restarted began earlier than it tells.
                Kind::Sidecar if status.restart_count > 0 => None,
                Kind::Sidecar => runs_since(status),
                Kind::Init | Kind::Main => finished_at(last_end(status)?),
            });
            done.max().unwrap_or(facts.start).max(facts.start)
        }
    };
    Judged { verdict, since: Since::Event(since) }
}

/// Ready when the containers are, and all gates hold. Nobody but an API server's client can open a gate.
fn ready(facts: &Facts<'_>, containers: Judged) -> Judged {
    let gates = facts.pod.spec.readiness_gates.iter().flatten();
    // Those that the agent sets itself hold when the containers are ready.
    let own = ["PodReadyToStartContainers", "Initialized", "ContainersReady", "PodScheduled"];
    let gates = gates.filter(|gate| !own.contains(&gate.condition_type.as_str()));
    let shut: Vec<_> = gates
        .map(|gate| {
            format!("corresponding condition of pod readiness gate {:?} does not exist.", gate.condition_type)
        })
        .collect();
    if shut.is_empty() || matches!(containers.verdict, Verdict::Fails { .. }) {
        return containers;
    }
    let verdict = Verdict::Fails { why: Some("ReadinessGatesNotReady"), message: Some(shut.join(", ")) };
    Judged { verdict, since: containers.since }
}

fn containers_ready(facts: &Facts<'_>) -> Judged {
    let sidecars = facts.init.iter().filter(|(spec, _)| Kind::of_init(spec) == Kind::Sidecar);
    let needed: Vec<_> = sidecars.chain(facts.main).map(|(_, status)| status).collect();
    let unready: Vec<_> = needed.iter().filter(|c| !c.ready).map(|c| c.name.as_str()).collect();
    let fails = |why, message| Judged {
        verdict: Verdict::Fails { why: Some(why), message },
        since: Since::Event(unready_since(facts, &needed)),
    };
    if facts.phase == "Succeeded" {
        fails("PodCompleted", None)
    } else if facts.phase == "Failed" {
        fails("PodFailed", None)
    } else if unready.is_empty() {
        let began = needed.iter().filter_map(|status| runs_since(status)).max().unwrap_or(facts.start);
        let is_probed = |c: &ContainerSpec| c.readiness_probe.is_some() || c.startup_probe.is_some();
        let probed = facts.init.iter().chain(facts.main).any(|(spec, _)| is_probed(spec));
        let since = if probed { Since::Noticed { not_before: began } } else { Since::Event(began) };
        Judged { verdict: Verdict::Holds { why: None, message: None }, since }
    } else {
        let message = format!("containers with unready status: [{}]", unready.join(" "));
        fails("ContainersNotReady", Some(message))
    }
}

/// Whether a rule restarts all containers just now; none for a pod without such a rule.
fn all_restarting(facts: &Facts<'_>) -> Option<Judged> {
    let all = || facts.init.iter().chain(facts.main);
    if !all().any(|(spec, _)| may_restart_all(spec)) {
        return None;
    }
    let fails = |why| Verdict::Fails { why, message: None };
    let verdict = match facts.phase {
        "Succeeded" => fails(Some("PodCompleted")),
        "Failed" => fails(Some("PodFailed")),
        _ => {
            let cause = all().find_map(|(spec, status)| {
                let ended = last_end(status).filter(|_| runs_since(status).is_none())?;
                let follows = after_exit(&facts.pod.spec, spec, ended.exit_code);
                (follows == AfterExit::RestartsAll).then_some(ended)
            });
            match cause {
                Some(ended) => {
                    let message = "container exited with restart policy rule".to_owned();
                    let since = finished_at(ended).unwrap_or(facts.now);
                    return Some(holds(Some("RestartAllContainersStarted"), Some(message), since));
                }
                None => fails(None),
            }
        }
    };
    // When it began to be over is not told by anybody.
    let ends = all().filter_map(|(_, status)| runs_since(status)).max();
    Some(Judged { verdict, since: Since::Event(ends.unwrap_or(facts.start)) })
}

/// Since when a pod is not ready: never was, if one of its containers never ran; else since the first one ended.
fn unready_since(facts: &Facts<'_>, needed: &[&ContainerStatus]) -> Timestamp {
    let down = || needed.iter().filter(|status| runs_since(status).is_none());
    if down().any(|status| last_end(status).is_none()) {
        return facts.start;
    }
    let ends = down().filter_map(|status| finished_at(last_end(status)?));
    ends.min().unwrap_or(facts.now)
}

fn runs_since(status: &ContainerStatus) -> Option<Timestamp> {
    let running = status.state.as_ref()?.running.as_ref()?;
    running.started_at.as_ref().map(|Time(at)| *at)
}

fn finished_at(ended: &ContainerStateTerminated) -> Option<Timestamp> {
    ended.finished_at.as_ref().map(|Time(at)| *at)
}
