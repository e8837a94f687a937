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
mod power_cuts;
mod service;
#[path = "../rig/wait.rs"]
mod wait;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

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
    ("boots::every_pod_is_back_after_a_reboot", boots::every_pod_is_back_after_a_reboot),
    ("cgroups::with_the_driver_systemd", cgroups::with_the_driver_systemd),
    ("clock::a_clock_that_was_never_set", clock::a_clock_that_was_never_set),
    ("power_cuts::at_random_moments", power_cuts::at_random_moments),
];

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
    let chosen: Vec<&Scenario> = SCENARIOS
        .iter()
        .filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str())))
        .collect();
    println!("\nrunning {} tests", chosen.len());
    if chosen.is_empty() {
        println!("\ntest result: ok. 0 passed; 0 failed; 0 ignored");
        return ExitCode::SUCCESS;
    }
    // Not a part of every run of the tests until each scenario was seen to pass.
    let asked = std::env::var_os("VM_SCENARIOS").is_some();
    let base =
        if asked { disk::base() } else { Err("not asked for; `make vm-scenarios` runs it".to_owned()) };
    match base {
        Ok(base) => run(&base, &chosen),
        Err(reason) => {
            println!("no virtual machine: {reason}");
            println!("\ntest result: ok. 0 passed; 0 failed; {} ignored", chosen.len());
            ExitCode::SUCCESS
        }
    }
}

fn run(base: &disk::Base, chosen: &[&Scenario]) -> ExitCode {
    let began = Instant::now();
    let dir = disk::directory_of_this_run();
    let payload = disk::payload(&dir);
    let mut machine = Machine::new(base, &dir.join("machine"), &payload);
    let mut failed = Vec::new();
    let mut passed = 0;
    machine.boot(&Boot::default());
    for (name, scenario) in chosen.iter().copied() {
        let start = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(|| {
            if *name != SCENARIOS[0].0 {
                node::ensure(&mut machine);
            }
            scenario(&mut machine);
        }));
        let word = if result.is_ok() { "ok" } else { "FAILED" };
        println!("test {name} ... {word} ({:.0} s)", start.elapsed().as_secs_f32());
        match result {
            Ok(()) => passed += 1,
            Err(_) => {
                failed.push(*name);
                // The next one begins on a machine that is known.
                drop(machine);
                machine = Machine::new(base, &dir.join("machine"), &payload);
                machine.boot(&Boot::default());
            }
        }
    }
    drop(machine);
    let _ = std::fs::remove_dir_all(&dir);
    let word = if failed.is_empty() { "ok" } else { "FAILED" };
    let took = began.elapsed().as_secs();
    println!(
        "\ntest result: {word}. {passed} passed; {} failed; 0 ignored; finished in {took} s",
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
