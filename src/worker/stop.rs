//! The ends of containers, and the hooks around them: begun here, and followed while the worker listens.

use std::collections::BTreeSet;
use std::sync::Arc;

use tracing::{info, warn};

use super::errands::{Outcome, Whose};
use super::{Next, Worker};
use crate::plan::{Ask, StartHook, StopContainer};
use crate::pod::hook::Hook;
use crate::pod::observed::{Container, ContainerState, Observed};
use crate::pod::{ContainerId, Pod};
use crate::runtime::StepError;
use crate::runtime::hooks::POST_START_LIMIT;
use crate::status::events::EventType;
use crate::text::chain;

impl Worker {
    /// Does the next thing about each container, without waiting for it.
    pub(super) fn stop_containers(&mut self, stops: &[StopContainer], wish: u64) {
        for stop in stops {
            let cut = matches!(stop.ask, Ask::End { .. }) && self.endings.hook_runs(&stop.id);
            if cut {
                self.tell_of_hook(&stop.id, "not done within the grace period");
            }
            if let Some(message) = stop.why.message(&stop.name).filter(|_| !self.endings.has_begun(&stop.id))
                && let Some(pod) = &self.shown
            {
                let of = (&self.name, &pod.uid);
                self.context.runtime.events.record(EventType::Normal, of, &stop.name, "Killing", &message);
            }
            self.endings.note(stop, wish);
            let (runtime, id) = (self.context.runtime.clone(), stop.id.clone());
            match stop.ask.clone() {
                Ask::Wait => continue,
                Ask::PreStop { hook, pod_ip, within } => {
                    info!(pod = %self.name, container = stop.name, id = %id, "running the preStop hook");
                    self.errands.begin(Whose::Made(stop.id.clone()), async move {
                        let done = runtime.run_hook(&id, &hook, pod_ip.as_deref(), within).await;
                        Outcome::PreStop(done.err().map(|error| chain(&error)))
                    });
                }
                Ask::End { grace, signal } => {
                    info!(pod = %self.name, container = stop.name, id = %id, grace, "stopping the container");
                    self.errands.begin(Whose::Made(stop.id.clone()), async move {
                        Outcome::Ended(runtime.end_container(&id, grace, signal).await)
                    });
                }
            }
            // If it was starting, it is not any more.
            if self.start_hooks.get(&stop.id) == Some(&StartHook::Running) {
                self.start_hooks.remove(&stop.id);
            }
        }
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
        self.errands.begin(Whose::Made(id.clone()), async move {
            let done = runtime.run_hook(&id, &hook, pod_ip.as_deref(), POST_START_LIMIT).await;
            let failed =
                done.err().map(|error| hook.failure(&container, &pod.name, &pod.uid, &chain(&error)));
            Outcome::PostStart(failed)
        });
    }

    /// Notes what has come to its end since the last pass.
    ///
    /// # Errors
    /// When a container could not be ended, or the runtime is away.
    pub(super) async fn harvest(&mut self) -> Result<BTreeSet<ContainerId>, Next> {
        let mut ended = BTreeSet::new();
        let (mut failed, mut away) = (None, None);
        for (whose, outcome) in self.errands.harvest().await {
            let (id, outcome) = match (whose, outcome) {
                (Whose::ToBe(name), Outcome::Pulled(pulled)) => {
                    away = self.pull_is_over(name, pulled).await.err().or(away);
                    continue;
                }
                (Whose::Made(id), outcome) => (id, outcome),
                // Nothing else is done for a container to be.
                (Whose::ToBe(_), _) => continue,
            };
            match outcome {
                Outcome::Pulled(_) => {}
                Outcome::PostStart(None) => {
                    self.start_hooks.remove(&id);
                }
                Outcome::PostStart(Some(message)) => {
                    warn!(pod = %self.name, %id, reason = "FailedPostStartHook", message, "killing the container");
                    self.start_hooks.insert(id, StartHook::Failed(message));
                }
                Outcome::PreStop(error) => {
                    if let Some(error) = error {
                        self.tell_of_hook(&id, &error);
                    }
                    self.endings.hook_is_over(&id);
                }
                Outcome::Ended(outcome) => {
                    self.endings.call_is_over(&id);
                    match outcome {
                        Ok(()) => drop(ended.insert(id)),
                        Err(error) => failed = Some(error),
                    }
                }
            }
        }
        match (failed, away) {
            (Some(error), _) => Err(self.set_back("stop a container", &error)),
            (None, Some(next)) => Err(next),
            (None, None) => Ok(ended),
        }
    }

    fn tell_of_hook(&self, id: &ContainerId, error: &str) {
        warn!(pod = %self.name, %id, reason = "FailedPreStopHook", error, "the preStop hook failed; the end goes on");
    }

    /// Forgets hooks and ends of containers that are not alive any more. What the runtime said it `ended` is not.
    ///
    /// # Errors
    /// When the runtime said so, and it is not so.
    pub(super) fn forget_the_dead(
        &mut self,
        observed: &Observed,
        ended: &BTreeSet<ContainerId>,
    ) -> Result<(), Next> {
        let is = |id: &ContainerId, state: fn(&Container) -> bool| {
            observed.containers.iter().any(|c| c.id == *id && state(c))
        };
        self.endings.retain(|id| is(id, Container::is_alive));
        self.errands.retain(|whose| match whose {
            Whose::Made(id) => is(id, Container::is_alive),
            Whose::ToBe(_) => true,
        });
        self.start_hooks.retain(|id, _| is(id, |c| matches!(c.state, ContainerState::Running { .. })));
        if ended.iter().any(|id| is(id, Container::is_alive)) {
            return Err(self.set_back("stop a container", &StepError::NoEffect));
        }
        Ok(())
    }
}
