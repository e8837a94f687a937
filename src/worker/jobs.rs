//! What runs for a worker while it listens: hooks, containers that are being ended, and pulls. One job per container.
//!
//! A job that is replaced or given up is dropped where it stands.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_lite::future;
use smol::{Executor, Task};

use crate::pod::ContainerId;
use crate::runtime::{ImageError, StepError};

/// The jobs of one worker.
#[derive(Debug)]
pub(super) struct Jobs {
    executor: Arc<Executor<'static>>,
    jobs: BTreeMap<JobKey, Job>,
}

#[derive(Debug)]
enum Job {
    Running(Task<JobResult>),
    /// Its result waits for [`Jobs::take_finished`].
    Finished(JobResult),
}

impl Job {
    /// Whether it has finished; whoever asks is woken when it does.
    fn poll_finished(&mut self, context: &mut Context<'_>) -> bool {
        if let Job::Running(task) = self
            && let Poll::Ready(result) = Pin::new(task).poll(context)
        {
            *self = Job::Finished(result);
        }
        matches!(self, Job::Finished(_))
    }
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
        Self { executor, jobs: BTreeMap::new() }
    }

    /// Starts a job for a container, in place of its last one.
    pub(super) fn start(&mut self, key: JobKey, job: impl Future<Output = JobResult> + Send + 'static) {
        self.jobs.insert(key, Job::Running(self.executor.spawn(job)));
    }

    /// Gives up the jobs for which this does not hold.
    pub(super) fn retain(&mut self, keep: impl Fn(&JobKey) -> bool) {
        self.jobs.retain(|key, _| keep(key));
    }

    /// Waits until a job has finished.
    pub(super) async fn wait(&mut self) {
        future::poll_fn(|context| {
            // All of them are polled: each must wake the worker when it finishes.
            let finished = self.jobs.values_mut().filter_map(|job| job.poll_finished(context).then_some(()));
            if finished.count() > 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Takes out the jobs that have finished.
    pub(super) async fn take_finished(&mut self) -> Vec<(JobKey, JobResult)> {
        future::poll_fn(|context| {
            for job in self.jobs.values_mut() {
                job.poll_finished(context);
            }
            Poll::Ready(())
        })
        .await;
        let mut finished = Vec::new();
        for (key, job) in std::mem::take(&mut self.jobs) {
            match job {
                Job::Finished(result) => finished.push((key, result)),
                running @ Job::Running(_) => drop(self.jobs.insert(key, running)),
            }
        }
        finished
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> JobKey {
        JobKey::Future(name.to_owned())
    }

    fn results(finished: &[(JobKey, JobResult)]) -> Vec<(&JobKey, &str)> {
        let text = |result| match result {
            &JobResult::PostStart(Some(ref text)) => text.as_str(),
            other => panic!("{other:?}"),
        };
        finished.iter().map(|(key, result)| (key, text(result))).collect()
    }

    #[test]
    fn a_finished_job_ends_the_wait_and_is_taken_once() {
        let executor = Arc::new(Executor::new());
        let mut jobs = Jobs::new(executor.clone());
        let (open, gate) = async_channel::bounded::<()>(1);
        smol::block_on(executor.run(async {
            assert!(future::poll_once(jobs.wait()).await.is_none(), "there is no job");
            jobs.start(key("slow"), async move {
                let _ = gate.recv().await;
                JobResult::PostStart(Some("slow".to_owned()))
            });
            assert!(future::poll_once(jobs.wait()).await.is_none(), "it runs");
            assert!(jobs.take_finished().await.is_empty());
            jobs.start(key("quick"), async { JobResult::PostStart(Some("quick".to_owned())) });
            jobs.wait().await;
            jobs.wait().await;
            assert_eq!(results(&jobs.take_finished().await), [(&key("quick"), "quick")]);
            assert!(jobs.take_finished().await.is_empty(), "taken once");
            // The wait has begun before the job ends.
            let (waited, _) = future::zip(jobs.wait(), open.send(())).await;
            assert_eq!(waited, ());
            assert_eq!(results(&jobs.take_finished().await), [(&key("slow"), "slow")]);
        }));
    }

    #[test]
    fn a_job_that_is_replaced_or_given_up_leaves_no_result() {
        let executor = Arc::new(Executor::new());
        let mut jobs = Jobs::new(executor.clone());
        let done = |text: &str| {
            let text = text.to_owned();
            async move { JobResult::PostStart(Some(text)) }
        };
        smol::block_on(executor.run(async {
            jobs.start(key("a"), done("first"));
            jobs.start(key("b"), done("given up"));
            // Even after it has finished.
            jobs.wait().await;
            jobs.start(key("a"), done("second"));
            jobs.retain(|key| *key != JobKey::Future("b".to_owned()));
            jobs.wait().await;
            assert_eq!(results(&jobs.take_finished().await), [(&key("a"), "second")]);
            assert!(future::poll_once(jobs.wait()).await.is_none());
        }));
    }
}
