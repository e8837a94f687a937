//! A model of containerd and of the processes that it runs: the rules that the agent relies on, and no more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Container as ContainerSpec;

use super::calls::error;
use super::manifests::RESTART_ALL;
use super::world::{Slot, When, World};
use crate::plan::StartContainer;
use crate::pod::hook::Hook;
use crate::pod::observed::{Container, ContainerState, Exit, Observed, Sandbox};
use crate::pod::restart::{RestartPolicy, may_restart_all};
use crate::pod::signal::number;
use crate::pod::{ContainerId, ContainerRef, Pod, PodName, SandboxId, is_sidecar};
use crate::runtime::cri::{CriError, ErrorClass};
use crate::sync::message::{Event, PlegEvent};
use crate::sync::node_list::{NodeList, Seen};

/// What a process is sent whose manifest names no signal.
const SIGTERM: u32 = 15;

/// What the runtime holds.
#[derive(Default)]
pub(super) struct Node {
    /// Nobody answers.
    pub(super) away: bool,
    pub(super) sandboxes: BTreeMap<SandboxId, SimSandbox>,
    pub(super) containers: BTreeMap<ContainerId, SimContainer>,
    /// The images that are there.
    pub(super) images: BTreeSet<String>,
    /// The runtime sends the stop signal of a container by itself, as containerd 2.2 does.
    pub(super) sends_stop_signals: bool,
    pub(super) ids: u32,
}

/// One sandbox.
pub(super) struct SimSandbox {
    pub(super) pod: Arc<Pod>,
    pub(super) seen: Sandbox,
}

/// One container, and the process in it.
pub(super) struct SimContainer {
    pub(super) pod: Arc<Pod>,
    pub(super) seen: Container,
    /// It was told to end, killed, or died with the node: its exit code says nothing about its work.
    pub(super) disturbed: bool,
    /// Its probes failed so often.
    pub(super) failed_probes: u32,
    /// Its postStart hook failed.
    pub(super) hook_failed: bool,
    /// The agent that was told that it runs.
    pub(super) started_by: Option<u32>,
    /// The stop signal of its manifest.
    pub(super) stop_signal: u32,
    /// A signal was sent to it.
    pub(super) was_signalled: bool,
    ignores_term: bool,
    /// When it ends by itself, if it does.
    pub(super) exit: Option<When>,
    waiting: Vec<Slot<()>>,
}

impl SimContainer {
    pub(super) fn runs(&self) -> bool {
        matches!(self.seen.state, ContainerState::Running { .. })
    }
}

fn refuse<T>(op: &'static str, why: &str) -> Result<T, CriError> {
    Err(error(op, ErrorClass::Refused, why))
}

impl World {
    fn next_id(&mut self, kind: &str) -> String {
        self.node.ids += 1;
        format!("{kind}{}", self.node.ids)
    }

    /// RunPodSandbox.
    pub(super) fn run_sandbox(&mut self, pod: &Arc<Pod>, attempt: u32) -> Result<SandboxId, CriError> {
        let holds_name =
            |s: &SimSandbox| s.pod.name == pod.name && s.seen.uid == pod.uid && s.seen.attempt == attempt;
        if self.node.sandboxes.values().any(holds_name) {
            return refuse("RunPodSandbox", "the name is reserved");
        }
        let id = SandboxId(self.next_id("s"));
        let seen = Sandbox {
            id: id.clone(),
            uid: pod.uid.clone(),
            hash: Some(pod.hash.clone()),
            attempt,
            created_at: self.wall(),
            ready: true,
            ips: vec![format!("10.0.0.{}", self.node.ids % 250)],
        };
        self.note(format_args!("sandbox {id} of {} {} attempt {attempt}", pod.name, pod.hash));
        self.node.sandboxes.insert(id.clone(), SimSandbox { pod: pod.clone(), seen });
        Ok(id)
    }

