//! Readings against what kubelet answered on a real node, field by field and name by name.

mod files;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::*;
use crate::pod::{PodName, PodUid};
use crate::status::metrics::exposition;
use proc_files::{PressureWaits, Traffic};

const SUMMARY: &str = include_str!("../../../tests/fixtures/kubelet-stats-summary.json");
const RUNNING_PODS: &str = include_str!("../../../tests/fixtures/kubelet-runningpods.json");
const RESOURCE_NAMES: &str = include_str!("../../../tests/fixtures/kubelet-metrics-resource-names.txt");
const CADVISOR_NAMES: &str = include_str!("../../../tests/fixtures/kubelet-metrics-cadvisor-names.txt");

/// kubelet's, that only cAdvisor's own counting finds, or that are always zero without hardware that few have.
const NOT_WITHOUT_CADVISOR: [&str; 20] = [
    "container_cpu_load_average_10s",
    "container_cpu_load_d_average_10s",
    "container_file_descriptors",
    "container_fs_io_current",
    "container_fs_io_time_seconds_total",
    "container_fs_io_time_weighted_seconds_total",
    "container_fs_read_seconds_total",
    "container_fs_reads_merged_total",
    "container_fs_sector_reads_total",
    "container_fs_sector_writes_total",
    "container_fs_write_seconds_total",
    "container_fs_writes_merged_total",
    "container_health_state",
    "container_sockets",
    "container_tasks_state",
    "container_ulimits_soft",
    "machine_cpu_books",
    "machine_cpu_drawers",
    "machine_nvm_avg_power_budget_watts",
    "machine_nvm_capacity",
];

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn waits(total: u64) -> Option<Pressure> {
    let some = PressureWaits { avg10: 0.5, avg60: 0.25, avg300: 0.0, total };
    Some(Pressure { some, full: PressureWaits::default() })
}

fn cgroup(path: &str, cpu: u64) -> CgroupReading {
    let quota = QuotaUsage {
        periods: 10,
        throttled_periods: 2,
        throttled_time: 3_000_000_000,
        ..QuotaUsage::default()
    };
    let usage = CgroupUsage {
        cpu: Some(CpuUsage {
            total: cpu,
            user: Some(cpu / 2),
            system: Some(cpu / 2),
            quota: Some(quota),
            quota_limit: Some(50_000),
            period: Some(100_000),
            shares: Some(512),
            pressure: waits(7),
        }),
        memory: Some(MemoryUsage {
            usage: 663_552,
            limit: Some(1 << 20),
            inactive_file: 63_552,
            rss: 49_152,
            page_faults: 2208,
            swap: Some(100),
            swap_limit: Some(1000),
            limit_hits: Some(1),
            peak: Some(700_000),
            kernel: Some(1),
            oom_kills: Some(1),
            pressure: waits(8),
            ..MemoryUsage::default()
        }),
        processes: Some(1),
        tasks: Some(Tasks { count: 3, limit: None }),
        io_pressure: waits(9),
        io: vec![DeviceIo { device: "8:0".into(), read_bytes: 4096, written_bytes: 1, reads: 1, writes: 1 }],
    };
    CgroupReading { path: path.to_owned(), usage, nano_cores: Some(541_180) }
}

fn disk(bytes: u64, inodes: u64) -> DiskUsage {
    DiskUsage { at: at(1_800_000_001), bytes: Some(bytes), inodes: Some(inodes) }
}

fn interface(name: &str) -> Interface {
    let traffic = |bytes| Traffic { bytes, packets: 2, errors: 3, dropped: 4 };
    Interface { name: name.to_owned(), received: traffic(2282), sent: traffic(682) }
}

