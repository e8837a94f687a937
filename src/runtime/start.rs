//! The steps that start something, one method each.

#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::Container;

use super::limiter::Turn;
use super::{Runtime, StepError, with_place};
use crate::host::volume;
use crate::host::{files, termination_message};
use crate::plan::{StartContainer, Waiting};
use crate::pod::observed::Sandbox;
use crate::pod::{
    ContainerId, ContainerRef, Pod, SandboxId, dns, env, field_ref::resolve_field, hostname::host_names,
    hosts::hosts_file, is_sidecar,
};
use crate::runtime::cri::convert::{self, Prepared};
use crate::runtime::cri::proto::{Mount, PodSandboxConfig};
use crate::runtime::cri::{CriError, ErrorClass};
use crate::text::chain;
use crate::time::backoff::Backoff;

/// How long a sandbox in the making may keep its place among those that are made at the same time.
const SANDBOX_PATIENCE: Duration = Duration::from_secs(5);
const ETC_HOSTS: &str = "/etc/hosts";

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

    fn refused(reason: &str, message: String) -> Self {
        Self::Refused { backoff: Backoff::STEP, waiting: Waiting { reason: reason.into(), message } }
    }

    pub(super) fn step(reason: &str, error: &StepError) -> Self {
        Self::refused(reason, chain(error))
    }
}

/// The mounts of a container: its volumes, then the pod's /etc/hosts at `hosts`, which is given back if it is to
/// be written, then the file for its last words at `words`. A container that brings its own hosts keeps them.
pub(crate) fn container_mounts(
    container: &Container,
    volumes: &[volume::Prepared],
    hosts: PathBuf,
    words: &Path,
) -> (Vec<Mount>, Option<PathBuf>) {
    let mut mounts: Vec<_> =
        volumes.iter().map(|volume| convert::volume_mount(&volume.host_path, &volume.mount)).collect();
    let file = |container_path: String, host_path: &Path| {
        let host_path = host_path.to_string_lossy().into_owned();
        Mount { container_path, host_path, ..Mount::default() }
    };
    let brings_hosts = mounts.iter().any(|mount| mount.container_path == ETC_HOSTS);
    if !brings_hosts {
        mounts.push(file(ETC_HOSTS.into(), &hosts));
    }
    if let Some(path) = container.termination_message_path.as_deref().filter(|path| !path.is_empty()) {
        mounts.push(file(volume::absolute(path), words));
    }
    (mounts, (!brings_hosts).then_some(hosts))
}

impl Runtime {
    /// Makes the pod's directories and its sandbox, when it is its turn.
    ///
    /// # Errors
    /// When either is refused.
    pub(crate) async fn create_sandbox(
        &self,
        pod: &Pod,
        attempt: u32,
        turn: Turn,
    ) -> Result<SandboxId, StartError> {
        const REASON: &str = "CreatePodSandboxError";
        let (dir, log_dir) = (self.dirs.pod(&pod.uid), self.dirs.logs(&pod.name, &pod.uid));
        let made = smol::unblock(move || {
            for name in ["volumes", "plugins", "containers"] {
                files::make_dir(&dir.join(name), 0o750)?;
            }
            files::make_dir(&log_dir, 0o755)
        });
        made.await.map_err(|error| StartError::step(REASON, &error.into()))?;
        let config =
            self.sandbox_config(pod, attempt).await.map_err(|error| StartError::step(REASON, &error))?;
        let handler = pod.spec.runtime_class_name.as_deref().unwrap_or_default();
        let run = self.cri.run_pod_sandbox(config, handler);
        match with_place(turn, SANDBOX_PATIENCE, run).await {
            Ok(id) => Ok(id),
            Err(error) => match self.missing_handler(handler, &error).await {
                Some(message) => Err(StartError::refused(REASON, message)),
                None => Err(StartError::cri(REASON, error)),
            },
        }
    }

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

