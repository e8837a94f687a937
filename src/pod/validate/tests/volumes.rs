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
    ];
    for row in table {
        has_one_finding(row);
    }
}
