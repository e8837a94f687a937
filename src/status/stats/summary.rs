//! `/stats/summary`: kubelet's JSON of a reading.

use jiff::Timestamp;

use super::schema::{
    ContainerStats, CpuStats, FsStats, InterfaceStats, IoStats, MemoryStats, NetworkStats, NodeStats,
    PodReference, PodStats, ProcessStats, PsiData, PsiStats, RlimitStats, RuntimeStats, Summary, SwapStats,
    Time, UsageStats, VolumeStats,
};
use super::{
    CgroupReading, ContainerReading, DiskUsage, FsReading, FsSize, Interface, NodeReading, PodReading,
    Pressure, Reading, SystemContainer,
};
use crate::status::stats::proc_files::PressureWaits;

/// What the main interface is called, where nobody has called it anything else.
const MAIN_INTERFACE: &str = "eth0";
const MICROSECOND: u64 = 1000;

/// The summary as JSON; of CPU, memory and swap alone if no more is asked for.
pub(crate) fn render(reading: &Reading, only_cpu_and_memory: bool) -> Result<Vec<u8>, serde_json::Error> {
    let pods = reading.pods.iter().map(|pod| pod_stats(pod, reading, only_cpu_and_memory));
    let summary = Summary { node: node_stats(reading, only_cpu_and_memory), pods: pods.collect() };
    serde_json::to_vec(&summary)
}

fn node_stats(reading: &Reading, only_cpu_and_memory: bool) -> NodeStats<'_> {
    let (node, at) = (&reading.node, reading.at);
    let mut usage = usage_stats(&node.all, at, only_cpu_and_memory);
    // What is set aside for huge pages serves nobody else, and no cgroup counts it.
    if let Some(available) = usage.memory.as_mut().and_then(|memory| memory.available_bytes.as_mut()) {
        *available = available.saturating_sub(node.machine.huge_pages);
    }
    let mut stats = NodeStats {
        node_name: &node.name,
        system_containers: node.system.iter().map(|one| system_stats(one, at, only_cpu_and_memory)).collect(),
        start_time: node.machine.booted_at.map(Time),
        usage,
        network: None,
        fs: None,
        runtime: None,
        rlimit: None,
    };
    if !only_cpu_and_memory {
        stats.network = network_stats(&node.network, at);
        stats.fs = node.fs.map(fs_stats);
        stats.runtime =
            node.image_fs.map(|fs| RuntimeStats { image_fs: fs_stats(fs), container_fs: fs_stats(fs) });
        stats.rlimit = rlimit(node, at);
    }
    stats
}

fn rlimit(node: &NodeReading, at: Timestamp) -> Option<RlimitStats> {
    let known = node.max_pids.is_some() || node.pids.is_some();
    known.then_some(RlimitStats { time: Time(at), maxpid: node.max_pids, curproc: node.pids })
}

fn system_stats(one: &SystemContainer, at: Timestamp, only_cpu_and_memory: bool) -> ContainerStats<'_> {
    ContainerStats {
        name: one.name,
        start_time: one.started_at.map(Time),
        usage: usage_stats(&one.usage, at, only_cpu_and_memory),
        rootfs: None,
        logs: None,
    }
}

fn pod_stats<'a>(pod: &'a PodReading, reading: &Reading, only_cpu_and_memory: bool) -> PodStats<'a> {
    let (at, node) = (reading.at, &reading.node);
    let containers =
        pod.containers.iter().map(|one| container_stats(one, reading, only_cpu_and_memory)).collect();
    let mut stats = PodStats {
        pod_ref: PodReference { name: &pod.name.name, namespace: &pod.name.namespace, uid: pod.uid.as_str() },
        start_time: Time(pod.started_at),
        containers,
        usage: pod.all.as_ref().map(|all| usage_stats(all, at, only_cpu_and_memory)).unwrap_or_default(),
        network: None,
        volume: Vec::new(),
        ephemeral_storage: None,
        process_stats: None,
    };
    if !only_cpu_and_memory {
        stats.network = network_stats(&pod.network, at);
        stats.volume = pod
            .volumes
            .iter()
            .map(|volume| VolumeStats { fs: fs_stats(volume.fs), name: &volume.name })
            .collect();
        stats.ephemeral_storage = node.fs.map(|fs| fs_stats(ephemeral_storage(pod, fs.size, at)));
        let counts = pod.containers.iter().map(|container| container.usage.usage.processes);
        let process_count = counts.fold(None, add);
        stats.process_stats = process_count.map(|process_count| ProcessStats { process_count });
    }
    stats
}

