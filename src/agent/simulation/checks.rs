//! What the agent is held to: the invariants of the crate, checked against what the simulation knows to be true.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::node::{SimContainer, SimSandbox};
use super::world::World;
use crate::plan::StartContainer;
use crate::pod::observed::ContainerState;
use crate::pod::restart::{AfterExit, RestartPolicy, after_exit};
use crate::pod::{ConfigHash, ContainerId, ContainerRef, Pod, PodName, PodUid, SandboxId};

/// For so long a worker may act on what it was told before.
const WINDOW: Duration = Duration::from_secs(45);
/// For so long a worker may be busy with calls that hang before it looks at what it was told of.
const LONGEST_BUSY: Duration = Duration::from_secs(50);

/// What is known of the agent's duties.
#[derive(Default)]
pub(super) struct Oracle {
    /// When the instance of a sandbox was last unwanted, as far as this agent was told.
    unwanted_at: BTreeMap<SandboxId, Duration>,
    /// When a version was last wanted, as far as this agent was told.
    wanted_at: BTreeMap<ConfigHash, Duration>,
    /// Names that this agent was told of.
    known: BTreeSet<PodName>,
    /// Versions that this agent was told are not wanted: should they be wanted again, they begin anew.
    dropped: BTreeSet<ConfigHash>,
    /// Sandboxes whose end this agent has begun, with reason.
    begun: BTreeSet<SandboxId>,
    /// When the first sandbox of a version was made.
    began: BTreeMap<ConfigHash, Duration>,
    /// Pods of which an exit was told, and that nobody has looked at since: the time from which to count.
    pub(super) unseen: BTreeMap<PodName, Duration>,
    /// Pods of which a step failed, and that nobody has looked at since.
    pub(super) failed: BTreeMap<PodName, &'static str>,
    /// Pods that had done their work when the world was at rest: they never run again.
    pub(super) finished: BTreeSet<ConfigHash>,
}

impl Oracle {
    /// The next agent knows nothing of what the last one was told.
    pub(super) fn next_agent(&mut self) {
        let (began, finished) = (std::mem::take(&mut self.began), std::mem::take(&mut self.finished));
        *self = Self { began, finished, ..Self::default() };
    }
}

impl World {
    /// Notes what is wanted and what is not, as far as the agent was told.
    pub(super) fn note_wanted(&mut self) {
        let now = self.now;
        let wanted = self.manifests.wanted_as_told();
        for (name, pod) in &wanted {
            self.oracle.known.insert(name.clone());
            self.oracle.wanted_at.insert(pod.hash.clone(), now);
        }
        let sandboxes = self.node.sandboxes.values();
        let unwanted = sandboxes.filter(|s| self.is_unwanted(&s.pod)).map(|s| (s.seen.id.clone(), now));
        self.oracle.unwanted_at.extend(unwanted.collect::<Vec<_>>());
        let versions = self.manifests.versions.iter();
        let dropped = versions.filter(|pod| self.is_unwanted(pod)).map(|pod| pod.hash.clone());
        self.oracle.dropped.extend(dropped.collect::<Vec<_>>());
    }

    /// There is evidence that this version is not wanted: an edit, a removal, or a source that has said all.
    fn is_unwanted(&self, pod: &Pod) -> bool {
        match self.manifests.wanted_name_as_told(&pod.name) {
            Some(wanted) => !wanted.same_as(pod),
            None => self.oracle.known.contains(&pod.name) || self.manifests.is_settled(pod.source),
        }
    }

    fn is_recent(&self, at: Option<&Duration>) -> bool {
        at.is_some_and(|at| *at + WINDOW >= self.now)
    }

