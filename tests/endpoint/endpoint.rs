//! A server for pods that are probed: it does as the path says, well or badly, over HTTP, HTTPS and gRPC, on IPv4 and
//! IPv6.
//!
//! It runs inside pods of the end-to-end tests, with the libraries of the machine mounted.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a server for tests fails by panicking"
)]

use std::convert::Infallible;
use std::future;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

const HTTP: u16 = 8080;
const HTTPS: u16 = 8443;
/// The same, with a certificate that is none.
const NONSENSE: u16 = 8444;
const GRPC: u16 = 50051;
/// A certificate for nobody whom a test asks.
const CERTIFICATE: &[u8] = include_bytes!("../fixtures/tls/server.pem");
const KEY: &[u8] = include_bytes!("../fixtures/tls/server.key");
/// Whoever says nothing for this long is given up.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two bytes of a trickle.
const TRICKLE: Duration = Duration::from_millis(300);

/// What the server has seen.
#[derive(Default)]
struct Seen {
    /// Requests that hang now.
    hanging: AtomicUsize,
    /// When `/timed` was asked for.
    times: Mutex<Vec<Instant>>,
}

fn main() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let seen: Arc<Seen> = Arc::default();
    let plain = seen.clone();
    listen(HTTP, move |stream| serve(stream, &plain));
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).expect("a certificate");
    for (port, certificate) in
        [(HTTPS, certificate), (NONSENSE, CertificateDer::from(b"nonsense".as_slice()))]
    {
        let (tls, seen) = (tls(certificate), seen.clone());
        listen(port, move |stream| {
            let tls = ServerConnection::new(tls.clone()).map_err(io::Error::other)?;
            serve(StreamOwned::new(tls, stream), &seen)
        });
    }
    serve_health();
}

/// Whatever the certificate is, it is shown.
fn tls(certificate: CertificateDer<'static>) -> Arc<ServerConfig> {
    let key = PrivateKeyDer::from_pem_slice(KEY).expect("a key");
    let key = rustls::crypto::ring::sign::any_supported_type(&key).expect("a key that can sign");
    let shown = SingleCertAndKey::from(CertifiedKey::new(vec![certificate], key));
    Arc::new(ServerConfig::builder().with_no_client_auth().with_cert_resolver(Arc::new(shown)))
}

/// Accepts connections on a thread of its own, and serves each on another.
fn listen(port: u16, serve: impl Fn(TcpStream) -> io::Result<()> + Clone + Send + 'static) {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).expect("listen");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            // Whoever asked may have gone.
            thread::spawn(move || stream.set_read_timeout(Some(PATIENCE)).and_then(|()| serve(stream)));
        }
    });
}

/// Answers one request.
fn serve(stream: impl Read + Write, seen: &Seen) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let stream = stream.get_mut();
    let good = "HTTP/1.1 200 OK\r\n";
    match path.split('?').next().unwrap_or_default() {
        "/well" => reply(stream, "200 OK", "", "hello"),
        "/echo" => reply(stream, "200 OK", "", &head),
        "/fail" => reply(stream, "503 No", "", "no"),
        "/hang" => {
            seen.hanging.fetch_add(1, Ordering::Relaxed);
            let ended = stream.read(&mut [0; 1]);
            seen.hanging.fetch_sub(1, Ordering::Relaxed);
            ended.map(|_| ())
        }
        "/hanging" => reply(stream, "200 OK", "", &seen.hanging.load(Ordering::Relaxed).to_string()),
        "/timed" => {
            seen.times.lock().expect("the times").push(Instant::now());
            reply(stream, "200 OK", "", "")
        }
        "/gaps" => {
            let times = seen.times.lock().expect("the times");
            let gaps = times.windows(2).map(|pair| (pair[1] - pair[0]).as_millis().to_string());
            reply(stream, "200 OK", "", &gaps.collect::<Vec<_>>().join(" "))
        }
        "/endless" => {
            write!(stream, "{good}\r\n")?;
            loop {
                stream.write_all(&[b'x'; 8192])?;
            }
        }
        "/trickle" => {
            write!(stream, "{good}Content-Length: 1000\r\n\r\n")?;
            loop {
                stream.write_all(b"x")?;
                stream.flush()?;
                pause(TRICKLE);
            }
        }
        "/drip" => loop {
            for byte in good.trim_end().bytes() {
                stream.write_all(&[byte])?;
                stream.flush()?;
                pause(TRICKLE);
            }
        },
        "/header" => {
            write!(stream, "{good}X-Long: ")?;
            for _ in 0..(10 << 10) {
                stream.write_all(&[b'x'; 1024])?;
            }
            Ok(())
        }
        "/early" => write!(stream, "{good}Content-Length: 1000\r\n\r\nhalf"),
        "/loop" => reply(stream, "302 Found", "Location: /loop\r\n", ""),
        "/twice" => reply(stream, "302 Found", "Location: /well\r\n", ""),
        "/elsewhere" => reply(stream, "302 Found", "Location: http://192.0.2.99/\r\n", "gone"),
        _ => reply(stream, "404 Not Found", "", "not found"),
    }
}

#[allow(clippy::disallowed_methods, reason = "to be slow is what this server is asked for")]
fn pause(time: Duration) {
    thread::sleep(time);
}

fn reply(stream: &mut impl Write, status: &str, headers: &str, body: &str) -> io::Result<()> {
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len())?;
    stream.flush()
}

#[derive(Clone, PartialEq, Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, PartialEq, Message)]
struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// The health service: `good` is served, `hang` never answers, `nobody` is not known, others are not served.
fn serve_health() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let listener =
            tokio::net::TcpListener::bind((Ipv6Addr::UNSPECIFIED, GRPC)).await.expect("listen for gRPC");
        while let Ok((stream, _)) = listener.accept().await {
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let connection = server.serve_connection(TokioIo::new(stream), service_fn(check));
            #[allow(clippy::disallowed_methods, reason = "whatever becomes of a connection, nobody asks")]
            tokio::spawn(connection);
        }
    });
}

async fn check(
    request: Request<Incoming>,
) -> Result<Response<impl hyper::body::Body<Data = Bytes, Error = Infallible>>, hyper::Error> {
    let is_check = request.uri().path() == "/grpc.health.v1.Health/Check";
    let body = request.into_body().collect().await?.to_bytes();
    // A message comes behind a flag and its length.
    let asked = HealthCheckRequest::decode(body.get(5..).unwrap_or_default()).unwrap_or_default();
    let (status, code) = match asked.service.as_str() {
        _ if !is_check => (None, "12"),
        "good" => (Some(1), "0"),
        "hang" => future::pending().await,
        "nobody" => (None, "5"),
        _ => (Some(2), "0"),
    };
    let answer = status.map_or_else(Vec::new, |status| {
        let message = HealthCheckResponse { status }.encode_to_vec();
        let length = u32::try_from(message.len()).expect("a short message");
        [&[0][..], &length.to_be_bytes(), &message].concat()
    });
    let trailers =
        HeaderMap::from_iter([("grpc-status".parse().expect("a name"), HeaderValue::from_static(code))]);
    let body = Full::new(Bytes::from(answer)).with_trailers(future::ready(Some(Ok(trailers))));
    let mut response = Response::new(body);
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    Ok(response)
}
