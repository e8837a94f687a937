//! Whether a pod fits on this node, beside the pods that are there: kubelet's predicates, with its reasons. Pure.
//!
//! The sync loop asks, and remembers whom it admitted (`sync_loop::admit`). Not judged here: ports of the host, which belong
//! to one manifest before any instance exists (`mux::claims`).

mod node_affinity;
pub(crate) mod preemption;
mod requests;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::pod::Pod;
use crate::pod::security::admission::{NodeSecurity, NotAdmitted, admit, needs_selinux, no_selinux};
use crate::pod::state::Waiting;

pub(crate) use requests::Requests;

const OS_LABEL: &str = "kubernetes.io/os";
const OS: &str = "linux";
/// What pods count as, each one.
pub(crate) const PODS: &str = "pods";

/// What the node is, and what it has to give to pods.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct NodeLimits {
    /// Its name.
    pub(crate) name: String,
    /// Its labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// What all pods together may request; what is not named here there is none of.
    pub(crate) allocatable: Requests,
    /// Which rights of pods it has and allows.
    pub(crate) security: NodeSecurity,
}

/// A resource that the node has too little of for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shortage {
    pub(crate) resource: String,
    pub(crate) requested: i64,
    pub(crate) used: i64,
    pub(crate) capacity: i64,
}

impl Shortage {
    /// How much is missing.
    pub(crate) fn missing(&self) -> i64 {
        self.requested.saturating_sub(self.capacity.saturating_sub(self.used))
    }

    /// kubelet's reason and sentence.
    pub(crate) fn refusal(&self) -> Waiting {
        let Self { resource, requested, used, capacity } = self;
        Waiting {
            reason: format!("OutOf{resource}"),
            message: format!(
                "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
            ),
        }
    }
}

/// Why a pod cannot run on a node of this kind, however empty it is.
pub(crate) fn find_mismatch(pod: &Pod, node: &NodeLimits) -> Option<Waiting> {
    let refusal = |reason: &str, message: &str| Waiting { reason: reason.into(), message: message.into() };
    let unconfined = || (needs_selinux(pod) && !node.security.has_selinux).then(no_selinux);
    let of_security = admit(pod, &node.security).err().or_else(unconfined);
    let waiting = |NotAdmitted { reason, message }: NotAdmitted| Waiting { reason: reason.into(), message };
    // kubelet asks for AppArmor last of all; SELinux is asked for here alone.
    let (late, early): (Vec<_>, Vec<_>) =
        of_security.into_iter().partition(|refusal| refusal.reason != "SysctlForbidden");
    let label = pod.metadata.labels.as_ref().and_then(|labels| labels.get(OS_LABEL));
    let general = || {
        if label.is_some_and(|label| label != OS) {
            let message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label";
            return Some(refusal("PodOSSelectorNodeLabelDoesNotMatch", message));
        }
        let fits = node_affinity::matches(&pod.spec, &node.name, &node.labels);
        (!fits).then(|| {
            let message = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
            refusal("NodeAffinity", message)
        })
    };
    let early = early.into_iter().next().map(waiting);
    early.or_else(general).or_else(|| late.into_iter().next().map(waiting))
}

/// What the node has too little of for these requests, beside what others use; in kubelet's order.
pub(crate) fn find_shortages(wanted: &Requests, used: &Requests, allocatable: &Requests) -> Vec<Shortage> {
    let first = [PODS, "cpu", "memory", "ephemeral-storage"];
    let others = wanted.names().filter(|name| !first.contains(name));
    let each = first.into_iter().chain(others).map(|name| Shortage {
        resource: name.to_owned(),
        requested: wanted.get(name),
        used: used.get(name),
        capacity: allocatable.get(name),
    });
    each.filter(|shortage| shortage.requested > 0 && shortage.missing() > 0).collect()
}
