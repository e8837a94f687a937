//! The containers of the wanted instance: which ones run, start, wait, or are done.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Container as ContainerSpec;

use super::deadline::{self, Deadline};
use super::needs::{ContainerNeed, Needs};
use super::round::Round;
use super::sandbox::{self, SandboxState};
use super::stop::{self, StopProgress};
use super::{
    Failed, History, Init, Plan, PodLifecycle, Situation, StartContainer, StartHook, Starts, Step, Waiting,
    init,
};
use crate::plan::order::Gate;
use crate::pod::observed::{Container, ContainerState, Observed};
use crate::pod::restart::{AfterExit, RestartPolicy, after_exit, outlives_sandbox, runs_once_per_sandbox};
use crate::pod::{ContainerId, ContainerRef, Pod, SandboxId, annotations};
use crate::probe::check::probe_of;
use crate::probe::target::Verdicts;
use crate::time::backoff::Backoff;
use crate::time::duration::format_duration;

/// What one pod's containers are judged by.
pub(super) struct ContainerJudge<'a> {
    pub(super) pod: &'a Pod,
    pub(super) observed: &'a Observed,
    pub(super) history: &'a History,
    pub(super) start_hooks: &'a BTreeMap<ContainerId, StartHook>,
    /// Those whose sandbox died under them, and those that are ended for a probe.
    pub(super) killed: &'a BTreeSet<ContainerId>,
    pub(super) probes: &'a Verdicts,
    pub(super) crash_loop: Backoff,
    pub(super) uptime: Duration,
    pub(super) situation: &'a Situation<'a>,
    /// The sandbox to run in, if there is one.
    pub(super) ready: Option<&'a SandboxId>,
    /// The round to be in.
    pub(super) round: Round<'a>,
}

/// How crash loops of a pod wait: an annotation of its own lowers the node's cap.
fn crash_loop(pod: &Pod, node: Backoff) -> Backoff {
    match annotations::duration(&pod.metadata, annotations::MAX_RESTART_BACKOFF) {
        Ok(Some(own)) if own < node.cap => Backoff::crash_loop(own),
        _ => node,
    }
}

