//! The cgroup as a resource of an instance.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::warn;

use super::{CgroupError, Cgroups, remove_cgroup};
use crate::host::Dirs;
use crate::host::resource::{Resource, ResourceError};
use crate::host::state::{Durability, Store};
use crate::pod::cgroup_name::uid_of;
use crate::pod::object::PodObjects;
use crate::pod::{Pod, PodName, PodUid};
use crate::text::chain;

/// The instance's cgroup.
#[derive(Debug)]
pub(in crate::host) struct PodCgroups(pub(in crate::host) Arc<Cgroups>, pub(in crate::host) Dirs);

impl Resource for PodCgroups {
    fn failure_reason(&self) -> &'static str {
        "FailedToCreatePodContainer"
    }

    fn prepare(&self, pod: &Pod, _: &PodObjects) -> Result<(), ResourceError> {
        let has_own_limits = pod
            .spec
            .resources
            .as_ref()
            .and_then(|resources| resources.limits.as_ref())
            .is_some_and(|limits| !limits.is_empty());
        let prepared = if self.0.per_qos { self.0.prepare(pod) } else { Err(CgroupError::NoPodCgroups) };
        match prepared {
            Err(error) if has_own_limits => Err(error.into()),
            // As configured; everything else is worth a line.
            Err(CgroupError::NoPodCgroups) | Ok(()) => Ok(()),
            Err(error) => {
                self.0.tell_once(chain(&error));
                Ok(())
            }
        }
    }

    fn release(&self, _: &PodName, uid: &PodUid) -> Result<(), ResourceError> {
        let mut left = false;
        for dir in self.0.places(uid) {
            // A pod that is gone is not held back by its cgroup: housekeeping comes back to it.
            if let Err(error) = remove_cgroup(&dir) {
                warn!(error = chain(&error), "cannot remove the cgroup of a pod that is gone");
                left = true;
            }
        }
        self.note_left(uid, left);
        self.0.balance();
        Ok(())
    }

    fn list(&self) -> Vec<(PodUid, PathBuf)> {
        let left = self.left().names().unwrap_or_default();
        let is_ours = |(uid, _): &(PodUid, PathBuf)| {
            self.1.pod(uid).is_dir() || left.iter().any(|left| left == uid.as_str())
        };
        self.0.found().into_iter().filter(is_ours).collect()
    }

    fn remove(&self, path: &Path) -> Result<(), ResourceError> {
        let removed = remove_cgroup(path);
        if let Some(uid) = path.file_name().and_then(|name| name.to_str()).and_then(uid_of) {
            let left = self.0.places(&uid).iter().any(|place| place.is_dir());
            self.note_left(&uid, left);
        }
        removed?;
        self.0.balance();
        Ok(())
    }
}

impl PodCgroups {
    /// Instances whose cgroups could not be removed: their directories, which show whose they are, are gone by now.
    pub(super) fn left(&self) -> Store {
        Store::new(self.1.root(), "cgroups")
    }

    /// Notes whether something is left of an instance.
    fn note_left(&self, uid: &PodUid, left: bool) {
        let (store, uid) = (self.left(), uid.as_str());
        let noted = if left { store.write(uid, &(), Durability::Process) } else { store.remove(uid) };
        if let Err(error) = noted {
            warn!(error = chain(&error), "cannot note which cgroup is left");
        }
    }
}
