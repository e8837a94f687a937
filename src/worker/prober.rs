//! Probes: whether containers have started, can do their work, and are to be restarted.
//!
//! Owns one task, which sleeps until the next probe is due, and the results. A worker says which probes its pod has and
//! reads what they found; a changed verdict is told to the sync loop as a hint to look. Invariant: a probe that hangs
//! ends at its deadline and delays no other; between two runs a probe costs its entry in the [`Schedule`] and no task.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_channel::{Receiver, Sender};
use futures_lite::future;
use tracing::info;

use super::probe_event::{ProbeEvent, probe_event};
use crate::pod::{PodName, PodUid};
use crate::probe::schedule::{DueProbe, Moment, ProbeReport, Ran, Roster, Schedule};
use crate::probe::target::{Target, Verdicts};
use crate::probe::threshold::{self, ProbeChange, ProbeOutcome};
use crate::runtime::ProbeRunner;
use crate::status::metrics::ProbeSeries;
use crate::sync::handles::Handles;
use crate::sync::message::Event;

/// The probes of the node. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Prober(Arc<ProberState>);

#[derive(Debug)]
struct ProberState {
    runner: Arc<dyn ProbeRunner>,
    handles: Handles,
    schedule: Mutex<Schedule>,
    /// Holds a message when something may be due sooner than it was.
    changed: (Sender<()>, Receiver<()>),
}

impl Prober {
    /// A prober without probes.
    pub(crate) fn new(runner: Arc<dyn ProbeRunner>, handles: Handles) -> Self {
        let schedule = Mutex::new(Schedule::new(handles.clock.now()));
        let changed = async_channel::bounded(1);
        Self(Arc::new(ProberState { runner, handles, schedule, changed }))
    }

    /// These are the probes of a pod's instance from now on; returns what they have found so far.
    pub(crate) fn watch(&self, pod: &PodName, uid: &PodUid, targets: Vec<Target>) -> Verdicts {
        let (roster, verdicts) = {
            let mut schedule = self.schedule();
            let roster = schedule.watch(pod, uid, targets, self.moment(), fastrand::f64);
            (roster, schedule.verdicts(pod))
        };
        if roster == Roster::Changed {
            self.0.handles.telemetry.metrics.keep_probes(pod, Some(uid));
        }
        self.wake();
        verdicts
    }

    /// The pod has no probes any more.
    pub(crate) fn forget(&self, pod: &PodName) {
        self.schedule().forget(pod);
        self.0.handles.telemetry.metrics.keep_probes(pod, None);
    }

    /// What is known of every probe.
    pub(crate) fn reports(&self) -> Vec<ProbeReport> {
        self.schedule().reports()
    }

    /// Runs what is due, for as long as the agent lives.
    pub(crate) async fn run(self) {
        loop {
            let due = self.schedule().take_due(self.moment().uptime);
            for job in due {
                let prober = self.clone();
                self.0.handles.spawn(async move { prober.run_one(job).await });
            }
            let next = self.schedule().next_due();
            let due = async {
                match next {
                    Some(due) => self.0.handles.clock.sleep(due.saturating_sub(self.moment().uptime)).await,
                    None => future::pending().await,
                }
            };
            let changed = async {
                // We hold a sender ourselves: the channel is never closed.
                let _ = self.0.changed.1.recv().await;
            };
            future::or(changed, due).await;
        }
    }

    async fn run_one(&self, job: DueProbe) {
        let begun = self.moment().uptime;
        let ran = self.0.runner.run_probe(&job.key, &job.spec.check, &job.host, job.spec.timeout).await;
        self.tell(&job, ran, self.moment().uptime.saturating_sub(begun)).await;
        self.wake();
    }

    /// Notes a result, and tells whom it concerns.
    async fn tell(&self, job: &DueProbe, ran: Ran, took: Duration) {
        let (result, output) = (ran.result, ran.output.clone());
        let noted = self.schedule().note(&job.key, ran, self.moment());
        let Some(noted) = noted else { return };
        let (kind, pod, container) = (job.key.kind.as_str(), &job.key.pod, &job.container);
        let series =
            ProbeSeries { pod: pod.clone(), uid: job.uid.clone(), container: container.clone(), kind };
        self.0.handles.telemetry.metrics.observe_probe(series, result, took);
        if let Some(ProbeEvent { event, reason, message }) =
            probe_event(job.key.kind, result, noted.news, &output)
        {
            let of = (job.which, container.as_str());
            self.0.handles.telemetry.events.record(event, (pod, &job.uid), of, reason, &message);
        }
        if let ProbeChange::Verdict(verdict) = noted.verdict {
            info!(%pod, container, probe = kind, ?verdict, "verdict of a probe");
            // That a container lives changes nothing.
            if (job.key.kind, verdict) != (threshold::Kind::Liveness, ProbeOutcome::Success) {
                self.0.handles.send(Event::Probe(pod.clone())).await;
            }
        }
    }

    /// Makes the task look for the next probe that is due.
    fn wake(&self) {
        // One message is enough for several changes.
        let _ = self.0.changed.0.try_send(());
    }

    fn moment(&self) -> Moment {
        Moment { uptime: self.0.handles.clock.uptime(), now: self.0.handles.clock.now() }
    }

    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        // A poisoned lock still guards a whole schedule: nothing that changes it can fail halfway.
        self.0.schedule.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