    /// CreateContainer.
    pub(super) fn create_container(
        &mut self,
        pod: &Arc<Pod>,
        start: &StartContainer,
    ) -> Result<ContainerId, CriError> {
        const OP: &str = "CreateContainer";
        let spec = pod.container(start.container).unwrap();
        if !self.node.sandboxes.get(&start.sandbox).is_some_and(|sandbox| sandbox.seen.ready) {
            return refuse(OP, "the sandbox is not ready");
        }
        let holds_name = |c: &SimContainer| {
            c.pod.name == pod.name
                && c.seen.uid == pod.uid
                && c.seen.name == spec.name
                && c.seen.attempt == start.attempt
        };
        if self.node.containers.values().any(holds_name) {
            return refuse(OP, "the name is reserved");
        }
        let id = ContainerId(self.next_id("c"));
        let lifecycle = spec.lifecycle.as_ref();
        let pre_stop = lifecycle.and_then(|lifecycle| lifecycle.pre_stop.as_ref());
        let stop_signal = lifecycle.and_then(|lifecycle| number(lifecycle.stop_signal.as_ref()?));
        let seen = Container {
            id: id.clone(),
            sandbox: start.sandbox.clone(),
            uid: pod.uid.clone(),
            name: spec.name.clone(),
            attempt: start.attempt,
            hash: pod.container_hash(&spec.name).unwrap_or_default().to_owned(),
            crashes: start.crashes,
            round: start.round,
            sidecar: match start.container {
                ContainerRef::Init(place) if is_sidecar(spec) => Some(u32::try_from(place).unwrap()),
                _ => None,
            },
            grace: pod.spec.termination_grace_period_seconds,
            pre_stop: pre_stop.map(|handler| Hook::of(handler, &[])),
            stop_signal: stop_signal.filter(|_| !self.node.sends_stop_signals),
            earlier_boot: false,
            image: spec.image.clone().unwrap_or_default(),
            image_ref: spec.image.clone().unwrap_or_default(),
            created_at: self.wall(),
            state: ContainerState::Created,
        };
        let name = format!("{}/{} attempt {}", pod.name, seen.name, seen.attempt);
        self.note(format_args!("container {id} is {name} in {}", start.sandbox));
        let made = SimContainer {
            pod: pod.clone(),
            seen,
            disturbed: false,
            failed_probes: 0,
            hook_failed: false,
            started_by: None,
            stop_signal: stop_signal.unwrap_or(SIGTERM),
            was_signalled: false,
            ignores_term: false,
            exit: None,
            waiting: Vec::new(),
        };
        self.node.containers.insert(id.clone(), made);
        Ok(id)
    }

    /// StartContainer.
    pub(super) fn start_container(&mut self, id: &ContainerId) -> Result<(), CriError> {
        const OP: &str = "StartContainer";
        let started_at = self.wall();
        let Some(container) = self.node.containers.get_mut(id) else {
            return Err(error(OP, ErrorClass::NotFound, "not found"));
        };
        if container.seen.state != ContainerState::Created {
            return refuse(OP, "the container is not in created state");
        }
        if !self.node.sandboxes.get(&container.seen.sandbox).is_some_and(|sandbox| sandbox.seen.ready) {
            return refuse(OP, "the sandbox is not running");
        }
        container.seen.state = ContainerState::Running { started_at };
        let (pod, name) = (container.pod.clone(), container.seen.name.clone());
        self.note(format_args!("{id} runs"));
        let ignores_term = self.faults.ignores_term;
        let ignores_term = self.chance(ignores_term);
        let ends = self.draw_life(&pod, &name).map(|(life, code)| {
            let id = id.clone();
            self.after(life, move |world| world.process_ends(&id, code, "by itself"))
        });
        let container = self.node.containers.get_mut(id).unwrap();
        (container.ignores_term, container.exit) = (ignores_term, ends);
        self.check_overlap(&pod.name);
        Ok(())
    }

    /// How long a process runs and how it ends; none if it goes on until it is ended.
    fn draw_life(&mut self, pod: &Pod, name: &str) -> Option<(Duration, i32)> {
        let (which, spec) = pod.containers().find(|(_, spec)| spec.name == name)?;
        let (crash, failure) = (self.faults.crash, self.faults.failure);
        let ordinary = matches!(which, ContainerRef::Init(_)) && !is_sidecar(spec);
        let once = ordinary || RestartPolicy::of(&pod.spec, spec) != RestartPolicy::Always;
        if once {
            let code = i32::from(self.chance(failure));
            let code = self.draw_code(spec, code);
            return Some((self.millis(100, if ordinary { 5_000 } else { 40_000 }), code));
        }
        let code = self.rng.i32(0..2);
        let code = self.draw_code(spec, code);
        // Some crash at once.
        let longest = if self.rng.bool() { 300 } else { 30_000 };
        self.chance(crash).then(|| (self.millis(1, longest), code))
    }

    /// One that fails may ask for a restart of all containers, if it has a rule for that.
    fn draw_code(&mut self, spec: &ContainerSpec, code: i32) -> i32 {
        if code != 0 && may_restart_all(spec) && self.rng.bool() { RESTART_ALL } else { code }
    }

    /// The main process of a container has ended.
    pub(super) fn process_ends(&mut self, id: &ContainerId, code: i32, how: &str) {
        let wall = self.wall();
        let Some(container) = self.node.containers.get_mut(id).filter(|container| container.runs()) else {
            return;
        };
        let ContainerState::Running { started_at } = container.seen.state else { return };
        container.seen.state = ContainerState::Exited(Exit {
            started_at: Some(started_at),
            finished_at: wall,
            code,
            reason: if code == 0 { "Completed".into() } else { "Error".into() },
            message: String::new(),
        });
        let exit = container.exit.take();
        std::mem::take(&mut container.waiting).into_iter().for_each(|slot| slot.fill(()));
        exit.iter().for_each(|when| self.cancel(when));
        self.note(format_args!("{id} ended with {code} {how}"));
        self.tell_exit(id.clone());
    }

