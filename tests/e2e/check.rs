//! Verdicts on the local port and in the metrics, and the same verdicts from `rkubelet check`.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::manifest;
use crate::rig::{READ_ONLY_PORT, Rig};

/// A pod with a fault that has a line and a column.
const MISSPELT: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: misspelt\nspec:\n  containers:\n  - name: main\n    \
                        image: localhost/x:1\n    imagePullpolicy: Always\n";

fn rkubelet() -> Command {
    Command::new(env!("CARGO_BIN_EXE_rkubelet"))
}

fn check(arguments: &[&str]) -> Output {
    rkubelet().arg("check").args(arguments).output().expect("run rkubelet check")
}

fn words(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn served(rig: &Rig, path: &str) -> Option<String> {
    Some(rig.http_get(&format!("http://127.0.0.1:{READ_ONLY_PORT}{path}"))?.body)
}

/// The verdicts that the agent serves, by file name.
fn verdict(rig: &Rig, file: &str) -> Option<Value> {
    let list: Value = serde_json::from_str(&served(rig, "/verdicts")?).expect("JSON");
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("VerdictList"), &json!("rkubelet.dev/v1")));
    let items = list["items"].as_array().expect("items");
    items.iter().find(|item| item["origin"].as_str().is_some_and(|path| path.ends_with(file))).cloned()
}

fn metric(rig: &Rig, line: &str) -> bool {
    served(rig, "/metrics").is_some_and(|page| page.lines().any(|got| got == line))
}

#[test]
fn every_file_has_a_verdict_on_the_local_port_in_the_metrics_and_once_in_the_log() {
    let rig = Rig::new();
    rig.write_manifest("good.yaml", &manifest::idle("good"));
    let agent = rig.start_agent(&["--file-check-frequency=1s"]);
    rig.wait_running("good-node1", "main");
    let good = verdict(&rig, "good.yaml").expect("a verdict");
    assert_eq!((&good["source"], &good["document"]), (&json!("file"), &json!(1)));
    assert_eq!((&good["outcome"], &good["pod"]), (&json!("accepted"), &json!("default/good-node1")));
    assert!(metric(&rig, "rkubelet_manifests{source=\"file\",outcome=\"accepted\"} 1"));
    assert!(metric(&rig, "rkubelet_manifest_refusals_total{source=\"file\"} 0"));
    let before = rig.fingerprint();

    rig.write_manifest("bad.yaml", &MISSPELT.replace("imagePullpolicy: Always", "command: sh"));
    rig.wait("a refusal", || {
        verdict(&rig, "bad.yaml").is_some_and(|verdict| verdict["outcome"] == "refused")
    });
    let problem = verdict(&rig, "bad.yaml").expect("a verdict")["problems"][0].clone();
    let want = json!({
        "field": "spec.containers[0].command",
        "reason": "invalid type: string \"sh\", expected a sequence",
        "line": 9,
        "column": 5,
    });
    assert_eq!(problem, want);
    assert_eq!(verdict(&rig, "good.yaml").expect("a verdict")["outcome"], "unchanged");
    for line in [
        "rkubelet_manifests{source=\"file\",outcome=\"accepted\"} 0",
        "rkubelet_manifests{source=\"file\",outcome=\"unchanged\"} 1",
        "rkubelet_manifests{source=\"file\",outcome=\"refused\"} 1",
        "rkubelet_manifest_refusals_total{source=\"file\"} 1",
    ] {
        rig.wait(line, || metric(&rig, line));
    }

    // A file that turns bad keeps its pod; another fault is another refusal.
    rig.write_manifest("good.yaml", "{ not YAML");
    rig.wait("good.yaml to be refused", || {
        verdict(&rig, "good.yaml").is_some_and(|verdict| verdict["outcome"] == "refused")
    });
    let line = "rkubelet_manifest_refusals_total{source=\"file\"} 2";
    rig.wait(line, || metric(&rig, line));
    rig.write_manifest("good.yaml", &manifest::idle("good"));
    rig.wait("good.yaml to be good again", || {
        verdict(&rig, "good.yaml").is_some_and(|verdict| verdict["outcome"] == "accepted")
    });
    rig.assert_untouched(&before);

    // Two rescans later, nothing was said or counted twice.
    crate::rig::wait_until(std::time::Duration::from_secs(3), || false);
    let refusals = agent.log_lines_with("manifest refused");
    assert_eq!(refusals.len(), 2, "{refusals:#?}");
    assert!(refusals[0].contains("line=9 column=5"), "{}", refusals[0]);
    assert!(metric(&rig, line));
}

