//! The request that an `httpGet` of a manifest stands for, as kubelet makes it. Pure.
//!
//! Whom it asks, and in whose name, is the caller's. Invariant: nothing in a manifest reaches beyond its own field of
//! the request.

use std::time::Duration;

use hyper::header::{
    ACCEPT, CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, TRAILER, TRANSFER_ENCODING,
    USER_AGENT,
};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::http::{BodyLimit, GetRequest, LookupOwner, Redirects, Tls, Url};
use crate::pod::hook::HttpGet;

/// kubelet makes ten requests in a row, and stays with the host.
pub(super) const REDIRECTS: Redirects = Redirects::SameHost { most: 9 };
/// More of an answer's body is not waited for: kubelet's limit.
const MAX_BODY: usize = 10 << 10;
/// What no path or query may hold as it is.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');
/// The same for a path that means itself to the letter.
const LITERAL: &AsciiSet = &ESCAPED.add(b'#').add(b'%').add(b'?');

/// A header that cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid header field value for {name:?}")]
pub(crate) struct BadHeader {
    /// Its name.
    pub name: String,
}

/// The request to `host`, a name that is looked up for `owner` or an address, in the name of `agent`.
///
/// # Errors
/// When the manifest names a header that cannot be sent.
pub(super) fn request(
    get: &HttpGet,
    host: &str,
    agent: &'static str,
    deadline: Duration,
    owner: LookupOwner,
) -> Result<GetRequest, BadHeader> {
    let url = Url::of(get.scheme, host, get.port, target(&get.path));
    let headers = headers(&get.headers, &authority(host, get.port), agent)?;
    let (body, tls) = (BodyLimit::Start(MAX_BODY), Tls::Unverified);
    Ok(GetRequest {
        url,
        headers,
        secrets: HeaderMap::new(),
        conditional: None,
        deadline,
        body,
        tls,
        owner,
        // Pods are asked where they are.
        proxies: None,
    })
}

/// A path and query as a request may have them: from the root, encoded, without the fragment. One that is not encoded
/// well is taken to the letter.
fn target(path: &str) -> String {
    let sent = path.split('#').next().unwrap_or_default();
    let is_literal = has_broken_escape(sent.split('?').next().unwrap_or_default());
    let (sent, set) = if is_literal { (path, LITERAL) } else { (sent, ESCAPED) };
    let root = if sent.starts_with('/') { "" } else { "/" };
    format!("{root}{}", utf8_percent_encode(sent, set))
}

fn has_broken_escape(path: &str) -> bool {
    let is_hex = |escape: &str| escape.bytes().take_while(u8::is_ascii_hexdigit).take(2).count() == 2;
    path.split('%').skip(1).any(|after| !is_hex(after))
}

/// The port is always named, as kubelet does.
pub(super) fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn headers(given: &[(String, String)], host: &str, agent: &'static str) -> Result<HeaderMap, BadHeader> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let bad = || BadHeader { name: name.clone() };
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| bad())?;
        headers.append(key, value);
    }
    // How the message ends is ours to say, and the connection is for this one request.
    for name in [CONTENT_LENGTH, TRANSFER_ENCODING, TRAILER, CONNECTION] {
        headers.remove(name);
    }
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(agent));
    // An empty one means that there shall be none.
    if headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*")).is_empty() {
        headers.remove(ACCEPT);
    }
    // There is one host, the first that is named.
    let host = match headers.remove(HOST).filter(|host| !host.is_empty()) {
        Some(host) => host,
        None => HeaderValue::from_str(host).map_err(|_| BadHeader { name: "Host".to_owned() })?,
    };
    headers.insert(HOST, host);
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::url::Scheme;

    fn get(path: &str, headers: &[(&str, &str)]) -> HttpGet {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        HttpGet { scheme: Scheme::Http, host: None, port: 80, path: path.to_owned(), headers }
    }

    fn made(get: &HttpGet, host: &str) -> Result<GetRequest, BadHeader> {
        request(get, host, "kube-test/1.36", Duration::from_secs(1), LookupOwner::Source)
    }

    #[test]
    fn paths_are_encoded_from_the_root() {
        let cases = [
            ("", "/"),
            ("stop", "/stop"),
            ("/stop?a=b&c#d", "/stop?a=b&c"),
            ("?a=b", "/?a=b"),
            ("//a", "//a"),
            ("/a b?c d", "/a%20b?c%20d"),
            ("/ä", "/%C3%A4"),
            ("/a\r\nEvil: 1", "/a%0D%0AEvil:%201"),
            ("/a%20b?%zz", "/a%20b?%zz"),
            ("/100%?a#b", "/100%25%3Fa%23b"),
            ("/%2", "/%252"),
            ("/<{|}>\"^`\\", "/%3C%7B%7C%7D%3E%22%5E%60%5C"),
        ];
        for (path, expect) in cases {
            let url = made(&get(path, &[]), "h").unwrap().url;
            assert_eq!(url.path, expect, "{path}");
            assert!(url.without_credentials().parse::<Url>().is_ok(), "{url} can be asked");
        }
    }

    #[test]
    fn headers_of_the_manifest_come_first() {
        let own = [("accept", "*/*"), ("connection", "close"), ("user-agent", "kube-test/1.36")];
        let with = |more: &[(&'static str, &'static str)]| [&own, more].concat();
        let cases: [(&str, &[(&str, &str)], _); 5] = [
            ("h", &[], with(&[("host", "h:80")])),
            ("::1", &[("HOST", "")], with(&[("host", "[::1]:80")])),
            ("h", &[("X-A", "1"), ("x-a", "2")], with(&[("host", "h:80"), ("x-a", "1"), ("x-a", "2")])),
            (
                "h",
                &[("host", "me"), ("Host", "you"), ("user-agent", "mine"), ("accept", "")],
                vec![("connection", "close"), ("host", "me"), ("user-agent", "mine")],
            ),
            (
                "h",
                &[("Content-Length", "9"), ("Transfer-Encoding", "chunked"), ("Connection", "keep-alive")],
                with(&[("host", "h:80")]),
            ),
        ];
        for (host, given, mut expect) in cases {
            let made = made(&get("/", given), host).unwrap();
            let mut found: Vec<_> =
                made.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
            found.sort_unstable();
            expect.sort_unstable();
            assert_eq!(found, expect, "{given:?}");
        }
        for header in [("X", "a\r\nEvil: 1"), ("X\n", "a"), ("", "a")] {
            assert_eq!(made(&get("/", &[header]), "h").unwrap_err().name, header.0);
        }
    }
}
