//! The containers of the wanted instance: which ones run, start, wait, or are done.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container as ContainerSpec;

use super::sandbox::{self, Footing};
use super::{History, Init, Plan, StartContainer, Step, StopContainer, Waiting, init, stop};
use crate::backoff::Backoff;
use crate::observed::{Container, ContainerState, Exit, Observed};
use crate::pod::{ContainerRef, Pod, SandboxId};

/// What one container needs.
pub(super) enum Need {
    /// It runs as wanted.
    Nothing,
    /// It ended, and the policy says that this was that.
    Done,
    /// It should be started.
    Start { attempt: u32, crashes: u32 },
    /// It should be started, but not yet.
    Wait(Duration, Waiting),
    /// It runs, and is not what is wanted any more.
    Replace,
}

/// When to start again, by the pod's restartPolicy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

impl RestartPolicy {
    fn of(pod: &Pod) -> Self {
        match pod.spec.restart_policy.as_deref() {
            Some("Never") => Self::Never,
            Some("OnFailure") => Self::OnFailure,
            _ => Self::Always,
        }
    }

    pub(super) fn restarts_after(self, exit: &Exit) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => exit.code != 0,
            Self::Never => false,
        }
    }
}

/// What one pod's containers are judged by.
pub(super) struct Judge<'a> {
    pub(super) pod: &'a Pod,
    pub(super) observed: &'a Observed,
    pub(super) history: &'a History,
    pub(super) crash_loop: Backoff,
    pub(super) now: Timestamp,
    /// The sandbox to run in, if there is one.
    pub(super) ready: Option<&'a SandboxId>,
}

/// What containers were found to need.
#[derive(Default)]
pub(super) struct Needs<'a> {
    starts: Vec<(ContainerRef, Vec<&'a Container>, u32, u32)>,
    replaced: Vec<StopContainer>,
    wake_in: Option<Duration>,
    waiting: BTreeMap<String, Waiting>,
}

impl<'a> Needs<'a> {
    /// Notes what a container needs.
    pub(super) fn note(&mut self, which: ContainerRef, name: &str, found: Vec<&'a Container>, need: Need) {
        match need {
            Need::Nothing | Need::Done => {}
            Need::Wait(left, waiting) => {
                self.wait(left);
                self.waiting.insert(name.to_owned(), waiting);
            }
            Need::Start { attempt, crashes } => self.starts.push((which, found, attempt, crashes)),
            Need::Replace => self.replaced.extend(found.first().map(|c| stop::stop_container(c))),
        }
    }

    /// What would start waits for a sandbox that cannot be made, and says why.
    fn wait_for_sandbox(&mut self, pod: &Pod, history: &History) {
        let Some(failure) = &history.sandbox else { return };
        let message = format!("{}: {}", failure.waiting.reason, failure.waiting.message);
        for (which, ..) in &self.starts {
            if let Some(spec) = pod.container(*which) {
                let waiting = Waiting { reason: "ContainerCreating".into(), message: message.clone() };
                self.waiting.insert(spec.name.clone(), waiting);
            }
        }
    }

    fn wait(&mut self, left: Duration) {
        self.wake_in = Some(self.wake_in.map_or(left, |sooner| sooner.min(left)));
    }
}

