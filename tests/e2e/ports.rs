//! The agent's ports and its socket, and who may use them.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Command;

use crate::rig::Rig;

/// What the socket answers to this test, which is root.
fn ask_socket(rig: &Rig, path: &str) -> Option<String> {
    let mut stream = UnixStream::connect(rig.socket_path()).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}

/// What the socket answers to a user who is not root.
fn ask_socket_as_nobody(rig: &Rig, path: &str) -> std::process::Output {
    let socket = rig.socket_path();
    Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "curl", "--silent", "--max-time", "30"])
        .arg("--write-out")
        .arg("%{http_code}")
        .arg("--unix-socket")
        .arg(socket)
        .arg(format!("http://node1{path}"))
        .output()
        .expect("setpriv and curl")
}

#[test]
fn the_socket_serves_root_alone() {
    let rig = Rig::new();
    let agent = rig.start_agent(&[]);
    rig.wait("the socket", || {
        ask_socket(&rig, "/healthz").is_some_and(|reply| reply.ends_with("\r\n\r\nok"))
    });
    let pods = ask_socket(&rig, "/pods").expect("/pods");
    assert!(pods.starts_with("HTTP/1.0 200 ") && pods.contains("\"kind\":\"PodList\""), "{pods}");
    let mode = std::fs::metadata(rig.socket_path()).expect("the socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let refused = ask_socket_as_nobody(&rig, "/pods");
    assert!(!refused.status.success(), "another user cannot connect: {refused:?}");
    // Whoever is let through by a mistake in the file's permissions is refused all the same.
    std::fs::set_permissions(rig.dir(), std::fs::Permissions::from_mode(0o755)).expect("open the way");
    std::fs::set_permissions(rig.socket_path(), std::fs::Permissions::from_mode(0o666))
        .expect("open the socket");
    let refused = ask_socket_as_nobody(&rig, "/pods");
    let text = String::from_utf8_lossy(&refused.stdout);
    assert!(text.ends_with("403") && text.contains("Forbidden (user=Local { uid: 65534 }"), "{refused:?}");

    assert!(agent.terminate().success());
    assert!(!rig.socket_path().exists(), "the socket goes with the agent");
}

#[test]
fn no_socket_where_none_is_wanted() {
    let rig = Rig::new();
    let agent = rig.start_agent(&["--socket-path="]);
    agent.wait_healthy();
    assert!(!rig.socket_path().exists());
}
