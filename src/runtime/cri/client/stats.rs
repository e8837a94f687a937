//! What containers use, and which runtime it is.

use super::{CriClient, op};
use crate::pod::id::ContainerId;
use crate::runtime::cri::CriError;
use crate::runtime::cri::proto::{ContainerStatsRequest, VersionRequest};
use crate::runtime::cri::version::RuntimeVersion;

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
    /// The runtime's name and version.
    pub async fn version(&self) -> Result<RuntimeVersion, CriError> {
        let mut client = self.runtime.clone();
        let request = VersionRequest { version: String::new() };
        let answer = self
            .call(op("Version", "version"), self.timeouts.request, request, |r| async move {
                client.version(r).await
            })
            .await?;
        Ok(RuntimeVersion { name: answer.runtime_name, version: answer.runtime_version })
    }
}
