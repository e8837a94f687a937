//! A reboot: every pod is back, in order, at once, and it counts as nobody's crash.

use std::collections::BTreeMap;

use serde_json::Value;

use super::machine::{Boot, Machine};
use super::node;

/// What a container's count of crashes is, by the annotation that the agent gives it.
pub(crate) fn crashes(machine: &mut Machine) -> BTreeMap<String, u32> {
    let text = machine.sh(
        "for id in $(ctr -n k8s.io tasks ls | awk 'NR > 1 && $3 == \"RUNNING\" { print $1 }'); do\n\
         ctr -n k8s.io containers info $id | tr -d ' \\n' | grep -o '\"rkubelet.dev/crashes[^,}]*' | sed \"s/^/$id /\"; done; true",
    );
    text.lines()
        .filter_map(|line| {
            let (id, rest) = line.split_once(' ')?;
            let digits: String = rest.chars().filter(char::is_ascii_digit).collect();
            Some((id.to_owned(), digits.parse().ok()?))
        })
        .collect()
}

/// Seconds from containerd's answer to the start of the last container, by the machine's own clock.
pub(crate) fn seconds_to_last_start(machine: &mut Machine, pods: &BTreeMap<String, Value>) -> i64 {
    let up = machine.sh("date -d \"$(systemctl show -P ActiveEnterTimestamp containerd)\" +%s");
    let up: i64 = up.trim().parse().expect("a time");
    let statuses = pods
        .values()
        .flat_map(|pod| pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default());
    let starts: Vec<String> = statuses
        .filter_map(|status| status["state"]["running"]["startedAt"].as_str().map(str::to_owned))
        .collect();
    let last = starts.iter().max().expect("a container runs");
    let last: i64 = machine.sh(&format!("date -d {last} +%s")).trim().parse().expect("a time");
    last - up
}

pub(crate) fn every_pod_is_back_after_a_reboot(machine: &mut Machine) {
    machine.sh(&format!("cp /opt/rkubelet/manifests/*.yaml {}/; sync", node::MANIFESTS));
    let names = node::manifests(machine);
    let before = node::wait_at_rest(machine, &names);
    let restarts_before = node::restarts(&before);
    machine.shut_down("reboot");
    machine.boot(&Boot::default());
    node::wait_for_agent(machine);
    let pods = node::wait_at_rest(machine, &names);
    let seconds = seconds_to_last_start(machine, &pods);
    println!("    {} pods: the last container started {seconds} s after containerd was up", pods.len());
    assert!(crashes(machine).values().all(|count| *count == 0), "a boot is no crash: {}", machine.report());
    // The job was completed, and is not run again.
    assert_eq!(pods["job"]["status"]["phase"], "Succeeded");
    assert_eq!(node::restarts(&pods)["job/job"], restarts_before["job/job"], "{:#}", pods["job"]);
    let waits = node::journal(machine);
    assert!(!waits.contains("back-off"), "no pod waits: {waits}");
    // Software emulation on a shared machine: a wait of a back-off is 10 s and more for one pod.
    let limit = std::env::var("VM_BOOT_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    assert!(seconds < limit, "{seconds} s: {}", machine.report());
}
