//! What goes on for a worker while it listens: hooks, containers that are being ended, and pulls. One errand per
//! container.
//!
//! An errand that another takes the place of, or that is given up, is dropped where it stands.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use async_channel::{Receiver, Sender};
use futures_lite::future;
use smol::{Executor, Task};

use crate::pod::ContainerId;
use crate::runtime::{ImageError, StepError};

/// The errands of one worker.
#[derive(Debug)]
pub(super) struct Errands {
    executor: Arc<Executor<'static>>,
    running: BTreeMap<Whose, Task<Outcome>>,
    /// Holds something when an errand has come to its end since it was last looked at.
    bell: (Sender<()>, Receiver<()>),
}

/// Whom an errand serves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Whose {
    /// A container that there is.
    Made(ContainerId),
    /// A container that there will be, by its name in the pod.
    ToBe(String),
}

/// How an errand ended.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The image of a container to be.
    Pulled(Result<String, ImageError>),
    /// A postStart hook; failed if there is a message.
    PostStart(Option<String>),
    /// A preStop hook; failed if there is a message.
    PreStop(Option<String>),
    /// The container was told to end, and killed if need be.
    Ended(Result<(), StepError>),
}

impl Errands {
    pub(super) fn new(executor: Arc<Executor<'static>>) -> Self {
        Self { executor, running: BTreeMap::new(), bell: async_channel::bounded(1) }
    }

    /// Begins an errand for a container, in place of the one before.
    pub(super) fn begin(&mut self, whose: Whose, errand: impl Future<Output = Outcome> + Send + 'static) {
        let bell = self.bell.0.clone();
        let task = self.executor.spawn(async move {
            let outcome = errand.await;
            // If it has rung already, it need not ring again.
            let _ = bell.try_send(());
            outcome
        });
        self.running.insert(whose, task);
    }

    /// Gives up the errands of those that are not there to be served.
    pub(super) fn retain(&mut self, serves: impl Fn(&Whose) -> bool) {
        self.running.retain(|whose, _| serves(whose));
    }

    /// Waits until an errand has come to its end.
    pub(super) async fn rings(&self) {
        // We hold a sender ourselves: the bell is never closed.
        let _ = self.bell.1.recv().await;
    }

    /// Takes out what has come to its end.
    pub(super) async fn harvest(&mut self) -> Vec<(Whose, Outcome)> {
        let _ = self.bell.1.try_recv();
        let mut outcomes = Vec::new();
        for whose in self.running.keys().cloned().collect::<Vec<_>>() {
            let Some(task) = self.running.get_mut(&whose) else { continue };
            if let Some(outcome) = future::poll_once(task).await {
                self.running.remove(&whose);
                outcomes.push((whose, outcome));
            }
        }
        outcomes
    }
}
