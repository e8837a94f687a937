//! The steps of a plan, one method each.

#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_lite::future;
use k8s_openapi::api::core::v1::Container;
use smol::Timer;

use super::{Runtime, StepError, logs};
use crate::backoff::Backoff;
use crate::cri::CriError;
use crate::cri::convert::{self, Prepared};
use crate::cri::proto::{Mount, PodSandboxConfig};
use crate::observed::Sandbox;
use crate::plan::{RemoveContainer, StartContainer, StopContainer, Waiting};
use crate::pod::{
    ContainerId, ContainerRef, Pod, PodName, PodUid, SandboxId, dns, env, field_ref::resolve_field,
    hosts::hosts_file, is_sidecar,
};
use crate::volume;

/// How long a sandbox in the making may keep its place among those that are made at the same time.
const SANDBOX_PATIENCE: Duration = Duration::from_secs(5);
const ETC_HOSTS: &str = "/etc/hosts";

/// Why a sandbox or a container did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
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

    fn step(reason: &str, error: &StepError) -> Self {
        Self::refused(reason, chain(error))
    }
}

/// An error with its causes, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// The mounts of a container: its volumes, then the pod's /etc/hosts at `hosts`, which is given back if it is to
/// be written. A container that brings its own keeps it.
pub(crate) fn container_mounts(
    volumes: &[volume::Prepared],
    hosts: PathBuf,
) -> (Vec<Mount>, Option<PathBuf>) {
    let mut mounts: Vec<_> = volumes.iter().map(volume::Prepared::mount).collect();
    if mounts.iter().any(|mount| mount.container_path == ETC_HOSTS) {
        return (mounts, None);
    }
    mounts.push(Mount {
        container_path: ETC_HOSTS.into(),
        host_path: hosts.to_string_lossy().into_owned(),
        ..Mount::default()
    });
    (mounts, Some(hosts))
}

impl Runtime {
    /// Stops containers side by side, each within its grace period.
    ///
    /// # Errors
    /// The first failure; the others were tried all the same.
    pub async fn stop_containers(&self, stops: &[StopContainer]) -> Result<(), StepError> {
        let tasks: Vec<_> = stops
            .iter()
            .cloned()
            .map(|stop| {
                let cri = self.cri.clone();
                self.executor.spawn(async move { cri.stop_container(&stop.id, stop.grace).await })
            })
            .collect();
        let mut outcome = Ok(());
        for task in tasks {
            outcome = outcome.and(task.await);
        }
        Ok(outcome?)
    }

    /// Removes a dead container, its log and the link to it.
    ///
    /// # Errors
    /// When the runtime refuses, or the log cannot be removed.
    pub async fn remove_container(
        &self,
        name: &PodName,
        container: &RemoveContainer,
    ) -> Result<(), StepError> {
        self.cri.remove_container(&container.id).await?;
        let log = self.dirs.log(name, &container.uid, &container.name, container.attempt);
        let link = self.dirs.log_link(name, &container.name, &container.id);
        smol::unblock(move || logs::remove_log(&log, &link)).await
    }

    /// Removes what an instance has on disk.
    ///
    /// # Errors
    /// When something cannot be removed, or is a mount point.
    pub async fn remove_instance(&self, name: &PodName, uid: &PodUid) -> Result<(), StepError> {
        let (dir, log_dir) = (self.dirs.pod(uid), self.dirs.logs(name, uid));
        smol::unblock(move || {
            logs::remove_tree(&dir)?;
            logs::remove_tree(&log_dir)
        })
        .await
    }

    /// Makes the pod's directories and its sandbox.
    ///
    /// # Errors
    /// When either is refused.
    pub async fn create_sandbox(&self, pod: &Pod, attempt: u32) -> Result<SandboxId, StartError> {
        const REASON: &str = "CreatePodSandboxError";
        let (dir, log_dir) = (self.dirs.pod(&pod.uid), self.dirs.logs(&pod.name, &pod.uid));
        let made = smol::unblock(move || {
            for name in ["volumes", "plugins", "containers"] {
                logs::make_dir(&dir.join(name), 0o750)?;
            }
            logs::make_dir(&log_dir, 0o755)
        });
        made.await.map_err(|error| StartError::step(REASON, &error))?;
        let config =
            self.sandbox_config(pod, attempt).await.map_err(|error| StartError::step(REASON, &error))?;
        let place = self.sandboxes.acquire().await;
        let run = self.cri.run_pod_sandbox(config, "");
        // A sandbox that hangs, in its network for one, keeps nobody else out.
        let give_up_place = async {
            Timer::after(SANDBOX_PATIENCE).await;
            drop(place);
            future::pending().await
        };
        future::or(run, give_up_place).await.map_err(|error| StartError::cri(REASON, error))
    }

