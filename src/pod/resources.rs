//! Requests and limits as the kernel is told of them: kubelet's figures for containers, sandboxes and pods. Pure.

pub(crate) mod total;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::node_allocatable::{PID, ResourceAmounts};
use super::qos::{QosClass, qos_class};
use super::quantity::Amount;
use super::resource_field::NodeCapacity;
use super::{containers_of, is_sidecar};
use total::pod_resources;

/// The kernel takes no fewer shares, and no more.
const MIN_SHARES: i64 = 2;
const MAX_SHARES: i64 = 262_144;
const SHARES_PER_CPU: i64 = 1024;
/// The kernel takes no shorter quota, in microseconds.
const MIN_QUOTA: i64 = 1000;
const NODE_CRITICAL: &str = "system-node-critical";
const HUGE_PAGES: &str = "hugepages-";

/// A size of huge pages that the node has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HugePageSize {
    /// In bytes.
    pub bytes: i64,
    /// As cgroups name it: `2MB`.
    pub name: String,
}

/// What the figures depend on beside the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeResources {
    /// The node's memory in bytes.
    pub memory_capacity: i64,
    /// The period of CPU quotas in microseconds; none if limits of CPU are not enforced (`cpuCFSQuota: false`).
    pub quota_period: Option<i64>,
    /// The sizes of huge pages, the smallest first.
    pub huge_page_sizes: Vec<HugePageSize>,
    /// Whether the node has cgroup v2 alone.
    pub unified: bool,
    /// Whether cgroups of the node can limit swap.
    pub swap_controller: bool,
    /// Whether the kernel kills one process of a container that is out of memory, not all (`singleProcessOOMKill`).
    pub single_process_oom_kill: bool,
    /// The most processes of a pod (`podPidsLimit`).
    pub pod_pids_limit: Option<i64>,
    /// What pods may request together, where it is known.
    pub(crate) allocatable: Option<NodeCapacity>,
}

impl Default for NodeResources {
    fn default() -> Self {
        Self {
            memory_capacity: 0,
            quota_period: Some(100_000),
            huge_page_sizes: Vec::new(),
            unified: false,
            swap_controller: false,
            single_process_oom_kill: true,
            pod_pids_limit: None,
            allocatable: None,
        }
    }
}

/// CPU and memory as the kernel is told of them. Zero says nothing, as in CRI.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) cpu_shares: i64,
    pub(crate) cpu_quota: i64,
    pub(crate) cpu_period: i64,
    pub(crate) memory_limit: i64,
}

/// What the cgroup of a whole pod is given; what is none is left as the kernel has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PodFigures {
    pub(crate) cpu_shares: Option<i64>,
    /// Quota and period.
    pub(crate) cpu_quota: Option<(i64, i64)>,
    pub(crate) memory_limit: Option<i64>,
    pub(crate) pids_limit: Option<i64>,
    /// The limit in bytes of every size of huge pages, by its name.
    pub(crate) huge_page_limits: Vec<(String, i64)>,
}

/// The figures of a container.
pub(crate) fn container_figures(spec: &PodSpec, container: &Container, node: &NodeResources) -> Figures {
    let own = container.resources.as_ref();
    let limit = |name| match amount(limits(own), name).filter(|amount| !amount.is_zero()) {
        // A container without a limit has that of its pod.
        None => amount(limits(spec.resources.as_ref()), name),
        limit => limit,
    };
    figures(amount(requests(own), "cpu"), limit("cpu"), limit("memory"), node)
}

/// The figures of a pod's containers together, without its overhead.
pub(crate) fn sandbox_figures(spec: &PodSpec, node: &NodeResources) -> Figures {
    let whole = pod_resources(&PodSpec { overhead: None, ..spec.clone() });
    let (requests, limits) = (requests(Some(&whole)), limits(Some(&whole)));
    figures(amount(requests, "cpu"), amount(limits, "cpu"), amount(limits, "memory"), node)
}

/// The figures of a pod's overhead; none without one.
pub(crate) fn overhead_figures(spec: &PodSpec, node: &NodeResources) -> Option<Figures> {
    let overhead = spec.overhead.as_ref()?;
    let cpu = amount(Some(overhead), "cpu");
    Some(figures(Some(cpu.unwrap_or(Amount::ZERO)), cpu, amount(Some(overhead), "memory"), node))
}

/// What the cgroup of a pod is given: limits only of what all its containers, or the pod itself, have a limit of.
pub(crate) fn pod_figures(spec: &PodSpec, node: &NodeResources) -> PodFigures {
    let whole = pod_resources(spec);
    let (requests, limits) = (requests(Some(&whole)), self::limits(Some(&whole)));
    let is_limited = |name| {
        let has =
            |list: Option<&Quantities>| amount(list, name).is_some_and(|amount: Amount| !amount.is_zero());
        has(self::limits(spec.resources.as_ref()))
            || containers_of(spec).all(|(_, c)| has(self::limits(c.resources.as_ref())))
    };
    let all = figures(
        Some(amount(requests, "cpu").unwrap_or(Amount::ZERO)),
        amount(limits, "cpu"),
        amount(limits, "memory"),
        node,
    );
    let huge_page_limits = node
        .huge_page_sizes
        .iter()
        .map(|size| (size.name.clone(), huge_page_limit(requests, size).unwrap_or(0)))
        .collect();
    let best_effort = qos_class(spec) == QosClass::BestEffort;
    let quota = node.quota_period.filter(|_| !best_effort && is_limited("cpu"));
    PodFigures {
        cpu_shares: Some(if best_effort { MIN_SHARES } else { all.cpu_shares }),
        cpu_quota: quota.map(|period| (all.cpu_quota, period)),
        memory_limit: Some(all.memory_limit).filter(|_| !best_effort && is_limited("memory")),
        pids_limit: node.pod_pids_limit.filter(|limit| *limit > 0),
        huge_page_limits,
    }
}

