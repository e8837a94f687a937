//! Endpoints of all kinds: what no server can do to the agent, and how a health service is asked.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use super::{container, pod, probe, shared};
use crate::manifest::IDLE;
use crate::rig::web::{Server, reply};
use crate::rig::{Machine, Rig, inside_network};

/// A TLS server with a certificate for nobody, by the program `openssl`. Ends when dropped.
struct Tls(Child);

impl Tls {
    fn start(rig: &Rig, port: &str) -> Self {
        let dir = shared(rig);
        let (key, cert) =
            (dir.join("key.pem").display().to_string(), dir.join("cert.pem").display().to_string());
        let make =
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=nonsense -keyout";
        let arguments: Vec<_> = make.split(' ').chain([key.as_str(), "-out", cert.as_str()]).collect();
        rig.output("openssl", &arguments);
        let mut serve = rig.command("openssl");
        serve.args(["s_server", "-quiet", "-www", "-accept", port, "-key", &key, "-cert", &cert]);
        Self(serve.spawn().expect("start openssl s_server"))
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        if let Some(pid) = Machine::pid_behind(&self.0) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.0.wait();
    }
}

#[test]
fn hostile_endpoints_end_at_their_deadline_and_cost_no_memory() {
    let rig = Rig::new();
    let server = Server::start(&rig, "127.0.0.1:8088");
    let _tls = Tls::start(&rig, "8443");
    server.answer(|head, stream| {
        let path = head.split(' ').nth(1).unwrap_or_default();
        let head = "HTTP/1.1 200 OK\r\n";
        match path {
            "/asked?a=b" => reply(stream, "200 OK", "", b"hello"),
            "/endless" => {
                write!(stream, "{head}\r\n")?;
                loop {
                    stream.write_all(&[b'x'; 8192])?;
                }
            }
            "/trickle" => {
                write!(stream, "{head}Content-Length: 1000\r\n\r\n")?;
                trickle(stream)
            }
            "/header" => {
                write!(stream, "{head}X-Long: ")?;
                for _ in 0..(10 << 10) {
                    stream.write_all(&[b'x'; 1024])?;
                }
                Ok(())
            }
            "/silence" => stream.read(&mut [0; 1]).map(|_| ()),
            "/early" => write!(stream, "{head}Content-Length: 1000\r\n\r\nhalf"),
            "/loop" => reply(stream, "302 Found", "Location: /loop\r\n", b""),
            "/twice" => reply(stream, "302 Found", "Location: http://127.0.0.1:8088/asked?a=b\r\n", b""),
            "/elsewhere" => reply(stream, "302 Found", "Location: http://192.0.2.99/\r\n", b"gone"),
            _ => reply(stream, "503 No", "", b"no"),
        }
    });
    let cases = [
        ("asked", "/asked?a=b", "Success", "hello"),
        ("twice", "/twice", "Success", "hello"),
        ("endless", "/endless", "Success", "xxxx"),
        ("elsewhere", "/elsewhere", "Warning", "Probe terminated redirects, Response body: gone"),
        ("unwell", "/unwell", "Failure", "HTTP probe failed with statuscode: 503"),
        (
            "trickle",
            "/trickle",
            "Failure",
            "Get \"http://127.0.0.1:8088/trickle\": no whole answer within 1s",
        ),
        (
            "silence",
            "/silence",
            "Failure",
            "Get \"http://127.0.0.1:8088/silence\": no whole answer within 1s",
        ),
        ("header", "/header", "Failure", "Get \"http://127.0.0.1:8088/header\": no whole answer"),
        ("early", "/early", "Failure", "Get \"http://127.0.0.1:8088/early\": no whole answer"),
        ("loop", "/loop", "Failure", "Get \"http://127.0.0.1:8088/loop\": redirected in vain"),
    ];
    let ask = |scheme: &str, port: u16, path: &str| {
        format!(
            "readinessProbe: {{httpGet: {{scheme: {scheme}, host: 127.0.0.1, port: {port}, path: '{path}', \
             httpHeaders: [{{name: X-Who, value: me}}, {{name: Host, value: web.example}}]}}, periodSeconds: 1}}"
        )
    };
    let mut containers: Vec<_> =
        cases.iter().map(|(name, path, ..)| container(name, &[&ask("HTTP", 8088, path)], IDLE)).collect();
    containers.push(container("nonsense", &[&ask("HTTPS", 8443, "/")], IDLE));
    containers.push(container("plain", &[&ask("HTTPS", 8088, "/asked?a=b")], IDLE));
    rig.write_manifest("pod.yaml", &pod(&rig, "pod", &["hostNetwork: true"], &containers));
    let agent = rig.start_agent(&[]);
    for (name, _, result, output) in cases {
        rig.wait(&format!("{name} to be {result}"), || {
            let last = probe(&rig, name, "Readiness")["last"].clone();
            last["result"] == result && last["output"].as_str().is_some_and(|told| told.starts_with(output))
        });
    }
    rig.wait("a certificate that nobody checks", || {
        probe(&rig, "nonsense", "Readiness")["last"]["result"] == "Success"
    });
    rig.wait("what is no TLS", || probe(&rig, "plain", "Readiness")["last"]["result"] == "Failure");
    let asked = server.requests().into_iter().find(|head| head.starts_with("GET /asked")).expect("a request");
    for line in ["User-Agent: kube-probe/1.36", "Accept: */*", "X-Who: me", "Host: web.example"] {
        assert!(asked.lines().any(|sent| sent.eq_ignore_ascii_case(line)), "{line} in {asked}");
    }
    let before = agent.rss_kib();
    let count = || probe(&rig, "endless", "Readiness")["inARow"].as_i64().unwrap_or_default();
    let so_far = count();
    rig.wait("ten more rounds", || count() >= so_far + 10);
    let after = agent.rss_kib();
    assert!(after < before + 4096, "from {before} to {after} KiB");
}

