//! The sync loop: one task, one inbox, no I/O.
//!
//! Owns the desired state and the table of workers. [`SyncLoop::handle`] turns one event into commands and
//! never waits for a pod, so that a recorded sequence of events can be replayed in a test.

mod admit;
mod devices;
mod holds;
mod orders;
mod orphans;
mod review;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::admission::{NodeLimits, Requests};
use super::message::{Event, PlegEvent, Report};
use super::mux::{PodConfig, PodUpdate, Snapshot};
use super::node_list::{Fingerprint, NodeList, Seen, diff_listed, without_seen};
use super::view::{PodView, RuntimeState, Verdict, View};
use crate::plan::checkpoint::Remembered;
use crate::plan::{Desired, Starts, Want};
use crate::pod::device_assignment::DeviceHealth;
use crate::pod::object::references::references;
use crate::pod::object::{ObjectKey, PodObjects};
use crate::pod::priority::priority;
use crate::pod::state::PodState;
use crate::pod::{ContainerId, Pod, PodName, Source};
use admit::Placement;
use holds::{Holds, Told};

pub(crate) use admit::PodNotice;

/// What the loop wants done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Command {
    /// Tell the pod's worker the whole desired state; start the worker if there is none.
    Tell(PodName, Desired),
    /// The pod's worker may end.
    Dismiss(PodName),
}

/// The state of the loop.
#[derive(Debug)]
pub(crate) struct SyncLoop {
    config: PodConfig,
    workers: BTreeMap<PodName, WorkerEntry>,
    /// Pods whose start waits for other pods.
    held: BTreeSet<PodName>,
    /// What the node held when last listed, without its sandboxes and containers.
    listed: Option<NodeList>,
    runtime: RuntimeState,
    /// What became of every manifest, as of the last word of a source.
    verdicts: Arc<[Verdict]>,
    /// Those of them that the sources do not know of.
    refusals: Vec<Verdict>,
    /// How many desired states there were so far; the newest one has this generation.
    generations: u64,
    /// What an earlier agent remembered of pods that no worker has looked at yet.
    remembered: BTreeMap<PodName, Remembered>,
    /// Pods that may look other than they were last shown.
    changed: BTreeSet<PodName>,
    /// What the node has room for; none for no limit.
    node: Option<NodeLimits>,
    /// How the devices are that containers have.
    devices: Arc<DeviceHealth>,
    /// What is to be recorded.
    notices: Vec<PodNotice>,
}

/// What the loop knows of one worker.
#[derive(Debug)]
struct WorkerEntry {
    desired: Desired,
    /// The newest instance, for the view while it ends. Unknown for one that an earlier agent left.
    pod: Option<Arc<Pod>>,
    state: Option<Arc<PodState>>,
    seen: Fingerprint,
    running: bool,
    /// Its worker was told what is wanted.
    told: Told,
    /// What its instances have that no other pod can have.
    holds: Holds,
    /// Whether the newest instance has a place on the node.
    admission: Placement,
    /// What instances before the newest use, while something of them may be left.
    leaving: Option<Requests>,
    /// The ConfigMaps and Secrets that the wanted instance refers to.
    references: Box<[ObjectKey]>,
    /// What the wanted instance waits for, if another pod still has it.
    waits: Option<Arc<str>>,
}

impl WorkerEntry {
    /// What is shown of its pod, if that is known.
    fn shown(&self) -> Option<PodView> {
        let pod = self.pod.clone()?;
        Some(PodView { pod, state: self.state.clone(), running: self.running, waits: self.waits.clone() })
    }
}

impl SyncLoop {
    /// A loop for an agent with these sources.
    pub(crate) fn new(sources: impl IntoIterator<Item = Source>) -> Self {
        Self {
            config: PodConfig::new(sources),
            workers: BTreeMap::new(),
            held: BTreeSet::new(),
            listed: None,
            runtime: RuntimeState::Unknown,
            verdicts: Arc::default(),
            refusals: Vec::new(),
            generations: 0,
            remembered: BTreeMap::new(),
            changed: BTreeSet::new(),
            node: None,
            devices: Arc::default(),
            notices: Vec::new(),
        }
    }

    /// The same, which says that ConfigMaps and Secrets are looked for in these places.
    pub(crate) fn looking_in(self, places: Arc<str>) -> Self {
        Self { config: self.config.with_places(places), ..self }
    }

    /// The same, with what an earlier agent remembered of the pods.
    pub(crate) fn remembering(self, remembered: BTreeMap<PodName, Remembered>) -> Self {
        Self { remembered, ..self }
    }

