//! Cgroups that a real systemd makes: it is the first process of these machines. On cgroup v1 here; v2 is for the virtual
//! machine.

use std::fs;

use crate::manifest::{self, IDLE};
use crate::rig::{NODE, Rig};

/// Lets containerd have systemd make its cgroups, and starts it.
fn start_containerd(rig: &Rig) {
    let path = rig.dir().join("containerd.toml");
    let config = fs::read_to_string(&path).expect("containerd's configuration");
    let runtime = "plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc";
    let more = format!(
        "[{runtime}]\nruntime_type = \"io.containerd.runc.v2\"\n[{runtime}.options]\nSystemdCgroup = true\n"
    );
    fs::write(&path, format!("{config}\n{more}")).expect("write containerd's configuration");
    rig.start_containerd();
}

fn pod(name: &str, resources: &str) -> String {
    let text = manifest::pod(name, "", IDLE);
    text.replace("    command:\n", &format!("    resources: {resources}\n    command:\n"))
}

fn uid(rig: &Rig, pod: &str) -> String {
    let pod = rig.pod(pod).unwrap_or_default();
    pod["metadata"]["uid"].as_str().expect("a UID").to_owned()
}

fn property(rig: &Rig, unit: &str, name: &str) -> String {
    rig.output("systemctl", &["show", "--value", "--property", name, unit]).trim().to_owned()
}

/// A file of the machine's cgroups; on v2 of the only hierarchy.
fn cgroup_file(rig: &Rig, controller: &str, path: &str) -> String {
    rig.output("cat", &[&format!("/sys/fs/cgroup/{controller}/{path}")]).trim().to_owned()
}

#[test]
fn slices_are_made_limited_and_stopped() {
    let rig = Rig::with_systemd();
    start_containerd(&rig);
    rig.write_config("podPidsLimit: 500\ncgroupDriver: cgroupfs\nkubeReserved: {cpu: 100m, memory: 64Mi}\n");
    rig.write_manifest("same.yaml", &pod("same", "{limits: {cpu: 123m, memory: 64Mi}}"));
    rig.write_manifest("some.yaml", &pod("some", "{requests: {cpu: 250m, memory: 16Mi}}"));
    rig.write_manifest("best.yaml", &manifest::idle("best"));
    let agent = rig.start_agent(&[]);
    // The runtime's driver counts, and what to do about the other is said.
    agent.wait_for_log("Set cgroupDriver: systemd, or SystemdCgroup = false");
    let rows = [
        ("same", "kubepods", "125", "130ms", "67108864"),
        ("some", "kubepods-burstable", "256", "infinity", "infinity"),
        ("best", "kubepods-besteffort", "2", "infinity", "infinity"),
    ];
    let mut units = Vec::new();
    for (name, class, shares, quota, memory) in rows {
        let name = format!("{name}-{NODE}");
        let container = rig.wait_running(&name, "main");
        rig.wait("the pod to be served", || rig.pod(&name).is_some());
        let unit = format!("{class}-pod{}.slice", uid(&rig, &name).replace('-', "_"));
        let above = if class == "kubepods" { String::new() } else { format!("/{class}.slice") };
        let path = format!("kubepods.slice{above}/{unit}");
        for (property_name, expect) in [
            ("CPUShares", shares),
            ("CPUQuotaPerSecUSec", quota),
            ("MemoryLimit", memory),
            ("TasksMax", "500"),
        ] {
            assert_eq!(property(&rig, &unit, property_name), expect, "{name} {property_name}");
        }
        // What systemd knows survives that it applies everything anew.
        rig.output("systemctl", &["daemon-reload"]);
        assert_eq!(cgroup_file(&rig, "cpu", &format!("{path}/cpu.shares")), shares, "{name}");
        assert_eq!(cgroup_file(&rig, "pids", &format!("{path}/pids.max")), "500", "{name}");
        let own = rig.output("cat", &[&format!("/proc/{}/cgroup", container.pid)]);
        let scope = format!("{path}/cri-containerd-{}.scope", container.id);
        assert!(own.contains(&scope), "{name}: {own}");
        units.push((unit, path));
    }
    assert_eq!(cgroup_file(&rig, "cpu", &format!("{}/cpu.cfs_quota_us", units[0].1)), "13000");
    assert_eq!(property(&rig, "kubepods-burstable.slice", "CPUShares"), "256");
    assert_eq!(property(&rig, "kubepods-besteffort.slice", "CPUShares"), "2");
    assert_ne!(property(&rig, "kubepods.slice", "MemoryLimit"), "infinity");

    // One goes while the agent looks on, one while it is away.
    let is_left = |(unit, path): &(String, String)| {
        let active = property(&rig, unit, "ActiveState");
        let found = rig.output("find", &["/sys/fs/cgroup", "-type", "d", "-path", &format!("*/{path}")]);
        active != "inactive" || !found.is_empty()
    };
    rig.remove_manifest("same.yaml");
    rig.wait("the pod's slice to go", || !is_left(&units[0]));
    assert!(is_left(&units[1]) && is_left(&units[2]));
    agent.kill9();
    let best = rig.wait_running(&format!("best-{NODE}"), "main");
    rig.remove_manifest("some.yaml");
    let _agent = rig.start_agent(&[]);
    rig.wait("the other pod's slice to go", || !is_left(&units[1]));
    assert_eq!(rig.wait_running(&format!("best-{NODE}"), "main").id, best.id, "left alone");
    assert!(is_left(&units[2]));
    let shares = || property(&rig, "kubepods-burstable.slice", "CPUShares");
    rig.wait("the class to have the shares of no pod", || shares() == "2");
}

#[test]
fn limits_of_a_pod_as_a_whole_are_a_slices() {
    let rig = Rig::with_systemd();
    start_containerd(&rig);
    let spec = "resources: {limits: {cpu: 500m, memory: 64Mi}, requests: {cpu: 500m, memory: 64Mi}}";
    rig.write_manifest("whole.yaml", &manifest::pod("whole", spec, IDLE));
    let _agent = rig.start_agent(&[]);
    let name = format!("whole-{NODE}");
    rig.wait_running(&name, "main");
    rig.wait("the pod to be served", || rig.pod(&name).is_some());
    let unit = format!("kubepods-pod{}.slice", uid(&rig, &name).replace('-', "_"));
    assert_eq!(property(&rig, &unit, "MemoryLimit"), "67108864");
    assert_eq!(property(&rig, &unit, "CPUQuotaPerSecUSec"), "500ms");
}

#[test]
fn a_node_without_systemd_says_what_to_do() {
    let rig = Rig::without_containerd();
    start_containerd(&rig);
    rig.write_manifest("best.yaml", &manifest::idle("best"));
    let agent = rig.start_agent(&[]);
    agent.wait_for_log("Is systemd the init of this node");
}
