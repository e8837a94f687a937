//! What containers use.

use super::{CriClient, op};
use crate::pod::id::ContainerId;
use crate::runtime::cri::CriError;
use crate::runtime::cri::proto::{
    ContainerStats, ContainerStatsRequest, FilesystemUsage, ImageFsInfoRequest, ListContainerStatsRequest,
    ListPodSandboxStatsRequest, PodSandboxStats,
};

impl CriClient {
    /// The bytes of a container's writable layer; none if the runtime does not know them yet.
    pub async fn writable_layer(&self, id: &ContainerId) -> Result<Option<u64>, CriError> {
        let mut client = self.runtime.clone();
        let op = op("ContainerStats", "container_stats");
        let request = ContainerStatsRequest { container_id: id.0.clone() };
        let answer = self
            .call(op, self.timeouts.request, request, |r| async move { client.container_stats(r).await })
            .await?;
        let layer = answer.stats.and_then(|stats| stats.writable_layer);
        Ok(layer.and_then(|layer| layer.used_bytes).map(|used| used.value))
    }

    /// What all containers that run use.
    pub(crate) async fn list_container_stats(&self) -> Result<Vec<ContainerStats>, CriError> {
        let mut client = self.runtime.clone();
        let op = op("ListContainerStats", "list_container_stats");
        let request = ListContainerStatsRequest { filter: None };
        let list = |r| async move { client.list_container_stats(r).await };
        Ok(self.call(op, self.timeouts.request, request, list).await?.stats)
    }

    /// What all sandboxes that run use; not every runtime knows.
    pub(crate) async fn list_sandbox_stats(&self) -> Result<Vec<PodSandboxStats>, CriError> {
        let mut client = self.runtime.clone();
        let op = op("ListPodSandboxStats", "list_podsandbox_stats");
        let request = ListPodSandboxStatsRequest { filter: None };
        let list = |r| async move { client.list_pod_sandbox_stats(r).await };
        Ok(self.call(op, self.timeouts.request, request, list).await?.stats)
    }

    /// What images take, and where; none if the runtime does not know yet.
    pub(crate) async fn image_fs(&self) -> Result<Option<FilesystemUsage>, CriError> {
        let mut client = self.image.clone();
        let op = op("ImageFsInfo", "image_fs_info");
        let ask = |r| async move { client.image_fs_info(r).await };
        let answer = self.call(op, self.timeouts.request, ImageFsInfoRequest {}, ask).await?;
        Ok(answer.image_filesystems.into_iter().next())
    }
}
