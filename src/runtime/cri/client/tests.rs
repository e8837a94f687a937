//! The client against sockets that nobody serves well. No containerd is needed.

use std::os::unix::net::UnixListener;
use std::sync::Mutex;

use super::*;
use crate::http::spawn_tokio_thread;
use crate::runtime::cri::events::ExitFeed;
use crate::runtime::cri::proto::{AuthConfig, PullImageRequest};

type Seen = Arc<Mutex<Vec<(&'static str, Option<ErrorClass>)>>>;

fn client(path: &std::path::Path, request: Duration) -> (CriClient, Seen) {
    let endpoint: Endpoint = path.to_str().unwrap().parse().unwrap();
    let seen = Seen::default();
    let sink = Arc::clone(&seen);
    let observer: CallObserver = Arc::new(move |op, _, class| sink.lock().unwrap().push((op, class)));
    let timeouts = Timeouts { request, pull: request };
    let handle = spawn_tokio_thread().unwrap();
    (CriClient::new(&handle, &endpoint, &endpoint, timeouts, observer).unwrap(), seen)
}

#[test]
fn a_dead_socket_is_unavailable_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let (client, seen) = client(&dir.path().join("none.sock"), Duration::from_secs(5));
    let error = smol::block_on(client.runtime_handlers()).unwrap_err();
    assert_eq!(error.class, ErrorClass::Unavailable, "{error:?}");
    assert_eq!(error.op, "Status");
    assert!(error.message.contains("No such file"), "{error}");
    let error = smol::block_on(client.stop_container(&"c".into(), 0)).unwrap_err();
    assert_eq!(error.class, ErrorClass::Unavailable, "{error:?}");
    let error = smol::block_on(client.subscribe_exits(ExitFeed::Cri).next()).unwrap_err();
    assert_eq!(error.class, ErrorClass::Unavailable, "{error:?}");
    // A manifest may name any grace period.
    let error = smol::block_on(client.stop_container(&"c".into(), i64::MAX)).unwrap_err();
    assert_eq!(error.class, ErrorClass::Unavailable, "{error:?}");
    let error = smol::block_on(client.exec_sync(&"c".into(), vec![], Duration::MAX)).unwrap_err();
    assert_eq!(error.class, ErrorClass::Unavailable, "{error:?}");
    let unavailable = Some(ErrorClass::Unavailable);
    let ops = ["status", "stop_container", "stop_container", "exec_sync"];
    assert_eq!(*seen.lock().unwrap(), ops.map(|op| (op, unavailable)));
}

#[test]
fn a_silent_peer_is_a_timeout() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("silent.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    let (client, seen) = client(&path, Duration::from_millis(200));
    let start = Instant::now();
    let error = smol::block_on(client.list_pod_sandbox(None)).unwrap_err();
    assert_eq!(error.class, ErrorClass::Timeout, "{error:?}");
    assert!(start.elapsed() < Duration::from_secs(5));
    // The grace of a stop extends its deadline.
    let start = Instant::now();
    let error = smol::block_on(client.stop_container(&"c".into(), 1)).unwrap_err();
    assert_eq!(error.class, ErrorClass::Timeout, "{error:?}");
    assert!(start.elapsed() >= Duration::from_secs(1));
    let timeout = Some(ErrorClass::Timeout);
    assert_eq!(*seen.lock().unwrap(), [("list_podsandbox", timeout), ("stop_container", timeout)]);
}

#[test]
fn a_replaced_socket_is_opened_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("runtime.sock");
    let (client, _) = client(&path, Duration::from_millis(200));
    let class = || smol::block_on(client.runtime_handlers()).unwrap_err().class;
    assert_eq!(class(), ErrorClass::Unavailable);
    let first = UnixListener::bind(&path).unwrap();
    assert_eq!(class(), ErrorClass::Timeout);
    std::fs::remove_file(&path).unwrap();
    let second = UnixListener::bind(&path).unwrap();
    drop(first);
    assert_eq!(class(), ErrorClass::Timeout);
    second.set_nonblocking(true).unwrap();
    second.accept().unwrap();
}

#[test]
fn tonic_times_out_under_smol_by_itself() {
    // The header alone, without our own timer: what the reactor's handle is entered for.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("silent.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    let (client, _) = client(&path, Duration::from_secs(60));
    let mut request = Request::new(StatusRequest::default());
    request.set_timeout(Duration::from_millis(100));
    let mut runtime = client.runtime.clone();
    let status = smol::block_on(runtime.status(request)).unwrap_err();
    assert_eq!(ErrorClass::of(&status), ErrorClass::Timeout, "{status:?}");
    assert_eq!(status.code(), Code::Cancelled);
}

#[test]
fn futures_may_move_between_threads() {
    fn is_send<T: Send>(_: T) {}
    let dir = tempfile::tempdir().unwrap();
    let (client, _) = client(&dir.path().join("none.sock"), Duration::from_secs(1));
    is_send(client.list_containers(None));
    is_send(client.stop_container(&"c".into(), 1));
    is_send(client.subscribe_exits(ExitFeed::Cri).next());
}

#[test]
fn credentials_are_not_printed() {
    let auth = AuthConfig { username: "ann".into(), password: "hunter2".into(), ..AuthConfig::default() };
    let request = PullImageRequest { auth: Some(auth), ..PullImageRequest::default() };
    let text = format!("{request:?}");
    assert!(text.contains("ann") && !text.contains("hunter2"), "{text}");
}
