//! A mount that goes away or is made anew is no evidence that manifests were removed.

use std::fs;

use super::{NO_RESCAN, RESCAN, accepted, shell};
use crate::manifest;
use crate::rig::{Agent, Rig};

/// What the agent says of a directory that is not the one it read before, and holds no pod.
const MISPLACED: &str = "another directory, without a valid pod, is in its place";

/// Mounts an empty tmpfs over the manifest directory.
fn mount_tmpfs(rig: &Rig) {
    shell(rig, &format!("mount -t tmpfs -o mode=755 none {}", rig.manifest_dir().display()));
}

/// Writes a manifest where the rig sees it: on what is mounted there.
fn write(rig: &Rig, name: &str) {
    let staged = rig.dir().join("staged");
    fs::write(&staged, manifest::idle(name)).expect("write a manifest");
    shell(rig, &format!("cp {} {}/{name}.yaml", staged.display(), rig.manifest_dir().display()));
}

/// Waits until the agent distrusts the directory, and nothing has changed.
fn assert_distrusted(rig: &Rig, agent: &Agent<'_>, before: &std::collections::BTreeMap<String, String>) {
    agent.wait_for_log(MISPLACED);
    rig.wait("the pods to be listed", || rig.pod("a-node1").is_some() && rig.pod("b-node1").is_some());
    assert_eq!(&rig.fingerprint(), before);
}

#[test]
fn a_stray_file_beneath_an_unmounted_directory_is_no_evidence() {
    let rig = Rig::new();
    let dir = rig.manifest_dir();
    fs::write(dir.join("leftover.json"), "{}").expect("leave a file in the mount point");
    // As bad as the other one, and by the name of a manifest that runs.
    fs::write(dir.join("a.yaml"), "kind: Secret\n").expect("leave another");
    mount_tmpfs(&rig);
    write(&rig, "a");
    write(&rig, "b");
    let agent = rig.start_agent(&[RESCAN]);
    rig.wait_running("a-node1", "main");
    rig.wait_running("b-node1", "main");
    let before = rig.fingerprint();
    shell(&rig, &format!("umount -l {}", dir.display()));
    assert_distrusted(&rig, &agent, &before);
    agent.kill9();
    let agent = rig.start_agent(&[RESCAN]);
    assert_distrusted(&rig, &agent, &before);
    // The files go, too: nothing was read from here, so nothing is removed from here.
    fs::remove_file(dir.join("leftover.json")).expect("remove the file");
    fs::remove_file(dir.join("a.yaml")).expect("remove the other");
    mount_tmpfs(&rig);
    write(&rig, "b");
    // The right one again, and it has one manifest less.
    agent.wait_for_log("reading the manifests again");
    rig.wait("the pod without a manifest to end", || rig.containers_of("a-node1").is_empty());
    rig.wait_running("b-node1", "main");
}

#[test]
fn a_file_system_mounted_anew_and_empty_is_no_evidence() {
    let rig = Rig::new();
    let dir = rig.manifest_dir().display().to_string();
    mount_tmpfs(&rig);
    write(&rig, "a");
    write(&rig, "b");
    let agent = rig.start_agent(&[RESCAN]);
    rig.wait_running("a-node1", "main");
    rig.wait_running("b-node1", "main");
    let before = rig.fingerprint();
    // The agent never sees the directory without a mount.
    agent.while_halted(|| {
        shell(&rig, &format!("umount -l {dir}"));
        mount_tmpfs(&rig);
    });
    assert_distrusted(&rig, &agent, &before);
    agent.kill9();
    let agent = rig.start_agent(&[RESCAN]);
    assert_distrusted(&rig, &agent, &before);
    agent.kill9();
    // After a boot, devices and mounts are numbered anew.
    let boot_id = rig.dir().join("boot_id");
    fs::write(&boot_id, "11111111-2222-3333-4444-555555555555\n").expect("write another boot id");
    shell(&rig, &format!("mount --bind {} /proc/sys/kernel/random/boot_id", boot_id.display()));
    shell(&rig, &format!("umount -l {dir}"));
    mount_tmpfs(&rig);
    let agent = rig.start_agent(&[RESCAN]);
    assert_distrusted(&rig, &agent, &before);
    // It is the directory once it holds a manifest, and from then on what goes is removed.
    write(&rig, "a");
    agent.wait_for_log("reading the manifests again");
    rig.wait("the pod without a manifest to end", || rig.containers_of("b-node1").is_empty());
    shell(&rig, &format!("rm {dir}/a.yaml"));
    rig.wait("all pods to end", || rig.sandboxes().is_empty());
}

#[test]
fn a_file_system_mounted_anew_is_watched_anew() {
    let rig = Rig::new();
    let (dir, target) = (rig.manifest_dir().display().to_string(), rig.dir().join("target"));
    fs::write(&target, manifest::idle("linked")).expect("write");
    let fill = || {
        mount_tmpfs(&rig);
        shell(&rig, &format!("ln -s {} {dir}/linked.yaml", target.display()));
    };
    fill();
    let agent = rig.start_agent(&[NO_RESCAN]);
    rig.wait_running("linked-node1", "main");
    let before = rig.fingerprint();
    agent.while_halted(|| {
        shell(&rig, &format!("umount -l {dir}"));
        fill();
    });
    // A reason to read that does not come from the new file system.
    fs::write(&target, manifest::idle("linked") + "# edited\n").expect("edit");
    rig.wait("the edit", || accepted(&agent, "linked.yaml") == 2);
    write(&rig, "later");
    rig.wait_running("later-node1", "main");
    rig.assert_untouched(&before);
}
