//! The files of cgroup v2.

use super::cgroup_files::{CgroupFileReader, device, field, number, pressure};
use super::{CgroupUsage, CpuUsage, Detail, DeviceIo, MemoryUsage, QuotaUsage, Tasks};

const MICROSECOND: u64 = 1000;

/// What the files tell.
pub(super) fn parse(detail: Detail, read: CgroupFileReader<'_>) -> CgroupUsage {
    let is_wanted = detail >= Detail::Summary;
    CgroupUsage {
        cpu: cpu(detail, read),
        memory: memory(detail, read),
        tasks: tasks(detail, read),
        io_pressure: is_wanted.then(|| pressure(read, "io", "io.pressure")).flatten(),
        io: if detail == Detail::Full { io(read) } else { Vec::new() },
        processes: None,
    }
}

fn cpu(detail: Detail, read: CgroupFileReader<'_>) -> Option<CpuUsage> {
    let stat = read("cpu", "cpu.stat")?;
    let time = |key| field(&stat, key).map(|time| time.saturating_mul(MICROSECOND));
    let mut cpu = CpuUsage {
        total: time("usage_usec")?,
        user: time("user_usec"),
        system: time("system_usec"),
        // Only where the controller is there.
        quota: field(&stat, "nr_periods").map(|periods| QuotaUsage {
            periods,
            throttled_periods: field(&stat, "nr_throttled").unwrap_or(0),
            throttled_time: time("throttled_usec").unwrap_or(0),
            burst_periods: field(&stat, "nr_bursts").unwrap_or(0),
            burst_time: time("burst_usec").unwrap_or(0),
        }),
        ..CpuUsage::default()
    };
    if detail >= Detail::Summary {
        cpu.pressure = pressure(read, "cpu", "cpu.pressure");
    }
    if detail == Detail::Full {
        let max = read("cpu", "cpu.max").unwrap_or_default();
        if let Some((quota, period)) = max.trim().split_once(' ') {
            cpu.quota_limit = quota.parse().ok();
            cpu.period = period.parse().ok();
        }
        cpu.shares = number(read("cpu", "cpu.weight")).map(shares);
    }
    Some(cpu)
}

/// The shares that runc makes this weight of.
fn shares(weight: u64) -> u64 {
    2 + weight.saturating_sub(1).saturating_mul(262_142) / 9999
}

fn memory(detail: Detail, read: CgroupFileReader<'_>) -> Option<MemoryUsage> {
    // The root has no such file: what it uses is told by the machine.
    let usage = number(read("memory", "memory.current"));
    let stat = read("memory", "memory.stat")?;
    let of = |key| field(&stat, key).unwrap_or(0);
    let mut memory = MemoryUsage {
        usage: usage.unwrap_or(0),
        // "max" is no number.
        limit: number(read("memory", "memory.max")),
        inactive_file: of("inactive_file"),
        active_file: of("active_file"),
        rss: of("anon"),
        cache: of("file"),
        mapped_file: of("file_mapped"),
        page_faults: of("pgfault"),
        major_page_faults: of("pgmajfault"),
        swap: number(read("memory", "memory.swap.current")),
        swap_limit: number(read("memory", "memory.swap.max")),
        ..MemoryUsage::default()
    };
    if detail >= Detail::Summary {
        memory.pressure = pressure(read, "memory", "memory.pressure");
    }
    if detail == Detail::Full {
        let events = read("memory", "memory.events").unwrap_or_default();
        memory.reservation = number(read("memory", "memory.low")).filter(|low| *low > 0);
        memory.limit_hits = field(&events, "max");
        memory.peak = number(read("memory", "memory.peak"));
        memory.kernel = field(&stat, "kernel");
        memory.oom_kills = field(&events, "oom_kill");
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
    for line in read("io", "io.stat").unwrap_or_default().lines() {
        let Some((name, counts)) = line.split_once(' ') else { continue };
        let count = |key| {
            let value = counts.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
            value.and_then(|value| value.parse().ok()).unwrap_or(0)
        };
        let device = device(&mut all, name);
        device.read_bytes = count("rbytes");
        device.written_bytes = count("wbytes");
        device.reads = count("rios");
        device.writes = count("wios");
    }
    all
}
