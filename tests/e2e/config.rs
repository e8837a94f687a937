//! Point 6: flags and files as kubelet's, and a clear refusal of what is neither.

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
        ("noSuchField: 1", ["noSuchField", "config.yaml"]),
        ("maxPods: many", ["maxPods", "config.yaml"]),
        ("healthzPort: 70000", ["healthzPort", "70000"]),
        ("syncFrequency: soon", ["syncFrequency", "soon"]),
    ] {
        rig.write_config(field);
        assert_refused(&rig, &[&config], &words);
    }
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
