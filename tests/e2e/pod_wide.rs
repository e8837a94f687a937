//! The settings of a pod as a whole, seen from inside the pod: namespaces, names, the runtime's handler.

use std::collections::BTreeMap;
use std::fs;

use crate::manifest;
use crate::rig::{BUSYBOX, NODE, READ_ONLY_PORT, Rig};

/// What a container printed, line by line, once it has said `done`.
fn said(rig: &Rig, pod: &str, container: &str) -> Vec<String> {
    let log = rig.wait_running(pod, container).log_path;
    let lines = || -> Vec<String> {
        let text = fs::read_to_string(&log).unwrap_or_default();
        text.lines().filter_map(|line| Some(line.split_once(" stdout F ")?.1.to_owned())).collect()
    };
    rig.wait(&format!("{container} of {pod} to have told"), || lines().iter().any(|line| line == "done"));
    lines()
}

/// A script that tells something and then idles.
fn telling(script: &str) -> String {
    format!("{script}\necho done\n{}", manifest::IDLE)
}

const KINDS: [&str; 4] = ["net", "pid", "ipc", "uts"];

/// The namespaces of the process that tells, by kind.
const TELL_NAMESPACES: &str =
    "for kind in net pid ipc uts; do echo $kind $(readlink /proc/self/ns/$kind); done";

fn namespaces(lines: &[String]) -> BTreeMap<String, String> {
    let pairs = lines.iter().filter_map(|line| line.split_once(' '));
    let known = pairs.filter(|(kind, _)| KINDS.contains(kind));
    known.map(|(kind, id)| (kind.to_owned(), id.to_owned())).collect()
}

#[test]
fn host_namespaces_are_the_nodes_and_no_others() {
    let rig = Rig::new();
    let rows: [(&str, &str, &[&str]); 4] = [
        ("plain", "hostNetwork: false", &[]),
        // The node's network comes with the node's name.
        ("net", "hostNetwork: true", &["net", "uts"]),
        ("pid", "hostPID: true", &["pid"]),
        ("ipc", "hostIPC: true", &["ipc"]),
    ];
    for (name, spec, _) in rows {
        let text = manifest::pod(name, spec, &telling(TELL_NAMESPACES));
        rig.write_manifest(&format!("{name}.yaml"), &text);
    }
    let _agent = rig.start_agent(&[]);
    let node: Vec<String> = rig.output("sh", &["-c", TELL_NAMESPACES]).lines().map(str::to_owned).collect();
    let node = namespaces(&node);
    assert_eq!(node.len(), KINDS.len());
    for (name, _, shared) in rows {
        let pod = namespaces(&said(&rig, &format!("{name}-{NODE}"), "main"));
        let same: Vec<&str> = KINDS.into_iter().filter(|kind| pod[*kind] == node[*kind]).collect();
        assert_eq!(same, shared, "pod {name}: {pod:?}, the node: {node:?}");
    }
}

#[test]
fn a_shared_process_namespace_shows_the_other_containers() {
    let rig = Rig::new();
    let two = |name: &str, shared: bool| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  shareProcessNamespace: {shared}\n  \
             terminationGracePeriodSeconds: 1\n  containers:\n\
             \x20 - {{name: other, image: {BUSYBOX}, command: [sleep, '54321']}}\n\
             \x20 - name: main\n    image: {BUSYBOX}\n    command: [sh, -c, '{}']\n",
            // Containers start in the order of the manifest: the other one runs.
            "ps; readlink /proc/1/exe; echo done; exec sleep 1000"
        )
    };
    rig.write_manifest("shared.yaml", &two("shared", true));
    rig.write_manifest("apart.yaml", &two("apart", false));
    let _agent = rig.start_agent(&[]);
    let sees = |pod: &str| said(&rig, pod, "main").iter().any(|line| line.contains("sleep 54321"));
    assert!(sees("shared-node1"));
    assert!(!sees("apart-node1"));
    let first = |pod: &str| said(&rig, pod, "main").iter().find(|line| line.starts_with('/')).cloned();
    assert_eq!(first("apart-node1").as_deref(), Some("/bin/busybox"), "a container's own first process");
    assert_ne!(first("shared-node1").as_deref(), Some("/bin/busybox"), "the sandbox's");
}

