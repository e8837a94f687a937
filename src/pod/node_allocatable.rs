//! What pods may use of the node: what it has, without what is reserved. Pure.
//!
//! Two figures, as with kubelet. [`allocatable`] is what pods may request together: reservations and hard eviction
//! thresholds are taken off. [`enforced`] is the limit of the cgroup of all pods: the thresholds stay in it, so that there is
//! something to evict from.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::quantity::Amount;

/// Amounts by the name of their resource: `cpu`, `memory`, `ephemeral-storage`, `pods`, `hugepages-2Mi`, ...
pub(crate) type ResourceAmounts = BTreeMap<String, Amount>;

/// The resource that limits processes. It is reserved and enforced, and never part of what pods request.
pub(crate) const PID: &str = "pid";
const HUGE_PAGES: &str = "hugepages-";

/// A hard eviction threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Threshold {
    /// So much is left.
    Quantity(Amount),
    /// This part of the whole is left: 0.1 for 10%.
    Part(f32),
}

impl Threshold {
    fn of(self, capacity: Amount) -> Amount {
        match self {
            Self::Quantity(amount) => amount,
            Self::Part(part) => capacity.part(f64::from(part)),
        }
    }
}

/// What is kept from pods.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Reservations {
    /// For Kubernetes' own daemons (`kubeReserved`).
    pub(crate) kube: ResourceAmounts,
    /// For the system (`systemReserved`).
    pub(crate) system: ResourceAmounts,
    /// The hard eviction threshold of the node's memory (`memory.available`).
    pub(crate) memory_threshold: Option<Threshold>,
    /// The hard eviction threshold of the node's disk (`nodefs.available`).
    pub(crate) disk_threshold: Option<Threshold>,
}

impl Reservations {
    /// With so many CPUs reserved by number (`reservedSystemCPUs`): they count instead of the written amounts.
    pub(crate) fn with_reserved_cpus(mut self, count: u64) -> Self {
        if count > 0 {
            self.kube.remove("cpu");
            self.system.insert("cpu".to_owned(), Amount::whole(count));
        }
        self
    }

    /// What is reserved of a resource for daemons, without thresholds.
    fn daemons(&self, resource: &str) -> Amount {
        let of = |list: &ResourceAmounts| list.get(resource).copied().unwrap_or(Amount::ZERO);
        of(&self.system) + of(&self.kube)
    }

    /// All that is reserved of a resource of which there is so much.
    fn total(&self, resource: &str, capacity: Amount) -> Amount {
        let threshold = match resource {
            "memory" => self.memory_threshold,
            "ephemeral-storage" => self.disk_threshold,
            _ => None,
        };
        self.daemons(resource) + threshold.map_or(Amount::ZERO, |threshold| threshold.of(capacity))
    }
}

/// What pods may request together (`status.allocatable` of a Node).
pub(crate) fn allocatable(capacity: &ResourceAmounts, reserved: &Reservations) -> ResourceAmounts {
    let mut left: ResourceAmounts = capacity
        .iter()
        .filter(|(name, _)| *name != PID)
        .map(|(name, amount)| (name.clone(), amount.less(reserved.total(name, *amount))))
        .collect();
    // Huge pages are taken from memory, used or not.
    for (_, pages) in capacity.iter().filter(|(name, _)| name.starts_with(HUGE_PAGES)) {
        if let Some(memory) = left.get_mut("memory") {
            *memory = memory.less(*pages);
        }
    }
    left
}

/// The limits of the cgroup of all pods (`enforceNodeAllocatable: [pods]`).
pub(crate) fn enforced(capacity: &ResourceAmounts, reserved: &Reservations) -> ResourceAmounts {
    capacity.iter().map(|(name, amount)| (name.clone(), amount.less(reserved.daemons(name)))).collect()
}

/// The resources of which more is reserved than there is, a line each.
pub(crate) fn find_excess(capacity: &ResourceAmounts, reserved: &Reservations) -> Vec<String> {
    let excess = |(name, has): (&String, &Amount)| {
        let wanted = reserved.total(name, *has);
        (wanted > *has).then(|| format!("{wanted} of {name} are reserved, and the node has {has}"))
    };
    capacity.iter().filter_map(excess).collect()
}

/// How many pods the node takes: `maxPods`, or `podsPerCore` if that is less; 0 is no limit per core.
pub(crate) fn pods_capacity(max_pods: u64, pods_per_core: u64, cores: u64) -> Amount {
    let per_core = Some(pods_per_core.saturating_mul(cores)).filter(|limit| *limit > 0);
    Amount::whole(per_core.map_or(max_pods, |limit| limit.min(max_pods)))
}
