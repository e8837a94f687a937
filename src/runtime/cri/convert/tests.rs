//! What we send for the reference manifests, held against what kubelet 1.36 sent; and tables.

mod endings;
mod json;
mod resources;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Container as ContainerSpec;
use serde_json::{Map, Value, json};

use super::*;
use crate::host::volume::plan_mounts;
use crate::pod::cgroup_name::{CgroupDriver, CgroupRoot};
use crate::pod::decode::{Origin, decode_manifest};
use crate::pod::dns::{ClusterDns, parse_resolv_conf, pod_dns};
use crate::pod::hostname::host_names;
use crate::pod::qos::qos_class;
use crate::pod::security::ImageUser;
use crate::pod::testing::pod;
use crate::pod::{Source, env};
use crate::runtime::cri::proto::NamespaceMode;
use crate::runtime::{Dirs, container_mounts};
use crate::text::yaml::parse_documents;

const IMAGE: &str = "sha256:e412286d90004ff7372fb909333af55a01c5d81bfcf825f77df5c38d0381e65c";

/// Differences that we mean, by path, each with its reason. One that no pod shows any more is to be struck off.
const INTENDED: &[(&str, &str)] = &[
    ("container.image.user_specified_image", "sent by both, and forgotten by the recording containerd 1.6"),
    ("container.annotations.rkubelet.dev/crashes", "ours: back-off outlives the agent"),
];

fn fixture(name: &str) -> &'static str {
    macro_rules! files {
        ($($name:literal),*) => {
            match name { $($name => include_str!(concat!("../../../../tests/fixtures/reference/", $name)),)* _ => panic!("{name}") }
        };
    }
    files!(
        "simple.yaml",
        "controlplane.yaml",
        "crash.yaml",
        "guaranteed.yaml",
        "sidecar.yaml",
        "cri/sandbox-simple-node1.json",
        "cri/sandbox-etcd-node1.json",
        "cri/sandbox-crash-node1.json",
        "cri/sandbox-guaranteed-node1.json",
        "cri/sandbox-sidecar-node1.json",
        "cri/container-simple-node1-web-0.json",
        "cri/container-etcd-node1-etcd-0.json",
        "cri/container-crash-node1-c-3.json",
        "cri/container-guaranteed-node1-main-0.json"
    )
}

fn decoded(manifest: &str) -> Pod {
    let origin = Origin {
        node_name: "node1",
        source: Source::File,
        path: "/etc/kubernetes/manifests/pod.yaml",
        seen: "2026-11-16T00:39:04.685901133Z".parse().unwrap(),
        strict: false,
        kubelet_strict: false,
    };
    decode_manifest(manifest.as_bytes(), &origin).unwrap().pod
}

/// As the effects of `runtime` would call it on the recording node.
fn our_sandbox(pod: &Pod) -> Value {
    let cluster = ClusterDns { servers: vec!["10.96.0.10".into()], domain: "cluster.local".into() };
    let host = parse_resolv_conf("nameserver 192.0.2.53\n");
    let dns = pod_dns(&pod.spec, &pod.name.namespace, &cluster, host);
    let logs = dirs().logs(&pod.name, &pod.uid);
    let hostname = host_names(pod, &cluster.domain).kernel_name(pod.spec.set_hostname_as_fqdn).unwrap();
    let mut config = sandbox_config(pod, 0, logs.to_str().unwrap(), dns, hostname);
    let parent = CgroupRoot::new("").pod(qos_class(&pod.spec), &pod.uid, CgroupDriver::Cgroupfs);
    add_sandbox_resources(&mut config, pod, &resources::recording_node(), parent);
    json::sandbox(&config)
}

fn our_container(pod: &Pod, name: &str, attempt: u32, crashes: u32) -> Value {
    let container = pod.spec.containers.iter().find(|c| c.name == name).unwrap();
    let env =
        env::container_env(container, Vec::new(), |_| None, |_| unreachable!(), |_| unreachable!()).unwrap();
    let expand = |words: &Option<Vec<String>>| {
        let words = words.iter().flatten();
        words.map(|word| env::expand(word, |name| env::value_of(&env, name))).collect()
    };
    let volumes = plan_mounts(pod, container, &env, &dirs()).unwrap();
    let prepared = Prepared {
        // busybox runs as root, and says so.
        security: Surroundings { image_user: Some(ImageUser::Id(0)), ..Default::default() },
        sidecar: None,
        attempt,
        crashes,
        boot_id: String::new(),
        round: 0,
        image_ref: IMAGE.into(),
        command: expand(&container.command),
        args: expand(&container.args),
        mounts: {
            let words = dirs().termination_message(&pod.uid, name, attempt);
            container_mounts(container, &volumes, dirs().etc_hosts(&pod.uid), &words).0
        },
        env,
        devices: Vec::new(),
        cdi_devices: Vec::new(),
        annotations: BTreeMap::new(),
    };
    let mut config = container_config(pod, container, prepared);
    add_container_resources(&mut config, pod, container, &resources::recording_node());
    json::container(&config)
}

