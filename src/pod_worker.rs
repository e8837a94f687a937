//! One task per pod name: it alone touches that name's sandboxes and containers.
//!
//! The mailbox holds one message, the newest whole wish; any message makes the worker look. A pass observes,
//! plans and executes; after a failed step it observes and plans anew. At rest it waits for a message, or for
//! the moment that the plan named.

mod mailbox;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_channel::{Receiver, Sender};
use futures_lite::future;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodStatus;
use smol::Timer;
use tracing::{debug, info, warn};

use crate::backoff::Backoff;
use crate::metrics::ContainerType;
use crate::observed::Observed;
use crate::plan::{Failure, History, Plan, StartContainer, Step, Want, Wish, plan_pod};
use crate::pleg::diff::fingerprint;
use crate::pod::status::pod_status;
use crate::pod::{ConfigHash, ContainerRef, Pod, PodName, PodUid};
use crate::runtime::{Cache, Runtime, StartError, StepError, chain};
use crate::sync_loop::{Event, Report};
use mailbox::Mailbox;

/// How long to wait for a runtime that is away, unless its return is told sooner.
const AWAY: Duration = Duration::from_secs(5);

/// What a worker works with.
#[derive(Debug, Clone)]
pub struct Context {
    /// The runtime.
    pub runtime: Arc<Runtime>,
    /// Where reports go.
    pub reports: Sender<Event>,
    /// How crash loops wait.
    pub crash_loop: Backoff,
}

/// What follows a pass.
enum Next {
    /// Look again at once.
    Again,
    /// Rest until told, or for this long.
    Rest(Option<Duration>),
}

/// Works for one pod name until the mailbox is closed.
pub async fn run_pod_worker(context: Context, name: PodName, inbox: Receiver<Wish>) {
    let mut worker = Worker {
        context,
        name,
        mailbox: Mailbox::new(inbox),
        cache: Cache::default(),
        instance: None,
        history: History::default(),
        status: None,
        made: BTreeSet::new(),
        setback: Setback::default(),
        last: Vec::new(),
        ending: false,
    };
    let Some(mut wish) = worker.mailbox.next().await else { return };
    loop {
        let wait = match worker.pass(&wish).await {
            Next::Again => Some(Duration::ZERO),
            Next::Rest(wait) => wait,
        };
        let told = match wait {
            Some(Duration::ZERO) => worker.mailbox.take(),
            Some(wait) => {
                let due = async {
                    Timer::after(wait).await;
                    Ok(None)
                };
                match future::or(worker.mailbox.receive(), due).await {
                    Ok(told) => told,
                    Err(mailbox::Closed) => return,
                }
            }
            None => match worker.mailbox.next().await {
                Some(told) => Some(told),
                None => return,
            },
        };
        if let Some(told) = told {
            wish = told;
        }
    }
}

