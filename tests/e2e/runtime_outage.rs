//! Point 5: containerd comes and goes; the agent waits, and carries on.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::manifest::{self, journal, journalled};
use crate::rig::{Agent, Rig, wait_until};

/// The lines in which the agent complains about the runtime's socket.
fn complaints(agent: &Agent<'_>) -> Vec<String> {
    let mut lines = agent.log_lines_with("containerd.sock");
    lines.retain(|line| line.contains("WARN") || line.contains("ERROR"));
    lines
}

#[test]
fn without_containerd_it_waits_says_so_once_and_then_starts_the_pods() {
    let rig = Rig::without_containerd();
    rig.write_manifest("web.yaml", manifest::WEB);
    let agent = rig.start_agent(&[]);
    agent.wait_for_log("containerd.sock");
    agent.wait_healthy();
    // Long enough for several attempts; what must not happen sends no event.
    wait_until(Duration::from_secs(4), || complaints(&agent).len() > 1);
    assert_eq!(complaints(&agent).len(), 1, "{}", agent.log());
    rig.start_containerd();
    rig.wait_running("web-node1", "web");
    assert_eq!(complaints(&agent).len(), 1, "{}", agent.log());
}

#[test]
fn containerd_restarts_and_no_container_does() {
    let rig = Rig::new();
    rig.write_manifest("a.yaml", &journalled(&rig, "a", "1"));
    rig.write_manifest("b.yaml", &journalled(&rig, "b", "1"));
    let agent = rig.start_agent(&[]);
    for name in ["a", "b"] {
        rig.wait(name, || journal(&rig, name) == ["start 1"]);
    }
    let before = rig.fingerprint();
    rig.stop_containerd();
    rig.wait("the agent to notice", || !complaints(&agent).is_empty());
    rig.start_containerd();
    assert_eq!(rig.fingerprint(), before);

    // Later edits work, and only they have effects.
    rig.write_manifest("a.yaml", &journalled(&rig, "a", "2"));
    rig.wait("the edit", || journal(&rig, "a") == ["start 1", "asked 1", "end 1", "start 2"]);
    assert_eq!(journal(&rig, "b"), ["start 1"]);
    agent.wait_healthy();
}

#[test]
fn what_was_asked_for_during_an_outage_is_done_after_it() {
    let rig = Rig::new();
    for name in ["dies", "goes"] {
        rig.write_manifest(&format!("{name}.yaml"), &journalled(&rig, name, "1"));
    }
    let _agent = rig.start_agent(&[]);
    for name in ["dies", "goes"] {
        rig.wait(name, || journal(&rig, name) == ["start 1"]);
    }
    let dies = rig.wait_running("dies-node1", "main");
    rig.stop_containerd();
    rig.remove_manifest("goes.yaml");
    rig.write_manifest("comes.yaml", &journalled(&rig, "comes", "1"));
    rig.kill_process(dies.pid);
    rig.start_containerd();
    rig.wait("the new pod", || journal(&rig, "comes") == ["start 1"]);
    rig.wait("the removed pod to go", || rig.containers_of("goes-node1").is_empty());
    rig.wait("the dead container's successor", || journal(&rig, "dies") == ["start 1", "start 1"]);
}

#[test]
fn after_an_orderly_restart_of_containerd_exits_are_told_again() {
    let rig = Rig::new();
    rig.write_manifest("web.yaml", manifest::WEB);
    let agent = rig.start_agent(&["-v=4"]);
    rig.wait_running("web-node1", "web");
    rig.end_containerd();
    rig.wait("the agent to notice", || !complaints(&agent).is_empty());
    rig.start_containerd();
    rig.wait("the agent to be back", || agent.log_lines_with("container runtime answers").len() == 2);
    let before = rig.wait_running("web-node1", "web");
    rig.kill_process(before.pid);
    rig.wait("the exit to be told", || {
        agent.log_lines_with("told of an exit").iter().any(|line| line.contains(&before.id))
    });
    rig.wait("a successor", || rig.wait_running("web-node1", "web").id != before.id);
}

/// What containerd cannot tell of an end (255, `Unknown`) is a failure, as for kubelet: a container that is to succeed runs
/// again, one that runs once does not.
#[test]
fn a_job_that_ends_while_containerd_is_down_runs_again_only_if_its_end_is_lost() {
    let rig = Rig::new();
    let runs = |name: &str| fs::read_to_string(rig.dir().join(name)).unwrap_or_default().lines().count();
    for (name, policy) in [("end-once", "Never"), ("end-well", "OnFailure")] {
        let dir = rig.dir().display();
        let spec = format!("restartPolicy: {policy}\nvolumes: [{{name: s, hostPath: {{path: {dir}}}}}]");
        let script = format!("echo run >> /s/{name}; until [ -e /s/go ]; do sleep 0.1; done");
        let text = manifest::pod(name, &spec, &script);
        let text = text.replace("    command:", "    volumeMounts: [{name: s, mountPath: /s}]\n    command:");
        assert!(text.contains("volumeMounts"), "{text}");
        rig.write_manifest(&format!("{name}.yaml"), &text);
    }
    let agent = rig.start_agent(&[]);
    let processes =
        ["end-once", "end-well"].map(|name| rig.wait_running(&format!("{name}-node1"), "main").pid);
    rig.wait("both to have begun", || runs("end-once") == 1 && runs("end-well") == 1);
    rig.stop_containerd();
    fs::write(rig.dir().join("go"), "").expect("write a file");
    rig.wait("both to end", || processes.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()));
    rig.start_containerd();
    let ended = |name: &str| {
        let pod = rig.pod(&format!("{name}-node1")).unwrap_or_default();
        pod["status"]["containerStatuses"][0]["state"]["terminated"].clone()
    };
    rig.wait("both to be over", || ended("end-once").is_object() && ended("end-well")["exitCode"] == 0);
    let once = ended("end-once");
    let lost = once["exitCode"] == 255 && once["reason"] == "Unknown";
    assert!(lost || once["exitCode"] == 0, "{once:#}");
    assert_eq!(
        (runs("end-once"), runs("end-well")),
        (1, if lost { 2 } else { 1 }),
        "{once:#}\n{}",
        agent.log()
    );
}
