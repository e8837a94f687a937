//! Probes: who is restarted, who is ready, who waits.

mod endpoints;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::manifest::IDLE;
use crate::rig::{BUSYBOX, READ_ONLY_PORT, Rig};

/// A directory that tests and pods share as /shared.
fn shared(rig: &Rig) -> PathBuf {
    let dir = rig.dir().join("shared");
    fs::create_dir_all(&dir).expect("create the shared directory");
    dir
}

fn touch(rig: &Rig, file: &str) {
    fs::write(shared(rig).join(file), "").expect("write a file that a probe looks for");
}

fn remove(rig: &Rig, file: &str) {
    fs::remove_file(shared(rig).join(file)).expect("remove a file that a probe looks for");
}

fn lines(rig: &Rig, file: &str) -> usize {
    fs::read_to_string(shared(rig).join(file)).unwrap_or_default().lines().count()
}

/// A container as a list item: its probes as YAML in one line each, and its script.
pub(crate) fn container(name: &str, fields: &[&str], script: &str) -> String {
    let script = serde_json::to_string(script).expect("a string");
    let fields: String = fields.iter().map(|field| format!("    {field}\n")).collect();
    format!(
        "  - name: {name}\n    image: {BUSYBOX}\n    volumeMounts: [{{name: s, mountPath: /shared}}]\n{fields}    command: [sh, -c, {script}]\n"
    )
}

pub(crate) fn pod(rig: &Rig, name: &str, spec: &[&str], containers: &[String]) -> String {
    let spec: String = spec.iter().map(|field| format!("  {field}\n")).collect();
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  volumes: [{{name: s, hostPath: {{path: {}}}}}]\n{spec}  containers:\n{}",
        shared(rig).display(),
        containers.concat()
    )
}

fn status(rig: &Rig, pod: &str) -> Value {
    rig.pod(pod).map_or(Value::Null, |pod| pod["status"].clone())
}

