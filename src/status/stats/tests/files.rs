//! The files of cgroups, as kernels write them.

use std::collections::BTreeMap;

use super::super::cgroup_files::parse_usage;
use super::super::proc_files::PressureWaits;
use super::super::*;

/// A container with limits of CPU and memory, with cgroup v1 of Linux 6.18.
const V1: &[(&str, &str)] = &[
    ("cpuacct/cpuacct.usage", "61556567\n"),
    ("cpuacct/cpuacct.usage_user", "40000000\n"),
    ("cpuacct/cpuacct.usage_sys", "21556567\n"),
    ("cpu/cpu.shares", "102\n"),
    ("cpu/cpu.cfs_period_us", "100000\n"),
    ("cpu/cpu.cfs_quota_us", "20000\n"),
    ("cpu/cpu.stat", "nr_periods 25\nnr_throttled 3\nthrottled_time 120000000\nnr_bursts 1\nburst_time 5\n"),
    ("memory/memory.usage_in_bytes", "663552\n"),
    ("memory/memory.limit_in_bytes", "67108864\n"),
    ("memory/memory.memsw.limit_in_bytes", "134217728\n"),
    ("memory/memory.soft_limit_in_bytes", "9223372036854771712\n"),
    ("memory/memory.failcnt", "4\n"),
    ("memory/memory.max_usage_in_bytes", "1662976\n"),
    ("memory/memory.kmem.usage_in_bytes", "405504\n"),
    ("memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
    (
        "memory/memory.stat",
        "cache 0\nrss 49152\npgfault 2208\nhierarchical_memory_limit 67108864\ntotal_cache 8192\ntotal_rss 49152\n\
         total_mapped_file 4096\ntotal_swap 512\ntotal_pgfault 2208\ntotal_pgmajfault 1\ntotal_inactive_file 3552\n\
         total_active_file 100\n",
    ),
    ("memory/cgroup.procs", "4711\n4712\n"),
    ("pids/pids.current", "5\n"),
    ("pids/pids.max", "max\n"),
    (
        "blkio/blkio.throttle.io_service_bytes_recursive",
        "254:0 Read 4096\n254:0 Write 8192\n254:0 Sync 1\nTotal 12288\n",
    ),
    ("blkio/blkio.throttle.io_serviced_recursive", "254:0 Read 1\n254:0 Write 2\nTotal 3\n"),
];

/// The same, with cgroup v2.
const V2: &[(&str, &str)] = &[
    (
        "cpu/cpu.stat",
        "usage_usec 61556\nuser_usec 40000\nsystem_usec 21556\nnice_usec 0\ncore_sched.force_idle_usec 0\n\
         nr_periods 25\nnr_throttled 3\nthrottled_usec 120000\nnr_bursts 1\nburst_usec 5\n",
    ),
    ("cpu/cpu.weight", "4\n"),
    ("cpu/cpu.max", "20000 100000\n"),
    (
        "cpu/cpu.pressure",
        "some avg10=1.00 avg60=0.50 avg300=0.10 total=1234\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=12\n",
    ),
    ("memory/memory.current", "663552\n"),
    ("memory/memory.max", "67108864\n"),
    ("memory/memory.swap.current", "512\n"),
    ("memory/memory.swap.max", "67108864\n"),
    ("memory/memory.low", "0\n"),
    ("memory/memory.peak", "1662976\n"),
    ("memory/memory.events", "low 0\nhigh 0\nmax 4\noom 2\noom_kill 2\noom_group_kill 0\n"),
    (
        "memory/memory.stat",
        "anon 49152\nfile 8192\nkernel 405504\nfile_mapped 4096\ninactive_anon 0\ninactive_file 3552\nactive_file 100\n\
         pgfault 2208\npgmajfault 1\n",
    ),
    ("memory/cgroup.procs", "4711\n4712\n"),
    ("pids/pids.current", "5\n"),
    ("pids/pids.max", "max\n"),
    ("io/io.stat", "254:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n"),
    (
        "io/io.pressure",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=3\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=2\n",
    ),
];

fn parse(files: &[(&str, &str)], unified: bool, detail: Detail) -> CgroupUsage {
    let files: BTreeMap<_, _> = files.iter().copied().collect();
    parse_usage(unified, detail, &|controller, file| {
        files.get(&*format!("{controller}/{file}")).map(|text| (*text).to_owned())
    })
}

#[test]
fn both_versions_tell_the_same() {
    let (v1, v2) = (parse(V1, false, Detail::Full), parse(V2, true, Detail::Full));
    let cpu = v1.cpu.unwrap();
    assert_eq!((cpu.total, cpu.user, cpu.system), (61_556_567, Some(40_000_000), Some(21_556_567)));
    let quota = QuotaUsage {
        periods: 25,
        throttled_periods: 3,
        throttled_time: 120_000_000,
        burst_periods: 1,
        burst_time: 5,
    };
    assert_eq!((cpu.quota, cpu.quota_limit, cpu.period), (Some(quota), Some(20_000), Some(100_000)));
    assert_eq!((cpu.shares, cpu.pressure), (Some(102), None));
    let of_v2 = v2.cpu.unwrap();
    assert_eq!((of_v2.total, of_v2.user, of_v2.system), (61_556_000, Some(40_000_000), Some(21_556_000)));
    assert_eq!(of_v2.quota, Some(QuotaUsage { burst_time: 5000, ..quota }));
    assert_eq!((of_v2.quota_limit, of_v2.period, of_v2.shares), (Some(20_000), Some(100_000), Some(80)));
    let some = PressureWaits { avg10: 1.0, avg60: 0.5, avg300: 0.1, total: 1234 };
    assert_eq!(of_v2.pressure.unwrap().some, some);
    let memory = MemoryUsage {
        usage: 663_552,
        limit: Some(64 << 20),
        reservation: None,
        inactive_file: 3552,
        active_file: 100,
        rss: 49_152,
        cache: 8192,
        mapped_file: 4096,
        page_faults: 2208,
        major_page_faults: 1,
        swap: Some(512),
        swap_limit: Some(64 << 20),
        limit_hits: Some(4),
        peak: Some(1_662_976),
        kernel: Some(405_504),
        oom_kills: Some(2),
        pressure: None,
    };
    assert_eq!(memory.working_set(), 660_000);
    assert_eq!(v1.memory.as_ref(), Some(&memory));
    assert_eq!(v2.memory.as_ref(), Some(&memory));
    let io = DeviceIo { device: "254:0".into(), read_bytes: 4096, written_bytes: 8192, reads: 1, writes: 2 };
    for usage in [(v1.io, v1.tasks, v1.processes), (v2.io, v2.tasks, v2.processes)] {
        assert_eq!(usage, (vec![io.clone()], Some(Tasks { count: 5, limit: None }), Some(2)));
    }
    assert_eq!((v1.io_pressure, v2.io_pressure.unwrap().full.total), (None, 2));
}

#[test]
fn no_more_is_read_than_is_shown() {
    for (files, unified) in [(V1, false), (V2, true)] {
        for (detail, most) in [(Detail::Usage, 8), (Detail::Summary, 11), (Detail::Full, 24)] {
            let read = std::cell::RefCell::new(Vec::new());
            let map: BTreeMap<_, _> = files.iter().copied().collect();
            parse_usage(unified, detail, &|controller, file| {
                read.borrow_mut().push(file);
                map.get(&*format!("{controller}/{file}")).map(|text| (*text).to_owned())
            });
            assert!(read.borrow().len() <= most, "{detail:?}: {:?}", read.borrow());
        }
    }
}

#[test]
fn limits_that_are_none_and_files_that_are_not_there() {
    let unlimited = [
        ("memory/memory.usage_in_bytes", "1\n"),
        ("memory/memory.stat", "total_rss 1\n"),
        ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ("memory/memory.memsw.limit_in_bytes", "9223372036854771712\n"),
        ("cpuacct/cpuacct.usage", "1\n"),
        ("cpu/cpu.cfs_quota_us", "-1\n"),
    ];
    let usage = parse(&unlimited, false, Detail::Full);
    let (memory, cpu) = (usage.memory.unwrap(), usage.cpu.unwrap());
    assert_eq!((memory.limit, memory.swap_limit, memory.available(), memory.swap), (None, None, None, None));
    assert_eq!((cpu.quota_limit, cpu.quota), (None, None));
    let unlimited = [
        ("memory/memory.current", "1\n"),
        ("memory/memory.stat", "anon 1\n"),
        ("memory/memory.max", "max\n"),
        ("cpu/cpu.stat", "usage_usec 1\n"),
        ("cpu/cpu.max", "max 100000\n"),
    ];
    let usage = parse(&unlimited, true, Detail::Full);
    let (memory, cpu) = (usage.memory.unwrap(), usage.cpu.unwrap());
    assert_eq!((memory.limit, memory.swap_limit, cpu.quota_limit), (None, None, None));
    for unified in [false, true] {
        assert_eq!(parse(&[], unified, Detail::Full), CgroupUsage::default());
    }
}
