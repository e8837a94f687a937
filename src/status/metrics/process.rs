//! The agent's own process, as `/proc` shows it.
//!
//! Owns the reading and parsing of `/proc/self`. Invariant: what cannot be read is absent, never zero.
//! Must not: keep anything between two readings.

use std::fs;

use rustix::process::{Resource, getrlimit};

use super::as_f64;
use super::exposition::{FamilyKind, Page};

/// Ticks per second in `/proc/self/stat`: part of the kernel's ABI on every machine that we build for.
const USER_HZ: f64 = 100.0;

/// Name and help of the start of the process.
const START: (&str, &str) = ("process_start_time_seconds", "Start of the process in seconds since 1970.");

/// The process at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Process {
    /// Memory in use, in bytes.
    pub resident_bytes: Option<u64>,
    /// Address space, in bytes.
    pub virtual_bytes: Option<u64>,
    /// User and system time so far, in seconds.
    pub cpu_seconds: Option<f64>,
    /// Open file descriptors.
    pub open_fds: Option<u64>,
    /// The most that may be open; absent when there is no limit.
    pub max_fds: Option<u64>,
    /// When the process began, in seconds since 1970.
    pub start_time_seconds: Option<f64>,
    /// Threads.
    pub threads: Option<u64>,
    /// The most address space; absent when there is no limit.
    pub max_virtual_bytes: Option<u64>,
}

/// Reads the process from `/proc`.
pub(crate) fn observe_process() -> Process {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let boot = fs::read_to_string("/proc/stat").unwrap_or_default();
    let open_fds = fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count());
    Process {
        // The listing itself holds one descriptor.
        open_fds: open_fds.and_then(|count| u64::try_from(count.saturating_sub(1)).ok()),
        max_fds: getrlimit(Resource::Nofile).current,
        max_virtual_bytes: getrlimit(Resource::As).current,
        ..parse(&status, &stat, &boot)
    }
}

/// What the three files say: `/proc/self/status`, `/proc/self/stat` and `/proc/stat`.
fn parse(status: &str, stat: &str, boot: &str) -> Process {
    // The name, in brackets, may hold spaces and brackets: fields are counted after the last one. The first
    // is the state, number 3 of proc(5).
    let fields: Vec<&str> =
        stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
    let ticks =
        |number: usize| fields.get(number - 3)?.parse::<u64>().ok().map(|ticks| as_f64(ticks) / USER_HZ);
    let boot_time = field(boot, "btime").map(as_f64);
    let kibibytes = |key| field(status, key).map(|count| count * 1024);
    Process {
        resident_bytes: kibibytes("VmRSS:"),
        virtual_bytes: kibibytes("VmSize:"),
        threads: field(status, "Threads:"),
        cpu_seconds: ticks(14).zip(ticks(15)).map(|(user, system)| user + system),
        start_time_seconds: boot_time.zip(ticks(22)).map(|(boot, since)| boot + since),
        open_fds: None,
        max_fds: None,
        max_virtual_bytes: None,
    }
}

/// The number after `key` at the beginning of a line.
fn field(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.split_whitespace().next()?.parse().ok())
}

impl Process {
    /// Writes when the process was started, alone.
    pub(crate) fn render_start(&self, page: &mut Page) {
        if let Some(start) = self.start_time_seconds {
            page.family(START.0, FamilyKind::Gauge, START.1);
            page.sample(&[], start);
        }
    }

    /// Writes what is known, under Prometheus' own names.
    pub(crate) fn render(&self, page: &mut Page) {
        let count = |value: Option<u64>| value.map(as_f64);
        for (name, kind, help, value) in [
            (
                "process_cpu_seconds_total",
                FamilyKind::Counter,
                "User and system CPU time in seconds.",
                self.cpu_seconds,
            ),
            (
                "process_max_fds",
                FamilyKind::Gauge,
                "Most file descriptors that may be open.",
                count(self.max_fds),
            ),
            ("process_open_fds", FamilyKind::Gauge, "Open file descriptors.", count(self.open_fds)),
            (
                "process_resident_memory_bytes",
                FamilyKind::Gauge,
                "Resident memory in bytes.",
                count(self.resident_bytes),
            ),
            (START.0, FamilyKind::Gauge, START.1, self.start_time_seconds),
            ("process_threads", FamilyKind::Gauge, "Threads of the process.", count(self.threads)),
            (
                "process_virtual_memory_bytes",
                FamilyKind::Gauge,
                "Virtual memory in bytes.",
                count(self.virtual_bytes),
            ),
            (
                "process_virtual_memory_max_bytes",
                FamilyKind::Gauge,
                "Most virtual memory in bytes.",
                count(self.max_virtual_bytes),
            ),
        ] {
            if let Some(value) = value {
                page.family(name, kind, help);
                page.sample(&[], value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "42 (odd) name() S 1 42 42 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 7 0 12345 1000 10";

    #[test]
    fn parses_proc() {
        let status = "Name:\todd\nVmSize:\t    2048 kB\nVmRSS:\t  512 kB\nThreads:\t7\n";
        let whole = Process {
            resident_bytes: Some(512 * 1024),
            virtual_bytes: Some(2048 * 1024),
            cpu_seconds: Some(2.0),
            start_time_seconds: Some(1_000_123.45),
            threads: Some(7),
            ..Process::default()
        };
        for (what, status, stat, boot, expected) in [
            ("whole", status, STAT, "cpu 1 2\nbtime 1000000\n", whole.clone()),
            ("no boot time", status, STAT, "", Process { start_time_seconds: None, ..whole.clone() }),
            ("nothing", "", "", "", Process::default()),
            ("torn", "VmRSS:\n", "42 (a", "btime x", Process::default()),
            ("short", "", "42 (a) S 1", "btime 1", Process::default()),
        ] {
            assert_eq!(parse(status, stat, boot), expected, "{what}");
        }
    }

    #[test]
    fn observes_itself() {
        let process = observe_process();
        assert!(process.resident_bytes.unwrap() > 100_000);
        assert!(process.open_fds.unwrap() >= 3);
        assert!(process.threads.unwrap() >= 1);
        assert!(process.start_time_seconds.unwrap() > 1_500_000_000.0);
        let mut page = Page::default();
        process.render(&mut page);
        super::super::exposition::check(&page.into_text()).unwrap();
    }
}
