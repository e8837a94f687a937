//! The calls to a device plugin, each with a deadline.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use tonic::transport::Channel;
use tonic::{Response, Status, Streaming};

use crate::http::Reactor;
use crate::runtime::cri::client::channel;
use crate::runtime::cri::proto::device_plugin::device_plugin_client::DevicePluginClient;
use crate::runtime::cri::proto::device_plugin::{
    AllocateRequest, ContainerAllocateRequest, ContainerAllocateResponse,
    ContainerPreferredAllocationRequest, DevicePluginOptions, Empty, ListAndWatchResponse,
    PreStartContainerRequest, PreferredAllocationRequest,
};
use crate::runtime::cri::{CriError, Endpoint};
use crate::time::within::within;

/// kubelet's for a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// kubelet's for PreStartContainer.
const PRE_START: Duration = Duration::from_secs(30);
/// kubelet waits without end.
const ALLOCATE: Duration = Duration::from_secs(60);

/// A plugin that did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DevicePluginError {
    /// Its socket.
    #[error("failed to dial device plugin")]
    Dial(#[source] CriError),
    /// It refused, or did not answer.
    #[error("{call}: {message}")]
    Call {
        /// What was asked for.
        call: &'static str,
        /// Its words.
        message: String,
    },
    /// Its answer lacks what it must have.
    #[error("no containers return in allocation response")]
    Incomplete,
}

/// A plugin that serves one resource.
#[derive(Clone)]
pub(super) struct PluginConnection {
    client: DevicePluginClient<Channel>,
    /// What it wants to be asked.
    pub(super) options: DevicePluginOptions,
}

impl fmt::Debug for PluginConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PluginConnection").field("options", &self.options).finish_non_exhaustive()
    }
}

impl PluginConnection {
    /// Connects, and asks for its options.
    pub(super) async fn connect(reactor: &Reactor, socket: &Path) -> Result<Self, DevicePluginError> {
        let endpoint: Endpoint = format!("unix://{}", socket.display())
            .parse()
            .map_err(|error| DevicePluginError::Call { call: "Connect", message: format!("{error}") })?;
        let channel = {
            let _reactor = reactor.enter();
            channel(&endpoint).map_err(DevicePluginError::Dial)?
        };
        let mut client = DevicePluginClient::new(channel);
        let options =
            call("GetDevicePluginOptions", CONNECT, client.get_device_plugin_options(Empty {})).await?;
        Ok(Self { client, options })
    }

    /// The stream of its devices: all of them, with each change.
    pub(super) async fn watch(&self) -> Result<Streaming<ListAndWatchResponse>, DevicePluginError> {
        let mut client = self.client.clone();
        // No deadline, as with kubelet: Go's servers answer with the first list, which may take its time.
        let answer = Box::pin(client.list_and_watch(Empty {})).await;
        answer.map(Response::into_inner).map_err(|status| DevicePluginError::Call {
            call: "ListAndWatch",
            message: status.message().to_owned(),
        })
    }

    /// Which of these it would take, if so many are to be taken, `must` among them.
    pub(super) async fn prefer(
        &self,
        available: BTreeSet<String>,
        must: &BTreeSet<String>,
        size: usize,
    ) -> Result<Vec<String>, DevicePluginError> {
        if !self.options.get_preferred_allocation_available {
            return Ok(Vec::new());
        }
        let mut client = self.client.clone();
        let request = ContainerPreferredAllocationRequest {
            available_device_i_ds: available.into_iter().collect(),
            must_include_device_i_ds: must.iter().cloned().collect(),
            allocation_size: i32::try_from(size).unwrap_or(i32::MAX),
        };
        let request = PreferredAllocationRequest { container_requests: vec![request] };
        let name = "GetPreferredAllocation";
        let answer = call(name, CONNECT, client.get_preferred_allocation(request)).await?;
        let first = answer.container_responses.into_iter().next();
        Ok(first.map(|first| first.device_i_ds).unwrap_or_default())
    }

    /// Has devices made ready for a container; what the container needs for them.
    pub(super) async fn allocate(
        &self,
        ids: &BTreeSet<String>,
    ) -> Result<ContainerAllocateResponse, DevicePluginError> {
        let mut client = self.client.clone();
        let request = ContainerAllocateRequest { devices_ids: ids.iter().cloned().collect() };
        let request = AllocateRequest { container_requests: vec![request] };
        let answer = call("Allocate", ALLOCATE, client.allocate(request)).await?;
        answer.container_responses.into_iter().next().ok_or(DevicePluginError::Incomplete)
    }

    /// Tells it that a container with these devices starts, if it wants to know.
    pub(super) async fn prepare_start(&self, ids: BTreeSet<String>) -> Result<(), DevicePluginError> {
        if !self.options.pre_start_required {
            return Ok(());
        }
        let mut client = self.client.clone();
        let request = PreStartContainerRequest { devices_ids: ids.into_iter().collect() };
        call("PreStartContainer", PRE_START, client.pre_start_container(request)).await.map(drop)
    }
}

async fn call<T>(
    call: &'static str,
    deadline: Duration,
    answer: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, DevicePluginError> {
    match within(deadline, Box::pin(answer)).await {
        Some(Ok(answer)) => Ok(answer.into_inner()),
        Some(Err(status)) => Err(DevicePluginError::Call { call, message: status.message().to_owned() }),
        None => Err(DevicePluginError::Call { call, message: format!("no answer within {deadline:?}") }),
    }
}
