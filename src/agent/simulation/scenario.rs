//! One course of the world: an agent under faults of the node, then calm, then rest, then one more start.

use std::sync::Arc;
use std::time::Duration;

use async_channel::Sender;
use smol::{Executor, Task};

use super::checks::runs_on;
use super::disk::SimCheckpoints;
use super::manifests::{SOURCES, names};
use super::node_faults::PowerCut;
use super::probes::SimProbes;
use super::runtime::SimRuntime;
use super::world::{Sim, SimClock};
use crate::agent::turn::run_sync_loop;
use crate::pod::PodName;
use crate::status::Telemetry;
use crate::status::events::Recorder;
use crate::status::metrics::Metrics;
use crate::sync::admission::{NodeLimits, PODS};
use crate::sync::handles::Handles;
use crate::sync::message::Event;
use crate::sync::published::Published;
use crate::sync::sync_loop::SyncLoop;
use crate::sync::view::PodView;
use crate::time::backoff::Backoff;
use crate::worker::Context;
use crate::worker::pool::WorkerPool;
use crate::worker::prober::Prober;

/// Within so much virtual time everything is as it should be, once nothing goes wrong any more.
const BOUND: Duration = Duration::from_secs(900);
/// How often that is looked at.
const LOOK: Duration = Duration::from_secs(10);
/// For so long nothing happens at rest.
const REST: Duration = Duration::from_secs(80);
/// More polls of tasks than this at one moment are a loop without end.
const MOST_POLLS: u32 = 20_000;

/// What came of one seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SeedOutcome {
    /// Tells this course from every other.
    pub(super) trace: u64,
    /// Calls that workers made.
    pub(super) calls: u64,
    /// What was broken, if anything.
    pub(super) broken: Option<String>,
}

/// An agent that runs.
struct Agent {
    executor: Arc<Executor<'static>>,
    inbox: Sender<Event>,
    view: Published,
    tasks: Vec<Task<()>>,
}

struct Scenario {
    sim: Sim,
    agent: Option<Agent>,
    polls: u32,
}

/// Runs the course of one seed.
pub(super) fn run_seed(seed: u64) -> SeedOutcome {
    // The prober spreads its first runs by the thread's own generator.
    fastrand::seed(seed);
    let mut scenario = Scenario { sim: Sim::new(seed), agent: None, polls: 0 };
    scenario.run();
    scenario.kill(PowerCut::No);
    let world = scenario.sim.lock();
    SeedOutcome { trace: world.trace_hash(), calls: world.call_count, broken: world.broken.clone() }
}

impl Scenario {
    fn run(&mut self) {
        self.boot();
        let chaos = {
            let mut world = self.sim.lock();
            let chaos = world.millis(60_000, 240_000);
            world.strike(chaos);
            chaos
        };
        self.run_until(chaos);
        let sick = {
            let mut world = self.sim.lock();
            world.kill_after = None;
            world.calm_down();
            world.faults.sick = if world.chance(0.25) { world.rng.choice(names()) } else { None };
            world.faults.sick.clone()
        };
        if self.agent.is_none() {
            self.boot();
        }
        if let Some(sick) = sick {
            self.converge("4 one pod delays no other", Some(&sick));
            self.sim.lock().faults.sick = None;
        }
        self.converge("liveness", None);
        self.rest();
        self.start_once_more();
    }

    /// The agent is killed at rest, with the machine or alone, and the next one finds everything.
    fn start_once_more(&mut self) {
        if self.is_broken() {
            return;
        }
        let (cut, before) = {
            let mut world = self.sim.lock();
            let done = world.manifests.wanted().into_values().filter(|pod| !runs_on(pod));
            let done: Vec<_> = done.map(|pod| pod.hash.clone()).collect();
            world.oracle.finished.extend(done);
            let cut = *world.rng.choice(&[PowerCut::No, PowerCut::Reboot, PowerCut::RebootEmpty]).unwrap();
            world.note(format_args!("start once more, {cut:?}"));
            (cut, world.node_list())
        };
        self.kill(cut);
        self.boot();
        self.converge("liveness after a restart", None);
        let mut world = self.sim.lock();
        if cut == PowerCut::No && world.node_list() != before {
            world.violate("7 a restart leaves containers alone", "not the same containers as before");
        }
        drop(world);
        self.rest();
    }

    /// Waits until everything is as it should be, and stays so.
    fn converge(&mut self, rule: &str, sick: Option<&PodName>) {
        let begun = self.sim.lock().now;
        let mut since = None;
        loop {
            let now = self.sim.lock().now;
            self.run_until(now + LOOK);
            if self.is_broken() {
                return;
            }
            let is_excused =
                |name: &PodName| sick.is_some_and(|sick| self.sim.lock().manifests.may_wait_for(name, sick));
            let wanting = names().filter(|name| !is_excused(name)).find_map(|name| self.unconverged(&name));
            let now = self.sim.lock().now;
            match wanting {
                None if since.is_some_and(|since| now - since >= Duration::from_secs(65)) => return,
                None => drop(since.get_or_insert(now)),
                Some(what) if now - begun > BOUND => return self.sim.lock().violate(rule, what),
                Some(_) => since = None,
            }
        }
    }

    fn unconverged(&self, name: &PodName) -> Option<String> {
        let view = self.agent.as_ref()?.view.load();
        if self.sim.lock().hooking > 0 {
            return Some("a hook is under way".to_owned());
        }
        let phase = |shown: &PodView| shown.state.as_ref().map_or("Unknown", |state| state.phase.as_str());
        self.sim.lock().unconverged(name, view.pods.get(name).map(phase))
    }