    /// The whole sandbox may be ended.
    fn may_end(&mut self, id: &SandboxId) -> bool {
        let Some(sandbox) = self.node.sandboxes.get(id) else { return true };
        let pod = sandbox.pod.clone();
        if self.is_unwanted(&pod) || self.is_recent(self.oracle.unwanted_at.get(id)) {
            self.oracle.begun.insert(id.clone());
        }
        if self.oracle.begun.contains(id) || self.disk.is_ended(&pod.name, id) || !sandbox.seen.ready {
            return true;
        }
        let attempt = sandbox.seen.attempt;
        let own = |s: &SimSandbox| s.pod.name == pod.name && s.seen.uid == pod.uid;
        let newer = self.node.sandboxes.values().any(|s| own(s) && s.seen.attempt > attempt);
        newer || self.is_finished(&pod) || self.is_overdue(&pod)
    }

    fn is_overdue(&self, pod: &Pod) -> bool {
        let Some(seconds) = pod.spec.active_deadline_seconds else { return false };
        // A clock that was set may make a pod older than it is.
        let began = self.oracle.began.get(&pod.hash).copied().unwrap_or_default();
        self.wall_was_set || (self.now - began).as_secs() + 2 >= seconds.unsigned_abs()
    }

    /// All that the pod had to do is done, as the runtime shows it.
    fn is_finished(&self, pod: &Pod) -> bool {
        let newest = |name: &str| {
            let own = self.node.containers.values().filter(|c| c.pod.same_as(pod) && c.seen.name == name);
            own.max_by_key(|c| c.seen.attempt)
        };
        let stays = |which: ContainerRef, name: &str| {
            let spec = pod.container(which).unwrap();
            let exit = newest(name).and_then(|c| c.seen.exit());
            exit.is_some_and(|exit| after_exit(&pod.spec, spec, exit.code) == AfterExit::Stays)
        };
        let failed = |name: &str| newest(name).and_then(|c| c.seen.exit()).is_some_and(|exit| exit.code != 0);
        let (mut init, mut main) = (Vec::new(), Vec::new());
        for (which, spec) in pod.containers() {
            let group = if matches!(which, ContainerRef::Init(_)) { &mut init } else { &mut main };
            group.push((which, &spec.name));
        }
        main.iter().all(|(which, name)| stays(*which, name))
            || init.iter().any(|(which, name)| stays(*which, name) && failed(name))
            || self.disk.has_completed(pod)
    }

    /// A container is told to end.
    pub(super) fn check_end(&mut self, id: &ContainerId, op: &str) {
        let Some(container) = self.node.containers.get(id).filter(|container| container.runs()) else {
            return;
        };
        let (sandbox, own) = (container.seen.sandbox.clone(), container.seen.clone());
        let is_unwell = container.failed_probes > 0 || container.hook_failed;
        let pod = container.pod.clone();
        let is_newer = |c: &SimContainer| {
            let same = c.pod.name == pod.name && c.seen.uid == own.uid && c.seen.name == own.name;
            same && c.seen.attempt > own.attempt
        };
        let stray = self.node.containers.values().any(is_newer);
        let is_past = self.has_newer_round(&pod, own.round);
        self.node.containers.get_mut(id).unwrap().disturbed = true;
        if !(is_unwell || stray || is_past || self.may_end(&sandbox)) {
            let what = format!("{op} of {id}, {} of {} {}, for no reason", own.name, pod.name, pod.hash);
            self.violate("2 ends only on evidence", what);
        }
    }

    /// A container of this round or a later one asked for a restart of all, or a later round has begun.
    fn has_newer_round(&self, pod: &Pod, round: u32) -> bool {
        self.node.containers.values().filter(|c| c.pod.same_as(pod) && c.seen.round >= round).any(|c| {
            let spec = pod.containers().find(|(_, spec)| spec.name == c.seen.name);
            let asks = |code| {
                spec.is_some_and(|(_, spec)| after_exit(&pod.spec, spec, code) == AfterExit::RestartsAll)
            };
            c.seen.round > round || c.seen.exit().is_some_and(|exit| asks(exit.code))
        })
    }

    /// The agent believes that a container was sent its stop signal.
    pub(super) fn check_signalled(&mut self, id: &ContainerId) {
        let runs = self.node.containers.get(id).filter(|container| container.runs());
        if runs.is_some_and(|container| !container.was_signalled) {
            self.violate("the stop signal of the manifest", format!("{id} was sent none"));
        }
    }

