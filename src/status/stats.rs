//! What the node, its pods and their containers use: what was read, the text of the files that it is read from, and the pages
//! that show it.
//!
//! Invariant: pure; what could not be read is absent, never zero. Must not: read anything, or remember one reading for the next.

pub(crate) mod cadvisor_page;
pub(crate) mod cgroup_files;
mod cgroup_v1;
mod cgroup_v2;
pub(crate) mod proc_files;
pub(crate) mod resource_page;
pub(crate) mod running_pods;
mod schema;
pub(crate) mod summary;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::pod::{PodName, PodUid};
pub(crate) use proc_files::{Interface, Pressure};

/// How much is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Detail {
    /// CPU, memory, swap and processes: `/metrics/resource`.
    Usage,
    /// And disk, network and pressure: `/stats/summary`.
    Summary,
    /// And what only `/metrics/cadvisor` shows.
    Full,
}

/// Everything, at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reading {
    /// When.
    pub at: Timestamp,
    /// The node.
    pub node: NodeReading,
    /// The pods of which a container runs.
    pub pods: Vec<PodReading>,
}

/// The node, at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeReading {
    /// Its name.
    pub name: String,
    /// What it is.
    pub machine: Machine,
    /// All of it: the root of the cgroups.
    pub all: CgroupReading,
    /// The cgroups of all pods, and of classes of pods.
    pub groups: Vec<CgroupReading>,
    /// The agent, the runtime and the pods, by kubelet's names.
    pub system: Vec<SystemContainer>,
    /// Its interfaces.
    pub network: Vec<Interface>,
    /// The file system of the agent's directory.
    pub fs: Option<FsReading>,
    /// That of images.
    pub image_fs: Option<FsReading>,
    /// How many processes and threads there can be.
    pub max_pids: Option<u64>,
    /// How many there are.
    pub pids: Option<u64>,
}

/// What the machine is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Machine {
    /// When it was started.
    pub booted_at: Option<Timestamp>,
    /// Which boot it is.
    pub boot_id: String,
    /// Which machine it is.
    pub machine_id: String,
    /// As the firmware calls it.
    pub system_uuid: String,
    /// CPUs that are online.
    pub cores: u64,
    /// Cores, without their siblings.
    pub physical_cores: u64,
    /// Sockets.
    pub sockets: u64,
    /// Bytes.
    pub memory: u64,
    /// Bytes.
    pub swap: u64,
    /// Bytes of memory that is set aside for huge pages.
    pub huge_pages: u64,
    /// The kernel's version.
    pub kernel: String,
    /// The name of the operating system.
    pub os: String,
    /// Names of block devices, by their numbers.
    pub devices: BTreeMap<String, String>,
}

/// A part of the system that is measured as a whole.
#[derive(Debug, Clone, Default)]
pub(crate) struct SystemContainer {
    /// kubelet's name of it.
    pub name: &'static str,
    /// Since when it is there.
    pub started_at: Option<Timestamp>,
    /// What it uses.
    pub usage: CgroupReading,
}

/// A pod, at one moment.
#[derive(Debug, Clone)]
pub(crate) struct PodReading {
    /// Its name.
    pub name: PodName,
    /// Its instance.
    pub uid: PodUid,
    /// When it began.
    pub started_at: Timestamp,
    /// All of it; none if pods have no cgroups of their own.
    pub all: Option<CgroupReading>,
    /// What holds its network.
    pub sandbox: Option<SandboxReading>,
    /// Its interfaces; those of the node if it is in its network.
    pub network: Vec<Interface>,
    /// The containers that run.
    pub containers: Vec<ContainerReading>,
    /// Its volumes, as far as they can be measured.
    pub volumes: Vec<VolumeReading>,
    /// The file that tells its name.
    pub etc_hosts: Option<DiskUsage>,
}

/// What holds a pod's network.
#[derive(Debug, Clone, Default)]
pub(crate) struct SandboxReading {
    /// The runtime's id.
    pub id: String,
    /// What it uses.
    pub usage: CgroupReading,
}

