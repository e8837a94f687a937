//! What a transport hands over of a request, and what it gets to send back.
//!
//! Owns the vocabulary between transports, access, router and handlers. Invariant: data, but for a body that is still
//! being made. Must not: know a path, or how bytes travel.

use std::net::SocketAddr;
use std::pin::Pin;

use futures_lite::Stream;
use hyper::body::Bytes;
use hyper::header::HeaderMap;
use percent_encoding::percent_decode_str;

use super::tunnel::Tunnel;

/// Which of the agent's ports is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    /// The health port: is the agent alive?
    Healthz,
    /// The read-only port: pods, verdicts and metrics, without authentication.
    ReadOnly,
    /// The port with TLS and authentication.
    Secure,
    /// The socket of this machine's root: everything.
    Socket,
}

/// What the request wants done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// `GET`.
    Get,
    /// `HEAD`: as `GET`, but the transport sends no body.
    Head,
    /// `POST`.
    Post,
    /// `PUT`.
    Put,
    /// `PATCH`.
    Patch,
    /// `DELETE`.
    Delete,
    /// Anything else.
    Other,
}

impl Method {
    /// The method of this name.
    pub(crate) fn named(name: &str) -> Self {
        match name {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "POST" => Method::Post,
            "PUT" => Method::Put,
            "PATCH" => Method::Patch,
            "DELETE" => Method::Delete,
            _ => Method::Other,
        }
    }
}

/// Who is at the other end of a connection, as the kernel says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// An address of the network.
    Network(SocketAddr),
    /// A process of this machine, by its user.
    Local {
        /// The user's number when it connected.
        uid: u32,
    },
}

/// Who asks, once that is proven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Requester {
    /// The user's name.
    pub user: String,
    /// The groups that it is in.
    pub groups: Vec<String>,
}

/// A request, as far as it is looked at. Its body is none of it: no path has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    /// The port that was asked.
    pub port: Port,
    /// Who asks.
    pub peer: Peer,
    /// Whom the connection has proven the other side to be: a client certificate's subject.
    pub identity: Option<Requester>,
    /// The method.
    pub method: Method,
    /// The path up to the question mark, without percent-encoding.
    pub path: String,
    /// What follows the question mark, as it was sent; empty if there is none.
    pub query: String,
    /// The headers.
    pub headers: HeaderMap,
}

impl Request {
    /// The first value of a parameter of the query, decoded; `Some("")` if it is there without a value.
    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        self.parameters(name).next()
    }

    /// All values of a parameter of the query, decoded, in their order.
    pub(crate) fn parameters(&self, name: &str) -> impl Iterator<Item = String> {
        self.query.split('&').filter(|pair| !pair.is_empty()).filter_map(move |pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode_parameter(key) == name).then(|| decode_parameter(value))
        })
    }
}

/// A name or value of a query as forms write it.
fn decode_parameter(text: &str) -> String {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

/// The path of a request's target without percent-encoding; none if it is not encoded as it must be, or has a NUL.
pub(crate) fn decode_path(path: &str) -> Option<String> {
    let is_hex = |digit: Option<&u8>| digit.is_some_and(u8::is_ascii_hexdigit);
    let is_encoded = |rest: &str| is_hex(rest.as_bytes().first()) && is_hex(rest.as_bytes().get(1));
    if !path.split('%').skip(1).all(is_encoded) {
        return None;
    }
    let decoded = percent_decode_str(if path.is_empty() { "/" } else { path }).decode_utf8_lossy();
    (!decoded.contains('\0')).then(|| decoded.into_owned())
}

/// A whole response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    /// The status code.
    pub status: u16,
    /// The body's type.
    pub content_type: &'static str,
    /// The methods to name in the header `Allow`; empty for none.
    pub allow: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// A response in words.
    pub(crate) fn text(status: u16, body: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", allow: "", body: body.into().into_bytes() }
    }

    /// A page of this type.
    pub(crate) fn page(content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, content_type, allow: "", body: body.into() }
    }

    /// A page of JSON, or what kept it from being written.
    pub(crate) fn json(what: &str, body: Result<Vec<u8>, serde_json::Error>) -> Self {
        match body {
            Ok(body) => Self::page("application/json", body),
            Err(error) => Self::text(500, format!("cannot write {what}: {error}\n")),
        }
    }
}

/// The chunks of a body.
pub(crate) type ByteStream = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// What a transport has to send.
pub(crate) enum Reply {
    /// A whole response.
    Whole(Response),
    /// A head, and a body that is made while it is sent: the next chunk is asked for when the client has taken the last.
    Streamed {
        /// The body's type.
        content_type: &'static str,
        /// The chunks of the body.
        chunks: ByteStream,
    },
    /// The client is passed through to another server.
    Tunnel(Tunnel),
}

impl From<Response> for Reply {
    fn from(response: Response) -> Self {
        Reply::Whole(response)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A request of root on this port.
    pub(crate) fn request(port: Port, method: Method, target: &str) -> Request {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Request {
            port,
            peer: Peer::Local { uid: 0 },
            identity: None,
            method,
            path: path.to_owned(),
            query: query.to_owned(),
            headers: HeaderMap::new(),
        }
    }

    #[test]
    fn paths_are_decoded_or_refused() {
        for (path, decoded) in [
            ("/pods", Some("/pods")),
            ("", Some("/")),
            ("*", Some("*")),
            ("/health%7A", Some("/healthz")),
            ("/%c3%a9%3Fa", Some("/\u{e9}?a")),
            ("/%ff", Some("/\u{fffd}")),
            ("/a%2Fb", Some("/a/b")),
            ("/%", None),
            ("/%4", None),
            ("/%+1", None),
            ("/a%00b", None),
        ] {
            assert_eq!(decode_path(path).as_deref(), decoded, "{path}");
        }
    }

    #[test]
    fn parameters_are_found_and_decoded() {
        let request =
            request(Port::Socket, Method::Get, "/exec?command=sh&command=-c&command=a+b%26c&tty&x=");
        let commands: Vec<_> = request.parameters("command").collect();
        assert_eq!(commands, ["sh", "-c", "a b&c"]);
        for (name, value) in [("tty", Some("")), ("x", Some("")), ("command", Some("sh")), ("y", None)] {
            assert_eq!(request.parameter(name).as_deref(), value, "{name}");
        }
    }
}
