//! The sync loop: one task, one inbox, no I/O.
//!
//! Owns the desired state and the table of workers. [`SyncLoop::handle`] turns one event into commands and
//! never waits for a pod, so that a recorded sequence of events can be replayed in a test.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_channel::Sender;
use k8s_openapi::api::core::v1::PodStatus;

use crate::plan::{Want, Wish};
use crate::pleg::PlegEvent;
use crate::pleg::diff::{Fingerprint, NodeList, Seen, diff_listed};
use crate::pod::{ContainerId, Pod, PodName, PodUid, Source};
use crate::pod_config::{PodConfig, PodUpdate, Snapshot};
use crate::pod_manager::PodManager;
use crate::view::{PodView, RuntimeState, Verdict, View};

/// What can happen.
#[derive(Debug)]
pub enum Event {
    /// A source spoke.
    Config(Snapshot),
    /// The runtime gave a hint.
    Pleg(PlegEvent),
    /// A worker reports.
    Worker(Report),
    /// Somebody asks whether the loop turns.
    Ping(Sender<()>),
}

/// What a worker has to say.
#[derive(Debug)]
pub enum Report {
    /// A container is about to start; its exit should lead here.
    Created {
        /// The worker's pod.
        pod: PodName,
        /// The container.
        container: ContainerId,
    },
    /// A pass ended.
    Synced {
        /// The worker's pod.
        pod: PodName,
        /// The wanted instance and its status; none while the wish is to stop.
        status: Option<(PodUid, Arc<PodStatus>)>,
        /// What was seen last.
        seen: Fingerprint,
        /// Its sandbox is up.
        running: bool,
    },
    /// The wish to stop is fulfilled, nothing is left.
    Gone {
        /// The worker's pod.
        pod: PodName,
        /// The wish to stop that was fulfilled.
        number: u64,
    },
}

/// What the loop wants done.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Tell the pod's worker the whole wish; start the worker if there is none.
    Tell(PodName, Wish),
    /// The pod's worker may end.
    Dismiss(PodName),
}

/// The state of the loop.
#[derive(Debug)]
pub struct SyncLoop {
    config: PodConfig,
    pods: PodManager,
    workers: BTreeMap<PodName, Worker>,
    listed: Option<NodeList>,
    runtime: RuntimeState,
    /// What became of every manifest, as of the last word of a source.
    verdicts: Arc<[Verdict]>,
    /// Wishes so far.
    wishes: u64,
}

/// What the loop knows of one worker.
#[derive(Debug)]
struct Worker {
    wish: Wish,
    /// The newest instance, for the view while it ends. Unknown for one that an earlier agent left.
    pod: Option<Arc<Pod>>,
    status: Option<Arc<PodStatus>>,
    seen: Fingerprint,
    running: bool,
}

impl SyncLoop {
    /// A loop for an agent with these sources.
    pub fn new(sources: impl IntoIterator<Item = Source>) -> Self {
        Self {
            config: PodConfig::new(sources),
            pods: PodManager::default(),
            workers: BTreeMap::new(),
            listed: None,
            runtime: RuntimeState::Unknown,
            verdicts: Arc::default(),
            wishes: 0,
        }
    }

    /// Takes in one event and says what to do.
    pub fn handle(&mut self, event: Event) -> Vec<Command> {
        match event {
            Event::Config(snapshot) => self.on_config(snapshot),
            Event::Pleg(PlegEvent::Listed(list)) => self.on_listed(list),
            Event::Pleg(PlegEvent::Exited(id)) => self.on_exited(&id),
            Event::Pleg(PlegEvent::Down(reason)) => {
                self.runtime = RuntimeState::Down(reason);
                Vec::new()
            }
            Event::Worker(report) => self.on_report(report),
            Event::Ping(reply) => {
                // Whoever asked may have given up.
                let _ = reply.try_send(());
                Vec::new()
            }
        }
    }

    /// What the agent shows of itself now.
    pub fn view(&self) -> View {
        let pods = self.workers.iter().filter_map(|(name, worker)| {
            let pod = worker.pod.clone()?;
            let status = worker.status.clone().unwrap_or_else(|| Arc::new(pending()));
            Some((name.clone(), PodView { pod, status, running: worker.running }))
        });
        View {
            pods: pods.collect(),
            verdicts: self.verdicts.clone(),
            runtime: self.runtime.clone(),
            settled: self.listed.is_some() && self.config.all_settled(),
        }
    }

