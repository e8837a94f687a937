//! Single defaults, and the whole specifications that kubelet 1.36 serves for the same manifests.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::*;
use crate::pod::identity::{apply_identity, config_hash};
use crate::pod::{Origin, Source};
use crate::text::yaml::parse_documents;

fn defaulted(spec: Value) -> Value {
    let mut spec: PodSpec = serde_json::from_value(spec).unwrap();
    apply_defaults(&mut spec);
    serde_json::to_value(spec).unwrap()
}

#[test]
fn pull_policies() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let (pinned, latest, both) = (
        format!("busybox@{digest}"),
        format!("busybox:latest@{digest}"),
        format!("r.example/a/b:1@{digest}"),
    );
    let table = [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("busybox:1.36", "IfNotPresent"),
        ("localhost:5000/busybox", "Always"),
        ("localhost:5000/busybox:1", "IfNotPresent"),
        (&pinned, "IfNotPresent"),
        (&latest, "Always"),
        (&both, "IfNotPresent"),
        ("Busybox", "IfNotPresent"),
        ("busybox:latest@sha256:0123", "IfNotPresent"),
    ];
    for (image, want) in table {
        assert_eq!(default_pull_policy(image), want, "{image}");
    }
}

#[test]
fn an_empty_pod() {
    let want = json!({
        "containers": [], "dnsPolicy": "ClusterFirst", "enableServiceLinks": true, "restartPolicy": "Always",
        "schedulerName": "default-scheduler", "securityContext": {}, "terminationGracePeriodSeconds": 30,
    });
    assert_eq!(defaulted(json!({})), want);
    assert_eq!(defaulted(json!({"restartPolicy": "", "dnsPolicy": ""})), want);
}

#[test]
fn what_is_written_stays() {
    let written = json!({
        "containers": [], "dnsPolicy": "Default", "enableServiceLinks": false, "restartPolicy": "Never",
        "schedulerName": "mine", "securityContext": {"runAsUser": 1}, "terminationGracePeriodSeconds": 0,
    });
    assert_eq!(defaulted(written.clone()), written);
}

#[test]
fn ports_and_host_network() {
    let ports = |host_network: bool| {
        let container = json!({"ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 81, "protocol": "UDP"}]});
        defaulted(json!({"hostNetwork": host_network, "containers": [container]}))["containers"][0]["ports"]
            .clone()
    };
    let udp = json!({"containerPort": 81, "hostPort": 81, "protocol": "UDP"});
    assert_eq!(ports(false), json!([{"containerPort": 80, "protocol": "TCP"}, udp]));
    assert_eq!(ports(true), json!([{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}, udp]));
}

#[test]
fn resources_are_canonical_and_requests_follow_limits() {
    let resources = json!({"limits": {"cpu": "1.5", "memory": "1024Mi"}, "requests": {"cpu": "0.1"}});
    let got = defaulted(json!({"containers": [{"resources": resources}]}));
    let want = json!({
        "limits": {"cpu": "1500m", "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "1Gi"},
    });
    assert_eq!(got["containers"][0]["resources"], want);
}

#[test]
fn probes_hooks_and_references() {
    let container = json!({
        "livenessProbe": {"httpGet": {"port": 80}}, "readinessProbe": {"grpc": {"port": 1}, "periodSeconds": 2},
        "lifecycle": {"preStop": {"httpGet": {"port": "web"}}},
        "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    });
    let got = defaulted(json!({"containers": [container]}))["containers"][0].clone();
    let want = json!({
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10,
        "successThreshold": 1, "failureThreshold": 3,
    });
    assert_eq!(got["livenessProbe"], want);
    let want = json!({
        "grpc": {"port": 1, "service": ""}, "timeoutSeconds": 1, "periodSeconds": 2, "successThreshold": 1,
        "failureThreshold": 3,
    });
    assert_eq!(got["readinessProbe"], want);
    assert_eq!(got["lifecycle"]["preStop"]["httpGet"]["path"], "/");
    assert_eq!(got["env"][0]["valueFrom"]["fieldRef"]["apiVersion"], "v1");
}

#[test]
fn volumes() {
    let table = [
        (json!({"name": "v"}), json!({"name": "v", "emptyDir": {}})),
        (
            json!({"name": "v", "hostPath": {"path": "/a"}}),
            json!({"name": "v", "hostPath": {"path": "/a", "type": ""}}),
        ),
        (
            json!({"name": "v", "configMap": {"name": "c"}}),
            json!({"name": "v", "configMap": {"name": "c", "defaultMode": 420}}),
        ),
        (
            json!({"name": "v", "emptyDir": {"sizeLimit": "0.5Gi"}}),
            json!({"name": "v", "emptyDir": {"sizeLimit": "512Mi"}}),
        ),
        (
            json!({"name": "v", "image": {"reference": "a:1"}}),
            json!({"name": "v", "image": {"reference": "a:1", "pullPolicy": "IfNotPresent"}}),
        ),
    ];
    for (volume, want) in table {
        assert_eq!(defaulted(json!({"volumes": [volume]}))["volumes"][0], want);
    }
}

#[test]
fn the_old_name_of_the_service_account() {
    let got = defaulted(json!({"serviceAccount": "old"}));
    assert_eq!(got["serviceAccountName"], "old");
    let got = defaulted(json!({"serviceAccount": "old", "serviceAccountName": "new"}));
    assert_eq!(got["serviceAccount"], "new");
}

macro_rules! pair {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../../tests/fixtures/reference/", $name, ".yaml")),
            include_str!(concat!("../../../tests/fixtures/reference/", $name, ".spec.json")),
        )
    };
}

#[test]
fn the_same_specification_as_kubelet() {
    let pairs =
        [pair!("simple"), pair!("controlplane"), pair!("crash"), pair!("guaranteed"), pair!("sidecar")];
    for (name, manifest, want) in pairs {
        let manifest = parse_documents(manifest).unwrap().remove(0).value;
        let mut pod: Pod = serde_json::from_value(manifest.clone()).unwrap();
        let origin = Origin {
            node_name: "node1",
            source: Source::File,
            path: name,
            seen: jiff::Timestamp::UNIX_EPOCH,
            strict: false,
            kubelet_strict: false,
        };
        let spec = pod.spec.as_mut().unwrap();
        apply_identity(&mut pod.metadata, spec, &config_hash(&manifest, "node1", name), &origin);
        apply_defaults(spec);
        let want: Value = serde_json::from_str(want).unwrap();
        assert_eq!(serde_json::to_value(spec).unwrap(), want, "{name}");
    }
}
