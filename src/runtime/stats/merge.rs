//! What the runtime tells of containers and sandboxes, beside or in place of the kernel's files.

use jiff::Timestamp;

use crate::runtime::cri::proto::{
    ContainerStats, CpuUsage as CriCpu, FilesystemUsage, MemoryUsage as CriMemory, NetworkInterfaceUsage,
    PodSandboxStats, SwapUsage, UInt64Value,
};
use crate::status::stats::proc_files::Traffic;
use crate::status::stats::{
    CgroupReading, CpuUsage, DiskUsage, FsReading, FsSize, Interface, MemoryUsage, Reading,
};

/// Whether the kernel's files say nothing of a container that runs.
pub(super) fn lacks_containers(reading: &Reading) -> bool {
    let mut containers = reading.pods.iter().flat_map(|pod| &pod.containers);
    containers.any(|container| container.usage.usage.cpu.is_none())
}

/// Whether they say nothing of a pod as a whole, though pods have cgroups of their own.
pub(super) fn lacks_pods(reading: &Reading) -> bool {
    reading.pods.iter().any(|pod| pod.all.is_none())
}

/// Gives containers their layers, and those that the kernel's files do not show all that the runtime tells.
pub(super) fn add_containers(reading: &mut Reading, told: Vec<ContainerStats>) {
    for stats in told {
        let Some(id) = stats.attributes.as_ref().map(|attributes| &attributes.id) else { continue };
        let mut all = reading.pods.iter_mut().flat_map(|pod| &mut pod.containers);
        let Some(container) = all.find(|container| container.id == *id) else { continue };
        container.layer = stats.writable_layer.as_ref().and_then(disk_usage);
        if container.usage.usage.cpu.is_none() {
            stand_in(&mut container.usage, stats.cpu, stats.memory, stats.swap);
        }
    }
}

/// Gives pods that the kernel's files do not show what the runtime tells of their sandboxes.
pub(super) fn add_sandboxes(reading: &mut Reading, told: Vec<PodSandboxStats>) {
    for stats in told {
        let uid = stats.attributes.as_ref().and_then(|attributes| attributes.metadata.as_ref());
        let Some(uid) = uid.map(|metadata| &metadata.uid) else { continue };
        let Some(pod) = reading.pods.iter_mut().find(|pod| pod.uid.as_str() == uid) else { continue };
        let Some(linux) = stats.linux.filter(|_| pod.all.is_none()) else { continue };
        let mut all = CgroupReading::default();
        stand_in(&mut all, linux.cpu, linux.memory, None);
        pod.all = Some(all);
        if let Some(network) = linux.network.filter(|_| pod.network.is_empty()) {
            let interfaces = network.default_interface.into_iter().chain(network.interfaces);
            pod.network = interfaces.map(interface).collect();
        }
    }
}

/// The file system of images, and what they take of it.
pub(super) fn image_fs(size: FsSize, told: &FilesystemUsage, at: Timestamp) -> FsReading {
    FsReading { size, used: disk_usage(told).unwrap_or(DiskUsage { at, bytes: None, inodes: None }) }
}

fn disk_usage(told: &FilesystemUsage) -> Option<DiskUsage> {
    let at = Timestamp::from_nanosecond(told.timestamp.into()).ok()?;
    Some(DiskUsage { at, bytes: value(told.used_bytes.as_ref()), inodes: value(told.inodes_used.as_ref()) })
}

fn stand_in(
    reading: &mut CgroupReading,
    cpu: Option<CriCpu>,
    memory: Option<CriMemory>,
    swap: Option<SwapUsage>,
) {
    if let Some(cpu) = cpu {
        reading.nano_cores = value(cpu.usage_nano_cores.as_ref());
        reading.usage.cpu = value(cpu.usage_core_nano_seconds.as_ref())
            .map(|total| CpuUsage { total, ..CpuUsage::default() });
    }
    if let Some(memory) = memory {
        reading.usage.memory = stand_in_memory(&memory, swap.as_ref());
    }
}

fn stand_in_memory(told: &CriMemory, swap: Option<&SwapUsage>) -> Option<MemoryUsage> {
    let working_set = value(told.working_set_bytes.as_ref());
    let usage = value(told.usage_bytes.as_ref()).filter(|usage| *usage > 0).or(working_set)?;
    let available = value(told.available_bytes.as_ref()).filter(|available| *available > 0);
    let swapped = swap.and_then(|swap| value(swap.swap_usage_bytes.as_ref()));
    let swap_left = swap.and_then(|swap| value(swap.swap_available_bytes.as_ref()));
    Some(MemoryUsage {
        usage,
        limit: available.zip(working_set).map(|(available, used)| available.saturating_add(used)),
        // Its size is not told, but what it makes of the working set.
        inactive_file: usage.saturating_sub(working_set.unwrap_or(usage)),
        rss: value(told.rss_bytes.as_ref()).unwrap_or(0),
        page_faults: value(told.page_faults.as_ref()).unwrap_or(0),
        major_page_faults: value(told.major_page_faults.as_ref()).unwrap_or(0),
        swap: swapped,
        swap_limit: swapped.zip(swap_left).map(|(used, left)| used.saturating_add(left)),
        ..MemoryUsage::default()
    })
}

fn interface(told: NetworkInterfaceUsage) -> Interface {
    let of = |one: &Option<UInt64Value>| value(one.as_ref()).unwrap_or(0);
    let traffic = |bytes, errors| Traffic { bytes: of(bytes), errors: of(errors), ..Traffic::default() };
    Interface {
        received: traffic(&told.rx_bytes, &told.rx_errors),
        sent: traffic(&told.tx_bytes, &told.tx_errors),
        name: told.name,
    }
}

fn value(told: Option<&UInt64Value>) -> Option<u64> {
    told.map(|told| told.value)
}