fn condition(rig: &Rig, pod: &str, kind: &str) -> Value {
    let status = status(rig, pod);
    let all = status["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|condition| condition["type"] == kind).unwrap_or(Value::Null)
}

fn is_ready(rig: &Rig, pod: &str) -> bool {
    condition(rig, pod, "Ready")["status"] == "True"
}

fn served(rig: &Rig, path: &str) -> Option<String> {
    rig.http_get(&format!("http://127.0.0.1:{READ_ONLY_PORT}{path}")).map(|reply| reply.body)
}

/// What the agent knows of the probe of a container.
pub(crate) fn probe(rig: &Rig, container: &str, kind: &str) -> Value {
    let all: Vec<Value> =
        served(rig, "/probes").and_then(|body| serde_json::from_str(&body).ok()).unwrap_or_default();
    let is_it = |probe: &&Value| probe["container"] == container && probe["probe"] == kind;
    all.iter().find(is_it).cloned().unwrap_or(Value::Null)
}

/// The events of a pod: type, reason and message.
fn events(rig: &Rig, pod: &str) -> Vec<(Value, Value, Value)> {
    let list: Value =
        served(rig, "/events").and_then(|body| serde_json::from_str(&body).ok()).unwrap_or_default();
    let all = list["items"].as_array().cloned().unwrap_or_default();
    let of_pod = all.iter().filter(|event| event["involvedObject"]["name"] == pod);
    of_pod.map(|event| (event["type"].clone(), event["reason"].clone(), event["message"].clone())).collect()
}

/// Does not end when asked to.
const STUBBORN: &str = "trap '' TERM; while :; do sleep 1; done";

#[test]
fn failing_liveness_and_startup_restart_by_policy_with_the_grace_of_the_probe() {
    let rig = Rig::new();
    let liveness = "livenessProbe: {exec: {command: [sh, -c, 'echo so so; test ! -e /shared/sick']}, periodSeconds: 1, \
                    failureThreshold: 2, terminationGracePeriodSeconds: 1}";
    let main = container("main", &[liveness], STUBBORN);
    let spec = ["terminationGracePeriodSeconds: 600"];
    rig.write_manifest("pod.yaml", &pod(&rig, "pod", &spec, &[main]));
    // Ends well when asked to: a probe that failed is a failure all the same.
    let startup = "startupProbe: {exec: {command: ['false']}, periodSeconds: 1, failureThreshold: 1}";
    let spec = ["restartPolicy: OnFailure"];
    rig.write_manifest("slow.yaml", &pod(&rig, "slow", &spec, &[container("main", &[startup], IDLE)]));
    let spec = ["restartPolicy: Never"];
    rig.write_manifest("once.yaml", &pod(&rig, "once", &spec, &[container("main", &[startup], IDLE)]));
    let agent = rig.start_agent(&[]);
    let first = rig.wait_running("pod-node1", "main");
    rig.wait("a first success", || probe(&rig, "main", "Liveness")["verdict"] == "Success");
    assert_eq!(rig.wait_running("pod-node1", "main").id, first.id);
    assert_eq!(probe(&rig, "main", "Liveness")["last"]["output"], "so so\n");
    let fell_ill = Instant::now();
    touch(&rig, "sick");
    agent.wait_for_log("Container main failed liveness probe, will be restarted");
    rig.wait("the end of the first", || {
        rig.containers_of("pod-node1").iter().all(|c| c.id != first.id || c.pid == 0)
    });
    assert!(fell_ill.elapsed() < Duration::from_secs(120), "the pod's own grace is 600 s");
    remove(&rig, "sick");
    rig.wait("the restart", || status(&rig, "pod-node1")["containerStatuses"][0]["restartCount"] == 1);
    agent.wait_for_log("Container main failed startup probe, will be restarted");
    rig.wait("a restart after a failed start", || {
        status(&rig, "slow-node1")["containerStatuses"][0]["restartCount"].as_i64() >= Some(1)
    });
    rig.wait("the end of what is run once", || {
        ["Succeeded", "Failed"].iter().any(|end| status(&rig, "once-node1")["phase"] == *end)
    });
    assert_eq!(rig.containers_of("once-node1").len(), 1);
    let event = |kind: &str, reason: &str, message: &str| (kind.into(), reason.into(), message.into());
    assert_eq!(
        events(&rig, "pod-node1")[..2],
        [
            event("Warning", "Unhealthy", "Liveness probe failed: so so\n"),
            event("Normal", "Killing", "Container main failed liveness probe, will be restarted"),
        ]
    );
}

#[test]
fn readiness_follows_its_probe_and_survives_the_agent() {
    let rig = Rig::new();
    let readiness =
        "readinessProbe: {exec: {command: [test, -e, /shared/ready]}, periodSeconds: 1, failureThreshold: 1}";
    rig.write_manifest("pod.yaml", &pod(&rig, "pod", &[], &[container("main", &[readiness], IDLE)]));
    let gate = ["readinessGates: [{conditionType: example.com/gate}]"];
    rig.write_manifest("gated.yaml", &pod(&rig, "gated", &gate, &[container("main", &[], IDLE)]));
    let agent = rig.start_agent(&[]);
    let first = rig.wait_running("pod-node1", "main");
    rig.wait("a failure", || probe(&rig, "main", "Readiness")["verdict"] == "Failure");
    rig.wait("it to be shown", || status(&rig, "pod-node1")["containerStatuses"][0]["started"] == true);
    assert_eq!(condition(&rig, "pod-node1", "Ready")["reason"], "ContainersNotReady");
    touch(&rig, "ready");
    rig.wait("it to be ready", || is_ready(&rig, "pod-node1"));
    rig.wait("the gated one", || condition(&rig, "gated-node1", "ContainersReady")["status"] == "True");
    assert_eq!(condition(&rig, "gated-node1", "Ready")["reason"], "ReadinessGatesNotReady");
    let since = condition(&rig, "pod-node1", "Ready")["lastTransitionTime"].clone();
    agent.kill9();

    let _agent = rig.start_agent(&[]);
    rig.wait("the next agent's first result", || {
        // Whenever the pod is shown, it is ready.
        if let Some(pod) = rig.pod("pod-node1") {
            assert!(is_ready(&rig, "pod-node1"), "{pod:#}");
        }
        probe(&rig, "main", "Readiness")["last"]["result"] == "Success"
    });
    assert_eq!(condition(&rig, "pod-node1", "Ready")["lastTransitionTime"], since);
    remove(&rig, "ready");
    rig.wait("it to be unready", || rig.pod("pod-node1").is_some() && !is_ready(&rig, "pod-node1"));
    assert_eq!(rig.wait_running("pod-node1", "main").id, first.id, "nobody is restarted for that");
    let metrics = served(&rig, "/metrics/probes").expect("metrics");
    let series = "prober_probe_total{container=\"main\",namespace=\"default\",pod=\"pod-node1\",pod_uid=";
    assert!(metrics.contains(series), "{metrics}");
    let metrics = served(&rig, "/metrics").expect("metrics");
    assert!(metrics.contains("\nrkubelet_exec_probes_limit 128\n"), "{metrics}");
}

#[test]
fn startup_gates_the_other_probes_and_the_containers_after_a_sidecar() {
    let rig = Rig::new();
    let up = "{exec: {command: [test, -e, /shared/up]}, periodSeconds: 1, failureThreshold: ";
    let (startup, liveness) = (format!("startupProbe: {up}1000}}"), format!("livenessProbe: {up}1}}"));
    let sidecar = container("proxy", &["restartPolicy: Always", &startup, &liveness], IDLE);
    let main = container("main", &[], "touch /shared/main; exec sleep 1000");
    let text = pod(&rig, "pod", &[], &[main])
        .replace("  containers:\n", &format!("  initContainers:\n{sidecar}  containers:\n"));
    rig.write_manifest("pod.yaml", &text);
    let _agent = rig.start_agent(&[]);
    let proxy = rig.wait_running("pod-node1", "proxy");
    rig.wait("three failures of the startup probe", || {
        probe(&rig, "proxy", "Startup")["inARow"].as_i64() >= Some(3)
    });
    assert_eq!(probe(&rig, "proxy", "Liveness")["last"], Value::Null, "it would have failed");
    let shown = status(&rig, "pod-node1");
    assert_eq!(
        (&shown["phase"], &shown["initContainerStatuses"][0]["started"]),
        (&"Pending".into(), &false.into())
    );
    assert_eq!(rig.containers_of("pod-node1").len(), 1);
    touch(&rig, "up");
    rig.wait("the container after it", || shared(&rig).join("main").exists());
    rig.wait("the pod to be ready", || is_ready(&rig, "pod-node1"));
    rig.wait("liveness", || probe(&rig, "proxy", "Liveness")["verdict"] == "Success");
    assert_eq!(rig.wait_running("pod-node1", "proxy").id, proxy.id);
}

#[test]
fn a_pod_that_ends_is_still_asked_whether_it_is_ready_and_nothing_else() {
    let rig = Rig::new();
    let notes = |kind: &str| {
        format!(
            "{kind}Probe: {{exec: {{command: [sh, -c, 'echo x >> /shared/{kind}; test ! -e /shared/asked']}}, periodSeconds: 1, failureThreshold: 1}}"
        )
    };
    let script = "trap 'touch /shared/asked' TERM; until [ -e /shared/end ]; do sleep 0.1; done";
    let main = container("main", &[&notes("readiness"), &notes("liveness")], script);
    rig.write_manifest("pod.yaml", &pod(&rig, "pod", &["terminationGracePeriodSeconds: 600"], &[main]));
    let agent = rig.start_agent(&[]);
    rig.wait("both probes", || lines(&rig, "readiness") > 0 && lines(&rig, "liveness") > 0);
    rig.wait("the pod to be ready", || is_ready(&rig, "pod-node1"));
    rig.remove_manifest("pod.yaml");
    rig.wait("the signal", || shared(&rig).join("asked").exists());
    rig.wait("the pod to be unready", || rig.pod("pod-node1").is_some() && !is_ready(&rig, "pod-node1"));
    let (readiness, liveness) = (lines(&rig, "readiness"), lines(&rig, "liveness"));
    rig.wait("more of the one probe", || lines(&rig, "readiness") >= readiness + 3);
    assert_eq!(lines(&rig, "liveness"), liveness);
    assert_eq!(agent.log_lines_with("failed liveness probe"), [""; 0]);
    touch(&rig, "end");
    rig.wait("the pod to go", || rig.sandboxes().is_empty());
    rig.wait("its probes to go", || served(&rig, "/probes").as_deref() == Some("[]"));
}

#[test]
fn containers_are_asked_over_http_and_tcp_by_the_names_of_their_ports() {
    let rig = Rig::new();
    fs::create_dir_all(shared(&rig).join("www")).expect("create the server's directory");
    let ports = "ports: [{name: web, containerPort: 8080}]";
    let readiness = "readinessProbe: {httpGet: {port: web, path: '/up?a=b'}, periodSeconds: 1}";
    let liveness = "livenessProbe: {tcpSocket: {port: web}, periodSeconds: 1, failureThreshold: 1000}";
    let serve = "httpd -f -p 8080 -h /shared/www & trap 'exit 0' TERM; wait $!";
    rig.write_manifest(
        "web.yaml",
        &pod(&rig, "web", &[], &[container("web", &[ports, readiness, liveness], serve)]),
    );
    let closed = "readinessProbe: {tcpSocket: {port: 9}, periodSeconds: 1, failureThreshold: 1}";
    let nowhere = "livenessProbe: {tcpSocket: {port: ftp}, periodSeconds: 1, failureThreshold: 1}";
    rig.write_manifest("shut.yaml", &pod(&rig, "shut", &[], &[container("shut", &[closed, nowhere], IDLE)]));
    let _agent = rig.start_agent(&[]);
    rig.wait("a connection", || probe(&rig, "web", "Liveness")["verdict"] == "Success");
    rig.wait("an answer", || {
        probe(&rig, "web", "Readiness")["last"]["output"] == "HTTP probe failed with statuscode: 404"
    });
    fs::write(shared(&rig).join("www/up"), "fine").expect("write what is asked for");
    rig.wait("the pod to be ready", || is_ready(&rig, "web-node1"));
    assert_eq!(probe(&rig, "web", "Readiness")["last"]["output"], "fine");
    rig.wait("a refusal", || probe(&rig, "shut", "Readiness")["verdict"] == "Failure");
    rig.wait("a probe that cannot be run", || probe(&rig, "shut", "Liveness")["last"]["result"] == "Unknown");
    assert_eq!(
        probe(&rig, "shut", "Liveness")["verdict"],
        Value::Null,
        "which says nothing about the container"
    );
}
