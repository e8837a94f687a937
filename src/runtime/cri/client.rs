//! The calls to the runtime: thin, each with a deadline, each observed.
//!
//! Invariant: every future here ends by its deadline, whatever the runtime does, and may be awaited from
//! any executor. It must not decide: no retries, and no caches but
//! of the version that answers; the caller observes and plans anew.

mod cgroups;
mod events;
mod images;
mod stats;
pub mod streaming;
mod tasks;

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tonic::transport::{self, Channel};
use tonic::{Code, Request, Response, Status};

use super::endpoint::Endpoint;
use super::error::{CriError, ErrorClass};
use super::handlers::{handlers, recursive_read_only};
use super::proto::event_service::events_client::EventsClient;
use super::proto::image_service_client::ImageServiceClient;
use super::proto::runtime_service_client::RuntimeServiceClient;
use super::proto::task_service::tasks_client::TasksClient;
use super::proto::{
    Container, ContainerConfig, ContainerFilter, ContainerStatus, ContainerStatusRequest,
    CreateContainerRequest, ExecSyncRequest, ExecSyncResponse, LinuxContainerResources,
    ListContainersRequest, ListPodSandboxRequest, PodSandbox, PodSandboxConfig, PodSandboxFilter,
    PodSandboxStatus, PodSandboxStatusRequest, RemoveContainerRequest, RemovePodSandboxRequest,
    ReopenContainerLogRequest, RunPodSandboxRequest, StartContainerRequest, StatusRequest, StatusResponse,
    StopContainerRequest, StopPodSandboxRequest, UpdateContainerResourcesRequest,
};
use super::version::RuntimeVersion;
use crate::pod::id::{ContainerId, SandboxId};
use crate::time::within::within;

/// A node with a thousand containers passes tonic's default of 4 MiB in one list.
const MAX_ANSWER: usize = 16 << 20;

/// A local socket closes when its peer dies; pings find the peer that lives and hangs. Go's gRPC server
/// drops a client that pings more often than every five minutes.
const PING_EVERY: Duration = Duration::from_secs(6 * 60);
const PING_TIMEOUT: Duration = Duration::from_secs(30);

/// How much later than we the runtime gives up on a call.
const SLACK: Duration = Duration::from_secs(1);
/// No call takes longer, whatever grace period a manifest names: tonic and the runtime both count further only so far.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// How long calls may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Every call but a pull; kubelet's `runtimeRequestTimeout`. To run a sandbox may take twice as long,
    /// for its network is set up, and to stop a container takes its grace in addition.
    pub request: Duration,
    /// A whole pull.
    pub pull: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { request: Duration::from_secs(2 * 60), pull: Duration::from_secs(60 * 60) }
    }
}

/// Is told of every call when it ends: kubelet's name of the operation, how long it took, how it failed.
pub type CallObserver = Arc<dyn Fn(&'static str, Duration, Option<ErrorClass>) + Send + Sync>;

/// A call, by its CRI name and by the one in kubelet's metrics.
struct Op {
    rpc: &'static str,
    metric: &'static str,
}

const fn op(rpc: &'static str, metric: &'static str) -> Op {
    Op { rpc, metric }
}

/// The runtime, as we call it. Clones share the connections.
///
/// Connects at the first call, and again by itself when the runtime or its socket was replaced.
#[derive(Clone)]
pub struct CriClient {
    runtime: RuntimeServiceClient<Channel>,
    image: ImageServiceClient<Channel>,
    events: EventsClient<Channel>,
    tasks: TasksClient<Channel>,
    timeouts: Timeouts,
    observer: CallObserver,
    /// Which runtime answers; none before it was asked, and once it was away.
    version: Arc<Mutex<Option<RuntimeVersion>>>,
}

impl fmt::Debug for CriClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CriClient").field("timeouts", &self.timeouts).finish_non_exhaustive()
    }
}

