//! Tables for every part of a status, and the statuses that kubelet 1.36 served.

mod init;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::observed::Exit;
use crate::plan::Waiting;
use crate::pod::decode::{Origin, decode_manifest};
use crate::pod::testing::pod_with;
use crate::pod::{ConfigHash, ContainerId, PodUid, SandboxId, Source};

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
        grace: Some(30),
        image: "docker.io/library/image:1".into(),
        image_ref: "sha256:1".into(),
        created_at: at(100 + i64::from(attempt)),
        state,
    }
}

fn running() -> ContainerState {
    ContainerState::Running { started_at: at(110) }
}

fn exited(code: i32) -> ContainerState {
    let reason = if code == 0 { "Completed" } else { "Error" };
    let (started_at, finished_at) = (Some(at(111)), at(112));
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

fn status(pod: &Pod, containers: Vec<Container>, waiting: &[(String, Waiting)]) -> PodStatus {
    let observed = Observed { sandboxes: vec![sandbox(0, true, &["10.88.0.4"])], containers };
    let plan = Plan { waiting: waiting.iter().cloned().collect(), ..Plan::default() };
    pod_status(pod, &observed, &plan, None, &[], at(200))
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
        ("runs again", vec![old(exited(3)), new(running())], None, runs.clone(), ended(0, 3), 1, true),
        ("a running one waits for nothing", vec![old(running())], Some("Stale"), runs, json!({}), 0, true),
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

/// Conditions in short words: kind, whether it holds, the reason, since when.
fn conditions_of(status: &PodStatus) -> BTreeMap<String, (bool, String, i64)> {
    let each = status.conditions.iter().flatten().map(|c| {
        let since = c.last_transition_time.as_ref().unwrap().0.as_second();
        (c.type_.clone(), (c.status == "True", c.reason.clone().unwrap_or_default(), since))
    });
    each.collect()
}

#[test]
fn conditions_change_their_time_when_they_change_and_only_then() {
    let pod = pod_with("p", "u", "OnFailure", &["main"]);
    let mut previous: Option<Arc<PodStatus>> = None;
    let mut step = |second: i64, ready: bool, found: Vec<Container>| {
        let sandboxes = if second == 200 { vec![] } else { vec![sandbox(0, ready, &["10.88.0.4"])] };
        let observed = Observed { sandboxes, containers: found };
        let now = pod_status(&pod, &observed, &Plan::default(), previous.as_ref(), &[], at(second));
        let conditions = conditions_of(&now);
        let (start, ips) = (now.start_time.clone().unwrap().0.as_second(), now.pod_ip.clone());
        previous = Some(Arc::new(now));
        (conditions, start, ips)
    };
    let expect = |rows: [(&str, bool, &str, i64); 5]| -> BTreeMap<String, (bool, String, i64)> {
        rows.into_iter().map(|(kind, holds, why, since)| (kind.into(), (holds, why.into(), since))).collect()
    };
    let (found, start, ip) = step(200, false, vec![]);
    let first = expect([
        ("PodReadyToStartContainers", false, "", 200),
        ("Initialized", true, "", 200),
        ("Ready", false, "ContainersNotReady", 200),
        ("ContainersReady", false, "ContainersNotReady", 200),
        ("PodScheduled", true, "", 200),
    ]);
    assert_eq!((found, start, ip), (first, 200, None));

    let up = |since| {
        expect([
            ("PodReadyToStartContainers", true, "", 210),
            ("Initialized", true, "", 200),
            ("Ready", true, "", since),
            ("ContainersReady", true, "", since),
            ("PodScheduled", true, "", 200),
        ])
    };
    let (found, start, ip) = step(210, true, vec![container("main", 0, running())]);
    assert_eq!((found, start, ip.as_deref()), (up(210), 200, Some("10.88.0.4")), "the start stays");
    assert_eq!(step(220, true, vec![container("main", 0, running())]).0, up(210), "nothing changed");

    let (found, ..) = step(230, true, vec![container("main", 0, exited(1))]);
    assert_eq!(found["Ready"], (false, "ContainersNotReady".into(), 230));
    let (found, ..) = step(240, true, vec![container("main", 1, running())]);
    assert_eq!(found, up(240), "ready again, since now");

    let (found, start, ip) = step(250, false, vec![container("main", 1, exited(0))]);
    let completed = expect([
        ("PodReadyToStartContainers", false, "", 250),
        ("Initialized", true, "PodCompleted", 200),
        ("Ready", false, "PodCompleted", 250),
        ("ContainersReady", false, "PodCompleted", 250),
        ("PodScheduled", true, "", 200),
    ]);
    assert_eq!((found, start), (completed, 200));
    assert_eq!(ip.as_deref(), Some("10.88.0.4"), "a completed pod is still known by its address");
}

#[test]
fn a_failed_pod_says_so() {
    let pod = pod_with("p", "u", "Never", &["main"]);
    let found = conditions_of(&status(&pod, vec![container("main", 0, exited(1))], &[]));
    assert_eq!(found["Ready"], (false, "PodFailed".into(), 200));
    assert_eq!(found["ContainersReady"], (false, "PodFailed".into(), 200));
    assert_eq!(found["Initialized"], (true, String::new(), 200));
}

#[test]
fn addresses() {
    let node = ["192.0.2.1", "2001:db8::1"];
    let pod_net = ["10.88.0.4", "fd00::4"];
    // hostNetwork, the sandbox and its addresses, the node's; podIPs.
    type Row<'a> = (bool, Option<Sandbox>, &'a [&'a str], &'a [&'a str]);
    let rows: [Row<'_>; 7] = [
        (false, Some(sandbox(0, true, &pod_net)), &node, &pod_net),
        (false, Some(sandbox(0, true, &pod_net)), &[], &pod_net),
        (false, Some(sandbox(0, false, &[])), &node, &[]),
        (false, None, &node, &[]),
        (true, Some(sandbox(0, true, &[])), &node, &node),
        (true, Some(sandbox(0, true, &[])), &[], &[]),
        (true, None, &node, &[]),
    ];
    for (host_network, sandbox, node_ips, expect) in rows {
        let mut pod = pod_with("p", "u", "Always", &["main"]);
        pod.spec.host_network = Some(host_network);
        let observed = Observed { sandboxes: sandbox.into_iter().collect(), containers: vec![] };
        let given: Vec<_> = node_ips.iter().map(|ip| (*ip).to_owned()).collect();
        let status = pod_status(&pod, &observed, &Plan::default(), None, &given, at(200));
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
        let status = pod_status(&pod, observed, &Plan::default(), None, &[], at(now));
        status.start_time.unwrap().0.as_second()
    };
    assert_eq!(start(&Observed::default(), 200), 200, "a new pod starts now");
    let adopted =
        Observed { sandboxes: vec![sandbox(3, true, &[]), sandbox(1, false, &[])], containers: vec![] };
    assert_eq!(start(&adopted, 200), 101, "an adopted one started with its first sandbox");
    assert_eq!(start(&adopted, 50), 50, "never in the future");
}

/// What kubelet served for a pod, and ours from what the runtime held then.
fn reference(manifest: &str, name: &str) -> (Pod, Value) {
    let origin = Origin {
        node_name: "node1",
        source: Source::File,
        path: "/etc/kubernetes/manifests/pod.yaml",
        seen: at(0),
        strict: false,
    };
    let pod = decode_manifest(manifest.as_bytes(), &origin).unwrap().pod;
    let served: Value =
        serde_json::from_str(include_str!("../../../tests/fixtures/kubelet-pods.json")).unwrap();
    let mut items = served["items"].as_array().unwrap().iter();
    let item = items.find(|item| item["metadata"]["name"] == name).unwrap();
    (pod, item["status"].clone())
}

/// The container that a served status tells of.
fn held(pod: &Pod, sandbox: &Sandbox, served: &Value) -> Container {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let started_at = served["state"]["running"]["startedAt"].as_str().unwrap().parse().unwrap();
    Container {
        id: ContainerId(text(&served["containerID"]).replace("containerd://", "")),
        sandbox: sandbox.id.clone(),
        uid: pod.uid.clone(),
        image: text(&served["image"]),
        image_ref: text(&served["imageID"]),
        ..container(served["name"].as_str().unwrap(), 0, ContainerState::Running { started_at })
    }
}

#[test]
fn the_status_of_reference_pods_is_kubelets() {
    let rows = [
        (include_str!("../../../tests/fixtures/reference/simple.yaml"), "simple-node1"),
        (include_str!("../../../tests/fixtures/reference/controlplane.yaml"), "etcd-node1"),
    ];
    for (manifest, name) in rows {
        let (pod, mut theirs) = reference(manifest, name);
        let second = |value: &Value| value.as_str().unwrap().parse::<Timestamp>().unwrap();
        let start = second(&theirs["startTime"]);
        let ips: Vec<_> = theirs["podIP"].as_str().into_iter().collect();
        let base = sandbox(0, true, &ips);
        let sandbox =
            Sandbox { uid: pod.uid.clone(), hash: Some(pod.hash.clone()), created_at: start, ..base };
        let found = held(&pod, &sandbox, &theirs["containerStatuses"][0]);
        let sandboxes = vec![sandbox];
        // First the sandbox alone, then the container a second later, as the recording shows.
        let alone = Observed { sandboxes: sandboxes.clone(), containers: vec![] };
        let first = Arc::new(pod_status(&pod, &alone, &Plan::default(), None, &[], start));
        let both = Observed { sandboxes, containers: vec![found] };
        let later = second(&theirs["conditions"][2]["lastTransitionTime"]);
        let ours = pod_status(&pod, &both, &Plan::default(), Some(&first), &[], later);
        let mut ours = serde_json::to_value(ours).unwrap();

        // Resources in the status come with cgroups.
        for field in ["resources", "allocatedResources"] {
            theirs.as_object_mut().unwrap().remove(field);
            theirs["containerStatuses"][0].as_object_mut().unwrap().remove(field);
        }
        // Never set by kubelet, written as null by Go.
        for condition in theirs["conditions"].as_array_mut().unwrap() {
            assert!(condition.as_object_mut().unwrap().remove("lastProbeTime").unwrap().is_null());
        }
        if name == "etcd-node1" {
            // Probes come with an issue of their own: kubelet's had not succeeded yet.
            for status in [&mut ours, &mut theirs] {
                status["containerStatuses"][0]["ready"] = json!("probed");
                let conditions = status["conditions"].as_array_mut().unwrap();
                conditions.retain(|c| c["type"] != "Ready" && c["type"] != "ContainersReady");
            }
        }
        assert_eq!(ours, theirs, "{name}");
    }
}
