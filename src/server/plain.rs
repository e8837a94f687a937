//! The transport of the plain ports: HTTP without TLS, on threads of its own.
//!
//! Owns the listening sockets and their connections. Invariant: a client can cost one slot of its own port
//! for some seconds, and nothing else: no panic, no unbounded memory, no thread beyond the slots. Must not:
//! know a path.
//!
//! One thread listens; each connection has one short-lived thread and carries one request. The accept loop is
//! ours, since tiny_http's own server panics when a client resets its connection early (and a panic ends the
//! agent), reads heads without a limit, and starts threads without one. Its messages serve us well.

mod slots;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::Endpoints;
use super::message::{read_head, write_response};
use super::router::{Method, Port};
use slots::{ConnectionSlot, Slots};

/// How long a client may take to send the head of its request.
const READ_WITHIN: Duration = Duration::from_secs(3);

/// How long a client may take to receive the response.
const WRITE_WITHIN: Duration = Duration::from_secs(20);

/// How long we listen to what a client still sends after our response, and how much of it we hear. To close
/// on unread bytes would reset the connection, and the client might lose the response.
const DRAIN_WITHIN: Duration = Duration::from_secs(1);
const DRAIN_BYTES: u64 = 256 * 1024;

/// The pause after a failed accept: descriptors may have run out, and come back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Connections need little; the default of 2 MiB is address space for nothing.
const STACK_BYTES: usize = 512 * 1024;

/// Why a port is not served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    /// The address is taken, or is not ours.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// No thread to listen on.
    #[error("cannot start the thread that listens on {address}")]
    Thread {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
}

/// A port that is served until this is dropped.
#[derive(Debug)]
pub(crate) struct Listening {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
}

impl Listening {
    /// The address, with the port that the kernel chose if none was asked for.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the accept. 0.0.0.0 and [::] reach ourselves too.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_millis(200));
    }
}

/// Listens on `address` and serves `endpoints` there, on threads of its own.
pub(crate) fn start_plain(address: SocketAddr, endpoints: Endpoints) -> Result<Listening, ServerError> {
    let bind = |source| ServerError::Bind { address, source };
    let listener = TcpListener::bind(address).map_err(bind)?;
    let address = listener.local_addr().map_err(bind)?;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let name = match endpoints.port {
        Port::Healthz => "http-healthz",
        Port::ReadOnly => "http-readonly",
    };
    thread::Builder::new()
        .name(name.to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || run_plain(&listener, &Arc::new(endpoints), &stopped))
        .map_err(|source| ServerError::Thread { address, source })?;
    Ok(Listening { address, stop })
}

/// Accepts until `stop` is set.
fn run_plain(listener: &TcpListener, endpoints: &Arc<Endpoints>, stop: &AtomicBool) {
    let slots = Arc::new(Slots::default());
    loop {
        let accepted = listener.accept();
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let (stream, client) = match accepted {
            Ok((stream, client)) => (Arc::new(stream), client),
            // The client's fault: it went before we came.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(error) => {
                tracing::warn!(port = ?endpoints.port, %error, "cannot accept a connection");
                thread::park_timeout(ACCEPT_PAUSE);
                continue;
            }
        };
        let slot = Slots::take(&slots, stream.clone());
        let endpoints = endpoints.clone();
        let connection = move || {
            if let Err(error) = serve(&stream, &slot, &endpoints) {
                tracing::debug!(port = ?endpoints.port, %client, %error, "a connection ended early");
            }
        };
        let thread = thread::Builder::new().name("http-connection".to_owned()).stack_size(STACK_BYTES);
        if let Err(error) = thread.spawn(connection) {
            tracing::warn!(%client, %error, "cannot start a thread for a connection");
            thread::park_timeout(ACCEPT_PAUSE);
        }
    }
}

/// One request and its response.
fn serve(stream: &TcpStream, slot: &ConnectionSlot, endpoints: &Endpoints) -> io::Result<()> {
    let head = read_head(&mut Timed::new(stream, READ_WITHIN));
    slot.set_idle(false);
    let (method, response) = match head {
        Ok(head) => {
            let request = head.request();
            (request.method, endpoints.answer(&request))
        }
        Err(error) => match error.response() {
            Some(response) => (Method::Get, response),
            None => return Err(io::Error::other(error)),
        },
    };
    write_response(&mut Timed::new(stream, WRITE_WITHIN), method, &response)?;
    stream.shutdown(Shutdown::Write)?;
    slot.set_idle(true);
    io::copy(&mut Timed::new(stream, DRAIN_WITHIN).take(DRAIN_BYTES), &mut io::sink()).map(drop)
}

/// A stream with a deadline for all that is done through it, not for each call.
struct Timed<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
}

impl<'a> Timed<'a> {
    fn new(stream: &'a TcpStream, within: Duration) -> Self {
        Self { stream, deadline: Instant::now() + within }
    }