impl CriClient {
    /// A client of the two endpoints (one connection if they are the same), its I/O on the reactor `handle`.
    ///
    /// # Errors
    /// When the transport refuses an endpoint. Whether anybody listens shows at the first call.
    pub fn new(
        handle: &Handle,
        runtime: &Endpoint,
        image: &Endpoint,
        timeouts: Timeouts,
        observer: CallObserver,
    ) -> Result<Self, CriError> {
        let _reactor = handle.enter();
        let runtime_channel = channel(runtime)?;
        let image_channel = if image == runtime { runtime_channel.clone() } else { channel(image)? };
        Ok(Self {
            events: EventsClient::new(runtime_channel.clone()),
            tasks: TasksClient::new(runtime_channel.clone()),
            runtime: RuntimeServiceClient::new(runtime_channel).max_decoding_message_size(MAX_ANSWER),
            image: ImageServiceClient::new(image_channel).max_decoding_message_size(MAX_ANSWER),
            timeouts,
            observer,
            version: Arc::default(),
        })
    }

    /// The names that a pod may give as its runtime class; empty if the runtime does not tell.
    pub async fn runtime_handlers(&self) -> Result<Vec<String>, CriError> {
        let answer = self.ask_status(StatusRequest { verbose: true }).await?;
        Ok(handlers(&answer))
    }

    /// Whether the runtime can give containers the groups of their pod, and none that their image names.
    pub async fn has_strict_groups(&self) -> Result<bool, CriError> {
        let answer = self.ask_status(StatusRequest { verbose: false }).await?;
        Ok(answer.features.is_some_and(|features| features.supplemental_groups_policy))
    }

    /// Whether a handler can make a mount read-only with all that is mounted below it.
    pub async fn has_recursive_read_only(&self, handler: &str) -> Result<bool, CriError> {
        let answer = self.ask_status(StatusRequest { verbose: false }).await?;
        Ok(recursive_read_only(&answer, handler))
    }

    async fn ask_status(&self, request: StatusRequest) -> Result<StatusResponse, CriError> {
        let mut client = self.runtime.clone();
        self.call(op("Status", "status"), self.timeouts.request, request, |r| async move {
            client.status(r).await
        })
        .await
    }

    /// The sandboxes that match, all without a filter.
    pub async fn list_pod_sandbox(
        &self,
        filter: Option<PodSandboxFilter>,
    ) -> Result<Vec<PodSandbox>, CriError> {
        let mut client = self.runtime.clone();
        let op = op("ListPodSandbox", "list_podsandbox");
        let request = ListPodSandboxRequest { filter };
        let answer = self
            .call(op, self.timeouts.request, request, |r| async move { client.list_pod_sandbox(r).await })
            .await?;
        Ok(answer.items)
    }

    /// One sandbox in full, its addresses included.
    pub async fn pod_sandbox_status(&self, id: &SandboxId) -> Result<PodSandboxStatus, CriError> {
        let mut client = self.runtime.clone();
        let op = op("PodSandboxStatus", "podsandbox_status");
        let request = PodSandboxStatusRequest { pod_sandbox_id: id.0.clone(), verbose: false };
        let answer = self
            .call(op, self.timeouts.request, request, |r| async move { client.pod_sandbox_status(r).await })
            .await?;
        answer.status.ok_or(CriError::incomplete("PodSandboxStatus", "status"))
    }

    /// Creates and starts a sandbox. An empty handler is the runtime's default.
    pub async fn run_pod_sandbox(
        &self,
        config: PodSandboxConfig,
        runtime_handler: &str,
    ) -> Result<SandboxId, CriError> {
        let mut client = self.runtime.clone();
        let op = op("RunPodSandbox", "run_podsandbox");
        let request =
            RunPodSandboxRequest { config: Some(config), runtime_handler: runtime_handler.to_owned() };
        let deadline = self.timeouts.request.saturating_mul(2);
        let answer =
            self.call(op, deadline, request, |r| async move { client.run_pod_sandbox(r).await }).await?;
        Ok(SandboxId(answer.pod_sandbox_id))
    }

    /// Stops a sandbox and what runs in it. Success if it is gone.
    pub async fn stop_pod_sandbox(&self, id: &SandboxId) -> Result<(), CriError> {
        let mut client = self.runtime.clone();
        let op = op("StopPodSandbox", "stop_podsandbox");
        let request = StopPodSandboxRequest { pod_sandbox_id: id.0.clone() };
        self.call(op, self.timeouts.request, request, |r| async move {
            gone_is_done(client.stop_pod_sandbox(r).await)
        })
        .await
    }

