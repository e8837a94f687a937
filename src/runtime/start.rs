//! The steps that start something, one method each.

mod mounts;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Container;

use super::cgroups::driver_advice;
use super::handlers::hooks::HookError;
use super::limiter::{Permit, hold_permit};
use super::{Answer, Image, ImageError, PodStarter, Runtime, SandboxContext, StepError};
use crate::host::machine::read_capacity;
use crate::host::resource::ResourceError;
use crate::host::volume::{self, OldFiles, plan_object_volumes};
use crate::host::{files, termination_message};
use crate::plan::{PullPermit, StartContainer, Waiting};
use crate::pod::hook::Hook;
use crate::pod::object::PodObjects;
use crate::pod::observed::Sandbox;
use crate::pod::priority::priority;
use crate::pod::{
    ContainerId, ContainerRef, Finding, Pod, SandboxId, dns, env, field_ref::resolve_field,
    hostname::host_names, hosts::hosts_file, is_sidecar, resource_field::resolve_resource,
};
use crate::runtime::cri::convert::{self, Prepared};
use crate::runtime::cri::proto::Mount;
use crate::runtime::cri::{CriError, ErrorClass};
use crate::text::chain;
use crate::time::backoff::Backoff;
use mounts::container_devices;
pub(crate) use mounts::container_mounts;

/// How long a sandbox in the making may hold its permit.
const MAX_PERMIT: Duration = Duration::from_secs(5);
const ETC_HOSTS: &str = "/etc/hosts";
/// kubelet's reason for a sandbox that could not be made.
const SANDBOX_ERROR: &str = "CreatePodSandboxError";

/// Why a sandbox or a container did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// The runtime is away, which is no fault of the pod.
    #[error(transparent)]
    Away(CriError),
    /// It was refused; with what to show, and how to wait.
    #[error("{}: {}", waiting.reason, waiting.message)]
    Refused {
        /// How to wait before the next try.
        backoff: Backoff,
        /// Reason and message.
        waiting: Waiting,
    },
}

impl StartError {
    /// A call that failed, with kubelet's reason for it.
    pub(super) fn cri(reason: &str, error: CriError) -> Self {
        if error.is_away() {
            return Self::Away(error);
        }
        Self::refused(reason, error.message)
    }

    /// A refusal with kubelet's reason for it, tried again as steps are.
    pub(super) fn refused(reason: &str, message: String) -> Self {
        Self::Refused { backoff: Backoff::STEP, waiting: Waiting { reason: reason.into(), message } }
    }

    /// The same for a step that failed, with all its causes as the message.
    pub(super) fn step(reason: &str, error: &StepError) -> Self {
        Self::refused(reason, chain(error))
    }
}

impl PodStarter for Runtime {
    fn prepare_instance<'a>(
        &'a self,
        pod: &'a Arc<Pod>,
        objects: &'a Arc<PodObjects>,
    ) -> Answer<'a, Result<(), StartError>> {
        Box::pin(async move {
            self.cgroup_driver().await?;
            let (resources, prepared, objects) = (self.resources.clone(), pod.clone(), objects.clone());
            let begun = Instant::now();
            let prepared = smol::unblock(move || resources.prepare(&prepared, &objects)).await;
            tracing::debug!(pod = %pod.name, took = ?begun.elapsed(), "prepared what a pod needs on the node");
            prepared.map_err(|error| StartError::refused(error.reason, chain(&error.source)))
        })
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
        Box::pin(async move {
            let handler = pod.spec.runtime_class_name.as_deref().unwrap_or_default();
            let run = self.cri.run_pod_sandbox((*context.0).clone(), handler);
            match hold_permit(permit, MAX_PERMIT, run).await {
                Ok(id) => Ok(id),
                Err(error) => {
                    match driver_advice(&error.message).or(self.missing_handler(handler, &error).await) {
                        Some(message) => Err(StartError::refused(SANDBOX_ERROR, message)),
                        None => Err(StartError::cri(SANDBOX_ERROR, error)),
                    }
                }
            }
        })
    }

    fn look_for_image<'a>(
        &'a self,
        pod: &'a Pod,
        container: &'a Container,
        permit: PullPermit,
    ) -> Answer<'a, Result<Image, ImageError>> {
        Box::pin(self.images.look_for_all(pod, container, permit))
    }

    fn pull_image<'a>(
        &'a self,
        pod: &'a Pod,
        container: &'a Container,
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
        Box::pin(async move {
            let container = specified(pod, start)?.name.as_str();
            let log = self.node.dirs.log(&pod.name, &pod.uid, container, start.attempt);
            let link = self.node.dirs.log_link(&pod.name, container, id);
            // Before it starts, so that none goes without. Collectors lose a log without its link; the container is
            // none the worse.
            if let Err(error) = smol::unblock(move || files::link_log(&link, &log)).await {
                tracing::warn!(pod = %pod.name, container, error = chain(&error), "cannot link the log");
            }
            let _under_way = self.starts.read().await;
            self.cri.start_container(id).await.map_err(|error| StartError::cri("RunContainerError", error))
        })
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
}