/// A node with one pod, of which everything is known.
pub(super) fn reading() -> Reading {
    let size = FsSize { capacity: 1000, available: 500, free: 600, inodes: 100, inodes_free: 90 };
    let fs = Some(FsReading { size, used: disk(400, 10) });
    let container = ContainerReading {
        name: "etcd".into(),
        id: "0123abc".into(),
        image: "sha256:e4".into(),
        started_at: at(1_799_999_000),
        usage: cgroup("/kubepods/pod1/0123abc", 61_556_567),
        layer: Some(disk(36_864, 12)),
        logs: Some(disk(0, 1)),
    };
    let volume = |name: &str, is_ephemeral| VolumeReading {
        name: name.to_owned(),
        fs: FsReading { size, used: disk(8192, 2) },
        is_ephemeral,
    };
    let pod = PodReading {
        name: PodName::new("kube-system", "etcd-node1"),
        uid: PodUid::from("1d0dc1eff9be3a4ff33ec80437482d79"),
        started_at: at(1_799_998_000),
        all: Some(cgroup("/kubepods/pod1", 99_914_404)),
        sandbox: Some(SandboxReading { id: "fed".into(), usage: cgroup("/kubepods/pod1/fed", 1) }),
        network: vec![interface("eth0")],
        containers: vec![container],
        volumes: vec![volume("scratch", true), volume("memory", false)],
        etc_hosts: Some(disk(4096, 1)),
    };
    let machine = Machine {
        booted_at: Some(at(1_700_000_000)),
        memory: 1 << 20,
        huge_pages: 100_000,
        devices: BTreeMap::from([("8:0".to_owned(), "/dev/sda".to_owned())]),
        ..Machine::default()
    };
    let pods = SystemContainer {
        name: "pods",
        started_at: Some(at(1_700_000_001)),
        usage: cgroup("/kubepods", 131_781_572_508),
    };
    let node = NodeReading {
        name: "node1".into(),
        machine,
        all: cgroup("/", 3_510_276_994_573),
        groups: vec![cgroup("/kubepods", 131_781_572_508)],
        system: vec![pods],
        network: vec![interface("ifb0"), interface("eth0")],
        fs,
        image_fs: fs,
        max_pids: Some(32_768),
        pids: Some(318),
    };
    Reading { at: at(1_800_000_000), node, pods: vec![pod] }
}

/// Every path of a JSON text, elements of lists as one, with the kind of its value.
fn fields(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| fields(value, &format!("{path}.{key}"), found))
        }
        Value::Array(list) => list.iter().for_each(|value| fields(value, &format!("{path}[]"), found)),
        Value::Number(_) => drop(found.insert(format!("{path} number"))),
        Value::String(_) => drop(found.insert(format!("{path} text"))),
        Value::Bool(_) | Value::Null => drop(found.insert(format!("{path} {value}"))),
    }
}

fn fields_of(text: &[u8]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    fields(&serde_json::from_slice(text).unwrap(), "", &mut found);
    found
}

#[test]
fn the_summary_has_kubelets_fields() {
    let ours = fields_of(&summary::render(&reading(), false).unwrap());
    let theirs = fields_of(SUMMARY.as_bytes());
    let missing: Vec<_> = theirs.difference(&ours).collect();
    assert!(missing.is_empty(), "{missing:?}");
    // The node that was recorded had no volumes that are measured, no limits of swap or of a container's memory.
    let more = ours.difference(&theirs).filter(|field| !field.starts_with(".pods[].volume[]"));
    let more: Vec<_> = more.filter(|field| !field.contains("vailableBytes number")).collect();
    assert!(more.is_empty(), "{more:?}");
}

#[test]
fn the_summary_tells_what_was_read() {
    let text = summary::render(&reading(), false).unwrap();
    let json: Value = serde_json::from_slice(&text).unwrap();
    for (pointer, expect) in [
        ("/node/nodeName", Value::from("node1")),
        ("/node/startTime", "2023-11-14T22:13:20Z".into()),
        ("/node/network/name", "eth0".into()),
        ("/node/memory/availableBytes", ((1 << 20) - 600_000 - 100_000).into()),
        ("/node/rlimit/maxpid", 32_768.into()),
        ("/node/systemContainers/0/name", "pods".into()),
        ("/pods/0/podRef/namespace", "kube-system".into()),
        ("/pods/0/containers/0/cpu/usageNanoCores", 541_180.into()),
        ("/pods/0/containers/0/cpu/psi/some/total", 7000.into()),
        ("/pods/0/containers/0/memory/workingSetBytes", 600_000.into()),
        ("/pods/0/containers/0/swap/swapAvailableBytes", 900.into()),
        ("/pods/0/containers/0/rootfs/usedBytes", 36_864.into()),
        ("/pods/0/containers/0/logs/inodesUsed", 1.into()),
        // Layer, log, the volume on disk, /etc/hosts.
        ("/pods/0/ephemeral-storage/usedBytes", (36_864 + 8192 + 4096).into()),
        ("/pods/0/ephemeral-storage/inodesUsed", 16.into()),
        ("/pods/0/ephemeral-storage/time", "2027-01-15T08:00:01Z".into()),
        ("/pods/0/volume/1/usedBytes", 8192.into()),
        ("/pods/0/process_stats/process_count", 1.into()),
    ] {
        assert_eq!(json.pointer(pointer), Some(&expect), "{pointer}");
    }
    let only: Value = serde_json::from_slice(&summary::render(&reading(), true).unwrap()).unwrap();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&only["pods"][0]), ["containers", "cpu", "memory", "podRef", "startTime", "swap"]);
    assert_eq!(keys(&only["pods"][0]["containers"][0]), ["cpu", "memory", "name", "startTime", "swap"]);
    let expect = ["cpu", "memory", "nodeName", "startTime", "swap", "systemContainers"];
    assert_eq!(keys(&only["node"]), expect);
}

