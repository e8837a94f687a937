//! One request and its answer over one connection, directly or through a proxy. On the reactor's thread.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_lite::future;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{
    HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHORIZATION, TRANSFER_ENCODING, USER_AGENT,
};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::{BodyEnd, BodyLimit, GetRequest, GetResponse, HttpError, Url};

/// The status line and the headers of an answer may take this much; more is an error.
const MAX_HEAD: usize = 64 << 10;
/// One of several addresses may take this long before the next is tried.
const PER_ADDRESS: Duration = Duration::from_secs(3);
const OWN_NAME: &str = concat!("rkubelet/", env!("CARGO_PKG_VERSION"));

/// The way to a server.
pub(super) struct Route {
    /// Of the server, or of the proxy.
    pub(super) addresses: Vec<SocketAddr>,
    /// Whom to ask instead.
    pub(super) proxy: Option<Proxy>,
    /// TLS with the server; none for plain text.
    pub(super) config: Option<Arc<ClientConfig>>,
}

/// A proxy.
pub(super) struct Proxy {
    /// Where it is.
    pub(super) url: Url,
    /// TLS with the proxy; none for plain text.
    pub(super) config: Option<Arc<ClientConfig>>,
}

/// A connection of any kind, so that the code above it is compiled once.
trait AnyConnection: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> AnyConnection for S {}
type Stream = Box<dyn AnyConnection>;

/// Makes the request.
pub(super) async fn exchange(request: &GetRequest, route: Route) -> Result<GetResponse, HttpError> {
    let (url, config) = (&request.url, route.config.as_ref());
    let Some(proxy) = &route.proxy else {
        let stream = secure(config, &url.host, Box::new(connect(&url.host, &route.addresses).await?)).await?;
        return ask(request, None, stream, config.is_some()).await;
    };
    let stream: Stream = Box::new(connect(&proxy.url.host, &route.addresses).await?);
    let stream = secure(proxy.config.as_ref(), &proxy.url.host, stream).await?;
    if config.is_none() {
        return ask(request, Some(&proxy.url), stream, false).await;
    }
    let stream = secure(config, &url.host, tunnel(url, &proxy.url, stream).await?).await?;
    ask(request, None, stream, true).await
}

/// Tries the host's addresses, one after the other.
pub(super) async fn connect(host: &str, addresses: &[SocketAddr]) -> Result<TcpStream, HttpError> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for (index, address) in addresses.iter().enumerate() {
        let is_last = index + 1 == addresses.len();
        // The last one has what is left of the deadline, which is the caller's.
        let tried = if is_last {
            TcpStream::connect(address).await
        } else {
            timeout(PER_ADDRESS, TcpStream::connect(address))
                .await
                .unwrap_or(Err(io::ErrorKind::TimedOut.into()))
        };
        match tried {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(HttpError::Connect { host: host.to_owned(), source: last })
}

/// The same connection through TLS, where there are settings for it.
async fn secure(config: Option<&Arc<ClientConfig>>, host: &str, stream: Stream) -> Result<Stream, HttpError> {
    let Some(config) = config else { return Ok(stream) };
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| HttpError::handshake(host, io::Error::other(error)))?;
    let stream = TlsConnector::from(config.clone()).connect(name, stream).await;
    Ok(Box::new(stream.map_err(|error| HttpError::handshake(host, error))?))
}

/// Asks a proxy for a connection to the URL's host.
async fn tunnel(url: &Url, proxy: &Url, stream: Stream) -> Result<Stream, HttpError> {
    let broken = |source| HttpError::Exchange { host: proxy.host.clone(), source };
    let place = url.authority_with_port();
    let mut message =
        hyper::Request::connect(&place).body(Empty::<Bytes>::new()).map_err(HttpError::Request)?;
    let host = HeaderValue::from_str(&place).map_err(|error| HttpError::Request(error.into()))?;
    message.headers_mut().insert(HOST, host);
    message.headers_mut().insert(USER_AGENT, HeaderValue::from_static(OWN_NAME));
    authorize(message.headers_mut(), proxy).map_err(HttpError::Request)?;
    let (mut sender, connection) = builder().handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let answer = async {
        let response = sender.send_request(message).await.map_err(broken)?;
        match response.status().as_u16() {
            200 => hyper::upgrade::on(response).await.map_err(broken),
            status => Err(HttpError::Proxy { proxy: proxy.clone(), status }),
        }
    };
    let upgraded = drive(answer, connection.with_upgrades()).await?;
    Ok(Box::new(TokioIo::new(upgraded)))
}

/// Polls the connection beside the answer; an error of the connection is reported through the answer.
async fn drive<T>(
    answer: impl Future<Output = Result<T, HttpError>>,
    connection: impl Future<Output = Result<(), hyper::Error>>,
) -> Result<T, HttpError> {
    let moving = async {
        let _ = connection.await;
        future::pending().await
    };
    future::or(answer, moving).await
}

