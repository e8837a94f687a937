//! The sandbox of the wanted instance: is there one to run in, must one be made, which ones are left over.

use super::stop;
use super::{History, Step};
use crate::observed::{Container, Observed, Sandbox};
use crate::pod::{Pod, SandboxId};

/// How many containers of one name are kept: the newest, and the one before it for `lastState`.
const KEPT_PER_NAME: usize = 2;

/// The sandbox situation of the wanted instance.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Footing<'a> {
    /// This one is ready, and the only one that is.
    Ready(&'a Sandbox),
    /// One must be made, as this attempt.
    Missing { attempt: u32 },
    /// These must be stopped first: a dead one's containers and network, or a second one.
    Unsettled(Vec<Step>),
}

/// Finds the sandbox to run in. `others` are the sandboxes of other instances, with the same UID or not.
pub(super) fn footing<'a>(pod: &Pod, observed: &'a Observed, others: &[SandboxId]) -> Footing<'a> {
    let mut own: Vec<_> =
        observed.sandboxes.iter().filter(|s| s.uid == pod.uid && !others.contains(&s.id)).collect();
    own.sort_by_key(|s| std::cmp::Reverse((s.attempt, s.created_at)));
    let current = own.first().filter(|s| s.ready);

    let lost = |sandbox: &SandboxId| current.is_none_or(|s| s.id != *sandbox);
    let settle = stop::plan_quiet(observed, |sandbox, uid| {
        *uid == pod.uid && !others.contains(sandbox) && lost(sandbox)
    });
    if !settle.is_empty() {
        return Footing::Unsettled(settle);
    }
    // Of one name only the newest may live; one that the manifest does not name may not.
    let is_newest = |c: &Container| {
        pod.containers().any(|(_, spec)| spec.name == c.name)
            && observed.containers_of(&pod.uid, &c.name).first().is_some_and(|newest| newest.id == c.id)
    };
    let strays: Vec<_> = observed
        .containers
        .iter()
        .filter(|c| c.uid == pod.uid && c.is_alive() && !is_newest(c))
        .map(stop::stop_container)
        .collect();
    if !strays.is_empty() {
        return Footing::Unsettled(vec![Step::StopContainers(strays)]);
    }
    match current {
        Some(sandbox) => Footing::Ready(sandbox),
        // The attempt counts every sandbox of the UID: the runtime reserves the name of each.
        None => Footing::Missing {
            attempt: observed.newest_sandbox(&pod.uid).map_or(0, |s| s.attempt.saturating_add(1)),
        },
    }
}

/// What is left to wait after failed attempts at a sandbox.
pub(super) fn remaining(history: &History, now: jiff::Timestamp) -> Option<std::time::Duration> {
    history.sandbox.as_ref().and_then(|failure| failure.remaining(now))
}

/// Removes dead containers beyond those kept per name, and dead sandboxes that hold none.
pub(super) fn plan_tidy(pod: &Pod, observed: &Observed, others: &[SandboxId]) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut names: Vec<_> =
        observed.containers.iter().filter(|c| c.uid == pod.uid).map(|c| &c.name).collect();
    names.sort();
    names.dedup();
    let mut kept_in: Vec<&SandboxId> = Vec::new();
    for name in names {
        for (place, container) in observed.containers_of(&pod.uid, name).into_iter().enumerate() {
            if others.contains(&container.sandbox) {
                continue;
            }
            if place < KEPT_PER_NAME || container.is_alive() {
                kept_in.push(&container.sandbox);
            } else {
                steps.push(stop::remove_container(container));
            }
        }
    }
    let newest = observed.newest_sandbox(&pod.uid).map(|s| &s.id);
    let dead = observed.sandboxes.iter().filter(|s| {
        s.uid == pod.uid
            && !s.ready
            && !others.contains(&s.id)
            && Some(&s.id) != newest
            && !kept_in.contains(&&s.id)
    });
    steps.extend(dead.map(|s| Step::RemoveSandbox(s.id.clone())));
    steps
}
