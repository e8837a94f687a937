//! What a restart of a container costs the disk.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::manifest;
use crate::rig::{Agent, Rig};

/// How many restarts are measured.
const RESTARTS: u64 = 5;

fn restarts(rig: &Rig) -> u64 {
    let pod = rig.pod("a-node1").unwrap_or_default();
    pod["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap_or_default()
}

/// All that lies below a directory, with what a change of it changes.
fn tree(dir: &Path, all: &mut BTreeMap<PathBuf, (u64, i64, i64)>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let found = entry.metadata().expect("look at a file");
        all.insert(entry.path(), (found.ino(), found.ctime(), found.ctime_nsec()));
        if found.is_dir() {
            tree(&entry.path(), all);
        }
    }
}

#[test]
fn restarts_change_nothing_in_the_root_directory() {
    let rig = Rig::new();
    rig.write_config("crashLoopBackOff: {maxContainerRestartPeriod: 1s}\n");
    rig.write_manifest("a.yaml", &manifest::script("a", "sleep 1; exit 1"));
    let _agent = rig.start_agent(&[]);
    // Each of the two files for termination messages was used.
    rig.wait("two restarts", || restarts(&rig) >= 2);
    let look = || {
        let mut all = BTreeMap::new();
        tree(&rig.root_dir(), &mut all);
        // Events are appended once in a minute: `an_end_in_order_saves_events`.
        all.retain(|path, _| !path.starts_with(rig.root_dir().join("rkubelet/events")));
        all
    };
    let (before, done) = (look(), restarts(&rig));
    rig.wait("more restarts", || restarts(&rig) >= done + 3);
    assert_eq!(look(), before);
    let links = fs::read_dir(rig.container_links_dir()).expect("the links to logs").count();
    assert!(links <= 3, "{links} links");
}

/// Bytes that the kernel charges the agent, and calls that write, as `/proc` tells.
fn charged(agent: &Agent<'_>) -> [u64; 2] {
    let pid = agent.pid().expect("rkubelet runs").as_raw_nonzero();
    let text = fs::read_to_string(format!("/proc/{pid}/io")).expect("read what it wrote");
    let of = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
    ["write_bytes:", "syscw:"].map(|key| of(key).expect("a number"))
}

/// Of a restart, on a file system of its own: bytes charged to the agent, bytes that reach the device (containerd's new log
/// among them).
fn cost_of_a_restart(features: &str, links_in_memory: bool) -> Option<(u64, u64)> {
    let rig = Rig::without_containerd();
    let (root, logs) = (rig.root_dir().display().to_string(), rig.pod_logs_dir().display().to_string());
    // The image lies in memory: nothing else is charged for it.
    let links = if links_in_memory { "mount -t tmpfs tmpfs" } else { "mount --bind /run/disk/links" };
    let script = format!(
        "truncate -s 64M /run/image; mkfs.ext4 -q -b 4096 -O {features} /run/image; mkdir /run/disk\n\
         mount -o loop,noatime /run/image /run/disk || exit 0\n\
         cd /run/disk; mkdir kubelet logs links\n\
         mount --bind kubelet {root}; mount --bind logs {logs}; {links} /var/log/containers\n\
         basename $(findmnt -no SOURCE /run/disk)"
    );
    let device = rig.output("sh", &["-ec", &script]).trim().to_owned();
    if device.is_empty() {
        eprintln!("not run: no loop device");
        return None;
    }
    rig.start_containerd();
    rig.write_config("crashLoopBackOff: {maxContainerRestartPeriod: 1s}\n");
    rig.write_manifest("a.yaml", &manifest::script("a", "echo hello; sleep 2; exit 1"));
    // Its log would be charged to it, too.
    let agent =
        rig.start_agent_through(&["sh", "-c", "exec \"${AGENT:-$0}\" \"$@\" > /run/agent.log 2>&1"], &[]);
    let at_device = || {
        rig.output("sync", &["-f", "/run/disk"]);
        let stat =
            fs::read_to_string(format!("/sys/block/{device}/stat")).expect("read the device's figures");
        stat.split_whitespace().nth(6).and_then(|sectors| sectors.parse::<u64>().ok()).expect("sectors") * 512
    };
    let mut costs = Vec::new();
    for n in 2..=2 + RESTARTS {
        rig.wait("a restart", || restarts(&rig) >= n);
        let device = at_device();
        costs.push((charged(&agent), device));
    }
    let (first, last) = (costs[0], costs[costs.len() - 1]);
    let each = (last.0[0] - first.0[0]) / RESTARTS;
    let device = (last.1 - first.1) / RESTARTS;
    println!(
        "{features}, links in memory {links_in_memory}: {each} bytes charged and {device} bytes at the device per restart; \
         {} calls of write; {costs:?}",
        (last.0[1] - first.0[1]) / RESTARTS
    );
    Some((each, device))
}

#[test]
fn a_restart_costs_the_disk_a_link_and_the_removal_of_a_log() {
    for (features, links_in_memory, most) in
        [("has_journal", false, 8 << 10), ("^has_journal", false, 36 << 10), ("^has_journal", true, 24 << 10)]
    {
        if let Some((charged, _)) = cost_of_a_restart(features, links_in_memory) {
            assert!(charged <= most, "{charged} bytes of {most}: {features}, {links_in_memory}");
        }
    }
}