impl Runtime {
    /// Says so if a sandbox was refused because the runtime has no such handler.
    async fn missing_handler(&self, handler: &str, refusal: &CriError) -> Option<String> {
        if handler.is_empty() || refusal.class != ErrorClass::Refused {
            return None;
        }
        let known = self.cri.runtime_handlers().await.ok()?;
        let is_missing = !known.is_empty() && !known.iter().any(|name| name == handler);
        is_missing.then(|| {
            let known = known.join(", ");
            format!("runtimeClassName {handler:?}: the container runtime has no such handler; it has {known}")
        })
    }

    /// Prepares a container's files, and creates it of an image that is there.
    ///
    /// # Errors
    /// When any of that is refused.
    async fn make_container(
        &self,
        pod: &Pod,
        start: &StartContainer,
        objects: &PodObjects,
        sandbox: &Sandbox,
        image_ref: String,
        context: SandboxContext,
    ) -> Result<ContainerId, StartError> {
        const REASON: &str = "CreateContainerConfigError";
        let container = &self
            .read_env_files(pod, specified(pod, start)?)
            .await
            .map_err(|reason| StartError::refused(REASON, reason))?;
        let cdi_devices = self.cdi_devices(pod).await?;
        let security = self.container_surroundings(pod, container, &image_ref).await?;
        let node_ips = self.node.node_ips.get();
        let pod_ips = if pod.spec.host_network == Some(true) { &node_ips } else { &sandbox.ips };
        let capacity =
            self.capacity_if_asked(container).await.map_err(|error| StartError::step(REASON, &error))?;
        let namespace = &pod.name.namespace;
        let (from, _) = env::env_from(container, namespace, objects)
            .map_err(|reason| StartError::refused(REASON, reason))?;
        let env = env::container_env(
            container,
            from,
            |path| resolve_field(pod, path, &node_ips, pod_ips),
            |reference| match &capacity {
                Some(capacity) => resolve_resource(pod, Some(container), reference, capacity),
                None => Err(Finding::new("resourceFieldRef", "has no value")),
            },
            |reference| env::object_variable(reference, namespace, objects),
        )
        .map_err(|finding| StartError::refused(REASON, finding.to_string()))?;
        let volumes = self
            .plan_volume_mounts(pod, container, &env)
            .await
            .map_err(|error| StartError::step(REASON, &error))?;
        let mut given = self.node.devices.prepare(pod, container).await?;
        let env = given.env_before(env);
        let devices = [given.devices, container_devices(&volumes)].concat();
        let cpus = self.container_cpus(pod, container).await?;
        let mounts = self
            .prepare_mounts(pod, container, volumes, start.attempt, sandbox)
            .await
            .map_err(|error| StartError::step(REASON, &error))?;
        let mounts = [given.mounts, mounts].concat();
        let expand = |words: &Option<Vec<String>>| -> Vec<String> {
            words.iter().flatten().map(|word| env::expand(word, |name| env::value_of(&env, name))).collect()
        };
        let prepared = Prepared {
            attempt: start.attempt,
            crashes: start.crashes,
            round: start.round,
            boot_id: self.node.boot_id.clone(),
            sidecar: match start.container {
                ContainerRef::Init(place) if is_sidecar(container) => Some(place),
                _ => None,
            },
            image_ref,
            command: expand(&container.command),
            args: expand(&container.args),
            env,
            mounts,
            security,
            devices,
            cdi_devices: [given.cdi_devices, cdi_devices].concat(),
            annotations: given.annotations,
        };
        let mut config = convert::container_config(pod, container, prepared);
        convert::add_container_resources(&mut config, pod, container, &self.node.cgroups.node);
        convert::add_cpus(&mut config, cpus.as_ref().map(ToString::to_string));
        let created = self.cri.create_container(&start.sandbox, config, (*context.0).clone()).await;
        let id = created.map_err(|error| StartError::cri("CreateContainerError", error))?;
        self.note_cpus(&id, cpus);
        Ok(id)
    }

