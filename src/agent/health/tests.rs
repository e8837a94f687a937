//! Health as an HTTP client sees it: the real port, the real ping, and loops in every state.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::Instant;

use async_channel::Receiver;

use super::*;
use crate::http::spawn_tokio_thread;
use crate::status::events::Recorder;
use crate::status::metrics::Metrics;
use crate::sync::sync_loop::SyncLoop;

const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(30);

static REACTOR: LazyLock<Reactor> = LazyLock::new(|| spawn_tokio_thread().unwrap());

fn healthz(inbox: Sender<Event>, deadline: Duration) -> Listening {
    let endpoints = Endpoints {
        own_uid: 0,
        view: Published::default(),
        health: ping(inbox, deadline),
        probes: Arc::new(Vec::new),

        restart: Arc::new(|_| Box::pin(async { false })),
        images: Arc::new(|| Box::pin(async { Err("none".to_owned()) })),
        events: Recorder::new("node1"),
        metrics: Arc::new(Metrics::new("node1")),
    };
    listen_on_address(&REACTOR, Port::Healthz, "127.0.0.1:0".parse().unwrap(), endpoints).unwrap()
}

/// The status code and the body.
fn get(listening: &Listening) -> (u16, String) {
    let mut stream = TcpStream::connect(listening.address()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let code = text.split(' ').nth(1).unwrap().parse().unwrap();
    (code, text.split_once("\r\n\r\n").unwrap().1.to_owned())
}

/// Runs the loop on a thread of its own until the inbox is closed.
fn turn(events: Receiver<Event>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut state = SyncLoop::new([]);
        while let Ok(event) = events.recv_blocking() {
            state.handle(event);
        }
    })
}

#[test]
fn healthz_is_ok_while_the_loop_turns() {
    let (inbox, events) = async_channel::unbounded();
    let listening = healthz(inbox.clone(), LONG);
    let turning = turn(events);
    assert_eq!(get(&listening), (200, "ok".into()));
    inbox.close();
    turning.join().unwrap();
    let (code, body) = get(&listening);
    assert_eq!(code, 500);
    assert!(body.contains("the sync loop has ended"), "{body}");
}

#[test]
fn healthz_names_a_loop_that_stands_still_and_recovers_with_it() {
    let (inbox, events) = async_channel::unbounded();
    let listening = healthz(inbox.clone(), SHORT);
    let asked = Instant::now();
    let (code, body) = get(&listening);
    assert_eq!(code, 500);
    assert!(body.contains("the sync loop has not turned for 200ms"), "{body}");
    assert!(asked.elapsed() >= SHORT, "it had its time");

    // The question that nobody waits for any more does not disturb the loop.
    let turning = turn(events);
    assert_eq!(get(&healthz(inbox.clone(), LONG)), (200, "ok".into()));
    inbox.close();
    turning.join().unwrap();
}

#[test]
fn healthz_names_a_loop_that_ends_while_it_is_asked() {
    let (inbox, events) = async_channel::unbounded();
    let listening = healthz(inbox, LONG);
    let (answer, answered) = mpsc::channel();
    let client = thread::spawn(move || answer.send(get(&listening)).unwrap());
    // The question is in the inbox when the loop goes.
    let question = events.recv_blocking().unwrap();
    drop((question, events));
    let (code, body) = answered.recv_timeout(LONG).unwrap();
    assert_eq!(code, 500);
    assert!(body.contains("the sync loop has ended"), "{body}");
    client.join().unwrap();
}
