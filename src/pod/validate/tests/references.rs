//! References to objects of an API server.

use serde_json::json;

use super::{with, with_objects};

#[test]
fn objects_of_an_api_server_are_out_of_reach() {
    let table = [
        (
            "/spec/serviceAccountName",
            json!("x"),
            "spec.serviceAccountName: static pods may not reference serviceaccounts",
        ),
        (
            "/spec/serviceAccount",
            json!("x"),
            "spec.serviceAccountName: static pods may not reference serviceaccounts",
        ),
        (
            "/spec/imagePullSecrets",
            json!([{"name": "s"}]),
            "spec.imagePullSecrets: static pods may not reference secrets",
        ),
        (
            "/spec/resourceClaims",
            json!([{"name": "c"}]),
            "spec.resourceClaims: static pods may not reference resourceclaims",
        ),
        (
            "/spec/volumes/-",
            json!({"name": "c", "configMap": {"name": "c"}}),
            "spec.volumes[2].configMap: static pods may not reference configmaps (via configmap volumes)",
        ),
        (
            "/spec/volumes/-",
            json!({"name": "c", "secret": {"secretName": "c"}}),
            "spec.volumes[2].secret: static pods may not reference secrets (via secret volumes)",
        ),
        (
            "/spec/volumes/-",
            json!({"name": "c", "persistentVolumeClaim": {"claimName": "c"}}),
            "spec.volumes[2].persistentVolumeClaim: static pods may not reference persistentvolumeclaims",
        ),
        (
            "/spec/volumes/-",
            json!({"name": "c", "projected": {"sources": [{"downwardAPI": {}}, {"secret": {"name": "s"}}]}}),
            "spec.volumes[2].projected.sources[1].secret: static pods may not reference secrets (via projected volumes)",
        ),
        (
            "/spec/containers/0/envFrom",
            json!([{"configMapRef": {"name": "c"}}]),
            "spec.containers[0].envFrom[0].configMapRef: static pods may not reference configmaps",
        ),
        (
            "/spec/containers/0/env/-",
            json!({"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}),
            "spec.containers[0].env[1].valueFrom.secretKeyRef: static pods may not reference secrets",
        ),
    ];
    for (pointer, value, want) in table {
        assert_eq!(with(pointer, value), [want]);
    }
}

#[test]
fn objects_beside_the_pod_may_be_referred_to() {
    let volume = |source: &str| json!([{"name": "v", "emptyDir": {}}, {"name": "c", source: {}}]);
    let items = |items: serde_json::Value| json!([{"name": "v", "emptyDir": {}}, {"name": "c", "configMap": {"name": "c", "items": items}}]);
    let variable = |source: serde_json::Value| json!([{"name": "B", "valueFrom": source}]);
    let good = [
        ("/spec/imagePullSecrets", json!([{"name": "x"}])),
        ("/spec/volumes", items(json!([{"key": "a", "path": "d/a", "mode": 256}]))),
        (
            "/spec/volumes",
            json!([{"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}, {"configMap": {"name": "c"}}]}}]),
        ),
        (
            "/spec/containers/0/envFrom",
            json!([{"prefix": "P_", "configMapRef": {"name": "c"}}, {"secretRef": {"name": "s"}}]),
        ),
        ("/spec/containers/0/env", variable(json!({"secretKeyRef": {"name": "s", "key": "a.b"}}))),
    ];
    for (pointer, value) in good {
        assert_eq!(with_objects(pointer, value.clone()), Vec::<String>::new(), "{value}");
    }
    let bad = [
        ("/spec/volumes", volume("configMap"), "spec.volumes[1].configMap.name: must not be empty"),
        ("/spec/volumes", volume("secret"), "spec.volumes[1].secret.secretName: must not be empty"),
        (
            "/spec/volumes",
            items(json!([{"key": "", "path": "a"}])),
            "spec.volumes[1].configMap.items[0].key: must not be empty",
        ),
        (
            "/spec/volumes",
            items(json!([{"key": "a", "path": "../a"}])),
            "spec.volumes[1].configMap.items[0].path: \"../a\" must not begin with '..'",
        ),
        (
            "/spec/volumes",
            items(json!([{"key": "a", "path": "x"}, {"key": "b", "path": "x"}])),
            "spec.volumes[1].configMap.items[1].path: \"x\" is used twice",
        ),
        (
            "/spec/volumes",
            items(json!([{"key": "a", "path": "x", "mode": 512}])),
            "spec.volumes[1].configMap.items[0].mode: must be a mode",
        ),
        ("/spec/containers/0/envFrom", json!([{}]), "spec.containers[0].envFrom[0]: must have a source"),
        (
            "/spec/containers/0/envFrom",
            json!([{"prefix": "A=", "secretRef": {"name": "s"}}]),
            "spec.containers[0].envFrom[0].prefix: ",
        ),
        (
            "/spec/containers/0/envFrom",
            json!([{"secretRef": {"name": "S"}}]),
            "spec.containers[0].envFrom[0].secretRef.name: ",
        ),
        (
            "/spec/containers/0/env",
            variable(json!({"secretKeyRef": {"name": "s", "key": "../x"}})),
            "spec.containers[0].env[0].valueFrom.secretKeyRef.key: ",
        ),
        (
            "/metadata/annotations",
            json!({"rkubelet.dev/restart-on-change": "yes"}),
            "metadata.annotations[rkubelet.dev/restart-on-change]: \"yes\" is neither",
        ),
        (
            "/spec/serviceAccountName",
            json!("x"),
            "spec.serviceAccountName: static pods may not reference serviceaccounts",
        ),
    ];
    for (pointer, value, want) in bad {
        let got = with_objects(pointer, value.clone());
        assert!(got.len() == 1 && got[0].starts_with(want), "{pointer} {value}\nwant {want}\ngot {got:#?}");
    }
}