/// What a cgroup above pods is given, that of all pods or one of the system: these amounts, as shares and limits.
pub(crate) fn amount_figures(amounts: &ResourceAmounts, node: &NodeResources) -> PodFigures {
    let value = |name: &str| amounts.get(name).copied().map(Amount::value);
    let pages = |size: &HugePageSize| {
        let name = format!("{HUGE_PAGES}{}", Amount::bytes(u64::try_from(size.bytes).ok()?));
        Some((size.name.clone(), value(&name)?))
    };
    PodFigures {
        cpu_shares: amounts.get("cpu").map(|cpu| shares(cpu.milli_value())),
        cpu_quota: None,
        memory_limit: value("memory"),
        pids_limit: value(PID),
        huge_page_limits: node.huge_page_sizes.iter().filter_map(pages).collect(),
    }
}

/// The limit of every size of huge pages for a container, in bytes: none without one, as kubelet.
pub(crate) fn huge_page_limits(
    spec: &PodSpec,
    container: &Container,
    node: &NodeResources,
) -> Vec<(String, i64)> {
    let own = limits(container.resources.as_ref());
    let of_pod = limits(spec.resources.as_ref());
    let limit =
        |size| huge_page_limit(own, size).or_else(|| huge_page_limit(of_pod, size)).unwrap_or_default();
    node.huge_page_sizes.iter().map(|size| (size.name.clone(), limit(size))).collect()
}

fn huge_page_limit(list: Option<&Quantities>, size: &HugePageSize) -> Option<i64> {
    let is_size = |name: &str| {
        let quantity = name.strip_prefix(HUGE_PAGES).and_then(|size| Amount::parse(size).ok());
        quantity.is_some_and(|quantity| quantity.value() == size.bytes)
    };
    let (_, limit) = list?.iter().find(|(name, _)| is_size(name))?;
    Amount::parse(&limit.0).ok().map(Amount::value)
}

/// How readily the kernel kills a container when memory is short: 1000 first, -997 last.
pub(crate) fn oom_score_adj(spec: &PodSpec, container: &Container, memory_capacity: i64) -> i64 {
    const LAST: i64 = -997;
    const FIRST: i64 = 1000;
    if spec.priority_class_name.as_deref() == Some(NODE_CRITICAL) {
        return LAST;
    }
    match qos_class(spec) {
        QosClass::Guaranteed => return LAST,
        QosClass::BestEffort => return FIRST,
        QosClass::Burstable => {}
    }
    let request = |c: &Container| amount(requests(c.resources.as_ref()), "memory").map_or(0, Amount::value);
    let mut wanted = request(container);
    let is_init = spec.init_containers.iter().flatten().any(|init| init.name == container.name);
    if is_init && is_sidecar(container) {
        // A sidecar goes no sooner than what it serves.
        wanted = wanted.max(spec.containers.iter().map(request).min().unwrap_or(0));
    }
    // What the pod requests beyond what its containers need at most is divided among all of them.
    if let Some(of_pod) = amount(requests(spec.resources.as_ref()), "memory") {
        let alone = pod_resources(&PodSpec { resources: None, overhead: None, ..spec.clone() });
        let needed = amount(requests(Some(&alone)), "memory").map_or(0, Amount::value);
        let count = i64::try_from(containers_of(spec).count().max(1)).unwrap_or(i64::MAX);
        wanted += (of_pod.value() - needed).max(0) / count;
    }
    let share = i128::from(wanted) * 1000 / i128::from(memory_capacity.max(1));
    // Above Guaranteed, below BestEffort.
    (FIRST - i64::try_from(share).unwrap_or(FIRST)).clamp(FIRST + LAST, FIRST - 1)
}

fn figures(
    cpu_request: Option<Amount>,
    cpu_limit: Option<Amount>,
    memory_limit: Option<Amount>,
    node: &NodeResources,
) -> Figures {
    let milli = |amount: Option<Amount>| amount.map_or(0, Amount::milli_value);
    Figures {
        cpu_shares: shares(milli(cpu_request.or(cpu_limit))),
        cpu_quota: node.quota_period.map_or(0, |period| quota(milli(cpu_limit), period)),
        cpu_period: node.quota_period.unwrap_or(0),
        memory_limit: memory_limit.map_or(0, Amount::value),
    }
}

/// CPU shares for thousandths of a CPU.
fn shares(milli: i64) -> i64 {
    (milli.saturating_mul(SHARES_PER_CPU) / 1000).clamp(MIN_SHARES, MAX_SHARES)
}

/// The microseconds of a period for thousandths of a CPU; zero is no limit.
fn quota(milli: i64, period: i64) -> i64 {
    if milli == 0 { 0 } else { (milli.saturating_mul(period) / 1000).max(MIN_QUOTA) }
}

type Quantities = BTreeMap<String, Quantity>;

fn requests(resources: Option<&ResourceRequirements>) -> Option<&Quantities> {
    resources?.requests.as_ref()
}

fn limits(resources: Option<&ResourceRequirements>) -> Option<&Quantities> {
    resources?.limits.as_ref()
}

/// Validation has seen to it that it is a quantity.
fn amount(list: Option<&Quantities>, name: &str) -> Option<Amount> {
    Amount::parse(&list?.get(name)?.0).ok()
}
