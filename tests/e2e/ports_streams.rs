//! What the socket streams: logs of containers, and commands and ports by connections that are passed through.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::manifest;
use crate::rig::{Agent, Rig};

/// A request on the socket, whose answer is still to be read.
fn ask(rig: &Rig, head: &str) -> BufReader<UnixStream> {
    let mut stream = UnixStream::connect(rig.socket_path()).expect("connect to the socket");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    write!(stream, "{head}\r\n\r\n").expect("send a request");
    BufReader::new(stream)
}

/// The status and the body of a whole answer.
fn whole(rig: &Rig, method: &str, path: &str) -> (u16, String) {
    let mut text = String::new();
    ask(rig, &format!("{method} {path} HTTP/1.0")).read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    (head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status"), body.to_owned())
}

fn read_head(stream: &mut BufReader<UnixStream>) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(
            stream.read_line(&mut head).expect("a line of the head"),
            0,
            "the head ends early: {head}"
        );
    }
    head
}

fn serving(rig: &Rig) -> Agent<'_> {
    let agent = rig.start_agent(&[]);
    agent.wait_healthy();
    rig.wait("the socket", || rig.socket_path().exists());
    agent
}

/// Waits until the agent knows that the pod runs.
fn wait_running(rig: &Rig, pod: &str) {
    rig.wait("the pod to run", || rig.pod(pod).is_some_and(|pod| pod["status"]["phase"] == "Running"));
}

#[test]
fn logs_are_selected_and_followed_through_a_restart() {
    let rig = Rig::new();
    let script =
        "echo one; echo two >&2; echo three; while ! [ -e /tmp/end ]; do sleep 0.1; done; echo last; exit 1";
    rig.write_manifest("talk.yaml", &manifest::script("talk", script));
    let agent = serving(&rig);
    rig.wait_running("talk-node1", "main");
    wait_running(&rig, "talk-node1");
    let log = |query: &str| whole(&rig, "GET", &format!("/containerLogs/default/talk-node1/main?{query}"));
    rig.wait("all lines", || log("").1.lines().count() == 3);
    let all = log("").1;
    assert!(all.contains("one\n") && all.contains("two\n") && all.contains("three\n"), "{all}");
    assert_eq!(log("stream=Stderr"), (200, "two\n".into()));
    assert_eq!(log("stream=Stdout"), (200, "one\nthree\n".into()));
    assert_eq!(log("tailLines=1").1.lines().count(), 1);
    assert_eq!(log("limitBytes=2").1.len(), 2);
    assert_eq!(log("sinceTime=2099-01-01T00:00:00Z"), (200, String::new()));
    let stamped = log("timestamps=1&tailLines=1").1;
    assert!(stamped.starts_with("20") && stamped.contains("Z "), "{stamped}");
    assert_eq!(log("previous=1").0, 400, "there is none before");
    assert_eq!(log("tailLines=-1").0, 422);
    assert_eq!(whole(&rig, "GET", "/containerLogs/default/none/main").0, 404);
    assert_eq!(whole(&rig, "GET", "/containerLogs/default/talk-node1/none").0, 404);
    assert_eq!(whole(&rig, "GET", "/containerLogs/default/talk-node1/..%2f..").0, 404);

    let mut followed = ask(&rig, "GET /containerLogs/default/talk-node1/main?follow=1 HTTP/1.0");
    assert!(read_head(&mut followed).starts_with("HTTP/1.0 200 "));
    assert_eq!(whole(&rig, "POST", "/run/default/talk-node1/main?cmd=touch+/tmp/end"), (200, String::new()));
    let mut text = String::new();
    followed.read_to_string(&mut text).expect("the log ends with its container");
    assert!(text.ends_with("last\n") && text.lines().count() == 4, "{text}");
    rig.wait("the log of the container before", || {
        log("previous=1").1.ends_with("last\n") && !log("").1.contains("last")
    });
    // The runtime is not asked for logs.
    rig.stop_containerd();
    assert!(log("previous=1").1.ends_with("last\n"));
    drop(agent);
}

/// A client's frame of the WebSocket protocol: the stream's number, and text.
fn frame(stream: u8, text: &[u8]) -> Vec<u8> {
    let mut frame =
        vec![0x82, 0x80 | u8::try_from(text.len() + 1).expect("a short text"), 0, 0, 0, 0, stream];
    frame.extend_from_slice(text);
    frame
}

/// The next frame of the server: its kind, the stream's number, and text.
fn read_frame(stream: &mut BufReader<UnixStream>) -> (u8, Vec<u8>) {
    let mut head = [0; 2];
    stream.read_exact(&mut head).expect("a frame");
    let length = match head[1] {
        126 => {
            let mut long = [0; 2];
            stream.read_exact(&mut long).expect("a length");
            usize::from(u16::from_be_bytes(long))
        }
        short => usize::from(short),
    };
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).expect("the contents of a frame");
    (head[0] & 0xf, payload)
}

const WEB_SOCKET: &str = "Host: node1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    Sec-WebSocket-Protocol: v4.channel.k8s.io";

