//! The simulated world: virtual time, one queue of what is still to happen, and the seed that decides everything.
//!
//! Nothing here knows of real time or of threads. What happens at the same moment happens in the order in which it was
//! scheduled, so that one seed has one course.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_channel::Sender;
use futures_lite::future;
use jiff::{SignedDuration, Timestamp};

use super::calls::InFlight;
use super::checks::Oracle;
use super::disk::Disk;
use super::faults::Faults;
use super::manifests::Manifests;
use super::node::Node;
use super::node_faults::PowerCut;
use crate::sync::message::Event;
use crate::time::clock::{Clock, Sleep};

/// Whatever happens, happens at a multiple of this time.
const GRID: Duration = Duration::from_millis(10);

/// Something that happens to the world.
pub(super) type Happening = Box<dyn FnOnce(&mut World) + Send>;

/// The place of a happening in the queue.
pub(super) type When = (Duration, u64);

/// A handle on the world. Cheap to clone; one thread alone uses it.
#[derive(Clone)]
pub(super) struct Sim(Arc<Mutex<World>>);

/// All that there is.
pub(super) struct World {
    /// The virtual time since the simulation began; nobody sets it.
    pub(super) now: Duration,
    /// What the wall clock shows beyond that.
    pub(super) wall_offset: SignedDuration,
    /// The wall clock was set at least once.
    pub(super) wall_was_set: bool,
    /// The source of all chance.
    pub(super) rng: fastrand::Rng,
    /// What can go wrong now, and how often.
    pub(super) faults: Faults,
    /// The container runtime and its processes.
    pub(super) node: Node,
    /// The checkpoints.
    pub(super) disk: Disk,
    /// What the sources hold, and what they said.
    pub(super) manifests: Manifests,
    /// What the agent is held to.
    pub(super) oracle: Oracle,
    /// Calls without an answer so far.
    pub(super) calls: BTreeMap<u64, InFlight>,
    /// Calls of workers so far.
    pub(super) call_count: u64,
    /// Hooks that are under way.
    pub(super) hooking: usize,
    /// Probes that are under way.
    pub(super) probing: usize,
    /// The agent that lives; calls of any other have no effect.
    pub(super) agent: Option<u32>,
    /// Agents so far.
    pub(super) agents: u32,
    /// The inbox of the agent that lives.
    pub(super) inbox: Option<Sender<Event>>,
    /// The agent's timers, by their place in the queue.
    pub(super) timers: BTreeSet<When>,
    /// The agent is to be killed after so many more polls of its tasks.
    pub(super) kill_after: Option<(u32, PowerCut)>,
    /// The next agent is to be started.
    pub(super) boots: bool,
    /// What was broken first.
    pub(super) broken: Option<String>,
    queue: BTreeMap<When, Happening>,
    scheduled: u64,
    trace: Trace,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let faults = Faults::draw(&mut rng);
        let manifests = Manifests::draw(&mut rng);
        let node = Node { sends_stop_signals: rng.bool(), ..Node::default() };
        Self {
            now: Duration::ZERO,
            // The end of 2025.
            wall_offset: SignedDuration::from_secs(1_767_000_000),
            wall_was_set: false,
            rng,
            faults,
            node,
            disk: Disk::default(),
            manifests,
            oracle: Oracle::default(),
            calls: BTreeMap::new(),
            call_count: 0,
            hooking: 0,
            probing: 0,
            agent: None,
            agents: 0,
            inbox: None,
            timers: BTreeSet::new(),
            kill_after: None,
            boots: false,
            broken: None,
            queue: BTreeMap::new(),
            scheduled: 0,
            trace: Trace(DefaultHasher::new()),
        }
    }

    /// The time of day.
    pub(super) fn wall(&self) -> Timestamp {
        let since = self.wall_offset + SignedDuration::try_from(self.now).unwrap();
        Timestamp::UNIX_EPOCH.checked_add(since).unwrap()
    }

    /// Lets something happen after a while.
    pub(super) fn after(
        &mut self,
        wait: Duration,
        happening: impl FnOnce(&mut World) + Send + 'static,
    ) -> When {
        self.scheduled += 1;
        // A coarse grid: much happens at the same moment.
        let steps = (self.now + wait).as_nanos().div_ceil(GRID.as_nanos());
        let when = (GRID * u32::try_from(steps).unwrap(), self.scheduled);
        self.queue.insert(when, Box::new(happening));
        when
    }

    /// It does not happen after all.
    pub(super) fn cancel(&mut self, when: &When) {
        self.queue.remove(when);
        self.timers.remove(when);
    }

    /// Ends the waits of an agent that is dead.
    pub(super) fn expire_timers(&mut self) {
        for when in std::mem::take(&mut self.timers) {
            if let Some(happening) = self.queue.remove(&when) {
                happening(self);
            }
        }
    }

    /// Lets the next thing happen, if it is due before `until`; time jumps there.
    pub(super) fn advance(&mut self, until: Duration) -> bool {
        match self.queue.first_key_value() {
            Some(((at, _), _)) if *at <= until => {}
            _ => {
                self.now = self.now.max(until);
                return false;
            }
        }
        let (when, happening) = self.queue.pop_first().unwrap();
        self.timers.remove(&when);
        self.now = self.now.max(when.0);
        happening(self);
        // What happens at the same moment is often seen together.
        if self.queue.first_key_value().is_some_and(|((at, _), _)| *at == self.now) && self.rng.bool() {
            self.advance(until);
        }
        true
    }

    /// True with this probability.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.rng.f64() < probability
    }

    /// A duration between these, in milliseconds.
    pub(super) fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.rng.u64(from..=to))
    }

    /// Adds a line to the trace.
    pub(super) fn note(&mut self, line: fmt::Arguments<'_>) {
        let now = self.now;
        let _ = write!(self.trace, "{now:?} {line}");
        tracing::info!(target: "simulation", "{now:?} {line}");
    }

    /// Something that must always hold does not.
    pub(super) fn violate(&mut self, rule: &str, what: impl fmt::Display) {
        let text = format!("{rule}: {what}");
        tracing::error!(target: "simulation", "{:?} VIOLATION {text}", self.now);
        self.broken.get_or_insert(text);
    }

    /// What tells the course of this world from every other.
    pub(super) fn trace_hash(&self) -> u64 {
        self.trace.0.finish()
    }
}

