//! What a pod is: ids, decoding, defaults, validation, hashes, environment. Pure: no I/O, no clock, no logging.

pub(crate) mod annotations;
pub(crate) mod cdi;
pub(crate) mod cgroup_name;
pub(crate) mod cpu_assignment;
pub(crate) mod cpu_set;
pub(crate) mod decode;
pub(crate) mod defaults;
pub(crate) mod device_assignment;
pub(crate) mod dns;
pub(crate) mod downward_api;
pub(crate) mod env;
pub(crate) mod env_file;
pub(crate) mod field_ref;
pub(crate) mod fields;
pub(crate) mod finding;
pub(crate) mod hook;
pub(crate) mod hostname;
pub(crate) mod hosts;
pub(crate) mod id;
pub(crate) mod identity;
pub(crate) mod image;
pub(crate) mod keys;
pub(crate) mod node_allocatable;
pub(crate) mod object;
pub(crate) mod observed;
pub(crate) mod priority;
pub(crate) mod qos;
pub(crate) mod quantity;
pub(crate) mod resource_field;
pub(crate) mod resources;
pub(crate) mod restart;
pub(crate) mod security;
pub(crate) mod signal;
pub(crate) mod state;
pub(crate) mod storage_limit;
pub(crate) mod termination_message;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod validate;
pub(crate) mod watch_files;

use std::fmt;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

pub(crate) use decode::Origin;
pub use finding::{Finding, Refusal};
pub(crate) use id::{ConfigHash, ContainerId, PodName, PodUid, SandboxId, Source};

/// A pod that this node wants: whole, valid, with its static identity and its defaults.
///
/// Immutable once built; it travels as `Arc<Pod>`.
#[derive(Debug, Clone, PartialEq)]
pub struct Pod {
    /// Namespace and name; the name of a static pod ends in the node's.
    pub name: PodName,
    /// The instance of that name.
    pub uid: PodUid,
    /// Changes when, and only when, the manifest as written, its path or the node name changes.
    pub hash: ConfigHash,
    /// Where the pod came from.
    pub source: Source,
    /// Metadata as served: annotations `kubernetes.io/config.*` included.
    pub metadata: ObjectMeta,
    /// The specification with kubelet's defaults applied.
    pub spec: PodSpec,
    /// Per container name, the hash of the container as written: see [`Pod::container_hash`].
    pub container_hashes: Box<[(String, String)]>,
}

/// A port of the host that a pod asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostPort {
    /// TCP, UDP or SCTP.
    pub(crate) protocol: String,
    /// Its number.
    pub(crate) port: i32,
    /// The address of the host; empty for all.
    pub(crate) ip: String,
}

/// A container of a pod, by its index in the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerRef {
    /// In `spec.initContainers`.
    Init(usize),
    /// In `spec.containers`.
    Main(usize),
}

/// The path in the manifest, such as `spec.containers[0]`.
impl fmt::Display for ContainerRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ContainerRef::Init(index) => write!(f, "spec.initContainers[{index}]"),
            ContainerRef::Main(index) => write!(f, "spec.containers[{index}]"),
        }
    }
}

impl Pod {
    /// Both are the same version of the same instance.
    pub fn same_as(&self, other: &Pod) -> bool {
        self.uid == other.uid && self.hash == other.hash
    }

    /// The hash of a container as written, by its name.
    pub(crate) fn container_hash(&self, name: &str) -> Option<&str> {
        self.container_hashes.iter().find(|(of, _)| of == name).map(|(_, hash)| hash.as_str())
    }

    /// The manifest names its UID; else it is the hash of the manifest, which holds the pod's name.
    pub(crate) fn has_fixed_uid(&self) -> bool {
        self.uid.as_str() != self.hash.as_str()
    }

    /// The ports of the host that the pod asks for.
    pub(crate) fn host_ports(&self) -> Vec<HostPort> {
        let sidecars = self.spec.init_containers.iter().flatten().filter(|init| is_sidecar(init));
        let ports = self.spec.containers.iter().chain(sidecars).flat_map(|c| c.ports.iter().flatten());
        let asked_for = ports.filter_map(|port| {
            Some(HostPort {
                protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
                port: port.host_port.filter(|port| *port > 0)?,
                ip: port.host_ip.clone().unwrap_or_default(),
            })
        });
        asked_for.collect()
    }

    /// The specification of a container.
    pub fn container(&self, which: ContainerRef) -> Option<&Container> {
        match which {
            ContainerRef::Init(index) => self.spec.init_containers.as_ref()?.get(index),
            ContainerRef::Main(index) => self.spec.containers.get(index),
        }
    }

    /// Init containers and containers, in the order of the manifest.
    pub fn containers(&self) -> impl Iterator<Item = (ContainerRef, &Container)> {
        containers_of(&self.spec)
    }
}

/// Init containers and containers of a specification, in the order of the manifest.
pub(crate) fn containers_of(spec: &PodSpec) -> impl Iterator<Item = (ContainerRef, &Container)> {
    let init = spec.init_containers.iter().flatten().enumerate();
    let main = spec.containers.iter().enumerate();
    init.map(|(i, c)| (ContainerRef::Init(i), c)).chain(main.map(|(i, c)| (ContainerRef::Main(i), c)))
}

/// An init container that runs for as long as the pod does.
pub(crate) fn is_sidecar(init: &Container) -> bool {
    init.restart_policy.as_deref() == Some("Always")
}
