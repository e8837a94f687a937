//! Turns: so many at a time, those that matter more first, and else first come, first served.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_channel::Sender;

/// Gives out turns by priority, and then in the order in which they are asked for. (smol's semaphore knows neither.)
#[derive(Debug, Clone)]
pub(crate) struct Turns(Arc<Mutex<Queue>>);

#[derive(Debug)]
struct Queue {
    free: usize,
    /// How many have waited so far.
    count: u64,
    /// By priority and number.
    waiting: BTreeMap<(Reverse<i32>, u64), Sender<Turn>>,
}

/// A turn; dropped, it is the next one's.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Turns,
    /// Somebody else was first, so the world may have changed.
    pub(super) waited: bool,
}

impl Turns {
    /// As many turns at a time as this.
    pub(crate) fn new(width: usize) -> Self {
        Self(Arc::new(Mutex::new(Queue { free: width, count: 0, waiting: BTreeMap::new() })))
    }

    /// Waits for a turn. Whoever gives up waiting loses nobody's turn.
    pub(crate) async fn take(&self, priority: i32) -> Turn {
        let (given, taken) = async_channel::bounded(1);
        {
            let mut queue = self.lock();
            if queue.free > 0 {
                queue.free -= 1;
                return Turn { turns: self.clone(), waited: false };
            }
            queue.count += 1;
            let number = queue.count;
            queue.waiting.insert((Reverse(priority), number), given);
        }
        match taken.recv().await {
            Ok(turn) => turn,
            // The queue keeps its end of the channel until it has given the turn.
            Err(_) => std::future::pending().await,
        }
    }

    fn give(&self) {
        let mut queue = self.lock();
        while let Some((_, next)) = queue.waiting.pop_first() {
            if next.is_closed() {
                continue;
            }
            drop(queue);
            // One that nobody takes comes back here when it is dropped.
            let _ = next.try_send(Turn { turns: self.clone(), waited: true });
            return;
        }
        queue.free += 1;
    }

    fn is_idle(&self) -> bool {
        let queue = self.lock();
        queue.free > 0 && queue.waiting.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.give();
    }
}

/// One turn at a time for each name.
#[derive(Debug, Default)]
pub(super) struct TurnsByName(Mutex<BTreeMap<String, Turns>>);

impl TurnsByName {
    /// Waits for a turn at a name.
    pub(super) async fn take(&self, name: &str) -> Turn {
        let turns = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Names that nobody is at are not kept; one that is being asked for has a second owner.
            all.retain(|_, turns| !turns.is_idle() || Arc::strong_count(&turns.0) > 1);
            all.entry(name.to_owned()).or_insert_with(|| Turns::new(1)).clone()
        };
        turns.take(0).await
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;

    use futures_lite::future::{block_on, poll_once};

    use super::*;

    /// Whether the future is done.
    fn poll(future: &mut Pin<Box<impl Future<Output = Turn>>>) -> Option<Turn> {
        block_on(poll_once(future.as_mut()))
    }

    #[test]
    fn first_come_first_served() {
        let turns = Turns::new(2);
        let first = block_on(turns.take(0));
        let second = block_on(turns.take(0));
        assert!(!first.waited && !second.waited);
        let mut third = Box::pin(turns.take(0));
        let mut fourth = Box::pin(turns.take(0));
        assert!(poll(&mut third).is_none() && poll(&mut fourth).is_none());
        drop(second);
        // It was promised before the newcomer asked.
        let mut newcomer = Box::pin(turns.take(0));
        assert!(poll(&mut newcomer).is_none());
        assert!(poll(&mut fourth).is_none());
        assert!(poll(&mut third).is_some_and(|turn| turn.waited), "and given back at once");
        assert!(poll(&mut fourth).is_some());
        assert!(poll(&mut newcomer).is_some());
        drop(first);
        assert!(turns.is_idle());
    }

    #[test]
    fn who_matters_more_is_next() {
        let turns = Turns::new(1);
        let first = block_on(turns.take(0));
        let mut waiting: Vec<_> = [0, 7, -1, 7, 0].map(|priority| Box::pin(turns.take(priority))).into();
        assert!(waiting.iter_mut().all(|waiter| poll(waiter).is_none()));
        drop(first);
        for next in [1, 3, 0, 4, 2] {
            let served: Vec<_> = waiting.iter_mut().map(poll).collect();
            let served: Vec<_> = served.iter().map(Option::is_some).collect();
            assert_eq!(served.iter().position(|is| *is), Some(next), "{served:?}");
            assert_eq!(served.iter().filter(|is| **is).count(), 1, "{served:?}");
            waiting[next] = Box::pin(turns.take(i32::MIN));
            assert!(poll(&mut waiting[next]).is_none());
        }
    }

    #[test]
    fn one_who_gives_up_takes_no_turn_along() {
        let turns = Turns::new(1);
        let first = block_on(turns.take(0));
        let (mut gone, mut late) = (Box::pin(turns.take(0)), Box::pin(turns.take(0)));
        assert!(poll(&mut gone).is_none() && poll(&mut late).is_none());
        drop(gone);
        let mut last = Box::pin(turns.take(0));
        assert!(poll(&mut last).is_none());
        drop(first);
        // The turn is on its way to one who leaves without it.
        drop(late);
        assert!(poll(&mut last).is_some());
        assert!(turns.is_idle());
    }

    #[test]
    fn names_are_apart_and_forgotten() {
        let turns = TurnsByName::default();
        let a = block_on(turns.take("a"));
        let b = block_on(turns.take("b"));
        let mut again = Box::pin(turns.take("a"));
        assert!(poll(&mut again).is_none());
        drop(b);
        drop(a);
        assert!(poll(&mut again).is_some());
        drop(again);
        let _c = block_on(turns.take("c"));
        assert_eq!(turns.0.lock().unwrap().len(), 1);
    }
}
