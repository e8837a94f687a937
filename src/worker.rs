//! One task per pod name: it alone touches that name's sandboxes and containers.
//!
//! The mailbox holds one message, the newest whole desired state; any message makes the worker look. A pass observes,
//! plans and executes; after a failed step it observes and plans anew. At rest it waits for a message, for
//! the moment that the plan named, or for the end of a job: hooks, ends of containers and pulls run beside it, so
//! that it reacts to a newer desired state while they run. So it does while it waits for a sandbox or creates a container; other
//! calls to the runtime are awaited first.

pub(crate) mod checkpoints;
mod execute;
mod exits;
mod gate;
mod instance;
mod jobs;
mod mailbox;
mod objects;
mod observer;
pub(crate) mod pool;
mod probe_event;
pub(crate) mod prober;
mod probes;
mod pulls;
mod report;
mod start;
mod stop;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_lite::future;

use crate::plan::checkpoint::Checkpoint;
use crate::plan::{
    Desired, History, PodLifecycle, Situation, StartHook, Step, Terminations, Want, active_since, date_of,
    plan_pod,
};
use crate::pod::observed::Observed;
use crate::pod::{ContainerId, PodName, PodUid};
use crate::runtime::{PodRuntime, SandboxContext, StepError};
use crate::status::metrics::WorkerPass;
use crate::sync::handles::Handles;
use crate::sync::message::{Event, Report};
use crate::text::last_logged::LastLogged;
use crate::time::backoff::Backoff;
use crate::time::since::Since;
use checkpoints::Checkpoints;
use execute::StepFailures;
use exits::{Exits, tell_end};
use instance::Instance;
use jobs::Jobs;
use mailbox::Mailbox;
use observer::Observer;
use prober::Prober;
use report::CheckpointKeeper;

/// What workers work with. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// Shared by all tasks.
    pub(crate) handles: Handles,
    /// The runtime.
    pub(crate) runtime: Arc<dyn PodRuntime>,
    /// Where is kept what must outlive the agent.
    pub(crate) checkpoints: Arc<dyn Checkpoints>,
    /// Who runs the probes.
    pub(crate) prober: Prober,
    /// How crash loops wait.
    pub(crate) crash_loop: Backoff,
}

/// What follows a pass.
enum AfterPass {
    /// Look again at once.
    Again,
    /// Rest until told, or for this long.
    Rest(Option<Duration>),
}

/// Works for one pod name until the mailbox is closed; `checkpoint` is what an earlier agent left.
fn run_pod_worker(
    context: Arc<Context>,
    name: PodName,
    mailbox: Mailbox,
    checkpoint: Checkpoint,
) -> impl Future<Output = ()> + Send {
    let mut worker = Worker {
        jobs: Jobs::new(context.handles.executor.clone()),
        observer: Observer::new(context.runtime.clone()),
        context,
        name,
        mailbox,
        instance: None,
        terminations: Terminations::default(),
        start_hooks: BTreeMap::new(),
        exits: Exits::default(),
        uids_on_disk: checkpoint.instance.iter().map(|instance| instance.uid.clone()).collect(),
        checkpoint: CheckpointKeeper {
            written: checkpoint.clone(),
            current: checkpoint,
            failed_writes: 0,
            logged: LastLogged::default(),
        },
        failures: StepFailures::default(),
        last_steps: Vec::new(),
        sandbox_context: None,
    };
    // A block, not an async function: the future of a function keeps room for its arguments and for what they became.
    async move {
        let Some(mut desired) = worker.mailbox.next().await else { return };
        let (clock, telemetry) =
            (worker.context.handles.clock.clone(), worker.context.handles.telemetry.clone());
        let mut why = WorkerPass::Create;
        loop {
            let begun = clock.uptime();
            // Boxed: an idle worker must not hold the large future.
            let wait = match Box::pin(worker.pass(&desired)).await {
                AfterPass::Again => Some(Duration::ZERO),
                AfterPass::Rest(wait) => wait,
            };
            telemetry.metrics.observe_pass(why, clock.uptime().saturating_sub(begun));
            let told = match wait {
                Some(Duration::ZERO) => worker.mailbox.take(),
                wait => {
                    let Worker { mailbox, jobs, context, .. } = &mut worker;
                    let due = async {
                        match wait {
                            Some(wait) => context.handles.clock.sleep(wait).await,
                            None => future::pending().await,
                        }
                    };
                    let woken = async {
                        future::or(due, jobs.wait()).await;
                        Ok(None)
                    };
                    match future::or(mailbox.receive(), woken).await {
                        Ok(told) => told,
                        Err(mailbox::Closed) => return,
                    }
                }
            };
            why = if told.is_some() { WorkerPass::Update } else { WorkerPass::Sync };
            if let Some(told) = told {
                desired = told;
                worker.observer.discard_prediction();
            }
        }
    }
}

