//! References to objects of an API server.

use serde_json::json;

use super::with;

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
