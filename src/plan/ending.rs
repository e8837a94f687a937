//! The end of one container, step by step: its preStop hook, its turn, the signal, all within one grace period.
//!
//! [`Terminations`] is what the worker remembers of ends that have begun; nothing here acts. Times are those of a clock that
//! never jumps. Invariant: a deadline moves only towards the present.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::pod::ContainerId;
use crate::pod::hook::Hook;
use crate::pod::observed::{Container, ContainerState};
use crate::pod::restart::RestartPolicy;
use crate::probe::threshold::Kind;

/// No container is asked to end with less, whatever its hook and those before it took: kubelet's minimum.
const LEAST_GRACE: u64 = 2;
/// Kubernetes' grace period where a container does not carry its own.
const DEFAULT_GRACE: i64 = 30;

/// The ends that have begun, by container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Terminations(BTreeMap<ContainerId, TerminationProgress>);

/// How far the end of one container is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TerminationProgress {
    /// The generation of the newest desired state that the deadline takes into account.
    desired: u64,
    /// When the grace period is over.
    deadline: Duration,
    pre_stop: PreStop,
    /// The runtime is ending it, by this time.
    told: Option<Duration>,
}

/// How far the preStop hook is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PreStop {
    /// To be run, if there is one.
    Due,
    Running,
    /// It was run, or its time has passed. It is not run again.
    Over,
}

/// A container that is to end, and the next thing to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StopContainer {
    /// Which.
    pub id: ContainerId,
    /// Its name in the pod.
    pub name: String,
    /// When its grace period is over.
    pub deadline: Duration,
    /// Why it is to end.
    pub why: StopReason,
    /// What to do.
    pub action: StopAction,
}

/// Why a container is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// It is not wanted, or not like this.
    NotWanted,
    /// A probe failed.
    Unhealthy {
        /// Which.
        probe: Kind,
        /// What becomes of its container.
        policy: RestartPolicy,
        /// What its container is.
        role: ProbedRole,
    },
}

/// What a container that is probed is in its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbedRole {
    /// One of the containers.
    Main,
    /// An init container that runs on.
    Sidecar,
}

impl StopReason {
    /// What there is to say about a container of this name: kubelet's words.
    pub(crate) fn message(self, container: &str) -> Option<String> {
        let StopReason::Unhealthy { probe, policy, role } = self else { return None };
        let (who, then) = match (role, policy) {
            (ProbedRole::Sidecar, _) => ("Init container", ""),
            (ProbedRole::Main, RestartPolicy::Never) => ("Container", ""),
            (ProbedRole::Main, _) => ("Container", ", will be restarted"),
        };
        Some(format!("{who} {container} failed {} probe{then}", probe.as_str().to_ascii_lowercase()))
    }
}

/// What is done about a container that is to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StopAction {
    /// Run its preStop hook.
    PreStop {
        /// The hook.
        hook: Hook,
        /// The pod's address; none with the host's network.
        pod_ip: Option<String>,
        /// What is left of the grace period.
        within: Duration,
    },
    /// Others go first.
    Wait,
    /// Tell it to end, and kill it when this many seconds have passed.
    End {
        /// Seconds.
        grace: u64,
        /// Who sends which signal.
        signal: Signalling,
    },
}

/// How a container hears that it is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signalling {
    /// The runtime sends the signal, once however often it is told.
    Runtime,
    /// We send this one: the runtime knows no other than SIGTERM, or the image's.
    Send(u32),
    /// We sent it before.
    Sent,
}

impl Terminations {
    /// None has begun.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The end of this container has begun.
    pub(crate) fn has_begun(&self, id: &ContainerId) -> bool {
        self.0.contains_key(id)
    }

    /// A newer desired state may shorten what is left to its own grace period, counted from now; none lengthens it.
    pub(crate) fn shorten(&mut self, desired: u64, grace: Option<i64>, uptime: Duration) {
        for ending in self.0.values_mut().filter(|ending| ending.desired != desired) {
            ending.desired = desired;
            if let Some(grace) = grace {
                ending.deadline = ending.deadline.min(uptime.saturating_add(seconds(grace)));
            }
        }
    }

