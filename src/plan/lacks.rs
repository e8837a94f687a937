//! The ConfigMaps and Secrets without which a pod cannot start. Nothing is tried before they are there: whoever has them says so.

use std::collections::BTreeMap;

use super::Waiting;
use crate::pod::Pod;
use crate::pod::object::PodObjects;

/// kubelet's reason for a container whose configuration cannot be made.
const CONFIG_ERROR: &str = "CreateContainerConfigError";
/// kubelet's reason for a volume that cannot be made.
const FAILED_MOUNT: &str = "FailedMount";

/// What is missing, as it is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Lacks {
    /// For the volumes of the pod, without which there is no sandbox.
    pub(crate) volumes: Option<Waiting>,
    /// For the environment of containers, by name.
    pub(crate) env: BTreeMap<String, Waiting>,
}

impl Lacks {
    /// What a pod lacks that has these objects.
    pub(crate) fn find(pod: &Pod, objects: &PodObjects) -> Self {
        let volumes = objects.lacking_volume(pod);
        let env = pod.containers().filter_map(|(_, spec)| {
            let message = objects.lacking_env(&pod.name.namespace, spec)?;
            Some((spec.name.clone(), Waiting { reason: CONFIG_ERROR.into(), message }))
        });
        Self {
            volumes: volumes.map(|message| Waiting { reason: FAILED_MOUNT.into(), message }),
            env: env.collect(),
        }
    }

    /// What is shown of the whole pod.
    pub(super) fn first(&self) -> Option<Waiting> {
        let volumes = self.volumes.as_ref().map(creating);
        volumes.or_else(|| self.env.values().next().cloned())
    }
}

/// What containers show that wait for a volume.
pub(super) fn creating(volumes: &Waiting) -> Waiting {
    let message = format!("{}: {}", volumes.reason, volumes.message);
    Waiting { reason: "ContainerCreating".into(), message }
}
