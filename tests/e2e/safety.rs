//! What must not end a pod that runs, nor lose what is not ours: editors, slow writers, unmounted directories, mistakes.

use std::fs;
use std::io::Write;
use std::time::Duration;

use crate::manifest;
use crate::rig::{ContainerState, Rig, wait_until};

/// The pod `later` is written last, and runs: what came before it has been looked at by then.
fn settle(rig: &Rig) {
    rig.write_manifest("later.yaml", &manifest::idle("later"));
    rig.wait_running("later-node1", "main");
}

#[test]
fn saving_a_file_unchanged_as_editors_do_restarts_nothing() {
    let rig = Rig::new();
    let text = manifest::pod("once", "restartPolicy: Never", manifest::IDLE);
    rig.write_manifest("once.yaml", &text);
    let agent = rig.start_agent(&[]);
    rig.wait_running("once-node1", "main");
    let before = rig.fingerprint();
    let (path, backup) = (rig.manifest_dir().join("once.yaml"), rig.manifest_dir().join("once.yaml~"));
    for _ in 0..5 {
        fs::rename(&path, &backup).expect("move the file aside, as vim does");
        fs::write(&path, &text).expect("write it again");
        fs::remove_file(&backup).expect("remove the backup");
        fs::remove_file(&path).expect("remove the file");
        fs::copy(rig.manifest_dir().join("../config.yaml"), &backup).expect("something else of no interest");
        fs::write(&path, &text).expect("and write it again");
    }
    settle(&rig);
    rig.assert_untouched(&before);
    assert_eq!(agent.log_lines_with("manifest is gone").len(), 0, "{}", agent.log());
}

#[test]
fn a_file_that_is_written_slowly_is_read_once_it_is_whole() {
    let rig = Rig::new();
    let agent = rig.start_agent(&["--file-check-frequency=1s"]);
    agent.wait_healthy();
    let path = rig.manifest_dir().join("slow.yaml");
    let mut file = fs::File::create(&path).expect("create the manifest");
    // The first half is a valid manifest of another pod.
    for line in manifest::idle("slow").lines() {
        writeln!(file, "{line}").expect("write a line");
        // The writer takes its time: this is the fault that is tested.
        wait_until(Duration::from_millis(300), || false);
    }
    drop(file);
    rig.wait_running("slow-node1", "main");
    assert_eq!(agent.log_lines_with("slow.yaml").len(), 1, "one verdict, on the whole file\n{}", agent.log());
    assert_eq!(rig.containers().len(), 1);
}

#[test]
fn pods_outlive_the_unmounting_of_their_directory() {
    let rig = Rig::new();
    let dir = rig.manifest_dir().display().to_string();
    rig.output("mount", &["-t", "tmpfs", "-o", "mode=755", "none", &dir]);
    let inside = |script: &str| rig.output("sh", &["-c", script]);
    let text = manifest::idle("pod");
    let aside = rig.dir().join("pod.yaml");
    fs::write(&aside, &text).expect("write a manifest");
    inside(&format!("cp {} {dir}/", aside.display()));
    let agent = rig.start_agent(&["--file-check-frequency=1s"]);
    rig.wait_running("pod-node1", "main");
    let before = rig.fingerprint();
    rig.output("umount", &["-l", &dir]);
    agent.wait_for_log("another directory, without a valid pod, is in its place");
    rig.assert_untouched(&before);
    // It comes back, and counts again.
    rig.output("mount", &["-t", "tmpfs", "-o", "mode=755", "none", &dir]);
    inside(&format!("cp {} {dir}/", aside.display()));
    agent.wait_for_log("reading the manifests again");
    rig.assert_untouched(&before);
    inside(&format!("rm {dir}/pod.yaml"));
    rig.wait("the pod to end", || rig.sandboxes().is_empty());
}

