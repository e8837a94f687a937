//! What is reserved of the node, and how it is enforced. Pure.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Checks, name};
use crate::pod::cpu_set::CpuSet;
use crate::pod::quantity::Amount;

const LEVELS: [&str; 6] = [
    "none",
    "pods",
    "system-reserved",
    "system-reserved-compressible",
    "kube-reserved",
    "kube-reserved-compressible",
];

/// Checks reservations, the levels at which they are enforced, and reserved CPUs.
pub(super) fn check(checks: &mut Checks<'_>) {
    for field in ["kubeReserved", "systemReserved"] {
        for (resource, value) in checks.pairs(field) {
            if !["cpu", "memory", "ephemeral-storage", "pid"].contains(&resource) {
                checks.refuse(field, format!("{resource:?} is not cpu, memory, ephemeral-storage or pid"));
            } else if !Amount::parse(value).is_ok_and(|amount| !amount.is_negative()) {
                checks.refuse(field, format!("{resource}: {value:?} is not a quantity such as 500m or 1Gi"));
            }
        }
    }
    for (resource, value) in checks.pairs("qosReserved") {
        let percent = value.strip_suffix('%').and_then(|number| number.parse::<u8>().ok());
        if resource != "memory" {
            checks.refuse("qosReserved", format!("{resource:?} is not memory"));
        } else if percent.is_none_or(|percent| percent > 100) {
            checks.refuse("qosReserved", format!("memory: {value:?} is not a percentage from 0% to 100%"));
        }
    }
    check_enforcement(checks);
    check_cpus(checks);
    check_cpu_manager(checks);
    check_memory(checks);
}

fn check_enforcement(checks: &mut Checks<'_>) {
    const FIELD: &str = "enforceNodeAllocatable";
    let levels: Vec<&str> = match checks.settings.get(FIELD) {
        Some(_) => checks.texts(FIELD).collect(),
        None => vec!["pods"],
    };
    let mut seen = BTreeSet::new();
    for level in &levels {
        if !LEVELS.contains(level) {
            checks.refuse(FIELD, format!("{level:?} is not one of {}", LEVELS.join(", ")));
        } else if !seen.insert(*level) {
            checks.refuse(FIELD, format!("{level} is there twice"));
        }
    }
    for (whole, cgroup) in
        [("system-reserved", "systemReservedCgroup"), ("kube-reserved", "kubeReservedCgroup")]
    {
        let compressible = format!("{whole}-compressible");
        let has = [seen.contains(whole), seen.contains(compressible.as_str())];
        if has == [true, true] {
            checks.refuse(FIELD, format!("{whole} and {compressible} cannot be set together"));
        }
        if has.contains(&true) && checks.text(cgroup).is_empty() {
            checks.refuse(FIELD, format!("{whole} needs {}", name(cgroup)));
        }
    }
    if seen.contains("none") && levels.len() > 1 {
        checks.refuse(FIELD, "none cannot be set together with others");
    }
    let enforces = seen.iter().any(|level| *level != "none");
    if enforces && !checks.bool("cgroupsPerQOS", true) {
        checks.refuse(FIELD, format!("needs {}; set it to [none] or to []", name("cgroupsPerQOS")));
    }
}

fn check_cpus(checks: &mut Checks<'_>) {
    const FIELD: &str = "reservedSystemCPUs";
    let cpus = checks.text(FIELD);
    if cpus.is_empty() {
        return;
    }
    if CpuSet::parse(cpus).is_none() {
        checks.refuse(FIELD, format!("{cpus:?} is not a list of CPUs such as 0,2-3"));
    }
    for other in ["systemReservedCgroup", "kubeReservedCgroup"] {
        if !checks.text(other).is_empty() {
            checks.refuse(FIELD, format!("cannot be set together with {}", name(other)));
        }
    }
}

/// The static policy needs CPUs that nobody has for itself; its options are not there yet, and nobody else has any.
fn check_cpu_manager(checks: &mut Checks<'_>) {
    const FIELD: &str = "cpuManagerPolicy";
    let cpu = |(resource, value): (&str, &str)| {
        resource == "cpu" && Amount::parse(value).is_ok_and(|amount| !amount.is_zero())
    };
    let mut reserved = !checks.text("reservedSystemCPUs").is_empty();
    for field in ["kubeReserved", "systemReserved"] {
        reserved |= checks.pairs(field).any(cpu);
    }
    if checks.text(FIELD) == "static" && !reserved {
        let reason = "static needs reservedSystemCPUs, or cpu in kubeReserved or systemReserved";
        checks.refuse(FIELD, reason);
    }
    if checks.pairs("cpuManagerPolicyOptions").next().is_some() {
        checks.refuse("cpuManagerPolicyOptions", "options of policies are not supported yet");
    }
}

fn check_memory(checks: &mut Checks<'_>) {
    const FIELD: &str = "reservedMemory";
    let mut seen = BTreeSet::new();
    for reservation in checks.items(FIELD) {
        let node = reservation["numaNode"].as_i64().unwrap_or_default();
        for (resource, value) in reservation["limits"].as_object().into_iter().flatten() {
            if resource != "memory" && !resource.starts_with("hugepages-") {
                checks.refuse(FIELD, format!("{resource:?} is not memory or hugepages-SIZE"));
            }
            let is_zero = match value {
                Value::String(text) => Amount::parse(text).is_ok_and(Amount::is_zero),
                value => value.as_f64() == Some(0.0),
            };
            if is_zero {
                checks.refuse(FIELD, format!("{resource} of NUMA node {node} must not be zero"));
            }
            if !seen.insert((node, resource)) {
                checks.refuse(FIELD, format!("{resource} of NUMA node {node} is there twice"));
            }
        }
    }
}
