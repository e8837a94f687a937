//! Manifests whole: what is taken, warned about and refused.

use super::*;

const POD: &str =
    "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - {name: c, image: 'i:1'}\n";

fn origin() -> Origin<'static> {
    Origin {
        node_name: "node1",
        source: Source::File,
        path: "/etc/kubernetes/manifests/web.yaml",
        seen: jiff::Timestamp::UNIX_EPOCH,
        strict: false,
        kubelet_strict: false,
    }
}

fn refused(text: &str) -> String {
    decode_manifest(text.as_bytes(), &origin()).unwrap_err().to_string()
}

fn warned(text: &str) -> Vec<String> {
    let decoded = decode_manifest(text.as_bytes(), &origin()).unwrap();
    decoded.warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn a_pod() {
    let decoded = decode_manifest(POD.as_bytes(), &origin()).unwrap();
    assert_eq!(decoded.warnings, []);
    let pod = decoded.pod;
    assert_eq!(pod.name.to_string(), "default/web-node1");
    assert_eq!(pod.uid.as_str(), pod.hash.as_str());
    assert_eq!(pod.hash.as_str().len(), 32);
    assert_eq!(pod.spec.restart_policy.as_deref(), Some("Always"));
    assert_eq!(pod.container_hashes.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["c"]);
}

#[test]
fn json_is_the_same_pod() {
    let json = "{\"kind\": \"Pod\", \"apiVersion\": \"v1\", \"metadata\": {\"name\": \"web\"},
        \"spec\": {\"containers\": [{\"image\": \"i:1\", \"name\": \"c\"}]}}";
    assert_eq!(decode_manifest(json.as_bytes(), &origin()), decode_manifest(POD.as_bytes(), &origin()));
}

#[test]
fn the_time_and_the_strictness_do_not_change_the_identity() {
    let later = Origin { seen: jiff::Timestamp::MAX, strict: true, ..origin() };
    let first = decode_manifest(POD.as_bytes(), &origin()).unwrap().pod;
    let second = decode_manifest(POD.as_bytes(), &later).unwrap().pod;
    assert_eq!(
        (first.uid, first.hash, first.container_hashes),
        (second.uid, second.hash, second.container_hashes)
    );
}

#[test]
fn a_fixed_uid_still_has_a_hash_of_its_own() {
    let pod = |args: &str| {
        let text = format!(
            "{}    args: [{args}]\n",
            POD.replace("name: web", "name: web, uid: fixed")
                .replace("- {name: c, image: 'i:1'}", "- name: c\n    image: 'i:1'")
        );
        decode_manifest(text.as_bytes(), &origin()).unwrap().pod
    };
    let (one, two) = (pod("a"), pod("b"));
    assert_eq!(one.uid, two.uid);
    assert_ne!(one.hash, two.hash);
    assert_ne!(one.container_hashes, two.container_hashes);
}

#[test]
fn what_is_not_a_pod() {
    let table = [
        ("", "holds no pod: it is empty or has only comments"),
        ("# nothing\n---\n", "holds no pod: it is empty or has only comments"),
        ("a: [", "not valid YAML: "),
        ("[]", "not a Pod: the manifest is not a mapping"),
        ("hello", "not a Pod: the manifest is not a mapping"),
        ("metadata: {}", "kind: missing, must be Pod"),
        ("kind: Pod", "apiVersion: missing, must be v1"),
        ("kind: PodList\napiVersion: v1", "kind: \"PodList\" is not Pod, ConfigMap or Secret"),
        ("kind: Deployment\napiVersion: apps/v1", "kind: \"Deployment\" is not Pod, ConfigMap or Secret"),
        ("kind: Pod\napiVersion: v2", "apiVersion: \"v2\" is not v1"),
        ("kind: Pod\napiVersion: 1", "apiVersion: 1 is not v1"),
        ("kind: Pod\napiVersion: v1\n---\nkind: Pod", "holds 2 documents; a manifest is one Pod"),
        (
            "kind: Pod\napiVersion: v1",
            "metadata.name: must not be empty; spec.containers: must have at least one container",
        ),
    ];
    for (text, want) in table {
        let got = refused(text);
        assert!(got.starts_with(want), "{text:?}: {got}");
        assert!(!got.contains('\n'));
    }
    let error = decode_manifest(b"kind: \xff", &origin()).unwrap_err();
    assert_eq!(error.to_string(), "not UTF-8 text at byte 6");
    let large = vec![b'#'; MAX_MANIFEST + 1];
    assert!(decode_manifest(&large, &origin()).is_err());
}

#[test]
fn type_errors_name_the_field() {
    let table = [
        (
            "ports: [{containerPort: x}]",
            "spec.containers[0].ports[0].containerPort: invalid type: string \"x\", expected i32",
        ),
        (
            "env: [{name: A, value: 1}]",
            "spec.containers[0].env[0].value: invalid type: integer `1`, expected a string",
        ),
        ("command: sh", "spec.containers[0].command: invalid type: string \"sh\", expected a sequence"),
        ("tty: 'yes'", "spec.containers[0].tty: invalid type: string \"yes\", expected a boolean"),
        (
            "ports: [{containerPort: 1.5}]",
            "spec.containers[0].ports[0].containerPort: invalid type: floating point `1.5`, expected i32",
        ),
        (
            "livenessProbe: {tcpSocket: {port: 99999999999}}",
            "spec.containers[0].livenessProbe.tcpSocket.port: invalid value",
        ),
        (
            "resources: {limits: {cpu: [1]}}",
            "spec.containers[0].resources.limits.cpu: invalid type: sequence",
        ),
    ];
    for (field, want) in table {
        let got = refused(&POD.replace("image: 'i:1'", &format!("image: 'i:1', {field}")));
        assert!(got.starts_with(want), "{field}: {got}");
    }
    assert_eq!(
        refused("kind: Pod\napiVersion: v1\nspec: 5"),
        "spec: invalid type: integer `5`, expected PodSpec"
    );
    let labels = POD.replace("name: web", "name: web, labels: {a: 1}");
    assert_eq!(refused(&labels), "metadata.labels.a: invalid type: integer `1`, expected a string");
}

#[test]
fn yaml_1_1_reaches_the_types() {
    let text =
        POD.replace("image: 'i:1'", "image: 'i:1', tty: yes, ports: [{containerPort: 0x50, hostPort: 80.0}]");
    let pod = decode_manifest(text.as_bytes(), &origin()).unwrap().pod;
    let container = &pod.spec.containers[0];
    assert_eq!(container.tty, Some(true));
    assert_eq!(container.ports.as_ref().unwrap()[0].container_port, 80);
    assert_eq!(container.ports.as_ref().unwrap()[0].host_port, Some(80));
}

#[test]
fn quantities_may_be_numbers() {
    let resources = "image: 'i:1', resources: {limits: {cpu: 1.50, memory: 1e9}}";
    let text = POD.replace("image: 'i:1'", resources);
    let pod = decode_manifest(text.as_bytes(), &origin()).unwrap().pod;
    let limits = pod.spec.containers[0].resources.clone().unwrap().limits.unwrap();
    assert_eq!((limits["cpu"].0.as_str(), limits["memory"].0.as_str()), ("1500m", "1G"));
}

#[test]
fn nothing_is_dropped_in_silence() {
    let text = POD.replace(
        "image: 'i:1'",
        "image: 'i:1', foo: {bar: 1}, resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}]",
    );
    let text = text.replace(
        "spec:\n",
        "spec:\n  nodeName: other\n  priority: 1\n  dnsPolicy: None\n  dnsPolicy: Default\n",
    );
    let text = text.replace("{name: web}", "{name: web, annotations: {rkubelet.dev/after-timeout: 1m}}");
    let warnings = [
        "spec.nodeName: \"other\" is replaced by this node's name, \"node1\"",
        "metadata.annotations[rkubelet.dev/after-timeout]: has no effect without rkubelet.dev/after",
        "spec.dnsPolicy: written more than once; the last counts",
        "spec.containers[0].foo: unknown field",
    ];
    assert_eq!(warned(&text), warnings);
    let strict = Origin { strict: true, ..origin() };
    let want =
        "spec.dnsPolicy: written more than once; the last counts; spec.containers[0].foo: unknown field";
    assert_eq!(decode_manifest(text.as_bytes(), &strict).unwrap_err().to_string(), want);
}

#[test]
fn all_problems_are_told_once() {
    let text = POD.replace("name: c, image: 'i:1'", "name: C, image: ''");
    let text = format!(
        "{text}  volumes: [{{name: v, persistentVolumeClaim: {{claimName: c}}}}]\n  initContainers: [{{name: i}}]\n"
    );
    let want = [
        "spec.initContainers[0].image: must not be empty",
        "spec.containers[0].name: \"C\" must consist of",
        "spec.containers[0].image: must not be empty",
        "spec.volumes[0].persistentVolumeClaim: static pods may not reference persistentvolumeclaims",
    ];
    let got = refused(&text);
    let parts: Vec<_> = got.split("; ").collect();
    assert_eq!(parts.len(), want.len(), "{got}");
    assert!(parts.iter().zip(want).all(|(part, want)| part.starts_with(want)), "{got}");
}

#[test]
fn a_refused_manifest_has_its_warnings_too() {
    let misspelt = POD.replace(
        "image: 'i:1'",
        "image: 'i:1', comand: [sh], resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}]",
    );
    let named = "spec.containers[0].comand: unknown field, did you mean \"command\"?";
    let table = [
        ("validation", misspelt.replace("name: web", "name: Web"), vec![named]),
        ("support", format!("{misspelt}  volumes: [{{name: v, csi: {{driver: d}}}}]\n"), vec![named]),
        ("a type before it", misspelt.replace("name: c,", "name: c, args: 1,"), vec![named]),
        ("a type after it", format!("{misspelt}  hostNetwork: maybe\n"), vec![named]),
        (
            "another kind, and a doubled key",
            format!("{misspelt}kind: Pood\n"),
            vec!["kind: written more than once; the last counts"],
        ),
    ];
    for (name, text, want) in table {
        let refusal = decode_manifest(text.as_bytes(), &origin()).unwrap_err();
        let warnings: Vec<_> = refusal.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(warnings, want, "{name}");
        assert!(refusal.warnings.iter().all(|warning| warning.position.is_some()), "{name}: {refusal:?}");
    }
}

#[test]
fn what_is_quoted_is_cut_and_breaks_no_line() {
    let long = format!("\"{}\\n\\e[31m\"", "A".repeat(1 << 20));
    let container = |field: &str| POD.replace("image: 'i:1'", &format!("image: 'i:1', {field}"));
    let table = [
        ("kind", POD.replace("kind: Pod", &format!("kind: {long}"))),
        ("kind, a mapping", POD.replace("kind: Pod", &format!("kind: {{{long}: {long}}}"))),
        ("apiVersion", POD.replace("apiVersion: v1", &format!("apiVersion: {long}"))),
        ("a name", POD.replace("name: c,", &format!("name: {long},"))),
        ("a key", POD.replace("{name: web}", &format!("{{name: web, labels: {{{long}: a}}}}"))),
        ("a value", POD.replace("{name: web}", &format!("{{name: web, labels: {{a: {long}}}}}"))),
        (
            "a duration",
            POD.replace(
                "{name: web}",
                &format!("{{name: web, annotations: {{rkubelet.dev/max-restart-backoff: {long}}}}}"),
            ),
        ),
        ("a type", container(&format!("stdin: {long}"))),
        ("a word", container(&format!("imagePullPolicy: {long}"))),
        ("a path", container(&format!("volumeMounts: [{{name: {long}, mountPath: {long}}}]"))),
        (
            "a field of the pod",
            container(&format!("env: [{{name: A, valueFrom: {{fieldRef: {{fieldPath: {long}}}}}}}]")),
        ),
        ("a quantity", container(&format!("resources: {{limits: {{cpu: {long}, {long}: 1}}}}"))),
        ("an unknown field", format!("{}{long}: 1\n", container("stdin: maybe"))),
        ("a tag", container(&format!("stdin: !{} x", "A".repeat(1 << 20)))),
    ];
    for (name, text) in table {
        let mut refusal = decode_manifest(text.as_bytes(), &origin()).unwrap_err();
        let told = refusal.to_string();
        assert!(told.len() < 8000 && !told.contains(char::is_control), "{name}: {} bytes", told.len());
        for finding in refusal.findings_mut() {
            assert!(finding.to_string().len() < 2000, "{name}: {finding}");
        }
    }
}

#[test]
fn all_values_of_a_wrong_type_are_told() {
    let text = POD.replace("name: c,", "name: c, args: 1, ports: [{containerPort: x}, {containerPort: y}],");
    let text = format!("{text}  hostNetwork: maybe\n");
    let fields: Vec<_> = decode_manifest(text.as_bytes(), &origin())
        .unwrap_err()
        .problems()
        .map(|p| p.field.clone())
        .collect();
    let container = "spec.containers[0]";
    let mut want = [
        format!("{container}.args"),
        format!("{container}.ports[0].containerPort"),
        format!("{container}.ports[1].containerPort"),
        "spec.hostNetwork".to_owned(),
    ];
    want.sort();
    assert_eq!(fields, want);
}

#[test]
fn a_large_bad_manifest_is_refused_soon() {
    let containers = "  - {name: C, name: C, image: '', x: 1}\n".repeat(20_000);
    let text =
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec:\n  containers:\n{containers}");
    assert!(refused(&text).ends_with("; and 90 more"));
}

#[test]
fn exported_pods_are_fine() {
    let text = POD.replace("{name: web}", "{name: web, creationTimestamp: null}");
    assert_eq!(warned(&format!("{text}status: {{}}\n")), Vec::<String>::new());
}

proptest::proptest! {
    #[test]
    fn no_bytes_panic(at in 0..POD.len(), bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..8)) {
        let mut text = POD.as_bytes().to_vec();
        text.splice(at..at, bytes);
        let _ = decode_manifest(&text, &origin());
    }

    #[test]
    fn no_truncation_panics(at in 0..POD.len()) {
        let _ = decode_manifest(&POD.as_bytes()[..at], &origin());
    }
}
