//! Flags and files as kubelet's, and a clear refusal of what is neither.

use std::fs;

use crate::manifest;
use crate::rig::Rig;

/// Runs the agent with these flags until it ends; returns its exit code and what it printed.
fn run(rig: &Rig, flags: &[&str]) -> (Option<i32>, String) {
    let mut agent = rig.start_agent_with_flags(flags);
    let status = agent.wait_for_end();
    (status.code(), agent.log())
}

#[track_caller]
fn assert_refused(rig: &Rig, flags: &[&str], words: &[&str]) {
    let (code, output) = run(rig, flags);
    assert_eq!(code, Some(64), "{flags:?}: {output}");
    assert_eq!(output.lines().count(), 1, "{flags:?}: one line, not: {output}");
    for word in words {
        assert!(output.contains(word), "{flags:?}: no {word:?} in: {output}");
    }
}

#[test]
fn a_bad_flag_field_or_value_exits_with_64_and_one_line() {
    let rig = Rig::without_containerd();
    assert_refused(&rig, &["--no-such-flag"], &["--no-such-flag"]);
    assert_refused(&rig, &["--max-pods=many"], &["--max-pods", "many"]);
    assert_refused(&rig, &["--file-check-frequency=soon"], &["--file-check-frequency", "soon"]);
    assert_refused(
        &rig,
        &["--container-runtime-endpoint=ftp://x"],
        &["--container-runtime-endpoint", "ftp://x"],
    );
    let directory = "--container-runtime-endpoint=unix:///run/";
    assert_refused(&rig, &[directory], &["--container-runtime-endpoint", "unix:///run/"]);
    assert_refused(&rig, &["--config=/does/not/exist.yaml"], &["/does/not/exist.yaml"]);
    let path = rig.config_path();
    let config = format!("--config={}", path.display());
    for (field, words) in [
        ("evictionHard: {memory.available: 100Zi}", ["evictionHard (--eviction-hard)", "100Zi"]),
        ("kubeReserved: {cpu: abc}", ["kubeReserved (--kube-reserved)", "abc"]),
        ("maxPods: many", ["maxPods", "config.yaml"]),
        ("healthzPort: 70000", ["healthzPort", "70000"]),
        ("syncFrequency: soon", ["syncFrequency", "soon"]),
    ] {
        rig.write_config(field);
        assert_refused(&rig, &[&config], &words);
    }
    rig.write_config("noSuchField: 1\nmaxPods: 1\nmaxPods: 2\n");
    assert_refused(
        &rig,
        &[&config, "--strict-config"],
        &["unknown field noSuchField", "field maxPods is written more"],
    );
    assert_refused(
        &rig,
        &["--network-plugin=cni", "--logtostderr", "-max-pods=1"],
        &[
            "--network-plugin was removed",
            "1.24",
            "--logtostderr was removed",
            "1.26",
            "did you mean --max-pods?",
        ],
    );
    fs::write(&path, "{ not YAML").expect("write the configuration");
    assert_refused(&rig, &[&config], &["config.yaml"]);
    fs::write(&path, "apiVersion: v1\nkind: Pod\n").expect("write the configuration");
    assert_refused(&rig, &[&config], &["config.yaml", "KubeletConfiguration"]);
}

#[test]
fn version_and_help_answer_and_end() {
    let rig = Rig::without_containerd();
    let (code, version) = run(&rig, &["--version"]);
    assert_eq!(code, Some(0), "{version}");
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    let (code, help) = run(&rig, &["--help"]);
    assert_eq!(code, Some(0), "{help}");
    for flag in
        ["--pod-manifest-path", "--container-runtime-endpoint", "--config-dir", "--manifest-url-header"]
    {
        assert!(help.contains(flag), "no {flag} in: {help}");
    }
}

#[test]
fn drop_ins_win_over_the_file_in_order_and_flags_over_all() {
    let rig = Rig::new();
    let healthy = |port: u16| {
        let reply = rig.http_get(&format!("http://127.0.0.1:{port}/healthz"));
        reply.is_some_and(|reply| reply.body == "ok")
    };
    rig.write_config("healthzPort: 11001\n");
    let agent = rig.start_agent(&[]);
    rig.wait("health on the file's port", || healthy(11001));
    agent.terminate();

    let drop_ins = rig.dir().join("config.d");
    fs::create_dir(&drop_ins).expect("create the drop-in directory");
    let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    for (file, port) in [("20.conf", 11003), ("10.conf", 11002), ("30.yaml", 11004)] {
        fs::write(drop_ins.join(file), format!("{head}healthzPort: {port}\n")).expect("write a drop-in");
    }
    let config_dir = format!("--config-dir={}", drop_ins.display());
    let agent = rig.start_agent(&[&config_dir]);
    rig.wait("health on the last drop-in's port", || healthy(11003));
    agent.terminate();

    let _agent = rig.start_agent(&[&config_dir, "--healthz-port=11005"]);
    rig.wait("health on the flag's port", || healthy(11005));
    assert!(!healthy(11003));
}

