//! The slots of a port: how many connections it serves at a time, and which one makes room for another.

use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Connections that one port serves at a time; more wait in the kernel's queue.
pub(super) const SLOTS: usize = 16;

/// How long a client may send nothing that is awaited while another one waits for its slot.
const IDLE_WITHIN: Duration = Duration::from_millis(100);

/// How long to wait for a slot when no connection is idle: one that turns idle, or ends, is noticed at once.
const LOOK_AGAIN: Duration = Duration::from_secs(20);

/// The connections of one port. Invariant: no more than [`SLOTS`].
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// In the order in which they came.
    taken: Mutex<Vec<OpenConnection>>,
    freed: Condvar,
}

/// A connection that has a slot.
#[derive(Debug)]
struct OpenConnection {
    stream: Arc<TcpStream>,
    /// Since when it is the client's turn to send or to close. None while we work for it.
    idle_since: Option<Instant>,
}

/// The slot of one connection; given back when dropped, also by a panic.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    slots: Arc<Slots>,
    stream: Arc<TcpStream>,
}

/// What to do for a connection when all slots are taken.
#[derive(Debug, PartialEq, Eq)]
enum MakeRoom {
    /// Close the connection at this index.
    Close(usize),
    /// Wait until a slot is free, and look again after this time.
    Wait(Option<Duration>),
}

/// Decides which connection gives up its slot: the one that has been idle for longest, if that is long enough.
fn make_room(idle_for: impl Iterator<Item = Option<Duration>>) -> MakeRoom {
    let idle = idle_for.enumerate().filter_map(|(index, idle)| Some((idle?, index)));
    // Of two that are idle for the same time the first came first.
    match idle.max_by_key(|(idle, index)| (*idle, std::cmp::Reverse(*index))) {
        Some((idle, index)) if idle >= IDLE_WITHIN => MakeRoom::Close(index),
        Some((idle, _)) => MakeRoom::Wait(Some(IDLE_WITHIN - idle)),
        None => MakeRoom::Wait(None),
    }
}

impl Slots {
    /// Takes a slot for a connection, from an idle one if need be. It comes: every connection has deadlines.
    pub(super) fn take(slots: &Arc<Self>, stream: Arc<TcpStream>) -> ConnectionSlot {
        let mut taken = slots.lock();
        while taken.len() >= SLOTS {
            let now = Instant::now();
            let idle_for =
                |c: &OpenConnection| c.idle_since.map(|since| now.saturating_duration_since(since));
            let within = match make_room(taken.iter().map(idle_for)) {
                MakeRoom::Close(index) => {
                    // Its thread sees the end of the stream, and frees the slot.
                    let _ = taken[index].stream.shutdown(Shutdown::Both);
                    taken[index].idle_since = None;
                    None
                }
                MakeRoom::Wait(within) => within,
            };
            let within = within.unwrap_or(LOOK_AGAIN);
            let waited = slots.freed.wait_timeout(taken, within);
            taken = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
        taken.push(OpenConnection { stream: stream.clone(), idle_since: Some(Instant::now()) });
        ConnectionSlot { slots: slots.clone(), stream }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<OpenConnection>> {
        self.taken.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl ConnectionSlot {
    /// Notes whether it is the client's turn.
    pub(super) fn set_idle(&self, is_idle: bool) {
        let mut taken = self.slots.lock();
        if let Some(own) = taken.iter_mut().find(|c| Arc::ptr_eq(&c.stream, &self.stream)) {
            own.idle_since = is_idle.then(Instant::now);
        }
        // Whoever waits for a slot may have one to take now.
        self.slots.freed.notify_one();
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.slots.lock().retain(|c| !Arc::ptr_eq(&c.stream, &self.stream));
        self.slots.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_idle_gives_up_its_slot() {
        let ms = Duration::from_millis;
        let cases = [
            (vec![None, None], MakeRoom::Wait(None)),
            (vec![None, Some(ms(40)), Some(ms(30))], MakeRoom::Wait(Some(ms(60)))),
            (vec![None, Some(ms(100)), Some(ms(30))], MakeRoom::Close(1)),
            (vec![Some(ms(200)), Some(ms(300))], MakeRoom::Close(1)),
            (vec![Some(ms(300)), Some(ms(300))], MakeRoom::Close(0)),
        ];
        for (idle, expect) in cases {
            assert_eq!(make_room(idle.iter().copied()), expect, "{idle:?}");
        }
    }
}
