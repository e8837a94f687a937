//! The mounts and devices of a container.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, FileKeySelector, VolumeMount};

use super::{ETC_HOSTS, StartError};
use crate::host::machine::read_capacity;
use crate::host::resource::ResourceError;
use crate::host::volume::{self, PlannedMount, VolumeError};
use crate::pod::Pod;
use crate::pod::cdi::cdi_names;
use crate::pod::env_file::{env_file_value, unexpanded};
use crate::pod::image::name::ImageName;
use crate::pod::resource_field::NodeCapacity;
use crate::runtime::cri::convert;
use crate::runtime::cri::proto::{CdiDevice, Device, Mount};
use crate::runtime::cri::version::CDI_DEVICES;
use crate::runtime::{Runtime, StepError};
use crate::text::chain;

/// The mounts of a container: its volumes, then the pod's /etc/hosts at `hosts`, which is given back if it is to
/// be written, then the file for its termination message at `message`. A container that mounts its own hosts keeps them.
pub(crate) fn container_mounts(
    container: &Container,
    volumes: &[PlannedMount],
    hosts: PathBuf,
    message: &Path,
) -> (Vec<Mount>, Option<PathBuf>) {
    let mount_of = |volume: &PlannedMount| match &volume.image {
        Some(image) => convert::image_mount(image, &volume.mount),
        None => Mount {
            recursive_read_only: volume.recursive_read_only,
            ..convert::volume_mount(&volume.host_path, &volume.mount)
        },
    };
    let mut mounts: Vec<_> = volumes.iter().map(mount_of).collect();
    let file = |container_path: String, host_path: &Path| {
        let host_path = host_path.to_string_lossy().into_owned();
        Mount { container_path, host_path, ..Mount::default() }
    };
    let brings_hosts = mounts.iter().any(|mount| mount.container_path == ETC_HOSTS);
    if !brings_hosts {
        mounts.push(file(ETC_HOSTS.into(), &hosts));
    }
    if let Some(path) = container.termination_message_path.as_deref().filter(|path| !path.is_empty()) {
        mounts.push(file(volume::absolute(path), message));
    }
    (mounts, (!brings_hosts).then_some(hosts))
}

/// The devices of a container: those that it mounts, with the rule by which it may use them.
pub(super) fn container_devices(volumes: &[PlannedMount]) -> Vec<Device> {
    let devices = volumes.iter().filter(|volume| volume.is_device);
    devices
        .map(|volume| Device {
            container_path: volume::absolute(&volume.mount.mount_path),
            host_path: volume.host_path.to_string_lossy().into_owned(),
            permissions: if volume.mount.read_only == Some(true) { "mr" } else { "mrw" }.to_owned(),
        })
        .collect()
}

/// Whether a mount is read-only with all that is mounted below it. `supported` says whether the runtime can do that.
///
/// # Errors
/// When it must be, and cannot.
pub(super) fn resolve_recursion(mount: &VolumeMount, supported: bool) -> Result<bool, VolumeError> {
    let private = matches!(mount.mount_propagation.as_deref(), None | Some("" | "None"));
    match mount.recursive_read_only.as_deref() {
        Some("Enabled") if !supported => Err(VolumeError::RecursiveReadOnly(mount.name.clone())),
        Some("Enabled") => Ok(true),
        Some("IfPossible") => Ok(supported && private && mount.read_only == Some(true)),
        _ => Ok(false),
    }
}

fn asks_for_recursion(mount: &VolumeMount) -> bool {
    matches!(mount.recursive_read_only.as_deref(), Some("Enabled" | "IfPossible"))
}

