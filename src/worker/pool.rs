//! The workers of the node, one per pod name, and their mailboxes.

use std::collections::BTreeMap;

use async_channel::Sender;

use super::{Context, run_pod_worker};
use crate::plan::Desired;
use crate::plan::checkpoint::Remembered;
use crate::pod::PodName;
use crate::sync::sync_loop::Command;

/// Carries out what the sync loop wants done.
#[derive(Debug)]
pub(crate) struct WorkerPool {
    context: Context,
    mailboxes: BTreeMap<PodName, Sender<Desired>>,
    /// What an earlier agent remembered, for the first worker of each name.
    remembered: BTreeMap<PodName, Remembered>,
}

impl WorkerPool {
    /// A pool without workers.
    pub(crate) fn new(context: Context, remembered: BTreeMap<PodName, Remembered>) -> Self {
        Self { context, mailboxes: BTreeMap::new(), remembered }
    }

    /// Tells or dismisses a worker; one that is told something and does not exist is started.
    pub(crate) fn apply(&mut self, command: Command) {
        match command {
            Command::Tell(name, desired) => {
                let Self { context, mailboxes, remembered } = self;
                let mailbox = mailboxes.entry(name.clone()).or_insert_with(|| {
                    let (mailbox, inbox) = async_channel::bounded(1);
                    // Only the first worker of a name has a past: the last one of a name leaves none.
                    let Remembered { checkpoint, .. } = remembered.remove(&name).unwrap_or_default();
                    let worker = run_pod_worker(context.clone(), name, inbox, checkpoint);
                    context.handles.spawn(worker);
                    mailbox
                });
                // A worker reads until its mailbox is closed, which only happens below.
                let _ = mailbox.force_send(desired);
            }
            Command::Dismiss(name) => {
                self.mailboxes.remove(&name);
            }
        }
    }
}
