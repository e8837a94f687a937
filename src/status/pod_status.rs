//! The status of a pod, computed from what was observed and planned, by kubelet's rules.
//!
//! Invariant: it can be computed from the runtime alone. What was shown before fills in what the runtime has
//! forgotten; counts and times of what it still holds come out the same without, so that a restart of the agent
//! moves none of them.

mod conditions;
mod container;
mod phase;
mod resources;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container as ContainerSpec, ContainerStatus, HostIP, PodIP, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::plan::Plan;
use crate::pod::observed::{Container, Observed, pod_ips};
use crate::pod::{Pod, qos};
use crate::probe::target::Verdicts;
use container::{Found, Kind};

/// Computes the status of an instance; `previous` is what was last shown of it.
pub(crate) fn pod_status(
    pod: &Pod,
    observed: &Observed,
    plan: &Plan,
    probes: &Verdicts,
    previous: Option<&Arc<PodStatus>>,
    node_ips: &[String],
    now: Timestamp,
) -> PodStatus {
    let previous = previous.map(Arc::as_ref);
    let sandbox = observed.newest_sandbox(&pod.uid).filter(|s| s.is_of(pod));
    let Statuses { mut init, mut main } = statuses(pod, observed, plan, probes, previous);
    let together = init.len() + main.len();
    init.iter_mut().chain(&mut main).for_each(|(_, status)| container::share_messages(status, together));
    let phase = match plan.failed {
        Some(_) => "Failed",
        None => phase::phase(&pod.spec, plan, &init, &main),
    };

    let first_made = observed.began(pod);
    let start = previous
        .and_then(|p| p.start_time.as_ref().map(|time| time.0))
        .unwrap_or_else(|| first_made.unwrap_or(now).min(now));
    // Absent in Go's JSON when zero, as for every pod that was not read from an API server.
    let generation = pod.metadata.generation.filter(|generation| *generation != 0);
    let facts =
        conditions::Facts { pod, sandbox, phase, init: &init, main: &main, start, generation, previous, now };
    let conditions = conditions::conditions(&facts);

    let mut ips = pod_ips(pod, sandbox, node_ips);
    if ips.is_empty() && matches!(phase, "Succeeded" | "Failed") {
        // A completed pod is still known by the addresses that it had.
        let had = previous.and_then(|p| p.pod_ips.as_ref()).into_iter().flatten();
        ips = had.map(|had| had.ip.clone()).collect();
    }
    let resources = resources::pod_resources(&pod.spec);
    let said = match (&plan.failed, &plan.sandbox) {
        (Some(failed), _) => Some((&failed.reason, &failed.message)),
        (None, held_up) => held_up.as_ref().map(|waiting| (&waiting.reason, &waiting.message)),
    };
    // The conditions name containers in the order of the manifest; their statuses are served by name, as kubelet's.
    let mut main: Vec<_> = main.into_iter().map(|(_, status)| status).collect();
    main.sort_by(|a, b| a.name.cmp(&b.name));
    PodStatus {
        allocated_resources: resources.requests.clone(),
        conditions: Some(conditions),
        container_statuses: Some(main),
        init_container_statuses: some(init.into_iter().map(|(_, status)| status).collect()),
        host_ip: node_ips.first().cloned(),
        host_ips: some(node_ips.iter().map(|ip| HostIP { ip: ip.clone() }).collect()),
        message: said.map(|(_, message)| message.clone()),
        observed_generation: generation,
        phase: Some(phase.into()),
        pod_ip: ips.first().cloned(),
        pod_ips: some(ips.into_iter().map(|ip| PodIP { ip }).collect()),
        qos_class: Some(qos::qos_class(&pod.spec).to_string()),
        reason: said.map(|(reason, _)| reason.clone()),
        resources: Some(resources),
        start_time: Some(time(start)),
        ..PodStatus::default()
    }
}

/// The condition `Ready` holds.
pub(crate) fn is_ready(status: &PodStatus) -> bool {
    status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True")
}

/// Containers as specified, each with its status, in the order of the manifest.
type Specified<'a> = Vec<(&'a ContainerSpec, ContainerStatus)>;

struct Statuses<'a> {
    init: Specified<'a>,
    main: Specified<'a>,
}

fn statuses<'a>(
    pod: &'a Pod,
    observed: &Observed,
    plan: &Plan,
    probes: &Verdicts,
    previous: Option<&PodStatus>,
) -> Statuses<'a> {
    let init = pod.spec.init_containers.as_deref().unwrap_or_default();
    let is_main = |c: &Container| pod.spec.containers.iter().any(|spec| spec.name == c.name);
    let main_was_made = observed.own(pod).any(is_main);
    let status_of = |spec: &'a ContainerSpec, kind: Kind, before: Option<&Vec<ContainerStatus>>| {
        let status = container::container_status(&Found {
            spec,
            kind,
            containers: observed.containers_of(pod, &spec.name),
            waiting: plan.waiting.get(&spec.name),
            probes,
            previous: before.and_then(|all| all.iter().find(|status| status.name == spec.name)),
            has_init: !init.is_empty(),
            main_was_made,
        });
        (spec, status)
    };
    let init_before = previous.and_then(|p| p.init_container_statuses.as_ref());
    let main_before = previous.and_then(|p| p.container_statuses.as_ref());
    Statuses {
        init: init.iter().map(|spec| status_of(spec, Kind::of_init(spec), init_before)).collect(),
        main: pod.spec.containers.iter().map(|spec| status_of(spec, Kind::Main, main_before)).collect(),
    }
}

/// The API writes times in whole seconds.
fn time(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

fn some<T>(items: Vec<T>) -> Option<Vec<T>> {
    Some(items).filter(|items| !items.is_empty())
}
