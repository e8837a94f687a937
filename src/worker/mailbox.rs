//! The mailbox of a worker: one message, the newest whole desired state.
//!
//! A slot of its own rather than a channel: every pod has one, and a channel takes seven times the memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use futures_lite::future;

use crate::plan::{Desired, Starts};

/// Nobody will send any more.
#[derive(Debug)]
pub(super) struct Closed;

/// What is between a worker and whoever tells it what is wanted.
#[derive(Debug, Default)]
struct MailboxSlot {
    newest: Option<Desired>,
    closed: bool,
    /// Wakes the worker that waits.
    waker: Option<Waker>,
}

#[derive(Debug, Clone, Default)]
struct SharedSlot(Arc<Mutex<MailboxSlot>>);

impl SharedSlot {
    fn lock(&self) -> MutexGuard<'_, MailboxSlot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the slot, and wakes the worker.
    fn change(&self, change: impl FnOnce(&mut MailboxSlot)) {
        let mut slot = self.lock();
        change(&mut slot);
        let waker = slot.waker.take();
        drop(slot);
        waker.into_iter().for_each(Waker::wake);
    }
}

/// Puts messages into a mailbox, and closes it when dropped.
#[derive(Debug)]
pub(super) struct MailboxSender(SharedSlot);

impl MailboxSender {
    /// Sends a desired state, in place of one that was not taken yet.
    pub(super) fn send(&self, desired: Desired) {
        self.0.change(|slot| slot.newest = Some(desired));
    }
}

impl Drop for MailboxSender {
    fn drop(&mut self) {
        self.0.change(|slot| slot.closed = true);
    }
}

/// A mailbox that can be looked into while something else goes on.
#[derive(Debug)]
pub(super) struct Mailbox {
    slot: SharedSlot,
    /// Received while waiting for something else.
    held: Option<Desired>,
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        // A waker keeps the memory of the worker's task.
        self.slot.lock().waker = None;
    }
}

impl Mailbox {
    /// An empty mailbox, and its address.
    pub(super) fn new() -> (MailboxSender, Self) {
        let slot = SharedSlot::default();
        (MailboxSender(slot.clone()), Self { slot, held: None })
    }

    /// The worker is dismissed: another one may work for the name by now.
    pub(super) fn is_closed(&self) -> bool {
        self.slot.lock().closed
    }

    /// The newest desired state, if one has come.
    pub(super) fn take(&mut self) -> Option<Desired> {
        let newest = self.slot.lock().newest.take();
        newest.or_else(|| self.held.take()).inspect(|_| self.held = None)
    }

    /// Waits for a desired state; `None` when the worker is dismissed, whatever was sent before.
    pub(super) async fn next(&mut self) -> Option<Desired> {
        let next = match self.take() {
            Some(desired) => Some(desired),
            None => self.receive_newest().await.ok(),
        };
        next.filter(|_| !self.is_closed())
    }

    /// Waits for a message that was not taken yet; those that were sent before the end come first.
    async fn receive_newest(&mut self) -> Result<Desired, Closed> {
        future::poll_fn(|context| {
            let mut slot = self.slot.lock();
            match slot.newest.take() {
                Some(newest) => Poll::Ready(Ok(newest)),
                None if slot.closed => Poll::Ready(Err(Closed)),
                None => {
                    slot.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// As [`Mailbox::next`], in the form that a race with a timer wants.
    pub(super) async fn receive(&mut self) -> Result<Option<Desired>, Closed> {
        self.next().await.map(Some).ok_or(Closed)
    }

    /// A desired state that wants something else has come, or one that forbids what is being started.
    pub(super) fn has_other_than(&mut self, desired: &Desired) -> bool {
        self.held = self.take();
        self.held.as_ref().is_some_and(|held| {
            let refused = held.starts != Starts::Allowed && desired.starts == Starts::Allowed;
            !held.want.same_as(&desired.want) || refused
        })
    }

    /// Waits until a desired state comes that wants something else, or until nobody can send any more.
    pub(super) async fn other_than(&mut self, desired: &Desired) {
        while !self.has_other_than(desired) {
            match self.receive_newest().await {
                Ok(newer) => self.held = Some(newer),
                Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::plan::Want;
    use crate::pod::testing::pod;

    #[test]
    fn the_newest_desired_state_counts_and_a_repeated_one_interrupts_nothing() {
        let (sender, mut mailbox) = Mailbox::new();
        let run = |generation, hash| Desired {
            generation,
            want: Want::Run(Arc::new(pod("p", hash))),
            blocked_on: vec![],
            starts: Starts::Allowed,
            restarts: Default::default(),
            objects: None,
        };
        let want = Want::Stop { grace: None };
        let stop = Desired {
            generation: 3,
            want,
            blocked_on: vec![],
            starts: Starts::Allowed,
            restarts: Default::default(),
            objects: None,
        };
        let (a, b) = (run(1, "a"), run(2, "b"));
        assert!(!mailbox.has_other_than(&a));
        sender.send(a.clone());
        assert!(!mailbox.has_other_than(&a), "the same desired state");
        let refused = Desired { starts: Starts::Refused("another key".into()), ..a.clone() };
        sender.send(refused.clone());
        assert!(mailbox.has_other_than(&a), "what is being started may not be");
        assert!(!mailbox.has_other_than(&refused));
        sender.send(b.clone());
        sender.send(stop.clone());
        assert!(mailbox.has_other_than(&a));
        assert_eq!(mailbox.take(), Some(stop.clone()));
        assert_eq!(mailbox.take(), None);
        sender.send(b.clone());
        smol::block_on(mailbox.other_than(&a));
        assert_eq!(smol::block_on(mailbox.next()), Some(b));
        sender.send(stop);
        drop(sender);
        assert_eq!(smol::block_on(mailbox.next()), None, "a desired state from before the dismissal");
    }

    #[test]
    fn a_message_and_the_end_wake_the_worker_that_waits() {
        let stop = |generation| Desired {
            generation,
            want: Want::Stop { grace: None },
            blocked_on: vec![],
            starts: Starts::Allowed,
            restarts: Default::default(),
            objects: None,
        };
        let (sender, mut mailbox) = Mailbox::new();
        // The wait begins first: the message finds a waker.
        let sent = async { sender.send(stop(1)) };
        let (received, ()) = smol::block_on(future::zip(mailbox.next(), sent));
        assert_eq!(received, Some(stop(1)));
        let dropped = async { drop(sender) };
        let (received, ()) = smol::block_on(future::zip(mailbox.next(), dropped));
        assert_eq!(received, None);
        assert!(mailbox.is_closed());
    }

    #[test]
    fn a_worker_that_has_ended_is_not_kept_by_its_address() {
        let (sender, mut mailbox) = Mailbox::new();
        assert!(smol::block_on(future::poll_once(mailbox.next())).is_none());
        assert!(sender.0.lock().waker.is_some());
        drop(mailbox);
        assert!(sender.0.lock().waker.is_none());
    }
}