#[test]
fn a_hundred_probes_that_hang_delay_no_other() {
    let rig = Rig::new();
    let server = Server::start(&rig, "127.0.0.1:8088");
    let (hanging, asked) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (now_hanging, times) = (hanging.clone(), asked.clone());
    server.answer(move |head, stream| {
        if head.starts_with("GET /well ") {
            times.lock().expect("the times").push(Instant::now());
            return reply(stream, "200 OK", "", b"");
        }
        now_hanging.fetch_add(1, Ordering::Relaxed);
        let ended = stream.read(&mut [0; 1]);
        now_hanging.fetch_sub(1, Ordering::Relaxed);
        ended.map(|_| ())
    });
    let ask = |kind: &str, path: &str| {
        format!(
            "{kind}Probe: {{httpGet: {{host: 127.0.0.1, port: 8088, path: {path}}}, periodSeconds: 1, timeoutSeconds: 20, \
             failureThreshold: 1000}}"
        )
    };
    let hang = [ask("liveness", "/hang"), ask("readiness", "/hang")];
    for number in 0..5 {
        let name = format!("hangs{number}");
        let hangs = |place| container(&format!("c{place}"), &[&hang[0], &hang[1]], "exec sleep 1000");
        let containers: Vec<_> = (0..10).map(hangs).collect();
        let spec = ["hostNetwork: true", "terminationGracePeriodSeconds: 1"];
        rig.write_manifest(&format!("{name}.yaml"), &pod(&rig, &name, &spec, &containers));
    }
    let well = container("well", &[&ask("readiness", "/well")], IDLE);
    rig.write_manifest("well.yaml", &pod(&rig, "well", &["hostNetwork: true"], &[well]));
    let _agent = rig.start_agent(&[]);
    rig.wait("all of them to hang", || hanging.load(Ordering::Relaxed) >= 100);
    asked.lock().expect("the times").clear();
    rig.wait("ten rounds of the other", || asked.lock().expect("the times").len() > 10);
    assert!(hanging.load(Ordering::Relaxed) >= 50, "they hang still, or again");
    let times = asked.lock().expect("the times").clone();
    let mut gaps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort();
    // The machine of a test may be slow for a moment: the median tells.
    assert!(gaps[gaps.len() / 2] < Duration::from_millis(1100), "{gaps:?}");
}

