//! Where and when it was measured.

use std::fs;
use std::process::Command;

use crate::reference;
use crate::settings::Settings;

/// One paragraph: date, machine, versions, rounds.
pub(crate) fn describe(settings: &Settings) -> String {
    let date = output("date", &["-u", "+%Y-%m-%d %H:%M UTC"]);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let system = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("unknown");
    let containerd = output("containerd", &["--version"]);
    let containerd = containerd.split_whitespace().nth(2).unwrap_or("unknown").to_owned();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().nth(2).unwrap_or("unknown").to_owned();
    format!(
        "{date}; {cores} cores, {}, Linux {}, containerd {containerd}; rkubelet {}, kubelet {}; {} rounds, median \
         (least-most); load average of 15 minutes at the end {load}.",
        system.trim_matches('"'),
        output("uname", &["-r"]),
        env!("CARGO_PKG_VERSION"),
        settings.reference.as_ref().map_or(reference::VERSION, |_| "as given"),
        settings.rounds,
    )
}

fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}
