//! Stopping instances: first end what is alive, then remove what is dead.

use std::collections::BTreeSet;
use std::time::Duration;

use super::ending::{Stop, Turn};
use super::{RemoveContainer, Situation, Step};
use crate::pod::observed::{Container, Observed};
use crate::pod::{PodUid, SandboxId};

/// Whether something is still alive.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StopProgress {
    /// Nothing is.
    Done,
    /// These steps lead there; with none, what was begun is to be awaited.
    Busy(Stopping),
}

/// What to do about containers that are to end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Stopping {
    /// What to do now.
    pub(super) steps: Vec<Step>,
    /// Look again after this long.
    pub(super) wake_in: Option<Duration>,
}

/// Stops the living containers of the chosen instances, then their sandboxes; removes nothing.
pub(super) fn plan_stop_living(
    situation: &Situation<'_>,
    chosen: impl Fn(&SandboxId, &PodUid) -> bool,
) -> StopProgress {
    let observed = situation.observed;
    let alive = observed.containers.iter().filter(|c| chosen(&c.sandbox, &c.uid) && c.is_alive());
    let alive: Vec<_> = alive.map(Stop::own).collect();
    if !alive.is_empty() {
        return StopProgress::Busy(plan_stops(situation, &alive));
    }
    let ready = observed.sandboxes.iter().filter(|s| s.ready && chosen(&s.id, &s.uid));
    let steps: Vec<_> = ready.map(|s| Step::StopSandbox(s.id.clone())).collect();
    if steps.is_empty() { StopProgress::Done } else { StopProgress::Busy(Stopping { steps, wake_in: None }) }
}

/// Ends containers: the others all at once, then the sidecars one by one, the last one started first. Their hooks run
/// at once, and one grace period is for them all: a sidecar whose turn does not come within it goes with the rest.
pub(super) fn plan_stops(situation: &Situation<'_>, alive: &[Stop<'_>]) -> Stopping {
    let mut stopping = Stopping::default();
    let mut stops = Vec::new();
    for stop in alive {
        // Whoever wants the end may allow less than a container's own grace period.
        let stop =
            &Stop { grace: situation.want.grace().map_or(stop.grace, |most| stop.grace.min(most)), ..*stop };
        let container = stop.container;
        let goes_first = |other: &Container| match (other.sidecar, container.sidecar) {
            (None, Some(_)) => true,
            (Some(other), Some(own)) => other > own,
            (_, None) => false,
        };
        let mut others = alive.iter().map(|other| other.container);
        let waits = others.any(|other| other.uid == container.uid && goes_first(other));
        let turn = if waits { Turn::Later } else { Turn::Now };
        let sandbox = situation.observed.sandboxes.iter().find(|s| s.id == container.sandbox);
        let pod_ip = sandbox.and_then(|s| s.ips.first());
        let (next, look) = situation.terminations.next(*stop, pod_ip, turn, situation.uptime);
        stops.extend(next);
        stopping.wake_in = [stopping.wake_in, look].into_iter().flatten().min();
    }
    if !stops.is_empty() {
        stopping.steps.push(Step::StopContainers(stops));
    }
    stopping
}

/// Stops sandboxes that died by themselves: whatever their network still holds is freed only so.
pub(super) fn plan_release(observed: &Observed, chosen: impl Fn(&SandboxId, &PodUid) -> bool) -> Vec<Step> {
    let dead = observed.sandboxes.iter().filter(|s| !s.ready && chosen(&s.id, &s.uid));
    dead.map(|s| Step::StopSandbox(s.id.clone())).collect()
}

/// Removes the chosen instances, of which nothing is alive. The sandbox goes last: while it is there, a new agent finds
/// the rest.
pub(super) fn plan_remove(observed: &Observed, chosen: impl Fn(&SandboxId, &PodUid) -> bool) -> Vec<Step> {
    let mut steps = plan_release(observed, &chosen);
    let containers = observed.containers.iter().filter(|c| chosen(&c.sandbox, &c.uid));
    steps.extend(containers.map(remove_container));
    let sandboxes: Vec<_> = observed.sandboxes.iter().filter(|s| chosen(&s.id, &s.uid)).collect();
    let uids: BTreeSet<_> = sandboxes.iter().map(|s| &s.uid).collect();
    steps.extend(uids.into_iter().map(|uid| Step::RemoveInstance(uid.clone())));
    steps.extend(sandboxes.into_iter().map(|s| Step::RemoveSandbox(s.id.clone())));
    steps
}

/// How to remove a dead container.
pub(super) fn remove_container(container: &Container) -> Step {
    Step::RemoveContainer(RemoveContainer {
        id: container.id.clone(),
        uid: container.uid.clone(),
        name: container.name.clone(),
        attempt: container.attempt,
    })
}
