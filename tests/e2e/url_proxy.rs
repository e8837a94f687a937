//! The URL through a proxy of the environment.

use std::io::{self, Write as _};
use std::net::TcpStream;

use crate::manifest;
use crate::rig::web::{Server, reply};
use crate::rig::{Agent, Rig};
use crate::url::{FAILED, documents, wait_for};
use crate::url_tls::{Authority, nginx};

/// Not this machine, which is never asked through a proxy; TEST-NET-1, where nobody is.
const PROXY: &str = "192.0.2.10:3128";
const VARIABLE: &str = "http://user:open%20sesame@192.0.2.10:3128";
/// `user:open sesame`.
const CREDENTIALS: &str = "proxy-authorization: basic dxnlcjpvcgvuihnlc2ftzq==";

/// A proxy that leads every connection that it is asked for to one address.
fn tunnel_to(proxy: &Server, target: &'static str) {
    proxy.answer(move |head, stream| {
        if !head.starts_with("CONNECT ") {
            return reply(stream, "405 Method Not Allowed", "", b"");
        }
        let server = TcpStream::connect(target)?;
        stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
        let (mut from, mut to) = (stream.try_clone()?, server.try_clone()?);
        let there = std::thread::spawn(move || io::copy(&mut from, &mut to));
        let (mut from, mut to) = (server, stream.try_clone()?);
        let _ = io::copy(&mut from, &mut to);
        let _ = stream.shutdown(std::net::Shutdown::Both);
        let _ = there.join();
        Ok(())
    });
}

fn start<'rig>(rig: &'rig Rig, variables: &[&str], flags: &[&str]) -> Agent<'rig> {
    let launcher: Vec<&str> = [&["env"], variables].concat();
    rig.start_agent_through(&launcher, &[&["--http-check-frequency=1s"], flags].concat())
}

fn heads(server: &Server) -> Vec<String> {
    server.requests().iter().map(|head| head.to_lowercase()).collect()
}

#[test]
fn https_goes_through_a_tunnel_and_the_password_to_the_proxy_alone() {
    let rig = Rig::new();
    let authority = Authority::new(&rig, "ca");
    authority.issue_for("server", "DNS:fleet.example", "-days 2");
    let nginx = nginx(&rig, &authority, "");
    nginx.put("pods.yaml", &manifest::idle("a"));
    let proxy = Server::start(&rig, PROXY);
    proxy.answer(|_, stream| reply(stream, "407 Proxy Authentication Required", "", b"no"));
    let flags = [
        "--manifest-url=https://fleet.example:8443/pods.yaml",
        &authority.flag("manifest-url-ca-file", "ca.pem"),
    ];
    let agent = start(&rig, &[&format!("HTTPS_PROXY={VARIABLE}")], &flags);
    let refused = "the proxy http://192.0.2.10:3128/ answers with status 407";
    rig.wait("the proxy's refusal", || {
        agent.log_lines_with(FAILED).iter().any(|line| line.contains(refused))
    });
    tunnel_to(&proxy, "127.0.0.1:8443");
    wait_for(&rig, &["a"]);
    for head in heads(&proxy) {
        assert!(
            head.starts_with("connect fleet.example:8443 http/1.1\nhost: fleet.example:8443\n"),
            "{head}"
        );
        assert!(head.contains(CREDENTIALS), "{head}");
    }
    assert!(!agent.log().contains("sesame"), "{}", agent.log());
    agent.kill9();

    // What is excepted is asked directly: here in vain, since nobody knows the name.
    let so_far = proxy.requests().len();
    let agent = start(&rig, &[&format!("https_proxy={VARIABLE}"), "NO_PROXY=other, .example:8443"], &flags);
    rig.wait("a lookup that fails", || {
        agent.log_lines_with(FAILED).iter().any(|line| line.contains("fleet.example"))
    });
    assert_eq!(proxy.requests().len(), so_far, "the proxy was not asked");
}

#[test]
fn http_is_asked_of_the_proxy_and_this_machine_never() {
    let rig = Rig::new();
    let proxy = Server::start(&rig, PROXY);
    proxy.serve(documents(&["a"]));
    let variable = format!("HTTP_PROXY={VARIABLE}");
    let flags = ["--manifest-url=http://me:hush@fleet.example/pods?x=1", "--allow-insecure-manifest-url"];
    let agent = start(&rig, &[&variable], &flags);
    wait_for(&rig, &["a"]);
    for head in heads(&proxy) {
        assert!(
            head.starts_with("get http://fleet.example/pods?x=1 http/1.1\nhost: fleet.example\n"),
            "{head}"
        );
        assert!(head.contains(CREDENTIALS) && head.contains("\nauthorization: basic bwu6ahvzaa=="), "{head}");
    }
    assert!(!agent.log().contains("sesame") && !agent.log().contains("hush"), "{}", agent.log());
    agent.kill9();

    let so_far = proxy.requests().len();
    let server = Server::start(&rig, crate::url::ADDRESS);
    server.serve(documents(&["a", "b"]));
    let _agent = start(&rig, &[&variable], &[&format!("--manifest-url={}", server.url("/pods"))]);
    wait_for(&rig, &["a", "b"]);
    assert_eq!(proxy.requests().len(), so_far, "the proxy was not asked");
}

#[test]
fn probes_know_no_proxy() {
    let rig = Rig::new();
    let proxy = Server::start(&rig, PROXY);
    let server = Server::start(&rig, "192.0.2.10:8099");
    server.serve("well");
    let probe = "readinessProbe: {httpGet: {host: 192.0.2.10, port: 8099}, periodSeconds: 1}";
    let container = crate::probes::container("main", &[probe], manifest::IDLE);
    rig.write_manifest("pod.yaml", &crate::probes::pod(&rig, "pod", &[], &[container]));
    let _agent = start(&rig, &[&format!("HTTP_PROXY={VARIABLE}")], &[]);
    rig.wait("a successful probe", || {
        crate::probes::probe(&rig, "main", "Readiness")["last"]["result"] == "Success"
    });
    assert_eq!(proxy.requests(), [""; 0]);
}