/// Plans the wanted instance, when no other is alive.
pub(super) fn plan_run(pod: &Pod, situation: &Situation<'_>, others: &[SandboxId]) -> Plan {
    let &Situation { observed, history, start_hooks, probes, uptime, .. } = situation;
    let sandbox_state = sandbox::sandbox_state(pod, situation, others);
    let ready = match &sandbox_state {
        SandboxState::Ready(sandbox) => Some(&sandbox.id),
        _ => None,
    };
    let round = Round::of(pod, observed);
    let crash_loop = crash_loop(pod, situation.crash_loop);
    let killed = sandbox::killed(pod, situation, others);
    let judge = ContainerJudge {
        pod,
        observed,
        history,
        start_hooks,
        probes,
        killed: &killed,
        crash_loop,
        uptime,
        situation,
        ready,
        round,
    };
    let mut needs = Needs::default();
    let mains: Vec<_> = pod
        .spec
        .containers
        .iter()
        .enumerate()
        .map(|(place, spec)| {
            let found = observed.containers_of(pod, &spec.name);
            let need = judge.need(spec, &found);
            (ContainerRef::Main(place), spec, found, need)
        })
        .collect();
    let mut finished =
        mains.iter().all(|(.., need)| matches!(need, ContainerNeed::Done | ContainerNeed::Spent { .. }));
    let mut passed = Init::Passed;
    if !finished {
        passed = init::plan_init(&judge, &mut needs);
        finished = passed == Init::Failed;
        if passed == Init::Passed {
            let (mut starting, mut pulling) = (false, false);
            for (which, spec, found, need) in mains {
                let need = judge.go_on(spec, need);
                starting |= matches!(need, ContainerNeed::Starting);
                pulling |= matches!(need, ContainerNeed::Pulling(_));
                // The turn of those that follow comes when the hook is done; the first turn of all, when the image is
                // there too. To be restarted takes no turn.
                let waits = starting || pulling && found.is_empty();
                if !(waits && matches!(need, ContainerNeed::Start { .. })) {
                    needs.note(which, &spec.name, found, need);
                }
            }
        }
    }
    if situation.checkpoint.has_completed(pod) {
        // Whatever became of its traces.
        (finished, needs) = (true, Needs::default());
        if passed == Init::Pending {
            // Only one that failed completes here; the sidecars before it have ended since.
            passed = Init::Failed;
        }
    } else if let Some((left, waiting)) = judge.round.remaining(crash_loop, situation) {
        needs = Needs::default();
        needs.wait(left);
        needs.waiting = pod.containers().map(|(_, spec)| (spec.name.clone(), waiting.clone())).collect();
    }
    if let Some(failed) = situation.checkpoint.failed(pod) {
        return plan_end(pod, situation, failed);
    }
    match deadline::judge(pod, situation, finished) {
        Deadline::None => {}
        Deadline::In(left) => needs.wait(left),
        Deadline::Passed => return Plan { end: Some(deadline::exceeded()), ..Plan::default() },
    }

    let refused = situation.starts.waiting();
    if let Some(waiting) = &refused {
        needs.refuse_starts(pod, observed, waiting);
    }
    // A round is not ended for one that cannot begin.
    let round_ends =
        ready.filter(|_| refused.is_none()).and_then(|sandbox| judge.round.plan_end(pod, situation, sandbox));
    // What still runs in a dead sandbox has no exit code yet to judge it by.
    let settled = !matches!(sandbox_state, SandboxState::StopFirst(_));
    let mut steps = Vec::new();
    let mut held_up = situation.starts.not_admitted();
    let mut go_on = |needs: &mut Needs<'_>, stopping: stop::Stopping| {
        steps.extend(stopping.steps);
        stopping.wake_in.into_iter().for_each(|left| needs.wait(left));
    };
    match sandbox_state {
        SandboxState::StopFirst(stopping) => go_on(&mut needs, stopping),
        SandboxState::Ready(sandbox) if finished => {
            // Only sidecars can be left.
            if let StopProgress::Busy(stopping) = stop::plan_stop_living(situation, |id, _| *id == sandbox.id)
            {
                go_on(&mut needs, stopping);
            }
        }
        SandboxState::Ready(_) if let Some(stopping) = round_ends => go_on(&mut needs, stopping),
        SandboxState::Ready(sandbox) => {
            if !needs.stops.is_empty() {
                let stopping = stop::plan_stops(situation, &needs.stops);
                go_on(&mut needs, stopping);
            }
            for (container, found, attempt, crashes) in std::mem::take(&mut needs.starts) {
                // Until it succeeds, what failed last is what is known.
                if let Some(spec) = pod.container(container)
                    && let Some(waiting) = history.waiting(&spec.name, uptime)
                {
                    needs.waiting.insert(spec.name.clone(), waiting);
                }
                // A container that was made and never started holds the name of this attempt.
                let stale = found
                    .iter()
                    .filter(|c| matches!(c.state, ContainerState::Created | ContainerState::Unknown));
                steps.extend(stale.map(|c| stop::remove_container(c)));
                let (sandbox, round) = (sandbox.id.clone(), judge.round.number);
                let start = StartContainer { container, sandbox, attempt, crashes, round };
                steps.push(Step::StartContainer(start));
                // The next one waits until this one has started, its hook included.
                if pod.container(container).is_some_and(has_start_hook) {
                    break;
                }
            }
        }
        // Somebody must be due before a sandbox is worth making.
        SandboxState::Missing { .. } if finished || needs.starts.is_empty() && !needs.pulls => {}
        SandboxState::Missing { attempt } => match situation.gate {
            Gate::Shut { unmet, left } => needs.wait_for_pods(pod, observed, unmet, *left),
            Gate::Open(_) if let Some(waiting) = &situation.lacks.volumes => {
                held_up = Some(waiting.clone());
                needs.wait_for_volumes(pod, waiting);
            }
            Gate::Open(_) => {
                // Also while it is tried once more.
                held_up = needs.wait_for_sandbox(pod, history);
                match sandbox::remaining(history, uptime) {
                    Some(left) => needs.wait(left),
                    None => {
                        steps = stop::plan_release(observed, |id, _| sandbox::holds_back(history, id));
                        let images = needs.starts.iter().map(|(which, ..)| *which).collect();
                        steps.push(Step::CreateSandbox { attempt, images });
                    }
                }
            }
        },
    }
    let lifecycle = if finished && settled { PodLifecycle::Completed } else { PodLifecycle::Active };
    let Needs { wake_in, waiting, .. } = needs;
    Plan { steps, wake_in, waiting, sandbox: held_up, init: passed, lifecycle, killed, ..Plan::default() }
}

/// Ends an instance before it is done. It counts as failed when nothing of it lives any more.
pub(super) fn plan_end(pod: &Pod, situation: &Situation<'_>, failed: &Failed) -> Plan {
    match stop::plan_stop_living(situation, |_, uid| *uid == pod.uid) {
        StopProgress::Busy(stopping) => stopping.into(),
        StopProgress::Done => {
            Plan { failed: Some(failed.clone()), lifecycle: PodLifecycle::Completed, ..Plan::default() }
        }
    }
}

fn has_start_hook(spec: &ContainerSpec) -> bool {
    spec.lifecycle.as_ref().is_some_and(|lifecycle| lifecycle.post_start.is_some())
}

