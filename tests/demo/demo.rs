//! The demo: rkubelet runs the examples in `manifests/` on a machine of its own, until Ctrl-C.
//!
//! With `DEMO_SECONDS=N` it ends by itself; the exit code tells whether every pod ran.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a demo talks to its user, and has nothing to lose"
)]

#[path = "../rig/rig.rs"]
mod rig;

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use futures_lite::StreamExt;
use rig::{READ_ONLY_PORT, Rig};
use serde_json::Value;

/// How long pods may take to come up when no other time is given.
const START_UP: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(200);

fn main() -> ExitCode {
    let interrupted = on_interrupt();
    let end = std::env::var("DEMO_SECONDS").ok().map(|text| {
        let seconds = text.parse().expect("DEMO_SECONDS is a number of seconds");
        Instant::now() + Duration::from_secs(seconds)
    });

    println!("Starting a private containerd in namespaces of its own ...");
    let rig = Rig::new();
    let count = copy_examples(&rig);
    println!("Starting rkubelet on a copy of manifests/ ({count} pods) ...");
    let _agent = rig.start_agent(&[]);

    let ran = wait_for_pods(&rig, count, end.unwrap_or(Instant::now() + START_UP), &interrupted);
    if let Outcome::Interrupted = ran {
        println!("\nCleaning up.");
        return ExitCode::FAILURE;
    }
    print_pods(&rig);
    if let Outcome::Late = ran {
        println!("\nNot every pod ran in time. The agent's log and the runtime's state:\n{}", rig.report());
        if end.is_some() {
            return ExitCode::FAILURE;
        }
    }
    print_hints(&rig);
    match end {
        Some(end) => {
            let _ = interrupted.recv_timeout(end.saturating_duration_since(Instant::now()));
        }
        None => {
            println!("\nCtrl-C ends the demo and removes everything.");
            let _ = interrupted.recv();
        }
    }
    // Up is not enough: they must have stayed so.
    let all_ran = count_of_ran(&rig) == count;
    println!("\n{} Cleaning up.", if all_ran { "Every pod ran." } else { "Not every pod runs." });
    if all_ran { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How the wait for the pods ended.
enum Outcome {
    AllRan,
    Late,
    Interrupted,
}

/// Says a word when the user presses Ctrl-C, or asks the demo to end in another way.
fn on_interrupt() -> Receiver<()> {
    let (sender, receiver) = channel();
    let mut signals = async_signal::Signals::new([async_signal::Signal::Int, async_signal::Signal::Term])
        .expect("listen for signals");
    std::thread::spawn(move || {
        smol::block_on(signals.next());
        // Nobody listens any more when the demo is at its end.
        let _ = sender.send(());
    });
    receiver
}

fn copy_examples(rig: &Rig) -> usize {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests");
    let mut count = 0;
    for entry in fs::read_dir(examples).expect("list manifests/").flatten() {
        let text = fs::read_to_string(entry.path()).expect("read an example");
        rig.write_manifest(&entry.file_name().to_string_lossy(), &text);
        count += 1;
    }
    count
}

fn wait_for_pods(rig: &Rig, count: usize, deadline: Instant, interrupted: &Receiver<()>) -> Outcome {
    let mut told = std::collections::BTreeSet::new();
    while Instant::now() < deadline {
        for pod in pods(rig) {
            let line = format!("  {} is {}", text(&pod["metadata"]["name"]), text(&pod["status"]["phase"]));
            if told.insert(line.clone()) {
                println!("{line}");
            }
        }
        if count_of_ran(rig) == count {
            return Outcome::AllRan;
        }
        if interrupted.recv_timeout(LOOK).is_ok() {
            return Outcome::Interrupted;
        }
    }
    Outcome::Late
}

fn pods(rig: &Rig) -> Vec<Value> {
    rig.pods().and_then(|list| list["items"].as_array().cloned()).unwrap_or_default()
}

fn count_of_ran(rig: &Rig) -> usize {
    let ran = |pod: &&Value| ["Running", "Succeeded"].contains(&text(&pod["status"]["phase"]));
    pods(rig).iter().filter(ran).count()
}

fn print_pods(rig: &Rig) {
    println!("\n{:<12} {:<28} {:<10} {:<8} IP", "NAMESPACE", "NAME", "PHASE", "RESTARTS");
    for pod in pods(rig) {
        let (metadata, status) = (&pod["metadata"], &pod["status"]);
        let containers = status["containerStatuses"].as_array().cloned().unwrap_or_default();
        let restarts: u64 =
            containers.iter().filter_map(|container| container["restartCount"].as_u64()).sum();
        println!(
            "{:<12} {:<28} {:<10} {restarts:<8} {}",
            text(&metadata["namespace"]),
            text(&metadata["name"]),
            text(&status["phase"]),
            text(&status["podIP"]),
        );
    }
}

fn print_hints(rig: &Rig) {
    let enter = format!("nsenter -t {} -a", rig.machine().first_pid());
    let socket = rig.endpoint().trim_start_matches("unix://").to_owned();
    println!("\nLook at it from another terminal, as root:");
    println!("  {enter} ctr -a {socket} -n k8s.io tasks ls      # what containerd runs");
    println!("  {enter} curl -s http://127.0.0.1:{READ_ONLY_PORT}/pods");
    println!("  {enter} curl -s http://127.0.0.1:10248/healthz");
    println!("  tail -f {}/*/*/0.log", rig.pod_logs_dir().display());
    println!("  tail -f {}/rkubelet-0.log", rig.dir().display());
    println!("Edit, add or remove manifests in {}", rig.manifest_dir().display());
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}
