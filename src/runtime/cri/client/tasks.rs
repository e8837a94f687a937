//! containerd's own view of containers, as tasks: for what CRI cannot say.

use std::time::Duration;

use tonic::Request;
use tonic::metadata::MetadataValue;

use super::{CriClient, gone_is_done, op};
use crate::pod::id::ContainerId;
use crate::runtime::cri::CriError;
use crate::runtime::cri::proto::task_service::{DeleteTaskRequest, KillRequest, WaitRequest};

impl CriClient {
    /// Sends a signal to a container's first process. Success if it is gone.
    pub async fn kill_task(&self, id: &ContainerId, signal: u32) -> Result<(), CriError> {
        let mut client = self.tasks.clone();
        let request = KillRequest { container_id: id.0.clone(), signal, ..KillRequest::default() };
        self.call(op("Kill", "kill_task"), self.timeouts.request, request, |r| async move {
            gone_is_done(client.kill(of_cri(r)).await)
        })
        .await
    }

    /// Removes a task that has ended. Success if it is gone.
    pub async fn delete_task(&self, id: &ContainerId) -> Result<(), CriError> {
        let mut client = self.tasks.clone();
        let request = DeleteTaskRequest { container_id: id.0.clone() };
        self.call(op("Delete", "delete_task"), self.timeouts.request, request, |r| async move {
            gone_is_done(client.delete(of_cri(r)).await)
        })
        .await
    }

    /// Waits until a container's first process has ended. Success if it is gone.
    pub async fn wait_task(&self, id: &ContainerId, limit: Duration) -> Result<(), CriError> {
        let mut client = self.tasks.clone();
        let request = WaitRequest { container_id: id.0.clone(), ..WaitRequest::default() };
        self.call(op("Wait", "wait_task"), limit, request, |r| async move {
            gone_is_done(client.wait(of_cri(r)).await)
        })
        .await
    }
}

/// containerd's CRI plugin keeps its containers in a namespace of its own.
fn of_cri<Q>(mut request: Request<Q>) -> Request<Q> {
    request.metadata_mut().insert("containerd-namespace", MetadataValue::from_static("k8s.io"));
    request
}
