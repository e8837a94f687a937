//! Volumes and their mounts.

use serde_json::json;

use super::has_one_finding;

#[test]
fn one_problem_of_a_volume_one_finding() {
    let table = [
        ("/spec/volumes/-", json!({"name": "v"}), "spec.volumes[2].name: \"v\" is used twice"),
        ("/spec/volumes/-", json!({"name": ""}), "spec.volumes[2].name: must not be empty"),
        (
            "/spec/volumes/-",
            json!({"name": "x", "emptyDir": {}, "hostPath": {"path": "/x"}}),
            "spec.volumes[2]: may have one source, has emptyDir, hostPath",
        ),
        ("/spec/volumes/1/hostPath/path", json!(""), "spec.volumes[1].hostPath.path: must not be empty"),
        (
            "/spec/volumes/1/hostPath/path",
            json!("/a/../b"),
            "spec.volumes[1].hostPath.path: \"/a/../b\" must not contain '..'",
        ),
        (
            "/spec/volumes/1/hostPath/type",
            json!("Dir"),
            "spec.volumes[1].hostPath.type: \"Dir\" is not one of",
        ),
        (
            "/spec/volumes/0/emptyDir/medium",
            json!("Tape"),
            "spec.volumes[0].emptyDir.medium: \"Tape\" is not a known medium",
        ),
        (
            "/spec/volumes/0/emptyDir/sizeLimit",
            json!("big"),
            "spec.volumes[0].emptyDir.sizeLimit: not a quantity",
        ),
        (
            "/spec/containers/0/volumeMounts/0/name",
            json!("w"),
            "spec.containers[0].volumeMounts[0].name: there is no volume \"w\"",
        ),
        (
            "/spec/containers/0/volumeMounts/0/mountPath",
            json!(""),
            "spec.containers[0].volumeMounts[0].mountPath: must not be empty",
        ),
        (
            "/spec/containers/0/volumeMounts/-",
            json!({"name": "h", "mountPath": "/v"}),
            "spec.containers[0].volumeMounts[1].mountPath: \"/v\" is used twice",
        ),
        (
            "/spec/containers/0/volumeMounts/0/subPath",
            json!("/a"),
            "spec.containers[0].volumeMounts[0].subPath: \"/a\" must be relative",
        ),
        (
            "/spec/containers/0/volumeMounts/0/subPath",
            json!("a/.."),
            "spec.containers[0].volumeMounts[0].subPath: \"a/..\" must not contain '..'",
        ),
        (
            "/spec/containers/0/volumeMounts/0/mountPropagation",
            json!("x"),
            "spec.containers[0].volumeMounts[0].mountPropagation: \"x\" is",
        ),
        (
            "/spec/volumes/-",
            json!({"name": "../../etc", "emptyDir": {}}),
            "spec.volumes[2].name: \"../../etc\"",
        ),
    ];
    for row in table {
        has_one_finding(row);
    }
}

#[test]
fn one_problem_of_a_file_one_finding() {
    let name = || json!({"fieldPath": "metadata.name"});
    let cpu = |more: serde_json::Value| {
        let mut reference = json!({"containerName": "web", "resource": "limits.cpu"});
        reference.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"path": "p", "resourceFieldRef": reference})
    };
    let table = [
        (json!({"path": "", "fieldRef": name()}), ".path: must not be empty"),
        (json!({"path": "/a", "fieldRef": name()}), ".path: \"/a\" must be relative"),
        (json!({"path": "../x", "fieldRef": name()}), ".path: \"../x\" must not begin with '..'"),
        (json!({"path": "..data", "fieldRef": name()}), ".path: \"..data\" must not begin with '..'"),
        (json!({"path": "a/../b", "fieldRef": name()}), ".path: \"a/../b\" must not contain '..'"),
        (
            json!({"path": "p", "mode": 0o1777, "fieldRef": name()}),
            ".mode: must be a mode between 0 and 0777",
        ),
        (json!({"path": "p"}), ".fieldRef: one of fieldRef and resourceFieldRef is needed"),
        (
            json!({"path": "p", "fieldRef": {"fieldPath": "status.podIP"}}),
            ".fieldRef.fieldPath: \"status.podIP\" is not a field that a file can have",
        ),
        (cpu(json!({"containerName": ""})), ".resourceFieldRef.containerName: must not be empty"),
        (cpu(json!({"divisor": "1Mi"})), ".resourceFieldRef.divisor: \"1Mi\" is not a unit of cpu"),
    ];
    for (item, expect) in table {
        let volume = json!({"name": "x", "downwardAPI": {"items": [item.clone()]}});
        has_one_finding((
            "/spec/volumes/-",
            volume,
            &format!("spec.volumes[2].downwardAPI.items[0]{expect}"),
        ));
        let source = json!({"downwardAPI": {"items": [item]}});
        let volume = json!({"name": "x", "projected": {"sources": [source]}});
        let path = "spec.volumes[2].projected.sources[0].downwardAPI.items[0]";
        has_one_finding(("/spec/volumes/-", volume, &format!("{path}{expect}")));
    }
    let twice = json!({"downwardAPI": {"items": [{"path": "p", "fieldRef": name()}]}});
    has_one_finding((
        "/spec/volumes/-",
        json!({"name": "x", "projected": {"sources": [twice, twice]}}),
        "spec.volumes[2].projected.sources[1].downwardAPI.items[0].path: \"p\" is used twice",
    ));
    has_one_finding((
        "/spec/volumes/-",
        json!({"name": "x", "downwardAPI": {"defaultMode": 512}}),
        "spec.volumes[2].downwardAPI.defaultMode: must be a mode",
    ));
}