struct Worker {
    context: Arc<Context>,
    name: PodName,
    mailbox: Mailbox,
    observer: Observer,
    jobs: Jobs,
    /// The instance that is wanted, or was wanted last.
    instance: Option<Instance>,
    /// How far the ends of containers are, of every instance.
    terminations: Terminations,
    /// How far postStart hooks are.
    start_hooks: BTreeMap<ContainerId, StartHook>,
    /// When containers ended.
    exits: Exits,
    checkpoint: CheckpointKeeper,
    /// Instances that may have something on disk though the runtime holds nothing of them.
    uids_on_disk: BTreeSet<PodUid>,
    failures: StepFailures,
    /// The steps that were just carried out: to need them again at once is no progress.
    last_steps: Vec<Step>,
    /// How the runtime is told of the sandbox of this attempt; for the length of a pass.
    sandbox_context: Option<(u32, SandboxContext)>,
}

impl Worker {
    async fn pass(&mut self, desired: &Desired) -> AfterPass {
        self.sandbox_context = None;
        self.follow(&desired.want).await;
        self.follow_objects(desired).await;
        let want = &self.effective(&desired.want);
        let ended = match Box::pin(self.take_finished_jobs()).await {
            Ok(ended) => ended,
            Err(next) => return next,
        };
        if !ended.is_empty() {
            // A prediction does not know of ends.
            self.observer.discard_prediction();
        }
        let observed = match self.observer.observe(&self.name).await {
            Ok(observed) => observed,
            Err(error) => return self.retry_later("observe", &error.into()),
        };
        if self.mailbox.is_closed() {
            // Dismissed while it looked: what it sees may be the next worker's.
            return AfterPass::Rest(None);
        }
        self.checkpoint.current.forget_gone(&observed);
        if let Err(next) = self.forget_dead(&observed, &ended) {
            return next;
        }
        let clock = self.context.handles.clock.clone();
        let (now, uptime) = (clock.now(), clock.uptime());
        for container in self.exits.note(&observed, now, uptime) {
            let pod = self.instance.as_ref().map(|instance| &*instance.pod);
            tell_end(&self.context.handles.telemetry, &self.name, pod, container);
        }
        self.apply_objects(desired, &observed).await;
        self.replace_as_told(desired, &observed);
        let lacks = self.lacks();
        let gate = self.judge_gate(desired, &observed, uptime);
        let pod = self.instance.as_ref().map(|instance| instance.pod.clone());
        let own_grace = pod.and_then(|pod| pod.spec.termination_grace_period_seconds);
        self.terminations.shorten(desired.generation, want.grace().or(own_grace), uptime);
        let active = self.note_activity(&observed);
        let probes = self.watch_probes(want, &observed);
        let no_history = History::default();
        let mut plan = plan_pod(&Situation {
            want,
            observed: &observed,
            history: self.instance.as_ref().map_or(&no_history, |instance| &instance.history),
            gate: &gate,
            starts: &desired.starts,
            restarts: &desired.restarts,
            lacks: &lacks,
            checkpoint: &self.checkpoint.current,
            start_hooks: &self.start_hooks,
            probes: &probes,
            terminations: &self.terminations,
            exits: &self.exits.since,
            active_since: active,
            crash_loop: self.context.crash_loop,
            now,
            uptime,
        });
        if let (Some(failed), Some(instance)) = (plan.end.take(), &mut self.instance) {
            instance.end = Some(failed);
            return AfterPass::Again;
        }
        if plan.lifecycle == PodLifecycle::Completed {
            self.drop_pulls();
        }
        self.checkpoint.current.terminating_sandboxes.extend(plan.terminating.iter().cloned());
        self.checkpoint.current.killed_containers.extend(plan.killed.iter().cloned());
        self.report(want, desired.generation, &observed, &plan, &probes, now).await;
        if let Some(active) = active {
            self.checkpoint.current.note_began(|remembered| date_of(active, remembered, now, uptime));
        }
        self.write_checkpoint(&plan).await;
        let stuck = !plan.steps.is_empty() && plan.steps == self.last_steps;
        self.last_steps = Vec::new();
        if stuck {
            return self.retry_later("make progress", &StepError::NoEffect);
        }
        if plan.steps.is_empty() {
            if self.terminations.is_empty() {
                self.failures = StepFailures::default();
            }
            if want.is_stop() && observed.is_empty() {
                return Box::pin(self.finish(desired.generation)).await;
            }
            let waits = [plan.wake_in, self.checkpoint.retry_in(), self.objects_due()];
            return AfterPass::Rest(waits.into_iter().flatten().min());
        }
        self.observer.begin_steps();
        for step in &plan.steps {
            // A newer desired state makes the rest of this plan stale.
            if self.mailbox.has_other_than(desired) {
                return AfterPass::Again;
            }
            // Boxed, as the largest steps are in turn: of many pods at once, all but a few wait in here for a permit.
            if let Err(next) = Box::pin(self.execute(step, desired, &observed)).await {
                return next;
            }
        }
        if let [Step::StopContainers(_)] = plan.steps.as_slice() {
            return AfterPass::Rest(plan.wake_in);
        }
        self.observer.predict(observed, &plan).await;
        self.last_steps = plan.steps;
        AfterPass::Again
    }

