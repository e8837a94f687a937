//! The client against a server of one answer, in plain text and through TLS.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::tls::Roots;
use super::*;
use crate::http::spawn_tokio_thread;

const CERTIFICATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tls/server.pem");
const KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tls/server.key");

/// Reads the head of a request, and answers with this.
fn answer(mut stream: impl Read + Write, text: &str) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
    // Whoever asked may not like our certificate, and have gone.
    let _ = stream.write_all(text.as_bytes());
    let _ = stream.flush();
}

fn serve_plain(text: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || answer(listener.accept().unwrap().0, text));
    address
}

/// The server's side of TLS, with a certificate that it signed itself.
pub(crate) fn accept_tls(stream: TcpStream) -> StreamOwned<ServerConnection, TcpStream> {
    let chain = vec![CertificateDer::from_pem_file(CERTIFICATE).unwrap()];
    let key = PrivateKeyDer::from_pem_file(KEY).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = builder.with_no_client_auth().with_single_cert(chain, key).unwrap();
    StreamOwned::new(ServerConnection::new(Arc::new(config)).unwrap(), stream)
}

fn serve_tls(text: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut stream = accept_tls(listener.accept().unwrap().0);
        answer(&mut stream, text);
        stream.conn.send_close_notify();
        let _ = stream.flush();
    });
    address
}

fn get(url: &str, tls: Tls) -> Result<GetResponse, HttpError> {
    get_limited(url, tls, BodyLimit::Whole(100))
}

fn get_limited(url: &str, tls: Tls, body: BodyLimit) -> Result<GetResponse, HttpError> {
    let client = Client::new(spawn_tokio_thread().unwrap());
    let request = GetRequest {
        url: url.parse().unwrap(),
        headers: HeaderMap::new(),
        secrets: HeaderMap::new(),
        deadline: Duration::from_secs(20),
        body,
        tls,
        owner: LookupOwner::Source,
        conditional: None,
        proxies: None,
    };
    let redirects = Redirects::AnyHost { most: 0, plain_text: PlainText::Loopback };
    smol::block_on(client.get(&request, &redirects))
}

const UNFRAMED: &str = "HTTP/1.1 200 OK\r\n\r\nhello";

#[test]
fn how_the_end_of_a_body_was_told() {
    for (text, end) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", BodyEnd::Told),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", BodyEnd::Told),
        (UNFRAMED, BodyEnd::Guessed),
    ] {
        let response = get(&format!("http://{}/", serve_plain(text)), Tls::Unverified).unwrap();
        assert_eq!((response.body.as_slice(), response.end), (&b"hello"[..], end), "{text}");
    }
}

#[test]
fn of_a_long_body_the_beginning_is_taken_or_nothing() {
    // More is announced than ever comes, and the connection stays: who waits for it waits in vain.
    let endless = "HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\nhello";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (done, stay) = std::sync::mpsc::channel::<()>();
    let server = thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        answer(&mut stream, endless);
        let _ = stay.recv();
    });
    let response = get_limited(&url, Tls::Unverified, BodyLimit::Start(4)).unwrap();
    assert_eq!((response.body.as_slice(), response.end), (&b"hell"[..], BodyEnd::Cut));
    drop(done);
    server.join().unwrap();

    let whole = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    for (text, limit, expect) in [
        (whole, BodyLimit::Whole(5), Ok("hello")),
        (whole, BodyLimit::Start(6), Ok("hello")),
        (whole, BodyLimit::Start(0), Ok("")),
        (whole, BodyLimit::Whole(4), Err("the body has more than 4 bytes")),
        (endless, BodyLimit::Start(6), Err("no whole answer from 127.0.0.1: the body broke off")),
    ] {
        let got = get_limited(&format!("http://{}/", serve_plain(text)), Tls::Unverified, limit);
        let got = got.map(|response| String::from_utf8(response.body).unwrap());
        assert_eq!(got.map_err(|error| error.to_string()), expect.map(str::to_owned).map_err(str::to_owned));
    }
}

#[test]
fn a_server_without_tls_is_known_by_its_words() {
    let refusal = "HTTP/1.1 400 Bad Request\r\n\r\n";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.write_all(refusal.as_bytes()).unwrap();
        // Until the other side has read it and gone.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let error = get(&url, Tls::Unverified).unwrap_err();
    assert!(error.is_plain_text(), "{error:?}");
    // One that does not answer at all may be anything.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    thread::spawn(move || drop(listener.accept().unwrap()));
    let error = get(&url, Tls::Unverified).unwrap_err();
    assert!(matches!(error, HttpError::Handshake { .. }) && !error.is_plain_text(), "{error:?}");
}

#[test]
fn any_server_will_do_only_where_that_is_said() {
    let url = |address: SocketAddr| format!("https://localhost:{}/", address.port());
    let response = get(&url(serve_tls(UNFRAMED)), Tls::Unverified).unwrap();
    assert_eq!((response.body.as_slice(), response.end), (&b"hello"[..], BodyEnd::Told));
    // A certificate that nobody signed but itself is no server's, even if it is named as a root.
    let verified = Tls::Verified { roots: Roots::File(CERTIFICATE.into()), identity: None };
    assert!(matches!(get(&url(serve_tls(UNFRAMED)), verified), Err(HttpError::Handshake { .. })));
}

#[test]
fn files_that_are_of_no_use_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let (missing, empty): (PathBuf, PathBuf) = (dir.path().join("missing"), dir.path().join("empty"));
    std::fs::write(&empty, "").unwrap();
    for (path, words) in [(missing, "cannot read "), (empty, "holds no usable certificate")] {
        let tls = Tls::Verified { roots: Roots::File(path.clone()), identity: None };
        let Err(HttpError::Tls(error)) = get("https://localhost:1/", tls) else { panic!("{words}") };
        let text = error.to_string();
        assert!(text.contains(words) && text.contains(&path.display().to_string()), "{text}");
    }
}

#[test]
fn a_lookup_that_cannot_begin_is_told_from_one_that_does_not_end() {
    // Each lookup waits until the test ends.
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let lookups = Lookups::new(move |_| {
        let _ = wait.lock().unwrap().recv();
        Err("the test is over".to_owned())
    });
    let client = Client { handle: spawn_tokio_thread().unwrap(), configs: Arc::default(), lookups };
    let reach = |host: &str, pod: &str| {
        let owner = LookupOwner::Pod(pod.to_owned());
        let deadline = Duration::from_millis(50);
        smol::block_on(client.reach(host, 1, deadline, &owner)).unwrap_err().to_string()
    };
    assert_eq!(reach("a.example", "p"), "the lookup of a.example did not end within 50ms");
    assert_eq!(reach("b.example", "p"), "the lookup of b.example did not end within 50ms");
    assert_eq!(reach("c.example", "p"), "cannot look up c.example now");
    assert_eq!(reach("a.example", "p"), "the lookup of a.example did not end within 50ms");
    assert_eq!(reach("c.example", "q"), "the lookup of c.example did not end within 50ms");
    assert_eq!(reach("127.0.0.1", "p"), "cannot connect to 127.0.0.1");
    drop(done);
}
