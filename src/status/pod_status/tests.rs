//! The resources of a pod, as kubelet adds them up, and statuses of states that were read from disk.

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value, json};

use super::*;
use crate::plan::checkpoint::Checkpoint;
use crate::pod::resources::total::pod_resources;
use crate::pod::testing::pod_with;

fn of(spec: Value) -> Value {
    let spec: PodSpec = serde_json::from_value(spec).unwrap();
    serde_json::to_value(pod_resources(&spec)).unwrap()
}

#[test]
fn what_a_pod_needs_at_most() {
    let needs = |cpu: &str, memory: &str| json!({"requests": {"cpu": cpu, "memory": memory}});
    let init = |name: &str, cpu: &str, policy: Option<&str>| json!({"name": name, "restartPolicy": policy, "resources": {"requests": {"cpu": cpu}}});
    let rows = [
        ("nothing", json!({"containers": [{"name": "a"}]}), json!({})),
        (
            "the sum of its containers",
            json!({"containers": [{"name": "a", "resources": needs("250m", "64Mi")},
                {"name": "b", "resources": needs("1", "1Gi")}, {"name": "c"}]}),
            needs("1250m", "1088Mi"),
        ),
        (
            "or an init container that needs more",
            json!({"containers": [{"name": "a", "resources": needs("250m", "64Mi")}],
                "initContainers": [init("i", "2", None), init("j", "1", None)]}),
            needs("2", "64Mi"),
        ),
        (
            "beside the sidecars before it",
            json!({"containers": [{"name": "a", "resources": needs("250m", "64Mi")}],
                "initContainers": [init("s", "100m", Some("Always")), init("i", "2", None)]}),
            needs("2100m", "64Mi"),
        ),
        (
            "sidecars run beside the containers",
            json!({"containers": [{"name": "a", "resources": needs("1", "64Mi")}],
                "initContainers": [init("i", "500m", None), init("s", "100m", Some("Always"))]}),
            needs("1100m", "64Mi"),
        ),
        (
            "its own counts where it is written, and overhead comes on top",
            json!({"containers": [{"name": "a", "resources": needs("1", "64Mi")}], "overhead": {"cpu": "10m"},
                "resources": {"requests": {"cpu": "3", "example.com/x": "1"}, "limits": {"cpu": "4"}}}),
            json!({"requests": {"cpu": "3010m", "memory": "64Mi"}, "limits": {"cpu": "4010m"}}),
        ),
    ];
    for (case, spec, expect) in rows {
        assert_eq!(of(spec), expect, "{case}");
    }
}

#[test]
fn what_no_worker_has_observed_is_pending() {
    let status = pod_status(&pod_with("p", "u", "Always", &["main"]), None, &DeviceHealth::new());
    assert_eq!(serde_json::to_value(status).unwrap(), json!({"phase": "Pending"}));
}

#[test]
fn the_health_of_devices_is_shown_with_their_container() {
    let pod = pod_with("p", "u", "Always", &["main", "other"]);
    let devices = |list: &[(&str, bool)]| list.iter().map(|(id, ok)| ((*id).to_owned(), *ok)).collect();
    let main = [("a.com/x".to_owned(), devices(&[("d1", true), ("d2", false)]))].into();
    let health = DeviceHealth::from([(pod.uid.clone(), [("main".to_owned(), main)].into())]);
    let running = |name: &str| ContainerSummary {
        name: name.to_owned(),
        created: None,
        state: RunState::Running { started_at: jiff::Timestamp::UNIX_EPOCH },
        last_termination: None,
        restarts: 0,
        started: true,
        ready: true,
    };
    let state = PodState { containers: vec![running("main"), running("other")], ..PodState::default() };
    let status = pod_status(&pod, Some(&state), &health);
    let shown: Vec<_> =
        status.container_statuses.unwrap().into_iter().map(|c| c.allocated_resources_status).collect();
    let expect = json!([{"name": "a.com/x", "resources": [
        {"resourceID": "d1", "health": "Healthy"}, {"resourceID": "d2", "health": "Unhealthy"},
    ]}]);
    assert_eq!(serde_json::to_value(shown).unwrap(), json!([expect, null]));
}

/// A pod that ran once: an init container, a sidecar and two containers, with resources and a mount.
fn once() -> Pod {
    let mut pod = pod_with("once", "u", "Never", &["z", "a"]);
    let mut init = pod_with("once", "u", "Always", &["setup", "proxy"]).spec.containers;
    init[1].restart_policy = Some("Always".into());
    pod.spec.init_containers = Some(init);
    let resources = json!({"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}});
    pod.spec.containers[0].resources = Some(serde_json::from_value(resources).unwrap());
    let mounts = json!([{"name": "v", "mountPath": "/v", "readOnly": true}]);
    pod.spec.containers[0].volume_mounts = Some(serde_json::from_value(mounts).unwrap());
    pod
}

/// Over an upgrade from rkubelet 0.1, which kept the status itself.
#[test]
fn the_status_of_an_old_checkpoint_is_served_as_it_was_written() {
    let mut crash_loop = pod_with("loop", "u", "Always", &["main", "other"]);
    crash_loop.metadata.generation = Some(7);
    for (name, pod, text) in [
        (
            "completed",
            once(),
            include_str!("../../../tests/fixtures/checkpoint-with-pod-status/completed.json"),
        ),
        (
            "crash loop",
            crash_loop,
            include_str!("../../../tests/fixtures/checkpoint-with-pod-status/crash-loop.json"),
        ),
        (
            "deadline",
            pod_with("late", "u", "Always", &["main"]),
            include_str!("../../../tests/fixtures/checkpoint-with-pod-status/deadline.json"),
        ),
    ] {
        let written: Value = serde_json::from_str(text).unwrap();
        let old: Checkpoint = serde_json::from_str(text).unwrap();
        let status = |record: &Checkpoint| {
            let state = &record.instance.as_ref().unwrap().state;
            serde_json::to_value(pod_status(&pod, Some(state), &DeviceHealth::new())).unwrap()
        };
        assert_eq!(status(&old), written["instance"]["status"], "{name}");
        let new: Checkpoint = serde_json::from_str(&serde_json::to_string(&old).unwrap()).unwrap();
        assert_eq!(status(&new), written["instance"]["status"], "{name}, written in today's form");
    }
}
