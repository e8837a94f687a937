//! Requests, limits and cgroups in CRI's messages.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;

use crate::pod::Pod;
use crate::pod::resources::{
    Figures, NodeResources, container_figures, huge_page_limits, oom_score_adj, overhead_figures,
    sandbox_figures,
};
use crate::runtime::cri::proto::{ContainerConfig, HugepageLimit, LinuxContainerResources, PodSandboxConfig};

/// Adds the resources of a pod and the parent of its cgroups to its sandbox.
pub fn add_sandbox_resources(
    config: &mut PodSandboxConfig,
    pod: &Pod,
    node: &NodeResources,
    cgroup_parent: String,
) {
    let linux = config.linux.get_or_insert_default();
    linux.cgroup_parent = cgroup_parent;
    linux.overhead =
        Some(overhead_figures(&pod.spec, node).map_or_else(Default::default, |f| message(f, node)));
    linux.resources = Some(message(sandbox_figures(&pod.spec, node), node));
}

/// Adds the resources of a container.
pub fn add_container_resources(
    config: &mut ContainerConfig,
    pod: &Pod,
    container: &Container,
    node: &NodeResources,
) {
    let mut resources = message(container_figures(&pod.spec, container, node), node);
    resources.oom_score_adj = oom_score_adj(&pod.spec, container, node.memory_capacity);
    let limits = huge_page_limits(&pod.spec, container, node).into_iter();
    resources.hugepage_limits = limits
        .map(|(page_size, limit)| HugepageLimit { page_size, limit: u64::try_from(limit).unwrap_or(0) })
        .collect();
    // Static pods are critical to kubelet, and critical pods do not swap.
    if node.swap_controller {
        if node.unified {
            resources.unified.insert("memory.swap.max".to_owned(), "0".to_owned());
        } else {
            resources.memory_swap_limit_in_bytes = resources.memory_limit_in_bytes;
        }
    }
    config.linux.get_or_insert_default().resources = Some(resources);
}

/// Adds the CPUs that a container is to run on, if it may not run on all.
pub(crate) fn add_cpus(config: &mut ContainerConfig, cpus: Option<String>) {
    if let Some(cpus) = cpus {
        config.linux.get_or_insert_default().resources.get_or_insert_default().cpuset_cpus = cpus;
    }
}

fn message(figures: Figures, node: &NodeResources) -> LinuxContainerResources {
    let mut unified = BTreeMap::new();
    if node.unified && !node.single_process_oom_kill {
        unified.insert("memory.oom.group".to_owned(), "1".to_owned());
    }
    LinuxContainerResources {
        cpu_shares: figures.cpu_shares,
        cpu_quota: figures.cpu_quota,
        cpu_period: figures.cpu_period,
        memory_limit_in_bytes: figures.memory_limit,
        unified,
        ..Default::default()
    }
}