    /// Takes in one event and says what to do.
    pub(crate) fn handle(&mut self, event: Event) -> Vec<Command> {
        match event {
            Event::Config(snapshot) => self.on_config(snapshot),
            Event::Pleg(PlegEvent::Listed(list)) => self.on_listed(list),
            Event::Pleg(PlegEvent::Exited(id)) => self.on_exited(&id),
            Event::Pleg(PlegEvent::Down(reason)) => {
                self.runtime = RuntimeState::Down(reason);
                Vec::new()
            }
            Event::Probe(pod) => self.tell(&pod).into_iter().collect(),
            Event::Worker(report) => self.on_report(report),
            Event::End(end) => self.on_end(end),
            Event::Restart { pod, uid, containers } => self.on_restart(pod, &uid, containers),
            Event::Devices(change) => self.on_devices(change),
            Event::RestartPod(pod, reply) => {
                let commands = self.on_restart_pod(pod);
                // Whoever asked may have given up.
                let _ = reply.try_send(commands.is_some());
                commands.unwrap_or_default()
            }
            Event::Ping(reply) => {
                // Whoever asked may have given up.
                let _ = reply.try_send(());
                Vec::new()
            }
        }
    }

    /// Brings a view up to date that was shown before, or an empty one: a node may hold many pods, and few of them change
    /// at a time.
    pub(crate) fn show(&mut self, view: &mut View) {
        for name in std::mem::take(&mut self.changed) {
            match self.workers.get(&name).and_then(WorkerEntry::shown) {
                Some(pod) => drop(view.pods.insert(name, pod)),
                None => drop(view.pods.remove(&name)),
            }
        }
        view.verdicts = self.verdicts.clone();
        view.runtime = self.runtime.clone();
        view.devices = self.devices.clone();
        view.settled = self.listed.is_some() && self.config.all_settled();
    }

    /// What became of every manifest.
    pub(crate) fn verdicts(&self) -> &Arc<[Verdict]> {
        &self.verdicts
    }

    fn on_config(&mut self, snapshot: Snapshot) -> Vec<Command> {
        let mut told = BTreeSet::new();
        for update in self.config.apply(snapshot) {
            told.insert(match update {
                PodUpdate::Add(pod) | PodUpdate::Update(pod) => {
                    self.set_desired(pod.name.clone(), Want::Run(pod))
                }
                PodUpdate::Remove(name) => self.set_desired(name, Want::Stop { grace: None }),
            });
        }
        self.verdicts = self.config.verdicts().into();
        self.refusals = self.config.refusals();
        // Only now is it known who is there to be waited for.
        told.extend(self.review_held());
        told.extend(self.review_starts());
        told.extend(self.review_admission());
        told.extend(self.review_objects());
        let mut commands: Vec<_> = told.iter().filter_map(|name| self.tell(name)).collect();
        // Who is told first is likely to ask first; who has to wait for a sandbox waits by priority, too.
        commands.sort_by_key(|command| Reverse(urgency(command)));
        commands.extend(self.end_orphans());
        commands
    }

    fn on_listed(&mut self, list: NodeList) -> Vec<Command> {
        let back = !matches!(self.runtime, RuntimeState::Up);
        self.runtime = RuntimeState::Up;
        let differing = diff_listed(self.workers.iter().map(|(name, w)| (name, &w.seen)), &list);
        let look = |name: &PodName| back || differing.contains(name);
        let names: Vec<_> = self.workers.keys().filter(|name| look(name)).cloned().collect();
        self.listed = Some(without_seen(list));
        let mut commands: Vec<_> = names.iter().filter_map(|name| self.tell(name)).collect();
        commands.extend(self.tell_waiting());
        commands.sort_by_key(|command| Reverse(urgency(command)));
        commands.extend(self.end_orphans());
        commands
    }

    fn on_exited(&mut self, id: &ContainerId) -> Vec<Command> {
        let owner = self.workers.iter().find(|(_, worker)| worker.seen.contains(id.as_str()));
        let owner = owner.map(|(name, _)| name.clone());
        owner.and_then(|name| self.tell(&name)).into_iter().collect()
    }

