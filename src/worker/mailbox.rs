//! The worker's side of its mailbox: one message, the newest whole desired state.

use async_channel::Receiver;

use crate::plan::Desired;

/// Nobody will send any more.
#[derive(Debug)]
pub(super) struct Closed;

/// A mailbox that can be looked into while something else goes on.
#[derive(Debug)]
pub(super) struct Mailbox {
    inbox: Receiver<Desired>,
    /// Received while waiting for something else.
    held: Option<Desired>,
}

impl Mailbox {
    /// A mailbox that nothing was taken from yet.
    pub(super) fn new(inbox: Receiver<Desired>) -> Self {
        Self { inbox, held: None }
    }

    /// The worker is dismissed: another one may work for the name by now.
    pub(super) fn is_closed(&self) -> bool {
        self.inbox.is_closed()
    }

    /// The newest desired state, if one has come.
    pub(super) fn take(&mut self) -> Option<Desired> {
        self.inbox.try_recv().ok().or_else(|| self.held.take()).inspect(|_| self.held = None)
    }

    /// Waits for a desired state; `None` when the worker is dismissed, whatever was sent before.
    pub(super) async fn next(&mut self) -> Option<Desired> {
        let next = match self.take() {
            Some(desired) => Some(desired),
            None => self.inbox.recv().await.ok(),
        };
        next.filter(|_| !self.is_closed())
    }

    /// As [`Mailbox::next`], in the form that a race with a timer wants.
    pub(super) async fn receive(&mut self) -> Result<Option<Desired>, Closed> {
        self.next().await.map(Some).ok_or(Closed)
    }

    /// A desired state that wants something else has come.
    pub(super) fn has_other_than(&mut self, desired: &Desired) -> bool {
        self.held = self.take();
        self.held.as_ref().is_some_and(|held| !held.want.same_as(&desired.want))
    }

    /// Waits until a desired state comes that wants something else, or until nobody can send any more.
    pub(super) async fn other_than(&mut self, desired: &Desired) {
        while !self.has_other_than(desired) {
            match self.inbox.recv().await {
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
        let (sender, receiver) = async_channel::bounded(1);
        let mut mailbox = Mailbox::new(receiver);
        let run = |generation, hash| Desired {
            generation,
            want: Want::Run(Arc::new(pod("p", hash))),
            blocked_on: vec![],
        };
        let stop = Desired { generation: 3, want: Want::Stop { grace: None }, blocked_on: vec![] };
        let (a, b) = (run(1, "a"), run(2, "b"));
        assert!(!mailbox.has_other_than(&a));
        sender.force_send(a.clone()).unwrap();
        assert!(!mailbox.has_other_than(&a), "the same desired state");
        sender.force_send(b.clone()).unwrap();
        sender.force_send(stop.clone()).unwrap();
        assert!(mailbox.has_other_than(&a));
        assert_eq!(mailbox.take(), Some(stop.clone()));
        assert_eq!(mailbox.take(), None);
        sender.force_send(b.clone()).unwrap();
        smol::block_on(mailbox.other_than(&a));
        assert_eq!(smol::block_on(mailbox.next()), Some(b));
        sender.force_send(stop).unwrap();
        drop(sender);
        assert_eq!(smol::block_on(mailbox.next()), None, "a desired state from before the dismissal");
    }
}