#[test]
fn the_agent_and_the_command_agree_on_every_file() {
    let rig = Rig::new();
    rig.write_manifest("a.yaml", &manifest::idle("a"));
    rig.write_manifest("b.yaml", &MISSPELT.replace("imagePullpolicy: Always", "ports: [{containerPort: 0}]"));
    rig.write_manifest("c.json", "{\"kind\": \"Pod\",\n \"apiVersion\": \"v2\"}");
    rig.write_manifest("d.yaml", "");
    rig.write_manifest("notes.txt", "not a manifest");
    let _agent = rig.start_agent(&[]);
    rig.wait("the verdicts", || verdict(&rig, "d.yaml").is_some());
    // The agent may have read them in two rounds; what was accepted in the first is unchanged in the second.
    let served = served(&rig, "/verdicts").expect("/verdicts").replace("\"unchanged\"", "\"accepted\"");
    let served: Value = serde_json::from_str(&served).expect("JSON");

    let directory = rig.manifest_dir().display().to_string();
    let (code, stdout, _) = words(&check(&["-o", "json", "--node-name", "node1", &directory]));
    assert_eq!(code, Some(1));
    let checked: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(checked, served);
    let items = checked["items"].as_array().expect("items");
    assert_eq!((items.len(), &items[4]["outcome"]), (5, &Value::from("skipped")), "{items:?}");
}

#[test]
fn exit_codes_and_words() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name).display().to_string();
    let write =
        |name: &str, text: &str| fs::write(directory.path().join(name), text).expect("write a manifest");
    let good = MISSPELT.replace("    imagePullpolicy: Always\n", "");
    write("good.yaml", &good);
    write("warned.yaml", &MISSPELT.replace("name: misspelt", "name: warned"));
    write("bad.yaml", &good.replace("name: misspelt", "name: Bad"));
    let node = "--node-name=n";

    let (code, stdout, stderr) = words(&check(&[node, &at("good.yaml")]));
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert_eq!(stdout, format!("{}: accepted: default/misspelt-n\n", at("good.yaml")));

    let warning = format!(
        "{}:9:5: warning: spec.containers[0].imagePullpolicy: unknown field, did you mean \"imagePullPolicy\"?\n",
        at("warned.yaml")
    );
    for (strict, expected) in [(&[node][..], 0), (&[node, "--strict"], 2)] {
        let (code, stdout, _) = words(&check(&[strict, &[&at("warned.yaml")]].concat()));
        assert_eq!(code, Some(expected), "{strict:?}");
        assert!(stdout.ends_with(&warning), "{stdout}");
    }

    let (code, stdout, _) = words(&check(&[node, "--strict", &at("bad.yaml"), &at("warned.yaml")]));
    assert_eq!(code, Some(1), "a refusal outweighs a warning");
    assert!(stdout.starts_with(&format!("{}:4:3: refused: metadata.name: ", at("bad.yaml"))), "{stdout}");
    let (code, stdout, _) = words(&check(&[node, "--strict-manifests", &at("warned.yaml")]));
    assert_eq!((code, stdout), (Some(1), warning.replace("warning", "refused")));

    let (code, stdout, _) = words(&check(&[node, &at("good.yaml"), &at("nowhere.yaml")]));
    assert_eq!(code, Some(1));
    assert!(stdout.contains("nowhere.yaml: refused: cannot be read: No such file"), "{stdout}");

    for arguments in [&[][..], &["--no-such-flag", "x"], &["-o", "xml", "x"], &["--node-name"]] {
        let (code, stdout, stderr) = words(&check(arguments));
        assert_eq!(
            (code, stdout.as_str(), stderr.lines().count()),
            (Some(64), "", 1),
            "{arguments:?}: {stderr}"
        );
    }
    let (code, stdout, _) = words(&check(&["--help"]));
    assert!(code == Some(0) && stdout.contains("Exit codes:"), "{stdout}");
    // The flags of kubelet are as they were: a stray word among them is still an error.
    let output = rkubelet().args(["--v=2", "check"]).output().expect("run rkubelet");
    assert_eq!(output.status.code(), Some(64));
}

