//! The container runtime: the CRI client, what is observed through it, and how plans are carried out.
//!
//! Decides nothing: what to do comes from `plan`, how the runtime is told from [`cri::convert`]. Workers know it by
//! [`PodRuntime`] alone.

mod cgroups;
pub(crate) mod cpus;
pub mod cri;
pub(crate) mod devices;
pub(crate) mod file_watch;
pub(crate) mod gc;
pub(crate) mod handlers;
mod image;
mod limiter;
pub(crate) mod log_rotation;
mod observe;
pub(crate) mod pleg;
mod pod_runtime;
mod security;
mod start;
pub(crate) mod stats;
mod stop;
pub(crate) mod storage_limits;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use smol::lock::{Mutex, RwLock};

use crate::host::cgroup::Cgroups;
use crate::host::cpu_manager::CpuManager;
use crate::host::resource::{ResourceError, Resources};
use crate::host::state::StateError;
use crate::host::{Dirs, FileError, NodeIps};
use crate::pod::cgroup_name::CgroupDriver;
use crate::pod::dns::ClusterDns;
use crate::pod::hostname::FqdnTooLong;
use crate::pod::security::admission::NodeSecurity;
use crate::time::within::within;
use cri::{CriClient, CriError};
use devices::DevicePlugins;
use handlers::HandlerRunner;

pub(crate) use image::{Image, ImageError, Images, PullFallback, PullSettings};
#[cfg(test)]
pub(crate) use limiter::Permit;
pub(crate) use limiter::PriorityLimiter;
pub(crate) use observe::{Cache, Made};
pub(crate) use pod_runtime::{
    Answer, PodObserver, PodRuntime, PodStarter, PodStopper, ProbeRunner, SandboxContext,
};
pub(crate) use start::StartError;
#[cfg(test)]
pub(crate) use start::container_mounts;

/// What pods are told of the node.
#[derive(Debug, Clone)]
pub(crate) struct NodeSettings {
    /// Where things lie on disk.
    pub(crate) dirs: Dirs,
    /// The node's addresses.
    pub(crate) node_ips: NodeIps,
    /// The cluster's resolver.
    pub(crate) cluster_dns: ClusterDns,
    /// Which boot of the machine this is; empty if the kernel does not say.
    pub(crate) boot_id: String,
    /// The node's resolver file; without one, pods with the node's policy get none.
    pub(crate) resolv_conf: Option<PathBuf>,
    /// Which rights of pods it has and allows.
    pub(crate) security: NodeSecurity,
    /// Where pods are placed, and what their cgroups are given.
    pub(crate) cgroups: Arc<Cgroups>,
    /// The configured cgroup driver.
    pub(crate) cgroup_driver: Option<CgroupDriver>,
    /// Who has CPUs of its own; none if nobody has.
    pub(crate) cpus: Option<Arc<CpuManager>>,
    /// The device plugins.
    pub(crate) devices: Arc<DevicePlugins>,
}

/// The container runtime and the node around it.
#[derive(Debug)]
pub(crate) struct Runtime {
    cri: CriClient,
    node: NodeSettings,
    resources: Resources,
    images: Images,
    handlers: HandlerRunner,
    /// Sandboxes that are made at the same time: see [`sandbox_width`].
    sandbox_permits: PriorityLimiter,
    /// Held for reading while a container is being started: see [`Runtime::drain`].
    starts: RwLock<()>,
    /// Once it is known.
    cgroup_driver: Mutex<Option<(CgroupDriver, Instant)>>,
    /// What containers were told of their CPUs.
    told_cpus: cpus::ToldCpus,
}

/// Sandboxes to make at the same time. More of them start no sooner on a machine of this many cores, and keep
/// the containers of those that are ready waiting.
pub fn sandbox_width(cores: usize) -> usize {
    cores.saturating_mul(4).clamp(4, 16)
}

impl Runtime {
    /// A runtime of these parts.
    pub(crate) fn new(cri: CriClient, node: NodeSettings, images: Images, handlers: HandlerRunner) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            resources: Resources::new(&node.dirs, &node.cgroups, node.devices.manager()),
            sandbox_permits: PriorityLimiter::new(sandbox_width(cores)),
            starts: RwLock::new(()),
            cgroup_driver: Mutex::new(None),
            told_cpus: cpus::ToldCpus::default(),
            cri,
            node,
            images,
            handlers,
        }
    }

    /// The version of the node's cgroups: 1 or 2.
    pub(crate) fn cgroup_version(&self) -> u64 {
        if self.node.cgroups.hierarchies.is_unified() { 2 } else { 1 }
    }

    /// Lets the starts that are under way come to their end, and none begin any more: containerd kills a container
    /// whose caller goes away while it starts.
    pub(crate) async fn drain(&self, deadline: Duration) {
        // Never given back: what would start now waits until the process ends.
        let drained = async { std::mem::forget(self.starts.write().await) };
        within(deadline, drained).await;
    }
}

/// A step that failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StepError {
    /// The runtime refused, or did not answer.
    #[error(transparent)]
    Cri(#[from] CriError),
    /// A file or directory on the node.
    #[error(transparent)]
    File(#[from] FileError),
    /// Something that the pod needs on the node.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// The pod's host name.
    #[error(transparent)]
    Hostname(#[from] FqdnTooLong),
    /// What is remembered of the pod.
    #[error(transparent)]
    State(#[from] StateError),
    /// The runtime says that it was done, and shows that it was not.
    #[error("the runtime reported success, but nothing changed")]
    NoEffect,
}
