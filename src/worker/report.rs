//! What a pass has to tell: the state to the sync loop, and to the disk what must outlive the agent.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tracing::warn;

use super::Worker;
use super::instance::Instance;
use crate::plan::checkpoint::{Checkpoint, Life};
use crate::plan::{Plan, PodLifecycle, Want};
use crate::pod::observed::Observed;
use crate::pod::state::{Phase, PodState};
use crate::probe::target::Verdicts;
use crate::status::events::changes::state_events;
use crate::status::pod_state::pod_state;
use crate::sync::message::Report;
use crate::sync::node_list::fingerprint;
use crate::text::chain;
use crate::text::last_logged::LastLogged;
use crate::time::backoff::Backoff;

/// What must outlive the agent.
#[derive(Debug)]
pub(super) struct CheckpointKeeper {
    /// As it should be on disk.
    pub(super) current: Checkpoint,
    /// As it is on disk.
    pub(super) written: Checkpoint,
    /// Writes that failed in a row.
    pub(super) failed_writes: u32,
    /// The last error about writing it.
    pub(super) logged: LastLogged,
}

impl CheckpointKeeper {
    /// When to write again what could not be written.
    pub(super) fn retry_in(&self) -> Option<Duration> {
        (self.failed_writes > 0).then(|| Backoff::STEP.delay(self.failed_writes))
    }
}

impl Worker {
    /// Tells the sync loop what was seen, and notes it in the checkpoint.
    pub(super) async fn report(
        &mut self,
        want: &Want,
        generation: u64,
        observed: &Observed,
        plan: &Plan,
        probes: &Verdicts,
        now: Timestamp,
    ) {
        let mut running = false;
        let mut shown = None;
        // A pod that ends is shown as it is, until nothing is left of it.
        let is_gone = want.is_stop() && observed.is_empty();
        if let Some(instance) = self.instance.as_ref().filter(|_| !is_gone) {
            let pod = instance.pod.clone();
            let state = self.state_of(instance, observed, plan, probes, now);
            if let Some(pod) = want.pod() {
                let life =
                    if plan.lifecycle == PodLifecycle::Completed { Life::Completed } else { Life::Open };
                self.checkpoint.current.note(pod, life, state.clone());
            }
            let was_pending = instance.state.as_ref().is_some_and(|before| before.phase == Phase::Pending);
            if was_pending && state.phase == Phase::Running {
                let handles = &self.context.handles;
                let took = handles.clock.uptime().saturating_sub(instance.wanted_since);
                handles.telemetry.metrics.observe_pod_start(took);
            }
            for event in state_events(&pod, instance.state.as_deref(), &state) {
                match event.container {
                    Some(name) => self.note_of_container(event.kind, name, event.reason, &event.message),
                    None => self.note_of_pod(event.kind, event.reason, &event.message),
                }
            }
            self.instance.iter_mut().for_each(|instance| instance.state = Some(state.clone()));
            running = observed.sandboxes.iter().any(|s| s.is_of(&pod) && s.ready);
            shown = Some((pod, state));
        }
        self.send(Report::Synced {
            pod: self.name.clone(),
            state: shown,
            seen: fingerprint(observed),
            running,
            number: generation,
            instances: observed.sandboxes.iter().map(|s| (s.uid.clone(), s.hash.clone())).collect(),
        })
        .await;
    }

    fn state_of(
        &self,
        instance: &Instance,
        observed: &Observed,
        plan: &Plan,
        probes: &Verdicts,
        now: Timestamp,
    ) -> Arc<PodState> {
        let pod = &instance.pod;
        if let Some(standing) = self.checkpoint.current.standing(pod, observed) {
            return standing;
        }
        // What is being ended is no part of the instance that follows it.
        let nothing = Observed::default();
        let observed = if plan.lifecycle == PodLifecycle::TerminatesFirst { &nothing } else { observed };
        let node_ips = self.context.runtime.node_ips();
        Arc::new(pod_state(pod, observed, plan, probes, instance.state.as_deref(), &node_ips, now))
    }

    /// Writes what must outlive the agent. Pods matter more than checkpoints: without a disk they run all the same.
    pub(super) async fn write_checkpoint(&mut self, plan: &Plan) {
        let Some(durability) = self
            .checkpoint
            .current
            .durability(&self.checkpoint.written)
            .filter(|_| !self.checkpoint.current.is_empty())
        else {
            // What could not be written is no longer needed: nothing is left to try again.
            self.checkpoint.failed_writes = 0;
            return;
        };
        let goes_on = self.failures.count == 0;
        if goes_on && self.checkpoint.current.may_wait(&self.checkpoint.written, &plan.steps) {
            return;
        }
        match self.context.checkpoints.write(&self.name, &self.checkpoint.current, durability).await {
            Ok(()) => {
                self.checkpoint.written = self.checkpoint.current.clone();
                self.checkpoint.failed_writes = 0;
                self.checkpoint.logged.clear();
            }
            Err(error) => {
                self.checkpoint.failed_writes = self.checkpoint.failed_writes.saturating_add(1);
                let error = chain(&error);
                if self.checkpoint.logged.is_new(&error) {
                    warn!(pod = %self.name, error, "cannot write the checkpoint; trying again");
                }
            }
        }
    }
}
