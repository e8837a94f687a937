//! Servers that fail, lie, or mean harm: what runs stays, and the agent is none the worse for it.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use crate::rig::web::{Server, reply};
use crate::rig::{Rig, wait_until};
use crate::url::{ADDRESS, AGAIN, FAILED, documents, has_metric, start, wait_for};

type Fault = (&'static str, Box<dyn Fn(&str, &mut TcpStream) -> std::io::Result<()> + Send + Sync>);

/// Answers that are no contents, each with words that the complaint must hold.
fn faults() -> Vec<Fault> {
    fn says(status: &'static str, headers: &'static str, body: &'static str) -> Fault {
        ("", Box::new(move |_, stream| reply(stream, status, headers, body.as_bytes())))
    }
    let told = |words, fault: Fault| (words, fault.1);
    vec![
        told("the body is empty", says("200 OK", "", "")),
        told("status 204", says("204 No Content", "", "")),
        told("status 404", says("404 Not Found", "", "apiVersion: v1\nkind: PodList\nitems: []\n")),
        told("status 502", says("502 Bad Gateway", "", "<html>Bad gateway</html>")),
        told("not a mapping", says("200 OK", "Content-Type: text/html\r\n", "<html>Please log in</html>")),
        told("kind", says("200 OK", "", r#"{"kind":"Status","apiVersion":"v1","code":401}"#)),
        told("items", says("200 OK", "", r#"{"kind":"PodList","apiVersion":"v1"}"#)),
        told("not valid YAML", says("200 OK", "", "{ not: [YAML")),
        told("not UTF-8", ("", Box::new(|_, stream| reply(stream, "200 OK", "", b"\xff\xfe")))),
        told("not gzip", says("200 OK", "Content-Encoding: gzip\r\n", "kind: PodList")),
        told("was not asked for", says("200 OK", "Content-Encoding: br\r\n", "x")),
        told("without a Location", says("302 Found", "", "")),
        told("in plain text", says("302 Found", "Location: http://192.0.2.7/pods\r\n", "")),
        told(
            "more than 5 redirects",
            ("", Box::new(|_, stream| reply(stream, "301 Moved", "Location: /pods\r\n", b""))),
        ),
        (
            "does not say where the body ends",
            Box::new(|_, stream| {
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\napiVersion: v1\nkind: PodList\nitems: []\n")
            }),
        ),
        (
            "no whole answer",
            Box::new(|_, stream| {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\napiVersion: v1\nkind: PodList\nitems: []\n")
            }),
        ),
        // Nobody knows this coding: it tells nothing about the end.
        (
            "does not say where the body ends",
            Box::new(|_, stream| {
                stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\napiVersion: v1\nkind: PodList\nitems: []\n")
            }),
        ),
        // With what was sent unread, the end is a reset.
        (
            "no whole answer",
            Box::new(|_, stream| {
                stream.write_all(
                    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\napiVersion: v1\n",
                )?;
                rustix::net::sockopt::set_socket_linger(&*stream, Some(Duration::ZERO)).map_err(Into::into)
            }),
        ),
        ("no whole answer", Box::new(|_, stream| stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n"))),
        (
            "no whole answer",
            Box::new(|_, stream| {
                stream.write_all(b"HTTP/1.1 200 OK\r\n")?;
                (0..100_000).try_for_each(|number| write!(stream, "X-Flood-{number}: {number}\r\n"))
            }),
        ),
    ]
}

#[test]
fn no_answer_but_contents_changes_anything() {
    let rig = Rig::new();
    let server = Server::start(&rig, ADDRESS);
    let good = documents(&["a", "b"]);
    server.serve(good.clone());
    let agent = start(&rig, &server.url("/pods"), &[]);
    wait_for(&rig, &["a", "b"]);
    let before = rig.fingerprint();
    for (number, (words, fault)) in faults().into_iter().enumerate() {
        let said = agent.log_lines_with(FAILED).len();
        server.answer(fault);
        rig.wait(&format!("a complaint about fault {number}, {words:?}"), || {
            agent.log_lines_with(FAILED).len() > said
        });
        let line = agent.log_lines_with(FAILED).pop().expect("a complaint");
        assert!(line.contains(words), "{words:?}: {line}");
        let refused = "rkubelet_manifests{source=\"http\",outcome=\"refused\"} 1";
        rig.wait("the URL to be shown as refused", || has_metric(&rig, refused));
        server.serve(good.clone());
        rig.wait("it to be over", || agent.log_lines_with(AGAIN).len() == number + 1);
        assert_eq!(rig.fingerprint(), before, "after {words:?}");
    }
    assert_eq!(agent.log_lines_with("manifest is gone").len(), 0);
}

#[test]
fn a_hostile_server_costs_neither_time_nor_memory() {
    let rig = Rig::new();
    let server = Server::start(&rig, ADDRESS);
    let good = documents(&["a"]);
    server.serve(good.clone());
    let agent = start(&rig, &server.url("/pods"), &[]);
    wait_for(&rig, &["a"]);
    let (before, rss) = (rig.fingerprint(), agent.rss_kib());
    let bomb = gzip_of_zeros(&rig, 200);
    let endless = |stream: &mut TcpStream, chunk: &[u8]| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        loop {
            write!(stream, "{:x}\r\n", chunk.len())?;
            stream.write_all(chunk)?;
            stream.write_all(b"\r\n")?;
        }
    };
    let drip = |stream: &mut TcpStream, text: &[u8]| {
        for byte in text.iter().cycle() {
            stream.write_all(&[*byte])?;
            // The server takes its time: this is the fault that is tested.
            wait_until(Duration::from_millis(200), || false);
        }
        Ok(())
    };
    let long_kind = format!("apiVersion: v1\nkind: {}\n", "x".repeat(9 << 20));
    let faults: Vec<Fault> = vec![
        ("more than 10485760 bytes", Box::new(move |_, stream| endless(stream, &[b'x'; 65536]))),
        (
            "more than 10485760 bytes",
            Box::new(|_, stream| {
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 50 << 20)?;
                (0..50 << 10).try_for_each(|_| stream.write_all(&[b'x'; 1024]))
            }),
        ),
        (
            "more than 10485760 bytes when unpacked",
            Box::new(move |_, stream| reply(stream, "200 OK", "Content-Encoding: gzip\r\n", &bomb)),
        ),
        (
            "within 10s",
            Box::new(move |_, stream| {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")?;
                drip(stream, b"# ")
            }),
        ),
        (
            "within 10s",
            Box::new(move |_, stream| {
                stream.write_all(b"HTTP/1.1 200 OK\r\nX-")?;
                drip(stream, b"a")
            }),
        ),
        // The last one: of what decoding took, the allocator keeps some 30 MiB for the next time.
        (
            "bytes more) is not Pod",
            Box::new(move |_, stream| reply(stream, "200 OK", "", long_kind.as_bytes())),
        ),
    ];
    for (number, (words, fault)) in faults.into_iter().enumerate() {
        let said = agent.log_lines_with(FAILED).len();
        server.answer(fault);
        rig.wait(&format!("{words:?}"), || agent.log_lines_with(FAILED).len() > said);
        let line = agent.log_lines_with(FAILED).pop().expect("a complaint");
        assert!(line.contains(words), "{words:?}: {line}");
        assert!(line.len() < 4096, "a line of {} bytes", line.len());
        // Others do not wait meanwhile.
        agent.wait_healthy();
        server.serve(good.clone());
        rig.wait("it to be over", || agent.log_lines_with(AGAIN).len() == number + 1);
        assert_eq!(rig.fingerprint(), before, "after {words:?}");
        let allowed = if words.starts_with("bytes more") { 40 << 10 } else { 16 << 10 };
        rig.wait("the memory to be given back", || agent.rss_kib() < rss + allowed);
    }
}

/// So many MiB of zeros, packed; made by the program that everybody has.
fn gzip_of_zeros(rig: &Rig, mib: usize) -> Vec<u8> {
    let path = rig.dir().join("bomb.gz");
    let script = format!("head -c {mib}M /dev/zero | gzip -9 > {}", path.display());
    rig.output("sh", &["-c", &script]);
    fs::read(path).expect("read what gzip wrote")
}
