//! The workers of the node, one per pod name, and their mailboxes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::mailbox::{Mailbox, MailboxSender};
use super::{Context, run_pod_worker};
use crate::plan::checkpoint::Remembered;
use crate::pod::PodName;
use crate::sync::sync_loop::Command;

/// Carries out what the sync loop wants done.
#[derive(Debug)]
pub(crate) struct WorkerPool {
    context: Arc<Context>,
    addresses: BTreeMap<PodName, MailboxSender>,
    /// What an earlier agent remembered, for the first worker of each name.
    remembered: BTreeMap<PodName, Remembered>,
}

impl WorkerPool {
    /// A pool without workers.
    pub(crate) fn new(context: Context, remembered: BTreeMap<PodName, Remembered>) -> Self {
        Self { context: Arc::new(context), addresses: BTreeMap::new(), remembered }
    }

    /// Tells or dismisses a worker; one that is told something and does not exist is started.
    pub(crate) fn apply(&mut self, command: Command) {
        match command {
            Command::Tell(name, desired) => {
                let Self { context, addresses, remembered } = self;
                let address = addresses.entry(name.clone()).or_insert_with(|| {
                    let (address, mailbox) = Mailbox::new();
                    // Only the first worker of a name has a past: the last one of a name leaves none.
                    let Remembered { checkpoint, .. } = remembered.remove(&name).unwrap_or_default();
                    let worker = run_pod_worker(context.clone(), name, mailbox, checkpoint);
                    context.handles.spawn(worker);
                    address
                });
                address.send(desired);
            }
            Command::Dismiss(name) => {
                // Closes the mailbox.
                self.addresses.remove(&name);
            }
        }
    }
}
