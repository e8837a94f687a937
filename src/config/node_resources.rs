//! What is kept from pods, and at which cgroups it is enforced. Pure.

use super::flags::Flags;
use super::kubelet_configuration::KubeletConfiguration;
use crate::pod::cpu_set::CpuSet;
use crate::pod::node_allocatable::{Reservations, ResourceAmounts, Threshold};
use crate::pod::quantity::Amount;

const MAX_PODS: u64 = 110;
/// kubelet's, of the thresholds that are taken off what pods may request.
const DEFAULT_MEMORY: &str = "100Mi";
const DEFAULT_DISK: &str = "10%";

/// Settings of what pods may use of the node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NodeResourceSettings {
    /// What is reserved (`kubeReserved`, `systemReserved`, `reservedSystemCPUs`, `evictionHard`).
    pub reservations: Reservations,
    /// The CPUs that are kept for the system (`reservedSystemCPUs`).
    pub reserved_cpus: CpuSet,
    /// Whether the cgroup of all pods is limited to what is not reserved (`enforceNodeAllocatable`: pods).
    pub limit_pods: bool,
    /// The cgroup of Kubernetes' daemons, if it is named (`kubeReservedCgroup`).
    pub kube_cgroup: Option<ReservedCgroup>,
    /// The cgroup of the system, if it is named (`systemReservedCgroup`).
    pub system_cgroup: Option<ReservedCgroup>,
    /// The most pods (`maxPods`).
    pub max_pods: u64,
    /// The most pods per core, 0 for no such limit (`podsPerCore`).
    pub pods_per_core: u64,
}

/// A cgroup that exists, and may be limited to its reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReservedCgroup {
    /// Its name, as written.
    pub name: String,
    /// What is enforced.
    pub enforced: Enforced,
}

/// What of a reservation is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Enforced {
    /// Nothing.
    Nothing,
    /// CPU (`kube-reserved-compressible`).
    CpuAlone,
    /// All of it (`kube-reserved`).
    All,
}

/// The settings, with kubelet's defaults. Validation has checked every value.
pub(super) fn node_resource_settings(merged: &KubeletConfiguration, flags: &Flags) -> NodeResourceSettings {
    let text = |field: &str| merged.get(field).and_then(|value| value.as_str()).unwrap_or_default();
    let int = |field: &str| merged.get(field).and_then(|value| value.as_u64()).filter(|number| *number > 0);
    let levels: Vec<&str> = match merged.get("enforceNodeAllocatable") {
        Some(list) => list.as_array().into_iter().flatten().filter_map(|level| level.as_str()).collect(),
        None => vec!["pods"],
    };
    let enforced = |level: &str, cgroup: &str| {
        let compressible = format!("{level}-compressible");
        let enforced = match (levels.contains(&level), levels.contains(&compressible.as_str())) {
            (true, _) => Enforced::All,
            (false, true) => Enforced::CpuAlone,
            (false, false) => Enforced::Nothing,
        };
        let name = Some(text(cgroup).to_owned()).filter(|name| !name.is_empty());
        name.map(|name| ReservedCgroup { name, enforced })
    };
    let reserved_cpus = CpuSet::parse(text("reservedSystemCPUs")).unwrap_or_default();
    let ignores_eviction = flags.is_set("experimental-allocatable-ignore-eviction");
    let limit = |signal, default| if ignores_eviction { None } else { threshold(merged, signal, default) };
    let reservations = Reservations {
        kube: amounts(merged, "kubeReserved"),
        system: amounts(merged, "systemReserved"),
        memory_threshold: limit("memory.available", DEFAULT_MEMORY),
        disk_threshold: limit("nodefs.available", DEFAULT_DISK),
    };
    NodeResourceSettings {
        reservations: reservations.with_reserved_cpus(u64::try_from(reserved_cpus.len()).unwrap_or(0)),
        reserved_cpus,
        limit_pods: levels.contains(&"pods"),
        kube_cgroup: enforced("kube-reserved", "kubeReservedCgroup"),
        system_cgroup: enforced("system-reserved", "systemReservedCgroup"),
        max_pods: int("maxPods").unwrap_or(MAX_PODS),
        pods_per_core: int("podsPerCore").unwrap_or(0),
    }
}

fn amounts(merged: &KubeletConfiguration, field: &str) -> ResourceAmounts {
    let map = merged.get(field).and_then(|value| value.as_object()).into_iter().flatten();
    map.filter_map(|(name, value)| Some((name.clone(), Amount::parse(value.as_str()?).ok()?))).collect()
}

/// A hard threshold; the default counts only where none at all is written, unless they are to be merged.
fn threshold(merged: &KubeletConfiguration, signal: &str, default: &str) -> Option<Threshold> {
    let written = merged.get("evictionHard").and_then(|value| value.as_object());
    let merges = merged.get("mergeDefaultEvictionSettings").and_then(|value| value.as_bool()) == Some(true);
    let text = match written {
        Some(map) => {
            let own = map.get(signal).and_then(|value| value.as_str());
            own.or(merges.then_some(default))?
        }
        None => default,
    };
    match text.strip_suffix('%') {
        // These switch it off.
        Some("0" | "100") => None,
        Some(number) => number.parse::<f32>().ok().map(|percent| Threshold::Part(percent / 100.0)),
        None => Amount::parse(text).ok().map(Threshold::Quantity),
    }
}
