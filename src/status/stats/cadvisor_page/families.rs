//! The families of which every cgroup has one series.

use crate::status::metrics::as_f64;
use crate::status::metrics::exposition::FamilyKind::{self, Counter, Gauge};
use crate::status::stats::{CgroupUsage, CpuUsage, MemoryUsage, QuotaUsage};

type Family = (&'static str, FamilyKind, &'static str, fn(&CgroupUsage) -> Option<f64>);

fn cpu(usage: &CgroupUsage, figure: fn(&CpuUsage) -> Option<u64>) -> Option<f64> {
    figure(usage.cpu.as_ref()?).map(as_f64)
}

fn seconds(nanoseconds: f64) -> f64 {
    nanoseconds / 1e9
}

/// Only where there is a quota, as with cAdvisor.
fn quota(usage: &CgroupUsage, figure: fn(&QuotaUsage) -> u64) -> Option<f64> {
    let cpu = usage.cpu.as_ref()?;
    cpu.quota_limit.and(cpu.quota.as_ref()).map(|quota| as_f64(figure(quota)))
}

fn memory(usage: &CgroupUsage, figure: fn(&MemoryUsage) -> Option<u64>) -> Option<f64> {
    figure(usage.memory.as_ref()?).map(as_f64)
}

/// Names and texts are cAdvisor's.
pub(super) const CGROUP_FAMILIES: &[Family] = &[
    ("container_cpu_cfs_burst_periods_total", Counter, "Number of periods when burst occurs.", |of| {
        quota(of, |quota| quota.burst_periods)
    }),
    (
        "container_cpu_cfs_burst_seconds_total",
        Counter,
        "Total time duration the container has been bursted.",
        |of| quota(of, |quota| quota.burst_time).map(seconds),
    ),
    ("container_cpu_cfs_periods_total", Counter, "Number of elapsed enforcement period intervals.", |of| {
        quota(of, |quota| quota.periods)
    }),
    ("container_cpu_cfs_throttled_periods_total", Counter, "Number of throttled period intervals.", |of| {
        quota(of, |quota| quota.throttled_periods)
    }),
    (
        "container_cpu_cfs_throttled_seconds_total",
        Counter,
        "Total time duration the container has been throttled.",
        |of| quota(of, |quota| quota.throttled_time).map(seconds),
    ),
    (
        "container_cpu_system_seconds_total",
        Counter,
        "Cumulative system cpu time consumed in seconds.",
        |of| cpu(of, |cpu| cpu.system).map(seconds),
    ),
    ("container_cpu_user_seconds_total", Counter, "Cumulative user cpu time consumed in seconds.", |of| {
        cpu(of, |cpu| cpu.user).map(seconds)
    }),
    ("container_memory_cache", Gauge, "Number of bytes of page cache memory.", |of| {
        memory(of, |memory| Some(memory.cache))
    }),
    ("container_memory_failcnt", Counter, "Number of memory usage hits limits", |of| {
        memory(of, |memory| memory.limit_hits)
    }),
    ("container_memory_kernel_usage", Gauge, "Size of kernel memory allocated in bytes.", |of| {
        memory(of, |memory| memory.kernel)
    }),
    ("container_memory_mapped_file", Gauge, "Size of memory mapped files in bytes.", |of| {
        memory(of, |memory| Some(memory.mapped_file))
    }),
    ("container_memory_max_usage_bytes", Gauge, "Maximum memory usage recorded in bytes", |of| {
        memory(of, |memory| memory.peak)
    }),
    ("container_memory_rss", Gauge, "Size of RSS in bytes.", |of| memory(of, |memory| Some(memory.rss))),
    ("container_memory_swap", Gauge, "Container swap usage in bytes.", |of| memory(of, |memory| memory.swap)),
    ("container_memory_total_active_file_bytes", Gauge, "Current total active file in bytes.", |of| {
        memory(of, |memory| Some(memory.active_file))
    }),
    ("container_memory_total_inactive_file_bytes", Gauge, "Current total inactive file in bytes.", |of| {
        memory(of, |memory| Some(memory.inactive_file))
    }),
    (
        "container_memory_usage_bytes",
        Gauge,
        "Current memory usage in bytes, including all memory regardless of when it was accessed",
        |of| memory(of, |memory| Some(memory.usage)),
    ),
    ("container_memory_working_set_bytes", Gauge, "Current working set in bytes.", |of| {
        memory(of, |memory| Some(memory.working_set()))
    }),
    (
        "container_oom_events_total",
        Counter,
        "Count of out of memory events observed for the container",
        |of| memory(of, |memory| memory.oom_kills),
    ),
    ("container_processes", Gauge, "Number of processes running inside the container.", |of| {
        of.processes.map(as_f64)
    }),
    ("container_spec_cpu_period", Gauge, "CPU period of the container.", |of| cpu(of, |cpu| cpu.period)),
    ("container_spec_cpu_quota", Gauge, "CPU quota of the container.", |of| cpu(of, |cpu| cpu.quota_limit)),
    ("container_spec_cpu_shares", Gauge, "CPU share of the container.", |of| cpu(of, |cpu| cpu.shares)),
    // Zero for no limit, as cAdvisor writes it.
    ("container_spec_memory_limit_bytes", Gauge, "Memory limit for the container.", |of| {
        memory(of, |memory| Some(memory.limit.unwrap_or(0)))
    }),
    (
        "container_spec_memory_reservation_limit_bytes",
        Gauge,
        "Memory reservation limit for the container.",
        |of| memory(of, |memory| Some(memory.reservation.unwrap_or(0))),
    ),
    ("container_spec_memory_swap_limit_bytes", Gauge, "Memory swap limit for the container.", |of| {
        memory(of, |memory| Some(memory.swap_limit.unwrap_or(0)))
    }),
    ("container_threads", Gauge, "Number of threads running inside the container", |of| {
        of.tasks.map(|tasks| as_f64(tasks.count))
    }),
    (
        "container_threads_max",
        Gauge,
        "Maximum number of threads allowed inside the container, infinity if value is zero",
        |of| of.tasks.map(|tasks| as_f64(tasks.limit.unwrap_or(0))),
    ),
];