    /// Gets the image, prepares volumes and files, and creates a container.
    ///
    /// # Errors
    /// When any of that is refused.
    pub async fn create_container(
        &self,
        pod: &Pod,
        container: &Container,
        start: &StartContainer,
        sandbox: &Sandbox,
    ) -> Result<ContainerId, StartError> {
        const REASON: &str = "CreateContainerConfigError";
        let sandbox_config = self
            .sandbox_config(pod, sandbox.attempt)
            .await
            .map_err(|error| StartError::step(REASON, &error))?;
        let image = container.image.as_deref().unwrap_or_default();
        let image_ref =
            self.ensure_image(image, container.image_pull_policy.as_deref(), sandbox_config.clone()).await?;

        let mounts = self
            .prepare_mounts(pod, container, sandbox)
            .await
            .map_err(|error| StartError::step(REASON, &error))?;
        let pod_ips = if pod.spec.host_network == Some(true) { &self.node_ips } else { &sandbox.ips };
        let env = env::container_env(container, |path| resolve_field(pod, path, &self.node_ips, pod_ips))
            .map_err(|finding| StartError::refused(REASON, finding.to_string()))?;
        let expand = |words: &Option<Vec<String>>| -> Vec<String> {
            words.iter().flatten().map(|word| env::expand(word, |name| env::value_of(&env, name))).collect()
        };
        let prepared = Prepared {
            attempt: start.attempt,
            crashes: start.crashes,
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
    pub async fn start_container(
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
        if let Err(error) = smol::unblock(move || logs::link_log(&link, &log)).await {
            tracing::warn!(pod = %pod.name, container, error = chain(&error), "cannot link the log");
        }
        let _under_way = self.starts.read().await;
        self.cri.start_container(id).await.map_err(|error| StartError::cri("RunContainerError", error))
    }

    async fn sandbox_config(&self, pod: &Pod, attempt: u32) -> Result<PodSandboxConfig, StepError> {
        let node = match self.resolv_conf.clone() {
            Some(path) => {
                smol::unblock(move || fs::read_to_string(&path).map_err(logs::on("cannot read", &path)))
                    .await?
            }
            None => String::new(),
        };
        let dns =
            dns::pod_dns(&pod.spec, &pod.name.namespace, &self.cluster_dns, dns::parse_resolv_conf(&node));
        let log_dir = self.dirs.logs(&pod.name, &pod.uid);
        Ok(convert::sandbox_config(pod, attempt, &log_dir.to_string_lossy(), dns))
    }

    /// Volumes, /etc/hosts and the log directory of a container; its mounts.
    async fn prepare_mounts(
        &self,
        pod: &Pod,
        container: &Container,
        sandbox: &Sandbox,
    ) -> Result<Vec<Mount>, StepError> {
        let volumes = volume::plan_volumes(pod, container, &self.dirs)?;
        let (mounts, hosts) = container_mounts(&volumes, self.dirs.etc_hosts(&pod.uid));
        let log_dir = self.dirs.logs(&pod.name, &pod.uid).join(&container.name);
        let (pod_ips, with_host) = (sandbox.ips.clone(), pod.spec.host_network == Some(true));
        let node_hosts = smol::unblock(move || {
            logs::make_dir(&log_dir, 0o755)?;
            volumes.iter().try_for_each(volume::Prepared::apply)?;
            let of_node = Path::new(ETC_HOSTS);
            Ok::<_, StepError>(if with_host {
                fs::read_to_string(of_node).map_err(logs::on("cannot read", of_node))?
            } else {
                String::new()
            })
        })
        .await?;
        if let Some(path) = hosts {
            let text = hosts_file(pod, &pod_ips, &node_hosts);
            // Written in place: containers that run hold this very file.
            smol::unblock(move || match fs::read_to_string(&path) {
                Ok(found) if found == text => Ok(()),
                _ => fs::write(&path, text).map_err(logs::on("cannot write", &path)),
            })
            .await?;
        }
        Ok(mounts)
    }
}