    fn on_config(&mut self, snapshot: Snapshot) -> Vec<Command> {
        let mut commands = Vec::new();
        for update in self.config.apply(snapshot) {
            self.pods.apply(&update);
            commands.push(match update {
                PodUpdate::Add(pod) | PodUpdate::Update(pod) => self.wish(pod.name.clone(), Want::Run(pod)),
                PodUpdate::Remove(name) => self.wish(name, Want::Stop),
            });
        }
        self.verdicts = self.config.verdicts().into();
        commands.extend(self.end_orphans());
        commands
    }

    fn on_listed(&mut self, list: NodeList) -> Vec<Command> {
        let back = !matches!(self.runtime, RuntimeState::Up);
        self.runtime = RuntimeState::Up;
        let differing = diff_listed(self.workers.iter().map(|(name, w)| (name, &w.seen)), &list);
        let look = |name: &PodName| back || differing.contains(name);
        let mut commands: Vec<_> = self
            .workers
            .iter()
            .filter(|(name, _)| look(name))
            .map(|(name, worker)| Command::Tell(name.clone(), worker.wish.clone()))
            .collect();
        self.listed = Some(list);
        commands.extend(self.end_orphans());
        commands
    }

    fn on_exited(&mut self, id: &ContainerId) -> Vec<Command> {
        let owner = self.workers.iter().find(|(_, worker)| worker.seen.contains_key(id.as_str()));
        owner.map(|(name, worker)| Command::Tell(name.clone(), worker.wish.clone())).into_iter().collect()
    }

    fn on_report(&mut self, report: Report) -> Vec<Command> {
        match report {
            Report::Created { pod, container } => {
                if let Some(worker) = self.workers.get_mut(&pod) {
                    worker.seen.insert(container.0, Seen::Alive);
                }
            }
            Report::Synced { pod, status, seen, running } => {
                if let Some(worker) = self.workers.get_mut(&pod) {
                    worker.seen = seen;
                    worker.running = running;
                    // A report on an earlier instance says nothing about the one that is wanted now.
                    if let Some((uid, status)) = status
                        && worker.pod.as_ref().is_some_and(|pod| pod.uid == uid)
                    {
                        worker.status = Some(status);
                    }
                }
            }
            Report::Gone { pod, number } => {
                // A wish that crossed the report keeps the worker, whatever it is.
                if self.workers.get(&pod).is_some_and(|worker| worker.wish.number == number) {
                    self.workers.remove(&pod);
                    if let Some(list) = &mut self.listed {
                        list.remove(&pod);
                    }
                    return vec![Command::Dismiss(pod)];
                }
            }
        }
        Vec::new()
    }

    /// Pods that run and are not wanted end, once their own source has said all that it holds. A pod that names
    /// no source was not made by a kubelet from a source of ours: it is left alone.
    fn end_orphans(&mut self) -> Vec<Command> {
        let Some(list) = &self.listed else { return Vec::new() };
        let orphans: Vec<_> = list
            .iter()
            .filter(|(name, listed)| {
                !self.workers.contains_key(name)
                    && self.pods.get(name).is_none()
                    && listed
                        .source
                        .is_some_and(|source| source != Source::Api && self.config.is_settled(source))
            })
            .map(|(name, _)| name.clone())
            .collect();
        orphans.into_iter().map(|name| self.wish(name, Want::Stop)).collect()
    }

    /// Pods of a source that this agent was not given: they run, and nobody looks after them.
    pub fn left_alone(&self) -> Vec<&PodName> {
        let listed = self.listed.iter().flatten();
        listed
            .filter(|(_, l)| l.source.is_some_and(|s| !self.config.expects(s)))
            .map(|(name, _)| name)
            .collect()
    }

    fn wish(&mut self, name: PodName, want: Want) -> Command {
        self.wishes += 1;
        let wish = Wish { number: self.wishes, want };
        let worker = self.workers.entry(name.clone()).or_insert_with(|| Worker {
            wish: wish.clone(),
            pod: None,
            status: None,
            seen: Fingerprint::new(),
            running: false,
        });
        worker.wish = wish.clone();
        if let Want::Run(pod) = &wish.want {
            worker.pod = Some(pod.clone());
            worker.status = None;
        }
        Command::Tell(name, wish)
    }
}

/// The status of a pod that no worker has looked at yet.
fn pending() -> PodStatus {
    PodStatus { phase: Some("Pending".into()), ..PodStatus::default() }
}
