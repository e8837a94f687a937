//! Where the newest view of the node is found, and how its changes are awaited.
//!
//! Whoever shows something of the agent subscribes here: the sync loop knows none of them.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use async_channel::{Receiver, Sender, TrySendError};

use super::view::View;

/// Where the newest [`View`] is found, and how its changes are awaited.
#[derive(Debug, Clone, Default)]
pub(crate) struct Published(Arc<PublishedState>);

#[derive(Debug, Default)]
struct PublishedState {
    view: RwLock<Arc<View>>,
    /// One mailbox per watch, which holds a message if the view has changed.
    watches: Mutex<Vec<Sender<()>>>,
}

/// Waits for changes of the view. Changes that come while nobody waits count as one.
#[derive(Debug)]
pub(crate) struct ViewWatch(Receiver<()>);

impl ViewWatch {
    /// Waits until the view has changed since the last call, or since the watch began.
    pub(crate) async fn changed(&mut self) {
        if self.0.recv().await.is_err() {
            // The view is gone, and with it everything that could change.
            std::future::pending().await
        }
    }
}

impl Published {
    /// The newest view.
    pub(crate) fn load(&self) -> Arc<View> {
        // An agent that panics ends: a poisoned lock is never seen.
        self.0.view.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the view, for all who load it from now on. Copies it only if somebody still reads it.
    pub(crate) fn update(&self, change: impl FnOnce(&mut View)) {
        change(Arc::make_mut(&mut self.0.view.write().unwrap_or_else(PoisonError::into_inner)));
        let mut watches = self.0.watches.lock().unwrap_or_else(PoisonError::into_inner);
        // A mailbox that is full tells of this change too; one that is closed is forgotten.
        watches.retain(|watch| !matches!(watch.try_send(()), Err(TrySendError::Closed(()))));
    }

    /// Watches for changes from now on.
    pub(crate) fn watch(&self) -> ViewWatch {
        let (watch, changes) = async_channel::bounded(1);
        self.0.watches.lock().unwrap_or_else(PoisonError::into_inner).push(watch);
        ViewWatch(changes)
    }
}

#[cfg(test)]
mod tests {
    use futures_lite::future::{block_on, poll_once};

    use super::*;

    #[test]
    fn changes_are_told_once_however_many() {
        let view = Published::default();
        let (mut watch, early) = (view.watch(), view.watch());
        assert!(block_on(poll_once(watch.changed())).is_none(), "nothing has changed yet");
        view.update(|view| view.settled = false);
        view.update(|view| view.settled = true);
        assert!(view.load().settled, "the newest view");
        assert!(block_on(poll_once(watch.changed())).is_some());
        assert!(block_on(poll_once(watch.changed())).is_none(), "both were told as one");
        drop(early);
        view.update(|view| view.settled = true);
        assert_eq!(view.0.watches.lock().unwrap().len(), 1, "a watch that is gone costs nothing");
        assert!(block_on(poll_once(watch.changed())).is_some());
    }
}
