//! Rounds: a rule that restarts all containers ends one round of a pod's containers and begins the next.
//!
//! Each container carries the number of its round, so that a new agent finds the pod where the last one left it. What
//! is of an earlier round is ended and then started anew, the init containers first, in the same sandbox.

use std::time::Duration;

use super::ending::Stop;
use super::stop::{self, Stopping};
use super::{Situation, Waiting};
use crate::pod::observed::{Container, Exit, Observed};
use crate::pod::restart::{AfterExit, after_exit};
use crate::pod::{Pod, SandboxId};
use crate::time::backoff::Backoff;
use crate::time::duration::format_duration;

/// The round that a pod is to be in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Round<'a> {
    /// Containers with a lower number belong to the past.
    pub(super) number: u32,
    /// What ended the round before, while nothing of this one is there.
    cause: Option<(&'a Container, &'a Exit)>,
}

impl<'a> Round<'a> {
    /// Finds the round from the newest container of each name.
    pub(super) fn of(pod: &Pod, observed: &'a Observed) -> Self {
        let newest: Vec<_> = pod
            .containers()
            .filter_map(|(_, spec)| Some((spec, *observed.containers_of(pod, &spec.name).first()?)))
            .collect();
        let last = newest.iter().map(|(_, container)| container.round).max().unwrap_or_default();
        let cause = newest.into_iter().filter(|(_, container)| container.round == last).find_map(
            |(spec, container)| {
                let exit = container.exit()?;
                let own = pod.container_hash(&spec.name).is_none_or(|hash| *hash == container.hash);
                let all = own && after_exit(&pod.spec, spec, exit.code) == AfterExit::RestartsAll;
                all.then_some((container, exit))
            },
        );
        let number = if cause.is_some() { last.saturating_add(1) } else { last };
        Self { number, cause }
    }

    /// Ends what is left of the rounds before, with no more grace than anybody has, as kubelet does.
    pub(super) fn plan_end(
        &self,
        pod: &Pod,
        situation: &Situation<'_>,
        sandbox: &SandboxId,
    ) -> Option<Stopping> {
        let is_past = |c: &&Container| {
            c.uid == pod.uid && c.sandbox == *sandbox && c.round < self.number && c.is_alive()
        };
        let past = situation.observed.containers.iter().filter(is_past);
        let stops: Vec<_> = past.map(|container| Stop { grace: 0, ..Stop::own(container) }).collect();
        (!stops.is_empty()).then(|| stop::plan_stops(situation, &stops))
    }

    /// How long the next round must wait, and what its containers say meanwhile: a pod that restarts itself again and
    /// again is a crash loop too.
    pub(super) fn remaining(
        &self,
        crash_loop: Backoff,
        situation: &Situation<'_>,
    ) -> Option<(Duration, Waiting)> {
        let (container, exit) = self.cause.filter(|(container, _)| !container.earlier_boot)?;
        let crashes = crash_loop.counted(container.crashes, exit.ran_for());
        let left = crash_loop.remaining(crashes, situation.since_exit(container, exit))?;
        let message = format!(
            "back-off {} restarting all containers after {} ended with exit code {}",
            format_duration(crash_loop.delay(crashes)),
            container.name,
            exit.code
        );
        Some((left, Waiting { reason: "RestartingAllContainers".into(), message }))
    }
}
