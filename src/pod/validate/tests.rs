//! A good pod, and one change at a time.

mod lifecycle;
mod pod_wide;
mod references;
mod security;
mod volumes;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{LocalObjects, validate_pod};
use crate::pod::defaults::apply_defaults;

fn good() -> Value {
    json!({
        "metadata": {"name": "web-node1", "namespace": "default", "uid": "u1"},
        "spec": {
            "containers": [
                {"name": "a", "image": "i:1", "ports": [{"name": "http", "containerPort": 80, "hostPort": 80}],
                 "env": [{"name": "A", "value": "x"}], "volumeMounts": [{"name": "v", "mountPath": "/v"}]},
                {"name": "b", "image": "i:1"},
            ],
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "h", "hostPath": {"path": "/h"}}],
        },
    })
}

fn findings(value: Value) -> Vec<String> {
    judged(value, LocalObjects::Refused)
}

fn judged(value: Value, local_objects: LocalObjects) -> Vec<String> {
    let mut pod: Pod = serde_json::from_value(value).unwrap();
    let spec = pod.spec.as_mut().unwrap();
    apply_defaults(spec);
    validate_pod(&pod.metadata, spec, local_objects).iter().map(ToString::to_string).collect()
}

/// Sets one value of the good pod and gives what is found.
fn with(pointer: &str, value: Value) -> Vec<String> {
    findings(changed(pointer, value))
}

/// The same where objects lie beside the pods.
fn with_objects(pointer: &str, value: Value) -> Vec<String> {
    judged(changed(pointer, value), LocalObjects::Allowed)
}

fn changed(pointer: &str, value: Value) -> Value {
    let mut pod = good();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = pod.pointer_mut(parent).unwrap();
    match parent {
        Value::Object(map) => drop(map.insert(key.to_owned(), value)),
        Value::Array(list) => list.push(value),
        _ => panic!("{pointer}"),
    }
    pod
}

/// A value of the good pod that gives one finding, which begins with these words.
fn has_one_finding((pointer, value, want): (&str, Value, &str)) {
    let got = with(pointer, value.clone());
    assert!(got.len() == 1 && got[0].starts_with(want), "{pointer} {value}\nwant {want}\ngot {got:#?}");
}

#[test]
fn a_good_pod_has_no_findings() {
    assert_eq!(findings(good()), Vec::<String>::new());
    let fine = [
        ("/metadata/labels", json!({"a": "", "x.io/b": "C_d"})),
        ("/metadata/annotations", json!({"Some.Example/Key": "any thing"})),
        (
            "/metadata/annotations",
            json!({"rkubelet.dev/after": "db, cache-node1", "rkubelet.dev/after-timeout": "1m30s"}),
        ),
        (
            "/spec/dnsConfig",
            json!({"nameservers": ["::1"], "searches": [".", "_a.b."], "options": [{"name": "x"}]}),
        ),
        ("/spec/hostAliases", json!([{"ip": "1.2.3.4", "hostnames": ["db.local"]}])),
        ("/spec/terminationGracePeriodSeconds", json!(0)),
        ("/spec/volumes/-", json!({"name": "none"})),
        (
            "/spec/containers/1/ports",
            json!([{"containerPort": 80}, {"containerPort": 80, "hostPort": 80, "protocol": "UDP"}]),
        ),
        (
            "/spec/containers/1/resources",
            json!({"limits": {"cpu": "1", "x.io/gpu": "1"}, "requests": {"cpu": "1"}}),
        ),
        ("/spec/containers/0/volumeMounts/0/subPath", json!("a..b/c")),
        (
            "/spec/initContainers",
            json!([{"name": "i", "image": "i:1", "ports": [{"containerPort": 80, "hostPort": 80}]}]),
        ),
    ];
    for (pointer, value) in fine {
        assert_eq!(with(pointer, value.clone()), Vec::<String>::new(), "{pointer} {value}");
    }
}