    fn on_report(&mut self, report: Report) -> Vec<Command> {
        match report {
            Report::Created { pod, container } => {
                if let Some(worker) = self.workers.get_mut(&pod) {
                    worker.seen.insert(container.0, Seen::Alive);
                }
            }
            Report::Synced { pod, state, seen, running, number, instances } => {
                if let Some(worker) = self.workers.get_mut(&pod) {
                    worker.seen = seen;
                    worker.running = running;
                    // Of a pod that ends, directories may be left when the runtime holds nothing any more.
                    let is_newest = worker.desired.generation == number
                        && worker.told == Told::All
                        && matches!(worker.desired.want, Want::Run(_));
                    let mut freed = is_newest && worker.holds.retain(&instances, worker.pod.as_deref());
                    freed |= is_newest && worker.forget_left(&instances);
                    let was_active = worker.is_active();
                    self.changed.insert(pod.clone());
                    // A report on an earlier version says nothing about the one that is wanted now.
                    if let Some((shown, state)) = state
                        && worker.pod.as_ref().is_some_and(|pod| pod.same_as(&shown))
                    {
                        worker.state = Some(state);
                        freed |= was_active && !worker.is_active();
                        let changed = self.review_held();
                        let mut commands: Vec<_> =
                            changed.iter().filter_map(|name| self.tell(name)).collect();
                        commands.extend(if freed { self.tell_waiting() } else { Vec::new() });
                        return commands;
                    }
                    if freed {
                        return self.tell_waiting();
                    }
                }
            }
            Report::Gone { pod, number } => return self.on_gone(pod, number),
        }
        Vec::new()
    }

    /// Nothing is left of a pod. A desired state that crossed the report keeps the worker, whatever it is.
    fn on_gone(&mut self, pod: PodName, number: u64) -> Vec<Command> {
        let Some(worker) = self.workers.get_mut(&pod).filter(|worker| worker.desired.generation == number)
        else {
            return Vec::new();
        };
        if let Some(list) = &mut self.listed {
            list.remove(&pod);
        }
        self.changed.insert(pod.clone());
        if worker.told == Told::ToClear {
            worker.holds.clear();
            worker.leaving = None;
            worker.forget_preemption();
            worker.told = Told::Nothing;
            return self.tell_waiting();
        }
        if matches!(worker.desired.want, Want::Run(_)) {
            // It was told twice to end the instance before, and says so twice: the wanted one is not gone.
            return Vec::new();
        }
        self.workers.remove(&pod);
        self.held.remove(&pod);
        let mut commands = vec![Command::Dismiss(pod)];
        commands.extend(self.tell_waiting());
        commands
    }

    /// Manifests that are refused for what others say: their own source has taken them.
    pub(crate) fn refusals(&self) -> &[Verdict] {
        &self.refusals
    }

    /// Notes a desired state, which is still to be told.
    fn set_desired(&mut self, name: PodName, want: Want) -> PodName {
        self.generations += 1;
        self.changed.insert(name.clone());
        let references: Box<[ObjectKey]> = match &want {
            Want::Run(pod) => references(pod).into_iter().collect(),
            Want::Stop { .. } | Want::End { .. } => Box::default(),
        };
        let objects =
            (!references.is_empty()).then(|| Arc::new(PodObjects::collect(&references, &self.config)));
        let desired = Desired {
            generation: self.generations,
            want,
            blocked_on: Vec::new(),
            starts: Starts::Allowed,
            objects,
            restarts: BTreeSet::new(),
        };
        let remembered = self.remembered.remove(&name);
        let worker = self.workers.entry(name.clone()).or_insert_with(|| WorkerEntry {
            desired: desired.clone(),
            pod: None,
            state: None,
            seen: Fingerprint::default(),
            running: false,
            told: Told::Nothing,
            holds: Holds::default(),
            admission: Placement::Undecided,
            leaving: None,
            references: Box::default(),
            waits: None,
        });
        worker.desired = desired.clone();
        worker.references = references;
        worker.told = Told::Nothing;
        // What an earlier agent made of it may still be on disk.
        let left = remembered.as_ref().and_then(|past| past.checkpoint.instance.as_ref());
        left.into_iter().for_each(|instance| worker.holds.add_left(instance));
        if let Want::Run(pod) = &desired.want {
            worker.await_admission(pod, self.node.is_some());
            worker.pod = Some(pod.clone());
            // Until its worker has looked, the last that was known of the instance stands.
            worker.state = remembered.and_then(|past| past.state(pod));
            worker.recall_preemption();
            self.held.insert(name.clone());
        }
        name
    }
}

/// The priority of the pod that is to run; what ends makes room, and waits for nobody.
fn urgency(command: &Command) -> i32 {
    match command {
        Command::Tell(_, Desired { want: Want::Run(pod), .. }) => priority(&pod.spec),
        Command::Tell(_, Desired { want: Want::Stop { .. } | Want::End { .. }, .. })
        | Command::Dismiss(_) => i32::MAX,
    }
}
