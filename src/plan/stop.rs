//! Endings: quiet what is alive, then remove what is dead.

use std::collections::BTreeSet;

use super::{RemoveContainer, Step, StopContainer};
use crate::observed::{Container, Observed};
use crate::pod::{PodUid, SandboxId};

/// Kubernetes' grace period where a container does not carry its own.
const DEFAULT_GRACE: i64 = 30;

/// Stops the living containers of the chosen instances, then their sandboxes; removes nothing.
pub(super) fn plan_quiet(observed: &Observed, chosen: impl Fn(&SandboxId, &PodUid) -> bool) -> Vec<Step> {
    let alive = observed.containers.iter().filter(|c| chosen(&c.sandbox, &c.uid) && c.is_alive());
    let mut steps = plan_stops(alive);
    let ready = observed.sandboxes.iter().filter(|s| s.ready && chosen(&s.id, &s.uid));
    steps.extend(ready.map(|s| Step::StopSandbox(s.id.clone())));
    steps
}

/// Stops containers: the others all at once, then the sidecars one by one, the last one started first.
pub(super) fn plan_stops<'a>(alive: impl Iterator<Item = &'a Container>) -> Vec<Step> {
    let (mut sidecars, others): (Vec<_>, Vec<_>) = alive.partition(|c| c.sidecar.is_some());
    sidecars.sort_by_key(|c| std::cmp::Reverse(c.sidecar));
    let first = others.into_iter().map(stop_container).collect();
    let then = sidecars.into_iter().map(|c| vec![stop_container(c)]);
    std::iter::once(first)
        .chain(then)
        .filter(|stops: &Vec<_>| !stops.is_empty())
        .map(Step::StopContainers)
        .collect()
}

/// Stops sandboxes that died by themselves: whatever their network still holds is freed only so.
pub(super) fn plan_release(observed: &Observed, chosen: impl Fn(&SandboxId, &PodUid) -> bool) -> Vec<Step> {
    let dead = observed.sandboxes.iter().filter(|s| !s.ready && chosen(&s.id, &s.uid));
    dead.map(|s| Step::StopSandbox(s.id.clone())).collect()
}

/// Ends the chosen instances for good. The sandbox goes last: while it is there, a new agent finds the rest.
pub(super) fn plan_end(observed: &Observed, chosen: impl Fn(&SandboxId, &PodUid) -> bool) -> Vec<Step> {
    let mut steps = plan_quiet(observed, &chosen);
    steps.extend(plan_release(observed, &chosen));
    let containers = observed.containers.iter().filter(|c| chosen(&c.sandbox, &c.uid));
    steps.extend(containers.map(remove_container));
    let sandboxes: Vec<_> = observed.sandboxes.iter().filter(|s| chosen(&s.id, &s.uid)).collect();
    let uids: BTreeSet<_> = sandboxes.iter().map(|s| &s.uid).collect();
    steps.extend(uids.into_iter().map(|uid| Step::RemoveInstance(uid.clone())));
    steps.extend(sandboxes.into_iter().map(|s| Step::RemoveSandbox(s.id.clone())));
    steps
}

/// How to stop a container: with the grace period it was created with.
pub(super) fn stop_container(container: &Container) -> StopContainer {
    StopContainer { id: container.id.clone(), grace: container.grace.unwrap_or(DEFAULT_GRACE) }
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