    /// The directories of an instance are about to be removed.
    pub(super) fn check_release(&mut self, pod: &PodName, uid: &PodUid) {
        let users = self.node.containers.values().filter(|c| c.seen.uid == *uid && c.runs());
        if let Some(user) = users.map(|c| format!("{} of {}", c.seen.id, c.pod.name)).next() {
            self.violate(
                "1 instances never overlap",
                format!("{pod}: directories of {uid} removed, {user} runs"),
            );
        }
    }

    /// The agent is about to be told that a container which it has started has ended: its worker looks before long.
    pub(super) fn expect_a_look(&mut self, id: &ContainerId) {
        let container = self.node.containers.get(id).filter(|c| c.started_by == self.agent && !c.runs());
        let Some(pod) = container.map(|container| container.pod.name.clone()) else { return };
        let (agent, told) = (self.agent, self.now);
        self.oracle.unseen.entry(pod.clone()).or_insert(told);
        self.after(LONGEST_BUSY, move |world| {
            let since = world.oracle.unseen.get(&pod);
            if world.agent == agent && since.is_some_and(|since| *since <= told) {
                world.violate("4 what is told is looked at", format!("{pod}: an exit at {told:?}"));
            }
        });
    }

    /// A sandbox is told to end.
    pub(super) fn check_end_of_sandbox(&mut self, id: &SandboxId) {
        if !self.may_end(id) {
            self.violate("2 ends only on evidence", format!("StopPodSandbox of {id} for no reason"));
        }
    }

    /// These are noted as sandboxes whose end has begun.
    pub(super) fn check_noted_ends(&mut self, pod: &PodName, ended: &[SandboxId]) {
        let noted = self.disk.ended(pod);
        for id in ended.iter().filter(|id| !noted.contains(id)) {
            if self.node.sandboxes.contains_key(id)
                && !self.oracle.begun.contains(id)
                && !self.is_recent(self.oracle.unwanted_at.get(id))
                && !self.is_unwanted(&self.node.sandboxes[id].pod)
            {
                self.violate("2 ends only on evidence", format!("{id} noted as ended for no reason"));
            }
            self.oracle.begun.insert(id.clone());
        }
    }

    /// A sandbox of this version is about to be made, or a container of it.
    pub(super) fn check_start(&mut self, pod: &Pod, start: Option<&StartContainer>) {
        let now = self.now;
        self.oracle.began.entry(pod.hash.clone()).or_insert(now);
        let wanted = self.manifests.wanted_name_as_told(&pod.name).is_some_and(|wanted| wanted.same_as(pod));
        if !wanted && !self.is_recent(self.oracle.wanted_at.get(&pod.hash)) {
            self.violate("2 runs what is wanted", format!("{} {} is started", pod.name, pod.hash));
        }
        if self.oracle.finished.contains(&pod.hash)
            || !self.oracle.dropped.contains(&pod.hash) && self.disk.has_completed(pod)
        {
            self.violate("3 what completed never runs again", format!("{} {}", pod.name, pod.hash));
        }
        let Some(StartContainer { container, sandbox, round, .. }) = start else { return };
        if self.oracle.begun.contains(sandbox) || self.disk.is_ended(&pod.name, sandbox) {
            self.violate("3 what was begun to end is ended", format!("a start in {sandbox}"));
        }
        let spec = pod.container(*container).unwrap();
        let policy = RestartPolicy::of(&pod.spec, spec);
        if matches!(container, ContainerRef::Main(_)) && policy != RestartPolicy::Always {
            let again = self.node.containers.values().find(|c| {
                let ended = self.oracle.begun.contains(&c.seen.sandbox)
                    || self.disk.is_ended(&pod.name, &c.seen.sandbox);
                let own = c.pod.same_as(pod) && c.seen.name == spec.name && c.seen.round >= *round && !ended;
                let exit = c.seen.exit().filter(|_| own);
                exit.is_some_and(|exit| policy == RestartPolicy::Never || exit.code == 0 && !c.disturbed)
            });
            if let Some(again) = again.map(|c| c.seen.id.clone()) {
                let what = format!("{} of {} {} after {again}", spec.name, pod.name, pod.hash);
                self.violate("3 what completed never runs again", what);
            }
        }
    }

