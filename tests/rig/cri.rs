//! What the runtime holds, seen through CRI by a client that shares no line with the agent's.
//!
//! The messages are the few fields that tests look at, by their numbers in the CRI v1 definition.

use std::collections::BTreeMap;
use std::time::Duration;

use prost::Message;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;

/// A sandbox, as the runtime tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SandboxSeen {
    /// The runtime's id.
    pub(crate) id: String,
    /// From its metadata.
    pub(crate) pod: String,
    /// From its metadata.
    pub(crate) namespace: String,
    /// From its metadata.
    pub(crate) uid: String,
    /// From its metadata.
    pub(crate) attempt: u32,
    /// Ready, or not.
    pub(crate) ready: bool,
    /// Nanoseconds since 1970.
    pub(crate) created_at: i64,
    /// Of the pod network; empty on the host's.
    pub(crate) ip: String,
    /// The process of the sandbox, by its pid inside the rig; 0 when it is gone.
    pub(crate) pid: u32,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

/// A container, as the runtime tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContainerSeen {
    /// The runtime's id.
    pub(crate) id: String,
    /// The sandbox that it runs in.
    pub(crate) sandbox_id: String,
    /// From its metadata.
    pub(crate) name: String,
    /// From its metadata.
    pub(crate) attempt: u32,
    pub(crate) state: ContainerState,
    /// Nanoseconds since 1970.
    pub(crate) created_at: i64,
    /// Nanoseconds since 1970; 0 before.
    pub(crate) started_at: i64,
    /// Nanoseconds since 1970; 0 before.
    pub(crate) finished_at: i64,
    pub(crate) exit_code: i32,
    /// The runtime's word for how it ended.
    pub(crate) reason: String,
    /// Where the runtime writes its log.
    pub(crate) log_path: String,
    /// Its first process, by its pid inside the rig; 0 when it is gone.
    pub(crate) pid: u32,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

impl ContainerSeen {
    /// The name of the pod, from kubelet's label.
    pub(crate) fn pod(&self) -> &str {
        self.labels.get("io.kubernetes.pod.name").map_or("", String::as_str)
    }
}

/// Where a container is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContainerState {
    Created,
    Running,
    Exited,
    Unknown,
}

/// A sandbox to run without the agent.
pub(crate) struct Sandbox<'a> {
    pub(crate) name: &'a str,
    /// From the node's port to the pod's.
    pub(crate) host_port: Option<(i32, i32)>,
}

/// A container to run without the agent.
pub(crate) struct Container<'a> {
    pub(crate) name: &'a str,
    pub(crate) image: &'a str,
    pub(crate) command: &'a [&'a str],
}

/// A client of one endpoint. Connects anew for each question, so that it survives the runtime's restarts.
pub(crate) struct Observer {
    endpoint: String,
}

impl Observer {
    pub(crate) fn new(endpoint: &str) -> Self {
        Self { endpoint: endpoint.to_owned() }
    }

    /// Whether the service is up and has its network.
    pub(crate) fn answers(&self) -> bool {
        let reply = self.try_call::<_, StatusResponse>("Status", Empty {});
        let conditions = reply.ok().and_then(|reply| reply.status).unwrap_or_default().conditions;
        // containerd 2 has conditions of its own too, such as the absence of deprecated settings.
        ["RuntimeReady", "NetworkReady"]
            .iter()
            .all(|kind| conditions.iter().any(|condition| condition.kind == *kind && condition.status))
    }

    /// Every sandbox, oldest first.
    pub(crate) fn sandboxes(&self) -> Vec<SandboxSeen> {
        let list: ListPodSandboxResponse = self.call("ListPodSandbox", Empty {});
        let mut seen: Vec<_> = list.items.into_iter().filter_map(|item| self.sandbox(item.id)).collect();
        seen.sort_by_key(|sandbox| sandbox.created_at);
        seen
    }

    /// Every container, oldest first.
    pub(crate) fn containers(&self) -> Vec<ContainerSeen> {
        let list: ListContainersResponse = self.call("ListContainers", Empty {});
        let mut seen: Vec<_> = list.items.into_iter().filter_map(|item| self.container(item.id)).collect();
        seen.sort_by_key(|container| container.created_at);
        seen
    }

    /// `None` if it went away since it was listed.
    fn sandbox(&self, id: String) -> Option<SandboxSeen> {
        let reply: PodSandboxStatusResponse = self.call_if_found("PodSandboxStatus", Verbosely::of(id))?;
        let status = reply.status.unwrap_or_default();
        let metadata = status.metadata.unwrap_or_default();
        Some(SandboxSeen {
            id: status.id,
            pod: metadata.name,
            namespace: metadata.namespace,
            uid: metadata.uid,
            attempt: metadata.attempt,
            ready: status.state == 0,
            created_at: status.created_at,
            ip: status.network.unwrap_or_default().ip,
            pid: pid(&reply.info),
            labels: status.labels,
            annotations: status.annotations,
        })
    }

