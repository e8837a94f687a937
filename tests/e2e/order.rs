//! Ordered start: `rkubelet.dev/after` holds a pod until others are ready, for a while, and never one that runs.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rkubelet::testing::sandbox_width;
use serde_json::Value;

use crate::manifest;
use crate::rig::{ContainerSeen, ContainerState, Rig, wait_until};

/// Gives a manifest of the tests annotations of ours, each as `key: value`.
fn annotated(text: &str, annotations: &[&str]) -> String {
    let all: Vec<_> = annotations.iter().map(|line| format!("rkubelet.dev/{line}")).collect();
    let (head, tail) = text.split_once("}\nspec:").expect("metadata in one line");
    format!("{head}, annotations: {{{}}}}}\nspec:{tail}", all.join(", "))
}

fn idle_after(name: &str, after: &str) -> String {
    annotated(&manifest::idle(name), &[&format!("after: \"{after}\"")])
}

/// A pod that becomes ready once [`let_go`] was called for it.
fn slow(rig: &Rig, name: &str) -> String {
    let dir = rig.dir().join("go");
    fs::create_dir_all(&dir).expect("create a directory");
    let spec = format!(
        "volumes: [{{name: go, hostPath: {{path: {}}}}}]\ninitContainers:\n- name: wait\n  image: {}\n  \
         command: [sh, -c, 'until [ -e /go/{name} ]; do sleep 0.1; done']\n  \
         volumeMounts: [{{name: go, mountPath: /go}}]",
        dir.display(),
        crate::rig::BUSYBOX
    );
    manifest::pod(name, &spec, manifest::IDLE)
}

fn let_go(rig: &Rig, name: &str) {
    fs::write(rig.dir().join("go").join(name), "").expect("let a pod go");
}

/// What a container of a pod waits for, reason and message.
fn waiting(rig: &Rig, pod: &str) -> Option<(String, String)> {
    let status = rig.pod(pod)?["status"]["containerStatuses"][0]["state"]["waiting"].clone();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    status.is_object().then(|| (text(&status["reason"]), text(&status["message"])))
}

fn wait_until_held(rig: &Rig, pod: &str, message: &str) {
    rig.wait(&format!("{pod} to wait: {message}"), || {
        waiting(rig, pod).is_some_and(|(reason, told)| reason == "WaitingForPods" && told == message)
    });
}

/// Another container of the pod than this one runs.
fn wait_for_successor(rig: &Rig, pod: &str, first: &ContainerSeen) {
    rig.wait(&format!("another container of {pod}"), || {
        let running = |seen: &ContainerSeen| seen.state == ContainerState::Running && seen.id != first.id;
        rig.containers_of(pod).iter().any(running)
    });
}

#[test]
fn a_pod_starts_when_those_before_it_are_ready_or_done() {
    let rig = Rig::new();
    // A chain, written backwards; the second waits for the first by its full name.
    rig.write_manifest("a.yaml", &idle_after("server", "cache, migration"));
    rig.write_manifest("b.yaml", &idle_after("cache", "db-node1"));
    rig.write_manifest("c.yaml", &slow(&rig, "db"));
    let migration = annotated(&manifest::pod("migration", "restartPolicy: Never", "exit 0"), &["after: db"]);
    rig.write_manifest("d.yaml", &migration);
    // No relist within this test: those who wait are told.
    let agent = rig.start_agent(&["--sync-frequency=1h"]);
    rig.wait_running("db-node1", "wait");
    wait_until_held(&rig, "cache-node1", "starts after db-node1 (not ready), or after 300s");
    wait_until_held(
        &rig,
        "server-node1",
        "starts after cache (not ready), migration (not ready), or after 300s",
    );
    assert_eq!(rig.pod("server-node1").expect("a pod")["status"]["phase"], "Pending");
    let sandboxes: Vec<_> = rig.sandboxes().into_iter().map(|seen| seen.pod).collect();
    assert_eq!(sandboxes, ["db-node1"], "of those that wait there is nothing");

    let_go(&rig, "db");
    let server = rig.wait_running("server-node1", "main");
    let cache = rig.wait_running("cache-node1", "main");
    let db = rig.wait_running("db-node1", "main");
    let migration = rig.containers_of("migration-node1");
    assert_eq!((migration.len(), migration[0].exit_code), (1, 0), "{}", rig.report());
    assert!(db.started_at < cache.created_at && db.started_at < migration[0].created_at, "{}", rig.report());
    assert!(cache.started_at < server.created_at && migration[0].finished_at < server.created_at);
    assert!(!agent.log().contains("waited long enough"), "{}", agent.log());
}

