//! What every task of the agent works with.

use std::sync::Arc;

use async_channel::Sender;
use smol::Executor;

use super::message::Event;
use crate::status::Telemetry;
use crate::time::clock::Clock;

/// Shared by all tasks. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Handles {
    /// Runs all tasks, on the main thread.
    pub(crate) executor: Arc<Executor<'static>>,
    /// What time it is.
    pub(crate) clock: Arc<dyn Clock>,
    /// The inbox of the sync loop.
    pub(crate) inbox: Sender<Event>,
    /// Where is counted and recorded what happens.
    pub(crate) telemetry: Telemetry,
}

impl Handles {
    /// Runs a task until it ends, or the agent does.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.executor.spawn(task).detach();
    }

    /// Tells the sync loop. It ends with the agent: then nobody is left to tell.
    pub(crate) async fn send(&self, event: Event) {
        let _ = self.inbox.send(event).await;
    }
}