#[test]
fn names_clash_only_between_different_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    for name in ["a.yaml", "b.yaml"] {
        fs::write(path(name), MISSPELT).expect("write a manifest");
    }
    std::os::unix::fs::symlink(path("a.yaml"), path("link.yaml")).expect("link");
    let text = |path: &Path| path.display().to_string();
    let whole = text(directory.path());
    let (code, stdout, _) = words(&check(&[&whole, &text(&path("a.yaml"))]));
    assert_eq!(code, Some(1), "{stdout}");
    let refused: Vec<_> = stdout.lines().filter(|line| line.contains(": refused: ")).collect();
    assert_eq!(refused.len(), 2, "a.yaml is one file, though it is named twice: {stdout}");
    for (line, file) in refused.iter().zip(["b.yaml", "link.yaml"]) {
        assert!(line.contains(file) && line.contains("is already defined by"), "{stdout}");
        assert!(line.ends_with("a.yaml"), "{stdout}");
    }
}

#[test]
fn stdin_is_read_and_a_closed_pipe_is_survived() {
    let mut child = rkubelet()
        .args(["check", "--node-name=n", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("run rkubelet check");
    child.stdin.take().expect("stdin").write_all(MISSPELT.as_bytes()).expect("write");
    let (code, stdout, _) = words(&child.wait_with_output().expect("wait"));
    assert_eq!(code, Some(0));
    assert!(stdout.starts_with("-: accepted: default/misspelt-n\n-:9:5: warning: "), "{stdout}");

    // More output than a pipe holds, and a reader that leaves after the first line.
    let directory = tempfile::tempdir().expect("a directory");
    for index in 0..2_000 {
        let text = MISSPELT.replace("misspelt", &format!("pod-{index}"));
        fs::write(directory.path().join(format!("{index}.yaml")), text).expect("write a manifest");
    }
    let mut child = rkubelet()
        .arg("check")
        .arg(directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("run rkubelet check");
    let mut line = String::new();
    BufReader::with_capacity(64, child.stdout.take().expect("stdout")).read_line(&mut line).expect("a line");
    let (code, _, stderr) = words(&child.wait_with_output().expect("wait"));
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{line}");
}

#[test]
fn what_is_no_file_is_named_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let fifo = directory.path().join("fifo.yaml");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR).expect("make a FIFO");
    let fifo = fifo.display().to_string();
    let child = rkubelet()
        .args(["check", &fifo, "/dev/zero"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("run rkubelet check");
    let pid = rustix::process::Pid::from_child(&child);
    // The command that reads a FIFO waits for its writer; it must not take the test with it.
    let (done, ended) = std::sync::mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        if ended.recv_timeout(std::time::Duration::from_secs(20)).is_err() {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    });
    let (code, stdout, _) = words(&child.wait_with_output().expect("wait"));
    let _ = done.send(());
    watch.join().expect("the watch ends");
    assert_eq!(code, Some(1), "{stdout}");
    assert_eq!(
        stdout,
        format!("{fifo}: refused: is a FIFO, not a file\n/dev/zero: refused: is a device, not a file\n")
    );
}
