//! HTTP messages on a byte stream: the head of a request in, a response out.
//!
//! Owns the limits on what a client may send. Invariant: any bytes whatever give a request or a refusal.
//! Must not: read a request's body, know a path, or hold a connection.

use std::io::{self, Cursor, Read, Write};

use percent_encoding::percent_decode_str;
use tiny_http::{HTTPVersion, Header, StatusCode};

use super::router::{Method, Request, Response};

/// The longest head of a request that we read. Ours need a few hundred bytes.
const MAX_HEAD: usize = 8 * 1024;

/// The head of a request, whole and understood.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    method: Method,
    /// Without percent-encoding.
    path: String,
    query: String,
}

impl Head {
    /// The request, as the router wants it.
    pub(crate) fn request(&self) -> Request<'_> {
        Request { method: self.method, path: &self.path, query: &self.query }
    }
}

/// Why there is no request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HeadError {
    /// The client closed, or was too slow.
    #[error("cannot read the request")]
    Read(#[from] io::Error),
    /// The client closed before the head ended.
    #[error("the request ends before its head does")]
    Torn,
    /// More than we read.
    #[error("the request's head is longer than {MAX_HEAD} bytes")]
    TooLong,
    /// Not HTTP.
    #[error("the request is not HTTP/1")]
    Malformed,
}

impl HeadError {
    /// What to tell the client, if it can still hear.
    pub(crate) fn response(&self) -> Option<Response> {
        match self {
            HeadError::Read(_) | HeadError::Torn => None,
            HeadError::TooLong => Some(Response::text(431, "431 request header fields too large\n")),
            HeadError::Malformed => Some(Response::text(400, "400 bad request\n")),
        }
    }
}

/// Reads up to the end of the head. What follows it (a body, another request) may be read, and is ignored.
pub(crate) fn read_head(stream: &mut impl Read) -> Result<Head, HeadError> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 1024];
    loop {
        let length = stream.read(&mut chunk)?;
        if length == 0 {
            return Err(HeadError::Torn);
        }
        // The end may lie across two chunks.
        let from = bytes.len().saturating_sub(3);
        bytes.extend_from_slice(&chunk[..length]);
        if let Some(end) = bytes[from..].windows(4).position(|window| window == b"\r\n\r\n") {
            return parse_head(&bytes[..from + end]).ok_or(HeadError::Malformed);
        }
        if bytes.len() >= MAX_HEAD {
            return Err(HeadError::TooLong);
        }
    }
}

fn parse_head(bytes: &[u8]) -> Option<Head> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.is_ascii())?;
    let mut lines = text.split("\r\n");
    let mut parts = lines.next()?.split(' ');
    let (method, target, version) = (parts.next()?, parts.next()?, parts.next()?);
    let headers_are_valid = lines.all(|line| line.parse::<Header>().is_ok());
    if parts.next().is_some() || !matches!(version, "HTTP/1.0" | "HTTP/1.1") || !headers_are_valid {
        return None;
    }
    let method = match method.parse().ok()? {
        tiny_http::Method::Get => Method::Get,
        tiny_http::Method::Head => Method::Head,
        _ => Method::Other,
    };
    let (path, query) = split_target(target)?;
    Some(Head { method, path, query: query.to_owned() })
}

/// Path and query of a request's target: a path, or a whole URL as proxies are sent it. None if the path is not encoded
/// as it must be.
fn split_target(target: &str) -> Option<(String, &str)> {
    let is_http = |scheme: &str| ["http", "https"].iter().any(|http| scheme.eq_ignore_ascii_case(http));
    let local = match target.split_once("://") {
        Some((scheme, rest)) if is_http(scheme) => &rest[rest.find(['/', '?']).unwrap_or(rest.len())..],
        _ => target,
    };
    let (path, query) = local.split_once('?').unwrap_or((local, ""));
    let is_hex = |digit: Option<&u8>| digit.is_some_and(u8::is_ascii_hexdigit);
    let is_encoded = |rest: &str| is_hex(rest.as_bytes().first()) && is_hex(rest.as_bytes().get(1));
    if !path.split('%').skip(1).all(is_encoded) {
        return None;
    }
    let path = if path.is_empty() { "/" } else { path };
    Some((percent_decode_str(path).decode_utf8_lossy().into_owned(), query))
}

