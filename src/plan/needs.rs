//! What the containers of a pod need, and why those wait that do not start.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Container as ContainerSpec;

use super::ending::Stop;
use super::{History, Waiting, gate, lacks};
use crate::plan::order::Unmet;
use crate::pod::observed::{Container, Observed};
use crate::pod::restart::RestartPolicy;
use crate::pod::{ContainerRef, Pod};
use crate::probe::threshold::Kind;

/// What one container needs.
pub(super) enum ContainerNeed {
    /// It runs as wanted.
    Nothing,
    /// It ended, and its restart policy does not start it again.
    Done,
    /// It ended for good in a sandbox that is no more: if the pod goes on in another one, so does this.
    Spent { attempt: u32, crashes: u32 },
    /// It should be started.
    Start { attempt: u32, crashes: u32 },
    /// It should be started, but not yet.
    Wait(Duration, Waiting),
    /// It should be started once its image is there, which is being pulled. What failed before is shown meanwhile.
    Pulling(Option<Waiting>),
    /// It should be started once a ConfigMap or Secret is there.
    Lacks(Waiting),
    /// It runs, and is not what is wanted any more.
    Replace,
    /// It runs, and has not started before its hook is done.
    Starting,
    /// It runs, and must not: its hook failed.
    Fail(Waiting),
    /// It runs, and its startup probe has not succeeded yet.
    NotStarted,
    /// It runs, and is to be restarted: this probe failed. The probe may have a grace period of its own.
    Unhealthy { probe: Kind, policy: RestartPolicy, grace: Option<i64> },
}

/// What containers were found to need.
#[derive(Default)]
pub(super) struct Needs<'a> {
    pub(super) starts: Vec<(ContainerRef, Vec<&'a Container>, u32, u32)>,
    /// The image of one that is to start is being pulled.
    pub(super) pulls: bool,
    /// These are to end.
    pub(super) stops: Vec<Stop<'a>>,
    pub(super) wake_in: Option<Duration>,
    pub(super) waiting: BTreeMap<String, Waiting>,
}

impl<'a> Needs<'a> {
    /// Notes what a container needs.
    pub(super) fn note(
        &mut self,
        which: ContainerRef,
        name: &str,
        found: Vec<&'a Container>,
        need: ContainerNeed,
    ) {
        match need {
            ContainerNeed::Nothing
            | ContainerNeed::Done
            | ContainerNeed::Spent { .. }
            | ContainerNeed::NotStarted => {}
            ContainerNeed::Wait(left, waiting) => {
                self.wait(left);
                self.waiting.insert(name.to_owned(), waiting);
            }
            ContainerNeed::Pulling(waiting) => {
                self.pulls = true;
                self.waiting.extend(waiting.map(|waiting| (name.to_owned(), waiting)));
            }
            ContainerNeed::Lacks(waiting) => drop(self.waiting.insert(name.to_owned(), waiting)),
            ContainerNeed::Start { attempt, crashes } => self.starts.push((which, found, attempt, crashes)),
            ContainerNeed::Replace => self.stops.extend(found.first().map(|c| Stop::own(c))),
            ContainerNeed::Starting => {
                let waiting =
                    Waiting { reason: "ContainerCreating".into(), message: "the postStart hook runs".into() };
                self.waiting.insert(name.to_owned(), waiting);
            }
            ContainerNeed::Fail(waiting) => {
                self.waiting.insert(name.to_owned(), waiting);
                self.stops.extend(found.first().map(|c| Stop::own(c)));
            }
            ContainerNeed::Unhealthy { probe, policy, grace } => {
                self.stops.extend(found.first().map(|c| Stop::unhealthy(c, probe, policy, grace)));
            }
        }
    }

    /// What would start waits for a sandbox that cannot be made, and says why.
    pub(super) fn wait_for_sandbox(&mut self, pod: &Pod, history: &History) -> Option<Waiting> {
        let failure = history.sandbox.as_ref()?;
        let message = format!("{}: {}", failure.waiting.reason, failure.waiting.message);
        for (which, ..) in &self.starts {
            if let Some(spec) = pod.container(*which) {
                let waiting = Waiting { reason: "ContainerCreating".into(), message: message.clone() };
                self.waiting.insert(spec.name.clone(), waiting);
            }
        }
        Some(failure.waiting.clone())
    }

    /// What would start waits for the volumes.
    pub(super) fn wait_for_volumes(&mut self, pod: &Pod, volumes: &Waiting) {
        let names = self.starts.iter().filter_map(|(which, ..)| Some(&pod.container(*which)?.name));
        let all: Vec<_> = names.map(|name| (name.clone(), lacks::creating(volumes))).collect();
        self.waiting.extend(all);
    }

    /// What would start, now or after the others, waits for other pods.
    pub(super) fn wait_for_pods(&mut self, pod: &Pod, observed: &Observed, unmet: &[Unmet], left: Duration) {
        self.wait(left);
        let due = |which, spec: &ContainerSpec| {
            self.starts.iter().any(|(start, ..)| *start == which)
                || observed.containers_of(pod, &spec.name).is_empty()
        };
        let names = pod.containers().filter(|(which, spec)| due(*which, spec)).map(|(_, spec)| &spec.name);
        let waiting = gate::waiting(pod, unmet);
        self.waiting.extend(names.map(|name| (name.clone(), waiting.clone())));
    }

    /// Nothing is started: what does not run says why. What runs may still be ended.
    pub(super) fn refuse_starts(&mut self, pod: &Pod, observed: &Observed, waiting: &Waiting) {
        let starts = std::mem::take(&mut self.starts);
        let names = starts.iter().filter_map(|(which, ..)| Some(&pod.container(*which)?.name));
        let names: BTreeSet<_> = names.chain(self.waiting.keys()).cloned().collect();
        let is_alive =
            |name: &String| observed.containers_of(pod, name).first().is_some_and(|newest| newest.is_alive());
        self.waiting.extend(names.into_iter().filter(|n| !is_alive(n)).map(|n| (n, waiting.clone())));
        self.pulls = false;
    }

    /// Looks again after this time, or sooner if something else asks for it.
    pub(super) fn wait(&mut self, left: Duration) {
        self.wake_in = Some(self.wake_in.map_or(left, |sooner| sooner.min(left)));
    }
}