#[test]
fn what_is_not_known_is_absent() {
    let mut reading = reading();
    reading.node = NodeReading { name: "node1".into(), ..NodeReading::default() };
    let pod = &mut reading.pods[0];
    (pod.all, pod.sandbox, pod.etc_hosts) = (None, None, None);
    (pod.network, pod.volumes) = (Vec::new(), Vec::new());
    pod.containers[0].usage = CgroupReading::default();
    let json: Value = serde_json::from_slice(&summary::render(&reading, false).unwrap()).unwrap();
    assert_eq!(json["node"], serde_json::json!({"nodeName": "node1", "startTime": null}));
    let keys: Vec<_> = json["pods"][0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["containers", "podRef", "startTime"]);
    for page in [resource_page::render(Some(&reading)), cadvisor_page::render(Some(&reading))] {
        exposition::check(&page).unwrap();
    }
}

/// Name, type and labels of every family of a page, as the recordings list them.
fn names(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut kind = "";
    for line in page.lines() {
        if let Some(typed) = line.strip_prefix("# TYPE ") {
            kind = typed.split_once(' ').unwrap().1;
        }
        if line.starts_with('#') {
            continue;
        }
        let name = line.split(['{', ' ']).next().unwrap();
        let labels = line.split_once('{').map_or("", |(_, rest)| rest.rsplit_once('}').unwrap().0);
        let mut labels: Vec<_> = labels
            .split("\",")
            .filter(|label| !label.is_empty())
            .map(|l| l.split('=').next().unwrap())
            .collect();
        labels.sort_unstable();
        found.insert(format!("{name} {kind} {}", labels.join(",")));
    }
    found
}

/// What of a recorded list a page lacks, and what it has besides.
fn compared(page: &str, recorded: &str) -> (Vec<String>, Vec<String>) {
    exposition::check(page).unwrap();
    let (ours, theirs) = (names(page), recorded.lines().map(str::to_owned).collect::<BTreeSet<_>>());
    (theirs.difference(&ours).cloned().collect(), ours.difference(&theirs).cloned().collect())
}

#[test]
fn metrics_of_resources_are_kubelets() {
    let page = resource_page::render(Some(&reading()));
    let (missing, more) = compared(&page, RESOURCE_NAMES);
    assert_eq!(missing, [""; 0]);
    assert_eq!(more, ["scrape_error gauge "], "kubelet's older name of it");
    for line in [
        "node_cpu_usage_seconds_total 3510.276994573 1800000000000",
        r#"pod_memory_working_set_bytes{namespace="kube-system",pod="etcd-node1"} 600000 1800000000000"#,
        r#"container_swap_limit_bytes{container="etcd",namespace="kube-system",pod="etcd-node1"} 1000 1800000000000"#,
        r#"container_start_time_seconds{container="etcd",namespace="kube-system",pod="etcd-node1"} 1799999000"#,
        "resource_scrape_error 0",
    ] {
        assert!(page.lines().any(|found| found == line), "no line {line}\n{page}");
    }
    assert!(resource_page::render(None).contains("\nresource_scrape_error 1\n"));
}