impl Runtime {
    /// What the node has, if the container's environment asks for it.
    pub(super) async fn capacity_if_asked(
        &self,
        container: &Container,
    ) -> Result<Option<NodeCapacity>, StepError> {
        let sources = container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref());
        if !sources.into_iter().any(|source| source.resource_field_ref.is_some()) {
            return Ok(None);
        }
        if let Some(allocatable) = self.node.cgroups.node.allocatable {
            return Ok(Some(allocatable));
        }
        let root = self.node.dirs.root().to_owned();
        Ok(Some(smol::unblock(move || read_capacity(&root)).await?))
    }

    /// The runtime's name of the image of a volume, which was pulled before.
    async fn find_volume_image(&self, volume: &str, reference: &str) -> Result<String, StepError> {
        let fail =
            |reason: String| ResourceError::from(VolumeError::Image { volume: volume.to_owned(), reason });
        let name = ImageName::parse(reference).map_err(|error| fail(error.to_string()))?;
        let found = self.cri.image_status(&name.with_default_tag(reference)).await?;
        Ok(found.ok_or_else(|| fail(format!("image {reference:?} is not there any more")))?.id)
    }

    /// The variables that come from files, with their values; others are left as they are.
    ///
    /// # Errors
    /// When a file or key that must be there is not.
    pub(super) async fn read_env_files(&self, pod: &Pod, container: &Container) -> Result<Container, String> {
        let mut container = container.clone();
        let Some(variables) = container.env.take() else { return Ok(container) };
        let mut env = Vec::with_capacity(variables.len());
        for mut variable in variables {
            let source = variable.value_from.as_ref().and_then(|source| source.file_key_ref.clone());
            let Some(FileKeySelector { volume_name, path, key, optional }) = source else {
                env.push(variable);
                continue;
            };
            let (pod, dirs, at) = (pod.clone(), self.node.dirs.clone(), path.clone());
            let read = smol::unblock(move || volume::read_env_file(&pod, &volume_name, &at, &dirs)).await;
            let optional = optional == Some(true);
            let value = match read {
                Err(error) if error.is_absent() && optional => None,
                Err(error) => return Err(chain(&error)),
                Ok(text) => env_file_value(&text, &key).map_err(|reason| format!("{path}: {reason}"))?,
            };
            match value {
                Some(value) => {
                    variable.value = Some(unexpanded(&value));
                    variable.value_from = None;
                    env.push(variable);
                }
                None if optional => {}
                None => return Err(format!("environment variable key {key:?} not found in file {path:?}")),
            }
        }
        container.env = Some(env);
        Ok(container)
    }

    /// The CDI devices that a pod names, if the runtime knows of such.
    ///
    /// # Errors
    /// When it does not.
    pub(super) async fn cdi_devices(&self, pod: &Pod) -> Result<Vec<CdiDevice>, StartError> {
        let names = cdi_names(&pod.metadata);
        if names.is_empty() {
            return Ok(Vec::new());
        }
        const REASON: &str = "CreateContainerConfigError";
        let version = self.cri.version_once().await.map_err(|error| StartError::cri(REASON, error))?;
        match version.lacks(&CDI_DEVICES) {
            Some(lack) => Err(StartError::refused(REASON, format!("{}: {lack}", names.join(", ")))),
            None => Ok(names.into_iter().map(|name| CdiDevice { name }).collect()),
        }
    }

    /// The mounts of a container on the node. The runtime is asked what it can do only if that matters.
    pub(super) async fn plan_volume_mounts(
        &self,
        pod: &Pod,
        container: &Container,
        env: &[(String, String)],
    ) -> Result<Vec<PlannedMount>, StepError> {
        let mut mounts =
            volume::plan_mounts(pod, container, env, &self.node.dirs).map_err(ResourceError::from)?;
        for planned in &mut mounts {
            if let Some(image) = &mut planned.image {
                image.resolved = self.find_volume_image(&planned.mount.name, &image.reference).await?;
            }
        }
        if mounts.iter().any(|planned| asks_for_recursion(&planned.mount)) {
            let handler = pod.spec.runtime_class_name.as_deref().unwrap_or_default();
            let supported = self.cri.has_recursive_read_only(handler).await?;
            for planned in &mut mounts {
                planned.recursive_read_only =
                    resolve_recursion(&planned.mount, supported).map_err(ResourceError::from)?;
            }
        }
        Ok(mounts)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn recursion_needs_the_runtime() {
        // What the mount says; with support and without.
        let rows = [
            (json!({"readOnly": true}), Some(false), Some(false)),
            (json!({"readOnly": true, "recursiveReadOnly": "Disabled"}), Some(false), Some(false)),
            (json!({"readOnly": true, "recursiveReadOnly": "IfPossible"}), Some(true), Some(false)),
            (
                json!({"readOnly": true, "recursiveReadOnly": "IfPossible", "mountPropagation": "HostToContainer"}),
                Some(false),
                Some(false),
            ),
            (json!({"readOnly": true, "recursiveReadOnly": "Enabled"}), Some(true), None),
        ];
        for (fields, with, without) in rows {
            let mut mount = json!({"name": "v", "mountPath": "/v"});
            mount.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            let mount: VolumeMount = serde_json::from_value(mount).unwrap();
            assert_eq!(resolve_recursion(&mount, true).ok(), with, "{fields}");
            assert_eq!(resolve_recursion(&mount, false).ok(), without, "{fields}");
        }
    }
}
