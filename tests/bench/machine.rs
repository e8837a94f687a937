//! Where and when it was measured.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::figures::Samples;
use crate::node::pause;
use crate::reference;
use crate::settings::Settings;

/// One paragraph: date, machine, versions, number of samples.
pub(crate) fn describe(settings: &Settings, samples: &Samples) -> String {
    let (least, most) = samples.counts();
    let date = output("date", &["-u", "+%Y-%m-%d %H:%M UTC"]);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let system = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("unknown");
    let containerd = output("containerd", &["--version"]);
    let containerd = containerd.split_whitespace().nth(2).unwrap_or("unknown").to_owned();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().nth(2).unwrap_or("unknown").to_owned();
    format!(
        "{date}; {cores} cores, {}, Linux {}, containerd {containerd}; rkubelet {}, kubelet {}; {least} to {most} \
         samples each, median (least-most); load average of 15 minutes at the end {load}.",
        system.trim_matches('"'),
        output("uname", &["-r"]),
        env!("CARGO_PKG_VERSION"),
        settings.reference.as_ref().map_or(reference::VERSION, |_| "as given"),
    )
}

/// The share of all cores that others may use while we measure.
const QUIET: f64 = 0.1;

/// Waits until the rest of the machine rests, but not for longer than `patience`; warns if it did not.
pub(crate) fn wait_quiet(patience: Duration) {
    let begin = Instant::now();
    loop {
        let before = busy_and_all();
        pause(Duration::from_secs(1));
        let after = busy_and_all();
        let share = (after.0 - before.0) as f64 / (after.1 - before.1).max(1) as f64;
        if share <= QUIET {
            return;
        }
        if begin.elapsed() >= patience {
            println!("    (others use {:.0} % of the machine)", share * 100.0);
            return;
        }
    }
}

/// The ticks that all processors were busy, and all of their ticks.
fn busy_and_all() -> (u64, u64) {
    let text = fs::read_to_string("/proc/stat").expect("read /proc/stat");
    let first = text.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = first.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; the guests' are counted in user.
    let all = ticks.iter().take(8).sum();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    (all - idle, all)
}

fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}