struct Worker {
    context: Context,
    name: PodName,
    mailbox: Mailbox,
    cache: Cache,
    /// The instance that history and status belong to.
    instance: Option<(PodUid, ConfigHash)>,
    history: History,
    status: Option<Arc<PodStatus>>,
    /// Instances that may have something on disk though the runtime holds nothing of them.
    made: BTreeSet<PodUid>,
    setback: Setback,
    /// The steps that were just carried out: to need them again at once is no progress.
    last: Vec<Step>,
    /// An end has begun and is to be finished: what it stopped did not complete by itself.
    ending: bool,
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
        self.turn_to(want);
        let observed = match self.context.runtime.observe_pod(&self.name, &mut self.cache).await {
            Ok(observed) => observed,
            Err(error) => return self.set_back("observe", &error.into()),
        };
        if self.mailbox.is_closed() {
            // Dismissed while it looked: what it sees may be the next worker's.
            return Next::Rest(None);
        }
        if self.ending && observed.is_empty() {
            self.ending = false;
        }
        let now = Timestamp::now();
        let first = if self.ending { &Want::Stop } else { want };
        let plan = plan_pod(first, &observed, &self.history, self.context.crash_loop, now);
        self.report(want, &observed, &plan, now).await;
        let stuck = !plan.steps.is_empty() && plan.steps == self.last;
        self.last.clear();
        if stuck {
            return self.set_back("make progress", &StepError::NoEffect);
        }
        if plan.steps.is_empty() {
            self.setback = Setback::default();
            if *want == Want::Stop && observed.is_empty() {
                return self.finish(wish.number).await;
            }
            return Next::Rest(plan.wake_in);
        }
        self.ending |= *want == Want::Stop;
        for step in &plan.steps {
            // A newer wish makes the rest of this plan stale.
            if self.mailbox.has_other_than(wish) {
                return Next::Again;
            }
            if let Err(next) = self.execute(step, wish, &observed).await {
                return next;
            }
        }
        self.last = plan.steps;
        Next::Again
    }

    /// A new instance starts with a clean slate: an edit, or a removal, resets every back-off.
    fn turn_to(&mut self, want: &Want) {
        let instance = match want {
            Want::Run(pod) => Some((pod.uid.clone(), pod.hash.clone())),
            Want::Stop => None,
        };
        if self.instance != instance {
            self.instance = instance;
            self.history = History::default();
            self.status = None;
        }
    }

    async fn execute(&mut self, step: &Step, wish: &Wish, observed: &Observed) -> Result<(), Next> {
        let runtime = self.context.runtime.clone();
        debug!(pod = %self.name, ?step, "executing");
        let outcome = match (step, &wish.want) {
            (Step::StopContainers(stops), _) => {
                info!(pod = %self.name, containers = stops.len(), "stopping containers");
                runtime.stop_containers(stops).await
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
            (Step::CreateSandbox { attempt }, Want::Run(pod)) => {
                return self.create_sandbox(pod, *attempt).await;
            }
            (Step::StartContainer(start), Want::Run(pod)) => {
                return self.start(pod, start, wish, observed).await;
            }
            // A plan to stop starts nothing.
            (Step::CreateSandbox { .. } | Step::StartContainer(_), Want::Stop) => Ok(()),
        };
        outcome.map_err(|error| self.set_back("clean up", &error))
    }

    async fn create_sandbox(&mut self, pod: &Arc<Pod>, attempt: u32) -> Result<(), Next> {
        self.made.insert(pod.uid.clone());
        self.context.runtime.metrics.pod_started();
        match self.context.runtime.create_sandbox(pod, attempt).await {
            Ok(id) => {
                info!(pod = %self.name, uid = %pod.uid, sandbox = %id, attempt, "sandbox is up");
                self.history.sandbox = None;
                Ok(())
            }
            Err(StartError::Away(error)) => Err(self.set_back("create the sandbox", &error.into())),
            Err(StartError::Refused { backoff, waiting }) => {
                let earlier = self.history.sandbox.as_ref();
                if earlier.is_none_or(|failure| failure.waiting != waiting) {
                    warn!(pod = %self.name, reason = waiting.reason, message = waiting.message, "cannot create the sandbox");
                }
                self.context.runtime.metrics.pod_start_failed();
                let failure = Failure::after(earlier, Timestamp::now(), backoff, waiting);
                self.history.sandbox = Some(failure);
                Err(Next::Again)
            }
        }
    }

    async fn start(
        &mut self,
        pod: &Arc<Pod>,
        start: &StartContainer,
        wish: &Wish,
        observed: &Observed,
    ) -> Result<(), Next> {
        let runtime = self.context.runtime.clone();
        // A plan names containers of the pod that it was made for.
        let Some(spec) = pod.container(start.container) else { return Err(Next::Again) };
        let kind = match start.container {
            ContainerRef::Init(_) => ContainerType::InitContainer,
            ContainerRef::Main(_) => ContainerType::Container,
        };
        let name = spec.name.clone();
        let Some(sandbox) = observed.sandboxes.iter().find(|s| s.id == start.sandbox) else {
            return Err(Next::Again);
        };
        let create = async { Some(runtime.create_container(pod, spec, start, sandbox).await) };
        // A pull may take very long; a newer wish need not wait for it.
        let interrupt = async {
            self.mailbox.other_than(wish).await;
            None
        };
        let Some(created) = future::or(create, interrupt).await else { return Err(Next::Again) };
        let started = match created {
            Ok(id) => {
                // Told before it starts, so that its exit finds its owner however soon it comes.
                self.send(Report::Created { pod: self.name.clone(), container: id.clone() }).await;
                runtime.start_container(pod, &name, start, &id).await.map(|()| id)
            }
            Err(error) => Err(error),
        };
        match started {
            Ok(id) => {
                info!(pod = %self.name, container = name, id = %id, attempt = start.attempt, "container is running");
                runtime.metrics.container_started(kind);
                self.history.starts.remove(&name);
                Ok(())
            }
            Err(StartError::Away(error)) => Err(self.set_back("start a container", &error.into())),
            Err(StartError::Refused { backoff, waiting }) => {
                let earlier = self.history.starts.get(&name);
                if earlier.is_none_or(|failure| failure.waiting != waiting) {
                    warn!(pod = %self.name, container = name, reason = waiting.reason, message = waiting.message, "cannot start the container");
                }
                runtime.metrics.container_start_failed(kind, error_code(&waiting.reason));
                let failure = Failure::after(earlier, Timestamp::now(), backoff, waiting);
                self.history.starts.insert(name, failure);
                // The others of the pod do not wait for this one.
                Ok(())
            }
        }
    }

    /// Nothing is left in the runtime; nothing shall be left on disk either.
    async fn finish(&mut self, number: u64) -> Next {
        for uid in self.made.clone() {
            if let Err(error) = self.context.runtime.remove_instance(&self.name, &uid).await {
                return self.set_back("clean up", &error);
            }
            self.made.remove(&uid);
        }
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

    async fn report(&mut self, want: &Want, observed: &Observed, plan: &Plan, now: Timestamp) {
        let mut running = false;
        if let Want::Run(pod) = want {
            let node_ips = &self.context.runtime.node_ips;
            let status = pod_status(pod, observed, plan, self.status.as_ref(), node_ips, now);
            self.status = Some(Arc::new(status));
            running = observed.sandboxes.iter().any(|s| s.uid == pod.uid && s.ready);
        }
        let status = match (want, &self.status) {
            (Want::Run(pod), Some(status)) => Some((pod.uid.clone(), status.clone())),
            _ => None,
        };
        self.send(Report::Synced { pod: self.name.clone(), status, seen: fingerprint(observed), running })
            .await;
    }

    async fn send(&self, report: Report) {
        // The loop ends with the agent: then nobody is left to tell.
        let _ = self.context.reports.send(Event::Worker(report)).await;
    }
}

/// The value of the metric's label `code`: kubelet's reasons are a closed set.
fn error_code(reason: &str) -> &'static str {
    match reason {
        "ErrImageNeverPull" => "ErrImageNeverPull",
        "ImagePullBackOff" => "ErrImagePull",
        "ImageInspectError" => "ImageInspectError",
        "CreateContainerConfigError" => "CreateContainerConfigError",
        "CreateContainerError" => "CreateContainerError",
        "RunContainerError" => "RunContainerError",
        _ => "Unknown",
    }
}