    /// What is left; never zero, which the socket would take for "for ever".
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buffer)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};

    use super::slots::SLOTS;
    use super::*;
    use crate::server::HealthCheck;
    use crate::server::pods::tests::reference_view;
    use crate::status::events::Recorder;
    use crate::status::metrics::Metrics;
    use crate::sync::published::Published;

    fn started(port: Port, health: HealthCheck) -> Listening {
        let view = Published::default();
        view.update(|view| *view = reference_view());
        let endpoints = Endpoints {
            port,
            view,
            health,
            probes: Arc::new(Vec::new),
            events: Recorder::new("node1"),
            metrics: Arc::new(Metrics::new("node1")),
        };
        start_plain("127.0.0.1:0".parse().unwrap(), endpoints).unwrap()
    }

    fn healthy() -> HealthCheck {
        Arc::new(|| Ok(()))
    }

    fn connected(listening: &Listening) -> TcpStream {
        let stream = TcpStream::connect(listening.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    fn asked(listening: &Listening, request: &[u8]) -> String {
        let mut stream = connected(listening);
        stream.write_all(request).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    fn get(listening: &Listening, path: &str) -> String {
        asked(listening, format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes())
    }

    #[test]
    fn serves_each_page() {
        let listening = started(Port::ReadOnly, healthy());
        for (path, status, found) in [
            ("/healthz", "200 OK", "\r\n\r\nok"),
            ("/pods?pretty=1", "200 OK", "\"kind\":\"PodList\""),
            ("/metrics", "200 OK", "process_resident_memory_bytes "),
            ("/exec", "404 Not Found", "404 page not found"),
        ] {
            let text = get(&listening, path);
            assert!(text.starts_with(&format!("HTTP/1.0 {status}\r\n")), "{path}: {text}");
            assert!(text.contains(found), "{path}: {text}");
        }
    }

    #[test]
    fn a_body_is_not_read_and_does_not_hide_the_response() {
        let listening = started(Port::Healthz, healthy());
        let mut request = b"POST /healthz HTTP/1.1\r\nContent-Length: 200000\r\n\r\n".to_vec();
        request.resize(200_000, b'x');
        assert!(asked(&listening, &request).starts_with("HTTP/1.0 405 "));
    }

    #[test]
    fn a_taken_address_is_named() {
        let first = started(Port::Healthz, healthy());
        let endpoints = Endpoints {
            port: Port::Healthz,
            view: Published::default(),
            health: healthy(),
            probes: Arc::new(Vec::new),
            events: Recorder::new("node1"),
            metrics: Arc::default(),
        };
        let error = start_plain(first.address(), endpoints).unwrap_err();
        assert!(matches!(error, ServerError::Bind { .. }));
        assert_eq!(error.to_string(), format!("cannot listen on {}", first.address()));
    }

    #[test]
    fn a_health_check_that_waits_delays_nobody() {
        let (release, wait) = mpsc::channel::<()>();
        let wait = Mutex::new(wait);
        let health: HealthCheck = Arc::new(move || {
            let _ = wait.lock().unwrap().recv_timeout(Duration::from_secs(20));
            Err("stuck".to_owned())
        });
        let listening = started(Port::ReadOnly, health);
        let mut waiting = connected(&listening);
        waiting.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").unwrap();
        assert!(get(&listening, "/pods").starts_with("HTTP/1.0 200 "));
        assert!(get(&listening, "/healthz/ping").ends_with("ok"));
        release.send(()).unwrap();
        let mut text = String::new();
        waiting.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.0 500 ") && text.ends_with("syncloop: stuck\n"), "{text}");
    }

    #[test]
    fn rude_clients_do_not_take_it_down() {
        let listening = started(Port::ReadOnly, healthy());
        // Closing on an unread response resets the connection, often before it is accepted.
        for _ in 0..500 {
            connected(&listening).write_all(b"GET /healthz HTTP/1.1\r\n\r\n").unwrap();
        }
        let endless = "x".repeat(1 << 20);
        let _ = connected(&listening).write_all(endless.as_bytes());
        assert!(asked(&listening, b"\x16\x03\x01\r\n\r\n").starts_with("HTTP/1.0 400 "));
        // Silent clients in every slot: they are let go, and the next one is served.
        let silent: Vec<_> = (0..SLOTS).map(|_| connected(&listening)).collect();
        assert!(get(&listening, "/healthz").starts_with("HTTP/1.0 200 "));
        drop(silent);
    }

    #[test]
    fn idle_connections_make_room_for_a_request() {
        let listening = started(Port::Healthz, healthy());
        let idle: Vec<_> = (0..SLOTS * 9).map(|_| connected(&listening)).collect();
        let asked = Instant::now();
        assert!(get(&listening, "/healthz").starts_with("HTTP/1.0 200 "));
        // Nine rounds of the grace; with the whole time for a head it would be 27 s.
        assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
        // Those that came last still have their slots.
        let mut last = idle.last().unwrap();
        last.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").unwrap();
        let mut text = String::new();
        last.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.0 200 "), "{text}");
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
}