/// Plans the wanted instance, when no other is alive.
pub(super) fn plan_run(
    pod: &Pod,
    observed: &Observed,
    history: &History,
    crash_loop: Backoff,
    now: Timestamp,
    others: &[SandboxId],
) -> Plan {
    let footing = sandbox::footing(pod, observed, others);
    let ready = match &footing {
        Footing::Ready(sandbox) => Some(&sandbox.id),
        _ => None,
    };
    let judge = Judge { pod, observed, history, crash_loop, now, ready };
    let mut needs = Needs::default();
    let policy = RestartPolicy::of(pod);
    let mains: Vec<_> = pod
        .spec
        .containers
        .iter()
        .enumerate()
        .map(|(place, spec)| {
            let found = observed.containers_of(&pod.uid, &spec.name);
            let need = judge.need(spec, &found, policy);
            (ContainerRef::Main(place), &spec.name, found, need)
        })
        .collect();
    let mut finished = mains.iter().all(|(.., need)| matches!(need, Need::Done));
    let mut passed = Init::Passed;
    if !finished {
        passed = init::plan_init(&judge, policy, &mut needs);
        finished = passed == Init::Failed;
        if passed == Init::Passed {
            for (which, name, found, need) in mains {
                needs.note(which, name, found, need);
            }
        }
    }

    let mut steps = Vec::new();
    match footing {
        Footing::Unsettled(settle) => steps = settle,
        Footing::Ready(sandbox) if finished => {
            // Only sidecars can be left.
            steps = stop::plan_stops(
                observed.containers.iter().filter(|c| c.sandbox == sandbox.id && c.is_alive()),
            );
            steps.push(Step::StopSandbox(sandbox.id.clone()));
        }
        Footing::Ready(sandbox) => {
            if !needs.replaced.is_empty() {
                steps.push(Step::StopContainers(std::mem::take(&mut needs.replaced)));
            }
            for (container, found, attempt, crashes) in std::mem::take(&mut needs.starts) {
                // A container that was made and never started holds the name of this attempt.
                let stale = found
                    .iter()
                    .filter(|c| matches!(c.state, ContainerState::Created | ContainerState::Unknown));
                steps.extend(stale.map(|c| stop::remove_container(c)));
                let sandbox = sandbox.id.clone();
                steps.push(Step::StartContainer(StartContainer { container, sandbox, attempt, crashes }));
            }
        }
        // Somebody must be due before a sandbox is worth making.
        Footing::Missing { .. } if finished || needs.starts.is_empty() => {}
        Footing::Missing { attempt } => match sandbox::remaining(history, now) {
            Some(left) => {
                needs.wait(left);
                needs.wait_for_sandbox(pod, history);
            }
            None => {
                steps = stop::plan_release(observed, |_, _| true);
                steps.push(Step::CreateSandbox { attempt });
            }
        },
    }
    Plan { steps, wake_in: needs.wake_in, waiting: needs.waiting, init: passed }
}

impl Judge<'_> {
    /// Decides what one container needs; `found` are its containers in this instance, newest first.
    pub(super) fn need(&self, spec: &ContainerSpec, found: &[&Container], policy: RestartPolicy) -> Need {
        let Some(newest) = found.first() else { return self.start(spec, 0, 0) };
        let next = newest.attempt.saturating_add(1);
        let changed = self.pod.container_hashes.get(&spec.name).is_some_and(|hash| *hash != newest.hash);
        match &newest.state {
            ContainerState::Running { .. } if self.ready != Some(&newest.sandbox) => {
                // Its sandbox died: it is being stopped, and its successor counts on from it.
                if policy == RestartPolicy::Never { Need::Done } else { self.start(spec, next, 0) }
            }
            ContainerState::Running { .. } if changed => Need::Replace,
            ContainerState::Running { .. } => Need::Nothing,
            ContainerState::Created => self.start(spec, newest.attempt, newest.crashes),
            ContainerState::Unknown => self.start(spec, next, newest.crashes),
            ContainerState::Exited(_) if changed => self.start(spec, next, 0),
            ContainerState::Exited(exit) if !policy.restarts_after(exit) => Need::Done,
            ContainerState::Exited(exit) => {
                match self.crash_loop.remaining(newest.crashes, exit.finished_at, self.now) {
                    Some(left) => {
                        let delay = self.crash_loop.delay(newest.crashes);
                        Need::Wait(left, crash_loop_waiting(self.pod, spec, delay))
                    }
                    None => {
                        self.start(spec, next, self.crash_loop.crashes_after(newest.crashes, ran_for(exit)))
                    }
                }
            }
        }
    }

    /// Starts a container, unless earlier tries failed too recently.
    pub(super) fn start(&self, spec: &ContainerSpec, attempt: u32, crashes: u32) -> Need {
        let failure = self.history.starts.get(&spec.name);
        match failure.and_then(|failure| Some((failure.remaining(self.now)?, failure.waiting.clone()))) {
            Some((left, waiting)) => Need::Wait(left, waiting),
            None => Need::Start { attempt, crashes },
        }
    }
}

fn ran_for(exit: &Exit) -> Duration {
    exit.started_at
        .and_then(|started| Duration::try_from(exit.finished_at.duration_since(started)).ok())
        .unwrap_or_default()
}

fn crash_loop_waiting(pod: &Pod, spec: &ContainerSpec, delay: Duration) -> Waiting {
    Waiting {
        reason: "CrashLoopBackOff".into(),
        message: format!(
            "back-off {}s restarting failed container={} pod={}_{}({})",
            delay.as_secs(),
            spec.name,
            pod.name.name,
            pod.name.namespace,
            pod.uid
        ),
    }
}
