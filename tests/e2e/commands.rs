//! The operator's commands, against a real agent on a real containerd.

use std::fs;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::manifest;
use crate::rig::Rig;

fn rkubelet(rig: &Rig, arguments: &[&str]) -> Output {
    let (name, rest) = arguments.split_first().expect("a command");
    Command::new(env!("CARGO_BIN_EXE_rkubelet"))
        .arg(name)
        .arg("--socket")
        .arg(rig.socket_path())
        .args(rest)
        .stdin(Stdio::null())
        .output()
        .expect("run a command")
}

/// What a command prints, whose exit code is this one.
fn printed(rig: &Rig, arguments: &[&str], code: i32) -> String {
    let output = rkubelet(rig, arguments);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {out}{err}\n{}", rig.report());
    format!("{out}{err}")
}

/// The same under a terminal of its own.
fn on_terminal(rig: &Rig, line: &str, input: &str) -> String {
    let program = format!("{} {line}", env!("CARGO_BIN_EXE_rkubelet"));
    let line = program.replacen(" --socket ", &format!(" --socket {} ", rig.socket_path().display()), 1);
    let mut script = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script of util-linux");
    std::io::Write::write_all(&mut script.stdin.take().expect("its input"), input.as_bytes()).expect("type");
    let output = script.wait_with_output().expect("wait");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn what_runs_and_what_does_not_and_why() {
    let rig = Rig::new();
    rig.write_manifest("good.yaml", &manifest::idle("good"));
    rig.write_manifest("crash.yaml", &manifest::script("crash", "sleep 1; exit 3"));
    rig.write_manifest(
        "refused.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: refused}\nspec: {containers: []}\n",
    );
    let agent = rig.start_agent(&[]);
    rig.wait("the agent", || rkubelet(&rig, &["get", "pods"]).status.success());
    assert!(printed(&rig, &["wait", "good", "--timeout=5m"], 0).contains("good-node1 is Ready"));
    rig.wait("a back-off", || printed(&rig, &["get", "pods"], 0).contains("CrashLoopBackOff"));
    let pods = printed(&rig, &["get", "pods"], 0);
    assert!(
        pods.starts_with("NAMESPACE") && pods.contains("default     good-node1    1/1     Running"),
        "{pods}"
    );
    assert_eq!(printed(&rig, &["get", "pods", "-o", "name"], 0), "pod/crash-node1\npod/good-node1\n");
    let one: Value =
        serde_json::from_str(&printed(&rig, &["get", "pods", "good", "-o", "json"], 0)).expect("JSON");
    assert_eq!(one["metadata"]["name"], "good-node1");
    assert!(printed(&rig, &["get", "pods", "good", "-o", "yaml"], 0).contains("name: good-node1"));

    assert_eq!(printed(&rig, &["why", "good"], 0).lines().next(), Some("good-node1 runs and is ready."));
    let why = printed(&rig, &["why", "crash"], 1);
    assert!(why.starts_with("crash-node1 does not run: its container main ended after"), "{why}");
    assert!(
        why.contains("exit code 3") && why.contains("BackOff: Back-off restarting failed container main"),
        "{why}"
    );
    let why = printed(&rig, &["why", "refused"], 1);
    assert!(
        why.starts_with("refused does not run: its manifest is refused: ") && why.contains("spec.containers"),
        "{why}"
    );
    assert!(printed(&rig, &["why", "god"], 1).contains("there is no pod god"));

    let sources = printed(&rig, &["get", "sources"], 0);
    assert!(sources.contains("refused.yaml") && sources.contains("accepted"), "{sources}");
    let images = printed(&rig, &["get", "images"], 0);
    assert!(images.starts_with("IMAGE") && images.contains(" MB"), "{images}");
    let described = printed(&rig, &["describe", "good"], 0);
    assert!(
        described.contains("Started: Container started") && described.contains("Ready is True"),
        "{described}"
    );
    let events = printed(&rig, &["get", "events", "good"], 0);
    for reason in ["Pulled", "Created", "Started"] {
        assert!(events.contains(reason), "{events}");
    }
    assert!(!events.contains("crash-node1"), "{events}");
    let coloured = on_terminal(&rig, "get --socket  pods", "");
    assert!(coloured.contains("\u{1b}[32mRunning\u{1b}[0m"), "{coloured:?}");

    let config = printed(&rig, &["config"], 0);
    let origin = rig.config_path().display().to_string();
    let line = |name: &str| config.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    assert!(line("readOnlyPort ").ends_with(&origin) && line("--root-dir ").ends_with("flag"), "{config}");

    // Over a restart of the agent the events stay.
    assert!(agent.terminate().success());
    let gone = printed(&rig, &["get", "pods"], 69);
    assert!(gone.contains("the agent does not run") && gone.contains("systemctl status rkubelet"), "{gone}");
    let kept = fs::read_dir(rig.root_dir().join("rkubelet/events")).expect("events on disk").count();
    assert!(kept > 0);
    let _again = rig.start_agent(&[]);
    rig.wait("the agent", || rkubelet(&rig, &["get", "pods"]).status.success());
    let after = printed(&rig, &["get", "events", "good"], 0);
    assert!(after.contains("Created") && after.contains("Started"), "{after}");
}

#[test]
fn a_restart_replaces_the_instance_and_an_edit_says_before_what_it_does() {
    let rig = Rig::new();
    rig.write_manifest("web.yaml", &manifest::idle("web"));
    let _agent = rig.start_agent(&[]);
    let before = rig.wait_running("web-node1", "main");
    printed(&rig, &["wait", "web"], 0);
    let dir = rig.manifest_dir().display().to_string();
    assert!(printed(&rig, &["diff", &dir], 0).contains("none"));
    let new = rig.dir().join("new.yaml");
    fs::write(&new, manifest::script("web", "sleep 5")).expect("write");
    let file = rig.manifest_dir().join("web.yaml").display().to_string();
    let diff = printed(&rig, &["diff", &new.display().to_string(), "--as", &file], 1);
    assert!(diff.contains("default/web-node1   restart   spec.containers[0].command[2]: "), "{diff}");
    assert_eq!(rig.wait_running("web-node1", "main").id, before.id, "a dry run");

    let told = printed(&rig, &["restart", "web"], 0);
    assert!(told.contains("default/web-node1 is being replaced"), "{told}");
    rig.wait("another container", || {
        let running = rig.containers_of("web-node1");
        running.iter().any(|container| container.id != before.id) && running.iter().all(|c| c.id != before.id)
    });
    printed(&rig, &["wait", "web"], 0);
    assert!(printed(&rig, &["diff", &dir], 0).contains("none"), "it is the same manifest");
    assert!(printed(&rig, &["restart", "none"], 1).contains("there is no pod none"));
    let events = printed(&rig, &["get", "events", "web"], 0);
    assert!(events.contains("Killing") && events.contains("Stopping container main"), "{events}");
}

#[test]
fn logs_commands_inside_and_usage() {
    let rig = Rig::new();
    rig.write_manifest("web.yaml", &manifest::script("web", "echo first; echo second; sleep 1000"));
    rig.write_manifest("once.yaml", &manifest::script("once", "echo done; exit 3"));
    let _agent = rig.start_agent(&[]);
    rig.wait("the agent", || rkubelet(&rig, &["get", "pods"]).status.success());
    printed(&rig, &["wait", "web", "--timeout=5m"], 0);
    rig.wait("the log", || printed(&rig, &["logs", "web"], 0) == "first\nsecond\n");
    assert_eq!(printed(&rig, &["logs", "--tail", "1", "web"], 0), "second\n");
    rig.wait("a second run", || {
        let output = rkubelet(&rig, &["logs", "-p", "once"]);
        output.status.success() && output.stdout == b"done\n"
    });
    assert!(printed(&rig, &["logs", "none"], 1).contains("there is no pod none"));

    assert_eq!(
        printed(&rig, &["exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 7"], 7),
        "out\nerr\n"
    );
    let hostname = printed(&rig, &["exec", "web", "--", "hostname"], 0);
    assert_eq!(hostname.trim(), "web-node1");
    let typed = on_terminal(&rig, "exec --socket  -it web -- sh", "echo $((40+2)); tty; exit 5\n");
    assert!(typed.contains("42") && typed.contains("/dev/pts/"), "{typed:?}");

    rig.wait("figures of the pods", || {
        let top = printed(&rig, &["top"], 0);
        top.starts_with("NAMESPACE") && top.contains("web-node1")
    });
}