    /// At rest no worker makes a call, and nothing waits but the next probe.
    fn rest(&mut self) {
        if self.is_broken() {
            return;
        }
        let (now, calls) = {
            let world = self.sim.lock();
            (world.now, world.call_count)
        };
        self.run_until(now + REST);
        let mut world = self.sim.lock();
        if world.call_count != calls {
            let more = world.call_count - calls;
            world.violate("rest", format!("{more} calls at rest"));
        }
        // The prober's, and those of probes that are under way.
        if world.timers.len() > 1 + world.probing {
            let timers = world.timers.len();
            world.violate("rest", format!("{timers} timers at rest"));
        }
    }

    fn is_broken(&self) -> bool {
        self.sim.lock().broken.is_some()
    }

    /// Runs tasks until none can, then lets the next thing happen, until this time.
    fn run_until(&mut self, until: Duration) {
        loop {
            while self.agent.as_ref().is_some_and(|agent| agent.executor.try_tick()) {
                self.polls += 1;
                self.kill_if_due(true);
                if self.polls > MOST_POLLS {
                    return self.sim.lock().violate("liveness", "a loop without end");
                }
            }
            self.polls = 0;
            let (goes_on, boots) = {
                let mut world = self.sim.lock();
                if world.broken.is_some() {
                    return;
                }
                (world.advance(until), std::mem::take(&mut world.boots))
            };
            if boots && self.agent.is_none() {
                self.boot();
            }
            self.kill_if_due(false);
            if !goes_on {
                return;
            }
        }
    }

    fn kill_if_due(&mut self, polled: bool) {
        let due = {
            let mut world = self.sim.lock();
            match world.kill_after {
                Some((left, _)) if left > 0 => {
                    world.kill_after = world.kill_after.map(|(left, cut)| (left - u32::from(polled), cut));
                    None
                }
                Some((_, cut)) => {
                    world.kill_after = None;
                    let wait = world.millis(0, 20_000);
                    world.after(wait, |world| world.boots = true);
                    Some(cut)
                }
                None => None,
            }
        };
        if let Some(cut) = due {
            self.kill(cut);
        }
    }

    /// Ends the agent where it stands.
    fn kill(&mut self, cut: PowerCut) {
        let mut world = self.sim.lock();
        world.note(format_args!("the agent is killed, {cut:?}"));
        (world.agent, world.inbox) = (None, None);
        world.fail_calls(cut != PowerCut::No);
        world.expire_timers();
        world.manifests.told.clear();
        world.oracle.next_agent();
        if cut != PowerCut::No {
            world.all_processes_end(cut == PowerCut::RebootEmpty);
            world.cut_power_to_disk();
            world.node.containers.values_mut().for_each(|container| container.seen.earlier_boot = true);
        }
        drop(world);
        if let Some(Agent { executor, inbox, tasks, .. }) = self.agent.take() {
            // Its tasks find nobody to talk to, and end: else they would keep each other in memory.
            inbox.close();
            drop(tasks);
            let mut left = MOST_POLLS;
            while executor.try_tick() && left > 0 {
                left -= 1;
            }
        }
    }

    /// Starts an agent from what is on disk, as `agent::run` does.
    fn boot(&mut self) {
        let sim = self.sim.clone();
        let (agent, started_at, remembered) = {
            let mut world = sim.lock();
            world.agents += 1;
            let agent = world.agents;
            world.agent = Some(agent);
            world.note(format_args!("agent {agent} starts"));
            for source in SOURCES {
                let wait = world.millis(0, 4_000);
                world.after(wait, move |world| world.speak(source));
            }
            let wait = world.millis(0, 1_000);
            world.after(wait, move |world| world.relist(agent, None, Duration::from_secs(1)));
            (agent, world.now, world.disk.read_all())
        };
        let (inbox, events) = async_channel::unbounded();
        sim.lock().inbox = Some(inbox.clone());
        let telemetry =
            Telemetry { metrics: Arc::new(Metrics::new("node1")), events: Recorder::new("node1") };
        let handles = Handles {
            executor: Arc::new(Executor::new()),
            clock: Arc::new(SimClock { sim: sim.clone(), agent, started_at }),
            inbox: inbox.clone(),
            telemetry,
        };
        let probes = SimProbes { sim: sim.clone(), agent };
        let prober = Prober::new(Arc::new(probes), handles.clone());
        let context = Context {
            handles: handles.clone(),
            runtime: Arc::new(SimRuntime::new(sim.clone(), agent)),
            checkpoints: Arc::new(SimCheckpoints { sim, agent }),
            prober: prober.clone(),
            crash_loop: Backoff::crash_loop(Duration::from_secs(60)),
        };
        let view = Published::default();
        // Room for all of them: nobody is told before it is known what runs, as on a real node.
        let allocatable = [(PODS.to_owned(), 110)].into_iter().collect();
        let node = NodeLimits { allocatable, ..NodeLimits::default() };
        let sync_loop = SyncLoop::new(SOURCES).remembering(remembered.clone()).on_node(node);
        let pool = WorkerPool::new(context, remembered);
        let telemetry = handles.telemetry.clone();
        let executor = handles.executor.clone();
        let tasks = vec![
            executor.spawn(prober.run()),
            executor.spawn(run_sync_loop(sync_loop, events, pool, view.clone(), telemetry)),
        ];
        self.agent = Some(Agent { executor, inbox, view, tasks });
    }
}