    /// Two versions of a name never run at the same time, nor two containers of one name.
    pub(super) fn check_overlap(&mut self, pod: &PodName) {
        let running: Vec<_> =
            self.node.containers.values().filter(|c| c.pod.name == *pod && c.runs()).collect();
        let instances: BTreeSet<_> = running.iter().map(|c| (&c.pod.uid, &c.pod.hash)).collect();
        let names: BTreeSet<_> = running.iter().map(|c| (&c.seen.uid, &c.seen.name)).collect();
        let (many, doubled) = (instances.len() > 1, names.len() < running.len());
        let ids: Vec<_> = running.iter().map(|c| c.seen.id.to_string()).collect();
        let uids: BTreeSet<_> = running.iter().map(|c| &c.pod.uid).collect();
        let others = self.node.containers.values().filter(|c| c.pod.name != *pod && c.runs());
        let shared = others.filter(|c| uids.contains(&c.pod.uid)).map(|c| c.seen.id.to_string()).next();
        if many {
            self.violate("1 instances never overlap", format!("{pod}: {ids:?}"));
        } else if doubled {
            self.violate("1 no container is doubled", format!("{pod}: {ids:?}"));
        } else if let Some(other) = shared {
            let what = format!("{pod}: {ids:?} and {other} of another name have one UID");
            self.violate("1 instances never overlap", what);
        }
    }

    /// Everything is as it should be: what is still wanting, if anything. `phase` is what is shown of a pod.
    pub(super) fn unconverged(&self, name: &PodName, phase: Option<&str>) -> Option<String> {
        let held = self.observed(name);
        let Some(pod) = self.manifests.wanted().get(name).cloned() else {
            if !held.is_empty() {
                return Some(format!("{name} is not wanted, and there is {held:?}"));
            }
            let shown = self.disk.holds(name).then_some("a checkpoint is left").or(phase);
            return shown.map(|left| format!("{name} is not wanted: {left}"));
        };
        if let Some(other) = held.sandboxes.iter().find(|s| !s.is_of(&pod)) {
            return Some(format!("{name}: another instance is left: {}", other.id));
        }
        let alive: Vec<_> = held.containers.iter().filter(|c| c.is_alive()).collect();
        if !runs_on(&pod) {
            if let Some(left) = alive.first() {
                return Some(format!("{name} should be over, and {} is alive", left.id));
            }
            if !matches!(phase, Some("Succeeded" | "Failed")) {
                return Some(format!("{name} should be over, and is shown as {phase:?}"));
            }
            return (!self.disk.has_completed(&pod))
                .then(|| format!("{name}: its completion is not durable"));
        }
        let ready: Vec<_> = held.sandboxes.iter().filter(|s| s.ready).collect();
        let [sandbox] = ready.as_slice() else { return Some(format!("{name}: {} sandboxes", ready.len())) };
        for (which, spec) in pod.containers() {
            let runs = alive.iter().filter(|c| {
                let running = matches!(c.state, ContainerState::Running { .. });
                running && c.name == spec.name && c.sandbox == sandbox.id
            });
            let expect = usize::from(matches!(which, ContainerRef::Main(_)) || spec.restart_policy.is_some());
            let count = runs.count();
            if count != expect {
                return Some(format!("{name}: {count} of {} run, not {expect}", spec.name));
            }
        }
        (phase != Some("Running")).then(|| format!("{name} runs, and is shown as {phase:?}"))
    }
}

/// The pod goes on until it is ended.
pub(super) fn runs_on(pod: &Pod) -> bool {
    RestartPolicy::of_pod(&pod.spec) == RestartPolicy::Always && pod.spec.active_deadline_seconds.is_none()
}