    /// Tells the agent of an exit, as well as events are told.
    fn tell_exit(&mut self, id: ContainerId) {
        let (lost, late, doubled) = (self.faults.exit_lost, self.faults.exit_late, self.faults.exit_doubled);
        if self.node.away || self.chance(lost) {
            return;
        }
        let times = if self.chance(doubled) { 2 } else { 1 };
        for _ in 0..times {
            let wait = if self.chance(late) { self.millis(1_000, 30_000) } else { self.millis(0, 50) };
            let (agent, id) = (self.agent, id.clone());
            self.after(wait, move |world| {
                if world.agent == agent {
                    world.expect_a_look(&id);
                    world.tell(Event::Pleg(PlegEvent::Exited(id)));
                }
            });
        }
    }

    /// Puts something into the inbox of the agent, if one lives.
    pub(super) fn tell(&mut self, event: Event) {
        if let Some(inbox) = &self.inbox {
            let _ = inbox.try_send(event);
        }
    }

    /// A signal to a process that asks it to end: none is the runtime's own choice.
    pub(super) fn terminate(&mut self, id: &ContainerId, signal: Option<u32>) {
        let react = self.millis(0, 4_000);
        let code = if self.rng.bool() { 0 } else { 143 };
        let Some(container) = self.node.containers.get_mut(id).filter(|container| container.runs()) else {
            return;
        };
        container.disturbed = true;
        container.was_signalled = true;
        let own = if self.node.sends_stop_signals { container.stop_signal } else { SIGTERM };
        let (wanted, got) = (container.stop_signal, signal.unwrap_or(own));
        let ignores_term = container.ignores_term;
        if wanted != got {
            self.violate("the stop signal of the manifest", format!("{id} got {got} instead of {wanted}"));
        }
        if !ignores_term {
            let id = id.clone();
            self.after(react, move |world| world.process_ends(&id, code, "after SIGTERM"));
        }
    }

    /// SIGKILL to a process, or the end of one that nobody knows of.
    pub(super) fn kill(&mut self, id: &ContainerId) {
        let wall = self.wall();
        if let Some(container) = self.node.containers.get_mut(id) {
            container.disturbed = true;
            if container.seen.state == ContainerState::Unknown {
                let reason = "Unknown".into();
                let exit =
                    Exit { started_at: None, finished_at: wall, code: 255, reason, message: String::new() };
                container.seen.state = ContainerState::Exited(exit);
            }
        }
        self.process_ends(id, 137, "killed");
    }

    /// Fills the slot when the process has ended.
    pub(super) fn await_exit(&mut self, id: &ContainerId, slot: Slot<()>) {
        match self.node.containers.get_mut(id).filter(|container| container.runs()) {
            Some(container) => container.waiting.push(slot),
            None => slot.fill(()),
        }
    }

    /// RemoveContainer: what still runs is killed.
    pub(super) fn remove_container(&mut self, id: &ContainerId) {
        self.kill(id);
        self.node.containers.remove(id);
        self.note(format_args!("{id} removed"));
    }

    /// StopPodSandbox: what still runs in it is killed.
    pub(super) fn stop_sandbox(&mut self, id: &SandboxId) {
        self.ids_in(id).iter().for_each(|id| self.kill(id));
        if let Some(sandbox) = self.node.sandboxes.get_mut(id) {
            (sandbox.seen.ready, sandbox.seen.ips) = (false, Vec::new());
            self.note(format_args!("{id} stopped"));
        }
    }

    /// RemovePodSandbox.
    pub(super) fn remove_sandbox(&mut self, id: &SandboxId) -> Result<(), CriError> {
        if self.node.sandboxes.get(id).is_some_and(|sandbox| sandbox.seen.ready) {
            return refuse("RemovePodSandbox", "the sandbox is not stopped");
        }
        for id in self.ids_in(id) {
            self.remove_container(&id);
        }
        self.node.sandboxes.remove(id);
        self.note(format_args!("{id} removed"));
        Ok(())
    }

    /// The containers in a sandbox.
    pub(super) fn ids_in(&self, sandbox: &SandboxId) -> Vec<ContainerId> {
        let all = self.node.containers.values();
        all.filter(|c| c.seen.sandbox == *sandbox).map(|c| c.seen.id.clone()).collect()
    }

    /// All that the runtime holds of a pod name.
    pub(super) fn observed(&self, pod: &PodName) -> Observed {
        let sandboxes = self.node.sandboxes.values().filter(|sandbox| sandbox.pod.name == *pod);
        let containers = self.node.containers.values().filter(|container| container.pod.name == *pod);
        Observed {
            sandboxes: sandboxes.map(|sandbox| sandbox.seen.clone()).collect(),
            containers: containers.map(|container| container.seen.clone()).collect(),
        }
    }

    /// What a list of the whole node shows.
    pub(super) fn node_list(&self) -> NodeList {
        let mut list = NodeList::new();
        for sandbox in self.node.sandboxes.values() {
            let listed = list.entry(sandbox.pod.name.clone()).or_default();
            listed.sources.insert(Some(sandbox.pod.source));
            listed.uids.push(sandbox.seen.uid.clone());
            listed.seen.insert(sandbox.seen.id.0.clone(), Seen::alive_if(sandbox.seen.ready));
        }
        for container in self.node.containers.values() {
            let listed = list.entry(container.pod.name.clone()).or_default();
            listed.seen.insert(container.seen.id.0.clone(), Seen::alive_if(container.runs()));
        }
        list
    }
}
