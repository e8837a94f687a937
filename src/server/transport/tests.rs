//! Each transport as a client sees it, rude ones included.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::LazyLock;
use std::thread;
use std::time::Instant;

use super::*;
use crate::http::spawn_tokio_thread;
use crate::server::HealthCheck;
use crate::server::pods::tests::reference_view;

static REACTOR: LazyLock<Reactor> = LazyLock::new(|| spawn_tokio_thread().unwrap());

fn endpoints(health: HealthCheck) -> Endpoints {
    let endpoints = crate::server::tests::endpoints(&REACTOR, health);
    endpoints.view.update(|view| *view = reference_view());
    endpoints
}

fn healthy() -> HealthCheck {
    Arc::new(|| Box::pin(async { Ok(()) }))
}

fn started(port: Port, health: HealthCheck) -> Listening {
    listen_on_address(&REACTOR, port, "127.0.0.1:0".parse().unwrap(), None, endpoints(health)).unwrap()
}

fn connected(listening: &Listening) -> TcpStream {
    let stream = TcpStream::connect(listening.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

fn asked(listening: &Listening, request: &[u8]) -> String {
    let mut stream = connected(listening);
    stream.write_all(request).unwrap();
    read_all(&mut stream)
}

fn read_all(stream: &mut impl io::Read) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn get(listening: &Listening, path: &str) -> String {
    asked(listening, request(path).as_bytes())
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
}

#[test]
fn serves_each_page() {
    let listening = started(Port::ReadOnly, healthy());
    for (path, status, found) in [
        ("/healthz", "200 OK", "\r\n\r\nok"),
        ("/pods?pretty=1", "200 OK", "\"kind\":\"PodList\""),
        ("http://node1/pods", "200 OK", "\"kind\":\"PodList\""),
        ("/metrics", "200 OK", "process_resident_memory_bytes "),
        ("/exec", "404 Not Found", "404 page not found"),
        ("/health%7A", "200 OK", "\r\n\r\nok"),
        ("/health%7", "400 Bad Request", "not encoded"),
    ] {
        let text = get(&listening, path);
        assert!(text.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{path}: {text}");
        assert!(text.contains(found), "{path}: {text}");
        assert!(text.contains("\r\nx-content-type-options: nosniff\r\n"), "{path}: {text}");
    }
    let head = asked(&listening, b"HEAD /pods HTTP/1.0\r\n\r\n");
    assert!(head.starts_with("HTTP/1.0 200 ") && head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn a_connection_carries_several_requests() {
    let listening = started(Port::Healthz, healthy());
    let mut stream = connected(&listening);
    stream.write_all(b"GET /healthz/ping HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut bytes = [0; 4096];
    let length = stream.read(&mut bytes).unwrap();
    assert!(bytes[..length].starts_with(b"HTTP/1.1 200 "));
    stream.write_all(request("/healthz").as_bytes()).unwrap();
    assert!(read_all(&mut stream).ends_with("\r\n\r\nok"));
}

#[test]
fn a_body_is_read_away_and_does_not_hide_the_response() {
    let listening = started(Port::Healthz, healthy());
    for (length, status) in [(200_000, "405"), (300_000, "413")] {
        let mut request =
            format!("POST /healthz HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n")
                .into_bytes();
        request.resize(request.len() + length, b'x');
        let text = asked(&listening, &request);
        assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{text}");
        assert_eq!(text.contains("\r\nallow: GET, HEAD\r\n"), status == "405", "{text}");
    }
}

#[test]
fn a_taken_address_is_named() {
    let first = started(Port::Healthz, healthy());
    let error =
        listen_on_address(&REACTOR, Port::Healthz, first.address(), None, endpoints(healthy())).unwrap_err();
    assert!(matches!(error, ServerError::Bind { .. }));
    assert_eq!(error.to_string(), format!("cannot listen on {}", first.address()));
}

#[test]
fn a_health_check_that_waits_delays_nobody() {
    let (release, wait) = async_channel::bounded::<()>(1);
    let health: HealthCheck = Arc::new(move || {
        let wait = wait.clone();
        Box::pin(async move {
            let _ = wait.recv().await;
            Err("stuck".to_owned())
        })
    });
    let listening = started(Port::ReadOnly, health);
    let mut waiting = connected(&listening);
    waiting.write_all(request("/healthz").as_bytes()).unwrap();
    assert!(get(&listening, "/pods").starts_with("HTTP/1.1 200 "));
    assert!(get(&listening, "/healthz/ping").ends_with("ok"));
    release.send_blocking(()).unwrap();
    let text = read_all(&mut waiting);
    assert!(text.starts_with("HTTP/1.1 500 ") && text.contains("[-]syncloop failed: stuck\n"), "{text}");
}

#[test]
fn rude_clients_do_not_take_it_down() {
    let listening = started(Port::ReadOnly, healthy());
    // Closing on an unread response resets the connection, often before it is accepted.
    for _ in 0..500 {
        connected(&listening).write_all(request("/healthz").as_bytes()).unwrap();
    }
    let endless = format!("GET / HTTP/1.1\r\nA: {}", "x".repeat(1 << 20));
    let _ = connected(&listening).write_all(endless.as_bytes());
    for (bytes, status) in [
        (&b"\x16\x03\x01\r\n\r\n"[..], "400"),
        (b"GET /pods\r\n\r\n", "400"),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", "400"),
        (b"GET / HTTP/1.1\r\nA : b\r\n\r\n", "400"),
    ] {
        let text = asked(&listening, bytes);
        let line = String::from_utf8_lossy(bytes);
        assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{line}: {text}");
    }
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(1000));
    assert!(asked(&listening, many.as_bytes()).starts_with("HTTP/1.1 431 "));
    // Silent clients in every slot: they are let go, and the next one is served.
    let silent: Vec<_> = (0..16).map(|_| connected(&listening)).collect();
    assert!(get(&listening, "/healthz").starts_with("HTTP/1.1 200 "));
    drop(silent);
}

#[test]
fn idle_connections_make_room_for_a_request() {
    let listening = started(Port::Healthz, healthy());
    let idle: Vec<_> = (0..145).map(|_| connected(&listening)).collect();
    let asked = Instant::now();
    assert!(get(&listening, "/healthz").starts_with("HTTP/1.1 200 "));
    // Nine rounds of the grace; with the whole time for a head it would be 45 s.
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    // Those that came last still have their slots.
    let mut last = idle.last().unwrap();
    last.write_all(request("/healthz").as_bytes()).unwrap();
    let text = read_all(&mut last);
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
}

#[test]
fn a_slow_head_is_not_waited_for() {
    let listening = started(Port::Healthz, healthy());
    let mut stream = connected(&listening);
    let asked = Instant::now();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nA: ").unwrap();
    while stream.write_all(b"b").is_ok() {
        thread::park_timeout(Duration::from_millis(100));
        assert!(asked.elapsed() < Duration::from_secs(30), "a head may take for ever");
    }
}

#[test]
fn the_port_closes_when_dropped() {
    let listening = started(Port::Healthz, healthy());
    let address = listening.address();
    drop(listening);
    let closed = (0..100).any(|_| {
        thread::park_timeout(Duration::from_millis(20));
        TcpStream::connect(address).is_err()
    });
    assert!(closed, "{address} is still open");
}

#[test]
fn the_socket_serves_its_own_user() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("agent.sock");
    let listening = listen_on_socket(&REACTOR, &path, endpoints(healthy())).unwrap();
    assert_eq!(listening.name(), path.to_str().unwrap());
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(request("/pods").as_bytes()).unwrap();
    let text = read_all(&mut stream);
    assert!(text.starts_with("HTTP/1.1 200 ") && text.contains("\"kind\":\"PodList\""), "{text}");
}

#[test]
fn connections_are_kept_alive_as_their_listener() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    keep_alive(&listener).unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    assert!(rustix::net::sockopt::socket_keepalive(&accepted).unwrap());
}

#[test]
fn a_body_that_does_not_come_makes_room() {
    let listening = started(Port::Healthz, healthy());
    let begin = || {
        let mut stream = connected(&listening);
        stream.write_all(b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n").unwrap();
        stream
    };
    let waiting: Vec<_> = (0..16).map(|_| begin()).collect();
    let asked = Instant::now();
    assert!(get(&listening, "/healthz").starts_with("HTTP/1.1 200 "));
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    drop(waiting);
}
