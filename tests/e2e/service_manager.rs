//! What systemd is told: ready when the loop turns, a status line that follows the pods, and the end.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use crate::manifest;
use crate::rig::{BUSYBOX, PATIENCE, Rig};

/// The next message.
fn receive(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 4096];
    let count = socket.recv(&mut bytes).expect("a message to the service manager");
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

/// Receives until one comes that holds this text; returns all of them.
fn receive_until(socket: &UnixDatagram, text: &str) -> Vec<String> {
    let mut all = vec![receive(socket)];
    while !all.last().is_some_and(|last| last.contains(text)) {
        all.push(receive(socket));
    }
    all
}

/// A launcher whose program writes to a pipe that is said to lead to journald.
const TO_JOURNAL: &[&str] = &[
    "bash",
    "-c",
    "exec 2> >(exec cat); JOURNAL_STREAM=$(stat -L -c %d:%i /proc/$$/fd/2) exec \"$@\"",
    "bash",
];

/// One that inherited the variable from a service, and writes elsewhere.
const ELSEWHERE: &[&str] = &["env", "JOURNAL_STREAM=1:1"];

#[test]
fn journald_gets_priorities_and_no_second_time() {
    let rig = Rig::without_containerd();
    rig.write_manifest("bad.yaml", "kind: Pod\nmetadata: {name: \"a\\nb\"}\n");
    let agent = rig.start_agent_through(TO_JOURNAL, &["-v=4"]);
    agent.wait_for_log("waiting for it");
    agent.wait_for_log("refused");
    agent.terminate_in_place();
    agent.wait_for_log("the pods keep running");
    let log = agent.log();
    for line in log.lines() {
        let text = ["<3>", "<4>", "<6>", "<7>"].iter().find_map(|prefix| line.strip_prefix(prefix));
        let text = text.unwrap_or_else(|| panic!("no priority: {line}"));
        assert!(!text.trim_start().starts_with("20"), "a time: {line}");
        assert!(!line.contains('\u{1b}'), "a colour: {line}");
    }
    let priority = |words: &str| {
        let lines = agent.log_lines_with(words);
        lines.first().unwrap_or_else(|| panic!("no {words:?}: {log}"))[..3].to_owned()
    };
    assert_eq!(priority("container runtime is not available"), "<4>");
    assert_eq!(priority("rkubelet is running"), "<6>");
    assert_eq!(priority("the pods keep running"), "<6>");

    let agent = rig.start_agent_through(ELSEWHERE, &[]);
    agent.wait_for_log("waiting for it");
    let log = agent.log();
    assert!(log.lines().all(|line| line.starts_with("20")), "with time, without priority: {log}");
}

#[test]
fn a_bad_configuration_leaves_its_reason_with_the_service_manager() {
    let rig = Rig::without_containerd();
    let path = rig.dir().join("notify");
    let socket = UnixDatagram::bind(&path).expect("bind the socket of a service manager");
    socket.set_read_timeout(Some(PATIENCE)).expect("set a limit");
    let notify = format!("NOTIFY_SOCKET={}", path.display());
    let launcher = [&["env", &notify], TO_JOURNAL].concat();
    let mut agent = rig.start_agent_through(&launcher, &["--max-pods=many"]);
    assert_eq!(agent.wait_for_end().code(), Some(64), "{}", agent.log());
    let reason = "flag --max-pods: \"many\" is not";
    let told = receive(&socket);
    assert!(told.starts_with(&format!("STATUS=bad configuration: {reason}")), "{told}");
    agent.wait_for_log(&format!("<3>rkubelet: {reason}"));
    assert_eq!(agent.log().lines().count(), 1, "{}", agent.log());
}

