//! The status of a pod, computed from what was observed and planned.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container as ContainerSpec, ContainerState as ApiState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, HostIP, PodCondition, PodIP, PodStatus, VolumeMountStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Pod, is_sidecar, qos};
use crate::observed::{Container, ContainerState, Observed, Sandbox};
use crate::plan::{Init, Plan};

/// Computes the status of the wanted instance; `previous` keeps the times of what did not change.
pub fn pod_status(
    pod: &Pod,
    observed: &Observed,
    plan: &Plan,
    previous: Option<&Arc<PodStatus>>,
    node_ips: &[String],
    now: Timestamp,
) -> PodStatus {
    let sandbox =
        observed.newest_sandbox(&pod.uid).filter(|s| s.hash.as_ref().is_none_or(|hash| *hash == pod.hash));
    let init_specs = pod.spec.init_containers.as_deref().unwrap_or_default();
    let has_init = !init_specs.is_empty();
    let status_of =
        |spec| container_status(spec, &observed.containers_of(&pod.uid, &spec.name), plan, has_init);
    let mut containers: Vec<_> = pod.spec.containers.iter().map(status_of).collect();
    let init: Vec<_> = init_specs.iter().map(|spec| init_status(spec, status_of(spec))).collect();
    let phase = match plan.init {
        Init::Pending => "Pending",
        Init::Failed => "Failed",
        Init::Passed => phase(pod.spec.restart_policy.as_deref(), &containers),
    };
    let sidecars =
        init_specs.iter().zip(&init).filter(|(spec, _)| is_sidecar(spec)).map(|(_, status)| status);
    let kept_ready: Vec<_> = sidecars.chain(&containers).collect();
    let initialized = initialized(plan.init, phase, init_specs, &init);
    let conditions = conditions(sandbox, phase, initialized, &kept_ready, previous, now);
    // The conditions name containers in the order of the manifest; their statuses are served by name, as kubelet's.
    containers.sort_by(|a, b| a.name.cmp(&b.name));
    let mut ips = pod_ips(pod, sandbox, node_ips);
    if ips.is_empty() && matches!(phase, "Succeeded" | "Failed") {
        // A completed pod is still known by the addresses that it had.
        let had = previous.and_then(|p| p.pod_ips.as_ref()).into_iter().flatten();
        ips = had.map(|had| had.ip.clone()).collect();
    }
    let first_made = observed.sandboxes.iter().filter(|s| s.uid == pod.uid).map(|s| s.created_at).min();
    let start_time = previous
        .and_then(|p| p.start_time.clone())
        .unwrap_or_else(|| time(first_made.unwrap_or(now).min(now)));
    PodStatus {
        conditions: Some(conditions),
        container_statuses: Some(containers),
        init_container_statuses: some(init),
        host_ip: node_ips.first().cloned(),
        host_ips: some(node_ips.iter().map(|ip| HostIP { ip: ip.clone() }).collect()),
        phase: Some(phase.into()),
        pod_ip: ips.first().cloned(),
        pod_ips: some(ips.into_iter().map(|ip| PodIP { ip }).collect()),
        qos_class: Some(qos::qos_class(&pod.spec).to_string()),
        start_time: Some(start_time),
        ..PodStatus::default()
    }
}

/// The phase of a pod, by kubelet's rules.
fn phase(restart_policy: Option<&str>, containers: &[ContainerStatus]) -> &'static str {
    let (mut running, mut waiting, mut stopped, mut succeeded) = (0, 0, 0, 0);
    for status in containers {
        let state = status.state.as_ref();
        let last = status.last_state.as_ref().and_then(|s| s.terminated.as_ref());
        if state.is_some_and(|s| s.running.is_some()) {
            running += 1;
        } else if let Some(ended) = state.and_then(|s| s.terminated.as_ref()).or(last) {
            stopped += 1;
            succeeded += i32::from(ended.exit_code == 0);
        } else {
            waiting += 1;
        }
    }
    match restart_policy {
        _ if waiting > 0 => "Pending",
        _ if running > 0 => "Running",
        _ if stopped == 0 => "Pending",
        Some("Never" | "OnFailure") if stopped == succeeded => "Succeeded",
        Some("Never") => "Failed",
        _ => "Running",
    }
}

/// An init container is ready when it is done; a sidecar, when it runs.
fn init_status(spec: &ContainerSpec, mut status: ContainerStatus) -> ContainerStatus {
    if !is_sidecar(spec) {
        status.ready = has_succeeded(&status);
        status.started = Some(status.state.as_ref().is_some_and(|s| s.running.is_some()));
    }
    status
}

fn has_succeeded(status: &ContainerStatus) -> bool {
    status.state.as_ref().and_then(|s| s.terminated.as_ref()).is_some_and(|ended| ended.exit_code == 0)
}

/// The condition `Initialized`.
fn initialized(progress: Init, phase: &str, specs: &[ContainerSpec], init: &[ContainerStatus]) -> Judged {
    if progress == Init::Passed {
        return Judged {
            holds: true,
            reason: (phase == "Succeeded").then_some("PodCompleted"),
            message: None,
        };
    }
    let complete = |spec: &ContainerSpec, status: &ContainerStatus| {
        if is_sidecar(spec) { status.started == Some(true) } else { has_succeeded(status) }
    };
    let names = specs
        .iter()
        .zip(init)
        .filter(|(spec, status)| !complete(spec, status))
        .map(|(spec, _)| spec.name.as_str());
    let message = format!("containers with incomplete status: [{}]", names.collect::<Vec<_>>().join(" "));
    Judged { holds: false, reason: Some("ContainersNotInitialized"), message: Some(message) }
}