#[test]
fn metrics_of_cgroups_are_cadvisors() {
    let page = cadvisor_page::render(Some(&reading()));
    let (missing, more) = compared(&page, CADVISOR_NAMES);
    let missing: BTreeSet<_> = missing.iter().map(|line| line.split(' ').next().unwrap()).collect();
    let expected: BTreeSet<_> = NOT_WITHOUT_CADVISOR.into();
    assert_eq!(missing, expected);
    // cAdvisor's too, where the node tells of them.
    let known =
        ["container_fs_reads_bytes_total ", "container_fs_writes_bytes_total ", "container_pressure_"];
    let more: Vec<_> =
        more.iter().filter(|name| !known.iter().any(|known| name.starts_with(known))).collect();
    assert_eq!(more, [""; 0]);
    let labels = r#"container="etcd",id="/kubepods/pod1/0123abc",image="sha256:e4",name="0123abc",namespace="kube-system",pod="etcd-node1""#;
    for line in [
        format!("container_cpu_usage_seconds_total{{{labels},cpu=\"total\"}} 0.061556567 1800000000000"),
        format!("container_cpu_cfs_throttled_seconds_total{{{labels}}} 3 1800000000000"),
        format!("container_fs_reads_bytes_total{{{labels},device=\"/dev/sda\"}} 4096 1800000000000"),
        format!("container_fs_usage_bytes{{{labels},device=\"\"}} 36864 1800000000000"),
        format!("container_pressure_memory_waiting_seconds_total{{{labels}}} 0.000008 1800000000000"),
        r#"container_network_receive_bytes_total{container="",id="/kubepods/pod1/fed",image="",name="fed",namespace="kube-system",pod="etcd-node1",interface="eth0"} 2282 1800000000000"#.to_owned(),
    ] {
        assert!(page.lines().any(|found| found == line), "no line {line}\n{page}");
    }
    let failed = cadvisor_page::render(None);
    exposition::check(&failed).unwrap();
    assert!(failed.contains("\ncontainer_scrape_error 1\n"));
}

#[test]
fn running_pods_are_kubelets() {
    let recorded: Value = serde_json::from_str(RUNNING_PODS).unwrap();
    let text = |value: &'static Value, key: &str| value[key].as_str().unwrap();
    let recorded: &'static Value = Box::leak(Box::new(recorded));
    let pods = recorded["items"].as_array().unwrap().iter().map(|item| running_pods::RunningPod {
        name: text(&item["metadata"], "name"),
        namespace: text(&item["metadata"], "namespace"),
        uid: text(&item["metadata"], "uid"),
        containers: item["spec"]["containers"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|container| (text(container, "name"), text(container, "image")))
            .collect(),
    });
    let ours: Value = serde_json::from_slice(&running_pods::render(pods).unwrap()).unwrap();
    assert_eq!(&ours, recorded);
}

#[test]
fn rates() {
    for (before, now, between, expect) in [
        (100, 600, Duration::from_secs(1), Some(500)),
        (0, 1_000_000_000, Duration::from_millis(500), Some(2_000_000_000)),
        (0, u64::MAX, Duration::from_secs(3600), Some(u64::MAX / 3600)),
        (600, 100, Duration::from_secs(1), None),
        (0, 1, Duration::ZERO, None),
    ] {
        assert_eq!(nano_cores(before, now, between), expect, "{before} {now}");
    }
}

#[test]
fn the_root_is_the_machine() {
    let machine = Machine { memory: 1000, swap: 100, ..Machine::default() };
    let unified = CgroupUsage {
        memory: Some(MemoryUsage { inactive_file: 50, ..MemoryUsage::default() }),
        ..CgroupUsage::default()
    };
    let v1 = CgroupUsage {
        memory: Some(MemoryUsage { usage: 300, inactive_file: 50, ..MemoryUsage::default() }),
        ..CgroupUsage::default()
    };
    for (mut usage, used) in [(unified, 600), (v1, 300), (CgroupUsage::default(), 600)] {
        as_node(&mut usage, &machine, 400, 70);
        let memory = usage.memory.unwrap();
        assert_eq!((memory.usage, memory.limit), (used, Some(1000)));
        assert_eq!((memory.swap, memory.swap_limit), (Some(30), Some(100)));
        assert_eq!(memory.available(), Some(1000 - memory.working_set()));
    }
}
