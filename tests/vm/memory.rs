//! Memory runs out: for a pod, or for the node.

use super::machine::Machine;
use super::node;

/// Takes memory until it is killed, then, on its next run, waits. In one piece, which is quick: a buffer that grows takes
/// minutes under emulation.
const EATER: &str = "if [ -e /state/tried ]; then while :; do sleep 3600 & wait $!; done; fi; touch /state/tried; \
                     dd if=/dev/zero of=/dev/null bs=900M count=1";
const STATE: &str = "    volumeMounts:\n    - {name: state, mountPath: /state}\n";
const VOLUME: &str = "  volumes:\n  - name: state\n    emptyDir: {}\n";

fn eats(machine: &mut Machine, name: &str, resources: &str) {
    let others = node::tasks(machine);
    let services = machine.sh("systemctl show -P MainPID rkubelet containerd dbus systemd-journald");
    let marker = format!("eater-{name}");
    node::put(machine, name, &node::pod(name, &marker, EATER, &format!("{resources}{STATE}"), VOLUME));
    let names = node::manifests(machine);
    let mut killed = false;
    machine.wait("the pod to be killed for memory, and to be restarted", |machine| {
        let Some(pods) = node::pods(machine) else { return false };
        let Some(pod) = pods.get(name) else { return false };
        let status = &pod["status"]["containerStatuses"][0];
        let last = &status["lastState"]["terminated"];
        killed = last["reason"] == "OOMKilled" && last["exitCode"] == 137;
        status["restartCount"] == 1 && node::at_rest(pod)
    });
    assert!(killed, "the status says why: {}", machine.report());
    let text = node::journal(machine);
    let lines: Vec<&str> =
        text.lines().filter(|line| line.contains(name) && line.contains("out of memory")).collect();
    assert_eq!(lines.len(), 1, "one line says why: {text}");
    let after = node::tasks(machine);
    let lost: Vec<_> = others.iter().filter(|(id, pid)| after.get(*id) != Some(*pid)).collect();
    assert!(lost.is_empty(), "other containers were ended: {lost:?}\n{}", machine.report());
    let now = machine.sh("systemctl show -P MainPID rkubelet containerd dbus systemd-journald");
    assert_eq!(now, services, "no service of the node was ended: {}", machine.report());
    node::take_away(machine, name);
    let mut names = names;
    names.remove(name);
    node::wait_at_rest(machine, &names);
}

pub(crate) fn a_pod_over_its_limit_is_killed_alone(machine: &mut Machine) {
    eats(machine, "limited", "    resources: {limits: {memory: 48Mi}}\n");
}

/// What all pods together may not have is the system's: without it, the kernel spends minutes on taking back the pages of
/// programs before it kills anyone (docs/real-node.md).
pub(crate) fn a_node_without_memory_loses_the_pod_that_took_it(machine: &mut Machine) {
    let reserved = "--system-reserved=memory=400Mi ";
    machine.sh(&format!(
        "sed -i 's/^RKUBELET_ARGS=\"/&{reserved}/' /etc/default/rkubelet && systemctl restart rkubelet"
    ));
    node::wait_for_agent(machine);
    eats(machine, "hungry", "");
    machine.sh(&format!("sed -i 's/{reserved}//' /etc/default/rkubelet && systemctl restart rkubelet"));
    node::wait_for_agent(machine);
}
