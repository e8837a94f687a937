//! The files of cgroup v1.

use super::cgroup_files::{CgroupFileReader, device, field, number};
use super::{CgroupUsage, CpuUsage, Detail, DeviceIo, MemoryUsage, QuotaUsage, Tasks};

/// What the kernel writes for no limit is less than the largest number, by a page.
const UNLIMITED: u64 = 1 << 62;

/// What the files tell.
pub(super) fn parse(detail: Detail, read: CgroupFileReader<'_>) -> CgroupUsage {
    CgroupUsage {
        cpu: cpu(detail, read),
        memory: memory(detail, read),
        tasks: tasks(detail, read),
        io: if detail == Detail::Full { io(read) } else { Vec::new() },
        ..CgroupUsage::default()
    }
}

fn cpu(detail: Detail, read: CgroupFileReader<'_>) -> Option<CpuUsage> {
    let mut cpu = CpuUsage { total: number(read("cpuacct", "cpuacct.usage"))?, ..CpuUsage::default() };
    if detail == Detail::Full {
        cpu.user = number(read("cpuacct", "cpuacct.usage_user"));
        cpu.system = number(read("cpuacct", "cpuacct.usage_sys"));
        cpu.shares = number(read("cpu", "cpu.shares"));
        cpu.period = number(read("cpu", "cpu.cfs_period_us"));
        // Less than zero without one.
        cpu.quota_limit = number(read("cpu", "cpu.cfs_quota_us"));
        cpu.quota = read("cpu", "cpu.stat").map(|stat| QuotaUsage {
            periods: field(&stat, "nr_periods").unwrap_or(0),
            throttled_periods: field(&stat, "nr_throttled").unwrap_or(0),
            throttled_time: field(&stat, "throttled_time").unwrap_or(0),
            burst_periods: field(&stat, "nr_bursts").unwrap_or(0),
            burst_time: field(&stat, "burst_time").unwrap_or(0),
        });
    }
    Some(cpu)
}

fn memory(detail: Detail, read: CgroupFileReader<'_>) -> Option<MemoryUsage> {
    let usage = number(read("memory", "memory.usage_in_bytes"))?;
    let stat = read("memory", "memory.stat")?;
    let limited = |file| number(read("memory", file)).filter(|limit| *limit < UNLIMITED);
    let of = |key| field(&stat, key).unwrap_or(0);
    let limit = limited("memory.limit_in_bytes");
    let mut memory = MemoryUsage {
        usage,
        limit,
        // With what is in cgroups inside.
        inactive_file: of("total_inactive_file"),
        active_file: of("total_active_file"),
        rss: of("total_rss"),
        cache: of("total_cache"),
        mapped_file: of("total_mapped_file"),
        page_faults: of("total_pgfault"),
        major_page_faults: of("total_pgmajfault"),
        swap: field(&stat, "total_swap"),
        // The kernel limits memory and swap together.
        swap_limit: limited("memory.memsw.limit_in_bytes")
            .map(|both| both.saturating_sub(limit.unwrap_or(0))),
        ..MemoryUsage::default()
    };
    if detail == Detail::Full {
        memory.reservation = limited("memory.soft_limit_in_bytes");
        memory.limit_hits = number(read("memory", "memory.failcnt"));
        memory.peak = number(read("memory", "memory.max_usage_in_bytes"));
        memory.kernel = number(read("memory", "memory.kmem.usage_in_bytes"));
        memory.oom_kills = read("memory", "memory.oom_control").and_then(|text| field(&text, "oom_kill"));
    }
    Some(memory)
}

fn tasks(detail: Detail, read: CgroupFileReader<'_>) -> Option<Tasks> {
    if detail < Detail::Full {
        return None;
    }
    Some(Tasks { count: number(read("pids", "pids.current"))?, limit: number(read("pids", "pids.max")) })
}

fn io(read: CgroupFileReader<'_>) -> Vec<DeviceIo> {
    let mut all = Vec::new();
    for (file, is_bytes) in
        [("blkio.throttle.io_service_bytes_recursive", true), ("blkio.throttle.io_serviced_recursive", false)]
    {
        for line in read("blkio", file).unwrap_or_default().lines() {
            let mut words = line.split(' ');
            let (Some(name), Some(what), Some(count)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let Ok(count) = count.parse() else { continue };
            let device = device(&mut all, name);
            match (what, is_bytes) {
                ("Read", true) => device.read_bytes = count,
                ("Write", true) => device.written_bytes = count,
                ("Read", false) => device.reads = count,
                ("Write", false) => device.writes = count,
                _ => {}
            }
        }
    }
    all
}
