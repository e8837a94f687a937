//! The JSON of `/stats/summary`: kubelet's `stats/v1alpha1`, its names and their order.

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::pod::state::whole_second;

/// A moment, as the API writes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Time(pub(super) Timestamp);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&whole_second(self.0))
    }
}

/// The whole answer.
#[derive(Debug, Serialize)]
pub(super) struct Summary<'a> {
    pub(super) node: NodeStats<'a>,
    pub(super) pods: Vec<PodStats<'a>>,
}

/// The node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeStats<'a> {
    pub(super) node_name: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) system_containers: Vec<ContainerStats<'a>>,
    pub(super) start_time: Option<Time>,
    #[serde(flatten)]
    pub(super) usage: UsageStats,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) network: Option<NetworkStats<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fs: Option<FsStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) runtime: Option<RuntimeStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rlimit: Option<RlimitStats>,
}

/// What a cgroup uses: parts of the node's, a pod's and a container's.
#[derive(Debug, Default, Serialize)]
pub(super) struct UsageStats {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu: Option<CpuStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<MemoryStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) io: Option<IoStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) swap: Option<SwapStats>,
}

/// Processes and threads.
#[derive(Debug, Serialize)]
pub(super) struct RlimitStats {
    pub(super) time: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) maxpid: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) curproc: Option<u64>,
}

/// The runtime's file systems.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RuntimeStats {
    pub(super) image_fs: FsStats,
    pub(super) container_fs: FsStats,
}

/// A pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodStats<'a> {
    pub(super) pod_ref: PodReference<'a>,
    pub(super) start_time: Time,
    pub(super) containers: Vec<ContainerStats<'a>>,
    #[serde(flatten)]
    pub(super) usage: UsageStats,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) network: Option<NetworkStats<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) volume: Vec<VolumeStats<'a>>,
    #[serde(rename = "ephemeral-storage", skip_serializing_if = "Option::is_none")]
    pub(super) ephemeral_storage: Option<FsStats>,
    #[serde(rename = "process_stats", skip_serializing_if = "Option::is_none")]
    pub(super) process_stats: Option<ProcessStats>,
}

/// Which pod.
#[derive(Debug, Serialize)]
pub(super) struct PodReference<'a> {
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
    pub(super) uid: &'a str,
}

/// Processes.
#[derive(Debug, Serialize)]
pub(super) struct ProcessStats {
    pub(super) process_count: u64,
}

/// A container, or a part of the system.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContainerStats<'a> {
    pub(super) name: &'a str,
    pub(super) start_time: Option<Time>,
    #[serde(flatten)]
    pub(super) usage: UsageStats,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rootfs: Option<FsStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) logs: Option<FsStats>,
}

/// CPU.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CpuStats {
    pub(super) time: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage_nano_cores: Option<u64>,
    pub(super) usage_core_nano_seconds: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) psi: Option<PsiStats>,
}

/// Memory.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MemoryStats {
    pub(super) time: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) available_bytes: Option<u64>,
    pub(super) usage_bytes: u64,
    pub(super) working_set_bytes: u64,
    pub(super) rss_bytes: u64,
    pub(super) page_faults: u64,
    pub(super) major_page_faults: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) psi: Option<PsiStats>,
}

/// Disks.
#[derive(Debug, Serialize)]
pub(super) struct IoStats {
    pub(super) time: Time,
    pub(super) psi: PsiStats,
}

/// Pressure.
#[derive(Debug, Serialize)]
pub(super) struct PsiStats {
    pub(super) full: PsiData,
    pub(super) some: PsiData,
}

/// Waits.
#[derive(Debug, Serialize)]
pub(super) struct PsiData {
    /// In nanoseconds.
    pub(super) total: u64,
    pub(super) avg10: f64,
    pub(super) avg60: f64,
    pub(super) avg300: f64,
}

/// Swap.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SwapStats {
    pub(super) time: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) swap_available_bytes: Option<u64>,
    pub(super) swap_usage_bytes: u64,
}

/// Networks.
#[derive(Debug, Serialize)]
pub(super) struct NetworkStats<'a> {
    pub(super) time: Time,
    /// The main one's, once more.
    #[serde(flatten)]
    pub(super) main: Option<InterfaceStats<'a>>,
    pub(super) interfaces: Vec<InterfaceStats<'a>>,
}

/// One interface.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InterfaceStats<'a> {
    pub(super) name: &'a str,
    pub(super) rx_bytes: u64,
    pub(super) rx_errors: u64,
    pub(super) tx_bytes: u64,
    pub(super) tx_errors: u64,
}

/// One volume.
#[derive(Debug, Serialize)]
pub(super) struct VolumeStats<'a> {
    #[serde(flatten)]
    pub(super) fs: FsStats,
    pub(super) name: &'a str,
}

/// A file system, and what is used of it.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FsStats {
    pub(super) time: Time,
    pub(super) available_bytes: u64,
    pub(super) capacity_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) used_bytes: Option<u64>,
    pub(super) inodes_free: u64,
    pub(super) inodes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) inodes_used: Option<u64>,
}