#[test]
fn names_inside_the_pod() {
    let rig = Rig::new();
    rig.write_config("clusterDomain: edge.example\n");
    // The specification; the host name, and the names in /etc/hosts.
    let rows = [
        ("plain", "", "plain-node1", "plain-node1"),
        ("named", "hostname: db", "db", "db"),
        ("sub", "hostname: db\nsubdomain: set", "db", "db.set.default.svc.edge.example\tdb"),
        (
            "full",
            "hostname: db\nsubdomain: set\nsetHostnameAsFQDN: true",
            "db.set.default.svc.edge.example",
            "db.set.default.svc.edge.example\tdb",
        ),
        ("alone", "setHostnameAsFQDN: true", "alone-node1", "alone-node1"),
        ("mine", "hostname: db\nsubdomain: set\nhostnameOverride: my.own.name", "my.own.name", "my.own.name"),
        ("host", "hostNetwork: true\nhostname: db\nsubdomain: set\nsetHostnameAsFQDN: true", NODE, ""),
    ];
    for (name, spec, ..) in rows {
        let tell = "echo is $(hostname); sed 's/^/hosts /' /etc/hosts";
        rig.write_manifest(&format!("{name}.yaml"), &manifest::pod(name, spec, &telling(tell)));
    }
    let agent = rig.start_agent(&[]);
    for (name, _, hostname, in_hosts) in rows {
        let pod = format!("{name}-{NODE}");
        let lines = said(&rig, &pod, "main");
        assert!(lines.contains(&format!("is {hostname}")), "{pod}: {lines:#?}");
        let ip = rig.ready_sandboxes("default", &pod).remove(0).ip;
        if in_hosts.is_empty() {
            assert_eq!(
                lines.iter().filter(|line| line.contains("svc.edge.example")).count(),
                0,
                "{lines:#?}"
            );
        } else {
            assert!(lines.contains(&format!("hosts {ip}\t{in_hosts}")), "{pod}: {lines:#?}");
        }
    }
    assert_eq!(agent.log_lines_with("not honoured"), Vec::<String>::new());
}

#[test]
fn a_name_that_the_kernel_cannot_hold_is_told_on_the_pod() {
    let rig = Rig::new();
    rig.write_config("clusterDomain: edge.example\n");
    let spec = format!("hostname: {}\nsubdomain: set\nsetHostnameAsFQDN: true", "h".repeat(40));
    rig.write_manifest("long.yaml", &manifest::pod("long", &spec, manifest::IDLE));
    let _agent = rig.start_agent(&[]);
    let status = wait_for_reason(&rig, "long-node1", "CreatePodSandboxError");
    let message = status["message"].as_str().expect("a message");
    assert!(
        message.ends_with("is too long (64 characters is the max, 69 characters requested)"),
        "{message}"
    );
    assert!(rig.sandboxes().is_empty());

    rig.write_manifest("long.yaml", &manifest::pod("long", "hostname: short", manifest::IDLE));
    rig.wait_running("long-node1", "main");
    rig.wait("the reason to go", || {
        rig.pod("long-node1").is_some_and(|pod| pod["status"].get("reason").is_none())
    });
}

/// The status of a pod, once it gives this reason.
fn wait_for_reason(rig: &Rig, pod: &str, reason: &str) -> serde_json::Value {
    let status = || rig.pod(pod).map(|pod| pod["status"].clone()).unwrap_or_default();
    rig.wait(&format!("{pod} to tell {reason}"), || status()["reason"] == reason);
    status()
}

/// A limit on open files that no other handler sets.
const OPEN_FILES: u64 = 333;