fn dirs() -> Dirs {
    Dirs::new("/var/lib/kubelet".into(), "/var/log/pods".into())
}

/// Values that differ by nature become words; mounts become a map by their path in the container. Their order is
/// checked on its own.
fn normalised(config: Value, uid: &str) -> Value {
    let text = config.to_string().replace(uid, "UID");
    let mut config: Value = serde_json::from_str(&text).unwrap();
    for key in [keys::CONFIG_HASH, keys::CONFIG_SEEN, keys::CONTAINER_HASH] {
        if let Some(value) = config["annotations"].get_mut(key) {
            *value = json!("PRESENT");
        }
    }
    if let Some(mounts) = config.get_mut("mounts") {
        let by_path = |mount: &Value| (mount["container_path"].as_str().unwrap().to_owned(), mount.clone());
        *mounts = mounts.as_array().unwrap().iter().map(by_path).collect::<Map<_, _>>().into();
        // Its name is kubelet's dice, and our attempt.
        if let Some(words) = mounts.pointer_mut("/~1dev~1termination-log/host_path") {
            let dir = words.as_str().unwrap().rsplit_once('/').unwrap().0;
            *words = json!(format!("{dir}/PRESENT"));
        }
    }
    config
}

/// The paths where two values differ.
fn differences(path: &str, ours: Option<&Value>, theirs: Option<&Value>, found: &mut Vec<String>) {
    match (ours, theirs) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let names: BTreeSet<_> = a.keys().chain(b.keys()).collect();
            for name in names {
                differences(&format!("{path}.{name}"), a.get(name), b.get(name), found);
            }
        }
        (a, b) if a == b => {}
        (a, b) => {
            let show = |v: Option<&Value>| v.map_or("nothing".into(), Value::to_string);
            found.push(format!("{path}: we send {}, kubelet {}", show(a), show(b)));
        }
    }
}

/// What differs and is not meant; notes which of the intended ones were met.
fn unintended(
    path: &str,
    (ours, uid): (Value, &str),
    reference: &str,
    met: &mut BTreeSet<&'static str>,
) -> Vec<String> {
    let theirs: Value = serde_json::from_str(fixture(reference)).unwrap();
    let their_uid = theirs["labels"][keys::POD_UID].as_str().unwrap().to_owned();
    let mut found = Vec::new();
    let (ours, theirs) = (normalised(ours, uid), normalised(theirs, &their_uid));
    differences(path, Some(&ours), Some(&theirs), &mut found);
    found.retain(|difference| {
        let meant = INTENDED
            .iter()
            .find(|(path, _)| difference.strip_prefix(path).is_some_and(|rest| rest.starts_with([':', '.'])));
        met.extend(meant.map(|(path, _)| *path));
        meant.is_none()
    });
    found
}

#[test]
fn as_kubelet_sends_it_but_for_what_we_mean() {
    // The manifest, and per container what came before it.
    type Row = (&'static str, &'static str, &'static [(&'static str, u32, u32)]);
    let rows: [Row; 5] = [
        ("simple.yaml", "simple-node1", &[("web", 0, 0)]),
        ("controlplane.yaml", "etcd-node1", &[("etcd", 0, 0)]),
        ("crash.yaml", "crash-node1", &[("c", 3, 3)]),
        ("guaranteed.yaml", "guaranteed-node1", &[("main", 0, 0)]),
        ("sidecar.yaml", "sidecar-node1", &[]),
    ];
    let mut met = BTreeSet::new();
    for (manifest, name, containers) in rows {
        let pod = match manifest {
            "sidecar.yaml" => decoded(&without_what_is_refused(fixture(manifest))),
            _ => decoded(fixture(manifest)),
        };
        let uid = pod.uid.as_str();
        let reference = format!("cri/sandbox-{name}.json");
        let found = unintended("sandbox", (our_sandbox(&pod), uid), &reference, &mut met);
        assert!(found.is_empty(), "{manifest}: {found:#?}");
        for (container, attempt, crashes) in containers {
            let ours = our_container(&pod, container, *attempt, *crashes);
            let reference = format!("cri/container-{name}-{container}-{attempt}.json");
            let found = unintended("container", (ours, uid), &reference, &mut met);
            assert!(found.is_empty(), "{manifest}: {found:#?}");
        }
    }
    let stale: Vec<_> = INTENDED.iter().filter(|(path, _)| !met.contains(path)).collect();
    assert!(stale.is_empty(), "no pod shows these differences any more: {stale:?}");
}

