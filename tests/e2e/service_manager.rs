//! What systemd is told: ready when the loop turns, a status line that follows the pods, and the end.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::manifest;
use crate::rig::{PATIENCE, Rig};

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
    // At rest nothing is said.
    socket.set_read_timeout(Some(Duration::from_secs(3))).expect("set a limit");
    let mut bytes = [0; 256];
    assert!(socket.recv(&mut bytes).is_err(), "{}", String::from_utf8_lossy(&bytes));
    socket.set_read_timeout(Some(PATIENCE)).expect("set a limit");
    agent.terminate();
    receive_until(&socket, "STOPPING=1");
}
