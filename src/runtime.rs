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
mod stop;
pub(crate) mod storage_limits;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Container as ContainerSpec;
use smol::lock::{Mutex, RwLock};

use crate::host::capacity::read_capacity;
use crate::host::cgroup::Cgroups;
use crate::host::cpu_manager::CpuManager;
use crate::host::resource::{ResourceError, Resources};
use crate::host::state::StateError;
use crate::host::volume::{OldFiles, plan_object_volumes};
use crate::host::{Dirs, FileError, NodeIps};
use crate::plan::{PullPermit, RemoveContainer, Signalling, StartContainer};
use crate::pod::cgroup_name::CgroupDriver;
use crate::pod::dns::ClusterDns;
use crate::pod::hook::Hook;
use crate::pod::hostname::FqdnTooLong;
use crate::pod::object::PodObjects;
use crate::pod::observed::{Observed, Sandbox};
use crate::pod::security::admission::NodeSecurity;
use crate::pod::{ContainerId, Pod, PodName, PodUid, SandboxId, priority::priority};
use crate::probe::check::Check;
use crate::probe::schedule::{ProbeKey, Ran};
use crate::probe::target::ProbeHost;
use crate::time::within::within;
use cri::{CriClient, CriError};
use devices::DevicePlugins;
use handlers::HandlerRunner;
use handlers::hooks::HookError;

pub(crate) use image::{Image, ImageError, Images, PullFallback, PullSettings};
pub(crate) use limiter::{Permit, PriorityLimiter};
pub(crate) use observe::{Cache, Made};
pub(crate) use pod_runtime::{Answer, PodRuntime, ProbeRunner, SandboxContext};
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

    /// Lets the starts that are under way come to their end, and none begin any more: containerd kills a container
    /// whose caller goes away while it starts.
    pub(crate) async fn drain(&self, deadline: Duration) {
        // Never given back: what would start now waits until the process ends.
        let drained = async { std::mem::forget(self.starts.write().await) };
        within(deadline, drained).await;
    }
}

impl PodRuntime for Runtime {
    fn observe<'a>(
        &'a self,
        pod: &'a PodName,
        cache: &'a mut Cache,
    ) -> Answer<'a, Result<Observed, CriError>> {
        Box::pin(self.observe_pod(pod, cache))
    }

    fn observe_made<'a>(
        &'a self,
        before: Observed,
        made: &'a [Made],
        cache: &'a mut Cache,
    ) -> Answer<'a, Result<Observed, CriError>> {
        Box::pin(self.observe_what_was_made(before, made, cache))
    }

    fn prepare_instance<'a>(
        &'a self,
        pod: &'a Arc<Pod>,
        objects: &'a Arc<PodObjects>,
    ) -> Answer<'a, Result<(), StartError>> {
        Box::pin(self.prepare_resources(pod, objects))
    }

    fn update_volumes<'a>(
        &'a self,
        pod: &'a Arc<Pod>,
        objects: &'a Arc<PodObjects>,
        old: OldFiles,
    ) -> Answer<'a, Result<(), StepError>> {
        let (pod, objects, dirs) = (pod.clone(), objects.clone(), self.node.dirs.clone());
        Box::pin(smol::unblock(move || {
            let node = read_capacity(dirs.root())?;
            let volumes = plan_object_volumes(&pod, &objects, &dirs, &node);
            let updated = volumes.iter().try_for_each(|volume| volume.update(old));
            Ok(updated.map_err(ResourceError::from)?)
        }))
    }

    fn sandbox_context<'a>(
        &'a self,
        pod: &'a Pod,
        attempt: u32,
    ) -> Answer<'a, Result<SandboxContext, StartError>> {
        Box::pin(self.sandbox_config(pod, attempt))
    }

    fn sandbox_permit<'a>(&'a self, pod: &'a Pod) -> Answer<'a, Permit> {
        Box::pin(self.sandbox_permits.acquire(priority(&pod.spec)))
    }

    fn create_sandbox<'a>(
        &'a self,
        pod: &'a Pod,
        context: SandboxContext,
        permit: Permit,
    ) -> Answer<'a, Result<SandboxId, StartError>> {
        Box::pin(self.run_sandbox(pod, context, permit))
    }

    fn look_for_image<'a>(
        &'a self,
        pod: &'a Pod,
        container: &'a ContainerSpec,
        permit: PullPermit,
    ) -> Answer<'a, Result<Image, ImageError>> {
        Box::pin(self.images.look_for_all(pod, container, permit))
    }

    fn pull_image<'a>(
        &'a self,
        pod: &'a Pod,
        container: &'a ContainerSpec,
        objects: &'a PodObjects,
        context: SandboxContext,
    ) -> Answer<'a, Result<String, ImageError>> {
        Box::pin(self.images.pull_all(pod, container, objects, context))
    }

    fn create_container<'a>(
        &'a self,
        pod: &'a Pod,
        start: &'a StartContainer,
        objects: &'a PodObjects,
        sandbox: &'a Sandbox,
        image: String,
        context: SandboxContext,
    ) -> Answer<'a, Result<ContainerId, StartError>> {
        Box::pin(self.make_container(pod, start, objects, sandbox, image, context))
    }

    fn start_container<'a>(
        &'a self,
        pod: &'a Pod,
        start: &'a StartContainer,
        id: &'a ContainerId,
    ) -> Answer<'a, Result<(), StartError>> {
        Box::pin(self.link_log_and_start(pod, start, id))
    }

    fn run_hook<'a>(
        &'a self,
        id: &'a ContainerId,
        hook: &'a Hook,
        pod_ip: Option<&'a str>,
        limit: Duration,
    ) -> Answer<'a, Result<(), HookError>> {
        Box::pin(self.handlers.run_hook(id, hook, pod_ip, limit))
    }

    fn end_container<'a>(
        &'a self,
        id: &'a ContainerId,
        grace: u64,
        signal: Signalling,
    ) -> Answer<'a, Result<(), StepError>> {
        Box::pin(self.signal_and_await_end(id, grace, signal))
    }

    fn remove_container<'a>(
        &'a self,
        pod: &'a PodName,
        container: &'a RemoveContainer,
    ) -> Answer<'a, Result<(), StepError>> {
        Box::pin(self.remove_container_and_log(pod, container))
    }

    fn stop_sandbox<'a>(&'a self, id: &'a SandboxId) -> Answer<'a, Result<(), StepError>> {
        Box::pin(async move { Ok(self.cri.stop_pod_sandbox(id).await?) })
    }

    fn remove_sandbox<'a>(&'a self, id: &'a SandboxId) -> Answer<'a, Result<(), StepError>> {
        Box::pin(async move { Ok(self.cri.remove_pod_sandbox(id).await?) })
    }

    fn release_instance<'a>(
        &'a self,
        pod: &'a PodName,
        uid: &'a PodUid,
    ) -> Answer<'a, Result<(), StepError>> {
        let (resources, pod, uid) = (self.resources.clone(), pod.clone(), uid.clone());
        Box::pin(async move { Ok(smol::unblock(move || resources.release(&pod, &uid)).await?) })
    }

    fn node_ips(&self) -> Vec<String> {
        self.node.node_ips.get()
    }
}

impl ProbeRunner for HandlerRunner {
    fn run_probe<'a>(
        &'a self,
        key: &'a ProbeKey,
        check: &'a Check,
        place: &'a ProbeHost,
        timeout: Duration,
    ) -> Answer<'a, Ran> {
        Box::pin(self.run_check((&key.pod, &key.id), check, place, timeout))
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
