//! What happens to the whole node: edits, kills, power cuts, and a runtime that comes and goes.

use std::time::Duration;

use jiff::SignedDuration;

use super::faults::NodeFault;
use super::manifests::{SOURCES, names};
use super::world::World;
use crate::pod::observed::ContainerState;
use crate::pod::restart::RestartPolicy;
use crate::pod::{ContainerId, SandboxId};
use crate::sync::message::{Event, PlegEvent};

/// How often the node is listed, when all is well.
const RELIST: Duration = Duration::from_secs(60);

/// What else happens when the agent is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PowerCut {
    /// Nothing: the machine goes on.
    No,
    /// All processes end; the runtime knows of its containers.
    Reboot,
    /// All processes end, and the runtime has forgotten everything.
    RebootEmpty,
}

impl World {
    /// Lets something happen to the node, and something else after that, until the chaos is over.
    pub(super) fn strike(&mut self, until: Duration) {
        if self.now >= until {
            return;
        }
        let fault = self.faults.next_node_fault(&mut self.rng);
        self.note(format_args!("{fault:?}"));
        match fault {
            NodeFault::Edit => self.edit(),
            NodeFault::Kill => self.kill_after = Some((self.rng.u32(0..30), PowerCut::No)),
            NodeFault::PowerCut => {
                let cut = if self.rng.bool() { PowerCut::Reboot } else { PowerCut::RebootEmpty };
                self.kill_after = Some((self.rng.u32(0..30), cut));
            }
            NodeFault::Away => self.go_away(),
            NodeFault::Forget => {
                self.go_away();
                let empty = self.rng.bool();
                self.all_processes_end(empty);
            }
            NodeFault::KillContainer => {
                let runs: Vec<ContainerId> = self.running();
                if let Some(id) = self.rng.choice(&runs).cloned() {
                    self.kill(&id);
                }
            }
            NodeFault::KillSandbox => {
                let ready = self.node.sandboxes.values().filter(|s| s.seen.ready).map(|s| s.seen.id.clone());
                let ready: Vec<SandboxId> = ready.collect();
                if let Some(id) = self.rng.choice(&ready).cloned() {
                    let sandbox = self.node.sandboxes.get_mut(&id).unwrap();
                    (sandbox.seen.ready, sandbox.seen.ips) = (false, Vec::new());
                    self.note(format_args!("{id} died"));
                }
            }
            NodeFault::DiskFull => {
                self.disk.full = true;
                let wait = self.millis(1_000, 60_000);
                self.after(wait, |world| world.disk.full = false);
            }
            NodeFault::SetClock => {
                let seconds = *self.rng.choice(&[3, 60, 3_600, 1_000_000]).unwrap();
                let sign = if self.rng.bool() { 1 } else { -1 };
                self.wall_offset += SignedDuration::from_secs(sign * seconds);
                self.wall_was_set = true;
                self.note(format_args!("clock set by {}", sign * seconds));
            }
            NodeFault::Outage => {
                let source = *self.rng.choice(&SOURCES).unwrap();
                self.manifests.outages.insert(source);
                self.speak(source);
                let wait = self.millis(1_000, 60_000);
                self.after(wait, move |world| {
                    world.manifests.outages.remove(&source);
                    world.speak(source);
                });
            }
            NodeFault::Sicken => {
                self.faults.sick = self.rng.choice(names());
                let wait = self.millis(1_000, 60_000);
                self.after(wait, |world| world.faults.sick = None);
            }
            NodeFault::DropImages => self.node.images.clear(),
        }
        let wait = self.millis(200, 15_000);
        self.after(wait, move |world| world.strike(until));
    }

    fn edit(&mut self) {
        // Now and then several at once.
        for _ in 0..self.rng.u32(1..=2) {
            let (source, what) = self.manifests.edit(&mut self.rng);
            self.note(format_args!("{source}: {what}"));
            let wait = self.millis(10, 2_000);
            self.after(wait, move |world| world.speak(source));
        }
    }

    fn go_away(&mut self) {
        self.node.away = true;
        self.fail_calls(true);
        let wait = self.millis(500, 20_000);
        self.after(wait, |world| world.node.away = false);
    }

    fn running(&self) -> Vec<ContainerId> {
        let runs = self.node.containers.values().filter(|container| container.runs());
        runs.map(|container| container.seen.id.clone()).collect()
    }

    /// As after a reboot: nothing runs any more, and the runtime may have forgotten that it ever did.
    pub(super) fn all_processes_end(&mut self, empty: bool) {
        self.fail_calls(true);
        for id in self.running() {
            self.kill(&id);
            // Of some the runtime does not know how they ended.
            if self.chance(0.1) {
                self.node.containers.get_mut(&id).unwrap().seen.state = ContainerState::Unknown;
            }
        }
        for sandbox in self.node.sandboxes.values_mut() {
            (sandbox.seen.ready, sandbox.seen.ips) = (false, Vec::new());
        }
        if empty {
            self.node.containers.clear();
            self.node.sandboxes.clear();
        }
        self.note(format_args!("all processes ended, forgotten {empty}"));
    }

    /// Lists the node for this agent, again and again.
    pub(super) fn relist(&mut self, agent: u32, was_up: Option<bool>, wait: Duration) {
        if self.agent != Some(agent) {
            return;
        }
        let is_up = !self.node.away;
        let next = if is_up {
            let list = self.node_list();
            let lag = self.millis(0, 200);
            self.after(lag, move |world| {
                if world.agent == Some(agent) {
                    world.tell(Event::Pleg(PlegEvent::Listed(list)));
                }
            });
            wait
        } else {
            if was_up != Some(false) {
                self.tell(Event::Pleg(PlegEvent::Down("away".into())));
            }
            Duration::from_millis(500)
        };
        let longer = if is_up { (wait * 4).min(RELIST) } else { Duration::from_secs(1) };
        self.after(next, move |world| world.relist(agent, Some(is_up), longer));
    }

    /// Nothing goes wrong any more, and processes do what they should.
    pub(super) fn calm_down(&mut self) {
        self.note(format_args!("calm"));
        self.faults.stop();
        (self.node.away, self.disk.full) = (false, false);
        self.manifests.outages.clear();
        let goes_on = |container: &super::node::SimContainer| {
            let spec = container.pod.containers().find(|(_, spec)| spec.name == container.seen.name);
            let always = |spec| RestartPolicy::of(&container.pod.spec, spec) == RestartPolicy::Always;
            container.seen.name != "setup" && spec.is_some_and(|(_, spec)| always(spec))
        };
        let crashes: Vec<_> =
            self.node.containers.values_mut().filter(|c| goes_on(c)).filter_map(|c| c.exit.take()).collect();
        crashes.iter().for_each(|when| self.cancel(when));
        SOURCES.into_iter().for_each(|source| self.speak(source));
    }
}