fn container_status(
    spec: &ContainerSpec,
    found: &[&Container],
    plan: &Plan,
    has_init: bool,
) -> ContainerStatus {
    let newest = found.first().copied();
    let waiting = plan.waiting.get(&spec.name);
    let mut status = ContainerStatus {
        name: spec.name.clone(),
        image: newest.map_or_else(|| spec.image.clone().unwrap_or_default(), |c| c.image.clone()),
        image_id: newest.map(|c| c.image_ref.clone()).unwrap_or_default(),
        container_id: newest.map(container_id),
        restart_count: newest.map_or(0, |c| i32::try_from(c.attempt).unwrap_or(i32::MAX)),
        started: Some(false),
        volume_mounts: some(volume_mounts(spec)),
        ..ContainerStatus::default()
    };
    let wait = |reason: &str, message: Option<String>| ApiState {
        waiting: Some(ContainerStateWaiting { reason: Some(reason.into()), message }),
        ..ApiState::default()
    };
    status.state = Some(match (newest.map(|c| &c.state), waiting) {
        (Some(ContainerState::Running { started_at }), _) => {
            status.ready = true;
            status.started = Some(true);
            ApiState {
                running: Some(ContainerStateRunning { started_at: Some(time(*started_at)) }),
                ..ApiState::default()
            }
        }
        (_, Some(waiting)) => wait(&waiting.reason, Some(waiting.message.clone())),
        (Some(ContainerState::Exited(_)), None) => newest.and_then(terminated).unwrap_or_default(),
        _ if has_init => wait("PodInitializing", None),
        _ => wait("ContainerCreating", None),
    });
    // What ended before the state that is shown.
    let shows_newest = status.state.as_ref().is_some_and(|s| s.waiting.is_none());
    let last = found.iter().skip(usize::from(shows_newest)).find_map(|c| terminated(c));
    status.last_state = Some(last.unwrap_or_default());
    status
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

fn container_id(container: &Container) -> String {
    format!("containerd://{}", container.id)
}

fn terminated(container: &Container) -> Option<ApiState> {
    let exit = container.exit()?;
    let ended = ContainerStateTerminated {
        container_id: Some(container_id(container)),
        exit_code: exit.code,
        finished_at: Some(time(exit.finished_at)),
        message: Some(exit.message.clone()).filter(|m| !m.is_empty()),
        reason: Some(exit.reason.clone()).filter(|r| !r.is_empty()),
        signal: None,
        started_at: exit.started_at.map(time),
    };
    Some(ApiState { terminated: Some(ended), ..ApiState::default() })
}

fn conditions(
    sandbox: Option<&Sandbox>,
    phase: &str,
    initialized: Judged,
    containers: &[&ContainerStatus],
    previous: Option<&Arc<PodStatus>>,
    now: Timestamp,
) -> Vec<PodCondition> {
    let unready: Vec<_> = containers.iter().filter(|c| !c.ready).map(|c| c.name.as_str()).collect();
    let completed = phase == "Succeeded";
    let ready = if completed {
        Judged { holds: false, reason: Some("PodCompleted"), message: None }
    } else if phase == "Failed" {
        Judged { holds: false, reason: Some("PodFailed"), message: None }
    } else if unready.is_empty() {
        Judged::plain(true)
    } else {
        let message = Some(format!("containers with unready status: [{}]", unready.join(" ")));
        Judged { holds: false, reason: Some("ContainersNotReady"), message }
    };
    [
        ("PodReadyToStartContainers", Judged::plain(sandbox.is_some_and(|s| s.ready))),
        ("Initialized", initialized),
        ("Ready", ready.clone()),
        ("ContainersReady", ready),
        ("PodScheduled", Judged::plain(true)),
    ]
    .into_iter()
    .map(|(kind, judged)| condition(kind, judged, previous, now))
    .collect()
}

/// Whether a condition holds, and why.
#[derive(Clone)]
struct Judged {
    holds: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl Judged {
    fn plain(holds: bool) -> Self {
        Self { holds, reason: None, message: None }
    }
}

fn condition(kind: &str, judged: Judged, previous: Option<&Arc<PodStatus>>, now: Timestamp) -> PodCondition {
    let status = if judged.holds { "True" } else { "False" };
    let before =
        previous.and_then(|p| p.conditions.as_ref()).and_then(|all| all.iter().find(|c| c.type_ == kind));
    let since = before.filter(|c| c.status == status).and_then(|c| c.last_transition_time.clone());
    PodCondition {
        type_: kind.into(),
        status: status.into(),
        last_transition_time: Some(since.unwrap_or_else(|| time(now))),
        reason: judged.reason.map(str::to_owned),
        message: judged.message,
        ..PodCondition::default()
    }
}

fn pod_ips(pod: &Pod, sandbox: Option<&Sandbox>, node_ips: &[String]) -> Vec<String> {
    match sandbox {
        Some(sandbox) if sandbox.ready && pod.spec.host_network == Some(true) => node_ips.to_vec(),
        Some(sandbox) if sandbox.ready => sandbox.ips.clone(),
        _ => Vec::new(),
    }
}

/// The API writes times in whole seconds.
fn time(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

fn some<T>(items: Vec<T>) -> Option<Vec<T>> {
    Some(items).filter(|items| !items.is_empty())
}