    /// `None` if it went away since it was listed.
    fn container(&self, id: String) -> Option<ContainerSeen> {
        let reply: ContainerStatusResponse = self.call_if_found("ContainerStatus", Verbosely::of(id))?;
        let status = reply.status.unwrap_or_default();
        let metadata = status.metadata.unwrap_or_default();
        let info = reply.info.get("info").cloned().unwrap_or_default();
        let info: serde_json::Value = serde_json::from_str(&info).unwrap_or_default();
        Some(ContainerSeen {
            id: status.id,
            sandbox_id: info["sandboxID"].as_str().unwrap_or_default().to_owned(),
            name: metadata.name,
            attempt: metadata.attempt,
            state: match status.state {
                0 => ContainerState::Created,
                1 => ContainerState::Running,
                2 => ContainerState::Exited,
                _ => ContainerState::Unknown,
            },
            created_at: status.created_at,
            started_at: status.started_at,
            finished_at: status.finished_at,
            exit_code: status.exit_code,
            reason: status.reason,
            log_path: status.log_path,
            pid: pid(&reply.info),
            labels: status.labels,
            annotations: status.annotations,
        })
    }

    /// Runs a sandbox.
    pub(crate) fn run_sandbox(&self, sandbox: &Sandbox<'_>) -> String {
        let reply: IdResponse =
            self.call("RunPodSandbox", RunPodSandboxRequest { config: Some(sandbox_config(sandbox)) });
        reply.id
    }

    /// Creates and starts a container.
    pub(crate) fn run_container(
        &self,
        sandbox_id: &str,
        sandbox: &Sandbox<'_>,
        container: &Container<'_>,
    ) -> String {
        let config = ContainerConfig {
            metadata: Some(ContainerMetadata { name: container.name.to_owned(), attempt: 0 }),
            image: Some(ImageSpec { image: container.image.to_owned() }),
            command: container.command.iter().map(|&word| word.to_owned()).collect(),
            log_path: format!("{}.log", container.name),
        };
        let request = CreateContainerRequest {
            sandbox_id: sandbox_id.to_owned(),
            config: Some(config),
            sandbox_config: Some(sandbox_config(sandbox)),
        };
        let created: IdResponse = self.call("CreateContainer", request);
        let Empty {} = self.call("StartContainer", Verbosely { id: created.id.clone(), verbose: false });
        created.id
    }

    /// Removes a container, running or not.
    pub(crate) fn remove_container(&self, id: &str) {
        let Empty {} = self.call("RemoveContainer", IdResponse { id: id.to_owned() });
    }

    /// Removes a stopped sandbox and its containers, as somebody who cleans up by hand does.
    pub(crate) fn remove_sandbox(&self, id: &str) {
        let Empty {} = self.call("RemovePodSandbox", IdResponse { id: id.to_owned() });
    }

    fn call<Q: Message + 'static, R: Message + Default + 'static>(&self, method: &str, request: Q) -> R {
        self.try_call(method, request).unwrap_or_else(|status| panic!("CRI {method}: {status}"))
    }

    fn call_if_found<Q: Message + 'static, R: Message + Default + 'static>(
        &self,
        method: &str,
        request: Q,
    ) -> Option<R> {
        match self.try_call(method, request) {
            Ok(reply) => Some(reply),
            Err(status) if status.code() == tonic::Code::NotFound => None,
            Err(status) => panic!("CRI {method}: {status}"),
        }
    }

    fn try_call<Q: Message + 'static, R: Message + Default + 'static>(
        &self,
        method: &str,
        request: Q,
    ) -> Result<R, tonic::Status> {
        let path = format!("/runtime.v1.RuntimeService/{method}");
        let path = PathAndQuery::try_from(path).expect("a gRPC path");
        let endpoint = Endpoint::from_shared(self.endpoint.clone()).expect("an endpoint");
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a tokio runtime");
        runtime.block_on(async {
            let unavailable = |error: tonic::transport::Error| tonic::Status::unavailable(error.to_string());
            let endpoint = endpoint.timeout(Duration::from_secs(30));
            let mut client = Grpc::new(endpoint.connect().await.map_err(unavailable)?);
            client.ready().await.map_err(unavailable)?;
            let codec = tonic_prost::ProstCodec::<Q, R>::default();
            Ok(client.unary(tonic::Request::new(request), path, codec).await?.into_inner())
        })
    }
}

