//! The slots of a port: how many connections it serves at a time, and which one makes room for another.

use std::cmp::Reverse;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::timeout;

/// How long a client may send nothing that is awaited while another one waits for its slot.
const IDLE_WITHIN: Duration = Duration::from_millis(100);

/// How long a client may take nothing of what we send while another one waits for its slot.
const BLOCKED_WITHIN: Duration = Duration::from_secs(20);

/// How long to wait for a slot when no connection is idle: one that turns idle, or ends, is noticed at once.
const LOOK_AGAIN: Duration = Duration::from_secs(20);

/// The connections of one port. Invariant: no more than its width.
#[derive(Debug)]
pub(super) struct Slots {
    width: usize,
    /// In the order in which they came.
    taken: Mutex<Vec<Arc<Slot>>>,
    freed: Notify,
}

/// The slot of one connection.
#[derive(Debug, Default)]
pub(super) struct Slot {
    state: Mutex<SlotState>,
    closed: Notify,
}

#[derive(Debug, Clone, Copy, Default)]
struct SlotState {
    /// Since when it is the client's turn to send or to close. None while we work for it.
    idle_since: Option<Instant>,
    /// Since when the client takes nothing of what we send.
    blocked_since: Option<Instant>,
    /// Whether the response has no end that we know.
    is_streaming: bool,
}

/// A slot that is taken; given back when dropped, also by a panic.
#[derive(Debug)]
pub(super) struct TakenSlot {
    slots: Arc<Slots>,
    /// What is shared with the connection's parts.
    pub(super) slot: Arc<Slot>,
}

/// What to do for a connection when all slots are taken.
#[derive(Debug, PartialEq, Eq)]
enum MakeRoom {
    /// Close the connection at this index.
    Close(usize),
    /// Wait until a slot is free, and look again after this time.
    Wait(Option<Duration>),
}

/// For how long a connection has been overdue: it should have sent or taken something. Negative if it still has time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// For the client, with this much of its time left.
    Left(Duration),
    /// For the client, overdue for so long.
    Overdue(Duration),
    /// For us.
    Busy,
}

impl SlotState {
    fn waits(&self, now: Instant) -> Waits {
        let (since, within) = match (self.blocked_since, self.idle_since) {
            (Some(since), _) => (since, BLOCKED_WITHIN),
            (None, Some(since)) => (since, IDLE_WITHIN),
            (None, None) => return Waits::Busy,
        };
        let waited = now.saturating_duration_since(since);
        match waited.checked_sub(within) {
            Some(overdue) => Waits::Overdue(overdue),
            None => Waits::Left(within - waited),
        }
    }
}

/// Decides which connection gives up its slot: the one that is overdue for longest.
fn make_room(waits: impl Iterator<Item = Waits>) -> MakeRoom {
    let mut longest: Option<(Duration, Reverse<usize>)> = None;
    let mut soonest: Option<Duration> = None;
    for (index, waits) in waits.enumerate() {
        match waits {
            // Of two that are overdue for the same time the first came first.
            Waits::Overdue(overdue) => longest = longest.max(Some((overdue, Reverse(index)))),
            Waits::Left(left) => soonest = Some(soonest.map_or(left, |soonest| soonest.min(left))),
            Waits::Busy => {}
        }
    }
    longest.map_or(MakeRoom::Wait(soonest), |(_, Reverse(index))| MakeRoom::Close(index))
}

impl Slots {
    /// So many slots.
    pub(super) fn new(width: usize) -> Arc<Self> {
        Arc::new(Self { width, taken: Mutex::default(), freed: Notify::new() })
    }

    /// Takes a slot for a connection, from an idle one if need be.
    pub(super) async fn take(self: &Arc<Self>) -> TakenSlot {
        loop {
            let wait = {
                let mut taken = lock(&self.taken);
                if taken.len() < self.width {
                    let slot = Arc::new(Slot::default());
                    slot.set_idle(true);
                    taken.push(slot.clone());
                    return TakenSlot { slots: self.clone(), slot };
                }
                let now = Instant::now();
                match make_room(taken.iter().map(|slot| lock(&slot.state).waits(now))) {
                    MakeRoom::Close(index) => {
                        // Its task ends at the notice, wherever it waits; the slot is free from now on.
                        taken.remove(index).closed.notify_one();
                        continue;
                    }
                    MakeRoom::Wait(within) => within.unwrap_or(LOOK_AGAIN),
                }
            };
            let _ = timeout(wait, self.freed.notified()).await;
        }
    }
}

impl Slot {
    /// Notes whether it is the client's turn.
    pub(super) fn set_idle(&self, is_idle: bool) {
        let mut state = lock(&self.state);
        state.idle_since = is_idle.then(Instant::now);
        if is_idle {
            state.is_streaming = false;
        }
    }

    /// Notes that the response has no end that we know.
    pub(super) fn set_streaming(&self) {
        lock(&self.state).is_streaming = true;
    }

    /// Whether the response has no end that we know.
    pub(super) fn is_streaming(&self) -> bool {
        lock(&self.state).is_streaming
    }

    /// Notes whether the client takes nothing.
    pub(super) fn set_blocked(&self, is_blocked: bool) {
        lock(&self.state).blocked_since = is_blocked.then(Instant::now);
    }

    /// Waits until the connection must make room for another.
    pub(super) async fn closed(&self) {
        self.closed.notified().await;
    }
}

impl TakenSlot {
    /// Notes whether it is the client's turn, and tells whoever waits for a slot.
    pub(super) fn set_idle(&self, is_idle: bool) {
        self.slot.set_idle(is_idle);
        self.slots.freed.notify_one();
    }
}

impl Drop for TakenSlot {
    fn drop(&mut self) {
        lock(&self.slots.taken).retain(|slot| !Arc::ptr_eq(slot, &self.slot));
        self.slots.freed.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_overdue_gives_up_its_slot() {
        use Waits::{Busy, Left, Overdue};
        let ms = Duration::from_millis;
        for (waits, expect) in [
            (vec![Busy, Busy], MakeRoom::Wait(None)),
            (vec![Busy, Left(ms(60)), Left(ms(70))], MakeRoom::Wait(Some(ms(60)))),
            (vec![Busy, Overdue(ms(0)), Left(ms(70))], MakeRoom::Close(1)),
            (vec![Overdue(ms(100)), Overdue(ms(200))], MakeRoom::Close(1)),
            (vec![Overdue(ms(200)), Overdue(ms(200))], MakeRoom::Close(0)),
        ] {
            assert_eq!(make_room(waits.iter().copied()), expect, "{waits:?}");
        }
    }

    #[test]
    fn who_is_waited_for() {
        let now = Instant::now();
        let ago = |ms| Some(now - Duration::from_millis(ms));
        for (idle_since, blocked_since, expect) in [
            (None, None, Waits::Busy),
            (ago(40), None, Waits::Left(Duration::from_millis(60))),
            (ago(100), None, Waits::Overdue(Duration::ZERO)),
            (ago(500), ago(5_000), Waits::Left(Duration::from_secs(15))),
            (None, ago(21_000), Waits::Overdue(Duration::from_secs(1))),
        ] {
            let state = SlotState { idle_since, blocked_since, is_streaming: false };
            assert_eq!(state.waits(now), expect, "{idle_since:?} {blocked_since:?}");
        }
    }
}
