//! A network that hangs or fails: a newer manifest does not wait for it, and the log says what is wrong.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::manifest;
use crate::rig::{Rig, wait_until};

/// A rig whose bridge plugin does what the file `bridge-ADD` or `bridge-DEL` in the rig's directory says, if it is there.
fn rig_with_moody_network() -> Rig {
    let rig = Rig::without_containerd();
    let config = rig.dir().join("containerd.toml");
    let text = fs::read_to_string(&config).expect("read containerd's configuration");
    let real = text.lines().find_map(|line| line.trim().strip_prefix("bin_dir")).expect("the CNI plugins");
    let real = real.split('"').nth(1).expect("a path").to_owned();
    let own = rig.dir().join("cni-bin");
    fs::create_dir(&own).expect("create the directory of the plugins");
    for plugin in fs::read_dir(&real).expect("the CNI plugins").flatten() {
        symlink(plugin.path(), own.join(plugin.file_name())).expect("link a plugin");
    }
    let bridge = own.join("bridge");
    fs::remove_file(&bridge).expect("remove a link");
    let dir = rig.dir().display();
    let script =
        format!("#!/bin/sh\nmood={dir}/bridge-$CNI_COMMAND\n[ -e $mood ] && . $mood\nexec {real}/bridge\n");
    fs::write(&bridge, script).expect("write a plugin");
    fs::set_permissions(&bridge, fs::Permissions::from_mode(0o755)).expect("make a plugin executable");
    fs::write(&config, text.replace(&real, &own.display().to_string())).expect("write the configuration");
    rig.start_containerd();
    rig
}

/// From now on a command of the plugin does this.
fn set_mood(rig: &Rig, command: &str, script: &str) {
    fs::write(rig.dir().join(format!("bridge-{command}")), script).expect("write what the plugin does");
}

fn calm(rig: &Rig, command: &str) {
    fs::remove_file(rig.dir().join(format!("bridge-{command}"))).expect("calm the plugin");
}

/// Hangs, and says so.
fn hang(rig: &Rig) -> String {
    format!("echo $CNI_CONTAINERID >> {}; exec sleep 1000\n", hung(rig))
}

fn hung(rig: &Rig) -> String {
    rig.dir().join("hung").display().to_string()
}

fn wait_until_it_hangs(rig: &Rig) {
    rig.wait("the network to hang", || Path::new(&hung(rig)).exists());
}

#[test]
fn a_pod_whose_network_hangs_is_removed_within_seconds() {
    let rig = rig_with_moody_network();
    set_mood(&rig, "ADD", &hang(&rig));
    rig.write_manifest("pod.yaml", &manifest::idle("pod"));
    let _agent = rig.start_agent(&[]);
    wait_until_it_hangs(&rig);
    rig.remove_manifest("pod.yaml");
    let removed = Instant::now();
    assert!(
        wait_until(Duration::from_secs(20), || rig.pods().is_some() && rig.pod("pod-node1").is_none()),
        "{}",
        rig.report()
    );
    println!("removed after {:?}", removed.elapsed());
    rig.wait("nothing to be left", || rig.sandboxes().is_empty());
    let pods = fs::read_dir(rig.root_dir().join("pods")).into_iter().flatten().count();
    assert_eq!(pods, 0, "{}", rig.report());
}

#[test]
fn a_pod_whose_network_hangs_is_replaced_within_seconds() {
    let rig = rig_with_moody_network();
    set_mood(&rig, "ADD", &hang(&rig));
    rig.write_manifest("pod.yaml", &manifest::script("pod", "exec sleep 1000 # 1"));
    let _agent = rig.start_agent(&[]);
    wait_until_it_hangs(&rig);
    calm(&rig, "ADD");
    rig.write_manifest("pod.yaml", &manifest::script("pod", "exec sleep 1000 # 2"));
    let edited = Instant::now();
    let runs = || rig.containers_of("pod-node1").iter().any(|seen| seen.pid != 0);
    assert!(wait_until(Duration::from_secs(20), runs), "{}", rig.report());
    println!("replaced after {:?}", edited.elapsed());
    // A pod that is not touched is none the wiser.
    rig.wait("one sandbox", || rig.sandboxes().len() == 1);
}

