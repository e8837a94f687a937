//! An http or https URL, parsed once. Pure.
//!
//! Invariant: what is printed holds no secret: credentials are left out, and a query is only hinted at.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use core::net::IpAddr;
use hyper::http::Uri;
use percent_encoding::percent_decode_str;

/// The scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// Plain text.
    Http,
    /// Through TLS.
    Https,
}

impl Scheme {
    fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    fn port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

/// A URL. `Display` is for logs; see the module.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Url {
    /// The scheme.
    pub scheme: Scheme,
    /// A name in lower case or an address, without brackets.
    pub host: String,
    /// The port, written or not.
    pub port: u16,
    /// Path and query, as they are asked for.
    pub path: String,
    /// `user:password`, still encoded.
    credentials: Option<String>,
}

/// A text that is not such a URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UrlError {
    /// Not a URL at all.
    #[error("not a URL: {reason}")]
    Malformed {
        /// What the parser said.
        reason: String,
    },
    /// A URL of another kind.
    #[error("must begin with http:// or https://")]
    Scheme,
    /// No host, or one that cannot be.
    #[error("names no host")]
    Host,
    /// A port that cannot be.
    #[error("the port is not a number from 0 to 65535")]
    Port,
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let uri: Uri = text.parse().map_err(|error: hyper::http::uri::InvalidUri| UrlError::Malformed {
            reason: error.to_string(),
        })?;
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            _ => return Err(UrlError::Scheme),
        };
        let authority = uri.authority().ok_or(UrlError::Host)?;
        let (credentials, place) = match authority.as_str().rsplit_once('@') {
            Some((credentials, place)) => (Some(credentials.to_owned()), place),
            None => (None, authority.as_str()),
        };
        // The parser lets ports pass that are none.
        let port = match place.strip_prefix(authority.host()) {
            Some("") => scheme.port(),
            Some(port) => port.strip_prefix(':').and_then(|port| port.parse().ok()).ok_or(UrlError::Port)?,
            None => return Err(UrlError::Host),
        };
        let host = authority.host();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return Err(UrlError::Host);
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok(Self {
            scheme,
            host: host.to_ascii_lowercase(),
            port,
            path: if path.starts_with('/') { path.to_owned() } else { format!("/{path}") },
            credentials,
        })
    }
}

impl Url {
    /// A URL of parts: a host without brackets, a path that is encoded and begins with a slash.
    pub(crate) fn of(scheme: Scheme, host: &str, port: u16, path: String) -> Self {
        Self { scheme, host: host.to_ascii_lowercase(), port, path, credentials: None }
    }

    /// The host is this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// The same scheme, host and port: secrets for one may be sent to the other.
    pub(crate) fn has_origin_of(&self, other: &Self) -> bool {
        (self.scheme, &self.host, self.port) == (other.scheme, &other.host, other.port)
    }

    /// The value of the header `Host`.
    pub(crate) fn authority(&self) -> String {
        let whole = self.authority_with_port();
        if self.port != self.scheme.port() {
            return whole;
        }
        whole.rsplit_once(':').map(|(host, _)| host.to_owned()).unwrap_or(whole)
    }

    /// Host and port, as a proxy is asked for them.
    pub(crate) fn authority_with_port(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        format!("{host}:{}", self.port)
    }

    /// The value of the header `Authorization`, or `Proxy-Authorization`, if the URL has credentials.
    pub(crate) fn authorization(&self) -> Option<String> {
        let credentials = percent_decode_str(self.credentials.as_deref()?).collect::<Vec<u8>>();
        let colon = if credentials.contains(&b':') { &b""[..] } else { b":" };
        Some(format!("Basic {}", STANDARD.encode([&credentials, colon].concat())))
    }

    /// The URL of a file beside this one: its path with a suffix, the query as it is.
    pub(crate) fn with_suffix(&self, suffix: &str) -> Self {
        let path = match self.path.split_once('?') {
            Some((path, query)) => format!("{path}{suffix}?{query}"),
            None => format!("{}{suffix}", self.path),
        };
        Self { path, ..self.clone() }
    }

    /// All of it but the credentials: what tells it from another URL.
    pub(crate) fn without_credentials(&self) -> String {
        format!("{}://{}{}", self.scheme.as_str(), self.authority(), self.path)
    }