fn trickle(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_millis(300)))?;
    loop {
        stream.write_all(b"x")?;
        // The client says nothing more: this is a pause, which ends early if it goes.
        if let Ok(0) = stream.read(&mut [0; 1]) {
            return Ok(());
        }
    }
}

/// A gRPC server of one method, by hand: what a client may not take for granted. `good` is served, others are not.
struct Health {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Health {
    fn start(rig: &Rig, port: u16) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let told = end.clone();
        let thread = inside_network(rig.machine().first_pid(), move || {
            let listener = TcpListener::bind(("0.0.0.0", port)).expect("listen inside the rig");
            while let Ok((stream, _)) = listener.accept() {
                if told.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::spawn(move || serve_health(stream));
            }
        });
        Self { end, thread: Some(thread) }
    }
}

/// One connection of HTTP/2, one call: frames are `length, type, flags, stream`, then the payload.
fn serve_health(mut stream: TcpStream) -> std::io::Result<()> {
    stream.read_exact(&mut [0; 24])?;
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    stream.write_all(&settings)?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).expect("a length")];
        stream.read_exact(&mut payload)?;
        match (head[3], head[4]) {
            // SETTINGS: to be confirmed.
            (4, 0) => stream.write_all(&[0, 0, 0, 4, 1, 0, 0, 0, 0])?,
            // DATA: the question.
            (0, _) if !payload.is_empty() => {
                let status = if payload.ends_with(b"good") { 1 } else { 2 };
                let frame = |kind: u8, flags: u8, payload: &[u8]| {
                    let length = u8::try_from(payload.len()).expect("a short frame");
                    [&[0, 0, length, kind, flags], &head[5..], payload].concat()
                };
                let answer = [&[0x88, 0x0f, 0x10, 16][..], b"application/grpc"].concat();
                let trailers = [&[0, 11][..], b"grpc-status", &[1], b"0"].concat();
                stream.write_all(&frame(1, 4, &answer))?;
                stream.write_all(&frame(0, 0, &[0, 0, 0, 0, 2, 8, status]))?;
                stream.write_all(&frame(1, 5, &trailers))?;
            }
            _ => {}
        }
    }
}

impl Health {
    fn end(mut self, rig: &Rig, port: u16) {
        self.end.store(true, Ordering::Relaxed);
        rig.http_get(&format!("http://127.0.0.1:{port}/"));
        self.thread.take().map(JoinHandle::join);
    }
}

#[test]
fn the_health_service_is_asked_over_grpc() {
    let rig = Rig::new();
    let health = Health::start(&rig, 50051);
    let server = Server::start(&rig, "0.0.0.0:50052");
    server.answer(|_, stream| stream.read(&mut [0; 1]).map(|_| ()));
    let ask = |port: u16, service: &str| {
        format!(
            "readinessProbe: {{grpc: {{port: {port}, service: {service}}}, periodSeconds: 1, failureThreshold: 1}}"
        )
    };
    let containers = [
        ("good", ask(50051, "good"), "Success", "service healthy"),
        ("bad", ask(50051, "other"), "Failure", "service unhealthy (responded with \"NOT_SERVING\")"),
        ("hangs", ask(50052, "good"), "Failure", "timeout: health rpc did not complete within 1s"),
        ("closed", ask(50053, "good"), "Failure", "error: failed to connect service at \"192.0.2.10:50053\""),
    ];
    let texts: Vec<_> = containers.iter().map(|(name, probe, ..)| container(name, &[probe], IDLE)).collect();
    rig.write_manifest("pod.yaml", &pod(&rig, "pod", &["hostNetwork: true"], &texts));
    let _agent = rig.start_agent(&[]);
    for (name, _, verdict, output) in containers {
        rig.wait(&format!("{name} to be a {verdict}"), || {
            let probe = probe(&rig, name, "Readiness");
            probe["verdict"] == verdict
                && probe["last"]["output"].as_str().is_some_and(|told| told.starts_with(output))
        });
    }
    health.end(&rig, 50051);
}
