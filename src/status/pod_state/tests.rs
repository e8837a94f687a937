//! Tables for every part of a state, as its status is served, and the statuses that kubelet 1.36 served.

mod conditions;
mod endings;
mod forgotten;
mod init;
mod phase;
mod probes;
mod reference;

use k8s_openapi::api::core::v1::PodStatus;
use serde_json::{Value, json};

use super::*;
use crate::plan::Waiting;
use crate::pod::observed::{Container, ContainerState, Exit, Sandbox};
use crate::pod::testing::pod_with;
use crate::pod::{ConfigHash, ContainerId, PodUid, SandboxId};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn sandbox(attempt: u32, ready: bool, ips: &[&str]) -> Sandbox {
    Sandbox {
        id: SandboxId(format!("s{attempt}")),
        uid: PodUid::from("u"),
        hash: Some(ConfigHash::from("u")),
        attempt,
        created_at: at(100 + i64::from(attempt)),
        ready,
        ips: ips.iter().map(|ip| (*ip).to_owned()).collect(),
    }
}

fn container(name: &str, attempt: u32, state: ContainerState) -> Container {
    Container {
        sidecar: None,
        id: ContainerId(format!("{name}-{attempt}")),
        sandbox: SandboxId::from("s0"),
        uid: PodUid::from("u"),
        name: name.into(),
        attempt,
        hash: format!("hash-{name}"),
        crashes: 0,
        round: 0,
        grace: Some(30),
        pre_stop: None,
        stop_signal: None,
        earlier_boot: false,
        image: "docker.io/library/image:1".into(),
        image_ref: "sha256:1".into(),
        created_at: at(100 + i64::from(attempt)),
        state,
    }
}

fn running() -> ContainerState {
    runs_since(110)
}

fn runs_since(second: i64) -> ContainerState {
    ContainerState::Running { started_at: at(second) }
}

fn exited(code: i32) -> ContainerState {
    ran(111, 112, code)
}

fn ran(from: i64, to: i64, code: i32) -> ContainerState {
    let reason = if code == 0 { "Completed" } else { "Error" };
    let (started_at, finished_at) = (Some(at(from)), at(to));
    ContainerState::Exited(Exit {
        started_at,
        finished_at,
        code,
        reason: reason.into(),
        message: String::new(),
    })
}

fn waits(name: &str, reason: &str) -> (String, Waiting) {
    (name.into(), Waiting { reason: reason.into(), message: format!("why {name} waits") })
}

/// The status that is served of a state.
fn pod_status(
    pod: &Pod,
    observed: &Observed,
    plan: &Plan,
    probes: &Verdicts,
    previous: Option<&PodState>,
    node_ips: &[String],
    now: Timestamp,
) -> PodStatus {
    served(pod, &pod_state(pod, observed, plan, probes, previous, node_ips, now))
}

fn served(pod: &Pod, state: &PodState) -> PodStatus {
    crate::status::pod_status::pod_status(
        pod,
        Some(state),
        &crate::pod::device_assignment::DeviceHealth::new(),
    )
}

/// The condition `Ready` is served as `True`.
fn is_ready(status: &PodStatus) -> bool {
    status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True")
}

fn status(pod: &Pod, containers: Vec<Container>, waiting: &[(String, Waiting)]) -> PodStatus {
    served(pod, &state(pod, containers, waiting))
}

fn state(pod: &Pod, containers: Vec<Container>, waiting: &[(String, Waiting)]) -> PodState {
    let observed = Observed { sandboxes: vec![sandbox(0, true, &["10.88.0.4"])], containers };
    let plan = Plan { waiting: waiting.iter().cloned().collect(), ..Plan::default() };
    pod_state(pod, &observed, &plan, &Verdicts::default(), None, &[], at(200))
}

