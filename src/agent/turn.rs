//! Turns the sync loop: events in, commands to the workers, the view published in between.

use std::sync::Arc;
use std::time::Instant;

use async_channel::Receiver;
use tracing::field::display;
use tracing::{info, warn};

use crate::pod::PodName;
use crate::pod::state::FailedReason;
use crate::status::Telemetry;
use crate::status::metrics::Metrics;
use crate::sync::message::Event;
use crate::sync::published::Published;
use crate::sync::sync_loop::{PodNotice, SyncLoop};
use crate::sync::view::{Outcome, Verdict, diff_verdicts};
use crate::worker::pool::WorkerPool;

/// Turns the loop until nobody can send any more.
pub(crate) async fn run_sync_loop(
    mut state: SyncLoop,
    events: Receiver<Event>,
    mut pool: WorkerPool,
    view: Published,
    telemetry: Telemetry,
) {
    let mut log = ChangeLog::default();
    while let Ok(event) = events.recv().await {
        let begun = Instant::now();
        let mut commands = state.handle(event);
        while let Ok(event) = events.try_recv() {
            commands.extend(state.handle(event));
        }
        log.note(&state, &telemetry.metrics);
        for PodNotice { pod, reason, message } in state.take_notices() {
            if reason == FailedReason::Preempting.as_str() {
                telemetry.metrics.pod_preempted();
            } else {
                telemetry.metrics.pod_rejected(&reason);
            }
            telemetry.events.warn_of_pod((&pod.name, &pod.uid), reason, &message);
        }
        // Published before it is acted upon: housekeeping relies on it.
        view.update(|view| state.show(view));
        commands.into_iter().for_each(|command| pool.apply(command));
        telemetry.metrics.observe_turn(begun.elapsed());
    }
}

/// What was logged about manifests and pods; logs only on change.
#[derive(Debug, Default)]
struct ChangeLog {
    left_alone: Vec<PodName>,
    refused: Vec<Verdict>,
    verdicts: Arc<[Verdict]>,
}

impl ChangeLog {
    fn note(&mut self, state: &SyncLoop, metrics: &Metrics) {
        let left_alone = state.left_alone();
        if !left_alone.iter().copied().eq(&self.left_alone) {
            self.left_alone = left_alone.into_iter().cloned().collect();
            let pods = self.left_alone.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            warn!(pods, "pods of a source that this agent was not given are left alone");
        }
        if state.refusals() != self.refused {
            let new = state.refusals().iter().filter(|verdict| !self.refused.contains(verdict));
            new.for_each(log_refusal);
            self.refused = state.refusals().to_vec();
        }
        if !Arc::ptr_eq(state.verdicts(), &self.verdicts) {
            note_verdicts(&self.verdicts, state.verdicts(), metrics);
            self.verdicts = state.verdicts().clone();
        }
    }
}

fn log_refusal(Verdict { source, origin, document, item, outcome }: &Verdict) {
    if let Outcome::Refused(refusal) = outcome {
        let (field, reason) = (&refusal.first.field, refusal.reason());
        warn!(%source, origin, document, item, field, reason, "manifest refused");
    }
}

/// Counts what is newly refused, and logs what only shows where sources meet; the rest each source logs itself.
fn note_verdicts(old: &[Verdict], new: &[Verdict], metrics: &Metrics) {
    for (before, Verdict { source, origin, document, item, outcome }) in diff_verdicts(old, new) {
        match (before, outcome) {
            (_, Outcome::Refused(_)) => metrics.manifest_refused(*source),
            (_, Outcome::Shadowed { subject, by }) => {
                let by = by.origin.as_deref().unwrap_or(by.source.as_str());
                let (pod, object) = (subject.pod().map(display), subject.object().map(display));
                warn!(%source, origin, document, item, pod, object, by, "manifest shadowed: its pod has another source");
            }
            (Some(Outcome::Shadowed { subject, .. }), _) => {
                let (pod, object) = (subject.pod().map(display), subject.object().map(display));
                info!(%source, origin, document, item, pod, object, "manifest no longer shadowed");
            }
            (_, Outcome::Accepted { .. } | Outcome::Unchanged { .. } | Outcome::Skipped { .. }) => {}
        }
    }
}
