//! Who has a pod's name and UID among the parts of the contents.

use std::collections::BTreeMap;

use crate::pod::finding::{Finding, Refusal};
use crate::pod::{Pod, PodName, PodUid};

/// Which part has which name and UID: two pods with one UID would share their directories.
#[derive(Default)]
pub(super) struct Owners {
    names: BTreeMap<PodName, String>,
    uids: BTreeMap<PodUid, String>,
}

impl Owners {
    /// Takes the name and the UID of a pod.
    ///
    /// # Errors
    /// When another part has one of them.
    pub(super) fn claim(&mut self, pod: &Pod, claimant: impl Fn() -> String) -> Result<(), Refusal> {
        if let Some(owner) = self.names.get(&pod.name) {
            return Err(clash("metadata.name", &format!("pod {}", pod.name), owner));
        }
        if let Some(owner) = self.uids.get(&pod.uid) {
            return Err(clash("metadata.uid", &format!("UID {}", pod.uid), owner));
        }
        self.names.insert(pod.name.clone(), claimant());
        self.uids.insert(pod.uid.clone(), claimant());
        Ok(())
    }
}

/// Why a part is refused: another one has what it names.
pub(super) fn clash(field: &str, what: &str, owner: &str) -> Refusal {
    Finding::new(field, format!("{what} is already defined by {owner}")).into()
}
