//! Probes: whether containers have started, can do their work, and are to be restarted.
//!
//! Owns one task, which sleeps until the next probe is due, and the results. A worker says which probes its pod has and
//! reads what they found; a changed verdict is told to the sync loop as a hint to look. Invariant: a probe that hangs
//! ends at its deadline and delays no other; between two runs a probe costs its entry in the [`Schedule`] and no task.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use async_channel::{Receiver, Sender};
use futures_lite::future;
use jiff::Timestamp;
use smol::Timer;
use tracing::info;

use super::news::{Notice, notice};
use crate::pod::{PodName, PodUid};
use crate::probe::schedule::{Job, Moment, Ran, Report, Roster, Schedule};
use crate::probe::target::{Target, Verdicts};
use crate::probe::threshold::{self, Change, Outcome};
use crate::runtime::Runtime;
use crate::status::metrics::ProbeSeries;
use crate::sync::message::Event;

/// The probes of the node. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Prober(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    runtime: Arc<Runtime>,
    /// Who is told of changed verdicts.
    events: Sender<Event>,
    schedule: Mutex<Schedule>,
    /// Rings when something may be due sooner than it was.
    bell: (Sender<()>, Receiver<()>),
    born: Instant,
}

impl Prober {
    /// A prober without probes.
    pub(crate) fn new(runtime: Arc<Runtime>, events: Sender<Event>) -> Self {
        let schedule = Mutex::new(Schedule::new(Timestamp::now()));
        let bell = async_channel::bounded(1);
        Self(Arc::new(Shared { runtime, events, schedule, bell, born: Instant::now() }))
    }

    /// These are the probes of a pod's instance from now on; returns what they have found so far.
    pub(crate) fn watch(&self, pod: &PodName, uid: &PodUid, targets: Vec<Target>) -> Verdicts {
        let (roster, verdicts) = {
            let mut schedule = self.schedule();
            let roster = schedule.watch(pod, uid, targets, self.moment(), fastrand::f64);
            (roster, schedule.verdicts(pod))
        };
        if roster == Roster::Changed {
            self.0.runtime.metrics.keep_probes(pod, Some(uid));
        }
        self.ring();
        verdicts
    }

    /// The pod has no probes any more.
    pub(crate) fn forget(&self, pod: &PodName) {
        self.schedule().forget(pod);
        self.0.runtime.metrics.keep_probes(pod, None);
    }

    /// What is known of every probe.
    pub(crate) fn reports(&self) -> Vec<Report> {
        self.schedule().reports()
    }

    /// Runs what is due, for as long as the agent lives.
    pub(crate) async fn run(self) {
        loop {
            let due = self.schedule().take_due(self.moment().uptime);
            for job in due {
                let prober = self.clone();
                self.0.runtime.executor.spawn(async move { prober.run_one(job).await }).detach();
            }
            let next = self.schedule().next_due();
            let due = async {
                match next {
                    Some(due) => drop(Timer::after(due.saturating_sub(self.moment().uptime)).await),
                    None => future::pending().await,
                }
            };
            let rung = async {
                // We hold a sender ourselves: the bell is never closed.
                let _ = self.0.bell.1.recv().await;
            };
            future::or(rung, due).await;
        }
    }

    async fn run_one(&self, job: Job) {
        let (begun, runtime) = (Instant::now(), &self.0.runtime);
        let ran = runtime.run_check(&job.key.id, &job.spec.check, &job.place, job.spec.timeout).await;
        self.tell(&job, ran, begun.elapsed()).await;
        self.ring();
    }

    /// Notes a result, and tells whom it concerns.
    async fn tell(&self, job: &Job, ran: Ran, took: Duration) {
        let (result, output) = (ran.result, ran.output.clone());
        let noted = self.schedule().note(&job.key, ran, self.moment());
        let Some(noted) = noted else { return };
        let (kind, pod, container) = (job.key.kind.as_str(), &job.key.pod, &job.container);
        let series =
            ProbeSeries { pod: pod.clone(), uid: job.uid.clone(), container: container.clone(), kind };
        self.0.runtime.metrics.observe_probe(series, result, took);
        if let Some(Notice { event, reason, message }) = notice(job.key.kind, result, noted.news, &output) {
            self.0.runtime.events.record(event, (pod, &job.uid), container, reason, &message);
        }
        if let Change::Verdict(verdict) = noted.verdict {
            info!(%pod, container, probe = kind, ?verdict, "verdict of a probe");
            // That a container lives changes nothing.
            if (job.key.kind, verdict) != (threshold::Kind::Liveness, Outcome::Success) {
                // The loop ends with the agent: then nobody is left to tell.
                let _ = self.0.events.send(Event::Probe(pod.clone())).await;
            }
        }
    }

    fn ring(&self) {
        // If it has rung already, it need not ring again.
        let _ = self.0.bell.0.try_send(());
    }

    fn moment(&self) -> Moment {
        Moment { uptime: self.0.born.elapsed(), now: Timestamp::now() }
    }

    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        // A poisoned lock still guards a whole schedule: nothing that changes it can fail halfway.
        self.0.schedule.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