impl ContainerJudge<'_> {
    /// Decides what one container needs; `found` are its containers in this instance, newest first.
    pub(super) fn need(&self, spec: &ContainerSpec, found: &[&Container]) -> ContainerNeed {
        let next = self.next_attempt(spec);
        let Some(newest) = found.first() else { return self.start(spec, next, 0) };
        let changed = self.pod.container_hash(&spec.name).is_some_and(|hash| *hash != newest.hash)
            || self.situation.restarts.contains(&newest.id);
        let after = newest.exit().map(|exit| {
            let crashes = self.crash_loop.counted(newest.crashes, exit.ran_for());
            (exit, crashes, after_exit(&self.pod.spec, spec, exit.code))
        });
        if newest.round < self.round.number {
            // All containers start anew; only the one that asked for it is to blame.
            let crashes = match after {
                Some((_, crashes, AfterExit::RestartsAll)) => crashes.saturating_add(1),
                Some((_, crashes, _)) => crashes,
                None => newest.crashes,
            };
            return self.start(spec, next, crashes);
        }
        let outlives = outlives_sandbox(&self.pod.spec, spec);
        let was_killed = outlives && self.killed.contains(&newest.id);
        match (&newest.state, after) {
            (ContainerState::Running { .. }, _) if self.ready != Some(&newest.sandbox) => {
                // Its sandbox died: it is being stopped, and its successor counts on from it.
                if outlives { self.start(spec, next, 0) } else { ContainerNeed::Done }
            }
            (ContainerState::Running { .. }, _) if changed && *self.situation.starts == Starts::Allowed => {
                ContainerNeed::Replace
            }
            (ContainerState::Running { .. }, _) => match self.start_hooks.get(&newest.id) {
                None => self.need_by_probes(spec, newest),
                Some(StartHook::Running) => ContainerNeed::Starting,
                Some(StartHook::Failed(message)) => {
                    let (reason, message) = ("PostStartHookError".into(), message.clone());
                    ContainerNeed::Fail(Waiting { reason, message })
                }
            },
            (ContainerState::Created, _) => self.start(spec, newest.attempt, newest.crashes),
            (_, Some(_)) if changed => self.start(spec, next, 0),
            (_, Some((_, _, AfterExit::Stays))) if !was_killed => {
                let is_spent = self.is_spent(spec, newest);
                if is_spent {
                    ContainerNeed::Spent { attempt: next, crashes: newest.crashes }
                } else {
                    ContainerNeed::Done
                }
            }
            // The machine went down under it: that is no crash.
            (_, Some(_)) if newest.earlier_boot => self.start(spec, next, 0),
            (_, Some((exit, crashes, _))) => {
                match self.crash_loop.remaining(crashes, self.situation.since_exit(newest, exit)) {
                    Some(left) => {
                        let delay = self.crash_loop.delay(crashes);
                        ContainerNeed::Wait(left, crash_loop_waiting(self.pod, spec, delay))
                    }
                    None => self.start(spec, next, crashes.saturating_add(1)),
                }
            }
            (ContainerState::Unknown | ContainerState::Exited(_), None) => {
                self.start(spec, next, newest.crashes)
            }
        }
    }

    /// What a container needs whose pod is not finished.
    pub(super) fn go_on(&self, spec: &ContainerSpec, need: ContainerNeed) -> ContainerNeed {
        match need {
            ContainerNeed::Spent { attempt, crashes } => self.start(spec, attempt, crashes),
            need => need,
        }
    }

    /// A container ended for good, as far as its sandbox is concerned, which is not the one to run in any more.
    pub(super) fn is_spent(&self, spec: &ContainerSpec, ended: &Container) -> bool {
        self.ready != Some(&ended.sandbox) && runs_once_per_sandbox(&self.pod.spec, spec)
    }

    /// The number of the next container of a name.
    pub(super) fn next_attempt(&self, spec: &ContainerSpec) -> u32 {
        self.observed.next_attempt(&self.pod.uid, &spec.name)
    }

    /// What a container needs that runs as wanted, if it is well.
    fn need_by_probes(&self, spec: &ContainerSpec, container: &Container) -> ContainerNeed {
        match self.probes.failed(&container.id) {
            Some(probe) => ContainerNeed::Unhealthy {
                probe,
                policy: RestartPolicy::of(&self.pod.spec, spec),
                grace: probe_of(spec, probe).and_then(|probe| probe.termination_grace_period_seconds),
            },
            None if self.probes.has_started(&container.id) => ContainerNeed::Nothing,
            None => ContainerNeed::NotStarted,
        }
    }

    /// Starts a container, unless earlier tries failed too recently.
    pub(super) fn start(&self, spec: &ContainerSpec, attempt: u32, crashes: u32) -> ContainerNeed {
        if self.history.pulling.contains(&spec.name) {
            return ContainerNeed::Pulling(self.history.waiting(&spec.name, self.uptime));
        }
        if let Some(waiting) = self.situation.lacks.env.get(&spec.name) {
            return ContainerNeed::Lacks(waiting.clone());
        }
        let remaining = self.history.remaining(spec, self.uptime);
        match remaining.zip(self.history.waiting(&spec.name, self.uptime)) {
            Some((left, waiting)) => ContainerNeed::Wait(left, waiting),
            None => ContainerNeed::Start { attempt, crashes },
        }
    }
}

fn crash_loop_waiting(pod: &Pod, spec: &ContainerSpec, delay: Duration) -> Waiting {
    Waiting {
        reason: "CrashLoopBackOff".into(),
        message: format!(
            "back-off {} restarting failed container={} pod={}_{}({})",
            format_duration(delay),
            spec.name,
            pod.name.name,
            pod.name.namespace,
            pod.uid
        ),
    }
}