#[test]
fn fields_that_are_not_honoured_are_named_in_one_line() {
    let rig = Rig::new();
    rig.write_config("topologyManagerPolicy: single-numa-node\nkubeAPIQPS: 7\n");
    rig.write_manifest("pod.yaml", &manifest::idle("pod"));
    let agent = rig.start_agent(&[]);
    rig.wait_running("pod-node1", "main");
    let lines = agent.log_lines_with("topologyManagerPolicy");
    assert!(
        lines.len() == 1 && lines[0].contains("kubeAPIQPS") && lines[0].contains("WARN"),
        "{}",
        agent.log()
    );
}

#[test]
fn what_kubelet_ignores_is_a_warning_and_the_pods_run() {
    let rig = Rig::new();
    rig.write_config(
        "metadata: {name: kubelet}\nclientCAFile: /ca.crt\nhealthzBindAddress: localhost\nmaxPods: 5\nmaxPods: 6\n\
         kubeAPIQPS: 7\nshutdownGracePeriod: 0s\n---\nnot: read\n",
    );
    rig.write_manifest("pod.yaml", &manifest::idle("pod"));
    let agent = rig.start_agent(&[]);
    rig.wait_running("pod-node1", "main");
    agent.wait_healthy();
    for words in [
        "ignored: unknown field metadata",
        "ignored: unknown field clientCAFile (did you mean authentication.x509.clientCAFile?)",
        "ignored: field maxPods is written more than once",
        "ignored: 2 documents, and the first one counts",
        "fields without effect yet: kubeAPIQPS",
    ] {
        let lines = agent.log_lines_with(words);
        assert!(lines.len() == 1 && lines[0].contains("WARN"), "{words}: {}", agent.log());
    }
}

#[test]
fn a_hostname_with_an_underscore_is_a_warning() {
    let rig = Rig::without_containerd();
    let agent = rig.start_agent(&["--hostname-override=my_host"]);
    agent.wait_healthy();
    assert_eq!(
        agent.log_lines_with("node name \"my_host\" is not a DNS-1123 subdomain").len(),
        1,
        "{}",
        agent.log()
    );
}

/// The name servers that a pod sees, as its container prints them.
fn name_servers(rig: &Rig, name: &str) -> Vec<String> {
    rig.write_manifest(
        &format!("{name}.yaml"),
        &manifest::script(name, "cat /etc/resolv.conf; echo end; sleep 1000"),
    );
    let log = || {
        let directory = fs::read_dir(rig.pod_logs_dir()).ok()?.filter_map(Result::ok).find(|entry| {
            entry.file_name().to_string_lossy().starts_with(&format!("default_{name}-node1_"))
        })?;
        fs::read_to_string(directory.path().join("main/0.log")).ok().filter(|text| text.contains(" end"))
    };
    let mut text = String::new();
    rig.wait("the pod to print its resolv.conf", || {
        text = log().unwrap_or_default();
        !text.is_empty()
    });
    let server = |line: &str| Some(line.split_once("nameserver ")?.1.to_owned());
    text.lines().filter_map(server).collect()
}

#[test]
fn pods_get_three_name_servers_and_none_of_the_host_without_a_resolver_file() {
    let rig = Rig::new();
    let resolver = rig.dir().join("resolv.conf");
    fs::write(&resolver, "nameserver 192.0.2.53\n").expect("write a resolver file");
    rig.output("mount", &["--bind", &resolver.display().to_string(), "/etc/resolv.conf"]);

    rig.write_config("resolvConf: ''\n");
    let agent = rig.start_agent(&[]);
    assert_eq!(name_servers(&rig, "none"), ["127.0.0.1"]);
    agent.terminate();

    rig.write_config("clusterDNS: [10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4, 10.0.0.5]\n");
    let agent = rig.start_agent(&[]);
    assert_eq!(name_servers(&rig, "five"), ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    assert_eq!(agent.log_lines_with("pods get the first 3 of 5 servers").len(), 1, "{}", agent.log());
}
