//! What only one pod can have, a port of the host or a UID: who has it keeps it, and it changes hands when its owner is gone.

use std::fs;

use crate::manifest::{self, journal, journalled};
use crate::rig::{NODE_IP, READ_ONLY_PORT, Rig};

const UID: &str = "0f0e0d0c-0b0a-0908-0706-050403020100";

/// A web server with a port of the host, that takes three seconds to end.
fn server(name: &str) -> String {
    let script = format!(
        "mkdir /www; echo {name} > /www/index.html; trap 'sleep 3; exit 0' TERM\n\
         httpd -p 8080 -h /www; while :; do sleep 1000 & wait $!; done"
    );
    let text = manifest::script(name, &script);
    let text = text.replace("terminationGracePeriodSeconds: 1", "terminationGracePeriodSeconds: 20");
    text.replace("    command:", "    ports: [{containerPort: 8080, hostPort: 18081}]\n    command:")
}

fn verdicts(rig: &Rig) -> String {
    let reply = rig.http_get(&format!("http://127.0.0.1:{READ_ONLY_PORT}/verdicts"));
    reply.map(|reply| reply.body).unwrap_or_default()
}

fn served(rig: &Rig) -> String {
    rig.http_get(&format!("http://{NODE_IP}:18081/")).map(|reply| reply.body).unwrap_or_default()
}

#[test]
fn a_port_of_the_host_has_one_pod_and_the_next_when_that_one_is_gone() {
    let rig = Rig::new();
    rig.write_manifest("b.yaml", &server("b"));
    let agent = rig.start_agent(&[]);
    rig.wait_running("b-node1", "main");
    // Whoever is first in the alphabet is not first.
    rig.write_manifest("a.yaml", &server("a"));
    rig.wait("the refusal", || verdicts(&rig).contains("NodePorts: port 18081/TCP"));
    agent.wait_for_log("NodePorts: port 18081/TCP of the host is already that of pod default/b-node1");
    rig.write_manifest("marker.yaml", &manifest::idle("marker"));
    rig.wait_running("marker-node1", "main");
    assert!(rig.containers_of("a-node1").is_empty(), "{}", rig.report());
    rig.wait("the port to be that of the first", || served(&rig) == "b\n");

    rig.remove_manifest("b.yaml");
    rig.wait("the second one", || {
        let sandboxes = rig.sandboxes();
        let ready = |pod: &str| sandboxes.iter().any(|seen| seen.pod == pod && seen.ready);
        assert!(!(ready("a-node1") && ready("b-node1")), "both have the port: {}", rig.report());
        ready("a-node1")
    });
    rig.wait_running("a-node1", "main");
    rig.wait("the port to be that of the second", || served(&rig) == "a\n");
    assert!(!verdicts(&rig).contains("NodePorts"), "{}", verdicts(&rig));
}

/// A pod with a UID of its own and a volume, where it leaves its name. It takes its time to end.
fn keeper(rig: &Rig, name: &str) -> String {
    let text = journalled(rig, name, "1");
    let text = text
        .replace(&format!("metadata: {{name: {name}}}"), &format!("metadata: {{name: {name}, uid: {UID}}}"));
    let text = text.replace("volumes: [", "volumes: [{name: e, emptyDir: {}}, ");
    let text = text.replace("volumeMounts: [", "volumeMounts: [{name: e, mountPath: /kept}, ");
    text.replace("echo start 1", &format!("touch /kept/{name}; echo start 1"))
        .replace("sleep 1; echo end", "sleep 3; echo end")
}

