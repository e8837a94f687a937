//! The root file system is full: what runs goes on, what was known stays known, and work goes on when there is room.

use super::machine::Machine;
use super::node;

pub(crate) fn nothing_is_lost(machine: &mut Machine) {
    let names = node::manifests(machine);
    node::wait_at_rest(machine, &names);
    let before = node::tasks(machine);
    node::put(machine, "late", &node::idle("late", "late-1", ""));
    machine.sh(&format!("mv {}/late.yaml /opt/late.yaml; sync", node::MANIFESTS));
    // To the last block, also those that are kept for root.
    machine.sh(
        "avail=$(df --output=avail -B 1M / | tail -n 1); fallocate -l ${avail}M /opt/filler\n\
         dd if=/dev/zero of=/opt/filler2 bs=64k 2>/dev/null; dd if=/dev/zero of=/opt/filler3 bs=512 2>/dev/null\n\
         dd if=/dev/zero of=/opt/filler4 bs=512 count=1 2>/dev/null && exit 1; true",
    );
    machine.sh(&format!("mv /opt/late.yaml {}/late.yaml", node::MANIFESTS));
    machine.sh("systemctl restart rkubelet");
    node::wait_for_agent(machine);
    machine.wait("the agent to know of the pod", |machine| {
        node::pods(machine).is_some_and(|pods| pods.contains_key("late"))
    });
    machine.sh("systemctl kill --kill-whom=main -s KILL rkubelet");
    machine.wait("the next agent", |machine| machine.holds("systemctl is-active -q rkubelet"));
    node::wait_for_agent(machine);
    let during = node::tasks(machine);
    let lost: Vec<_> = before.iter().filter(|(id, pid)| during.get(*id) != Some(*pid)).collect();
    assert!(lost.is_empty(), "containers were ended: {lost:?}\n{}", machine.report());
    machine.sh("rm /opt/filler*; sync");
    let mut with_late = names.clone();
    with_late.insert("late".to_owned());
    node::wait_at_rest(machine, &with_late);
    let after = node::tasks(machine);
    let lost: Vec<_> = before.iter().filter(|(id, pid)| after.get(*id) != Some(*pid)).collect();
    assert!(lost.is_empty(), "containers were ended: {lost:?}\n{}", machine.report());
    node::take_away(machine, "late");
    node::wait_at_rest(machine, &names);
}
