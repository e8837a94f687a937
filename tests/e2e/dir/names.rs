//! Which files are read, and what is said of the others.

use std::fs;
use std::process::Command;

use super::{NO_RESCAN, settle, verdicts};
use crate::manifest;
use crate::rig::{READ_ONLY_PORT, Rig};

#[test]
fn manifest_files_are_read_and_every_other_visible_file_is_named_once() {
    let rig = Rig::new();
    let dir = rig.manifest_dir();
    rig.write_manifest("etcd.manifest", &manifest::idle("etcd"));
    rig.write_manifest("pod.yaml.txt", &manifest::idle("misnamed"));
    rig.write_manifest(".hidden.txt", "");
    fs::create_dir(dir.join("sub")).expect("create a subdirectory");
    let agent = rig.start_agent(&[NO_RESCAN]);
    rig.wait_running("etcd-node1", "main");
    settle(&rig, "later");
    settle(&rig, "latest");
    let lines = verdicts(&agent, "pod.yaml.txt");
    assert_eq!(lines.len(), 1, "said once\n{}", agent.log());
    assert!(
        lines[0].contains("file skipped") && lines[0].contains(".yaml, .yml, .json or .manifest"),
        "{lines:?}"
    );
    assert!(agent.log_lines_with(".hidden.txt").is_empty(), "{}", agent.log());
    assert!(rig.containers_of("misnamed-node1").is_empty());

    let shown = || {
        let reply = rig.http_get(&format!("http://127.0.0.1:{READ_ONLY_PORT}/verdicts")).expect("an answer");
        let list: serde_json::Value = serde_json::from_str(&reply.body).expect("JSON");
        let skipped = |item: &&serde_json::Value| item["outcome"] == "skipped";
        let items = list["items"].as_array().expect("items").iter().filter(skipped);
        let mut names: Vec<String> =
            items.map(|item| item["origin"].as_str().expect("a path").into()).collect();
        names.iter_mut().for_each(|name| *name = name.rsplit('/').next().expect("a name").to_owned());
        names
    };
    assert_eq!(shown(), ["pod.yaml.txt", "sub"]);
    let check = Command::new(env!("CARGO_BIN_EXE_rkubelet")).arg("check").arg(&dir).output().expect("check");
    let text = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(text.lines().any(|line| line.contains("pod.yaml.txt: skipped: ")), "{text}");
    assert!(!text.contains(".hidden") && text.contains("etcd.manifest: accepted"), "{text}");
    assert_eq!(check.status.code(), Some(0), "{text}");

    // Under the right name it is a manifest, and the verdict goes with the name.
    fs::rename(dir.join("pod.yaml.txt"), dir.join("pod.yaml")).expect("rename");
    rig.wait_running("misnamed-node1", "main");
    rig.wait("the verdict to go", || shown() == ["sub"]);
}

#[test]
fn a_name_that_cannot_be_valid_is_no_evidence() {
    let rig = Rig::new();
    rig.write_manifest("pod.yaml", &manifest::idle("w"));
    let agent = rig.start_agent(&[NO_RESCAN]);
    rig.wait_running("w-node1", "main");
    let before = rig.fingerprint();
    for (field, text) in [
        ("metadata.name", manifest::idle("W")),
        ("metadata.namespace", manifest::idle("w").replace("{name: w}", "{name: w, namespace: A.b}")),
    ] {
        rig.write_manifest("pod.yaml", &text);
        rig.wait(&format!("a refusal for {field}"), || {
            let refusals = agent.log_lines_with("manifest refused");
            refusals.last().is_some_and(|line| line.contains(&format!("field=\"{field}\"")))
        });
    }
    settle(&rig, "later");
    rig.assert_untouched(&before);
}
