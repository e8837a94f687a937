//! Volumes that need a kernel and daemons of their own: NFS, and huge pages.

use super::machine::Machine;
use super::node;

const WAITS: &str = "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done";

/// Takes a pod away, and waits until nothing of its volumes is mounted.
fn goes(machine: &mut Machine, name: &str, uid: &str) {
    node::take_away(machine, name);
    let names = node::manifests(machine);
    node::wait_at_rest(machine, &names);
    machine.wait("the volumes to be unmounted and removed", |machine| {
        machine.holds(&format!("! grep -q {uid} /proc/self/mounts && ! test -e /var/lib/kubelet/pods/{uid}"))
    });
}

fn uid(pod: &serde_json::Value) -> String {
    pod["metadata"]["uid"].as_str().expect("a UID").to_owned()
}

pub(crate) fn nfs_is_mounted(machine: &mut Machine) {
    machine.sh("mkdir -p /srv/nfs; echo from-the-server > /srv/nfs/greeting\n\
         echo '/srv/nfs 192.0.2.10(rw,sync,no_subtree_check,no_root_squash,fsid=1)' > /etc/exports\n\
         systemctl start nfs-server && exportfs -ra");
    let script = format!("cat /nfs/greeting > /nfs/copy; {WAITS}");
    let mount = "    volumeMounts:\n    - {name: shared, mountPath: /nfs}\n";
    let volume = "  volumes:\n  - name: shared\n    nfs: {server: 192.0.2.10, path: /srv/nfs}\n";
    node::put(machine, "nfs", &node::pod("nfs", "nfs", &script, mount, volume));
    let names = node::manifests(machine);
    let pods = node::wait_at_rest(machine, &names);
    machine.wait("the file that the pod writes", |machine| {
        machine.holds("grep -qx from-the-server /srv/nfs/copy")
    });
    let mounts = machine.sh("grep ' nfs' /proc/self/mounts");
    println!("    {}", mounts.lines().find(|line| line.contains("/pods/")).unwrap_or("no mount"));
    assert!(mounts.contains("kubernetes.io~nfs/shared"), "{mounts}");
    let uid = uid(&pods["nfs"]);
    // A restarted agent knows the mount as its own.
    machine.sh("systemctl restart rkubelet");
    node::wait_for_agent(machine);
    goes(machine, "nfs", &uid);
    assert_eq!(machine.sh("cat /srv/nfs/copy"), "from-the-server\n", "what is on the server stays");
    machine.sh("systemctl stop nfs-server; rm -r /srv/nfs /etc/exports");
}

pub(crate) fn huge_pages_are_given(machine: &mut Machine) {
    machine.sh("sysctl -q vm.nr_hugepages=8; grep -q 'HugePages_Total: *8$' /proc/meminfo");
    // The node's huge pages are counted when the agent starts, as kubelet does.
    machine.sh("systemctl restart rkubelet");
    node::wait_for_agent(machine);
    let script = format!("fallocate -l 2097152 /huge/page; {WAITS}");
    let more = "    resources: {limits: {memory: 32Mi, hugepages-2Mi: 4Mi}}\n    \
                volumeMounts:\n    - {name: huge, mountPath: /huge}\n";
    let volume = "  volumes:\n  - name: huge\n    emptyDir: {medium: HugePages}\n";
    node::put(machine, "huge", &node::pod("huge", "huge", &script, more, volume));
    let names = node::manifests(machine);
    let pods = node::wait_at_rest(machine, &names);
    machine.wait("the pod to take a page", |machine| {
        machine.holds("grep -q 'HugePages_Free: *7$' /proc/meminfo")
    });
    let pid = node::process(machine, &pods["huge"], 0);
    let dir = machine.sh(&format!("sed -n 's/^0:://p' /proc/{pid}/cgroup")).trim().to_owned();
    let of_container = machine.sh(&format!("cat /sys/fs/cgroup{dir}/hugetlb.2MB.max"));
    let of_pod = machine.sh(&format!("cat /sys/fs/cgroup{dir}/../hugetlb.2MB.max"));
    assert_eq!(
        (of_container.trim(), of_pod.trim()),
        ("4194304", "4194304"),
        "limits of the container and the pod"
    );
    let uid = uid(&pods["huge"]);
    goes(machine, "huge", &uid);
    machine
        .wait("the page to be free", |machine| machine.holds("grep -q 'HugePages_Free: *8$' /proc/meminfo"));
    machine.sh("sysctl -q vm.nr_hugepages=0; systemctl restart rkubelet");
    node::wait_for_agent(machine);
}
