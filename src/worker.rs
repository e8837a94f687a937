//! One task per pod name: it alone touches that name's sandboxes and containers.
//!
//! The mailbox holds one message, the newest whole wish; any message makes the worker look. A pass observes,
//! plans and executes; after a failed step it observes and plans anew. At rest it waits for a message, for
//! the moment that the plan named, or for the end of an errand: hooks, ends of containers and pulls go on beside it, so
//! that it hears a newer wish at once.

mod errands;
mod mailbox;
mod news;
pub(crate) mod prober;
mod probes;
mod pulls;
mod records;
mod report;
mod start;
mod stop;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_channel::{Receiver, Sender};
use futures_lite::future;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodStatus;
use smol::Timer;
use tracing::{debug, info, warn};

use crate::plan::checkpoint::Record;
use crate::plan::order::{self, Gate, Opened};
use crate::plan::{Activity, Endings, History, Outlook, Situation, StartHook, Step, Want, Wish, plan_pod};
use crate::pod::observed::Observed;
use crate::pod::{ConfigHash, ContainerId, Pod, PodName, PodUid, annotations};
use crate::runtime::{Cache, Made, Runtime, StepError};
use crate::sync::message::{Event, Report};
use crate::text::chain;
use crate::time::backoff::Backoff;
use errands::Errands;
use mailbox::Mailbox;
use prober::Prober;
pub(crate) use records::Records;

/// How long to wait for a runtime that is away, unless its return is told sooner.
const AWAY: Duration = Duration::from_secs(5);

/// What a worker works with.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// The runtime.
    pub runtime: Arc<Runtime>,
    /// Where reports go.
    pub reports: Sender<Event>,
    /// How crash loops wait.
    pub crash_loop: Backoff,
    /// Where is kept what must outlive the agent.
    pub records: Records,
    /// Who runs the probes.
    pub prober: Prober,
}

/// What follows a pass.
enum Next {
    /// Look again at once.
    Again,
    /// Rest until told, or for this long.
    Rest(Option<Duration>),
}

/// Works for one pod name until the mailbox is closed; `record` is what an earlier agent left.
pub(crate) async fn run_pod_worker(context: Context, name: PodName, inbox: Receiver<Wish>, record: Record) {
    let mut worker = Worker {
        errands: Errands::new(context.runtime.executor.clone()),
        endings: Endings::default(),
        start_hooks: BTreeMap::new(),
        pulled: BTreeMap::new(),
        born: Instant::now(),
        context,
        name,
        mailbox: Mailbox::new(inbox),
        cache: Cache::default(),
        sequel: None,
        just_made: Vec::new(),
        instance: None,
        history: History::default(),
        shown: None,
        gate: None,
        since: Instant::now(),
        activity: None,
        status: None,
        made: record.instance.iter().map(|instance| instance.uid.clone()).collect(),
        kept: record.clone(),
        record,
        unkept: String::new(),
        setback: Setback::default(),
        last: Vec::new(),
    };
    let Some(mut wish) = worker.mailbox.next().await else { return };
    loop {
        // Apart, so that a worker at rest does not keep the room that its busiest moment takes.
        let wait = match Box::pin(worker.pass(&wish)).await {
            Next::Again => Some(Duration::ZERO),
            Next::Rest(wait) => wait,
        };
        let told = match wait {
            Some(Duration::ZERO) => worker.mailbox.take(),
            wait => {
                let Worker { mailbox, errands, .. } = &mut worker;
                let due = async {
                    match wait {
                        Some(wait) => drop(Timer::after(wait).await),
                        None => future::pending().await,
                    }
                };
                let else_woken = async {
                    future::or(due, errands.rings()).await;
                    Ok(None)
                };
                match future::or(mailbox.receive(), else_woken).await {
                    Ok(told) => told,
                    Err(mailbox::Closed) => return,
                }
            }
        };
        if let Some(told) = told {
            wish = told;
            worker.sequel = None;
        }
    }
}

struct Worker {
    context: Context,
    name: PodName,
    mailbox: Mailbox,
    cache: Cache,
    /// What the next pass would see, if it is known.
    sequel: Option<Observed>,
    /// What the steps of this pass have made so far.
    just_made: Vec<Made>,
    /// The instance that history and gate belong to.
    instance: Option<(PodUid, ConfigHash)>,
    history: History,
    /// Whether it may start, as last judged.
    gate: Option<Gate>,
    /// When it was first wished for, on a clock that nobody sets.
    since: Instant,
    /// Since when it is at work, if it is.
    activity: Option<Activity>,
    /// The last instance that was wanted, and its status: both are shown until nothing is left of it.
    shown: Option<Arc<Pod>>,
    status: Option<Arc<PodStatus>>,
    record: Record,
    /// The record as it is on disk.
    kept: Record,
    /// What was said about a record that cannot be written.
    unkept: String,
    /// Instances that may have something on disk though the runtime holds nothing of them.
    made: BTreeSet<PodUid>,
    setback: Setback,
    /// The steps that were just carried out: to need them again at once is no progress.
    last: Vec<Step>,
    errands: Errands,
    /// How far the ends of containers are.
    endings: Endings,
    /// How far postStart hooks are.
    start_hooks: BTreeMap<ContainerId, StartHook>,
    /// Images that were pulled for containers to be, by container name.
    pulled: BTreeMap<String, String>,
    /// Where its own clock begins.
    born: Instant,
}