/// The course of the world, as one number.
struct Trace(DefaultHasher);

impl fmt::Write for Trace {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

impl Sim {
    pub(super) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(World::new(seed))))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sim")
    }
}

/// Where an answer is put, and who waits for it.
pub(super) struct Slot<T>(Arc<Mutex<(Option<T>, Option<Waker>)>>);

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new((None, None))))
    }
}

impl<T> Slot<T> {
    /// Puts the answer there.
    pub(super) fn fill(&self, value: T) {
        let mut slot = self.0.lock().unwrap();
        slot.0 = Some(value);
        if let Some(waker) = slot.1.take() {
            waker.wake();
        }
    }

    /// Takes the answer, or waits for it.
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<T> {
        let mut slot = self.0.lock().unwrap();
        match slot.0.take() {
            Some(value) => Poll::Ready(value),
            None => {
                slot.1 = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// The clock of one agent: its uptime begins with it.
#[derive(Debug)]
pub(super) struct SimClock {
    pub(super) sim: Sim,
    pub(super) agent: u32,
    pub(super) started_at: Duration,
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        self.sim.lock().wall()
    }

    fn uptime(&self) -> Duration {
        self.sim.lock().now - self.started_at
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        Box::pin(sleep(self.sim.clone(), Some(self.agent), duration))
    }
}

/// Waits in virtual time, as a timer of this agent, or of the simulation itself.
pub(super) async fn sleep(sim: Sim, agent: Option<u32>, duration: Duration) {
    let slot = Slot::default();
    if agent.is_some() && sim.lock().agent != agent {
        // The agent is dead: its tasks are only being cleared away, each in its turn.
        return future::yield_now().await;
    }
    let when = {
        let mut world = sim.lock();
        let filled = slot.clone();
        let when = world.after(duration, move |_| filled.fill(()));
        if agent.is_some() {
            world.timers.insert(when);
        }
        when
    };
    let _cancel = OnDrop(|| sim.lock().cancel(&when));
    std::future::poll_fn(|context| slot.poll(context)).await;
}

/// Does something when it is dropped.
pub(super) struct OnDrop<F: FnMut()>(pub(super) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