    /// What is wanted, unless the instance is to end for a reason of its own.
    fn effective(&self, want: &Want) -> Want {
        let end = self.instance.as_ref().and_then(|instance| instance.end.clone());
        match (want, end) {
            (Want::Run(pod), Some(failed)) => Want::End { pod: pod.clone(), failed, grace: None },
            _ => want.clone(),
        }
    }

    /// Notes since when the wanted instance is at work, once it is.
    fn note_activity(&mut self, observed: &Observed) -> Option<Since> {
        let clock = &self.context.handles.clock;
        let instance = self.instance.as_mut().filter(|instance| instance.wanted)?;
        if instance.active_since.is_none() {
            let began = self.checkpoint.current.began(&instance.pod, observed);
            instance.active_since = began.map(|began| active_since(began, clock.now(), clock.uptime()));
        }
        instance.active_since
    }

    /// Follows what is wanted: another instance, or none, begins without the failures and back-offs of the last.
    async fn follow(&mut self, want: &Want) {
        let pod = want.pod();
        self.checkpoint.current.turn_to(pod.map(|pod| &**pod));
        match pod {
            Some(_) if self.instance.as_ref().is_some_and(|instance| instance.is_wanted_by(want)) => {}
            Some(pod) => {
                self.drop_pulls();
                self.check_annotations(pod);
                let state = self.checkpoint.current.of(pod).map(|last| last.state.clone());
                let uptime = self.context.handles.clock.uptime();
                let pulls = self.read_pulls(pod).await;
                self.instance = Some(Instance::new(pod.clone(), state, uptime).with_pulls(pulls));
            }
            None => {
                if self.instance.as_ref().is_some_and(|instance| instance.wanted) {
                    self.drop_pulls();
                    self.instance = self.instance.take().map(Instance::dismissed);
                }
            }
        }
    }

    async fn send(&self, report: Report) {
        self.context.handles.send(Event::Worker(report)).await;
    }
}