    /// Removes a sandbox and what is in it. Success if it is gone.
    pub async fn remove_pod_sandbox(&self, id: &SandboxId) -> Result<(), CriError> {
        let mut client = self.runtime.clone();
        let op = op("RemovePodSandbox", "remove_podsandbox");
        let request = RemovePodSandboxRequest { pod_sandbox_id: id.0.clone() };
        self.call(op, self.timeouts.request, request, |r| async move {
            gone_is_done(client.remove_pod_sandbox(r).await)
        })
        .await
    }

    /// The containers that match, in every state; all without a filter.
    pub async fn list_containers(&self, filter: Option<ContainerFilter>) -> Result<Vec<Container>, CriError> {
        let mut client = self.runtime.clone();
        let op = op("ListContainers", "list_containers");
        let request = ListContainersRequest { filter };
        let answer = self
            .call(op, self.timeouts.request, request, |r| async move { client.list_containers(r).await })
            .await?;
        Ok(answer.containers)
    }

    /// One container in full: times, exit code, reason.
    pub async fn container_status(&self, id: &ContainerId) -> Result<ContainerStatus, CriError> {
        let mut client = self.runtime.clone();
        let op = op("ContainerStatus", "container_status");
        let request = ContainerStatusRequest { container_id: id.0.clone(), verbose: false };
        let answer = self
            .call(op, self.timeouts.request, request, |r| async move { client.container_status(r).await })
            .await?;
        answer.status.ok_or(CriError::incomplete("ContainerStatus", "status"))
    }

    /// Creates a container in a sandbox, without starting it.
    pub async fn create_container(
        &self,
        sandbox: &SandboxId,
        config: ContainerConfig,
        sandbox_config: PodSandboxConfig,
    ) -> Result<ContainerId, CriError> {
        let mut client = self.runtime.clone();
        let op = op("CreateContainer", "create_container");
        let request = CreateContainerRequest {
            pod_sandbox_id: sandbox.0.clone(),
            config: Some(config),
            sandbox_config: Some(sandbox_config),
        };
        let answer = self
            .call(op, self.timeouts.request, request, |r| async move { client.create_container(r).await })
            .await?;
        Ok(ContainerId(answer.container_id))
    }

    /// Starts a created container.
    pub async fn start_container(&self, id: &ContainerId) -> Result<(), CriError> {
        let mut client = self.runtime.clone();
        let op = op("StartContainer", "start_container");
        let request = StartContainerRequest { container_id: id.0.clone() };
        self.call(op, self.timeouts.request, request, |r| async move { client.start_container(r).await })
            .await?;
        Ok(())
    }

    /// Stops a container: its stop signal, then SIGKILL after the grace. Success if it is gone.
    pub async fn stop_container(&self, id: &ContainerId, grace_seconds: i64) -> Result<(), CriError> {
        let mut client = self.runtime.clone();
        let op = op("StopContainer", "stop_container");
        // A negative grace reaches containerd as none at all; it must not shorten the deadline.
        let grace = u64::try_from(grace_seconds).unwrap_or(0);
        let grace = Duration::from_secs(grace).min(LONGEST);
        let deadline = self.timeouts.request.saturating_add(grace);
        let timeout = i64::try_from(grace.as_secs()).unwrap_or(i64::MAX);
        let request = StopContainerRequest { container_id: id.0.clone(), timeout };
        self.call(op, deadline, request, |r| async move { gone_is_done(client.stop_container(r).await) })
            .await
    }

    /// Removes a container. Success if it is gone.
    pub async fn remove_container(&self, id: &ContainerId) -> Result<(), CriError> {
        let mut client = self.runtime.clone();
        let op = op("RemoveContainer", "remove_container");
        let request = RemoveContainerRequest { container_id: id.0.clone() };
        self.call(op, self.timeouts.request, request, |r| async move {
            gone_is_done(client.remove_container(r).await)
        })
        .await
    }