#[test]
fn one_pod_whose_network_hangs_holds_up_no_other() {
    let rig = rig_with_moody_network();
    set_mood(&rig, "ADD", &hang(&rig));
    rig.write_manifest("hangs.yaml", &manifest::idle("hangs"));
    let _agent = rig.start_agent(&[]);
    wait_until_it_hangs(&rig);
    calm(&rig, "ADD");
    rig.write_manifest("other.yaml", &manifest::idle("other"));
    rig.wait_running("other-node1", "main");
}

#[test]
fn a_network_that_cannot_be_released_is_named_at_once() {
    let rig = rig_with_moody_network();
    rig.write_manifest("pod.yaml", &manifest::idle("pod"));
    let agent = rig.start_agent(&[]);
    rig.wait_running("pod-node1", "main");
    let refusal = r#"{"cniVersion":"0.4.0","code":100,"msg":"the switch is on fire"}"#;
    set_mood(&rig, "DEL", &format!("echo '{refusal}'; exit 1\n"));
    rig.remove_manifest("pod.yaml");
    let removed = Instant::now();
    let told = || agent.log_lines_with("the switch is on fire").iter().any(|line| line.contains("WARN"));
    assert!(wait_until(Duration::from_secs(10), told), "{}", rig.report());
    println!("told after {:?}", removed.elapsed());
    // More attempts, no more lines.
    wait_until(Duration::from_secs(5), || false);
    assert_eq!(agent.log_lines_with("the switch is on fire").len(), 1, "{}", agent.log());
    calm(&rig, "DEL");
    rig.wait("the pod to go", || rig.sandboxes().is_empty());
}

#[test]
fn a_network_that_hangs_when_it_is_released_is_named_soon() {
    let rig = rig_with_moody_network();
    rig.write_manifest("pod.yaml", &manifest::idle("pod"));
    let agent = rig.start_agent(&[]);
    rig.wait_running("pod-node1", "main");
    set_mood(&rig, "DEL", &hang(&rig));
    rig.remove_manifest("pod.yaml");
    wait_until_it_hangs(&rig);
    let told = || agent.log_lines_with("StopPodSandbox").iter().any(|line| line.contains("WARN"));
    assert!(wait_until(Duration::from_secs(30), told), "{}", rig.report());
}

#[test]
fn a_network_that_cannot_be_released_holds_back_no_successor() {
    let rig = rig_with_moody_network();
    rig.write_manifest("pod.yaml", &manifest::idle("pod"));
    let agent = rig.start_agent(&[]);
    rig.wait_running("pod-node1", "main");
    let refusal = r#"{"cniVersion":"0.4.0","code":100,"msg":"no such lease"}"#;
    set_mood(&rig, "DEL", &format!("echo '{refusal}'; exit 1\n"));
    // The sandbox dies, as all do in a reboot.
    let sandbox = rig.ready_sandboxes("default", "pod-node1").remove(0);
    rig.kill_process(sandbox.pid);
    let died = Instant::now();
    let successor = || rig.ready_sandboxes("default", "pod-node1").iter().any(|seen| seen.id != sandbox.id);
    assert!(wait_until(Duration::from_secs(20), successor), "{}", rig.report());
    println!("replaced after {:?}", died.elapsed());
    rig.wait_running("pod-node1", "main");
    let told = agent.log_lines_with("no such lease");
    assert!(told.iter().any(|line| line.contains("its successor waits no longer")), "{}", agent.log());
    // What was not released is tried again, and not forgotten.
    calm(&rig, "DEL");
    let lease = || rig.output("sh", &["-c", "cat /var/lib/cni/networks/rig/10.* | tr -d '\r'"]);
    rig.wait("the lease to be returned", || !lease().contains(&sandbox.id));
}
