//! Bad input is refused with file, field and reason, in one line, and touches nothing else.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::manifest;
use crate::rig::{BUSYBOX, Rig};

/// Reads the directory again each second, so that a complaint that repeats itself shows.
const RESCAN: &str = "--file-check-frequency=1s";

/// Documents that are refused: file, content, and words that the complaint must contain.
fn bad_documents() -> Vec<(&'static str, String, &'static [&'static str])> {
    let pod = |metadata: &str, containers: &str| {
        format!("apiVersion: v1\nkind: Pod\nmetadata: {metadata}\nspec:\n  containers: {containers}\n")
    };
    let main = format!("{{name: main, image: \"{BUSYBOX}\"}}");
    let quantity = format!("[{{name: main, image: \"{BUSYBOX}\", resources: {{limits: {{memory: 12Qx}}}}}}]");
    vec![
        ("not-yaml.yaml", "{ this is: [not, YAML".to_owned(), &[]),
        ("binary.yaml", "\u{0}\u{1}\u{2}".to_owned(), &[]),
        ("empty.yaml", String::new(), &[]),
        (
            "no-pod.yaml",
            "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n".to_owned(),
            &["kind", "Service"],
        ),
        ("no-containers.yaml", pod("{name: none}", "[]"), &["spec.containers"]),
        (
            "twins.yaml",
            pod("{name: twins}", &format!("[{main}, {main}]")),
            &["spec.containers[1].name", "main"],
        ),
        ("bad-name.yaml", pod("{name: Not_A_Name}", &format!("[{main}]")), &["metadata.name", "Not_A_Name"]),
        ("bad-quantity.yaml", pod("{name: quantity}", &quantity), &["resources.limits", "12Qx"]),
        ("no-name.yaml", pod("{}", &format!("[{main}]")), &["metadata.name"]),
        ("wrong-type.yaml", pod("{name: wrong}", "no list"), &["containers"]),
    ]
}

/// The complaints about a file.
fn complaints(log: &str, file: &str) -> Vec<String> {
    let lines = log.lines().filter(|line| line.contains("WARN") || line.contains("ERROR"));
    lines.filter(|line| line.contains(&format!("/{file}"))).map(str::to_owned).collect()
}

#[test]
fn each_bad_file_is_refused_in_one_line_and_no_other_pod_is_touched() {
    let rig = Rig::new();
    rig.write_manifest("good.yaml", &manifest::idle("good"));
    let agent = rig.start_agent(&[RESCAN]);
    rig.wait_running("good-node1", "main");
    let before = rig.fingerprint();

    let mut files = vec!["huge.yaml", "directory.yaml", "fifo.yaml"];
    for (file, text, _) in bad_documents() {
        rig.write_manifest(file, &text);
        files.push(file);
    }
    // A valid pod first, so that only the size speaks against it. Written outside, and moved in whole.
    let huge = format!("{}# {}\n", manifest::idle("huge"), "x".repeat(50 << 20));
    rig.write_manifest("huge.yaml", &huge);
    fs::create_dir(rig.manifest_dir().join("directory.yaml")).expect("create a directory");
    rig.output("mkfifo", &[&rig.manifest_dir().join("fifo.yaml").display().to_string()]);

    for file in &files {
        rig.wait(&format!("a complaint about {file}"), || !complaints(&agent.log(), file).is_empty());
    }
    for (file, _, words) in bad_documents() {
        let lines = complaints(&agent.log(), file);
        for word in words {
            assert!(lines[0].contains(word), "{file}: no {word:?} in {:?}", lines[0]);
        }
    }
    // A good file among the bad ones still works, and two rescans later nothing has been said twice.
    rig.write_manifest("later.yaml", &manifest::idle("later"));
    rig.wait_running("later-node1", "main");
    crate::rig::wait_until(std::time::Duration::from_secs(3), || false);
    for file in &files {
        let lines = complaints(&agent.log(), file);
        let refused = lines.iter().filter(|line| line.contains("manifest refused"));
        assert_eq!(refused.count(), 1, "{file}: {lines:#?}");
    }
    rig.assert_untouched(&before);
    let mut pods: Vec<String> = rig.sandboxes().into_iter().map(|seen| seen.pod).collect();
    pods.sort();
    assert_eq!(pods, ["good-node1", "later-node1"]);
    agent.wait_healthy();
}

#[test]
fn a_file_without_read_permission_is_refused_and_taken_when_it_can_be_read() {
    let rig = Rig::new();
    let path = rig.manifest_dir().join("secret.yaml");
    rig.write_manifest("secret.yaml", &manifest::idle("secret"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).expect("take the permission away");
    // Root reads everything, unless it lacks these two.
    let launcher = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"];
    let agent = rig.start_agent_through(&launcher, &[RESCAN]);
    rig.wait("a complaint", || !complaints(&agent.log(), "secret.yaml").is_empty());
    assert!(complaints(&agent.log(), "secret.yaml")[0].to_lowercase().contains("permission denied"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("give the permission back");
    rig.wait_running("secret-node1", "main");
    assert_eq!(complaints(&agent.log(), "secret.yaml").len(), 1);
}

#[test]
fn a_pod_outlives_the_ruin_of_its_file() {
    let rig = Rig::new();
    rig.write_manifest("pod.yaml", &manifest::idle("pod"));
    let agent = rig.start_agent(&[RESCAN]);
    rig.wait_running("pod-node1", "main");
    let before = rig.fingerprint();
    let path = rig.manifest_dir().join("pod.yaml");
    let whole = manifest::idle("pod");
    let half = &whole[..whole.find("image").expect("an image")];
    for ruin in ["", half, "{ not YAML", "kind: Service\n"] {
        let said = complaints(&agent.log(), "pod.yaml").len();
        // In place, as an editor or a full disk would.
        fs::write(&path, ruin).expect("ruin the manifest");
        rig.wait(&format!("a complaint about {ruin:?}"), || {
            complaints(&agent.log(), "pod.yaml").len() > said
        });
        assert_eq!(rig.fingerprint(), before, "after {ruin:?}");
    }

    // Not even a new agent, which never saw the file whole, ends it.
    agent.kill9();
    let agent = rig.start_agent(&[RESCAN]);
    rig.wait("a complaint of the new agent", || !complaints(&agent.log(), "pod.yaml").is_empty());
    rig.write_manifest("marker.yaml", &manifest::idle("marker"));
    rig.wait_running("marker-node1", "main");
    rig.assert_untouched(&before);
}

#[test]
fn pods_outlive_the_loss_of_the_directory() {
    let rig = Rig::new();
    rig.write_manifest("pod.yaml", &manifest::idle("pod"));
    let agent = rig.start_agent(&[RESCAN]);
    rig.wait_running("pod-node1", "main");
    let before = rig.fingerprint();
    let aside = rig.dir().join("aside");
    fs::rename(rig.manifest_dir(), &aside).expect("move the directory away");
    let dir = rig.manifest_dir().display().to_string();
    let complained = |line: &str| (line.contains("WARN") || line.contains("ERROR")) && line.contains(&dir);
    rig.wait("a complaint about the directory", || agent.log().lines().any(complained));
    assert_eq!(rig.fingerprint(), before);
    fs::rename(&aside, rig.manifest_dir()).expect("move the directory back");
    rig.write_manifest("later.yaml", &manifest::idle("later"));
    rig.wait_running("later-node1", "main");
    rig.assert_untouched(&before);
}

#[test]
fn of_two_files_with_one_pod_name_the_incumbent_stays() {
    let rig = Rig::new();
    rig.write_manifest("m.yaml", &manifest::script("twice", "exec sleep 1000 # m"));
    let agent = rig.start_agent(&[RESCAN]);
    rig.wait_running("twice-node1", "main");
    let before = rig.fingerprint();
    for rival in ["a.yaml", "z.yaml"] {
        rig.write_manifest(rival, &manifest::script("twice", "exec sleep 1000 # rival"));
        rig.wait(&format!("a complaint about {rival}"), || !complaints(&agent.log(), rival).is_empty());
        assert!(complaints(&agent.log(), rival)[0].contains("m.yaml"), "the complaint names the other file");
    }
    rig.write_manifest("later.yaml", &manifest::idle("later"));
    rig.wait_running("later-node1", "main");
    rig.assert_untouched(&before);
}

#[test]
fn an_unknown_field_is_a_warning_and_refused_only_when_strict() {
    let rig = Rig::new();
    let text = manifest::pod("newer", "fieldOfTheFuture: 1", manifest::IDLE);
    rig.write_manifest("newer.yaml", &text);
    let agent = rig.start_agent(&[]);
    rig.wait_running("newer-node1", "main");
    let lines = complaints(&agent.log(), "newer.yaml");
    assert!(lines.iter().any(|line| line.contains("fieldOfTheFuture")), "{lines:#?}");
    agent.terminate();

    let rig = Rig::new();
    rig.write_manifest("newer.yaml", &text);
    rig.write_manifest("plain.yaml", &manifest::idle("plain"));
    let agent = rig.start_agent(&["--strict-manifests"]);
    rig.wait_running("plain-node1", "main");
    let lines = complaints(&agent.log(), "newer.yaml");
    assert!(lines.len() == 1 && lines[0].contains("fieldOfTheFuture"), "{lines:#?}");
    assert!(rig.sandboxes().iter().all(|seen| seen.pod != "newer-node1"));
}

#[test]
fn a_misspelt_field_is_named_beside_what_refuses_the_file() {
    let rig = Rig::new();
    let text = manifest::pod("Refused", "hostNetwrok: true", manifest::IDLE);
    rig.write_manifest("refused.yaml", &text);
    let agent = rig.start_agent(&[RESCAN]);
    rig.wait("both complaints", || complaints(&agent.log(), "refused.yaml").len() == 2);
    let lines = complaints(&agent.log(), "refused.yaml");
    assert!(lines[0].contains("manifest refused") && lines[0].contains("metadata.name"), "{lines:#?}");
    assert!(
        lines[1].contains("spec.hostNetwrok: unknown field, did you mean \"hostNetwork\"?"),
        "{lines:#?}"
    );
}

#[test]
fn json_with_surrogate_pairs_and_a_long_script_run() {
    let rig = Rig::new();
    let script = "printf '\\033[1m%s' \"$x\" >/dev/null\n".repeat(1_100);
    let container = serde_json::json!({
        "name": "main", "image": BUSYBOX, "command": ["sh", "-c", format!("{script}echo \"$ROCKET\" >/out/rocket; exec sleep 1000")],
        "env": [{"name": "ROCKET", "value": "@"}],
        "volumeMounts": [{"name": "out", "mountPath": "/out"}],
    });
    let pod = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "rocket"},
        "spec": {"hostNetwork": true, "terminationGracePeriodSeconds": 0, "containers": [container],
                 "volumes": [{"name": "out", "hostPath": {"path": rig.dir()}}]},
    });
    // As Python writes what is not ASCII.
    rig.write_manifest("rocket.json", &pod.to_string().replace("\"@\"", "\"\\ud83d\\ude80\""));
    let _agent = rig.start_agent(&[]);
    rig.wait_running("rocket-node1", "main");
    let wrote = || fs::read_to_string(rig.dir().join("rocket")).unwrap_or_default();
    rig.wait("the rocket", || wrote() == "\u{1f680}\n");
}

#[test]
fn a_known_field_that_is_not_honoured_is_named() {
    let rig = Rig::new();
    let volume =
        "volumes: [{name: v, iscsi: {targetPortal: 192.0.2.1, iqn: iqn.2001-04.com.example, lun: 0}}]";
    rig.write_manifest("iscsi.yaml", &manifest::pod("iscsi", volume, manifest::IDLE));
    let agent = rig.start_agent(&[]);
    rig.wait("a line that names the volume's kind", || {
        complaints(&agent.log(), "iscsi.yaml")
            .iter()
            .any(|line| line.contains("iscsi") && line.contains("volumes[0]"))
    });
}
