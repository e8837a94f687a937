//! The way through to the runtime's streaming server: the client's request is made there, and the connection that comes of
//! it is the client's from then on. Its bytes pass unread, so that SPDY and WebSocket clients both work.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::time::Duration;

use futures_lite::future;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderValue};
use hyper::http::Method;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::request::{Request, Response};
use crate::text::url::{Scheme, Url};

/// How long the streaming server, which is on this machine, may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// How much of its refusal is passed on.
const MAX_REFUSAL: usize = 64 << 10;

/// Why there is no way through.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TunnelError {
    /// A URL that is none, or asks for what we do not do.
    #[error("the runtime's streaming server has the URL {url:?}, which cannot be used")]
    Url {
        /// The URL without its token.
        url: String,
    },
    /// No connection.
    #[error("cannot connect to the runtime's streaming server")]
    Connect(#[source] io::Error),
    /// No answer.
    #[error("the runtime's streaming server does not answer")]
    Exchange(#[from] hyper::Error),
    /// No answer in time.
    #[error("the runtime's streaming server has not answered within {ANSWER_WITHIN:?}")]
    Deadline,
}

/// A connection that was upgraded.
#[derive(Debug)]
pub(crate) struct Tunnel {
    /// The headers of the answer, which the client gets.
    pub headers: HeaderMap,
    /// The connection.
    pub upstream: Upgraded,
}

/// Makes the client's request there: the way through, or what the server said instead.
pub(crate) async fn open(url: &str, request: &Request) -> Result<Result<Tunnel, Response>, TunnelError> {
    let parsed = url.parse::<Url>().ok().filter(|url| url.scheme == Scheme::Http);
    let parsed = parsed.ok_or_else(|| TunnelError::Url {
        url: url.rsplit_once('/').map_or(url, |(before_token, _)| before_token).to_owned(),
    })?;
    timeout(ANSWER_WITHIN, exchange(&parsed, request)).await.unwrap_or(Err(TunnelError::Deadline))
}

async fn exchange(url: &Url, request: &Request) -> Result<Result<Tunnel, Response>, TunnelError> {
    let stream = TcpStream::connect((url.host.as_str(), url.port)).await.map_err(TunnelError::Connect)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let mut connection = pin!(connection.with_upgrades());
    let mut is_driven = true;
    let mut asked = pin!(async {
        let response = sender.send_request(message(url, request)).await?;
        match response.status().as_u16() {
            101 => {
                let headers = response.headers().clone();
                Ok(Ok(Tunnel { headers, upstream: hyper::upgrade::on(response).await? }))
            }
            status => {
                let body = Limited::new(response.into_body(), MAX_REFUSAL).collect().await;
                let text = body.map(|body| body.to_bytes().to_vec()).unwrap_or_default();
                Ok(Err(Response { body: text, ..Response::text(status, "") }))
            }
        }
    });
    // The connection moves while the answer is awaited, and ends when it is upgraded.
    let moving = poll_fn(|cx| {
        if is_driven {
            is_driven = connection.as_mut().poll(cx).is_pending();
        }
        std::task::Poll::Pending
    });
    future::or(asked.as_mut(), moving).await
}

fn message(url: &Url, request: &Request) -> hyper::Request<Empty<Bytes>> {
    let mut message = hyper::Request::new(Empty::new());
    *message.method_mut() = match request.method {
        super::request::Method::Post => Method::POST,
        _ => Method::GET,
    };
    if let Ok(uri) = url.path.parse() {
        *message.uri_mut() = uri;
    }
    *message.headers_mut() = request.headers.clone();
    let headers = message.headers_mut();
    // Who asks is our business.
    headers.remove(AUTHORIZATION);
    headers.remove(COOKIE);
    if let Ok(host) = HeaderValue::from_str(&url.authority_with_port()) {
        headers.insert(HOST, host);
    }
    message
}
