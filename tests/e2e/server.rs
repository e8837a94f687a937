//! Point 7: health, pods and metrics over HTTP.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::manifest;
use crate::rig::{NODE_IP, READ_ONLY_PORT, Rig, inside_network};

fn read_only(path: &str) -> String {
    format!("http://127.0.0.1:{READ_ONLY_PORT}{path}")
}

#[test]
fn healthz_says_ok() {
    let rig = Rig::new();
    let agent = rig.start_agent(&[]);
    agent.wait_healthy();
    assert!(
        rig.http_get(&format!("http://{NODE_IP}:10248/healthz")).is_none(),
        "the health port is on loopback only"
    );
}

/// Sends a request as it is written, and returns the response. For a thread in the rig's network.
fn send_request(head: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", READ_ONLY_PORT)).expect("connect");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    stream.write_all(format!("{head}\r\nConnection: close\r\n\r\n").as_bytes()).expect("send");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("a response");
    text
}

#[test]
fn every_form_of_a_path_is_understood_and_idle_connections_delay_nobody() {
    let rig = Rig::new();
    let agent = rig.start_agent(&[]);
    agent.wait_healthy();
    rig.wait("the read-only port", || rig.http_get(&read_only("/healthz")).is_some());
    let client = inside_network(rig.machine().first_pid(), || {
        for target in ["/healthz", "http://node1/healthz", "/health%7A"] {
            let response = send_request(&format!("GET {target} HTTP/1.1\r\nHost: node1"));
            assert!(response.starts_with("HTTP/1.1 200 "), "{target}: {response}");
        }
        let idle: Vec<_> = (0..145).map(|_| TcpStream::connect(("127.0.0.1", READ_ONLY_PORT))).collect();
        let asked = Instant::now();
        assert!(send_request("GET /healthz HTTP/1.1").ends_with("ok"));
        assert!(asked.elapsed() < Duration::from_secs(10), "after {:?}", asked.elapsed());
        drop(idle);
    });
    client.join().expect("the client");
}

#[test]
fn pods_is_a_pod_list_with_live_status() {
    let rig = Rig::new();
    rig.write_manifest("web.yaml", manifest::WEB);
    rig.write_manifest("host.yaml", manifest::HOST_NETWORK);
    let _agent = rig.start_agent(&[]);
    let container = rig.wait_running("web-node1", "web");
    let running = |name: &str| rig.pod(name).is_some_and(|pod| pod["status"]["phase"] == "Running");
    rig.wait("both pods to be Running in /pods", || running("web-node1") && running("etcd-node1"));

    let list = rig.pods().expect("/pods");
    assert_eq!((list["kind"].as_str(), list["apiVersion"].as_str()), (Some("PodList"), Some("v1")));
    assert_eq!(list["items"].as_array().map(Vec::len), Some(2));
    let pod = rig.pod("web-node1").expect("pod web-node1");
    let sandbox = rig.ready_sandboxes("default", "web-node1").remove(0);
    assert_eq!(pod["metadata"]["namespace"], "default");
    assert_eq!(pod["metadata"]["uid"], sandbox.uid);
    assert_eq!(pod["metadata"]["annotations"]["kubernetes.io/config.source"], "file");
    assert_eq!(pod["spec"]["nodeName"], "node1");
    assert_eq!(pod["spec"]["restartPolicy"], "Always");
    assert_eq!(pod["status"]["podIP"], sandbox.ip);
    let status = &pod["status"]["containerStatuses"][0];
    assert_eq!((&status["name"], &status["restartCount"]), (&"web".into(), &0.into()));
    assert_eq!((&status["ready"], &status["started"]), (&true.into(), &true.into()));
    assert_eq!(status["containerID"], format!("containerd://{}", container.id));
    assert!(status["state"]["running"]["startedAt"].is_string(), "{status:#}");
    let ready = pod["status"]["conditions"].as_array().expect("conditions");
    assert!(ready.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True"));

    rig.kill_process(container.pid);
    rig.wait("the restart to show in /pods", || {
        let pod = rig.pod("web-node1").expect("pod web-node1");
        let status = &pod["status"]["containerStatuses"][0];
        status["restartCount"] == 1 && status["lastState"]["terminated"]["exitCode"] == 137
    });
}

#[test]
fn metrics_are_prometheus_text() {
    let rig = Rig::new();
    let agent = rig.start_agent(&[]);
    agent.wait_healthy();
    rig.wait("/metrics", || rig.http_get(&read_only("/metrics")).is_some());
    let reply = rig.http_get(&read_only("/metrics")).expect("/metrics");
    assert_eq!(reply.status, 200);
    assert!(reply.headers.to_lowercase().contains("content-type: text/plain"), "{}", reply.headers);
    for line in reply.body.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let value = line.rsplit(' ').next().expect("a value");
        assert!(value.parse::<f64>().is_ok(), "not a sample: {line}");
    }
    assert!(reply.body.contains("# TYPE "), "{}", reply.body);
    assert_eq!(rig.http_get(&read_only("/nowhere")).map(|reply| reply.status), Some(404));
}

#[test]
fn nothing_listens_that_was_not_asked_for() {
    let rig = Rig::new();
    let flag = |name: &str, path: std::path::PathBuf| format!("--{name}={}", path.display());
    let agent = rig.start_agent_with_flags(&[
        &flag("root-dir", rig.root_dir()),
        &flag("pod-manifest-path", rig.manifest_dir()),
        &flag("socket-path", rig.socket_path()),
        &format!("--container-runtime-endpoint={}", rig.endpoint()),
    ]);
    agent.wait_healthy();
    rig.wait("the socket", || rig.socket_path().exists());
    let listening = rig.output("ss", &["--listening", "--tcp", "--numeric", "--no-header", "--processes"]);
    let own: Vec<_> = listening.lines().filter(|line| line.contains("rkubelet")).collect();
    assert!(own.len() == 1 && own[0].contains("127.0.0.1:10248"), "{listening}");
}