fn builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    // Header names have no case, but the simplest servers expect them as Go writes them.
    builder.max_buf_size(MAX_HEAD).title_case_headers(true);
    builder
}

/// One request and its answer. A body that only ends with its connection has told its end if that is `signed`, as that of
/// TLS is: a connection that breaks is an error of its own.
async fn ask(
    request: &GetRequest,
    proxy: Option<&Url>,
    stream: Stream,
    signed: bool,
) -> Result<GetResponse, HttpError> {
    let broken = |source| HttpError::Exchange { host: request.url.host.clone(), source };
    let message = message(request, proxy).map_err(HttpError::Request)?;
    let (mut sender, connection) = builder().handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let answer = async {
        let response = sender.send_request(message).await.map_err(broken)?;
        let (head, incoming) = response.into_parts();
        let framed = incoming.size_hint().exact().is_some() || is_chunked(&head.headers);
        let end = if framed || signed { BodyEnd::Told } else { BodyEnd::Guessed };
        let (body, end) = read(incoming, request, end).await?;
        let (status, url) = (head.status.as_u16(), request.url.clone());
        Ok(GetResponse { status, headers: head.headers, body, end, url })
    };
    drive(answer, connection).await
}

/// Reads as much of a body as is asked for; `end` is the result if it is read to its end.
async fn read(
    mut incoming: Incoming,
    request: &GetRequest,
    end: BodyEnd,
) -> Result<(Vec<u8>, BodyEnd), HttpError> {
    let mut body = Vec::new();
    while let Some(frame) = incoming.frame().await {
        let frame =
            frame.map_err(|source| HttpError::BrokenOff { host: request.url.host.clone(), source })?;
        let Ok(data) = frame.into_data() else { continue };
        match request.body {
            BodyLimit::Whole(limit) if body.len() + data.len() > limit => {
                return Err(HttpError::TooLarge { limit });
            }
            BodyLimit::Start(limit) if body.len() + data.len() >= limit => {
                body.extend_from_slice(&data[..limit - body.len()]);
                return Ok((body, BodyEnd::Cut));
            }
            BodyLimit::Whole(_) | BodyLimit::Start(_) => body.extend_from_slice(&data),
        }
    }
    Ok((body, end))
}

/// The last coding is `chunked`, which alone tells where a body ends.
fn is_chunked(headers: &HeaderMap) -> bool {
    let last = headers.get_all(TRANSFER_ENCODING).iter().next_back().and_then(|value| value.to_str().ok());
    let last = last.and_then(|codings| codings.rsplit(',').next());
    last.is_some_and(|coding| coding.trim().eq_ignore_ascii_case("chunked"))
}

/// The request as it is sent to the server, or to a proxy that asks the server for us.
fn message(
    request: &GetRequest,
    proxy: Option<&Url>,
) -> Result<hyper::Request<Empty<Bytes>>, hyper::http::Error> {
    let target = match proxy {
        Some(_) => request.url.without_credentials(),
        None => request.url.path.clone(),
    };
    let mut message = hyper::Request::get(target).body(Empty::new())?;
    let headers = message.headers_mut();
    headers.insert(HOST, HeaderValue::from_str(&request.url.authority())?);
    headers.insert(USER_AGENT, HeaderValue::from_static(OWN_NAME));
    let conditional = request.conditional.as_ref().filter(|(url, _)| *url == request.url);
    let given = [Some(&request.headers), Some(&request.secrets), conditional.map(|(_, headers)| headers)];
    for given in given.into_iter().flatten() {
        let names: Vec<HeaderName> = given.keys().cloned().collect();
        for name in names {
            headers.remove(&name);
            for value in given.get_all(&name) {
                headers.append(name.clone(), value.clone());
            }
        }
    }
    if let Some(proxy) = proxy {
        authorize(headers, proxy)?;
    }
    Ok(message)
}

/// Tells the proxy who asks, if its URL has credentials.
fn authorize(headers: &mut HeaderMap, proxy: &Url) -> Result<(), hyper::http::Error> {
    if let Some(credentials) = proxy.authorization() {
        let mut value = HeaderValue::try_from(credentials)?;
        value.set_sensitive(true);
        headers.insert(PROXY_AUTHORIZATION, value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_chunked_itself_tells_the_end() {
        for (values, expect) in [
            (&["chunked"][..], true),
            (&["gzip, Chunked "], true),
            (&["gzip", "chunked"], true),
            (&["xchunked"], false),
            (&["chunked, gzip"], false),
            (&["not chunked"], false),
            (&[], false),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(TRANSFER_ENCODING, HeaderValue::from_static(value));
            }
            assert_eq!(is_chunked(&headers), expect, "{values:?}");
        }
    }
}
