//! The sandbox of the wanted instance: is there one to run in, must one be made, which ones are left over.

use std::collections::BTreeSet;
use std::time::Duration;

use super::ending::Stop;
use super::stop::{self, StopProgress, Stopping};
use super::{History, Situation, Step};
use crate::pod::observed::{Container, Observed, Sandbox};
use crate::pod::restart::RestartPolicy;
use crate::pod::{ContainerId, Pod, PodUid, SandboxId};
use crate::probe::target::Verdicts;
use crate::time::backoff::Backoff;
use crate::time::since::Since;

/// How many containers of one name are kept: the newest, and the one before it for `lastState`.
const KEPT_PER_NAME: usize = 2;

/// A sandbox that dies sooner than this counts as short-lived.
const SHORT_LIFE: Duration = Duration::from_secs(10);

/// How often in a row the release of a dead sandbox's network may fail before its successor no longer waits for it.
pub(crate) const MAX_RELEASES: u32 = 2;

/// A sandbox that was made, and how many before it died soon after they were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MadeSandbox {
    short_lived: u32,
    since: Since,
}

impl MadeSandbox {
    /// One is made after `earlier`, which is no more.
    pub(crate) fn after(earlier: Option<&Self>, uptime: Duration) -> Self {
        let lived_short = |earlier: &&Self| {
            // It may have died early in the wait that was due before this one.
            let wait = Backoff::STEP.delay(earlier.short_lived);
            earlier.since.elapsed(uptime) < wait.saturating_add(SHORT_LIFE)
        };
        let short_lived =
            earlier.filter(lived_short).map_or(0, |earlier| earlier.short_lived.saturating_add(1));
        Self { short_lived, since: Since::now(uptime) }
    }

    /// How long the next one must wait.
    fn remaining(&self, uptime: Duration) -> Option<Duration> {
        Backoff::STEP.remaining(self.short_lived, self.since.elapsed(uptime))
    }
}

/// The sandbox situation of the wanted instance.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SandboxState<'a> {
    /// This one is ready, and the only one that is.
    Ready(&'a Sandbox),
    /// One must be made, as this attempt.
    Missing { attempt: u32 },
    /// These must be stopped first: a dead one's containers and network, or a second one.
    StopFirst(Stopping),
}

/// Finds the sandbox to run in. `others` are the sandboxes of other instances, with the same UID or not.
pub(super) fn sandbox_state<'a>(
    pod: &Pod,
    situation: &Situation<'a>,
    others: &[SandboxId],
) -> SandboxState<'a> {
    let observed = situation.observed;
    let current = current(pod, observed, others);
    let is_not_current = |sandbox: &SandboxId| current.is_none_or(|s| s.id != *sandbox);
    let settle = stop::plan_stop_living(situation, |sandbox, uid| {
        *uid == pod.uid && !others.contains(sandbox) && is_not_current(sandbox)
    });
    if let StopProgress::Busy(stopping) = settle {
        return SandboxState::StopFirst(stopping);
    }
    // Of one name only the newest may live; one that the manifest does not name may not.
    let is_newest = |c: &Container| {
        pod.containers().any(|(_, spec)| spec.name == c.name)
            && observed.containers_of(pod, &c.name).first().is_some_and(|newest| newest.id == c.id)
    };
    let strays = observed.own(pod).filter(|c| c.is_alive() && !is_newest(c));
    let strays: Vec<_> = strays.map(Stop::own).collect();
    if !strays.is_empty() {
        return SandboxState::StopFirst(stop::plan_stops(situation, &strays));
    }
    match current {
        Some(sandbox) => SandboxState::Ready(sandbox),
        // The attempt counts every sandbox of the UID: the runtime reserves the name of each.
        None => SandboxState::Missing {
            attempt: observed.newest_sandbox(&pod.uid).map_or(0, |s| s.attempt.saturating_add(1)),
        },
    }
}

/// The containers whose sandbox is not the one to run in, since when they still ran, and those that are ended for a probe:
/// what is remembered, and what is found.
pub(super) fn killed(pod: &Pod, situation: &Situation<'_>, others: &[SandboxId]) -> BTreeSet<ContainerId> {
    let current = current(pod, situation.observed, others);
    let own = situation.observed.own(pod);
    let is_killed = |c: &&Container| {
        let strands = c.is_alive() && current.is_none_or(|sandbox| sandbox.id != c.sandbox);
        // One that ended by itself before it was told to is judged by its exit code.
        let unhealthy = c.is_alive() && is_unhealthy(pod, c, situation.probes);
        // For a later agent, which has not been told.
        let replaced = c.is_alive() && situation.restarts.contains(&c.id);
        strands || unhealthy || replaced || situation.checkpoint.killed_containers.contains(&c.id)
    };
    own.filter(is_killed).map(|c| c.id.clone()).collect()
}

/// It is to be ended for a probe, and its policy wants it back.
fn is_unhealthy(pod: &Pod, container: &Container, probes: &Verdicts) -> bool {
    let of_name = pod.containers().find(|(_, spec)| spec.name == container.name);
    let may_restart = |spec| RestartPolicy::of(&pod.spec, spec) != RestartPolicy::Never;
    probes.failed(&container.id).is_some() && of_name.is_some_and(|(_, spec)| may_restart(spec))
}

/// What is left to wait after failed attempts at a sandbox, and after sandboxes that died at once.
pub(super) fn remaining(history: &History, uptime: Duration) -> Option<Duration> {
    let failed = history.sandbox.as_ref().and_then(|failure| failure.remaining(uptime));
    failed.max(history.made.as_ref().and_then(|made| made.remaining(uptime)))
}

/// Whether a dead sandbox is to be released before its successor is made. A network that refuses twice, as after a boot
/// that took what it knew, keeps no pod down.
pub(super) fn holds_back(history: &History, id: &SandboxId) -> bool {
    history.unreleased.get(id).is_none_or(|failures| *failures < MAX_RELEASES)
}

/// Releases the dead sandboxes of the instance that did not hold their successor back.
pub(super) fn plan_late_release(pod: &Pod, situation: &Situation<'_>, others: &[SandboxId]) -> Vec<Step> {
    let own = |id: &SandboxId, uid: &PodUid| *uid == pod.uid && !others.contains(id);
    let unreleased = &situation.history.unreleased;
    stop::plan_release(situation.observed, |id, uid| own(id, uid) && unreleased.contains_key(id))
}

/// Removes dead containers beyond those kept per name, and dead sandboxes that hold none.
pub(super) fn plan_tidy(pod: &Pod, observed: &Observed, others: &[SandboxId]) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut names: Vec<_> = observed.own(pod).map(|c| &c.name).collect();
    names.sort();
    names.dedup();
    let mut kept_in: Vec<&SandboxId> = Vec::new();
    for name in names {
        for (place, container) in observed.containers_of(pod, name).into_iter().enumerate() {
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

/// The newest sandbox of the instance, if it is up.
fn current<'a>(pod: &Pod, observed: &'a Observed, others: &[SandboxId]) -> Option<&'a Sandbox> {
    let own = observed.sandboxes.iter().filter(|s| s.uid == pod.uid && !others.contains(&s.id));
    own.max_by_key(|s| (s.attempt, s.created_at)).filter(|s| s.ready)
}
