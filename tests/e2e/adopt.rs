//! Point 4: the agent comes and goes; the pods stay.

use std::time::Duration;

use crate::manifest::{self, journal, journalled};
use crate::rig::web::Server;
use crate::rig::{BUSYBOX, ContainerState, Rig, wait_until};
use crate::url;

/// Three pods of different kinds that run.
fn start_pods(rig: &Rig) {
    rig.write_manifest("web.yaml", manifest::WEB);
    rig.write_manifest("host.yaml", manifest::HOST_NETWORK);
    rig.write_manifest("done.yaml", &manifest::pod("done", "restartPolicy: Never", "exit 0"));
}

fn wait_for_pods(rig: &Rig) {
    rig.wait_running("web-node1", "web");
    rig.wait_running("etcd-node1", "etcd");
    rig.wait("pod done to be done", || {
        let done = rig.containers_of("done-node1");
        done.iter().any(|seen| seen.state == ContainerState::Exited)
            && rig.pod("done-node1").is_some_and(|pod| pod["status"]["phase"] == "Succeeded")
    });
}

/// The agent has looked at every pod: it tells their state, and has run one that came last.
fn wait_until_settled(rig: &Rig, marker: &str) {
    rig.write_manifest("marker.yaml", &manifest::idle(marker));
    rig.wait_running(&format!("{marker}-node1"), "main");
    wait_for_pods(rig);
}

fn without_markers(rig: &Rig) -> Vec<(String, String)> {
    let mut seen: Vec<(String, String)> = Vec::new();
    for sandbox in rig.sandboxes().into_iter().filter(|seen| !seen.pod.starts_with("marker")) {
        // A pod that is done may have its sandbox stopped at any time.
        let state =
            if sandbox.pod == "done-node1" { "any".to_owned() } else { format!("ready: {}", sandbox.ready) };
        seen.push((sandbox.id, state));
    }
    for container in rig.containers().into_iter().filter(|seen| !seen.pod().starts_with("marker")) {
        seen.push((container.id, format!("{:?} since {}", container.state, container.started_at)));
    }
    seen
}

#[test]
fn sigterm_leaves_pods_running_and_the_next_agent_adopts_them() {
    let rig = Rig::new();
    start_pods(&rig);
    let agent = rig.start_agent(&[]);
    wait_for_pods(&rig);
    wait_until_settled(&rig, "marker-1");
    let before = without_markers(&rig);
    let status = agent.terminate();
    assert_eq!(status.code(), Some(0), "{}", rig.report());
    assert_eq!(without_markers(&rig), before);

    let _agent = rig.start_agent(&[]);
    wait_until_settled(&rig, "marker-2");
    assert_eq!(without_markers(&rig), before);
}

#[test]
fn sigkill_changes_nothing_either() {
    let rig = Rig::new();
    start_pods(&rig);
    let agent = rig.start_agent(&[]);
    wait_for_pods(&rig);
    wait_until_settled(&rig, "marker-1");
    let before = without_markers(&rig);
    agent.kill9();
    assert_eq!(without_markers(&rig), before);
    let _agent = rig.start_agent(&[]);
    wait_until_settled(&rig, "marker-2");
    assert_eq!(without_markers(&rig), before);
}

const PODS: [&str; 4] = ["a", "b", "c", "d"];

