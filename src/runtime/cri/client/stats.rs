//! What containers use.

use super::{CriClient, op};
use crate::pod::id::ContainerId;
use crate::runtime::cri::CriError;
use crate::runtime::cri::proto::ContainerStatsRequest;

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
}