#[test]
fn a_pod_does_not_wait_for_ever() {
    let rig = Rig::new();
    let text = annotated(&manifest::idle("app"), &["after: nobody", "after-timeout: 3s"]);
    rig.write_manifest("app.yaml", &text);
    let written = Instant::now();
    let agent = rig.start_agent(&[]);
    wait_until_held(&rig, "app-node1", "starts after nobody (there is no such pod), or after 3s");
    rig.wait_running("app-node1", "main");
    assert!(written.elapsed() >= Duration::from_secs(3));
    let lines = agent.log_lines_with("starting without them");
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("WARN") && lines[0].contains("nobody (there is no such pod)"), "{}", lines[0]);
}

#[test]
fn what_runs_is_not_held_up_again() {
    let rig = Rig::new();
    rig.write_manifest("db.yaml", &manifest::idle("db"));
    rig.write_manifest("app.yaml", &idle_after("app", "db"));
    let agent = rig.start_agent(&[]);
    let app = rig.wait_running("app-node1", "main");
    agent.kill9();

    // A new agent, and nobody to wait for: it is adopted, and a sandbox that dies is replaced at once.
    rig.remove_manifest("db.yaml");
    let agent = rig.start_agent(&[]);
    rig.wait("db to end", || rig.sandboxes().iter().all(|seen| seen.pod != "db-node1"));
    assert_eq!(rig.wait_running("app-node1", "main").id, app.id);
    rig.kill_process(rig.ready_sandboxes("default", "app-node1")[0].pid);
    wait_for_successor(&rig, "app-node1", &app);
    assert!(!agent.log().contains("waited long enough"), "{}", agent.log());

    // Whoever was waited for may come again, and change: that is nothing to those who run.
    let app = rig.wait_running("app-node1", "main");
    rig.write_manifest("db.yaml", &slow(&rig, "db"));
    rig.wait("db to begin", || !rig.containers_of("db-node1").is_empty());
    assert_eq!(rig.wait_running("app-node1", "main").id, app.id);
}

#[test]
fn an_edited_pod_runs_on_until_its_successor_may_start() {
    let rig = Rig::new();
    rig.write_manifest("app.yaml", &manifest::idle("app"));
    let agent = rig.start_agent(&[]);
    let first = rig.wait_running("app-node1", "main");
    rig.write_manifest("app.yaml", &idle_after("app", "db"));
    wait_until_held(&rig, "app-node1", "starts after db (there is no such pod), or after 300s");
    rig.write_manifest("db.yaml", &slow(&rig, "db"));
    wait_until_held(&rig, "app-node1", "starts after db (not ready), or after 300s");
    assert_eq!(rig.wait_running("app-node1", "main").id, first.id, "an edit takes nobody's pod away");

    let_go(&rig, "db");
    wait_for_successor(&rig, "app-node1", &first);
    let second = rig.wait_running("app-node1", "main");
    rig.write_manifest("app.yaml", &idle_after("app", "db,db-node1"));
    wait_for_successor(&rig, "app-node1", &second);
    let waits = agent.log_lines_with("waiting for other pods");
    assert_eq!(waits.len(), 2, "the third version had nobody to wait for: {waits:#?}");
}

