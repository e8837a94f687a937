//! A clock that is set back delays nothing: waits are counted on a clock that nobody sets.
//!
//! The agent runs under libfaketime, which changes the time of day that it is told and leaves the monotonic clock alone.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::manifest;
use crate::rig::{Access, Agent, ContainerState, REGISTRY, Registry, Rig, wait_until};

/// A day: nobody waits that long.
const BACK: &str = "-86400";

fn library() -> PathBuf {
    let dirs = fs::read_dir("/usr/lib").expect("read /usr/lib").flatten();
    let mut found = dirs.map(|dir| dir.path().join("faketime/libfaketime.so.1"));
    found.find(|path| path.exists()).expect("missing packages: run `make deps` or `apt-get install faketime`")
}

fn time_file(rig: &Rig) -> PathBuf {
    rig.dir().join("time")
}

/// Sets the clock of the agent: `+0` is the machine's own, `-60` a minute before, `@1970-01-01 00:00:10` a date.
fn set_clock(rig: &Rig, time: &str) {
    let whole = rig.dir().join("time.new");
    fs::write(&whole, format!("{time}\n")).expect("write the time");
    fs::rename(whole, time_file(rig)).expect("move the time into place");
}

/// Starts an agent whose clock can be set.
fn start_agent(rig: &Rig) -> Agent<'_> {
    let preload = format!("LD_PRELOAD={}", library().display());
    let file = format!("FAKETIME_TIMESTAMP_FILE={}", time_file(rig).display());
    let rest = ["FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1"];
    let launcher: Vec<&str> = ["env", &preload, &file].into_iter().chain(rest).collect();
    rig.start_agent_through(&launcher, &[])
}

/// The newest container of the pod has ended and waits, after so many restarts.
fn waits_after(rig: &Rig, restarts: u32) -> bool {
    let main =
        rig.pod("pod-node1").map(|pod| pod["status"]["containerStatuses"][0].clone()).unwrap_or_default();
    main["restartCount"] == restarts && main["state"]["waiting"]["reason"] == "CrashLoopBackOff"
}

fn has_attempt(rig: &Rig, attempt: u32) -> bool {
    rig.containers_of("pod-node1").iter().any(|seen| seen.attempt == attempt)
}

#[test]
fn a_crash_loop_waits_no_longer_when_the_clock_is_set_back() {
    let rig = Rig::new();
    rig.write_manifest("pod.yaml", &manifest::script("pod", "exit 1"));
    set_clock(&rig, "+0");
    let agent = start_agent(&rig);
    rig.wait("the back-off after the first restart", || waits_after(&rig, 1));
    let since = Instant::now();
    set_clock(&rig, BACK);
    assert!(wait_until(Duration::from_secs(25), || has_attempt(&rig, 2)), "{}", rig.report());
    assert!(since.elapsed() > Duration::from_secs(5), "it waited all the same: {:?}", since.elapsed());
    agent.wait_healthy();
}

#[test]
fn a_pull_is_tried_again_in_time_when_the_clock_is_set_back() {
    let rig = Rig::new();
    let image = format!("{REGISTRY}/app:1");
    rig.write_manifest("pod.yaml", &manifest::idle("pod").replace(crate::rig::BUSYBOX, &image));
    set_clock(&rig, "+0");
    let _agent = start_agent(&rig);
    rig.wait("the pull to fail", || {
        let main = rig.pod("pod-node1").map(|pod| pod["status"]["containerStatuses"][0].clone());
        main.is_some_and(|main| main["state"]["waiting"]["reason"] == "ImagePullBackOff")
    });
    set_clock(&rig, BACK);
    let registry = Registry::start(&rig, Access::Open);
    registry.push("app:1");
    // Pushed is not imported: containerd knows it by no name yet.
    rig.wait_running("pod-node1", "main");
}

#[test]
fn an_agent_that_starts_in_1970_restarts_what_crashed_at_once() {
    let rig = Rig::new();
    rig.write_manifest("pod.yaml", &manifest::script("pod", "exit 1"));
    let agent = rig.start_agent(&[]);
    rig.wait("the back-off after the second restart", || waits_after(&rig, 2));
    agent.kill9();
    set_clock(&rig, "@1970-01-01 00:00:10");
    let started = Instant::now();
    let agent = start_agent(&rig);
    assert!(wait_until(Duration::from_secs(15), || has_attempt(&rig, 3)), "{}", rig.report());
    assert!(
        started.elapsed() < Duration::from_secs(15),
        "it does not wait the 20 s: {:?}",
        started.elapsed()
    );
    assert!(agent.log().contains("1970-01-01"), "the agent's clock is not the machine's:\n{}", agent.log());
    // What is healthy is left alone, whatever the date.
    rig.write_manifest("pod.yaml", &manifest::idle("pod"));
    // The first container of the new instance: one that crashes may be seen running for a moment.
    let first_of_new = || {
        let all = rig.containers_of("pod-node1");
        all.into_iter().find(|seen| seen.attempt == 0 && seen.state == ContainerState::Running)
    };
    rig.wait("the new instance", || first_of_new().is_some());
    let running = first_of_new().expect("it runs");
    set_clock(&rig, "+0");
    rig.write_manifest("marker.yaml", &manifest::idle("marker"));
    rig.wait_running("marker-node1", "main");
    let same = rig.wait_running("pod-node1", "main");
    assert_eq!((same.id, same.state), (running.id, ContainerState::Running));
}