/// Failures in a row, other than those of starts.
#[derive(Debug, Default)]
struct Setback {
    count: u32,
    /// What was said about the last one.
    said: String,
}

impl Worker {
    async fn pass(&mut self, wish: &Wish) -> Next {
        let want = &wish.want;
        self.turn_to(want).await;
        let sequel = self.sequel.take();
        let ended = match self.harvest().await {
            Ok(ended) => ended,
            Err(next) => return next,
        };
        // What was foreseen does not know of ends.
        let observed = match sequel.filter(|_| ended.is_empty()) {
            Some(observed) => observed,
            None => match self.context.runtime.observe_pod(&self.name, &mut self.cache).await {
                Ok(observed) => observed,
                Err(error) => return self.set_back("observe", &error.into()),
            },
        };
        if self.mailbox.is_closed() {
            // Dismissed while it looked: what it sees may be the next worker's.
            return Next::Rest(None);
        }
        self.record.forget_gone(&observed);
        if let Err(next) = self.forget_the_dead(&observed, &ended) {
            return next;
        }
        let (now, uptime) = (Timestamp::now(), self.born.elapsed());
        let gate = self.judge_gate(wish, &observed);
        let grace = self.shown.as_ref().and_then(|pod| pod.spec.termination_grace_period_seconds);
        self.endings.heed(wish.number, grace, uptime);
        self.note_activity(want, &observed, now, uptime);
        let probes = self.watch_probes(want, &observed);
        let plan = plan_pod(&Situation {
            want,
            observed: &observed,
            history: &self.history,
            gate: &gate,
            record: &self.record,
            start_hooks: &self.start_hooks,
            probes: &probes,
            endings: &self.endings,
            activity: self.activity,
            crash_loop: self.context.crash_loop,
            now,
            uptime,
        });
        if plan.outlook == Outlook::Completed {
            self.forget_pulls();
        }
        self.record.ended.extend(plan.ends.iter().cloned());
        self.record.lost.extend(plan.lost.iter().cloned());
        self.report(want, &observed, &plan, &probes, now).await;
        if let Some(activity) = self.activity {
            self.record.note_began(|remembered| activity.began(remembered, now, uptime));
        }
        self.keep_record(&plan).await;
        let stuck = !plan.steps.is_empty() && plan.steps == self.last;
        self.last.clear();
        if stuck {
            return self.set_back("make progress", &StepError::NoEffect);
        }
        if plan.steps.is_empty() {
            if self.endings.is_empty() {
                self.setback = Setback::default();
            }
            if *want == Want::Stop && observed.is_empty() {
                return self.finish(wish.number).await;
            }
            return Next::Rest(plan.wake_in);
        }
        self.just_made.clear();
        for step in &plan.steps {
            // A newer wish makes the rest of this plan stale.
            if self.mailbox.has_other_than(wish) {
                return Next::Again;
            }
            if let Err(next) = self.execute(step, wish, &observed).await {
                return next;
            }
        }
        if let [Step::StopContainers(_)] = plan.steps.as_slice() {
            return Next::Rest(plan.wake_in);
        }
        self.foresee(observed, &plan).await;
        self.last = plan.steps;
        Next::Again
    }

    /// Notes since when the wanted instance is at work, once it is.
    fn note_activity(&mut self, want: &Want, observed: &Observed, now: Timestamp, uptime: Duration) {
        if let (Want::Run(pod), None) = (want, self.activity) {
            let began = self.record.began(pod, observed);
            self.activity = began.map(|began| Activity::new(began, now, uptime));
        }
    }

    /// A new instance starts with a clean slate: an edit, or a removal, resets every back-off.
    async fn turn_to(&mut self, want: &Want) {
        let pod = match want {
            Want::Run(pod) => Some(&**pod),
            Want::Stop => None,
        };
        self.record.turn_to(pod);
        let instance = pod.map(|pod| (pod.uid.clone(), pod.hash.clone()));
        if self.instance != instance {
            self.instance = instance;
            self.history = History::default();
            self.gate = None;
            self.since = Instant::now();
            self.activity = None;
            self.forget_pulls();
            if let Want::Run(pod) = want {
                self.shown = Some(pod.clone());
                self.status = self.record.of(pod).map(|last| last.status.clone());
                self.check_annotations(pod);
                self.history.pulls = self.recall_pulls(pod).await;
            }
        }
    }