    /// How the runtime is told of a sandbox.
    ///
    /// # Errors
    /// When the node's resolver file cannot be read, or the pod's host name is too long.
    async fn sandbox_config(&self, pod: &Pod, attempt: u32) -> Result<SandboxContext, StartError> {
        self.admit_security(pod).await?;
        let error = |error: StepError| StartError::step(SANDBOX_ERROR, &error);
        let node = match self.node.resolv_conf.clone() {
            Some(path) => {
                smol::unblock(move || files::read_text(&path)).await.map_err(|e| error(e.into()))?
            }
            // Without any server the runtime would give the pod the host's.
            None => "nameserver 127.0.0.1\n".to_owned(),
        };
        let dns = dns::pod_dns(
            &pod.spec,
            &pod.name.namespace,
            &self.node.cluster_dns,
            dns::parse_resolv_conf(&node),
        );
        let names = host_names(pod, &self.node.cluster_dns.domain);
        let hostname = names.kernel_name(pod.spec.set_hostname_as_fqdn).map_err(|e| error(e.into()))?;
        let log_dir = self.node.dirs.logs(&pod.name, &pod.uid);
        let mut config = convert::sandbox_config(pod, attempt, &log_dir.to_string_lossy(), dns, hostname);
        let parent = self.cgroup_parent(pod).await?;
        convert::add_sandbox_resources(&mut config, pod, &self.node.cgroups.node, parent);
        Ok(SandboxContext(Arc::new(config)))
    }

    /// Prepares /etc/hosts, the log directory and the file for the termination message of a container; its mounts.
    async fn prepare_mounts(
        &self,
        pod: &Pod,
        container: &Container,
        volumes: Vec<volume::PlannedMount>,
        attempt: u32,
        sandbox: &Sandbox,
    ) -> Result<Vec<Mount>, StepError> {
        let dirs = &self.node.dirs;
        let message = dirs.termination_message(&pod.uid, &container.name, attempt);
        let (mounts, hosts) = container_mounts(container, &volumes, dirs.etc_hosts(&pod.uid), &message);
        let log_dir = dirs.logs(&pod.name, &pod.uid).join(&container.name);
        let with_host = pod.spec.host_network == Some(true);
        let node_hosts = smol::unblock(move || {
            files::make_dir(&log_dir, 0o755)?;
            termination_message::make_file(&message)?;
            volumes.iter().try_for_each(|mount| mount.apply()).map_err(ResourceError::from)?;
            let hosts = if with_host { files::read_text(Path::new(ETC_HOSTS))? } else { String::new() };
            Ok::<_, StepError>(hosts)
        })
        .await?;
        if let Some(path) = hosts {
            let names = host_names(pod, &self.node.cluster_dns.domain);
            let text = hosts_file(pod, &names, &sandbox.ips, &node_hosts);
            // Written in place: containers that run hold this very file.
            smol::unblock(move || match fs::read(&path) {
                Ok(found) if found == text.as_bytes() => Ok(()),
                _ => fs::write(&path, text).map_err(files::on("cannot write", &path)),
            })
            .await?;
        }
        Ok(mounts)
    }
}

/// The container that a plan names. A plan names containers of the pod that it was made for.
fn specified<'a>(pod: &'a Pod, start: &StartContainer) -> Result<&'a Container, StartError> {
    let missing =
        || StartError::refused("CreateContainerConfigError", "no such container in the pod".to_owned());
    pod.container(start.container).ok_or_else(missing)
}