/// Init containers and the downward API volume are refused so far; a sandbox does not depend on them.
fn without_what_is_refused(manifest: &str) -> String {
    let mut value = parse_documents(manifest).unwrap().remove(0).value;
    let spec = value["spec"].as_object_mut().unwrap();
    spec.remove("initContainers");
    spec.remove("volumes");
    spec["containers"][0].as_object_mut().unwrap().remove("volumeMounts");
    value.to_string()
}

#[test]
fn mounts_come_in_kubelets_order() {
    let pod = decoded(fixture("controlplane.yaml"));
    let paths = |config: &Value| -> Vec<String> {
        let mounts = config["mounts"].as_array().unwrap();
        mounts.iter().map(|mount| mount["container_path"].as_str().unwrap().to_owned()).collect()
    };
    let theirs = paths(&serde_json::from_str(fixture("cri/container-etcd-node1-etcd-0.json")).unwrap());
    assert_eq!(paths(&our_container(&pod, "etcd", 0, 0)), theirs);
}

#[test]
fn namespaces_follow_the_spec() {
    const POD: i32 = NamespaceMode::Pod as i32;
    const OWN: i32 = NamespaceMode::Container as i32;
    const NODE: i32 = NamespaceMode::Node as i32;
    // hostNetwork, hostPID, hostIPC, shareProcessNamespace; network, pid, ipc.
    let rows = [
        ([None, None, None, None], [POD, OWN, POD]),
        ([Some(false); 4], [POD, OWN, POD]),
        ([Some(true), None, None, None], [NODE, OWN, POD]),
        ([None, Some(true), None, None], [POD, NODE, POD]),
        ([None, None, Some(true), None], [POD, OWN, NODE]),
        ([None, None, None, Some(true)], [POD, POD, POD]),
        ([Some(true), Some(true), Some(true), None], [NODE, NODE, NODE]),
        ([None, Some(true), None, Some(true)], [POD, NODE, POD]),
    ];
    for (given, expect) in rows {
        let [host_network, host_pid, host_ipc, share_process_namespace] = given;
        let mut pod = pod("p", "u");
        pod.spec = PodSpec { host_network, host_pid, host_ipc, share_process_namespace, ..pod.spec.clone() };
        let of_sandbox = sandbox_config(&pod, 0, "", Dns::default(), String::new())
            .linux
            .unwrap()
            .security_context
            .unwrap();
        let container = container_config(&pod, &pod.spec.containers[0], Prepared::default());
        let of_container = container.linux.unwrap().security_context.unwrap();
        for options in [of_sandbox.namespace_options.unwrap(), of_container.namespace_options.unwrap()] {
            assert_eq!([options.network, options.pid, options.ipc], expect, "{given:?}");
            assert_eq!(options.userns_options.unwrap().mode, NODE, "{given:?}");
        }
    }
}

fn with_ports(ports: Value, host_network: bool) -> Pod {
    let manifest = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"hostNetwork": host_network, "containers": [{"name": "c", "image": "i", "ports": ports}]},
    });
    decoded(&manifest.to_string())
}

