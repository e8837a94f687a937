//! What a process costs: memory, processor time, wake-ups, handles.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::Pid;

/// A process as it is now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// Resident memory in KiB.
    pub(crate) rss_kib: u64,
    /// How often its threads gave up the processor to wait, since they began.
    pub(crate) waits: u64,
    /// Threads.
    pub(crate) threads: u64,
    /// Open file descriptors.
    pub(crate) descriptors: u64,
    /// Watches of its inotify instances.
    pub(crate) inotify_watches: u64,
}

/// Reads a process.
pub(crate) fn cost(pid: Pid) -> Option<Cost> {
    let dir = format!("/proc/{}", pid.as_raw_nonzero());
    let dir = Path::new(&dir);
    let status = fs::read_to_string(dir.join("status")).ok()?;
    let tasks = list(&dir.join("task"));
    let waits = tasks.iter().filter_map(|task| {
        let status = fs::read_to_string(dir.join("task").join(task).join("status")).ok()?;
        field(&status, "voluntary_ctxt_switches:")
    });
    let watches = list(&dir.join("fdinfo")).into_iter().map(|name| {
        let info = fs::read_to_string(dir.join("fdinfo").join(name)).unwrap_or_default();
        info.lines().filter(|line| line.starts_with("inotify wd:")).count() as u64
    });
    Some(Cost {
        rss_kib: field(&status, "VmRSS:")?,
        waits: waits.sum(),
        threads: tasks.len() as u64,
        descriptors: list(&dir.join("fd")).len() as u64,
        inotify_watches: watches.sum(),
    })
}

/// The processor time of processes in seconds, by the program of `stamp.c`.
pub(crate) fn cpu_seconds<const N: usize>(stamp: &Path, pids: [Pid; N]) -> [f64; N] {
    let pids = pids.map(|pid| pid.as_raw_nonzero().to_string());
    let output = Command::new(stamp).arg("--cpu").args(&pids).output().expect("run stamp");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = text.lines();
    pids.map(|pid| {
        let nanoseconds: f64 = lines.next().and_then(|line| line.parse().ok()).unwrap_or(-1.0);
        assert!(nanoseconds >= 0.0, "process {pid} has ended");
        nanoseconds / 1e9
    })
}

/// The process, outside the rig, whose command line ends with these words.
pub(crate) fn find(words: &[&str]) -> Option<Pid> {
    let wanted: String = words.iter().map(|word| format!("{word}\0")).collect();
    list(Path::new("/proc")).into_iter().find_map(|name| {
        let pid = Pid::from_raw(name.parse().ok()?)?;
        let words = fs::read_to_string(format!("/proc/{name}/cmdline")).ok()?;
        (words == wanted).then_some(pid)
    })
}

fn list(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
