//! A machine without a battery boots in 1970, and its clock is set later: nothing restarts, and nothing waits for decades.

use super::boots::crashes;
use super::machine::{Boot, Machine};
use super::node;

pub(crate) fn a_clock_that_was_never_set(machine: &mut Machine) {
    let names = node::manifests(machine);
    node::wait_at_rest(machine, &names);
    machine.cut_power();
    machine.boot(&Boot { clock: Some("1970-01-01T00:01:00"), words: "vm.clock=1970" });
    node::wait_for_agent(machine);
    let year = machine.sh("date +%Y");
    assert_eq!(year.trim(), "1970", "the clock was never set");
    node::wait_at_rest(machine, &names);
    assert!(crashes(machine).values().all(|count| *count == 0), "{}", machine.report());
    let before = node::tasks(machine);
    machine.sh("date -s 2026-11-18T12:00:00");
    // A pod that comes now starts, one that goes ends, and a container that dies is restarted.
    node::put(machine, "after", &node::idle("after", "after-1", ""));
    let mut more = names.clone();
    more.insert("after".to_owned());
    let pods = node::wait_at_rest(machine, &more);
    let pid = node::process(machine, &pods["after"], 0);
    machine.sh(&format!("kill -9 {pid}"));
    machine.wait("the restart", |machine| {
        node::pods(machine).is_some_and(|pods| {
            pods.get("after").is_some_and(|pod| {
                pod["status"]["containerStatuses"][0]["restartCount"] == 1 && node::at_rest(pod)
            })
        })
    });
    node::take_away(machine, "after");
    node::wait_at_rest(machine, &names);
    let after = node::tasks(machine);
    assert_eq!(after, before, "{}", machine.report());
}
