//! One connection: requests in, replies out, by hyper.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_lite::future;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, SERVER, X_CONTENT_TYPE_OPTIONS};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{StatusCode, http};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::copy_bidirectional;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::body::ReplyBody;
use super::slots::{Slots, TakenSlot};
use super::stream::{PortStream, WatchedStream};
use crate::http::Reactor;
use crate::server::Endpoints;
use crate::server::certificate::subject;
use crate::server::request::{Method, Peer, Port, Reply, Request, Requester, Response, decode_path};
use crate::server::tls::ServerTls;
use crate::server::tunnel::Tunnel;

/// How long a client may take to send the head of its request.
const HEAD_WITHIN: Duration = Duration::from_secs(5);

/// How long a client may take to agree on TLS.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// The longest head of a request that is read: a command to run is in it.
const MAX_HEAD: usize = 64 * 1024;

/// How many headers a request may have.
const MAX_HEADERS: usize = 64;

/// No path has a request's body; what a client sends of one is read so far, and for so long, and forgotten.
const MAX_BODY: usize = 256 * 1024;
const BODY_WITHIN: Duration = Duration::from_secs(3);

/// The connections of one port.
pub(super) struct Connections {
    port: Port,
    endpoints: Endpoints,
    reactor: Reactor,
    tls: Option<Arc<ServerTls>>,
    /// Who is served.
    pub(super) slots: Arc<Slots>,
}

impl Connections {
    /// None yet.
    pub(super) fn new(
        reactor: Reactor,
        port: Port,
        tls: Option<Arc<ServerTls>>,
        endpoints: Endpoints,
    ) -> Self {
        let width = match port {
            Port::Healthz | Port::ReadOnly => 16,
            Port::Secure | Port::Socket => 64,
        };
        Self { port, endpoints, reactor, tls, slots: Slots::new(width) }
    }
}

/// Serves a connection until it ends, or must make room for another.
pub(super) async fn serve(stream: PortStream, peer: Peer, slot: TakenSlot, own: Arc<Connections>) {
    let slot = Arc::new(slot);
    let (stream, identity) = match secured(stream, &own, &slot).await {
        Ok(secured) => secured,
        Err(error) => {
            tracing::debug!(?peer, %error, "no TLS with a client");
            return;
        }
    };
    let io = TokioIo::new(WatchedStream::new(stream, slot.slot.clone()));
    let service = service_fn(|request| {
        let (own, slot, identity) = (own.clone(), slot.clone(), identity.clone());
        async move { Ok::<_, Infallible>(answer(request, (peer, identity), slot, &own).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .serve_connection(io, service)
        .with_upgrades();
    let served = async { connection.await.map_err(|error| error.to_string()) };
    let closed = async {
        slot.slot.closed().await;
        Err("it made room for another".to_owned())
    };
    if let Err(reason) = future::or(served, closed).await {
        tracing::debug!(port = ?own.port, ?peer, reason, "a connection ended early");
    }
}

/// The stream with TLS, on a port that has it, and whom the client has proven to be.
async fn secured(
    stream: PortStream,
    own: &Connections,
    slot: &TakenSlot,
) -> io::Result<(PortStream, Option<Requester>)> {
    let (plain, tls) = match (stream, &own.tls) {
        (PortStream::Tcp(plain), Some(tls)) => (plain, tls),
        (stream, _) => return Ok((stream, None)),
    };
    let handshake = async {
        let config = tls.current().await.map_err(io::Error::other)?;
        TlsAcceptor::from(config).accept(plain).await
    };
    let closed = async {
        slot.slot.closed().await;
        Err(io::ErrorKind::ConnectionAborted.into())
    };
    let handshake = timeout(HANDSHAKE_WITHIN, future::or(handshake, closed));
    let stream = handshake.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let identity = certificate.and_then(|certificate| subject(certificate));
    Ok((PortStream::Tls(Box::new(stream)), identity))
}

async fn answer(
    request: http::Request<Incoming>,
    (peer, identity): (Peer, Option<Requester>),
    slot: Arc<TakenSlot>,
    own: &Connections,
) -> http::Response<ReplyBody> {
    let mut request = request;
    let upgrade = hyper::upgrade::on(&mut request);
    let (head, body) = request.into_parts();
    // Until its body is there it is the client's turn.
    slot.set_idle(true);
    let is_read = read_away(body).await;
    slot.set_idle(false);
    let reply = match (is_read, decode_path(head.uri.path())) {
        (false, _) => Response::text(413, "413: the request has a body\n").into(),
        (true, None) => Response::text(400, "400: the path is not encoded as it must be\n").into(),
        (true, Some(path)) => {
            let request = Request {
                port: own.port,
                peer,
                identity,
                method: Method::named(head.method.as_str()),
                path,
                query: head.uri.query().unwrap_or_default().to_owned(),
                headers: head.headers,
            };
            own.endpoints.answer(request).await
        }
    };
    match reply {
        Reply::Tunnel(Tunnel { headers, upstream }) => {
            own.reactor.spawn(pass_through(upgrade, upstream, slot.clone()));
            let mut response = http::Response::new(ReplyBody::whole(Vec::new(), slot.clone()));
            slot.set_idle(false);
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            *response.headers_mut() = headers;
            response
        }
        Reply::Whole(Response { status, content_type, allow, body }) => {
            send(status, content_type, allow, ReplyBody::whole(body, slot))
        }
        Reply::Streamed { content_type, chunks } => {
            send(200, content_type, "", ReplyBody::streamed(chunks, slot))
        }
    }
}

/// Passes bytes both ways until both sides have ended, or the slot is needed.
async fn pass_through(upgrade: OnUpgrade, upstream: Upgraded, slot: Arc<TakenSlot>) {
    let passed = async {
        let client = upgrade.await.map_err(io::Error::other)?;
        slot.set_idle(false);
        // As with a log that is followed: who pauses may, for as long as nobody else needs the slot.
        slot.slot.set_streaming();
        copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(upstream)).await
    };
    let closed = async {
        slot.slot.closed().await;
        Ok((0, 0))
    };
    if let Err(error) = future::or(passed, closed).await {
        tracing::debug!(%error, "a connection that was passed through ended early");
    }
}

/// Reads a body and forgets it: to close on unread bytes would reset the connection, and the client might lose the
/// response. False if it is too long, or too slow.
async fn read_away(mut body: Incoming) -> bool {
    let read = async {
        let mut left = MAX_BODY;
        while let Some(Ok(frame)) = body.frame().await {
            match left.checked_sub(frame.data_ref().map_or(0, |data| data.len())) {
                Some(less) => left = less,
                None => return false,
            }
        }
        true
    };
    timeout(BODY_WITHIN, read).await.unwrap_or(false)
}

fn send(
    status: u16,
    content_type: &'static str,
    allow: &'static str,
    body: ReplyBody,
) -> http::Response<ReplyBody> {
    let mut response = http::Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(SERVER, HeaderValue::from_static("rkubelet"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if !allow.is_empty() {
        headers.insert(ALLOW, HeaderValue::from_static(allow));
    }
    response
}