/// The files in the volume of whoever has the UID.
fn kept(rig: &Rig) -> Vec<String> {
    let dir = rig.pod_dir(UID).join("volumes/kubernetes.io~empty-dir/e");
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The new name runs when the old one is gone, and keeps what it has written.
fn assert_renamed(rig: &Rig, old: &str, new: &str) {
    rig.wait("the new name to run", || {
        let ended = journal(rig, old).contains(&"end 1".to_owned());
        let started = !journal(rig, new).is_empty();
        assert!(ended || !started, "both names run with one UID: {}", rig.report());
        started
    });
    rig.wait("the old one to go", || rig.sandboxes().iter().all(|seen| seen.pod != format!("{old}-node1")));
    assert_eq!(journal(rig, old), ["start 1", "asked 1", "end 1"]);
    let running = rig.wait_running(&format!("{new}-node1"), "main");
    assert_eq!(running.labels["io.kubernetes.pod.uid"], UID);
    // Whatever is cleaned up after the old one has been when a later pod runs.
    rig.write_manifest("marker.yaml", &manifest::idle("marker"));
    rig.wait_running("marker-node1", "main");
    assert_eq!(kept(rig), [new], "{}", rig.report());
    assert_eq!(journal(rig, new), ["start 1"]);
}

fn renamed_while_the_agent_runs(old: &str, new: &str) {
    let rig = Rig::new();
    rig.write_manifest("pod.yaml", &keeper(&rig, old));
    let _agent = rig.start_agent(&[]);
    rig.wait("the first name", || journal(&rig, old) == ["start 1"]);
    rig.write_manifest("pod.yaml", &keeper(&rig, new));
    assert_renamed(&rig, old, new);
}

#[test]
fn a_pod_that_is_renamed_and_keeps_its_uid_waits_for_the_end_of_the_old_name() {
    renamed_while_the_agent_runs("a", "b");
}

#[test]
fn whichever_of_the_two_names_comes_first() {
    renamed_while_the_agent_runs("b", "a");
}

#[test]
fn a_pod_that_is_renamed_while_no_agent_runs_waits_too() {
    for (old, new) in [("a", "b"), ("b", "a")] {
        let rig = Rig::new();
        rig.write_manifest("pod.yaml", &keeper(&rig, old));
        let agent = rig.start_agent(&[]);
        rig.wait("the first name", || journal(&rig, old) == ["start 1"]);
        agent.kill9();
        rig.write_manifest("pod.yaml", &keeper(&rig, new));
        let _agent = rig.start_agent(&[]);
        assert_renamed(&rig, old, new);
    }
}

#[test]
fn a_pod_that_is_renamed_keeps_its_volume_though_the_runtime_has_forgotten_the_old_name() {
    let rig = Rig::new();
    rig.write_manifest("pod.yaml", &keeper(&rig, "a"));
    let agent = rig.start_agent(&[]);
    rig.wait("the first name", || journal(&rig, "a") == ["start 1"]);
    let checkpoint = rig.root_dir().join("rkubelet/pods/default_a-node1.json");
    rig.wait("its checkpoint", || checkpoint.exists());
    agent.kill9();
    rig.prune("a-node1");
    rig.write_manifest("pod.yaml", &keeper(&rig, "b"));
    let _agent = rig.start_agent(&[]);
    rig.wait("the new name", || journal(&rig, "b") == ["start 1"]);
    rig.wait("the old one to be forgotten", || !checkpoint.exists());
    rig.wait_running("b-node1", "main");
    assert_eq!(kept(&rig), ["b"], "{}", rig.report());
}

#[test]
fn two_pods_that_swap_their_ports_serve_again() {
    let rig = Rig::new();
    let other = |text: String| text.replace("18081", "18082");
    rig.write_manifest("a.yaml", &server("a"));
    rig.write_manifest("b.yaml", &other(server("b")));
    let agent = rig.start_agent(&[]);
    rig.wait("the first", || served(&rig) == "a\n");
    rig.wait_running("b-node1", "main");
    // Both files change before the agent looks.
    agent.while_halted(|| {
        rig.write_manifest("a.yaml", &other(server("a")));
        rig.write_manifest("b.yaml", &server("b"));
    });
    rig.wait("the second to have the port of the first", || served(&rig) == "b\n");
    let second = || rig.http_get(&format!("http://{NODE_IP}:18082/")).map(|reply| reply.body);
    rig.wait("the first to have that of the second", || second().as_deref() == Some("a\n"));
}
