//! Files and names of the node need not be UTF-8.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use crate::manifest;
use crate::rig::Rig;

/// "café" in Latin-1.
const CAFE: &[u8] = b"caf\xe9";

fn with_comment(text: &str) -> Vec<u8> {
    [b"# ", CAFE, b"\n", text.as_bytes()].concat()
}

#[test]
fn a_latin_1_comment_in_the_resolver_file_keeps_no_pod_from_starting() {
    let rig = Rig::new();
    let file = rig.dir().join("resolv.conf");
    fs::write(&file, with_comment("nameserver 192.0.2.53\n")).expect("write a resolver file");
    let script = "until [ -e /etc/resolv.conf ]; do sleep 0.1; done; cat /etc/resolv.conf; exec sleep 1000";
    rig.write_manifest("pod.yaml", &manifest::script("pod", script));
    let _agent = rig.start_agent(&[&format!("--resolv-conf={}", file.display())]);
    let main = rig.wait_running("pod-node1", "main");
    rig.wait("the nameserver", || {
        fs::read_to_string(&main.log_path).is_ok_and(|log| log.contains("nameserver 192.0.2.53"))
    });
}

#[test]
fn a_latin_1_comment_in_the_hosts_of_the_node_keeps_no_pod_from_its_network() {
    let rig = Rig::new();
    let file = rig.dir().join("hosts");
    fs::write(&file, with_comment("192.0.2.77 beacon\n")).expect("write the hosts");
    rig.output("mount", &["--bind", &file.display().to_string(), "/etc/hosts"]);
    let script = "cat /etc/hosts; exec sleep 1000";
    rig.write_manifest("pod.yaml", &manifest::pod("pod", "hostNetwork: true", script));
    let _agent = rig.start_agent(&[]);
    let main = rig.wait_running("pod-node1", "main");
    rig.wait("the host's names", || {
        fs::read(&main.log_path).is_ok_and(|log| String::from_utf8_lossy(&log).contains("192.0.2.77 beacon"))
    });
}

#[test]
fn a_mount_with_a_latin_1_name_keeps_no_pod_from_going() {
    let rig = Rig::new();
    let mount = rig.dir().join(OsStr::from_bytes(CAFE));
    fs::create_dir(&mount).expect("create a mount point");
    let mounted = rig.command("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&mount).status();
    assert!(mounted.expect("run mount").success());
    rig.write_manifest("pod.yaml", &manifest::idle("pod"));
    let _agent = rig.start_agent(&[]);
    let main = rig.wait_running("pod-node1", "main");
    rig.remove_manifest("pod.yaml");
    rig.wait("the pod to go", || {
        rig.sandboxes().is_empty() && !rig.pod_dir(&main.labels["io.kubernetes.pod.uid"]).exists()
    });
    rig.wait("the list to be empty", || rig.pod("pod-node1").is_none());
}