    /// Says what a pod asks for in vain.
    fn check_annotations(&self, pod: &Pod) {
        let key = annotations::MAX_RESTART_BACKOFF;
        let asked = annotations::duration(&pod.metadata, key).ok().flatten();
        let cap = self.context.crash_loop.cap;
        if let Some(asked) = asked.filter(|asked| *asked > cap) {
            warn!(pod = %self.name, annotation = key, ?asked, ?cap, "a pod can only lower the node's cap");
        }
    }

    /// Whether the wanted instance may start; a change of mind is said once.
    fn judge_gate(&mut self, wish: &Wish, observed: &Observed) -> Gate {
        let Want::Run(pod) = &wish.want else { return Gate::Open(Opened::InOrder) };
        let gate = Gate::judge(self.gate.as_ref(), pod, observed, &wish.unmet, self.since.elapsed());
        match (&self.gate, &gate) {
            (Some(Gate::Shut { unmet: said, .. }), Gate::Shut { unmet, .. }) if said == unmet => {}
            (_, Gate::Shut { unmet, .. }) => {
                info!(pod = %self.name, after = order::in_words(unmet), "waiting for other pods");
            }
            (Some(Gate::Open(_)), Gate::Open(_)) | (_, Gate::Open(Opened::InOrder)) => {}
            (_, Gate::Open(Opened::Late(unmet))) => {
                warn!(pod = %self.name, after = order::in_words(unmet), "waited long enough for other pods; starting without them");
            }
        }
        self.gate = Some(gate.clone());
        gate
    }

    async fn execute(&mut self, step: &Step, wish: &Wish, observed: &Observed) -> Result<(), Next> {
        let runtime = self.context.runtime.clone();
        debug!(pod = %self.name, ?step, "executing");
        let outcome = match (step, &wish.want) {
            (Step::StopContainers(stops), _) => {
                self.stop_containers(stops, wish.number);
                Ok(())
            }
            (Step::StopSandbox(id), _) => runtime.cri.stop_pod_sandbox(id).await.map_err(StepError::from),
            (Step::RemoveContainer(container), _) => runtime.remove_container(&self.name, container).await,
            (Step::RemoveInstance(uid), _) => {
                let removed = runtime.remove_instance(&self.name, uid).await;
                if removed.is_ok() {
                    self.made.remove(uid);
                }
                removed
            }
            (Step::RemoveSandbox(id), _) => runtime.cri.remove_pod_sandbox(id).await.map_err(StepError::from),
            (Step::CreateSandbox { attempt, images }, Want::Run(pod)) => {
                return self.create_sandbox(pod, *attempt, images).await;
            }
            (Step::StartContainer(start), Want::Run(pod)) => {
                return self.start(pod, start, wish, observed).await;
            }
            // A plan to stop starts nothing.
            (Step::CreateSandbox { .. } | Step::StartContainer(_), Want::Stop) => Ok(()),
        };
        outcome.map_err(|error| self.set_back("clean up", &error))
    }

    /// Nothing is left in the runtime; nothing shall be left on disk either.
    async fn finish(&mut self, number: u64) -> Next {
        for uid in self.made.clone() {
            if let Err(error) = self.context.runtime.remove_instance(&self.name, &uid).await {
                return self.set_back("clean up", &error);
            }
            self.made.remove(&uid);
        }
        // The last thing to go: until then a new agent knows that the end has begun.
        if let Err(error) = self.context.records.remove(&self.name).await {
            return self.set_back("clean up", &error.into());
        }
        self.context.prober.forget(&self.name);
        self.kept = Record::default();
        info!(pod = %self.name, "pod is gone");
        self.send(Report::Gone { pod: self.name.clone(), number }).await;
        Next::Rest(None)
    }

    /// A step failed: look again after a while.
    fn set_back(&mut self, what: &str, error: &StepError) -> Next {
        if let StepError::Cri(cause) = error
            && cause.is_away()
        {
            // Said once for the whole node, by whoever watches the runtime.
            debug!(pod = %self.name, %error, "runtime is away");
            return Next::Rest(Some(AWAY));
        }
        let setback = &mut self.setback;
        setback.count = setback.count.saturating_add(1);
        let wait = Backoff::STEP.delay(setback.count);
        let error = chain(error);
        if setback.said != error {
            warn!(pod = %self.name, error, "cannot {what}; trying again");
            setback.said = error;
        }
        Next::Rest(Some(wait))
    }

    async fn send(&self, report: Report) {
        // The loop ends with the agent: then nobody is left to tell.
        let _ = self.context.reports.send(Event::Worker(report)).await;
    }
}
