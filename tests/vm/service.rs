//! The agent and the runtime come and go; containers stay.

use super::machine::Machine;
use super::node;

/// Does something, and sees that every container that ran runs on as the same process.
fn leaves_containers_alone(machine: &mut Machine, what: &str, act: impl FnOnce(&mut Machine)) {
    let before = node::tasks(machine);
    assert!(before.len() > 2, "{before:?}");
    act(machine);
    node::wait_for_agent(machine);
    let names = node::manifests(machine);
    let pods = node::wait_at_rest(machine, &names);
    let after = node::tasks(machine);
    assert_eq!(after, before, "{what}: {}", machine.report());
    assert_eq!(pods.len(), names.len(), "{what}");
}

fn main_pid(machine: &mut Machine) -> String {
    machine.sh("systemctl show -P MainPID rkubelet").trim().to_owned()
}

/// Waits until another process is the agent, and systemd says that it is up.
fn wait_for_another(machine: &mut Machine, pid: &str) {
    machine.wait("another agent", |machine| {
        let now = main_pid(machine);
        now != pid && now != "0" && machine.holds("systemctl is-active -q rkubelet")
    });
}

pub(crate) fn restart_and_kill_leave_containers_alone(machine: &mut Machine) {
    leaves_containers_alone(machine, "systemctl restart", |machine| {
        machine.sh("systemctl restart rkubelet && curl -sf --max-time 10 http://127.0.0.1:10248/healthz");
    });
    leaves_containers_alone(machine, "kill -9", |machine| {
        let pid = main_pid(machine);
        machine.sh(&format!("kill -9 {pid}"));
        wait_for_another(machine, &pid);
    });
    leaves_containers_alone(machine, "stop and start", |machine| {
        machine
            .sh("systemctl stop rkubelet && ! systemctl is-active -q rkubelet && systemctl start rkubelet");
    });
}

pub(crate) fn the_watchdog_restarts_a_stopped_agent(machine: &mut Machine) {
    let interval = machine.sh("systemctl show -P WatchdogUSec rkubelet");
    assert_eq!(interval.trim(), "1min", "the unit file asks for the watchdog");
    machine.sh("mkdir -p /run/systemd/system/rkubelet.service.d\n\
         printf '[Service]\\nWatchdogSec=20\\n' > /run/systemd/system/rkubelet.service.d/watchdog.conf\n\
         systemctl daemon-reload && systemctl restart rkubelet");
    node::wait_for_agent(machine);
    leaves_containers_alone(machine, "watchdog", |machine| {
        let pid = main_pid(machine);
        machine.sh(&format!("kill -STOP {pid}"));
        wait_for_another(machine, &pid);
    });
    assert!(machine.holds("journalctl -b -u rkubelet --no-pager | grep -qi 'watchdog timeout'"));
    machine.sh("rm /run/systemd/system/rkubelet.service.d/watchdog.conf; systemctl daemon-reload; systemctl restart rkubelet");
}

pub(crate) fn containerd_stops_and_starts(machine: &mut Machine) {
    let pid = main_pid(machine);
    leaves_containers_alone(machine, "stop and start of containerd", |machine| {
        machine.sh("systemctl stop containerd");
        machine.wait("the status line to say so", |machine| {
            machine.holds("systemctl show -P StatusText rkubelet | grep -q 'down'")
        });
        assert!(
            machine.holds("curl -sf --max-time 10 http://127.0.0.1:10248/healthz"),
            "the agent is healthy"
        );
        machine.sh("systemctl start containerd");
        machine.wait("the status line to say so", |machine| {
            machine.holds("systemctl show -P StatusText rkubelet | grep -vq 'down'")
        });
    });
    leaves_containers_alone(machine, "kill of containerd", |machine| {
        machine.sh("systemctl kill --kill-whom=main -s KILL containerd");
        machine.wait("containerd", |machine| machine.holds("ctr version"));
    });
    assert_eq!(main_pid(machine), pid, "the agent was not restarted: {}", machine.report());
}

/// Two jobs that end while containerd is down. containerd 1.7 removes what is left of a container that ended meanwhile, and then
/// gives it as ended with 255, `Unknown`. As kubelet does, the agent takes that for a failure: what runs once stays, what is
/// to succeed runs again.
pub(crate) fn jobs_end_while_containerd_is_down(machine: &mut Machine) {
    let rest = node::manifests(machine);
    machine.sh("rm -rf /var/lib/vm-jobs; mkdir /var/lib/vm-jobs");
    for (name, policy) in [("end-once", "Never"), ("end-well", "OnFailure")] {
        let script = format!("echo run >> /runs/{name}; until [ -e /runs/go ]; do sleep 1; done");
        let mount = "    volumeMounts:\n    - {name: runs, mountPath: /runs}\n";
        let spec = format!(
            "  restartPolicy: {policy}\n  volumes:\n  - name: runs\n    hostPath: {{path: /var/lib/vm-jobs, type: Directory}}\n"
        );
        node::put(machine, name, &node::pod(name, name, &script, mount, &spec));
    }
    machine.wait("the jobs to run", |machine| {
        machine.holds("cd /var/lib/vm-jobs && test -s end-once && test -s end-well")
    });
    machine.wait("the agent to know", |machine| {
        node::pods(machine).is_some_and(|pods| {
            ["end-once", "end-well"].iter().all(|name| {
                pods.get(*name)
                    .is_some_and(|pod| pod["status"]["containerStatuses"][0]["state"]["running"].is_object())
            })
        })
    });
    machine.sh("systemctl stop containerd; touch /var/lib/vm-jobs/go");
    machine.wait("the jobs to end", |machine| {
        let markers = node::markers(machine);
        !markers.contains_key("end-once") && !markers.contains_key("end-well")
    });
    machine.sh("systemctl start containerd");
    let mut found = std::collections::BTreeMap::new();
    machine.wait("the jobs to be over", |machine| {
        let Some(pods) = node::pods(machine) else { return false };
        let over = |name: &str, phases: &[&str]| {
            pods.get(name)
                .is_some_and(|pod| phases.contains(&pod["status"]["phase"].as_str().unwrap_or_default()))
        };
        let done = over("end-once", &["Succeeded", "Failed"]) && over("end-well", &["Succeeded"]);
        found = pods;
        done
    });
    let once = &found["end-once"]["status"]["containerStatuses"][0]["state"]["terminated"];
    let runs = machine.sh("cd /var/lib/vm-jobs; wc -l < end-once; wc -l < end-well");
    println!("    ended as {}, {}; runs {}", once["exitCode"], once["reason"], runs.replace('\n', " "));
    let lost = once["exitCode"] == 255 && once["reason"] == "Unknown";
    assert!(lost || once["exitCode"] == 0, "{once:#}");
    assert_eq!(runs, if lost { "1\n2\n" } else { "1\n1\n" }, "{}", machine.report());
    for name in ["end-once", "end-well"] {
        node::take_away(machine, name);
    }
    machine.sh("rm -r /var/lib/vm-jobs");
    node::wait_at_rest(machine, &rest);
}