#[test]
fn ready_comes_when_the_loop_turns_and_the_status_follows_the_pods() {
    let rig = Rig::without_containerd();
    let path = rig.dir().join("notify");
    let socket = UnixDatagram::bind(&path).expect("bind the socket of a service manager");
    socket.set_read_timeout(Some(PATIENCE)).expect("set a limit");
    rig.write_manifest("pod.yaml", &manifest::idle("pod"));
    rig.write_manifest("bad.yaml", "kind: Pod\n");
    let notify = format!("NOTIFY_SOCKET={}", path.display());
    let agent = rig.start_agent_through(&["env", &notify], &[]);
    let ready = receive_until(&socket, "READY=1");
    // Though there is no runtime yet. Who is told so may ask at once.
    let health = rig.http_get("http://127.0.0.1:10248/healthz").map(|reply| reply.body);
    assert_eq!(health.as_deref(), Some("ok"), "{ready:?}\n{}", agent.log());
    let down = receive_until(&socket, "container runtime is down");
    assert!(down.iter().all(|line| line.starts_with("STATUS=") && line.lines().count() == 1), "{down:?}");
    rig.start_containerd();
    let up = receive_until(&socket, "STATUS=pods: 1 running, 1 refused; container runtime answers");
    assert!(up.len() < 30, "only changes are told: {up:?}");
    // It follows the runtime's going and coming, and a pod that waits.
    rig.stop_containerd();
    receive_until(&socket, "STATUS=pods: 1 running, 1 refused; container runtime is down: ");
    rig.write_manifest("late.yaml", &manifest::idle("late"));
    receive_until(&socket, "STATUS=pods: 1 running, 1 waiting, 1 refused; container runtime is down: ");
    rig.start_containerd();
    receive_until(&socket, "STATUS=pods: 2 running, 1 refused; container runtime answers");
    // At rest nothing is said.
    socket.set_read_timeout(Some(Duration::from_secs(3))).expect("set a limit");
    let mut bytes = [0; 256];
    assert!(socket.recv(&mut bytes).is_err(), "{}", String::from_utf8_lossy(&bytes));
    socket.set_read_timeout(Some(PATIENCE)).expect("set a limit");
    agent.terminate();
    receive_until(&socket, "STOPPING=1");
}

/// The capabilities that the unit leaves to the agent, as setpriv(1) names them.
fn capabilities_of_the_unit() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd/rkubelet.service");
    let unit = fs::read_to_string(path).expect("read the unit");
    let lines = unit.lines().filter_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let names: Vec<_> = lines.flat_map(str::split_whitespace).collect();
    assert!(names.len() > 5, "{unit}");
    let names = names.iter().map(|name| name.trim_start_matches("CAP_").to_lowercase());
    names.fold("-all".to_owned(), |list, name| format!("{list},+{name}"))
}

#[test]
fn the_capabilities_of_the_unit_are_enough() {
    let rig = Rig::new();
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: pod}}\nspec:\n  terminationGracePeriodSeconds: 1\n  \
         securityContext: {{runAsUser: 1000, fsGroup: 2000}}\n  volumes:\n  \
         - {{name: memory, emptyDir: {{medium: Memory, sizeLimit: 1Mi}}}}\n  - {{name: disk, emptyDir: {{}}}}\n  \
         - name: info\n    downwardAPI: {{items: [{{path: name, fieldRef: {{fieldPath: metadata.name}}}}]}}\n  \
         containers:\n  - name: main\n    image: {BUSYBOX}\n    \
         command: [/bin/sh, -c, 'touch /m/a /d/a && cat /i/name && exec sleep 1000']\n    \
         resources: {{limits: {{memory: 64Mi, cpu: 100m}}}}\n    \
         volumeMounts: [{{name: memory, mountPath: /m}}, {{name: disk, mountPath: /d, subPath: sub}}, {{name: info, mountPath: /i}}]\n    \
         readinessProbe: {{exec: {{command: [/bin/true]}}, periodSeconds: 1}}\n"
    );
    rig.write_manifest("pod.yaml", &text);
    let bounding = format!("--bounding-set={}", capabilities_of_the_unit());
    let launcher = ["setpriv", &bounding, "--no-new-privs"];
    let agent = rig.start_agent_through(&launcher, &[]);
    rig.wait("the pod to be ready", || {
        let conditions = rig.pod("pod-node1").map(|pod| pod["status"]["conditions"].clone());
        let conditions = conditions.and_then(|list| list.as_array().cloned()).unwrap_or_default();
        conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
    });
    let pid = agent.pid().expect("the agent runs");
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).expect("its status");
    let set = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    assert_eq!(set("CapEff:"), set("CapBnd:"), "it has what the unit leaves: {status}");
    rig.remove_manifest("pod.yaml");
    rig.wait("nothing to be left", || rig.sandboxes().is_empty());
    let warned: Vec<_> = agent.log_lines_with("WARN");
    assert!(!warned.iter().any(|line| line.contains("ermitted") || line.contains("denied")), "{warned:?}");
}