/// A container, at one moment.
#[derive(Debug, Clone)]
pub(crate) struct ContainerReading {
    /// Its name in the pod.
    pub name: String,
    /// The runtime's id.
    pub id: String,
    /// The image as the runtime resolved it.
    pub image: String,
    /// Since when it runs.
    pub started_at: Timestamp,
    /// What it uses.
    pub usage: CgroupReading,
    /// Its writable layer.
    pub layer: Option<DiskUsage>,
    /// Its logs.
    pub logs: Option<DiskUsage>,
}

/// A volume, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VolumeReading {
    /// Its name in the pod.
    pub name: String,
    /// Its size, and what it takes.
    pub fs: FsReading,
    /// Whether it counts as storage of the pod on the node's disk.
    pub is_ephemeral: bool,
}

/// Bytes and inodes that something takes, and when they were counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskUsage {
    /// When.
    pub at: Timestamp,
    /// Bytes; none if they are not known.
    pub bytes: Option<u64>,
    /// Inodes; none if they are not known.
    pub inodes: Option<u64>,
}

/// A file system and what of it is used, by all or by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FsReading {
    /// Its size.
    pub size: FsSize,
    /// What is used.
    pub used: DiskUsage,
}

/// What a file system has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FsSize {
    /// Bytes.
    pub capacity: u64,
    /// Bytes that anybody may still use.
    pub available: u64,
    /// Bytes that nobody uses, those that are kept for root too.
    pub free: u64,
    /// Inodes.
    pub inodes: u64,
    /// Inodes that are free.
    pub inodes_free: u64,
}

/// What a cgroup uses, and which it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CgroupReading {
    /// Its path, from the root.
    pub path: String,
    /// What was read.
    pub usage: CgroupUsage,
    /// CPU in billionths of a core, over the time since the reading before.
    pub nano_cores: Option<u64>,
}

/// What the files of a cgroup tell.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CgroupUsage {
    /// CPU.
    pub cpu: Option<CpuUsage>,
    /// Memory and swap.
    pub memory: Option<MemoryUsage>,
    /// Processes, without those of cgroups inside.
    pub processes: Option<u64>,
    /// Processes and threads, and how many there may be.
    pub tasks: Option<Tasks>,
    /// Waits for disks.
    pub io_pressure: Option<Pressure>,
    /// Reads and writes, by device.
    pub io: Vec<DeviceIo>,
}

/// CPU, so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CpuUsage {
    /// Nanoseconds.
    pub total: u64,
    /// Nanoseconds in programs.
    pub user: Option<u64>,
    /// Nanoseconds in the kernel.
    pub system: Option<u64>,
    /// Where there is a quota: what it did.
    pub quota: Option<QuotaUsage>,
    /// The quota in microseconds; none without one.
    pub quota_limit: Option<u64>,
    /// The quota's period in microseconds.
    pub period: Option<u64>,
    /// CPU shares, as cgroup v1 counts them.
    pub shares: Option<u64>,
    /// Waits for CPUs.
    pub pressure: Option<Pressure>,
}

/// What a quota of CPU did, so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct QuotaUsage {
    /// Periods in which something ran.
    pub periods: u64,
    /// Those in which it was held back.
    pub throttled_periods: u64,
    /// For how many nanoseconds.
    pub throttled_time: u64,
    /// Periods in which it ran beyond the quota.
    pub burst_periods: u64,
    /// For how many nanoseconds.
    pub burst_time: u64,
}