    /// Prepares volumes and files, and creates a container of an image that is there.
    ///
    /// # Errors
    /// When any of that is refused.
    pub(crate) async fn create_container(
        &self,
        pod: &Pod,
        container: &Container,
        start: &StartContainer,
        sandbox: &Sandbox,
        image_ref: String,
    ) -> Result<ContainerId, StartError> {
        const REASON: &str = "CreateContainerConfigError";
        let sandbox_config = self
            .sandbox_config(pod, sandbox.attempt)
            .await
            .map_err(|error| StartError::step(REASON, &error))?;
        let mounts = self
            .prepare_mounts(pod, container, start.attempt, sandbox)
            .await
            .map_err(|error| StartError::step(REASON, &error))?;
        let node_ips = self.node_ips.get();
        let pod_ips = if pod.spec.host_network == Some(true) { &node_ips } else { &sandbox.ips };
        let env = env::container_env(container, |path| resolve_field(pod, path, &node_ips, pod_ips))
            .map_err(|finding| StartError::refused(REASON, finding.to_string()))?;
        let expand = |words: &Option<Vec<String>>| -> Vec<String> {
            words.iter().flatten().map(|word| env::expand(word, |name| env::value_of(&env, name))).collect()
        };
        let prepared = Prepared {
            attempt: start.attempt,
            crashes: start.crashes,
            round: start.round,
            sidecar: match start.container {
                ContainerRef::Init(place) if is_sidecar(container) => Some(place),
                _ => None,
            },
            image_ref,
            command: expand(&container.command),
            args: expand(&container.args),
            env,
            mounts,
        };
        let config = convert::container_config(pod, container, prepared);
        self.cri
            .create_container(&start.sandbox, config, sandbox_config)
            .await
            .map_err(|error| StartError::cri("CreateContainerError", error))
    }

    /// Links the log of a created container and starts it.
    ///
    /// # Errors
    /// When the runtime refuses.
    pub(crate) async fn start_container(
        &self,
        pod: &Pod,
        container: &str,
        start: &StartContainer,
        id: &ContainerId,
    ) -> Result<(), StartError> {
        let log = self.dirs.log(&pod.name, &pod.uid, container, start.attempt);
        let link = self.dirs.log_link(&pod.name, container, id);
        // Before it starts, so that none goes without. Collectors lose a log without its link; the container is
        // none the worse.
        if let Err(error) = smol::unblock(move || files::link_log(&link, &log)).await {
            tracing::warn!(pod = %pod.name, container, error = chain(&error), "cannot link the log");
        }
        let _under_way = self.starts.read().await;
        self.cri.start_container(id).await.map_err(|error| StartError::cri("RunContainerError", error))
    }

    pub(super) async fn sandbox_config(
        &self,
        pod: &Pod,
        attempt: u32,
    ) -> Result<PodSandboxConfig, StepError> {
        let node = match self.resolv_conf.clone() {
            Some(path) => {
                smol::unblock(move || fs::read_to_string(&path).map_err(files::on("cannot read", &path)))
                    .await?
            }
            None => String::new(),
        };
        let dns =
            dns::pod_dns(&pod.spec, &pod.name.namespace, &self.cluster_dns, dns::parse_resolv_conf(&node));
        let names = host_names(pod, &self.cluster_dns.domain);
        let hostname = names.kernel_name(pod.spec.set_hostname_as_fqdn)?;
        let log_dir = self.dirs.logs(&pod.name, &pod.uid);
        Ok(convert::sandbox_config(pod, attempt, &log_dir.to_string_lossy(), dns, hostname))
    }

    /// Volumes, /etc/hosts, the log directory and the file for the last words of a container; its mounts.
    async fn prepare_mounts(
        &self,
        pod: &Pod,
        container: &Container,
        attempt: u32,
        sandbox: &Sandbox,
    ) -> Result<Vec<Mount>, StepError> {
        let volumes = volume::plan_volumes(pod, container, &self.dirs)?;
        let words = self.dirs.termination_message(&pod.uid, &container.name, attempt);
        let (mounts, hosts) = container_mounts(container, &volumes, self.dirs.etc_hosts(&pod.uid), &words);
        let log_dir = self.dirs.logs(&pod.name, &pod.uid).join(&container.name);
        let (pod_ips, with_host) = (sandbox.ips.clone(), pod.spec.host_network == Some(true));
        let node_hosts = smol::unblock(move || {
            files::make_dir(&log_dir, 0o755)?;
            termination_message::make_file(&words)?;
            volumes.iter().try_for_each(volume::Prepared::apply)?;
            let of_node = Path::new(ETC_HOSTS);
            Ok::<_, StepError>(if with_host {
                fs::read_to_string(of_node).map_err(files::on("cannot read", of_node))?
            } else {
                String::new()
            })
        })
        .await?;
        if let Some(path) = hosts {
            let names = host_names(pod, &self.cluster_dns.domain);
            let text = hosts_file(pod, &names, &pod_ips, &node_hosts);
            // Written in place: containers that run hold this very file.
            smol::unblock(move || match fs::read_to_string(&path) {
                Ok(found) if found == text => Ok(()),
                _ => fs::write(&path, text).map_err(files::on("cannot write", &path)),
            })
            .await?;
        }
        Ok(mounts)
    }
}