    /// Has a container that runs go on on these CPUs.
    pub(crate) async fn update_cpus(&self, id: &ContainerId, cpuset_cpus: String) -> Result<(), CriError> {
        let mut client = self.runtime.clone();
        let op = op("UpdateContainerResources", "update_container");
        let linux = Some(LinuxContainerResources { cpuset_cpus, ..Default::default() });
        let container_id = id.0.clone();
        let request = UpdateContainerResourcesRequest { container_id, linux, ..Default::default() };
        let update = |r| async move { client.update_container_resources(r).await };
        self.call(op, self.timeouts.request, request, update).await?;
        Ok(())
    }

    /// Has the runtime open a running container's log anew, by its path.
    pub async fn reopen_container_log(&self, id: &ContainerId) -> Result<(), CriError> {
        let mut client = self.runtime.clone();
        let op = op("ReopenContainerLog", "reopen_container_log");
        let request = ReopenContainerLogRequest { container_id: id.0.clone() };
        let reopen = |r| async move { client.reopen_container_log(r).await };
        self.call(op, self.timeouts.request, request, reopen).await?;
        Ok(())
    }

    /// Runs a command in a container; the runtime ends it after `limit`.
    pub async fn exec_sync(
        &self,
        id: &ContainerId,
        command: Vec<String>,
        limit: Duration,
    ) -> Result<ExecSyncResponse, CriError> {
        let mut client = self.runtime.clone();
        let limit = limit.min(LONGEST);
        // The runtime counts in whole seconds, and takes 0 for no limit.
        let whole = limit.as_secs() + u64::from(limit.subsec_nanos() > 0);
        let timeout = i64::try_from(whole.max(1)).unwrap_or(i64::MAX);
        let request = ExecSyncRequest { container_id: id.0.clone(), cmd: command, timeout };
        let deadline = self.timeouts.request.saturating_add(limit);
        self.call(
            op("ExecSync", "exec_sync"),
            deadline,
            request,
            |r| async move { client.exec_sync(r).await },
        )
        .await
    }

    /// Makes one call: sets its deadline, classes its failure, tells the observer.
    async fn call<Q, A, F>(
        &self,
        op: Op,
        deadline: Duration,
        request: Q,
        send: impl FnOnce(Request<Q>) -> F,
    ) -> Result<A, CriError>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let start = Instant::now();
        let deadline = deadline.min(LONGEST);
        let mut request = Request::new(request);
        // Tells the runtime, so that it gives up too; a little later, so that it is our own deadline that speaks.
        request.set_timeout(deadline.saturating_add(SLACK));
        // tonic's own timeout begins after the connection and ends at the answer's head; this one spans it all.
        // Boxed: tonic's future holds the message several times over.
        let answer = within(deadline, Box::pin(send(request))).await.unwrap_or_else(|| {
            Err(Status::new(Code::DeadlineExceeded, format!("no answer within {deadline:?}")))
        });
        let answer =
            answer.map(Response::into_inner).map_err(|status| CriError::from_status(op.rpc, &status));
        if answer.as_ref().is_err_and(|error| error.class == ErrorClass::Unavailable) {
            *self.known_version() = None;
        }
        (self.observer)(op.metric, start.elapsed(), answer.as_ref().err().map(|error| error.class));
        answer
    }
}

/// What is to be stopped or removed and does not exist needs nothing more.
fn gone_is_done<A>(answer: Result<Response<A>, Status>) -> Result<Response<()>, Status> {
    match answer {
        Err(status) if ErrorClass::of(&status) != ErrorClass::NotFound => Err(status),
        Ok(_) | Err(_) => Ok(Response::new(())),
    }
}

/// A lazy channel; tonic opens the socket anew, by its path, whenever the last connection has ended.
pub(in crate::runtime) fn channel(endpoint: &Endpoint) -> Result<Channel, CriError> {
    let endpoint = transport::Endpoint::from_shared(endpoint.to_string()).map_err(|error| {
        CriError::from_status("Connect", &Status::new(Code::InvalidArgument, error.to_string()))
    })?;
    Ok(endpoint.http2_keep_alive_interval(PING_EVERY).keep_alive_timeout(PING_TIMEOUT).connect_lazy())
}

#[cfg(test)]
mod tests;
