//! Computes the state of a pod from what was observed and planned, by kubelet's rules.
//!
//! Invariant: it can be computed from the runtime alone. The previous state fills in what the runtime has
//! forgotten; counts and times of what it still holds come out the same without it, so that a restart of the agent
//! changes none of them. Must not: know Kubernetes' `PodStatus`, which is made of the state where it is served.

mod conditions;
mod container;
mod containers;
mod phase;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container as ContainerSpec;

use crate::plan::Plan;
use crate::pod::Pod;
use crate::pod::observed::{Container, Observed, pod_ips};
use crate::pod::state::{ContainerSummary, Phase, PodState, whole_second};
use crate::probe::target::Verdicts;
use container::ContainerFacts;

pub(super) use conditions::condition_message;
pub(super) use containers::{ContainerRole, Containers};

/// Computes the state of an instance; `previous` is the one that was computed last.
pub(crate) fn pod_state(
    pod: &Pod,
    observed: &Observed,
    plan: &Plan,
    probes: &Verdicts,
    previous: Option<&PodState>,
    node_ips: &[String],
    now: Timestamp,
) -> PodState {
    let sandbox = observed.newest_sandbox(&pod.uid).filter(|s| s.is_of(pod));
    let (mut init_containers, mut containers) = summaries(pod, observed, plan, probes, previous);
    let count = init_containers.len() + containers.len();
    init_containers.iter_mut().chain(&mut containers).for_each(|c| container::limit_messages(c, count));
    let each = Containers::of(pod, &init_containers, &containers);
    let phase = match plan.failed {
        Some(_) => Phase::Failed,
        None => phase::phase(&pod.spec, plan, &each),
    };

    let first_created = observed.began(pod);
    let started_at = previous
        .map(|previous| previous.started_at)
        .unwrap_or_else(|| whole_second(first_created.unwrap_or(now).min(now)));
    let facts = conditions::Facts { pod, sandbox, phase, containers: &each, started_at, previous, now };
    let conditions = conditions::conditions(&facts);

    let mut ips = pod_ips(pod, sandbox, node_ips);
    if ips.is_empty() && matches!(phase, Phase::Succeeded | Phase::Failed) {
        // A completed pod keeps the addresses that it had.
        ips = previous.map(|previous| previous.pod_ips.clone()).unwrap_or_default();
    }
    PodState {
        phase,
        started_at,
        failed: plan.failed.clone(),
        no_sandbox: plan.sandbox.clone(),
        conditions,
        init_containers,
        containers,
        pod_ips: ips,
        host_ips: node_ips.to_vec(),
    }
}

/// Init containers and containers, each in the order of the manifest.
fn summaries(
    pod: &Pod,
    observed: &Observed,
    plan: &Plan,
    probes: &Verdicts,
    previous: Option<&PodState>,
) -> (Vec<ContainerSummary>, Vec<ContainerSummary>) {
    let init = pod.spec.init_containers.as_deref().unwrap_or_default();
    let is_main = |c: &Container| pod.spec.containers.iter().any(|spec| spec.name == c.name);
    let main_was_created = observed.own(pod).any(is_main);
    let summary = |spec: &ContainerSpec, role: ContainerRole, before: Option<&Vec<ContainerSummary>>| {
        container::summarize(&ContainerFacts {
            spec,
            role,
            containers: observed.containers_of(pod, &spec.name),
            waiting: plan.waiting.get(&spec.name),
            probes,
            previous: before.and_then(|all| all.iter().find(|c| c.name == spec.name)),
            has_init: !init.is_empty(),
            main_was_created,
        })
    };
    let init_before = previous.map(|previous| &previous.init_containers);
    let main_before = previous.map(|previous| &previous.containers);
    (
        init.iter().map(|spec| summary(spec, ContainerRole::of_init(spec), init_before)).collect(),
        pod.spec.containers.iter().map(|spec| summary(spec, ContainerRole::Main, main_before)).collect(),
    )
}