/// What a command writes to its output, of a WebSocket client that sends it some input.
fn exec_web_socket(rig: &Rig, path: &str, input: Option<&[u8]>) -> String {
    let mut client = ask(rig, &format!("GET {path} HTTP/1.1\r\n{WEB_SOCKET}"));
    let head = read_head(&mut client);
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(head.to_lowercase().contains("sec-websocket-protocol: v4.channel.k8s.io"), "{head}");
    if let Some(input) = input {
        client.get_mut().write_all(&frame(0, input)).expect("send input");
    }
    let (mut output, mut status) = (Vec::new(), Vec::new());
    while let (0x1 | 0x2, payload) = read_frame(&mut client) {
        match payload.split_first() {
            Some((1, text)) => output.extend_from_slice(text),
            Some((3, text)) => {
                status.extend_from_slice(text);
                break;
            }
            _ => {}
        }
    }
    let status = String::from_utf8_lossy(&status);
    assert!(status.contains("\"status\":\"Success\""), "{status}");
    String::from_utf8(output).expect("text")
}

#[test]
fn commands_run_for_clients_of_every_kind() {
    let rig = Rig::new();
    rig.write_manifest("idle.yaml", &manifest::idle("idle"));
    let agent = serving(&rig);
    rig.wait_running("idle-node1", "main");
    wait_running(&rig, "idle-node1");
    let exec = "/exec/default/idle-node1/main";
    let echo = exec_web_socket(&rig, &format!("{exec}?command=echo&command=a+b&output=1&error=1"), None);
    assert_eq!(echo, "a b\n");
    let read = format!("{exec}?command=sh&command=-c&command=read+x;+echo+got+$x&input=1&output=1");
    assert_eq!(exec_web_socket(&rig, &read, Some(b"this\n")), "got this\n");
    let uid = rig.pod("idle-node1").expect("the pod")["metadata"]["uid"].as_str().expect("a UID").to_owned();
    let by_uid = format!("/exec/default/idle-node1/{uid}/main?command=hostname&output=1");
    assert_eq!(exec_web_socket(&rig, &by_uid, None), "idle-node1\n");

    // SPDY begins with its own bytes: only the way there is ours.
    let mut spdy = ask(
        &rig,
        &format!(
            "POST {exec}?command=true&output=1 HTTP/1.1\r\nHost: node1\r\nConnection: Upgrade\r\n\
             Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\nContent-Length: 0"
        ),
    );
    let head = read_head(&mut spdy);
    assert!(head.starts_with("HTTP/1.1 101 ") && head.to_lowercase().contains("upgrade: spdy/3.1"), "{head}");

    let (status, ran) = whole(&rig, "POST", "/run/default/idle-node1/main?cmd=echo%20hello%20there");
    assert_eq!((status, ran.as_str()), (200, "hello there\n"));
    for (method, path, status) in [
        ("GET", format!("{exec}?command=true"), 400),
        ("GET", "/exec/default/none/main?command=true&output=1".to_owned(), 404),
        ("GET", "/exec/default/idle-node1/none?command=true&output=1".to_owned(), 404),
        ("GET", "/exec/default/idle-node1/other/main?command=true&output=1".to_owned(), 404),
        ("GET", "/portForward/default/none?port=80".to_owned(), 404),
    ] {
        assert_eq!(whole(&rig, method, &path).0, status, "{method} {path}");
    }
    // Without an upgrade the runtime's own answer is passed on.
    assert_ne!(whole(&rig, "GET", &format!("{exec}?command=true&output=1")).0, 101);
    let mut forwarded =
        ask(&rig, &format!("GET /portForward/default/idle-node1?port=8080 HTTP/1.1\r\n{WEB_SOCKET}"));
    let head = read_head(&mut forwarded);
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    drop(agent);
}

#[test]
fn a_client_that_stops_reading_a_log_costs_no_memory() {
    let rig = Rig::new();
    let script = "i=0; while [ $i -lt 200 ]; do head -c 50000 /dev/zero | tr '\\0' x; echo; i=$((i+1)); done; sleep 1000";
    rig.write_manifest("flood.yaml", &manifest::script("flood", script));
    let agent = serving(&rig);
    rig.wait_running("flood-node1", "main");
    wait_running(&rig, "flood-node1");
    let before = agent.rss_kib();
    let stopped: Vec<_> = (0..40)
        .map(|_| {
            let mut client = ask(&rig, "GET /containerLogs/default/flood-node1/main?follow=1 HTTP/1.1");
            assert!(read_head(&mut client).starts_with("HTTP/1.1 200 "));
            client
        })
        .collect();
    // Others are served, and whatever was written is there for them.
    rig.wait("all of the log", || {
        whole(&rig, "GET", "/containerLogs/default/flood-node1/main").1.len() >= 200 * 50_001
    });
    let grown = agent.rss_kib().saturating_sub(before);
    assert!(grown < 40 * 1024, "{grown} KiB for 40 clients that do not read");
    drop(stopped);
}

#[test]
fn the_nodes_logs_are_served_and_nothing_else() {
    let rig = Rig::new();
    let agent = serving(&rig);
    let (status, page) = whole(&rig, "GET", "/logs/");
    assert!(status == 200 && page.contains("<pre>"), "{page}");
    for path in
        ["/logs/../../etc/passwd", "/logs/%2e%2e/%2e%2e/etc/passwd", "/logs//etc/passwd", "/logs/none"]
    {
        let (status, body) = whole(&rig, "GET", path);
        assert!(status >= 400 && !body.contains("root:"), "{path}: {status} {body}");
    }
    let (status, configz) = whole(&rig, "GET", "/configz");
    let configz: serde_json::Value = serde_json::from_str(&configz).expect("JSON");
    assert_eq!((status, &configz["kubeletconfig"]["readOnlyPort"]), (200, &10255.into()));
    assert_eq!(configz["kubeletconfig"]["syncFrequency"], "1m0s");
    drop(agent);
}
