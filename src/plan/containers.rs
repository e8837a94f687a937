//! The containers of the wanted instance: which ones run, start, wait, or are done.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container as ContainerSpec;

use super::sandbox::{self, Footing};
use super::{History, Plan, StartContainer, Step, Waiting, stop};
use crate::backoff::Backoff;
use crate::observed::{Container, ContainerState, Exit, Observed};
use crate::pod::{Pod, SandboxId};

/// What one container needs.
enum Need {
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
enum RestartPolicy {
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

    fn restarts_after(self, exit: &Exit) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => exit.code != 0,
            Self::Never => false,
        }
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
    let mut plan = Plan::default();
    let footing = sandbox::footing(pod, observed, others);
    let policy = RestartPolicy::of(pod);
    let mut starts = Vec::new();
    let mut replaced = Vec::new();
    let mut unfinished = false;

    for (index, spec) in pod.spec.containers.iter().enumerate() {
        let found = observed.containers_of(&pod.uid, &spec.name);
        let need = match &footing {
            Footing::Ready(sandbox) => {
                need(pod, spec, &found, policy, history, crash_loop, now, Some(&sandbox.id))
            }
            _ => need(pod, spec, &found, policy, history, crash_loop, now, None),
        };
        unfinished |= !matches!(need, Need::Done);
        match need {
            Need::Nothing | Need::Done => {}
            Need::Wait(left, waiting) => {
                plan.wake_in = Some(plan.wake_in.map_or(left, |sooner| sooner.min(left)));
                plan.waiting.insert(spec.name.clone(), waiting);
            }
            Need::Start { attempt, crashes } => starts.push((index, found, attempt, crashes)),
            Need::Replace => {
                replaced.extend(found.first().map(|c| stop::stop_container(c)));
            }
        }
    }

    match footing {
        Footing::Unsettled(steps) => plan.steps = steps,
        Footing::Ready(sandbox) if !unfinished => plan.steps.push(Step::StopSandbox(sandbox.id.clone())),
        Footing::Ready(sandbox) => {
            if !replaced.is_empty() {
                plan.steps.push(Step::StopContainers(replaced));
            }
            for (index, found, attempt, crashes) in starts {
                // A container that was made and never started holds the name of this attempt.
                let stale = found
                    .iter()
                    .filter(|c| matches!(c.state, ContainerState::Created | ContainerState::Unknown));
                plan.steps.extend(stale.map(|c| stop::remove_container(c)));
                let sandbox = sandbox.id.clone();
                plan.steps.push(Step::StartContainer(StartContainer { index, sandbox, attempt, crashes }));
            }
        }
        // Somebody must be due before a sandbox is worth making.
        Footing::Missing { .. } if starts.is_empty() => {}
        Footing::Missing { attempt } => match sandbox::remaining(history, now) {
            Some(left) => plan.wake_in = Some(plan.wake_in.map_or(left, |sooner| sooner.min(left))),
            None => {
                plan.steps = stop::plan_release(observed, |_, _| true);
                plan.steps.push(Step::CreateSandbox { attempt });
            }
        },
    }
    plan
}

/// Decides what one container needs; `found` are its containers in this instance, newest first.
#[expect(clippy::too_many_arguments, reason = "the inputs of one pure decision")]
fn need(
    pod: &Pod,
    spec: &ContainerSpec,
    found: &[&Container],
    policy: RestartPolicy,
    history: &History,
    crash_loop: Backoff,
    now: Timestamp,
    ready: Option<&SandboxId>,
) -> Need {
    let start = |attempt, crashes| match history.starts.get(&spec.name) {
        Some(failure) => match failure.remaining(now) {
            Some(left) => Need::Wait(left, failure.waiting.clone()),
            None => Need::Start { attempt, crashes },
        },
        None => Need::Start { attempt, crashes },
    };
    let Some(newest) = found.first() else { return start(0, 0) };
    let changed = pod.container_hashes.get(&spec.name).is_some_and(|hash| *hash != newest.hash);
    match &newest.state {
        ContainerState::Running { .. } if ready != Some(&newest.sandbox) => {
            // Its sandbox died: it is being stopped, and its successor counts on from it.
            if policy == RestartPolicy::Never {
                Need::Done
            } else {
                start(newest.attempt.saturating_add(1), 0)
            }
        }
        ContainerState::Running { .. } if changed => Need::Replace,
        ContainerState::Running { .. } => Need::Nothing,
        ContainerState::Created => start(newest.attempt, newest.crashes),
        ContainerState::Unknown => start(newest.attempt.saturating_add(1), newest.crashes),
        ContainerState::Exited(_) if changed => start(newest.attempt.saturating_add(1), 0),
        ContainerState::Exited(exit) if !policy.restarts_after(exit) => Need::Done,
        ContainerState::Exited(exit) => match crash_loop.remaining(newest.crashes, exit.finished_at, now) {
            Some(left) => Need::Wait(left, crash_loop_waiting(pod, spec, crash_loop.delay(newest.crashes))),
            None => start(
                newest.attempt.saturating_add(1),
                crash_loop.crashes_after(newest.crashes, ran_for(exit)),
            ),
        },
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