/// A machine whose runtime has a second handler, `frugal`, with a limit of its own.
fn with_second_handler() -> Rig {
    let rig = Rig::without_containerd();
    let mut spec: serde_json::Value =
        serde_json::from_str(&rig.output("ctr", &["oci", "spec"])).expect("a runtime specification");
    spec["process"]["rlimits"] =
        serde_json::json!([{"type": "RLIMIT_NOFILE", "hard": OPEN_FILES, "soft": OPEN_FILES}]);
    let spec_path = rig.dir().join("frugal.json");
    fs::write(&spec_path, spec.to_string()).expect("write a runtime specification");
    let config_path = rig.dir().join("containerd.toml");
    let runtimes = "plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes";
    let config = fs::read_to_string(&config_path).expect("containerd's configuration");
    let config = format!(
        "{config}\n[{runtimes}.runc]\nruntime_type = \"io.containerd.runc.v2\"\n\
         [{runtimes}.frugal]\nruntime_type = \"io.containerd.runc.v2\"\nbase_runtime_spec = {spec_path:?}\n",
    );
    fs::write(&config_path, config).expect("write containerd's configuration");
    rig.start_containerd();
    rig
}

#[test]
fn the_runtime_class_is_a_handler_of_the_runtime() {
    let rig = with_second_handler();
    for (name, spec) in
        [("usual", ""), ("frugal", "runtimeClassName: frugal"), ("odd", "runtimeClassName: kata")]
    {
        rig.write_manifest(&format!("{name}.yaml"), &manifest::pod(name, spec, &telling("ulimit -n")));
    }
    let agent = rig.start_agent(&[]);
    let limit = OPEN_FILES.to_string();
    assert!(said(&rig, "frugal-node1", "main").contains(&limit));
    assert!(!said(&rig, "usual-node1", "main").contains(&limit));

    let status = wait_for_reason(&rig, "odd-node1", "CreatePodSandboxError");
    let expect = "runtimeClassName \"kata\": the container runtime has no such handler; it has frugal, runc";
    assert_eq!(status["message"], expect);
    assert_eq!(status["phase"], "Pending");
    let waiting = &status["containerStatuses"][0]["state"]["waiting"];
    assert_eq!(waiting["reason"], "ContainerCreating");
    assert_eq!(waiting["message"], format!("CreatePodSandboxError: {expect}"));
    // It is tried again, and said once.
    let refused = r#"kubelet_runtime_operations_errors_total{operation_type="run_podsandbox"} "#;
    let tries = || -> Option<u64> {
        let page = rig.http_get(&format!("http://127.0.0.1:{READ_ONLY_PORT}/metrics"))?.body;
        page.lines().find_map(|line| line.strip_prefix(refused)?.parse().ok())
    };
    rig.wait("a second try", || tries().is_some_and(|tries| tries > 1));
    assert_eq!(agent.log_lines_with("has no such handler").len(), 1, "{}", agent.log());

    rig.write_manifest("odd.yaml", &manifest::pod("odd", "runtimeClassName: frugal", &telling("ulimit -n")));
    assert!(said(&rig, "odd-node1", "main").contains(&limit), "the right name puts it right");
}

#[test]
fn what_needs_no_warning_and_what_does() {
    let rig = Rig::new();
    let fine = "enableServiceLinks: false\nos: {name: linux}";
    rig.write_manifest("fine.yaml", &manifest::pod("fine", fine, &telling("env | sed 's/^/env /'")));
    rig.write_manifest("alien.yaml", &manifest::pod("alien", "os: {name: windows}", manifest::IDLE));
    let later = manifest::idle("later").replace(
        "    command:",
        "    resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}]\n    command:",
    );
    rig.write_manifest("later.yaml", &later);
    let agent = rig.start_agent(&[]);
    let env = said(&rig, "fine-node1", "main");
    assert!(!env.iter().any(|line| line.contains("_SERVICE_HOST=")), "{env:#?}");
    rig.wait_running("later-node1", "main");
    agent.wait_for_log("PodOSNotSupported");
    assert!(rig.sandboxes().iter().all(|seen| seen.pod != "alien-node1"));

    // No pod of ours is resized in place, and no other field runs without effect.
    assert_eq!(agent.log_lines_with("not honoured yet"), Vec::<String>::new());
}
