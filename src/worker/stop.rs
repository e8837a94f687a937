//! The ends of containers, and the hooks around them: begun here, and followed while the worker listens.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_lite::future;
use tracing::{info, warn};

use super::jobs::{JobKey, JobResult};
use super::{AfterPass, Worker};
use crate::plan::{Desired, MAX_RELEASES, StartHook, StopAction, StopContainer, Want};
use crate::pod::hook::Hook;
use crate::pod::observed::{Container, ContainerState, Observed};
use crate::pod::{ContainerId, ContainerRef, Pod, SandboxId};
use crate::runtime::StepError;
use crate::runtime::cri::ErrorClass;
use crate::runtime::handlers::hooks::POST_START_LIMIT;
use crate::status::events::EventType;
use crate::text::chain;

/// A sandbox that takes longer to stop is worth a line in the log.
const SLOW: Duration = Duration::from_secs(10);

impl Worker {
    /// Does the next thing about each container, without waiting for it.
    pub(super) fn stop_containers(&mut self, stops: &[StopContainer], desired: u64, observed: &Observed) {
        for stop in stops {
            let cut = matches!(stop.action, StopAction::End { .. }) && self.terminations.hook_runs(&stop.id);
            if cut {
                self.log_failed_hook(&stop.id, "not done within the grace period");
            }
            if !self.terminations.has_begun(&stop.id) {
                self.tell_killing(stop, observed);
            }
            self.terminations.note(stop, desired);
            let (runtime, id) = (self.context.runtime.clone(), stop.id.clone());
            match stop.action.clone() {
                StopAction::Wait => continue,
                StopAction::PreStop { hook, pod_ip, within } => {
                    info!(pod = %self.name, container = stop.name, id = %id, "running the preStop hook");
                    let (events, name) = (self.context.handles.telemetry.events.clone(), stop.name.clone());
                    let pod = self.instance.as_ref().map(|instance| instance.pod.clone());
                    self.jobs.start(JobKey::Container(stop.id.clone()), async move {
                        let done = runtime.run_hook(&id, &hook, pod_ip.as_deref(), within).await;
                        // Without the message, as in kubelet: what a server answers may be secret.
                        if let (Err(_), Some(pod)) = (&done, pod) {
                            let (kind, reason) = (EventType::Warning, "FailedPreStopHook");
                            events.note_container(kind, &pod, &name, reason, "PreStopHook failed");
                        }
                        JobResult::PreStop(done.err().map(|error| chain(&error)))
                    });
                }
                StopAction::End { grace, signal } => {
                    info!(pod = %self.name, container = stop.name, id = %id, grace, "stopping the container");
                    self.jobs.start(JobKey::Container(stop.id.clone()), async move {
                        JobResult::Ended(runtime.end_container(&id, grace, signal).await)
                    });
                }
            }
            // If it was starting, it is not any more.
            if self.start_hooks.get(&stop.id) == Some(&StartHook::Running) {
                self.start_hooks.remove(&stop.id);
            }
        }
    }

    /// Records that a container is killed, and logs why if it is for a fault of its own.
    fn tell_killing(&self, stop: &StopContainer, observed: &Observed) {
        let Some(instance) = &self.instance else { return };
        let found = instance.pod.containers().find(|(_, spec)| spec.name == stop.name);
        // It may be one of an instance before, which had another manifest.
        let which = found.map_or(ContainerRef::Main(0), |(which, _)| which);
        let own = observed.containers.iter().find(|container| container.id == stop.id);
        let of = (&self.name, own.map_or(&instance.pod.uid, |container| &container.uid));
        let events = &self.context.handles.telemetry.events;
        match stop.why.message(&stop.name) {
            Some(message) => events.record(EventType::Normal, of, (which, &stop.name), "Killing", &message),
            None => {
                let message = format!("Stopping container {}", stop.name);
                events.note(EventType::Normal, of, Some((which, &stop.name)), "Killing", &message);
            }
        }
    }

    /// Begins to replace the sandboxes of the wanted instance that somebody wants replaced. What runs in them ends with
    /// them.
    pub(super) fn replace_as_told(&mut self, desired: &Desired, observed: &Observed) {
        let Want::Run(pod) = &desired.want else { return };
        let checkpoint = &mut self.checkpoint.current;
        if checkpoint.has_completed(pod) {
            return;
        }
        for sandbox in observed.sandboxes.iter().filter(|sandbox| sandbox.is_of(pod)) {
            if desired.restarts.contains(&ContainerId(sandbox.id.0.clone()))
                && checkpoint.terminating_sandboxes.insert(sandbox.id.clone())
            {
                info!(pod = %self.name, sandbox = %sandbox.id, "the pod is replaced, as it was told");
            }
        }
    }