    /// The URL that a `Location` in an answer of this URL means. Credentials are not taken over.
    ///
    /// # Errors
    /// When it is no place that http or https leads to.
    pub(crate) fn join(&self, location: &str) -> Result<Self, UrlError> {
        let location = location.split('#').next().unwrap_or_default();
        let (scheme, authority) = (self.scheme.as_str(), self.authority());
        let path = self.path.split('?').next().unwrap_or_default();
        let whole = if location.starts_with("//") {
            format!("{scheme}:{location}")
        } else if location.starts_with('/') {
            format!("{scheme}://{authority}{location}")
        } else if location.starts_with('?') {
            format!("{scheme}://{authority}{path}{location}")
        } else if has_scheme(location) {
            location.to_owned()
        } else {
            let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
            format!("{scheme}://{authority}{directory}/{location}")
        };
        whole.parse()
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.split('?').next().unwrap_or_default();
        write!(f, "{}://{}{path}", self.scheme.as_str(), self.authority())?;
        if path.len() < self.path.len() { f.write_str("?...") } else { Ok(()) }
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn has_scheme(location: &str) -> bool {
    let scheme = location.split_once(':').map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| {
        !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    #[test]
    fn urls_are_taken_apart() {
        for (text, scheme, host, port, path) in [
            ("http://Host", Scheme::Http, "host", 80, "/"),
            ("https://host/pods?node=a#b", Scheme::Https, "host", 443, "/pods?node=a"),
            ("http://[::1]:8080/", Scheme::Http, "::1", 8080, "/"),
            ("http://user:pass@host:1/x", Scheme::Http, "host", 1, "/x"),
            ("HTTPS://host:443?a", Scheme::Https, "host", 443, "/?a"),
        ] {
            let found = url(text);
            assert_eq!((found.scheme, found.host.as_str(), found.port), (scheme, host, port), "{text}");
            assert_eq!(found.path, path, "{text}");
        }
        for text in [
            "",
            "host",
            "/path",
            "ftp://host/",
            "http://",
            "http://host:99999/",
            "http://host:/",
            "http://a b/",
        ] {
            assert!(text.parse::<Url>().is_err(), "{text}");
        }
    }

    #[test]
    fn nothing_secret_is_printed() {
        let url = url("https://user:pass@host:8443/pods?token=secret");
        assert_eq!(url.to_string(), "https://host:8443/pods?...");
        assert_eq!(format!("{url:?}"), "https://host:8443/pods?...");
    }

    #[test]
    fn credentials_become_a_header() {
        for (text, header) in [
            ("http://host/", None),
            ("http://user:pass@host/", Some("Basic dXNlcjpwYXNz")),
            ("http://user@host/", Some("Basic dXNlcjo=")),
            ("http://us%65r:p%61ss@host/", Some("Basic dXNlcjpwYXNz")),
        ] {
            assert_eq!(url(text).authorization().as_deref(), header, "{text}");
        }
    }

    #[test]
    fn loopback_is_told_by_name_or_address() {
        for (text, expect) in [
            ("http://localhost:1/", true),
            ("http://127.9.9.9/", true),
            ("http://[::1]/", true),
            ("http://192.0.2.1/", false),
            ("http://localhost.example/", false),
            ("http://[2001:db8::1]/", false),
        ] {
            assert_eq!(url(text).is_loopback(), expect, "{text}");
        }
    }

    #[test]
    fn a_suffix_goes_before_the_query() {
        assert_eq!(url("http://h/a").with_suffix(".minisig").path, "/a.minisig");
        assert_eq!(url("http://h/a?b=c").with_suffix(".minisig").path, "/a.minisig?b=c");
    }

    #[test]
    fn locations_are_resolved() {
        let base = url("https://user:pass@host:8443/dir/pods?x=1");
        for (location, expect) in [
            ("https://other/a?b", Ok("https://other/a?b")),
            ("//other/a", Ok("https://other/a")),
            ("/a#b", Ok("https://host:8443/a")),
            ("a/b", Ok("https://host:8443/dir/a/b")),
            ("?y=2", Ok("https://host:8443/dir/pods?y=2")),
            ("http://host:8443/a", Ok("http://host:8443/a")),
            ("ftp://host/a", Err(UrlError::Scheme)),
        ] {
            assert_eq!(base.join(location), expect.map(url), "{location}");
        }
        assert_eq!(base.join("/a").unwrap().authorization(), None, "credentials do not travel");
        assert!(base.join("javascript:alert(1)").is_err());
        assert!(base.join("/a b").is_err());
    }
}