#[test]
fn pods_that_wait_in_a_circle_are_refused_and_what_runs_stays() {
    let rig = Rig::new();
    rig.write_manifest("self.yaml", &idle_after("self", "self"));
    rig.write_manifest("bad.yaml", &idle_after("bad", "a,,b"));
    rig.write_manifest("a.yaml", &manifest::idle("a"));
    rig.write_manifest("b.yaml", &idle_after("b", "a"));
    let agent = rig.start_agent(&[]);
    agent.wait_for_log("self -> self");
    agent.wait_for_log("metadata.annotations[rkubelet.dev/after]");
    rig.wait_running("a-node1", "main");
    rig.wait_running("b-node1", "main");
    let before = rig.fingerprint();

    rig.write_manifest("a.yaml", &idle_after("a", "b"));
    agent.wait_for_log("a -> b -> a");
    agent.wait_for_log("b -> a -> b");
    settle(&rig, "one");
    rig.assert_untouched(&before);
    agent.kill9();

    // Not even an agent that never saw another version ends them.
    let agent = rig.start_agent(&[]);
    agent.wait_for_log("a -> b -> a");
    settle(&rig, "two");
    rig.assert_untouched(&before);
    for file in ["a.yaml", "b.yaml", "self.yaml"] {
        let file = rig.manifest_dir().join(file).display().to_string();
        let lines = agent.log_lines_with("manifest refused");
        assert_eq!(lines.iter().filter(|line| line.contains(&file)).count(), 1, "{lines:#?}");
    }
    rig.write_manifest("a.yaml", &manifest::idle("a"));
    rig.wait("both to be looked after again", || {
        let phase = |pod| rig.pod(pod).is_some_and(|pod| pod["status"]["phase"] == "Running");
        phase("a-node1") && phase("b-node1")
    });
    rig.assert_untouched(&before);
    // No pod came of the ones that were refused, and none waits in silence.
    wait_until(Duration::from_millis(500), || !rig.containers_of("self-node1").is_empty());
    assert!(rig.pod("self-node1").is_none() && rig.containers_of("self-node1").is_empty());
}

/// A pod that is written last runs: what came before it has been looked at by then.
fn settle(rig: &Rig, name: &str) {
    rig.write_manifest(&format!("{name}.yaml"), &manifest::idle(name));
    rig.wait_running(&format!("{name}-node1"), "main");
}

#[test]
fn of_many_pods_those_that_matter_most_start_first() {
    const CRITICAL: usize = 6;
    let rig = Rig::new();
    let cores = thread::available_parallelism().expect("the number of cores").get();
    // So many are made at once, and may be asked for before one that is slow for a moment.
    let width = sandbox_width(cores);
    let (plain, all) = (3 * width, 3 * width + CRITICAL);
    for number in 0..all {
        let (name, class) = match number < plain {
            true => (format!("a{number:02}"), ""),
            false => (format!("z{number:02}"), "\npriorityClassName: system-node-critical"),
        };
        let spec = format!("hostNetwork: true{class}");
        rig.write_manifest(&format!("{name}.yaml"), &manifest::pod(&name, &spec, manifest::IDLE));
    }
    let _agent = rig.start_agent(&[]);
    rig.wait("all pods", || rig.sandboxes().len() == all);
    // As they came to containerd; when it makes what it was asked for is its own affair.
    let log = fs::read_to_string(rig.dir().join("containerd.log")).expect("containerd's log");
    let asked = log.lines().filter(|line| !line.contains(" returns "));
    let asked: Vec<_> = asked
        .filter_map(|line| {
            line.split_once("msg=\"RunPodSandbox for &PodSandboxMetadata{Name:")?.1.split(',').next()
        })
        .collect();
    assert_eq!(asked.len(), all, "{asked:?}");
    let last = asked.iter().rposition(|pod| pod.starts_with('z')).expect("they were asked for");
    let before = asked[..last].iter().filter(|pod| pod.starts_with('a')).count();
    assert!(before <= 2 * width, "{before} came before one that matters more: {asked:?}");
}
