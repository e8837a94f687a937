//! The steps that end something, one method each.

use std::time::Duration;

use super::{Answer, PodStopper, Runtime, StepError};
use crate::host::files;
use crate::plan::{RemoveContainer, Signalling};
use crate::pod::{ContainerId, PodName, PodUid, SandboxId};
use crate::runtime::cri::{CriError, ErrorClass};
use crate::time::within::within;

/// How long a call that waits for an end may take, beyond the time that it is given.
const SLACK: Duration = Duration::from_secs(60);
/// Its number is the same on every architecture of Linux.
const SIGKILL: u32 = 9;

impl PodStopper for Runtime {
    fn end_container<'a>(
        &'a self,
        id: &'a ContainerId,
        grace: u64,
        signal: Signalling,
    ) -> Answer<'a, Result<(), StepError>> {
        Box::pin(async move {
            let in_cri = i64::try_from(grace).unwrap_or(i64::MAX);
            match signal {
                Signalling::Runtime => return Ok(self.cri.stop_container(id, in_cri).await?),
                Signalling::Send(signal) => match self.cri.kill_task(id, signal).await {
                    Err(error) if error.class == ErrorClass::Unimplemented => {
                        tracing::warn!(container = %id, signal, "the runtime cannot send this signal; it sends its own");
                        return Ok(self.cri.stop_container(id, in_cri).await?);
                    }
                    sent => sent?,
                },
                Signalling::Sent => {}
            }
            self.await_end(id, Duration::from_secs(grace)).await?;
            // At once, for a stop with a grace period would send the runtime's own signal too.
            Ok(self.cri.stop_container(id, 0).await?)
        })
    }

    fn remove_container<'a>(
        &'a self,
        pod: &'a PodName,
        container: &'a RemoveContainer,
    ) -> Answer<'a, Result<(), StepError>> {
        Box::pin(async move {
            match self.cri.remove_container(&container.id).await {
                Err(error) if error.is_lost_task() => {
                    tracing::warn!(pod = %pod, container = %container.id, "the runtime has lost a process of a dead container; ending it");
                    self.end_lost_task(&container.id).await?;
                    self.cri.remove_container(&container.id).await?;
                }
                removed => removed?,
            }
            let log = self.node.dirs.log(pod, &container.uid, &container.name, container.attempt);
            let link = self.node.dirs.log_link(pod, &container.name, &container.id);
            Ok(smol::unblock(move || files::remove_log(&log, &link)).await?)
        })
    }

    fn stop_sandbox<'a>(&'a self, id: &'a SandboxId) -> Answer<'a, Result<(), StepError>> {
        Box::pin(async move { Ok(self.cri.stop_pod_sandbox(id).await?) })
    }

    fn remove_sandbox<'a>(&'a self, id: &'a SandboxId) -> Answer<'a, Result<(), StepError>> {
        Box::pin(async move { Ok(self.cri.remove_pod_sandbox(id).await?) })
    }

    fn release_instance<'a>(
        &'a self,
        pod: &'a PodName,
        uid: &'a PodUid,
    ) -> Answer<'a, Result<(), StepError>> {
        let (resources, pod, uid) = (self.resources.clone(), pod.clone(), uid.clone());
        Box::pin(async move { Ok(smol::unblock(move || resources.release(&pod, &uid)).await?) })
    }
}

impl Runtime {
    /// Waits until a container has ended, or the time is over.
    async fn await_end(&self, id: &ContainerId, time: Duration) -> Result<(), CriError> {
        within(time, self.cri.wait_task(id, time.saturating_add(SLACK))).await.unwrap_or(Ok(()))
    }

    /// Ends a task of a container that is dead to CRI, and which CRI therefore does not end.
    async fn end_lost_task(&self, id: &ContainerId) -> Result<(), CriError> {
        self.cri.kill_task(id, SIGKILL).await?;
        self.cri.wait_task(id, SLACK).await?;
        self.cri.delete_task(id).await
    }
}
