//! The resources of a pod, as kubelet adds them up.

use k8s_openapi::api::core::v1::PodSpec;

use super::*;
use crate::status::pod_status::resources::pod_resources;

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
fn a_container_shows_its_resources_once_it_was_made() {
    let mut pod = pod_with("p", "u", "Always", &["main"]);
    let given = json!({"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}});
    pod.spec.containers[0].resources = Some(serde_json::from_value(given.clone()).unwrap());
    let made = shown(&status(&pod, vec![container("main", 0, running())], &[]), 0);
    assert_eq!((&made["resources"], &made["allocatedResources"]), (&given, &json!({"cpu": "500m"})));
    let not_yet = shown(&status(&pod, vec![], &[]), 0);
    assert_eq!((not_yet.get("resources"), not_yet.get("allocatedResources")), (None, None));
}