#[test]
fn only_host_ports_are_mapped() {
    let rows = [
        (json!([]), json!(null)),
        (json!([{"containerPort": 80}]), json!(null)),
        (json!([{"containerPort": 80, "hostPort": 0}]), json!(null)),
        (
            json!([{"containerPort": 80, "hostPort": 8080}]),
            json!([{"container_port": 80, "host_port": 8080}]),
        ),
        (
            json!([{"containerPort": 53, "hostPort": 53, "protocol": "UDP", "hostIP": "127.0.0.1"}]),
            json!([{"protocol": 1, "container_port": 53, "host_port": 53, "host_ip": "127.0.0.1"}]),
        ),
        (
            json!([{"containerPort": 1, "hostPort": 2, "protocol": "SCTP"}, {"containerPort": 3, "hostPort": 4}]),
            json!([{"protocol": 2, "container_port": 1, "host_port": 2}, {"container_port": 3, "host_port": 4}]),
        ),
    ];
    for (ports, expect) in rows {
        assert_eq!(our_sandbox(&with_ports(ports.clone(), false))["port_mappings"], expect, "{ports}");
        // On the node's network there is nothing to map.
        let shared: Vec<Value> = ports.as_array().unwrap().iter().map(same_port).collect();
        let config = our_sandbox(&with_ports(shared.into(), true));
        assert_eq!(config["port_mappings"], json!(null), "{ports}");
        assert_eq!(config["hostname"], json!(null), "the node keeps its name");
    }
}

/// On the node's network a port is the host's.
fn same_port(port: &Value) -> Value {
    let mut port = port.clone();
    port["hostPort"] = port["containerPort"].clone();
    port
}

#[test]
fn the_ports_annotation_is_written_as_go_does() {
    let rows = [
        (json!([]), json!(null)),
        (json!([{"containerPort": 80}]), json!(r#"[{"containerPort":80,"protocol":"TCP"}]"#)),
        (
            json!([{"containerPort": 80, "name": "", "hostPort": 0, "hostIP": "", "protocol": ""}]),
            json!(r#"[{"containerPort":80,"protocol":"TCP"}]"#),
        ),
        (
            json!([
                {"hostIP": "::1", "protocol": "UDP", "containerPort": 53, "hostPort": 53, "name": "dns"},
                {"containerPort": 9, "protocol": "SCTP"},
            ]),
            json!(concat!(
                r#"[{"name":"dns","hostPort":53,"containerPort":53,"protocol":"UDP","hostIP":"::1"},"#,
                r#"{"containerPort":9,"protocol":"SCTP"}]"#
            )),
        ),
    ];
    for (ports, expect) in rows {
        let config = our_container(&with_ports(ports.clone(), false), "c", 0, 0);
        assert_eq!(config["annotations"][keys::CONTAINER_PORTS], expect, "{ports}");
    }
}

#[test]
fn labels_and_annotations_carry_what_must_outlive_the_agent() {
    let mut pod = pod("p", "u");
    let own = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    pod.metadata.labels = Some([own("app", "a"), own(keys::POD_NAME, "forged")].into());
    pod.metadata.annotations = Some([own("note", "hello")].into());
    pod.spec.termination_grace_period_seconds = Some(0);

    let sandbox = sandbox_config(&pod, 7, "/logs", Dns::default(), "host".into());
    let ours = [own(keys::POD_NAME, "p"), own(keys::POD_NAMESPACE, "default"), own(keys::POD_UID, "u")];
    assert_eq!(sandbox.labels, ours.iter().cloned().chain([own("app", "a")]).collect(), "ours win");
    assert_eq!(sandbox.annotations, [own("note", "hello")].into());
    assert_eq!((sandbox.metadata.unwrap().attempt, sandbox.log_directory.as_str()), (7, "/logs"));
    assert_eq!(sandbox.hostname, "host");

    let spec = ContainerSpec { working_dir: Some("/w".into()), ..pod.spec.containers[0].clone() };
    let prepared = Prepared { attempt: 2, crashes: 1, boot_id: "b".into(), ..Prepared::default() };
    let container = container_config(&pod, &spec, prepared);
    assert_eq!(container.labels, ours.into_iter().chain([own(keys::CONTAINER_NAME, "main")]).collect());
    let expect = [
        own(keys::CONTAINER_HASH, "hash-main"),
        own(keys::RESTART_COUNT, "2"),
        own(keys::TERMINATION_MESSAGE_PATH, ""),
        own(keys::TERMINATION_MESSAGE_POLICY, ""),
        own(keys::GRACE_PERIOD, "0"),
        own(keys::CRASHES, "1"),
        own(keys::BOOT_ID, "b"),
    ];
    assert_eq!(container.annotations, expect.into());
    assert_eq!((container.log_path.as_str(), container.working_dir.as_str()), ("main/2.log", "/w"));
    let none = container_config(&pod, &spec, Prepared::default());
    assert!(!none.annotations.contains_key(keys::CRASHES));
}