#[test]
fn one_problem_one_finding() {
    let long = "a".repeat(254);
    let table = [
        ("/metadata/name", json!("Web"), "metadata.name: \"Web\" must consist of lower-case letters"),
        ("/metadata/name", json!(long), "metadata.name: has 254 characters, at most 253 are allowed"),
        ("/metadata/namespace", json!("a.b"), "metadata.namespace: \"a.b\" must consist of"),
        ("/metadata/uid", json!("../x"), "metadata.uid: \"../x\" must consist of"),
        ("/metadata/labels", json!({"-a": "b"}), "metadata.labels[-a]: \"-a\" must consist of"),
        ("/metadata/labels", json!({"a": "b c"}), "metadata.labels[a]: \"b c\" must consist of"),
        ("/metadata/annotations", json!({"a b": ""}), "metadata.annotations[a b]: \"a b\" must consist of"),
        (
            "/metadata/annotations",
            json!({"rkubelet.dev/after": ""}),
            "metadata.annotations[rkubelet.dev/after]: must not be empty",
        ),
        (
            "/metadata/annotations",
            json!({"rkubelet.dev/after": "db,"}),
            "metadata.annotations[rkubelet.dev/after]: must not be empty",
        ),
        (
            "/metadata/annotations",
            json!({"rkubelet.dev/after": "db,kube-system/etcd"}),
            "metadata.annotations[rkubelet.dev/after]: \"kube-system/etcd\" must consist of",
        ),
        (
            "/metadata/annotations",
            json!({"rkubelet.dev/after-timeout": "5"}),
            "metadata.annotations[rkubelet.dev/after-timeout]: \"5\" is not a duration",
        ),
        (
            "/metadata/annotations",
            json!({"kubernetes.io/config.mirror": "x"}),
            "metadata.annotations[kubernetes.io/config.mirror]: a static pod is not a mirror pod",
        ),
        (
            "/metadata/annotations",
            json!({"a": "x".repeat(300_000)}),
            "metadata.annotations: 300001 bytes are more than",
        ),
        (
            "/spec/restartPolicy",
            json!("Sometimes"),
            "spec.restartPolicy: \"Sometimes\" is not one of Always, OnFailure, Never",
        ),
        ("/spec/dnsPolicy", json!("Mine"), "spec.dnsPolicy: \"Mine\" is not one of"),
        (
            "/spec/dnsPolicy",
            json!("None"),
            "spec.dnsConfig.nameservers: must name a server when dnsPolicy is None",
        ),
        (
            "/spec/dnsConfig",
            json!({"nameservers": ["a"]}),
            "spec.dnsConfig.nameservers[0]: \"a\" is not an IP address",
        ),
        (
            "/spec/dnsConfig",
            json!({"nameservers": ["::1", "::2", "::3", "::4"]}),
            "spec.dnsConfig.nameservers: may not have more than 3 entries",
        ),
        ("/spec/dnsConfig", json!({"options": [{}]}), "spec.dnsConfig.options[0].name: must not be empty"),
        (
            "/spec/activeDeadlineSeconds",
            json!(0),
            "spec.activeDeadlineSeconds: 0 is not from 1 to 2147483647",
        ),
        ("/spec/hostname", json!("a.b"), "spec.hostname: \"a.b\" must consist of"),
        ("/spec/subdomain", json!("A"), "spec.subdomain: \"A\" must consist of"),
        ("/spec/hostAliases", json!([{"ip": "x"}]), "spec.hostAliases[0].ip: \"x\" is not an IP address"),
        ("/spec/containers/0/name", json!(""), "spec.containers[0].name: must not be empty"),
        ("/spec/containers/0/name", json!("b"), "spec.containers[1].name: \"b\" is used twice"),
        (
            "/spec/initContainers",
            json!([{"name": "a", "image": "i"}]),
            "spec.containers[0].name: \"a\" is used twice",
        ),
        ("/spec/containers/0/image", json!(null), "spec.containers[0].image: must not be empty"),
        (
            "/spec/containers/0/image",
            json!(" i"),
            "spec.containers[0].image: \" i\" must not begin or end with a space",
        ),
        (
            "/spec/containers/0/imagePullPolicy",
            json!("x"),
            "spec.containers[0].imagePullPolicy: \"x\" is not one of",
        ),
        (
            "/spec/containers/0/terminationMessagePolicy",
            json!("x"),
            "spec.containers[0].terminationMessagePolicy: \"x\" is",
        ),
        (
            "/spec/containers/1/ports",
            json!([{}]),
            "spec.containers[1].ports[0].containerPort: 0 is not a port number",
        ),
        (
            "/spec/containers/1/ports",
            json!([{"containerPort": 65536}]),
            "spec.containers[1].ports[0].containerPort: 65536",
        ),
        (
            "/spec/containers/1/ports",
            json!([{"containerPort": 1, "protocol": "tcp"}]),
            "spec.containers[1].ports[0].protocol: \"tcp\" is not one of TCP, UDP, SCTP",
        ),
        (
            "/spec/containers/1/ports",
            json!([{"containerPort": 1, "hostPort": 80}]),
            "spec.containers[1].ports[0].hostPort: 80 is used twice",
        ),
        (
            "/spec/containers/1/ports",
            json!([{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]),
            "spec.containers[1].ports[1].name: \"a\" is used twice",
        ),
        (
            "/spec/containers/1/ports",
            json!([{"containerPort": 1, "hostIP": "x"}]),
            "spec.containers[1].ports[0].hostIP: \"x\"",
        ),
        (
            "/spec/containers/0/env/-",
            json!({"name": ""}),
            "spec.containers[0].env[1].name: must not be empty",
        ),
        (
            "/spec/containers/0/env/-",
            json!({"name": "A=B"}),
            "spec.containers[0].env[1].name: \"A=B\" must consist of",
        ),
        (
            "/spec/containers/0/env/0/valueFrom",
            json!({"fieldRef": {"fieldPath": "metadata.name"}}),
            "spec.containers[0].env[0].valueFrom: may not be set together with a value",
        ),
        (
            "/spec/containers/0/env/-",
            json!({"name": "B", "valueFrom": {}}),
            "spec.containers[0].env[1].valueFrom: must have a source, such as fieldRef",
        ),
        (
            "/spec/containers/0/env/-",
            json!({"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}),
            "spec.containers[0].env[1].valueFrom.fieldRef.fieldPath: \"spec.x\" is not a field that a variable can have",
        ),
        (
            "/spec/containers/0/resources",
            json!({"limits": {"cpu": "much"}, "requests": {"cpu": "1"}}),
            "spec.containers[0].resources.limits[cpu]: \"much\" is not a quantity such as",
        ),
        (
            "/spec/containers/0/resources",
            json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
            "spec.containers[0].resources.requests[cpu]: 2 is more than the limit 1",
        ),
        (
            "/spec/containers/0/resources",
            json!({"requests": {"cpu": "-1"}}),
            "spec.containers[0].resources.requests[cpu]: must not be negative",
        ),
        (
            "/spec/containers/0/livenessProbe",
            json!({}),
            "spec.containers[0].livenessProbe: must have an action",
        ),
        (
            "/spec/containers/0/livenessProbe",
            json!({"exec": {}}),
            "spec.containers[0].livenessProbe.exec.command: must not be empty",
        ),
        (
            "/spec/containers/0/livenessProbe",
            json!({"tcpSocket": {"port": 0}}),
            "spec.containers[0].livenessProbe.tcpSocket.port: 0 is not a port number from 1 to 65535",
        ),
        (
            "/spec/containers/0/livenessProbe",
            json!({"tcpSocket": {"port": "a"}, "periodSeconds": -1}),
            "spec.containers[0].livenessProbe.periodSeconds: -1 is less than 1",
        ),
    ];
    for row in table {
        has_one_finding(row);
    }
}

#[test]
fn a_pod_needs_a_container() {
    let mut pod = good();
    pod["spec"]["containers"] = json!([]);
    assert_eq!(findings(pod), ["spec.containers: must have at least one container"]);
}

#[test]
fn host_network_and_process_namespaces() {
    let mut pod = good();
    pod["spec"]["hostNetwork"] = json!(true);
    pod["spec"]["containers"][0]["ports"][0]["hostPort"] = json!(81);
    pod["spec"]["hostPID"] = json!(true);
    pod["spec"]["shareProcessNamespace"] = json!(true);
    let want = [
        "spec.shareProcessNamespace: may not be set together with hostPID",
        "spec.containers[0].ports[0].hostPort: must be containerPort (80) when hostNetwork is set",
    ];
    assert_eq!(findings(pod), want);
}
