//! A real node: the agent as a service of systemd on cgroup v2, in a virtual machine that is rebooted and loses its power.
//!
//! The scenarios run one after the other, and most of them on one machine: a boot takes half a minute. Each begins with
//! the node as the one before left it, running and at rest. Where the machine cannot be had, all of them are counted as
//! ignored, and one line says why. See docs/real-node.md.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells why on stderr"
)]
#![allow(dead_code, reason = "the machine uses a part of what the rig has")]

#[path = "../rig/archive.rs"]
mod archive;
mod boots;
mod cgroups;
mod clock;
mod console;
mod disk;
mod full_disk;
mod install;
mod machine;
mod memory;
#[path = "../rig/needs.rs"]
mod needs;
mod node;
mod package;
mod power_cuts;
mod service;
mod volumes;
#[path = "../rig/wait.rs"]
mod wait;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use machine::{Boot, Machine};

/// A scenario, by its name.
type Scenario = (&'static str, fn(&mut Machine));

/// In this order: what a scenario leaves behind is what the next one begins with.
const SCENARIOS: &[Scenario] = &[
    ("install::as_the_readme_says", install::as_the_readme_says),
    ("install::the_examples_run", install::the_examples_run),
    ("cgroups::with_the_driver_cgroupfs", cgroups::with_the_driver_cgroupfs),
    ("service::restart_and_kill_leave_containers_alone", service::restart_and_kill_leave_containers_alone),
    ("service::the_watchdog_restarts_a_stopped_agent", service::the_watchdog_restarts_a_stopped_agent),
    ("service::containerd_stops_and_starts", service::containerd_stops_and_starts),
    ("memory::a_pod_over_its_limit_is_killed_alone", memory::a_pod_over_its_limit_is_killed_alone),
    (
        "memory::a_node_without_memory_loses_the_pod_that_took_it",
        memory::a_node_without_memory_loses_the_pod_that_took_it,
    ),
    ("full_disk::nothing_is_lost", full_disk::nothing_is_lost),
    ("package::apt_installs_upgrades_and_removes_it", package::apt_installs_upgrades_and_removes_it),
    ("service::jobs_end_while_containerd_is_down", service::jobs_end_while_containerd_is_down),
    ("volumes::huge_pages_are_given", volumes::huge_pages_are_given),
    ("volumes::nfs_is_mounted", volumes::nfs_is_mounted),
    ("boots::every_pod_is_back_after_a_reboot", boots::every_pod_is_back_after_a_reboot),
    ("cgroups::with_the_driver_systemd", cgroups::with_the_driver_systemd),
    ("clock::a_clock_that_was_never_set", clock::a_clock_that_was_never_set),
    ("power_cuts::at_random_moments", power_cuts::at_random_moments),
];

/// Those of `make test`, whose machine other tests want as well: what only this machine can show, in a few minutes.
const QUICK: &[&str] = &[
    "install::as_the_readme_says",
    "service::restart_and_kill_leave_containers_alone",
    "service::the_watchdog_restarts_a_stopped_agent",
    "service::containerd_stops_and_starts",
    "memory::a_pod_over_its_limit_is_killed_alone",
    "package::apt_installs_upgrades_and_removes_it",
    "cgroups::with_the_driver_systemd",
    "power_cuts::at_random_moments",
];
/// After so many minutes no further scenario begins, unless `VM_MINUTES` says otherwise.
const MINUTES: u64 = 180;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--shell") {
        return shell();
    }
    if arguments.iter().any(|argument| argument == "--list") {
        SCENARIOS.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    // Names as the test harness takes them; what it takes besides has no meaning here.
    let wanted: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let mut chosen: Vec<&Scenario> = SCENARIOS
        .iter()
        .filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str())))
        .collect();
    let named = chosen.len();
    println!("\nrunning {named} tests");
    if chosen.is_empty() {
        println!("\ntest result: ok. 0 passed; 0 failed; 0 ignored");
        return ExitCode::SUCCESS;
    }
    let base = match std::env::var("VM_SCENARIOS").as_deref() {
        Err(_) => Err("not asked for; `make vm-test` and `make vm-scenarios` run it".to_owned()),
        Ok("quick") => {
            chosen.retain(|(name, _)| QUICK.contains(name));
            disk::base()
        }
        Ok(_) => disk::base(),
    };
    let left_out = named - chosen.len();
    match base {
        Ok(base) => run(&base, &chosen, left_out),
        Err(reason) => {
            println!("no virtual machine: {reason}");
            println!("\ntest result: ok. 0 passed; 0 failed; {named} ignored");
            ExitCode::SUCCESS
        }
    }
}

fn run(base: &disk::Base, chosen: &[&Scenario], mut ignored: usize) -> ExitCode {
    let minutes = std::env::var("VM_MINUTES").ok().and_then(|text| text.parse().ok());
    // An emulator on a shared computer fails now and then by itself: what fails twice in a row is a fault.
    let attempts = if std::env::var("VM_SCENARIOS").is_ok_and(|which| which == "quick") { 2 } else { 1 };
    let limit = Duration::from_secs(60 * minutes.unwrap_or(MINUTES));
    let began = Instant::now();
    let dir = disk::directory_of_this_run();
    let payload = disk::payload(&dir);
    let mut machine = Machine::new(base, &dir.join("machine"), &payload);
    let mut failed = Vec::new();
    let mut passed = 0;
    machine.boot(&Boot::default());
    for (name, scenario) in chosen.iter().copied() {
        let start = Instant::now();
        if began.elapsed() > limit {
            println!(
                "test {name} ... ignored: {} minutes have passed, this machine is slow",
                limit.as_secs() / 60
            );
            ignored += 1;
            continue;
        }
        let mut attempts_left = attempts;
        loop {
            attempts_left -= 1;
            let result = catch_unwind(AssertUnwindSafe(|| {
                if *name != SCENARIOS[0].0 {
                    node::ensure(&mut machine);
                }
                scenario(&mut machine);
            }));
            let word = if result.is_ok() { "ok" } else { "FAILED" };
            println!("test {name} ... {word} ({:.0} s)", start.elapsed().as_secs_f32());
            if result.is_ok() {
                passed += 1;
                break;
            }
            // The next one begins on a machine that is known.
            drop(machine);
            machine = Machine::new(base, &dir.join("machine"), &payload);
            machine.boot(&Boot::default());
            if attempts_left == 0 {
                failed.push(*name);
                break;
            }
            println!("    once more, on a fresh machine");
        }
    }
    drop(machine);
    let _ = std::fs::remove_dir_all(&dir);
    let word = if failed.is_empty() { "ok" } else { "FAILED" };
    let took = began.elapsed().as_secs();
    println!(
        "\ntest result: {word}. {passed} passed; {} failed; {ignored} ignored; finished in {took} s",
        failed.len()
    );
    failed.iter().for_each(|name| println!("    {name}"));
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn shell() -> ExitCode {
    let base = match disk::base() {
        Ok(base) => base,
        Err(reason) => {
            eprintln!("no virtual machine: {reason}");
            return ExitCode::FAILURE;
        }
    };
    let dir = disk::directory_of_this_run();
    let machine = Machine::new(&base, &dir.join("machine"), &disk::payload(&dir));
    println!("Booting; it takes a minute.");
    machine.boot_for_a_person();
    drop(machine);
    let _ = std::fs::remove_dir_all(&dir);
    ExitCode::SUCCESS
}