    /// Notes what is being done about a container.
    pub(crate) fn note(&mut self, stop: &StopContainer, desired: u64) {
        let ending = self.0.entry(stop.id.clone()).or_insert(TerminationProgress {
            desired,
            deadline: stop.deadline,
            pre_stop: PreStop::Due,
            told: None,
        });
        match stop.action {
            StopAction::PreStop { .. } => ending.pre_stop = PreStop::Running,
            StopAction::Wait => {}
            StopAction::End { .. } => {
                ending.pre_stop = PreStop::Over;
                ending.told = Some(stop.deadline);
            }
        }
    }

    /// The hook of a container is under way.
    pub(crate) fn hook_runs(&self, id: &ContainerId) -> bool {
        self.0.get(id).is_some_and(|ending| ending.pre_stop == PreStop::Running)
    }

    /// The hook of a container came to its end, well or not.
    pub(crate) fn hook_is_over(&mut self, id: &ContainerId) {
        if let Some(ending) = self.0.get_mut(id) {
            ending.pre_stop = PreStop::Over;
        }
    }

    /// The runtime is not at it any more; if the container lives, it is to be told again.
    pub(crate) fn call_is_over(&mut self, id: &ContainerId) {
        if let Some(ending) = self.0.get_mut(id) {
            ending.told = None;
        }
    }

    /// Forgets those that are done.
    pub(crate) fn retain(&mut self, lives: impl Fn(&ContainerId) -> bool) {
        self.0.retain(|id, _| lives(id));
    }

    /// What is next for a container that is to end, and when to look again.
    pub(super) fn next(
        &self,
        Stop { container, grace, why }: Stop<'_>,
        pod_ip: Option<&String>,
        turn: Turn,
        uptime: Duration,
    ) -> (Option<StopContainer>, Option<Duration>) {
        let begun = self.0.get(&container.id);
        let deadline = begun.map_or_else(|| uptime.saturating_add(seconds(grace)), |e| e.deadline);
        let left = deadline.saturating_sub(uptime);
        let (pre_stop, told) = begun.map_or((PreStop::Due, None), |e| (e.pre_stop, e.told));
        let stop = |action| StopContainer {
            id: container.id.clone(),
            name: container.name.clone(),
            deadline,
            why,
            action,
        };
        if told.is_some_and(|by| by <= deadline) {
            // The runtime is at it, and says when it is done.
            return (None, None);
        }
        if told.is_none() && !left.is_zero() {
            let runs = matches!(container.state, ContainerState::Running { .. });
            match (pre_stop, &container.pre_stop) {
                (PreStop::Due, Some(hook)) if runs => {
                    let action =
                        StopAction::PreStop { hook: hook.clone(), pod_ip: pod_ip.cloned(), within: left };
                    return (Some(stop(action)), Some(left));
                }
                (PreStop::Running, _) => return (None, Some(left)),
                _ => {}
            }
            if turn == Turn::Later {
                return (begun.is_none().then(|| stop(StopAction::Wait)), Some(left));
            }
        }
        let signal = match (container.stop_signal, told) {
            (None, _) => Signalling::Runtime,
            (Some(signal), None) => Signalling::Send(signal),
            (Some(_), Some(_)) => Signalling::Sent,
        };
        // A second that has begun counts in full, as kubelet counts.
        let grace = left.as_secs() + u64::from(left.subsec_nanos() > 0);
        (Some(stop(StopAction::End { grace: grace.max(LEAST_GRACE), signal })), None)
    }
}

/// Whether others are to end before a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Now,
    Later,
}

/// A container that is to end, and how much time it has for that.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stop<'a> {
    /// Which.
    pub(super) container: &'a Container,
    /// Seconds.
    pub(super) grace: i64,
    /// Why it is to end.
    pub(super) why: StopReason,
}

impl<'a> Stop<'a> {
    /// With the grace period that it was created with.
    pub(super) fn own(container: &'a Container) -> Self {
        Self { container, grace: container.grace.unwrap_or(DEFAULT_GRACE), why: StopReason::NotWanted }
    }

    /// For a probe that failed, with the probe's grace period if it has one.
    pub(super) fn unhealthy(
        container: &'a Container,
        probe: Kind,
        policy: RestartPolicy,
        grace: Option<i64>,
    ) -> Self {
        let own = Self::own(container);
        let role = if container.sidecar.is_some() { ProbedRole::Sidecar } else { ProbedRole::Main };
        Self { grace: grace.unwrap_or(own.grace), why: StopReason::Unhealthy { probe, policy, role }, ..own }
    }
}

fn seconds(grace: i64) -> Duration {
    Duration::from_secs(u64::try_from(grace).unwrap_or(0))
}