fn container_stats<'a>(
    container: &'a ContainerReading,
    reading: &Reading,
    only_cpu_and_memory: bool,
) -> ContainerStats<'a> {
    let on = |fs: Option<FsReading>, used: Option<DiskUsage>| {
        Some(fs_stats(FsReading { size: fs?.size, used: used? })).filter(|_| !only_cpu_and_memory)
    };
    ContainerStats {
        name: &container.name,
        start_time: Some(Time(container.started_at)),
        usage: usage_stats(&container.usage, reading.at, only_cpu_and_memory),
        rootfs: on(reading.node.image_fs, container.layer),
        logs: on(reading.node.fs, container.logs),
    }
}

/// What a pod takes of the node's disk: layers, logs, volumes without a medium of their own, and its `/etc/hosts`.
fn ephemeral_storage(pod: &PodReading, size: FsSize, at: Timestamp) -> FsReading {
    let of_containers = pod.containers.iter().flat_map(|container| [container.layer, container.logs]);
    let volumes = pod.volumes.iter().filter(|volume| volume.is_ephemeral).map(|volume| Some(volume.fs.used));
    let all = of_containers.chain(volumes).chain([pod.etc_hosts]).flatten();
    let nothing = DiskUsage { at, bytes: None, inodes: None };
    let used = all.fold(nothing, |sum, one| DiskUsage {
        at: sum.at.max(one.at),
        bytes: add(sum.bytes, one.bytes),
        inodes: add(sum.inodes, one.inodes),
    });
    FsReading { size, used }
}

fn add(sum: Option<u64>, one: Option<u64>) -> Option<u64> {
    match (sum, one) {
        (Some(sum), Some(one)) => Some(sum.saturating_add(one)),
        (sum, one) => sum.or(one),
    }
}

fn usage_stats(cgroup: &CgroupReading, at: Timestamp, only_cpu_and_memory: bool) -> UsageStats {
    let time = Time(at);
    let usage = &cgroup.usage;
    let cpu = usage.cpu.as_ref().map(|cpu| CpuStats {
        time,
        usage_nano_cores: cgroup.nano_cores,
        usage_core_nano_seconds: cpu.total,
        psi: cpu.pressure.map(psi),
    });
    let memory = usage.memory.as_ref().map(|memory| MemoryStats {
        time,
        available_bytes: memory.available(),
        usage_bytes: memory.usage,
        working_set_bytes: memory.working_set(),
        rss_bytes: memory.rss,
        page_faults: memory.page_faults,
        major_page_faults: memory.major_page_faults,
        psi: memory.pressure.map(psi),
    });
    let swap = usage.memory.as_ref().and_then(|memory| {
        let swap_usage_bytes = memory.swap?;
        let left = memory.swap_limit.map(|limit| limit.saturating_sub(swap_usage_bytes));
        Some(SwapStats { time, swap_available_bytes: left, swap_usage_bytes })
    });
    let io = usage.io_pressure.filter(|_| !only_cpu_and_memory);
    UsageStats { cpu, memory, io: io.map(|io| IoStats { time, psi: psi(io) }), swap }
}

fn psi(pressure: Pressure) -> PsiStats {
    let data = |waits: PressureWaits| PsiData {
        total: waits.total.saturating_mul(MICROSECOND),
        avg10: waits.avg10,
        avg60: waits.avg60,
        avg300: waits.avg300,
    };
    PsiStats { full: data(pressure.full), some: data(pressure.some) }
}

fn network_stats(interfaces: &[Interface], at: Timestamp) -> Option<NetworkStats<'_>> {
    let all: Vec<_> = interfaces
        .iter()
        .map(|interface| InterfaceStats {
            name: &interface.name,
            rx_bytes: interface.received.bytes,
            rx_errors: interface.received.errors,
            tx_bytes: interface.sent.bytes,
            tx_errors: interface.sent.errors,
        })
        .collect();
    let main = all.iter().find(|interface| interface.name == MAIN_INTERFACE).cloned();
    (!all.is_empty()).then_some(NetworkStats { time: Time(at), main, interfaces: all })
}

fn fs_stats(fs: FsReading) -> FsStats {
    FsStats {
        time: Time(fs.used.at),
        available_bytes: fs.size.available,
        capacity_bytes: fs.size.capacity,
        used_bytes: fs.used.bytes,
        inodes_free: fs.size.inodes_free,
        inodes: fs.size.inodes,
        inodes_used: fs.used.inodes,
    }
}
