//! Requests and answers, against sockets of our own.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;
use std::time::Duration;

use super::*;
use crate::http::tests::accept_tls;
use crate::http::{LookupOwner, spawn_tokio_thread};
use crate::pod::hook::HttpGet;
use crate::runtime::handlers::http_get::request;

fn ask_for(scheme: Scheme, host: &str, port: u16) -> Result<Answered, HttpError> {
    let headers = vec![("Authorization".to_owned(), "secret".to_owned())];
    let get = HttpGet { scheme, host: None, port, path: "stop?a=b c".into(), headers };
    let request = request(&get, host, USER_AGENT, Duration::from_secs(20), LookupOwner::Source).unwrap();
    smol::block_on(ask(&Client::new(spawn_tokio_thread().unwrap()), &request))
}

/// Reads a request up to the end of its head, or what is no request up to its end.
fn head(stream: &mut impl Read) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}

/// Answers one connection after the other, and gives back what was asked.
fn server(host: &str, answers: &[&str]) -> (u16, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind((host, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let answers: Vec<_> = answers.iter().map(|answer| answer.replace("PORT", &port.to_string())).collect();
    let asked = std::thread::spawn(move || {
        let asked = answers.iter().map(|answer| {
            let (mut stream, _) = listener.accept().unwrap();
            // A server without TLS knows from the first byte that this is no request.
            let mut first = [0];
            stream.peek(&mut first).unwrap();
            let asked = if first == [0x16] { String::new() } else { head(&mut stream) };
            // The other side may have had enough of it.
            let _ = stream.write_all(answer.as_bytes());
            let _ = stream.shutdown(std::net::Shutdown::Write);
            // Until it has gone: what is closed too early takes the answer with it.
            let _ = stream.read_to_end(&mut Vec::new());
            asked
        });
        asked.collect()
    });
    (port, asked)
}

const DONE: &str = "HTTP/1.1 204 Done\r\n\r\n";

#[test]
fn a_request_is_kubelets_and_any_answer_will_do() {
    for (host, authority) in [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")] {
        let (port, asked) = server(host, &["HTTP/1.1 500 Oh no\r\nContent-Length: 2\r\n\r\nno"]);
        assert_eq!(ask_for(Scheme::Http, host, port).unwrap(), Answered::AsAsked);
        let asked = asked.join().unwrap().remove(0);
        let mut lines: Vec<_> = asked.trim_end().split("\r\n").collect();
        assert_eq!(lines.remove(0), "GET /stop?a=b%20c HTTP/1.1");
        lines.sort_unstable();
        let host = format!("Host: {authority}:{port}");
        let user = "User-Agent: kube-lifecycle/1.36";
        assert_eq!(lines, ["Accept: */*", "Authorization: secret", "Connection: close", &host, user]);
    }
    let (port, _) = server("127.0.0.1", &["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut"]);
    assert_eq!(ask_for(Scheme::Http, "127.0.0.1", port).unwrap(), Answered::AsAsked, "the body broke off");
}

#[test]
fn redirects_are_followed_on_the_same_host_and_end() {
    let (port, asked) =
        server("127.0.0.1", &["HTTP/1.1 301 Moved\r\nLocation: /stop/\r\nContent-Length: 0\r\n\r\n", DONE]);
    ask_for(Scheme::Http, "127.0.0.1", port).unwrap();
    assert!(asked.join().unwrap()[1].starts_with("GET /stop/ HTTP/1.1\r\n"));

    let (port, asked) = server(
        "127.0.0.1",
        &["HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n"],
    );
    ask_for(Scheme::Http, "127.0.0.1", port).unwrap();
    asked.join().unwrap();

    let (other, asked) = server("127.0.0.1", &[DONE]);
    let elsewhere = format!("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{other}/\r\n\r\n");
    let (port, _) = server("127.0.0.1", &[&elsewhere]);
    ask_for(Scheme::Http, "127.0.0.1", port).unwrap();
    let asked = asked.join().unwrap().remove(0);
    assert!(
        asked.contains(&format!("\r\nHost: 127.0.0.1:{other}\r\n")),
        "another port is another host: {asked}"
    );

    let around = ["HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:PORT/\r\nContent-Length: 0\r\n\r\n"; 10];
    let (port, asked) = server("127.0.0.1", &around);
    let error = ask_for(Scheme::Http, "127.0.0.1", port).unwrap_err();
    assert!(matches!(error, HttpError::Redirect(_)), "{error}");
    asked.join().unwrap();
}

#[test]
fn a_certificate_that_nobody_signed_will_do() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = std::thread::spawn(move || {
        let mut stream = accept_tls(listener.accept().unwrap().0);
        let asked = head(&mut stream);
        stream.write_all(DONE.as_bytes()).unwrap();
        (asked, stream.conn.protocol_version().is_some())
    });
    assert_eq!(ask_for(Scheme::Https, "127.0.0.1", port).unwrap(), Answered::AsAsked);
    let (asked, through_tls) = asked.join().unwrap();
    assert!(through_tls && asked.contains("\r\nAuthorization: secret\r\n"), "{asked}");
}

#[test]
fn a_server_without_tls_is_asked_in_plain_text_and_not_told_secrets() {
    let refusal = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    let (port, asked) = server("127.0.0.1", &[refusal, DONE]);
    assert_eq!(ask_for(Scheme::Https, "127.0.0.1", port).unwrap(), Answered::InPlainText);
    let asked = asked.join().unwrap().remove(1);
    assert!(asked.starts_with("GET /stop?a=b%20c HTTP/1.1\r\n"), "{asked}");
    assert!(!asked.contains("secret"), "{asked}");

    let (port, asked) = server("127.0.0.1", &[refusal, "SSH-2.0-x\r\n"]);
    let error = ask_for(Scheme::Https, "127.0.0.1", port).unwrap_err();
    assert!(matches!(error, HttpError::Handshake { .. }), "the first error is told: {error}");
    asked.join().unwrap();
}

#[test]
fn what_is_no_answer_fails() {
    let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(1 << 20));
    for answer in ["", "SSH-2.0-x\r\n\r\n", "HTTP/1.1 abc\r\n\r\n", &endless] {
        let (port, asked) = server("127.0.0.1", &[answer]);
        let error = ask_for(Scheme::Http, "127.0.0.1", port).unwrap_err();
        assert!(matches!(error, HttpError::Exchange { .. }), "{answer:.20}: {error}");
        asked.join().unwrap();
    }
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = ask_for(Scheme::Http, "127.0.0.1", nobody).unwrap_err();
    assert!(matches!(error, HttpError::Connect { .. }), "{error}");
}