#[test]
fn phases_by_kubelets_rules() {
    use ContainerState::Created;
    let back_off = || vec![waits("a", "CrashLoopBackOff")];
    // The states of containers a and b (none: no such container yet), what waits, and the phase by restartPolicy:
    // Always, OnFailure, Never.
    type Row = (Option<ContainerState>, Option<ContainerState>, Vec<(String, Waiting)>, [&'static str; 3]);
    let rows: Vec<Row> = vec![
        (None, None, vec![], ["Pending"; 3]),
        (Some(running()), None, vec![], ["Pending"; 3]),
        (Some(Created), Some(running()), vec![], ["Pending"; 3]),
        (Some(exited(0)), None, vec![], ["Pending"; 3]),
        (Some(running()), Some(running()), vec![], ["Running"; 3]),
        (Some(exited(0)), Some(running()), vec![], ["Running"; 3]),
        (Some(exited(1)), Some(running()), vec![], ["Running"; 3]),
        (Some(exited(1)), Some(running()), back_off(), ["Running"; 3]),
        (Some(exited(0)), Some(exited(0)), vec![], ["Running", "Succeeded", "Succeeded"]),
        (Some(exited(1)), Some(exited(0)), vec![], ["Running", "Running", "Failed"]),
        (Some(exited(1)), Some(exited(2)), vec![], ["Running", "Running", "Failed"]),
        (Some(running()), None, vec![waits("b", "ImagePullBackOff")], ["Pending"; 3]),
    ];
    for (a, b, waiting, expect) in rows {
        for (policy, phase) in ["Always", "OnFailure", "Never"].into_iter().zip(expect) {
            let pod = pod_with("p", "u", policy, &["a", "b"]);
            let found = [("a", &a), ("b", &b)];
            let found =
                found.into_iter().filter_map(|(name, state)| Some(container(name, 0, state.clone()?)));
            let status = status(&pod, found.collect(), &waiting);
            assert_eq!(status.phase.as_deref(), Some(phase), "{policy}: {a:?} {b:?} {waiting:?}");
        }
    }
    // A container that waits after an end counts as ended: a crash loop is not pending.
    let crashing = pod_with("p", "u", "Always", &["a"]);
    let status = status(&crashing, vec![container("a", 4, exited(1))], &back_off());
    assert_eq!(status.phase.as_deref(), Some("Running"));
}

/// A status in the words of the API.
fn shown(status: &PodStatus, place: usize) -> Value {
    serde_json::to_value(&status.container_statuses.as_ref().unwrap()[place]).unwrap()
}

#[test]
fn container_states() {
    let ended = |attempt: u32, code: i32| {
        json!({"terminated": {
            "containerID": format!("containerd://main-{attempt}"), "exitCode": code,
            "reason": if code == 0 { "Completed" } else { "Error" },
            "startedAt": "1970-01-01T00:01:51Z", "finishedAt": "1970-01-01T00:01:52Z",
        }})
    };
    let creating = json!({"waiting": {"reason": "ContainerCreating"}});
    let waiting = |reason: &str| json!({"waiting": {"reason": reason, "message": "why main waits"}});
    let runs = json!({"running": {"startedAt": "1970-01-01T00:01:50Z"}});
    let [old, new] = [0, 1].map(|attempt| move |state| container("main", attempt, state));
    // What is found, why it waits; state, lastState, restartCount, ready.
    let rows = [
        ("nothing yet", vec![], None, creating.clone(), json!({}), 0, false),
        ("created", vec![old(ContainerState::Created)], None, creating.clone(), json!({}), 0, false),
        (
            "created after an end",
            vec![old(exited(1)), new(ContainerState::Created)],
            None,
            creating.clone(),
            ended(0, 1),
            1,
            false,
        ),
        ("pulls fail", vec![], Some("ImagePullBackOff"), waiting("ImagePullBackOff"), json!({}), 0, false),
        ("runs", vec![old(running())], None, runs.clone(), json!({}), 0, true),
        ("runs again", vec![old(exited(3)), new(running())], None, runs, ended(0, 3), 1, true),
        (
            "runs, and has not started",
            vec![old(running())],
            Some("ContainerCreating"),
            waiting("ContainerCreating"),
            json!({}),
            0,
            false,
        ),
        ("ended", vec![old(exited(0))], None, ended(0, 0), json!({}), 0, false),
        ("ended twice", vec![new(exited(2)), old(exited(1))], None, ended(1, 2), ended(0, 1), 1, false),
        (
            "crash loop: the end moves to lastState",
            vec![old(exited(1)), new(exited(2))],
            Some("CrashLoopBackOff"),
            waiting("CrashLoopBackOff"),
            ended(1, 2),
            1,
            false,
        ),
        ("lost by the runtime", vec![old(ContainerState::Unknown)], None, creating, json!({}), 0, false),
    ];
    for (case, found, reason, state, last, restarts, ready) in rows {
        let pod = pod_with("p", "u", "Always", &["main"]);
        let waiting: Vec<_> = reason.map(|reason| waits("main", reason)).into_iter().collect();
        let exists = !found.is_empty();
        let newest = found.iter().map(|c| c.attempt).max().unwrap_or_default();
        let shown = shown(&status(&pod, found, &waiting), 0);
        assert_eq!(shown["state"], state, "{case}");
        assert_eq!(shown["lastState"], last, "{case}");
        assert_eq!(shown["restartCount"], json!(restarts), "{case}");
        assert_eq!((&shown["ready"], &shown["started"]), (&json!(ready), &json!(ready)), "{case}");
        let (id, image) = if exists {
            (json!(format!("containerd://main-{newest}")), "docker.io/library/image:1")
        } else {
            (json!(null), "image:1")
        };
        assert_eq!((&shown["containerID"], &shown["image"]), (&id, &json!(image)), "{case}");
    }
}

#[test]
fn statuses_are_sorted_and_conditions_name_containers_as_written() {
    let pod = pod_with("p", "u", "Always", &["z", "a"]);
    let status = status(&pod, vec![], &[]);
    let names: Vec<_> = status.container_statuses.iter().flatten().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["a", "z"]);
    let ready = status.conditions.unwrap().into_iter().find(|c| c.type_ == "Ready").unwrap();
    assert_eq!(ready.message.as_deref(), Some("containers with unready status: [z a]"));
}

#[test]
fn addresses() {
    let node = ["192.0.2.1", "2001:db8::1"];
    let pod_net = ["10.88.0.4", "fd00::4"];
    // hostNetwork, the sandbox and its addresses, the node's; podIPs.
    type Row<'a> = (bool, Option<Sandbox>, &'a [&'a str], &'a [&'a str]);
    let (mixed, v6_node) = (["fd00::4", "fd00::5", "10.88.0.4", "10.88.0.5"], ["2001:db8::1"]);
    let rows: [Row<'_>; 9] = [
        (false, Some(sandbox(0, true, &pod_net)), &node, &pod_net),
        (false, Some(sandbox(0, true, &pod_net)), &[], &pod_net),
        (false, Some(sandbox(0, true, &mixed)), &node, &["10.88.0.4", "fd00::4"]),
        (false, Some(sandbox(0, true, &mixed)), &v6_node, &["fd00::4", "10.88.0.4"]),
        (false, Some(sandbox(0, false, &[])), &node, &[]),
        (false, None, &node, &[]),
        (true, Some(sandbox(0, true, &[])), &node, &node),
        (true, Some(sandbox(0, true, &[])), &[], &[]),
        (true, None, &node, &node),
    ];
    for (host_network, sandbox, node_ips, expect) in rows {
        let mut pod = pod_with("p", "u", "Always", &["main"]);
        pod.spec.host_network = Some(host_network);
        let observed = Observed { sandboxes: sandbox.into_iter().collect(), containers: vec![] };
        let given: Vec<_> = node_ips.iter().map(|ip| (*ip).to_owned()).collect();
        let status =
            pod_status(&pod, &observed, &Plan::default(), &Verdicts::default(), None, &given, at(200));
        let ips: Vec<_> = status.pod_ips.iter().flatten().map(|ip| ip.ip.as_str()).collect();
        let hosts: Vec<_> = status.host_ips.iter().flatten().map(|ip| ip.ip.as_str()).collect();
        assert_eq!(ips, expect, "hostNetwork {host_network}, {observed:?}");
        assert_eq!(status.pod_ip.as_deref(), expect.first().copied());
        assert_eq!((hosts.as_slice(), status.host_ip.as_deref()), (node_ips, node_ips.first().copied()));
    }
}

#[test]
fn the_start_is_the_first_sandboxs() {
    let pod = pod_with("p", "u", "Always", &["main"]);
    let start = |observed: &Observed, now: i64| {
        let status = pod_status(&pod, observed, &Plan::default(), &Verdicts::default(), None, &[], at(now));
        status.start_time.unwrap().0.as_second()
    };
    assert_eq!(start(&Observed::default(), 200), 200, "a new pod starts now");
    let adopted =
        Observed { sandboxes: vec![sandbox(3, true, &[]), sandbox(1, false, &[])], containers: vec![] };
    assert_eq!(start(&adopted, 200), 101, "an adopted one started with its first sandbox");
    assert_eq!(start(&adopted, 50), 50, "never in the future");
}

#[test]
fn with_a_fixed_uid_the_version_before_is_no_part_of_the_status() {
    let before = pod_with("p", "u", "Always", &["main"]);
    let edited = Pod { hash: ConfigHash::from("edited"), ..before.clone() };
    let found = || vec![container("main", 2, running())];
    assert!(is_ready(&status(&before, found(), &[])));
    let status = status(&edited, found(), &[]);
    assert_eq!((status.phase.as_deref(), is_ready(&status)), (Some("Pending"), false));
    assert_eq!(shown(&status, 0)["state"], json!({"waiting": {"reason": "ContainerCreating"}}));
}

#[test]
fn a_container_shows_its_resources_once_it_was_created() {
    let mut pod = pod_with("p", "u", "Always", &["main"]);
    let given = json!({"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}});
    pod.spec.containers[0].resources = Some(serde_json::from_value(given.clone()).unwrap());
    let created = shown(&status(&pod, vec![container("main", 0, running())], &[]), 0);
    assert_eq!((&created["resources"], &created["allocatedResources"]), (&given, &json!({"cpu": "500m"})));
    let not_yet = shown(&status(&pod, vec![], &[]), 0);
    assert_eq!((not_yet.get("resources"), not_yet.get("allocatedResources")), (None, None));
}
