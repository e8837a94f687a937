//! Starts a real kubelet with every configuration of the corpus, and records in `verdicts.txt` with which it starts.
//!
//! kubelet is built from its Go module and runs inside a rig: a machine of its own with a private containerd and no
//! network but its own. It has started when its container manager has: the plugin manager comes after. Each kubelet is
//! ended as soon as its verdict is clear. What it printed is left in the directory that the argument names.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool of the tests, which fails by panicking"
)]

mod cases;
#[path = "../bench/reference.rs"]
mod reference;
#[path = "../rig/rig.rs"]
mod rig;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use cases::{Place, cases, directory};
use rig::{Machine, Rig, wait_until};
use rustix::process::{Signal, kill_process};

/// What kubelet prints when everything that can refuse a configuration is behind it.
const STARTED: &str = "Starting Kubelet Plugin Manager";
const PATIENCE: Duration = Duration::from_secs(120);

fn main() {
    let cache = PathBuf::from(std::env::args_os().nth(1).expect("usage: config_corpus CACHE"));
    let kubelet = std::env::var_os("REFERENCE_KUBELET")
        .map_or_else(|| reference::build(&cache, "kubelet", "k8s.io/kubernetes/cmd/kubelet"), PathBuf::from);
    let logs = cache.join("config-corpus");
    let _ = fs::remove_dir_all(&logs);
    fs::create_dir_all(&logs).expect("create the directory of the logs");
    let rig = Rig::new();
    protect_the_machine(&rig);

    let all = cases();
    let mut text = format!(
        "# Whether kubelet {} starts with each configuration of the corpus; recorded by `make config-corpus`.\n",
        reference::VERSION
    );
    for (number, (name, case)) in all.iter().enumerate() {
        let place = Place { directory: rig.dir().join(format!("case-{number}")), endpoint: rig.endpoint() };
        fs::create_dir_all(&place.directory).expect("create the directory of a case");
        let log = logs.join(format!("{number:03}.log"));
        let verdict = judge(&rig, &kubelet, &case.arguments(&place), &log, &place.directory);
        println!("{number:03} {verdict} {name}");
        text += &format!("{verdict} {name}\n");
    }
    fs::write(directory().join("verdicts.txt"), text).expect("write verdicts.txt");
    println!("recorded the verdicts of kubelet {} on {} configurations", reference::VERSION, all.len());
}

/// Runs kubelet until it ends or has started; then ends it.
fn judge(rig: &Rig, kubelet: &Path, arguments: &[String], log: &Path, directory: &Path) -> &'static str {
    let output = File::create(log).expect("create a log");
    let mut command = rig.command(kubelet.to_str().expect("the path of kubelet is UTF-8"));
    command.args(arguments).current_dir(directory);
    command.stdout(output.try_clone().expect("duplicate a file handle")).stderr(output);
    let mut child = command.spawn().expect("run kubelet");
    let mut ended = None;
    let clear = wait_until(PATIENCE, || {
        ended = child.try_wait().expect("wait for kubelet");
        ended.is_some() || has_started(log)
    });
    match ended {
        // The version and the help are answers, too.
        Some(status) if status.success() => "starts",
        Some(_) => "refuses",
        None => {
            end(&mut child);
            assert!(clear, "kubelet neither starts nor ends: {}", log.display());
            "starts"
        }
    }
}

fn has_started(log: &Path) -> bool {
    fs::read_to_string(log).is_ok_and(|text| text.contains(STARTED))
}

fn end(child: &mut Child) {
    // `command` runs it through nsenter: it is the process behind the child.
    if let Some(pid) = Machine::pid_behind(child) {
        kill_process(pid, Signal::KILL).expect("end kubelet");
    }
    child.wait().expect("wait for kubelet");
}

/// kubelet sets values of the kernel, and writes to directories of the machine: inside the rig it finds the values as it
/// wants them, and other directories in their place.
fn protect_the_machine(rig: &Rig) {
    for (name, value) in [
        ("vm/overcommit_memory", "1"),
        ("vm/panic_on_oom", "0"),
        ("kernel/panic", "10"),
        ("kernel/panic_on_oops", "1"),
        ("kernel/keys/root_maxkeys", "1000000"),
        ("kernel/keys/root_maxbytes", "25000000"),
    ] {
        let file = rig.dir().join(name.replace('/', "."));
        fs::write(&file, format!("{value}\n")).expect("write a kernel setting");
        rig.output("mount", &["--bind", &file.display().to_string(), &format!("/proc/sys/{name}")]);
    }
    rig.output("mount", &["-t", "tmpfs", "tmpfs", "/usr/libexec"]);
    // Where cAdvisor looks for containerd, whatever the configuration says.
    let socket = rig.endpoint().trim_start_matches("unix://").to_owned();
    let link = format!("mkdir -p /run/containerd && ln -sf {socket} /run/containerd/containerd.sock");
    rig.output("sh", &["-c", &link]);
}
