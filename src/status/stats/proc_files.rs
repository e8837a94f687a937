//! What `/proc` tells of networks, pressure, memory and the boot. Pure: texts in, figures out.

use jiff::Timestamp;

/// What no pod or person asks for, as kubelet leaves it out.
const NOT_SHOWN: [&str; 3] = ["lo", "veth", "docker"];

/// Ticks per second in `/proc/PID/stat`: part of the kernel's ABI.
const USER_HZ: i64 = 100;

/// One network interface, so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Interface {
    /// Its name.
    pub name: String,
    /// What came in.
    pub received: Traffic,
    /// What went out.
    pub sent: Traffic,
}

/// One direction of an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// Bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Those that were damaged.
    pub errors: u64,
    /// Those that were thrown away.
    pub dropped: u64,
}

/// The interfaces of `/proc/PID/net/dev`, without loopback and what belongs to pods.
pub(crate) fn parse_interfaces(text: &str) -> Vec<Interface> {
    text.lines().filter_map(parse_interface).collect()
}

fn parse_interface(line: &str) -> Option<Interface> {
    let (name, counts) = line.rsplit_once(": ").or_else(|| line.rsplit_once(':'))?;
    let name = name.trim();
    if NOT_SHOWN.iter().any(|prefix| name.starts_with(prefix)) {
        return None;
    }
    let counts: Vec<u64> = counts.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let traffic = |from: usize| {
        let of = counts.get(from..from + 4)?;
        Some(Traffic { bytes: of[0], packets: of[1], errors: of[2], dropped: of[3] })
    };
    Some(Interface { name: name.to_owned(), received: traffic(0)?, sent: traffic(8)? })
}

/// Waits for something that there is too little of.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Pressure {
    /// Of at least one task.
    pub some: PressureWaits,
    /// Of all tasks at the same time.
    pub full: PressureWaits,
}

/// Waits: per cent of the last seconds, and microseconds so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct PressureWaits {
    /// Over 10 seconds.
    pub avg10: f64,
    /// Over 60 seconds.
    pub avg60: f64,
    /// Over 300 seconds.
    pub avg300: f64,
    /// Microseconds.
    pub total: u64,
}

/// A file of pressure, of the machine or of a cgroup.
pub(crate) fn parse_pressure(text: &str) -> Option<Pressure> {
    let waits = |key: &str| {
        let words = text.lines().find_map(|line| line.strip_prefix(key))?;
        let value = |key: &str| words.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        let average = |key| value(key)?.parse().ok();
        Some(PressureWaits {
            avg10: average("avg10")?,
            avg60: average("avg60")?,
            avg300: average("avg300")?,
            total: value("total")?.parse().ok()?,
        })
    };
    // Kernels before 5.13 know no full pressure of CPUs.
    Some(Pressure { some: waits("some ")?, full: waits("full ").unwrap_or_default() })
}

/// The bytes of a line of `/proc/meminfo`.
pub(crate) fn memory_field(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let mut words = line.split_whitespace();
    let count: u64 = words.next()?.parse().ok()?;
    Some(if words.next() == Some("kB") { count.saturating_mul(1024) } else { count })
}

/// When the machine was started, from `/proc/stat`.
pub(crate) fn boot_time(stat: &str) -> Option<Timestamp> {
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    Timestamp::from_second(seconds.trim().parse().ok()?).ok()
}

/// When a process was started, from its `/proc/PID/stat` and `/proc/stat`.
pub(crate) fn started_at(stat: &str, boot: &str) -> Option<Timestamp> {
    // The name, in brackets, may hold brackets too; what follows is field 3, and the start field 22.
    let ticks: i64 = stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()?;
    Timestamp::from_second(boot_time(boot)?.as_second().checked_add(ticks / USER_HZ)?).ok()
}

/// How many processes and threads there are, from `/proc/loadavg`.
pub(crate) fn task_count(loadavg: &str) -> Option<u64> {
    loadavg.split(' ').nth(3)?.split_once('/')?.1.parse().ok()
}

/// The cgroup of a process, from its `/proc/PID/cgroup`: that of the memory controller, or of cgroup v2.
pub(crate) fn cgroup_of(text: &str, unified: bool) -> Option<&str> {
    text.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let wanted = if unified {
            controllers.is_empty()
        } else {
            controllers.split(',').any(|controller| controller == "memory")
        };
        wanted.then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NET_DEV: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:  100       2    0    0    0     0          0         0      100       2    0    0    0     0       0          0
  eth0: 2282      27    1    3    0     0          0         0      682       9    2    4    0     0       0          0
veth12: 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5
  br0:1: 7 6 5 4 0 0 0 0 3 2 1 0 0 0 0 0
  odd: 1 2 3
";

    #[test]
    fn interfaces() {
        let found = parse_interfaces(NET_DEV);
        let traffic = |bytes, packets, errors, dropped| Traffic { bytes, packets, errors, dropped };
        let expect = [
            Interface { name: "eth0".into(), received: traffic(2282, 27, 1, 3), sent: traffic(682, 9, 2, 4) },
            Interface { name: "br0:1".into(), received: traffic(7, 6, 5, 4), sent: traffic(3, 2, 1, 0) },
        ];
        assert_eq!(found, expect);
        assert_eq!(parse_interfaces(""), []);
    }

    #[test]
    fn pressure() {
        let both = "some avg10=1.50 avg60=0.25 avg300=0.00 total=123\nfull avg10=0.50 avg60=0.00 avg300=0.01 total=45\n";
        let waits = |avg10, avg60, avg300, total| PressureWaits { avg10, avg60, avg300, total };
        let some = waits(1.5, 0.25, 0.0, 123);
        for (text, expect) in [
            (both, Some(Pressure { some, full: waits(0.5, 0.0, 0.01, 45) })),
            (both.lines().next().unwrap(), Some(Pressure { some, full: PressureWaits::default() })),
            ("", None),
            ("some avg10=x", None),
        ] {
            assert_eq!(parse_pressure(text), expect, "{text}");
        }
    }

    #[test]
    fn other_files() {
        let meminfo = "MemTotal:       24684012 kB\nSwapTotal:             0 kB\nHugePages_Total:       4\n";
        assert_eq!(memory_field(meminfo, "MemTotal"), Some(24_684_012 << 10));
        assert_eq!(memory_field(meminfo, "SwapTotal"), Some(0));
        assert_eq!(memory_field(meminfo, "HugePages_Total"), Some(4));
        assert_eq!(memory_field(meminfo, "Mem"), None);
        assert_eq!(boot_time("cpu 1\nbtime 1800000000\n").unwrap().as_second(), 1_800_000_000);
        assert_eq!(boot_time("cpu 1\n"), None);
        let stat = "42 (odd) name) S 1 42 42 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 7 0 12345 1000 10";
        assert_eq!(started_at(stat, "btime 1800000000\n").unwrap().as_second(), 1_800_000_123);
        assert_eq!(started_at("", "btime 1800000000\n"), None);
        assert_eq!(task_count("9.58 5.80 2.78 5/370 16324\n"), Some(370));
        assert_eq!(task_count(""), None);
        let v1 = "9:memory,hugetlb:/system.slice/a:b.service\n2:cpu:/other\n0::/unified\n";
        assert_eq!(cgroup_of(v1, false), Some("/system.slice/a:b.service"));
        assert_eq!(cgroup_of(v1, true), Some("/unified"));
        assert_eq!(cgroup_of("", true), None);
    }
}
