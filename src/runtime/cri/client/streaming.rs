//! What the runtime's streaming server is asked for: each answer is a URL, good for one connection.

use std::time::Duration;

use super::{CriClient, op};
use crate::pod::id::{ContainerId, SandboxId};
use crate::runtime::cri::CriError;
use crate::runtime::cri::proto::{
    AttachRequest, CheckpointContainerRequest, ExecRequest, PortForwardRequest,
};

/// Which streams a client wants of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Streams {
    /// Its input.
    pub stdin: bool,
    /// Its output.
    pub stdout: bool,
    /// Its errors; none with a terminal.
    pub stderr: bool,
    /// A terminal.
    pub tty: bool,
}

impl CriClient {
    /// Where a command can be run in a container.
    pub async fn exec(
        &self,
        id: &ContainerId,
        cmd: Vec<String>,
        streams: Streams,
    ) -> Result<String, CriError> {
        let mut client = self.runtime.clone();
        let Streams { stdin, stdout, stderr, tty } = streams;
        let request = ExecRequest { container_id: id.0.clone(), cmd, tty, stdin, stdout, stderr };
        let exec = |r| async move { client.exec(r).await };
        Ok(self.call(op("Exec", "exec"), self.timeouts.request, request, exec).await?.url)
    }

    /// Where a container's process can be attached to.
    pub async fn attach(&self, id: &ContainerId, streams: Streams) -> Result<String, CriError> {
        let mut client = self.runtime.clone();
        let Streams { stdin, stdout, stderr, tty } = streams;
        let request = AttachRequest { container_id: id.0.clone(), stdin, tty, stdout, stderr };
        let attach = |r| async move { client.attach(r).await };
        Ok(self.call(op("Attach", "attach"), self.timeouts.request, request, attach).await?.url)
    }

    /// Where ports of a sandbox can be reached.
    pub async fn port_forward(&self, id: &SandboxId, port: Vec<i32>) -> Result<String, CriError> {
        let mut client = self.runtime.clone();
        let request = PortForwardRequest { pod_sandbox_id: id.0.clone(), port };
        let forward = |r| async move { client.port_forward(r).await };
        Ok(self.call(op("PortForward", "port_forward"), self.timeouts.request, request, forward).await?.url)
    }

    /// Writes what a container's processes are into a file.
    pub async fn checkpoint_container(
        &self,
        id: &ContainerId,
        location: String,
        limit: Duration,
    ) -> Result<(), CriError> {
        let mut client = self.runtime.clone();
        let timeout = i64::try_from(limit.as_secs()).unwrap_or(i64::MAX);
        let request = CheckpointContainerRequest { container_id: id.0.clone(), location, timeout };
        let checkpoint = |r| async move { client.checkpoint_container(r).await };
        let op = op("CheckpointContainer", "checkpoint_container");
        self.call(op, self.timeouts.request.saturating_add(limit), request, checkpoint).await?;
        Ok(())
    }
}