#[test]
fn an_agent_without_a_source_ends_nobodys_pods() {
    let rig = Rig::new();
    rig.write_manifest("pod.yaml", &manifest::idle("pod"));
    let agent = rig.start_agent(&[]);
    rig.wait_running("pod-node1", "main");
    let before = rig.fingerprint();
    agent.kill9();
    let endpoint = format!("--container-runtime-endpoint={}", rig.endpoint());
    let root = format!("--root-dir={}", rig.root_dir().display());
    let config = format!("--config={}", rig.config_path().display());
    let agent = rig.start_agent_with_flags(&[&endpoint, &root, &config, "--hostname-override=node1"]);
    agent.wait_for_log("are left alone");
    rig.assert_untouched(&before);
}

#[test]
fn a_pod_that_comes_back_while_it_ends_runs_afresh() {
    let rig = Rig::new();
    let text =
        manifest::pod("once", "restartPolicy: Never", "trap 'sleep 2; exit 1' TERM; sleep 1000 & wait");
    let text = text.replace("terminationGracePeriodSeconds: 1", "terminationGracePeriodSeconds: 20");
    rig.write_manifest("once.yaml", &text);
    let agent = rig.start_agent(&[]);
    let first = rig.wait_running("once-node1", "main");
    rig.remove_manifest("once.yaml");
    agent.wait_for_log("stopping the container");
    rig.write_manifest("once.yaml", &text);
    rig.wait("another container", || {
        let running = |c: &crate::rig::ContainerSeen| c.state == ContainerState::Running && c.id != first.id;
        rig.containers_of("once-node1").iter().any(running)
    });
    assert_eq!(rig.wait_running("once-node1", "main").attempt, 0, "it did not fail: it was ended");
}

#[test]
fn exits_are_seen_however_soon_they_come() {
    let rig = Rig::new();
    for number in 0..30 {
        let text = manifest::pod(&format!("short-{number}"), "restartPolicy: Never", "exit 7");
        rig.write_manifest(&format!("short-{number}.yaml"), &text);
    }
    // The relist is out of reach: only events can tell.
    let _agent = rig.start_agent(&["--sync-frequency=1h"]);
    rig.wait("every pod to have failed", || {
        let pods = rig.pods().unwrap_or_default();
        let items = pods["items"].as_array().cloned().unwrap_or_default();
        items.iter().filter(|pod| pod["status"]["phase"] == "Failed").count() == 30
    });
}

#[test]
fn a_log_that_cannot_be_written_is_no_reason_to_stop() {
    let rig = Rig::new();
    rig.write_manifest("pod.yaml", &manifest::idle("pod"));
    let agent = rig.start_agent_through(&["sh", "-c", "exec \"$@\" 2>/dev/full", "sh"], &[]);
    rig.wait_running("pod-node1", "main");
    agent.wait_healthy();
    rig.remove_manifest("pod.yaml");
    rig.wait("the pod to end", || rig.sandboxes().is_empty());
}

#[test]
fn what_is_mounted_under_a_pods_directory_is_not_deleted() {
    let rig = Rig::new();
    let real = rig.dir().join("real root");
    let link = rig.dir().join("link");
    std::os::unix::fs::symlink(&real, &link).expect("link to the root directory");
    let uid = "0123456789abcdef0123456789abcdef";
    let left = real.join("pods").join(uid);
    let mounted = left.join("volumes/kubernetes.io~nfs/data");
    let other = real.join("pods").join(uid.replace('0', "f"));
    let precious = rig.dir().join("precious");
    for dir in [&mounted, &other, &precious] {
        fs::create_dir_all(dir).expect("create a directory");
    }
    fs::write(precious.join("file"), "precious").expect("write a file");
    rig.output("mount", &["--bind", &precious.display().to_string(), &mounted.display().to_string()]);
    let root = format!("--root-dir={}", link.display());
    let agent = rig.start_agent(&[&root]);
    rig.wait("the other one to be removed", || !other.exists());
    agent.wait_for_log("is a mount point");
    assert_eq!(fs::read_to_string(precious.join("file")).expect("it is there"), "precious");
}