/// Memory and swap, in bytes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct MemoryUsage {
    /// All that is charged.
    pub usage: u64,
    /// The limit; none without one.
    pub limit: Option<u64>,
    /// Below which it is protected; none without one.
    pub reservation: Option<u64>,
    /// Files that nobody has used for a while: what the kernel takes back first.
    pub inactive_file: u64,
    /// Files that are in use.
    pub active_file: u64,
    /// Memory that is no file's.
    pub rss: u64,
    /// Memory of files.
    pub cache: u64,
    /// Files that are mapped.
    pub mapped_file: u64,
    /// Page faults, so far.
    pub page_faults: u64,
    /// Those that had to wait for a disk.
    pub major_page_faults: u64,
    /// Swap in use; none if it is not counted.
    pub swap: Option<u64>,
    /// The limit of swap; none without one.
    pub swap_limit: Option<u64>,
    /// How often the limit was hit.
    pub limit_hits: Option<u64>,
    /// The most that was ever charged.
    pub peak: Option<u64>,
    /// The kernel's own.
    pub kernel: Option<u64>,
    /// Processes that were killed for want of memory.
    pub oom_kills: Option<u64>,
    /// Waits for memory.
    pub pressure: Option<Pressure>,
}

impl MemoryUsage {
    /// What cannot be taken back without loss, as kubelet counts it.
    pub(crate) fn working_set(&self) -> u64 {
        self.usage.saturating_sub(self.inactive_file)
    }

    /// What is left of the limit; none without one.
    pub(crate) fn available(&self) -> Option<u64> {
        self.limit.map(|limit| limit.saturating_sub(self.working_set()))
    }
}

/// Processes and threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tasks {
    /// How many there are.
    pub count: u64,
    /// How many there may be; none without a limit.
    pub limit: Option<u64>,
}

/// Reads and writes of one device, so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DeviceIo {
    /// Its numbers: `8:0`.
    pub device: String,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
}

impl Reading {
    /// Every cgroup that was read.
    pub(crate) fn cgroups(&self) -> impl Iterator<Item = &CgroupReading> {
        let (node, pods) = (&self.node, &self.pods);
        let system = node.system.iter().map(|one| &one.usage);
        let of_pods = pods.iter().flat_map(|pod| {
            let sandbox = pod.sandbox.as_ref().map(|sandbox| &sandbox.usage);
            pod.all.iter().chain(sandbox).chain(pod.containers.iter().map(|container| &container.usage))
        });
        [&node.all].into_iter().chain(&node.groups).chain(system).chain(of_pods)
    }

    /// Every cgroup that was read.
    pub(crate) fn cgroups_mut(&mut self) -> impl Iterator<Item = &mut CgroupReading> {
        let (node, pods) = (&mut self.node, &mut self.pods);
        let system = node.system.iter_mut().map(|one| &mut one.usage);
        let of_pods = pods.iter_mut().flat_map(|pod| {
            let sandbox = pod.sandbox.as_mut().map(|sandbox| &mut sandbox.usage);
            let containers = pod.containers.iter_mut().map(|container| &mut container.usage);
            pod.all.iter_mut().chain(sandbox).chain(containers)
        });
        [&mut node.all].into_iter().chain(&mut node.groups).chain(system).chain(of_pods)
    }
}

/// Makes what was read of the root of the cgroups the machine's: it has no limits, and with cgroup v2 no sum of memory.
pub(crate) fn as_node(usage: &mut CgroupUsage, machine: &Machine, free: u64, free_swap: u64) {
    let memory = usage.memory.get_or_insert_default();
    if memory.usage == 0 {
        memory.usage = machine.memory.saturating_sub(free);
    }
    memory.limit = Some(machine.memory);
    memory.swap = Some(machine.swap.saturating_sub(free_swap));
    memory.swap_limit = Some(machine.swap);
}

/// CPU in billionths of a core, from two counts of nanoseconds and the time between; none if they tell nothing.
pub(crate) fn nano_cores(before: u64, now: u64, between: Duration) -> Option<u64> {
    // A cgroup that was made anew begins at zero.
    let used = u128::from(now.checked_sub(before)?);
    let rate = (used * 1_000_000_000).checked_div(between.as_nanos())?;
    u64::try_from(rate).ok()
}
