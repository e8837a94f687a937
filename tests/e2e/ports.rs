//! The agent's ports and its socket, and who may use them.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Command;

use crate::rig::Rig;

/// What the socket answers to this test, which is root.
pub(crate) fn ask_socket(rig: &Rig, path: &str) -> Option<String> {
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

/// What a client inside the rig's network gets: the status, and the body.
fn curl(rig: &Rig, arguments: &[&str]) -> (String, String) {
    let mut all = vec!["--silent", "--show-error", "--max-time", "30", "--write-out", "\n%{http_code}"];
    all.extend(arguments);
    let output = rig.command("curl").args(all).output().expect("curl");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').unwrap_or(("", &text));
    (status.to_owned(), body.to_owned())
}

const SECURE: &str = "https://127.0.0.1:10250";

#[test]
fn without_credentials_every_path_is_refused() {
    let rig = Rig::new();
    let agent = rig.start_agent(&[]);
    rig.wait("the port", || curl(&rig, &["-k", &format!("{SECURE}/pods")]).0 == "401");
    for path in
        ["/", "/healthz", "/pods", "/metrics", "/configz", "/logs/", "/exec/a/b/c", "/none", "/run/a/b/c"]
    {
        for method in ["GET", "POST", "HEAD", "DELETE"] {
            let (status, _) = match method {
                "HEAD" => curl(&rig, &["-k", "--head", &format!("{SECURE}{path}")]),
                _ => curl(&rig, &["-k", "-X", method, &format!("{SECURE}{path}")]),
            };
            assert_eq!(status, "401", "{method} {path}");
        }
    }
    // The certificate that the agent made is for its name, and stays.
    let own = rig.root_dir().join("pki/kubelet.crt").display().to_string();
    let named = ["--cacert", &own, "--resolve", "node1:10250:127.0.0.1", "https://node1:10250/pods"];
    assert_eq!(curl(&rig, &named).0, "401");
    agent.kill9();
    let _agent = rig.start_agent(&[]);
    rig.wait("the port, with the same certificate", || curl(&rig, &named).0 == "401");
}

#[test]
fn who_has_a_certificate_or_may_be_anonymous_is_served() {
    let rig = Rig::new();
    let dir = rig.dir().join("clients");
    std::fs::create_dir(&dir).expect("make a directory");
    let script = "cd \"$1\"; key='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2'\n\
        openssl req -x509 $key -subj /CN=authority -keyout ca.key -out ca.pem\n\
        openssl req $key -subj /O=operators/CN=me -keyout me.key -out me.csr\n\
        printf 'extendedKeyUsage=clientAuth\\n' > extensions\n\
        openssl x509 -req -in me.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile extensions -out me.pem\n\
        openssl req -x509 $key -subj /CN=me -keyout other.key -out other.pem";
    rig.output("sh", &["-e", "-c", script, "sh", &dir.display().to_string()]);
    let file = |name: &str| dir.join(name).display().to_string();
    rig.write_config(&format!(
        "authentication:\n  x509: {{clientCAFile: {}}}\nauthorization: {{mode: AlwaysAllow}}\ntlsMinVersion: VersionTLS13\n",
        file("ca.pem")
    ));
    let agent = rig.start_agent(&[]);
    let pods = format!("{SECURE}/pods");
    rig.wait("the port", || curl(&rig, &["-k", &pods]).0 == "401");
    let me = ["-k", "--cert", &file("me.pem"), "--key", &file("me.key"), &pods];
    let (status, body) = curl(&rig, &me);
    assert!(status == "200" && body.contains("\"kind\":\"PodList\""), "{status} {body}");
    let other = ["-k", "--cert", &file("other.pem"), "--key", &file("other.key"), &pods];
    assert_ne!(curl(&rig, &other).0, "200", "a certificate of another authority");
    assert_ne!(curl(&rig, &["-k", "--tls-max", "1.2", &pods]).0, "401", "TLS 1.2 is not spoken");
    agent.terminate();

    rig.write_config("authentication: {anonymous: {enabled: true}}\nauthorization: {mode: AlwaysAllow}\n");
    let agent = rig.start_agent(&[]);
    agent.wait_for_log("may run commands in every container");
    rig.wait("the configuration", || curl(&rig, &["-k", &format!("{SECURE}/configz")]).0 == "200");
    assert_eq!(curl(&rig, &["-k", &format!("{SECURE}/containerLogs/a/b/c")]).0, "404");
    agent.terminate();

    rig.write_config("authentication: {anonymous: {enabled: true}}\n");
    let agent = rig.start_agent(&[]);
    rig.wait("authorization by nobody", || curl(&rig, &["-k", &pods]).0 == "403");
    agent.wait_for_log("there is no API server to ask");
}