/// Ends an agent again and again while it starts pods, at another moment each time, then lets one finish.
fn interrupt_starts(rig: &Rig, end: impl Fn(crate::rig::Agent<'_>)) {
    for name in PODS {
        rig.write_manifest(&format!("{name}.yaml"), &journalled(rig, name, "1"));
    }
    for round in 0..6 {
        let agent = rig.start_agent(&[]);
        // No event marks the middle of a start.
        wait_until(Duration::from_millis(60 + 140 * round), || false);
        end(agent);
    }
    let _agent = rig.start_agent(&[]);
    for name in PODS {
        rig.wait_running(&format!("{name}-node1"), "main");
    }
    rig.wait("leftovers of interrupted starts to go", || {
        rig.sandboxes().iter().filter(|seen| seen.ready).count() == PODS.len()
    });
    let running = rig.containers().iter().filter(|seen| seen.state == ContainerState::Running).count();
    assert_eq!(running, PODS.len(), "{}", rig.report());
}

#[test]
fn killed_again_and_again_while_it_starts_pods_it_doubles_and_loses_none() {
    let rig = Rig::new();
    interrupt_starts(&rig, |agent| agent.kill9());
    for name in PODS {
        // None was asked to end, and no two ran at the same time. A start that the kill cut short may be made again:
        // containerd itself ends a container whose caller is gone before it has started.
        let told = journal(&rig, name);
        assert!(told.iter().all(|line| line == "start 1"), "pod {name}: {told:?}\n{}", rig.report());
    }
}

#[test]
fn stopped_again_and_again_while_it_starts_pods_it_starts_each_once() {
    let rig = Rig::new();
    interrupt_starts(&rig, |agent| {
        agent.terminate();
    });
    for name in PODS {
        assert_eq!(journal(&rig, name), ["start 1"], "pod {name}\n{}", rig.report());
    }
}

/// containerd 1.6 is left with such a process when an agent is killed while it makes a container.
#[test]
fn a_process_of_a_dead_container_does_not_keep_a_pod_from_going() {
    let rig = Rig::new();
    let twice = "[ -e /scratch/ran ] && exec sleep 1000; touch /scratch/ran";
    let text = manifest::pod("pod", "restartPolicy: Never\nvolumes: [{name: s, emptyDir: {}}]", twice);
    let mounts = "    volumeMounts: [{name: s, mountPath: /scratch}]\n    command:";
    let other = format!("  - {{name: other, image: {BUSYBOX}, command: [sleep, '1000']}}\n");
    rig.write_manifest("pod.yaml", &(text.replace("    command:", mounts) + &other));
    let _agent = rig.start_agent(&[]);
    rig.wait_running("pod-node1", "other");
    let main = || rig.containers_of("pod-node1").into_iter().find(|seen| seen.name == "main");
    rig.wait("a dead container", || main().is_some_and(|seen| seen.state == ContainerState::Exited));
    let dead = main().expect("the dead container").id;
    let socket = rig.endpoint().trim_start_matches("unix://").to_owned();
    let ctr = |args: &[&str]| rig.output("ctr", &[&["--address", &socket, "-n", "k8s.io"], args].concat());
    ctr(&["tasks", "start", "--detach", &dead]);
    assert!(ctr(&["tasks", "ls"]).contains(&dead), "a task of a container that is dead to CRI");
    assert_eq!(main().expect("the dead container").state, ContainerState::Exited);
    rig.remove_manifest("pod.yaml");
    rig.wait("all of it to go", || rig.sandboxes().is_empty() && rig.containers().is_empty());
    assert!(!ctr(&["tasks", "ls"]).contains(&dead));
}

#[test]
fn what_changed_while_no_agent_ran_is_made_good() {
    let rig = Rig::new();
    for name in ["stays", "changes", "goes"] {
        rig.write_manifest(&format!("{name}.yaml"), &journalled(&rig, name, "1"));
    }
    let agent = rig.start_agent(&[]);
    for name in ["stays", "changes", "goes"] {
        rig.wait(name, || journal(&rig, name) == ["start 1"]);
    }
    agent.kill9();
    rig.write_manifest("changes.yaml", &journalled(&rig, "changes", "2"));
    rig.remove_manifest("goes.yaml");
    rig.write_manifest("comes.yaml", &journalled(&rig, "comes", "1"));

    let _agent = rig.start_agent(&[]);
    rig.wait("the new pod", || journal(&rig, "comes") == ["start 1"]);
    rig.wait("the changed pod", || journal(&rig, "changes") == ["start 1", "asked 1", "end 1", "start 2"]);
    rig.wait("the removed pod to go", || rig.containers_of("goes-node1").is_empty());
    rig.wait("its sandbox to go", || rig.sandboxes().iter().all(|seen| seen.pod != "goes-node1"));
    assert_eq!(journal(&rig, "goes"), ["start 1", "asked 1", "end 1"]);
    assert_eq!(journal(&rig, "stays"), ["start 1"]);
}

#[test]
fn a_container_that_died_while_no_agent_ran_is_restarted() {
    let rig = Rig::new();
    rig.write_manifest("web.yaml", manifest::WEB);
    let agent = rig.start_agent(&[]);
    let first = rig.wait_running("web-node1", "web");
    agent.kill9();
    rig.kill_process(first.pid);
    let _agent = rig.start_agent(&[]);
    rig.wait("another instance", || {
        let running =
            |seen: &crate::rig::ContainerSeen| seen.state == ContainerState::Running && seen.id != first.id;
        rig.containers_of("web-node1").iter().any(running)
    });
    assert_eq!(rig.wait_running("web-node1", "web").attempt, 1);
}

#[test]
fn a_restart_leaves_the_pod_alone_that_keeps_another_source_out() {
    let rig = Rig::new();
    let server = Server::start(&rig, url::ADDRESS);
    server.serve(journalled(&rig, "both", "url"));
    rig.write_manifest("both.yaml", &journalled(&rig, "both", "file"));
    // The URL's pods are kept in one file, and are sooner read than these.
    for count in 0..200 {
        let many = manifest::idle(&format!("none-{count}")).replace("kind: Pod", "kind: Absent");
        rig.write_manifest(&format!("none-{count}.yaml"), &many);
    }
    let address = server.url("/pods");
    let shadowed = "rkubelet_manifests{source=\"http\",outcome=\"shadowed\"} 1";
    let mut logs = Vec::new();
    for _ in 0..3 {
        let agent = url::start(&rig, &address, &[]);
        rig.wait_running("both-node1", "main");
        rig.wait("the URL's pod to be shadowed", || url::has_metric(&rig, shadowed));
        logs.push(agent.log());
        agent.kill9();
    }
    assert_eq!(journal(&rig, "both"), ["start file"], "{}", logs.join("\n"));
}