/// The pid that containerd adds to a verbose status.
fn pid(info: &BTreeMap<String, String>) -> u32 {
    let info: serde_json::Value =
        info.get("info").and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    info["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0)
}

fn sandbox_config(sandbox: &Sandbox<'_>) -> PodSandboxConfig {
    let port_mappings =
        sandbox.host_port.map(|(host_port, container_port)| PortMapping { container_port, host_port });
    PodSandboxConfig {
        metadata: Some(PodSandboxMetadata {
            name: sandbox.name.to_owned(),
            uid: format!("uid-of-{}", sandbox.name),
            namespace: "default".to_owned(),
            attempt: 0,
        }),
        hostname: sandbox.name.to_owned(),
        port_mappings: port_mappings.into_iter().collect(),
        linux: Some(LinuxPodSandboxConfig { cgroup_parent: "/kubepods/rig".to_owned() }),
    }
}

macro_rules! messages {
    ($(struct $name:ident { $($(#[$field_attribute:meta])* $field:ident: $kind:ty,)* })*) => {
        $(#[derive(Clone, PartialEq, Message)]
        struct $name { $($(#[$field_attribute])* $field: $kind,)* })*
    };
}

messages! {
    struct Empty {}
    struct Verbosely {
        #[prost(string, tag = "1")] id: String,
        #[prost(bool, tag = "2")] verbose: bool,
    }
    struct IdResponse {
        #[prost(string, tag = "1")] id: String,
    }
    struct StatusResponse {
        #[prost(message, optional, tag = "1")] status: Option<RuntimeStatus>,
    }
    struct RuntimeStatus {
        #[prost(message, repeated, tag = "1")] conditions: Vec<RuntimeCondition>,
    }
    struct RuntimeCondition {
        #[prost(string, tag = "1")] kind: String,
        #[prost(bool, tag = "2")] status: bool,
    }
    struct ListPodSandboxResponse {
        #[prost(message, repeated, tag = "1")] items: Vec<IdResponse>,
    }
    struct ListContainersResponse {
        #[prost(message, repeated, tag = "1")] items: Vec<IdResponse>,
    }
    struct PodSandboxMetadata {
        #[prost(string, tag = "1")] name: String,
        #[prost(string, tag = "2")] uid: String,
        #[prost(string, tag = "3")] namespace: String,
        #[prost(uint32, tag = "4")] attempt: u32,
    }
    struct PodSandboxStatusResponse {
        #[prost(message, optional, tag = "1")] status: Option<PodSandboxStatus>,
        #[prost(btree_map = "string, string", tag = "2")] info: BTreeMap<String, String>,
    }
    struct PodSandboxStatus {
        #[prost(string, tag = "1")] id: String,
        #[prost(message, optional, tag = "2")] metadata: Option<PodSandboxMetadata>,
        #[prost(int32, tag = "3")] state: i32,
        #[prost(int64, tag = "4")] created_at: i64,
        #[prost(message, optional, tag = "5")] network: Option<PodSandboxNetworkStatus>,
        #[prost(btree_map = "string, string", tag = "7")] labels: BTreeMap<String, String>,
        #[prost(btree_map = "string, string", tag = "8")] annotations: BTreeMap<String, String>,
    }
    struct PodSandboxNetworkStatus {
        #[prost(string, tag = "1")] ip: String,
    }
    struct ContainerMetadata {
        #[prost(string, tag = "1")] name: String,
        #[prost(uint32, tag = "2")] attempt: u32,
    }
    struct ContainerStatusResponse {
        #[prost(message, optional, tag = "1")] status: Option<ContainerStatus>,
        #[prost(btree_map = "string, string", tag = "2")] info: BTreeMap<String, String>,
    }
    struct ContainerStatus {
        #[prost(string, tag = "1")] id: String,
        #[prost(message, optional, tag = "2")] metadata: Option<ContainerMetadata>,
        #[prost(int32, tag = "3")] state: i32,
        #[prost(int64, tag = "4")] created_at: i64,
        #[prost(int64, tag = "5")] started_at: i64,
        #[prost(int64, tag = "6")] finished_at: i64,
        #[prost(int32, tag = "7")] exit_code: i32,
        #[prost(string, tag = "10")] reason: String,
        #[prost(btree_map = "string, string", tag = "12")] labels: BTreeMap<String, String>,
        #[prost(btree_map = "string, string", tag = "13")] annotations: BTreeMap<String, String>,
        #[prost(string, tag = "15")] log_path: String,
    }
    struct RunPodSandboxRequest {
        #[prost(message, optional, tag = "1")] config: Option<PodSandboxConfig>,
    }
    struct PodSandboxConfig {
        #[prost(message, optional, tag = "1")] metadata: Option<PodSandboxMetadata>,
        #[prost(string, tag = "2")] hostname: String,
        #[prost(message, repeated, tag = "5")] port_mappings: Vec<PortMapping>,
        #[prost(message, optional, tag = "8")] linux: Option<LinuxPodSandboxConfig>,
    }
    struct LinuxPodSandboxConfig {
        #[prost(string, tag = "1")] cgroup_parent: String,
    }
    struct PortMapping {
        #[prost(int32, tag = "2")] container_port: i32,
        #[prost(int32, tag = "3")] host_port: i32,
    }
    struct CreateContainerRequest {
        #[prost(string, tag = "1")] sandbox_id: String,
        #[prost(message, optional, tag = "2")] config: Option<ContainerConfig>,
        #[prost(message, optional, tag = "3")] sandbox_config: Option<PodSandboxConfig>,
    }
    struct ContainerConfig {
        #[prost(message, optional, tag = "1")] metadata: Option<ContainerMetadata>,
        #[prost(message, optional, tag = "2")] image: Option<ImageSpec>,
        #[prost(string, repeated, tag = "3")] command: Vec<String>,
        #[prost(string, tag = "11")] log_path: String,
    }
    struct ImageSpec {
        #[prost(string, tag = "1")] image: String,
    }
}

impl Verbosely {
    fn of(id: String) -> Self {
        Self { id, verbose: true }
    }
}
