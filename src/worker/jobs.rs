//! What runs for a worker while it listens: hooks, containers that are being ended, and pulls. One job per container.
//!
//! A job that is replaced or given up is dropped where it stands.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_channel::{Receiver, Sender};
use futures_lite::future;
use smol::{Executor, Task};

use crate::pod::ContainerId;
use crate::runtime::{ImageError, StepError};

/// The jobs of one worker.
#[derive(Debug)]
pub(super) struct Jobs {
    executor: Arc<Executor<'static>>,
    running: BTreeMap<JobKey, Task<JobResult>>,
    /// Holds a message when a job has finished since [`Jobs::take_finished`].
    done: (Sender<()>, Receiver<()>),
}

/// The container that a job is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum JobKey {
    /// A container that exists.
    Container(ContainerId),
    /// A container that is still to be created, by its name in the pod.
    Future(String),
}

/// How a job ended.
#[derive(Debug)]
pub(super) enum JobResult {
    /// The image of a container that is still to be created.
    Pulled(Result<String, ImageError>),
    /// A postStart hook; failed if there is a message.
    PostStart(Option<String>),
    /// A preStop hook; failed if there is a message.
    PreStop(Option<String>),
    /// The container was told to end, and killed if need be.
    Ended(Result<(), StepError>),
}

impl Jobs {
    /// No jobs yet.
    pub(super) fn new(executor: Arc<Executor<'static>>) -> Self {
        Self { executor, running: BTreeMap::new(), done: async_channel::bounded(1) }
    }

    /// Starts a job for a container, in place of its last one.
    pub(super) fn start(&mut self, key: JobKey, job: impl Future<Output = JobResult> + Send + 'static) {
        let done = self.done.0.clone();
        let task = self.executor.spawn(async move {
            let result = job.await;
            // One message is enough for several jobs.
            let _ = done.try_send(());
            result
        });
        self.running.insert(key, task);
    }

    /// Gives up the jobs for which this does not hold.
    pub(super) fn retain(&mut self, keep: impl Fn(&JobKey) -> bool) {
        self.running.retain(|key, _| keep(key));
    }

    /// Waits until a job has finished.
    pub(super) async fn wait(&self) {
        // We hold a sender ourselves: the channel is never closed.
        let _ = self.done.1.recv().await;
    }

    /// Takes out the jobs that have finished.
    pub(super) async fn take_finished(&mut self) -> Vec<(JobKey, JobResult)> {
        let _ = self.done.1.try_recv();
        let mut finished = Vec::new();
        for key in self.running.keys().cloned().collect::<Vec<_>>() {
            let Some(task) = self.running.get_mut(&key) else { continue };
            if let Some(result) = future::poll_once(task).await {
                self.running.remove(&key);
                finished.push((key, result));
            }
        }
        finished
    }
}
