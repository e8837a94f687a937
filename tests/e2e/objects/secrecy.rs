//! Where the values of Secrets may be seen.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use super::{VALUE, restart_container, said, secret, served};
use crate::rig::Rig;
use crate::volumes::pod;

/// Every file below a directory that holds the text, with its mode.
fn files_with(dir: &Path, text: &str) -> Vec<(String, u32)> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).into_iter().flatten().flatten() {
            let Ok(metadata) = fs::symlink_metadata(entry.path()) else { continue };
            if metadata.is_dir() {
                open.push(entry.path());
            } else if metadata.is_file()
                && fs::read(entry.path())
                    .is_ok_and(|bytes| bytes.windows(text.len()).any(|part| part == text.as_bytes()))
            {
                found.push((entry.path().display().to_string(), metadata.mode() & 0o777));
            }
        }
    }
    found
}

#[test]
fn what_a_secret_holds_is_shown_nowhere() {
    let rig = Rig::new();
    let agent = rig.start_agent(&["-v=10"]);
    let from = "envFrom: [{secretRef: {name: login}}]\nvolumeMounts: [{name: v, mountPath: /v}]";
    let volume = "volumes: [{name: v, secret: {secretName: login}}]";
    let script = "[ \"$password\" = \"$(cat /v/password)\" ] && echo same";
    rig.write_manifest("login.yaml", &secret("login", &[("password", VALUE)]));
    rig.write_manifest("user.yaml", &pod("user", "", volume, from, script));
    assert_eq!(said(&rig, "user"), ["same", "done"]);
    // Refused in every way that comes to mind.
    let bad = [
        format!("stringData: {{../x: {VALUE}}}"),
        format!("data: {{password: {VALUE}!}}"),
        format!("stringData: {{password: [{VALUE}]}}"),
        format!("stringData: {VALUE}"),
        format!("stringData: {{password: *{VALUE}}}"),
        format!("stringData: {{password: \"{VALUE}"),
        format!("immutable: {VALUE}"),
        format!("type: kubernetes.io/dockerconfigjson\nstringData: {{.dockerconfigjson: {VALUE}}}"),
    ];
    for (index, rest) in bad.iter().enumerate() {
        let text = format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: bad{index}}}\n{rest}\n");
        rig.write_manifest(&format!("bad{index}.yaml"), &text);
    }
    rig.wait("the refusals", || served(&rig, "/verdicts").matches("\"refused\"").count() == bad.len());
    restart_container(&rig, "user");
    rig.remove_manifest("login.yaml");
    agent.wait_for_log("manifest is gone");
    rig.wait("what is kept", || !files_with(&rig.root_dir().join("pods"), "login").is_empty());
    for path in ["/verdicts", "/pods", "/metrics", "/api/v1/events", "/events", "/statusz"] {
        assert!(!served(&rig, path).contains(VALUE), "{path}");
    }
    assert!(!agent.log().contains(VALUE), "{}", agent.log());
    for (file, mode) in files_with(&rig.root_dir(), VALUE) {
        let in_volume = file.contains("/volumes/kubernetes.io~secret/");
        assert!(in_volume || mode == 0o600, "{file} has mode {mode:o}");
    }
    assert_eq!(files_with(&rig.pod_logs_dir(), VALUE), []);
    // No core file can hold it: the kernel gives the memory of such a process to root alone, and dumps nothing.
    let pid = agent.pid().expect("the agent").as_raw_nonzero();
    let owner = fs::metadata(format!("/proc/{pid}/mem")).unwrap().uid();
    assert_eq!(owner, 0);
    let checked =
        Command::new(env!("CARGO_BIN_EXE_rkubelet")).arg("check").arg(rig.manifest_dir()).output().unwrap();
    assert_eq!(checked.status.code(), Some(1));
    let text = [checked.stdout, checked.stderr].concat();
    assert!(!String::from_utf8_lossy(&text).contains(VALUE), "{}", String::from_utf8_lossy(&text));
}