    /// Stops a sandbox. A network that takes its time to be released is named long before the call's deadline.
    pub(super) async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), StepError> {
        let late = async {
            self.context.handles.clock.sleep(SLOW).await;
            warn!(pod = %self.name, sandbox = %id, after = ?SLOW, "StopPodSandbox has not answered; the pod's network may hang");
            future::pending().await
        };
        future::or(self.context.runtime.stop_sandbox(id), late).await
    }

    /// Notes whether the network of a dead sandbox was released; true when its successor waits for it no longer.
    pub(super) fn note_release(
        &mut self,
        id: &SandboxId,
        observed: &Observed,
        stopped: &Result<(), StepError>,
    ) -> bool {
        let Some(instance) = self.instance.as_mut() else { return false };
        let unreleased = &mut instance.history.unreleased;
        unreleased.retain(|known, _| observed.sandboxes.iter().any(|s| s.id == *known));
        let is_dead = observed.sandboxes.iter().any(|s| s.id == *id && !s.ready);
        let error = match stopped {
            Err(StepError::Cri(error)) if is_dead && !error.is_away() => error,
            Err(_) => return false,
            Ok(()) => {
                unreleased.remove(id);
                return false;
            }
        };
        let failures = unreleased.entry(id.clone()).or_default();
        let before = *failures;
        // A call that was given all its time need not be given it once more.
        let more = if error.class == ErrorClass::Timeout { MAX_RELEASES } else { 1 };
        *failures = before.saturating_add(more);
        let gives_up = before < MAX_RELEASES && *failures >= MAX_RELEASES && instance.wanted;
        if gives_up {
            warn!(pod = %self.name, sandbox = %id, %error, "cannot release the network of a dead sandbox; its successor waits no longer");
        }
        gives_up
    }

    /// Runs the postStart hook of a container that was just started.
    pub(super) fn run_start_hook(
        &mut self,
        pod: &Arc<Pod>,
        container: &str,
        hook: Hook,
        id: ContainerId,
        pod_ip: Option<String>,
    ) {
        self.start_hooks.insert(id.clone(), StartHook::Running);
        let (runtime, pod, container) = (self.context.runtime.clone(), pod.clone(), container.to_owned());
        let events = self.context.handles.telemetry.events.clone();
        self.jobs.start(JobKey::Container(id.clone()), async move {
            let done = runtime.run_hook(&id, &hook, pod_ip.as_deref(), POST_START_LIMIT).await;
            if done.is_err() {
                let (kind, reason) = (EventType::Warning, "FailedPostStartHook");
                events.note_container(kind, &pod, &container, reason, "PostStartHook failed");
            }
            let failed =
                done.err().map(|error| hook.failure(&container, &pod.name, &pod.uid, &chain(&error)));
            JobResult::PostStart(failed)
        });
    }

    /// Notes which jobs have finished since the last pass; returns the containers that the runtime said it ended.
    ///
    /// # Errors
    /// When a container could not be ended, or the runtime is away.
    pub(super) async fn take_finished_jobs(&mut self) -> Result<BTreeSet<ContainerId>, AfterPass> {
        let mut ended = BTreeSet::new();
        let (mut failed, mut away) = (None, None);
        for (key, result) in self.jobs.take_finished().await {
            let (id, result) = match (key, result) {
                (JobKey::Future(name), JobResult::Pulled(pulled)) => {
                    away = self.pull_finished(name, pulled).await.err().or(away);
                    continue;
                }
                (JobKey::Container(id), result) => (id, result),
                // Nothing else is done for a container that is still to be created.
                (JobKey::Future(_), _) => continue,
            };
            match result {
                JobResult::Pulled(_) => {}
                JobResult::PostStart(None) => {
                    self.start_hooks.remove(&id);
                }
                JobResult::PostStart(Some(message)) => {
                    warn!(pod = %self.name, %id, reason = "FailedPostStartHook", message, "killing the container");
                    self.start_hooks.insert(id, StartHook::Failed(message));
                }
                JobResult::PreStop(error) => {
                    if let Some(error) = error {
                        self.log_failed_hook(&id, &error);
                    }
                    self.terminations.hook_is_over(&id);
                }
                JobResult::Ended(result) => {
                    self.terminations.call_is_over(&id);
                    match result {
                        Ok(()) => drop(ended.insert(id)),
                        Err(error) => failed = Some(error),
                    }
                }
            }
        }
        match (failed, away) {
            (Some(error), _) => Err(self.retry_later("stop a container", &error)),
            (None, Some(next)) => Err(next),
            (None, None) => Ok(ended),
        }
    }

    fn log_failed_hook(&self, id: &ContainerId, error: &str) {
        warn!(pod = %self.name, %id, reason = "FailedPreStopHook", error, "the preStop hook failed; the container is stopped all the same");
    }

    /// Forgets hooks and ends of containers that are not alive any more. What the runtime said it `ended` is not.
    ///
    /// # Errors
    /// When the runtime said so, and it is not so.
    pub(super) fn forget_dead(
        &mut self,
        observed: &Observed,
        ended: &BTreeSet<ContainerId>,
    ) -> Result<(), AfterPass> {
        let is = |id: &ContainerId, state: fn(&Container) -> bool| {
            observed.containers.iter().any(|c| c.id == *id && state(c))
        };
        self.terminations.retain(|id| is(id, Container::is_alive));
        self.jobs.retain(|key| match key {
            JobKey::Container(id) => is(id, Container::is_alive),
            JobKey::Future(_) => true,
        });
        self.start_hooks.retain(|id, _| is(id, |c| matches!(c.state, ContainerState::Running { .. })));
        if ended.iter().any(|id| is(id, Container::is_alive)) {
            return Err(self.retry_later("stop a container", &StepError::NoEffect));
        }
        Ok(())
    }
}
