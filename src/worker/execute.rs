//! Carries out the steps of a plan, and what follows when one fails.

use std::time::Duration;

use tracing::{debug, info, warn};

use super::{AfterPass, Worker};
use crate::plan::checkpoint::Checkpoint;
use crate::plan::{Desired, Step, Want};
use crate::pod::PodUid;
use crate::pod::observed::Observed;
use crate::runtime::StepError;
use crate::status::events::EventType;
use crate::sync::message::Report;
use crate::text::chain;
use crate::text::last_logged::LastLogged;
use crate::time::backoff::Backoff;

/// How long to wait for a runtime that is away, unless its return is told sooner.
const AWAY: Duration = Duration::from_secs(5);

/// Failed steps in a row, other than those of starts.
#[derive(Debug, Default)]
pub(super) struct StepFailures {
    pub(super) count: u32,
    logged: LastLogged,
}

impl Worker {
    /// Carries out one step; an error says what follows the pass instead.
    pub(super) async fn execute(
        &mut self,
        step: &Step,
        desired: &Desired,
        observed: &Observed,
    ) -> Result<(), AfterPass> {
        let runtime = self.context.runtime.clone();
        debug!(pod = %self.name, ?step, "executing");
        let done = match (step, &desired.want) {
            (Step::StopContainers(stops), _) => {
                self.stop_containers(stops, desired.generation, observed);
                Ok(())
            }
            (Step::StopSandbox(id), _) => {
                let stopped = self.stop_sandbox(id).await;
                if self.note_release(id, observed, &stopped) {
                    return Err(AfterPass::Again);
                }
                stopped
            }
            (Step::RemoveContainer(container), _) => runtime.remove_container(&self.name, container).await,
            (Step::RemoveInstance(uid), Want::Run(pod)) if pod.uid != *uid => {
                // No other step depends on what is left on the node: a mount that refuses to go holds up no successor, and
                // housekeeping tries again.
                match self.release_instance(uid).await {
                    Err(StepError::Resource(error)) => {
                        warn!(pod = %self.name, %uid, error = chain(&error), "cannot clean up; trying again later");
                        Ok(())
                    }
                    released => released,
                }
            }
            (Step::RemoveInstance(uid), _) => self.release_instance(uid).await,
            (Step::RemoveSandbox(id), _) => runtime.remove_sandbox(id).await,
            (Step::CreateSandbox { attempt, images }, Want::Run(pod)) => {
                return Box::pin(self.create_sandbox(pod, *attempt, images, desired)).await;
            }
            (Step::StartContainer(start), Want::Run(pod)) => {
                return Box::pin(self.start(pod, start, desired, observed)).await;
            }
            // A plan to stop starts nothing.
            (Step::CreateSandbox { .. } | Step::StartContainer(_), Want::End { .. } | Want::Stop { .. }) => {
                Ok(())
            }
        };
        done.map_err(|error| self.retry_later("clean up", &error))
    }

    async fn release_instance(&mut self, uid: &PodUid) -> Result<(), StepError> {
        self.context.runtime.release_instance(&self.name, uid).await?;
        self.uids_on_disk.remove(uid);
        if let Some(instance) = self.instance.as_mut().filter(|instance| instance.pod.uid == *uid) {
            instance.prepared = false;
        }
        Ok(())
    }

    /// Nothing is left in the runtime; nothing shall be left on disk either.
    pub(super) async fn finish(&mut self, number: u64) -> AfterPass {
        for uid in self.uids_on_disk.clone() {
            if let Err(error) = self.release_instance(&uid).await {
                return self.retry_later("clean up", &error);
            }
        }
        // The last thing to go: until then a new agent knows that the end has begun.
        if let Err(error) = self.context.checkpoints.remove(&self.name).await {
            return self.retry_later("clean up", &error.into());
        }
        self.context.prober.forget(&self.name);
        self.checkpoint.written = Checkpoint::default();
        info!(pod = %self.name, "pod is gone");
        self.send(Report::Gone { pod: self.name.clone(), number }).await;
        AfterPass::Rest(None)
    }

    /// Records, and does not log, what happened to the instance.
    pub(super) fn note_of_pod(&self, kind: EventType, reason: &str, message: &str) {
        if let Some(instance) = &self.instance {
            let of = (&self.name, &instance.pod.uid);
            self.context.handles.telemetry.events.note(kind, of, None, reason, message);
        }
    }

    /// Records, and does not log, what happened to a container of the instance.
    pub(super) fn note_of_container(&self, kind: EventType, name: &str, reason: &str, message: &str) {
        if let Some(instance) = &self.instance {
            self.context.handles.telemetry.events.note_container(kind, &instance.pod, name, reason, message);
        }
    }

    /// A step failed: look again after a while.
    pub(super) fn retry_later(&mut self, what: &str, error: &StepError) -> AfterPass {
        if let StepError::Cri(cause) = error
            && cause.is_away()
        {
            // Logged once for the whole node, by the task that watches the runtime.
            debug!(pod = %self.name, %error, "runtime is away");
            return AfterPass::Rest(Some(AWAY));
        }
        let failures = &mut self.failures;
        failures.count = failures.count.saturating_add(1);
        let wait = Backoff::STEP.delay(failures.count);
        let error = chain(error);
        if failures.logged.is_new(&error) {
            warn!(pod = %self.name, error, "cannot {what}; trying again");
            if matches!(what, "clean up" | "stop a container") {
                self.note_of_pod(EventType::Warning, "FailedKillPod", &format!("error killing pod: {error}"));
            }
        }
        AfterPass::Rest(Some(wait))
    }
}
