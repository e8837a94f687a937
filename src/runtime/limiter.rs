//! Limits how many do something at the same time: higher priority first, then in the order of asking.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_channel::Sender;
use futures_lite::future;
use smol::Timer;

/// Gives out permits by priority, and then in the order in which they are asked for. (smol's semaphore knows neither.)
#[derive(Debug, Clone)]
pub(crate) struct PriorityLimiter(Arc<Mutex<Queue>>);

#[derive(Debug)]
struct Queue {
    free: usize,
    /// How many have waited so far.
    count: u64,
    /// By priority and number.
    waiting: BTreeMap<(Reverse<i32>, u64), Sender<Permit>>,
}

/// The right to go on; dropped, it goes to the next one.
#[derive(Debug)]
pub(crate) struct Permit {
    limiter: PriorityLimiter,
    /// Somebody else was first, so the world may have changed.
    pub(super) waited: bool,
}

impl PriorityLimiter {
    /// As many permits at a time as this.
    pub(crate) fn new(width: usize) -> Self {
        Self(Arc::new(Mutex::new(Queue { free: width, count: 0, waiting: BTreeMap::new() })))
    }

    /// Waits for a permit. Giving up the wait costs nobody else a permit.
    pub(crate) async fn acquire(&self, priority: i32) -> Permit {
        let (given, taken) = async_channel::bounded(1);
        {
            let mut queue = self.lock();
            if queue.free > 0 {
                queue.free -= 1;
                return Permit { limiter: self.clone(), waited: false };
            }
            queue.count += 1;
            let number = queue.count;
            queue.waiting.insert((Reverse(priority), number), given);
        }
        match taken.recv().await {
            Ok(permit) => permit,
            // The queue keeps its end of the channel until it has given the permit.
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
            let _ = next.try_send(Permit { limiter: self.clone(), waited: true });
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

impl Drop for Permit {
    fn drop(&mut self) {
        self.limiter.give();
    }
}

/// One permit at a time for each name.
#[derive(Debug, Default)]
pub(super) struct PermitsByName(Mutex<BTreeMap<String, PriorityLimiter>>);

impl PermitsByName {
    /// Waits for the permit of a name.
    pub(super) async fn acquire(&self, name: &str) -> Permit {
        let permits = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Names without a holder are dropped; one that is being asked for has a second owner.
            all.retain(|_, permits| !permits.is_idle() || Arc::strong_count(&permits.0) > 1);
            all.entry(name.to_owned()).or_insert_with(|| PriorityLimiter::new(1)).clone()
        };
        permits.acquire(0).await
    }
}

/// Does work that needs a permit, and releases the permit after a while: a call that hangs keeps nobody else out.
pub(super) async fn hold_permit<T>(
    permit: impl Sized,
    longest: Duration,
    work: impl Future<Output = T>,
) -> T {
    let release = async {
        Timer::after(longest).await;
        drop(permit);
        future::pending().await
    };
    future::or(work, release).await
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;

    use futures_lite::future::{block_on, poll_once};

    use super::*;

    /// Whether the future is done.
    fn poll(future: &mut Pin<Box<impl Future<Output = Permit>>>) -> Option<Permit> {
        block_on(poll_once(future.as_mut()))
    }

    #[test]
    fn a_call_that_hangs_releases_its_permit_and_goes_on() {
        let limiter = PriorityLimiter::new(1);
        smol::block_on(async {
            let (done, finished) = async_channel::bounded::<&str>(1);
            let permit = limiter.acquire(0).await;
            let hung = hold_permit(permit, Duration::from_millis(10), finished.recv());
            let next = async {
                let _permit = limiter.acquire(0).await;
                done.send("after all").await
            };
            let (hung, _) = future::zip(hung, next).await;
            assert_eq!(hung, Ok("after all"));
        });
    }

    #[test]
    fn first_come_first_served() {
        let permits = PriorityLimiter::new(2);
        let first = block_on(permits.acquire(0));
        let second = block_on(permits.acquire(0));
        assert!(!first.waited && !second.waited);
        let mut third = Box::pin(permits.acquire(0));
        let mut fourth = Box::pin(permits.acquire(0));
        assert!(poll(&mut third).is_none() && poll(&mut fourth).is_none());
        drop(second);
        // It was promised before the newcomer asked.
        let mut newcomer = Box::pin(permits.acquire(0));
        assert!(poll(&mut newcomer).is_none());
        assert!(poll(&mut fourth).is_none());
        assert!(poll(&mut third).is_some_and(|permit| permit.waited), "and given back at once");
        assert!(poll(&mut fourth).is_some());
        assert!(poll(&mut newcomer).is_some());
        drop(first);
        assert!(permits.is_idle());
    }

    #[test]
    fn higher_priority_is_next() {
        let permits = PriorityLimiter::new(1);
        let first = block_on(permits.acquire(0));
        let mut waiting: Vec<_> = [0, 7, -1, 7, 0].map(|priority| Box::pin(permits.acquire(priority))).into();
        assert!(waiting.iter_mut().all(|waiter| poll(waiter).is_none()));
        drop(first);
        for next in [1, 3, 0, 4, 2] {
            let served: Vec<_> = waiting.iter_mut().map(poll).collect();
            let served: Vec<_> = served.iter().map(Option::is_some).collect();
            assert_eq!(served.iter().position(|is| *is), Some(next), "{served:?}");
            assert_eq!(served.iter().filter(|is| **is).count(), 1, "{served:?}");
            waiting[next] = Box::pin(permits.acquire(i32::MIN));
            assert!(poll(&mut waiting[next]).is_none());
        }
    }

    #[test]
    fn giving_up_loses_no_permit() {
        let permits = PriorityLimiter::new(1);
        let first = block_on(permits.acquire(0));
        let (mut gone, mut late) = (Box::pin(permits.acquire(0)), Box::pin(permits.acquire(0)));
        assert!(poll(&mut gone).is_none() && poll(&mut late).is_none());
        drop(gone);
        let mut last = Box::pin(permits.acquire(0));
        assert!(poll(&mut last).is_none());
        drop(first);
        // The permit is on its way to one that gives up.
        drop(late);
        assert!(poll(&mut last).is_some());
        assert!(permits.is_idle());
    }

    #[test]
    fn names_are_apart_and_forgotten() {
        let permits = PermitsByName::default();
        let a = block_on(permits.acquire("a"));
        let b = block_on(permits.acquire("b"));
        let mut again = Box::pin(permits.acquire("a"));
        assert!(poll(&mut again).is_none());
        drop(b);
        drop(a);
        assert!(poll(&mut again).is_some());
        drop(again);
        let _c = block_on(permits.acquire("c"));
        assert_eq!(permits.0.lock().unwrap().len(), 1);
    }
}
