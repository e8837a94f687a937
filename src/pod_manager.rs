//! The desired pods, by name. (Their mirrors join them with the feature `apiserver`.)

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::pod::{Pod, PodName};
use crate::pod_config::PodUpdate;

/// What should run on this node.
#[derive(Debug, Default)]
pub struct PodManager {
    pods: BTreeMap<PodName, Arc<Pod>>,
}

impl PodManager {
    /// Follows a difference of the merged configuration.
    pub fn apply(&mut self, update: &PodUpdate) {
        match update {
            PodUpdate::Add(pod) | PodUpdate::Update(pod) => {
                self.pods.insert(pod.name.clone(), pod.clone());
            }
            PodUpdate::Remove(name) => {
                self.pods.remove(name);
            }
        }
    }

    /// The pod that should run under this name.
    pub fn get(&self, name: &PodName) -> Option<&Arc<Pod>> {
        self.pods.get(name)
    }
}