/// Writes the response to a request of this method. As HTTP/1.0, since we close after each response.
pub(crate) fn write_response(stream: &mut impl Write, method: Method, response: &Response) -> io::Result<()> {
    let headers = [
        ("Server", "rkubelet"),
        ("Content-Type", response.content_type),
        ("X-Content-Type-Options", "nosniff"),
        ("Allow", response.allow().unwrap_or_default()),
    ];
    let headers = headers
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .filter_map(|(name, value)| Header::from_bytes(name, value).ok())
        .collect();
    let body = Cursor::new(&response.body);
    let length = Some(response.body.len());
    let mut buffered = io::BufWriter::new(stream);
    tiny_http::Response::new(StatusCode(response.status), headers, body, length, None).raw_print(
        &mut buffered,
        HTTPVersion(1, 0),
        &[],
        method == Method::Head,
        None,
    )?;
    buffered.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte at a time, as a slow client does.
    struct Drip<'a>(&'a [u8]);

    impl Read for Drip<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.0.len().min(1);
            buffer[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }

    #[test]
    fn heads_that_are_understood() {
        for (text, method, path, query) in [
            ("GET /pods HTTP/1.1\r\nHost: a\r\n\r\n", Method::Get, "/pods", ""),
            ("GET / HTTP/1.0\r\n\r\n", Method::Get, "/", ""),
            ("HEAD /a?b=c?d HTTP/1.1\r\n\r\n", Method::Head, "/a", "b=c?d"),
            ("POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", Method::Other, "/a", ""),
            ("GET http://host:1/a?b HTTP/1.1\r\n\r\n", Method::Get, "/a", "b"),
            ("GET HTTPS://host/ HTTP/1.1\r\n\r\n", Method::Get, "/", ""),
            ("GET http://host HTTP/1.1\r\n\r\n", Method::Get, "/", ""),
            ("GET http://host?b HTTP/1.1\r\n\r\n", Method::Get, "/", "b"),
            ("GET /http://host/a HTTP/1.1\r\n\r\n", Method::Get, "/http://host/a", ""),
            ("GET /health%7A HTTP/1.1\r\n\r\n", Method::Get, "/healthz", ""),
            ("GET /%c3%a9%3Fa?%41 HTTP/1.1\r\n\r\n", Method::Get, "/\u{e9}?a", "%41"),
            ("GET /%ff HTTP/1.1\r\n\r\n", Method::Get, "/\u{fffd}", ""),
            ("BREW * HTTP/1.1\r\n\r\n\r\n", Method::Other, "*", ""),
        ] {
            let whole = read_head(&mut text.as_bytes()).unwrap();
            assert_eq!(whole.request(), Request { method, path, query }, "{text:?}");
            assert_eq!(read_head(&mut Drip(text.as_bytes())).unwrap(), whole, "{text:?} in drops");
        }
    }

    #[test]
    fn heads_that_are_refused() {
        let long = format!("GET / HTTP/1.1\r\nA: {}", "a".repeat(100_000));
        for (bytes, status) in [
            (&b"GET /pods\r\n\r\n"[..], Some(400)),
            (b"GET /pods HTTP/2.0\r\n\r\n", Some(400)),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Some(400)),
            (b"GET /a b HTTP/1.1\r\n\r\n", Some(400)),
            (b"GET /\xff HTTP/1.1\r\n\r\n", Some(400)),
            (b"GET /% HTTP/1.1\r\n\r\n", Some(400)),
            (b"GET /%4 HTTP/1.1\r\n\r\n", Some(400)),
            (b"GET /%+1 HTTP/1.1\r\n\r\n", Some(400)),
            (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", Some(400)),
            (b"GET / HTTP/1.1\r\nA : b\r\n\r\n", Some(400)),
            (b"\x16\x03\x01\x02\x00\r\n\r\n", Some(400)),
            (b"\r\n\r\n", Some(400)),
            (long.as_bytes(), Some(431)),
            (b"GET / HTTP/1.1\r\n", None),
            (b"", None),
        ] {
            let error = read_head(&mut &*bytes).unwrap_err();
            assert_eq!(error.response().map(|response| response.status), status, "{error}");
        }
    }

    #[test]
    fn responses() {
        for (method, response, ends, allow) in [
            (Method::Get, Response::text(200, "ok"), "Content-Length: 2\r\n\r\nok", false),
            (Method::Head, Response::text(200, "ok"), "Content-Length: 2\r\n\r\n", false),
            (Method::Other, Response::text(405, "no\n"), "Content-Length: 3\r\n\r\nno\n", true),
            (Method::Get, Response::text(200, ""), "Content-Length: 0\r\n\r\n", false),
            (Method::Get, Response::text(200, "x".repeat(70_000)), "xx", false),
        ] {
            let mut bytes = Vec::new();
            write_response(&mut bytes, method, &response).unwrap();
            let text = String::from_utf8(bytes).unwrap();
            assert!(text.starts_with(&format!("HTTP/1.0 {} ", response.status)), "{text}");
            assert!(text.ends_with(ends), "{text}");
            assert_eq!(text.contains("Allow: GET, HEAD\r\n"), allow, "{text}");
            assert!(text.contains("Content-Type: text/plain; charset=utf-8\r\n"), "{text}");
            assert!(!text.contains("Transfer-Encoding"), "{text}");
        }
    }
}
