//! Kubernetes' `PodStatus`, made of the state of a pod where it is served, and nowhere else.
//!
//! Owns the difference between the two: the form of ids, the sentences of conditions, and what follows from the manifest.
//! Invariant: pure; the same state and manifest give the same status. Must not: be read back.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container as ContainerSpec, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, HostIP, PodCondition, PodIP, PodStatus, ResourceHealth,
    ResourceStatus, VolumeMountStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::pod_state::{Containers, condition_message};
use crate::pod::device_assignment::DeviceHealth;
use crate::pod::resources::total::pod_resources;
use crate::pod::state::{Condition, ContainerSummary, Phase, PodState, RunState, Termination};
use crate::pod::{ContainerId, Pod, qos};

/// The status of a pod in this state; without one, no worker has looked at the pod yet.
pub(crate) fn pod_status(pod: &Pod, state: Option<&PodState>, devices: &DeviceHealth) -> PodStatus {
    let Some(state) = state else {
        return PodStatus { phase: Some(Phase::Pending.as_str().into()), ..PodStatus::default() };
    };
    let containers = Containers::of(pod, &state.init_containers, &state.containers);
    let resources = pod_resources(&pod.spec);
    // Absent in Go's JSON when zero, as for every pod that was not read from an API server.
    let generation = pod.metadata.generation.filter(|generation| *generation != 0);
    let condition = |condition: &Condition| PodCondition {
        type_: condition.kind.as_str().into(),
        status: if condition.holds { "True" } else { "False" }.into(),
        last_transition_time: Some(Time(condition.since)),
        observed_generation: generation,
        reason: condition.reason.map(|reason| reason.as_str().to_owned()),
        message: condition.reason.and_then(|reason| condition_message(reason, pod, &containers)),
        ..PodCondition::default()
    };
    let (reason, message) = match (&state.failed, &state.no_sandbox) {
        (Some(failed), _) => (Some(failed.reason.as_str().to_owned()), Some(failed.message.clone())),
        (None, Some(waiting)) => (Some(waiting.reason.clone()), Some(waiting.message.clone())),
        (None, None) => (None, None),
    };
    // Conditions name containers in the order of the manifest; their statuses are served by name, as kubelet's.
    let of_pod = devices.get(&pod.uid);
    let with_devices = |(spec, summary): &(&ContainerSpec, &ContainerSummary)| ContainerStatus {
        allocated_resources_status: of_pod.and_then(|of_pod| of_pod.get(&spec.name)).map(resource_statuses),
        ..container_status(spec, summary)
    };
    // kubelet tells of devices of main containers only.
    let mut main: Vec<_> = containers.main.iter().map(with_devices).collect();
    main.sort_by(|a, b| a.name.cmp(&b.name));
    PodStatus {
        allocated_resources: resources.requests.clone(),
        conditions: Some(state.conditions.iter().map(condition).collect()),
        container_statuses: Some(main),
        init_container_statuses: some(
            containers.init.iter().map(|(spec, c)| container_status(spec, c)).collect(),
        ),
        host_ip: state.host_ips.first().cloned(),
        host_ips: some(state.host_ips.iter().map(|ip| HostIP { ip: ip.clone() }).collect()),
        message,
        observed_generation: generation,
        phase: Some(state.phase.as_str().into()),
        pod_ip: state.pod_ips.first().cloned(),
        pod_ips: some(state.pod_ips.iter().map(|ip| PodIP { ip: ip.clone() }).collect()),
        qos_class: Some(qos::qos_class(&pod.spec).to_string()),
        reason,
        resources: Some(resources),
        start_time: Some(Time(state.started_at)),
        ..PodStatus::default()
    }
}

/// The status of a pod that waits for what another one still has: no worker may look at it yet.
pub(crate) fn waiting_status(waits: &str) -> PodStatus {
    PodStatus {
        phase: Some(Phase::Pending.as_str().into()),
        reason: Some("WaitingForPods".into()),
        message: Some(waits.into()),
        ..PodStatus::default()
    }
}

fn container_status(spec: &ContainerSpec, summary: &ContainerSummary) -> ContainerStatus {
    let status = ContainerStatus {
        name: spec.name.clone(),
        restart_count: summary.restarts,
        started: Some(summary.started),
        ready: summary.ready,
        volume_mounts: some(volume_mounts(spec)),
        state: Some(run_state(&summary.state)),
        last_state: Some(summary.last_termination.as_deref().map(terminated).unwrap_or_default()),
        ..ContainerStatus::default()
    };
    match &summary.created {
        None => ContainerStatus { image: spec.image.clone().unwrap_or_default(), ..status },
        Some(created) => ContainerStatus {
            image: created.image.clone(),
            image_id: created.image_ref.clone(),
            container_id: Some(id_with_runtime(&created.id)),
            // As asked for: kubelet shows what the runtime gives, where that tells.
            resources: Some(spec.resources.clone().unwrap_or_default()),
            allocated_resources: spec.resources.as_ref().and_then(|r| r.requests.clone()),
            ..status
        },
    }
}

/// How the devices of a container are, by resource.
fn resource_statuses(devices: &BTreeMap<String, BTreeMap<String, bool>>) -> Vec<ResourceStatus> {
    let device = |(id, healthy): (&String, &bool)| ResourceHealth {
        resource_id: id.clone(),
        health: Some(if *healthy { "Healthy" } else { "Unhealthy" }.to_owned()),
        ..ResourceHealth::default()
    };
    let resource = |(name, devices): (&String, &BTreeMap<String, bool>)| ResourceStatus {
        name: name.clone(),
        resources: Some(devices.iter().map(device).collect()),
    };
    devices.iter().map(resource).collect()
}

fn run_state(state: &RunState) -> ContainerState {
    match state {
        RunState::Waiting(waiting) => ContainerState {
            waiting: Some(ContainerStateWaiting {
                reason: Some(waiting.reason.clone()),
                message: text(&waiting.message),
            }),
            ..ContainerState::default()
        },
        RunState::Running { started_at } => ContainerState {
            running: Some(ContainerStateRunning { started_at: Some(Time(*started_at)) }),
            ..ContainerState::default()
        },
        RunState::Terminated(ended) => terminated(ended),
    }
}

fn terminated(ended: &Termination) -> ContainerState {
    let ended = ContainerStateTerminated {
        container_id: ended.id.as_ref().map(id_with_runtime),
        exit_code: ended.exit_code,
        finished_at: ended.finished_at.map(Time),
        message: text(&ended.message),
        reason: text(&ended.reason),
        // kubelet never sets it: CRI tells a signal as 128 and its number.
        signal: None,
        started_at: ended.started_at.map(Time),
    };
    ContainerState { terminated: Some(ended), ..ContainerState::default() }
}

fn id_with_runtime(id: &ContainerId) -> String {
    format!("containerd://{id}")
}

fn volume_mounts(spec: &ContainerSpec) -> Vec<VolumeMountStatus> {
    let mounts = spec.volume_mounts.iter().flatten();
    let each = mounts.map(|mount| {
        let read_only = mount.read_only.filter(|read_only| *read_only);
        VolumeMountStatus {
            name: mount.name.clone(),
            mount_path: mount.mount_path.clone(),
            read_only,
            // Asked for or not, it is not done yet.
            recursive_read_only: read_only.map(|_| "Disabled".to_owned()),
            ..VolumeMountStatus::default()
        }
    });
    each.collect()
}

/// Empty texts are absent.
fn text(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

fn some<T>(items: Vec<T>) -> Option<Vec<T>> {
    Some(items).filter(|items| !items.is_empty())
}
