//! Why a request got no answer, and what that means for the next one. Pure.

use std::error::Error;
use std::io;
use std::time::Duration;

use jiff::Timestamp;
use rustls::pki_types::UnixTime;
use rustls::{CertificateError, InvalidMessage};

use super::proxy::ProxyError;
use super::redirect::RedirectError;
use super::tls::TlsError;
use crate::text::url::Url;

/// A request without an answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    /// A name without an address, or a resolver that failed.
    #[error("cannot resolve {host}")]
    Resolve {
        /// The name.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// A lookup that could not begin: it says nothing about the host.
    #[error("cannot look up {host} now")]
    LookupNotStarted {
        /// The name.
        host: String,
        /// Why not.
        source: io::Error,
    },
    /// The resolver did not answer in time.
    #[error("the lookup of {host} did not end within {after:?}")]
    LookupDeadline {
        /// The name.
        host: String,
        /// The time that there was.
        after: Duration,
    },
    /// No connection; the last address's error if there are several.
    #[error("cannot connect to {host}")]
    Connect {
        /// The host.
        host: String,
        /// What the system said.
        source: io::Error,
    },
    /// Our own side of TLS is at fault.
    #[error("cannot use TLS")]
    Tls(#[from] TlsError),
    /// The handshake failed.
    #[error("no TLS with {host}")]
    Handshake {
        /// The host.
        host: String,
        /// Why not.
        source: io::Error,
    },
    /// The server's certificate is not valid at this time. The time itself is not told: it is another at each request.
    #[error("no TLS with {host}: invalid peer certificate: certificate {what}{}", date(*.at))]
    CertificateTime {
        /// The host.
        host: String,
        /// What is the matter.
        what: &'static str,
        /// Since when, or until when; none if the library does not say.
        at: Option<UnixTime>,
    },
    /// The environment names a proxy that cannot be used.
    #[error(transparent)]
    BadProxy(#[from] ProxyError),
    /// The proxy does not open a connection to the server.
    #[error("the proxy {proxy} answers with status {status}")]
    Proxy {
        /// The proxy.
        proxy: Url,
        /// What it says.
        status: u16,
    },
    /// A header that cannot be sent, or a URL that cannot be asked for.
    #[error("the request cannot be written")]
    Request(#[source] hyper::http::Error),
    /// The exchange broke off, or what came is not HTTP.
    #[error("no whole answer from {host}")]
    Exchange {
        /// The host.
        host: String,
        /// Where it broke.
        source: hyper::Error,
    },
    /// There is an answer, but its body broke off.
    #[error("no whole answer from {host}: the body broke off")]
    BrokenOff {
        /// The host.
        host: String,
        /// Where it broke.
        source: hyper::Error,
    },
    /// The body passes the limit.
    #[error("the body has more than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// A redirect that is not followed.
    #[error("a redirect is not followed")]
    Redirect(#[from] RedirectError),
    /// Time is up.
    #[error("no whole answer within {after:?}")]
    Deadline {
        /// The time that there was.
        after: Duration,
    },
    /// The reactor is gone; the process is about to end.
    #[error("the reactor has ended")]
    Reactor,
}

/// What a failure depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The network or the server's availability: it may work at any moment.
    Network,
    /// Certificates that are not valid at this time: the clock may be wrong, and be set soon.
    Clock,
    /// The server or the settings.
    Other,
}

impl HttpError {
    /// What a failed handshake comes to.
    pub(super) fn handshake(host: &str, source: io::Error) -> Self {
        let host = host.to_owned();
        let (what, at) = match said_by_tls(&source) {
            Some(rustls::Error::InvalidCertificate(error)) => match error {
                CertificateError::Expired => ("expired", None),
                CertificateError::ExpiredContext { not_after, .. } => ("expired", Some(*not_after)),
                CertificateError::NotValidYet => ("not valid yet", None),
                CertificateError::NotValidYetContext { not_before, .. } => {
                    ("not valid yet", Some(*not_before))
                }
                _ => return HttpError::Handshake { host, source },
            },
            _ => return HttpError::Handshake { host, source },
        };
        HttpError::CertificateTime { host, what, at }
    }

    /// What the failure depends on.
    pub(crate) fn cause(&self) -> Cause {
        match self {
            HttpError::CertificateTime { .. } => Cause::Clock,
            HttpError::Resolve { .. }
            | HttpError::LookupNotStarted { .. }
            | HttpError::LookupDeadline { .. }
            | HttpError::Connect { .. }
            | HttpError::Deadline { .. }
            | HttpError::Handshake { .. }
            | HttpError::Exchange { .. }
            | HttpError::BrokenOff { .. } => Cause::Network,
            HttpError::Tls(_)
            | HttpError::BadProxy(_)
            | HttpError::Proxy { .. }
            | HttpError::Request(_)
            | HttpError::TooLarge { .. }
            | HttpError::Redirect(_)
            | HttpError::Reactor => Cause::Other,
        }
    }

    /// TLS was tried, and the answer is no TLS: the server uses plain text.
    pub(crate) fn is_plain_text(&self) -> bool {
        let HttpError::Handshake { source, .. } = self else { return false };
        let not_tls = rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType);
        said_by_tls(source) == Some(&not_tls)
    }
}

/// A date as part of a line.
fn date(at: Option<UnixTime>) -> String {
    let second = at.and_then(|at| i64::try_from(at.as_secs()).ok());
    let at = second.and_then(|second| Timestamp::from_second(second).ok());
    at.map(|at| format!(" ({at})")).unwrap_or_default()
}

fn said_by_tls(error: &io::Error) -> Option<&rustls::Error> {
    let inner: &(dyn Error + 'static) = error.get_ref()?;
    inner.downcast_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_out_of_time_points_to_the_clock() {
        let handshake = |error: CertificateError| {
            let source = io::Error::new(io::ErrorKind::InvalidData, rustls::Error::InvalidCertificate(error));
            HttpError::handshake("h", source)
        };
        let at = |second| UnixTime::since_unix_epoch(Duration::from_secs(second));
        let cases = [
            (CertificateError::NotValidYet, Cause::Clock),
            (CertificateError::Expired, Cause::Clock),
            (CertificateError::ExpiredContext { time: at(9), not_after: at(1) }, Cause::Clock),
            (CertificateError::UnknownIssuer, Cause::Network),
            (CertificateError::NotValidForName, Cause::Network),
        ];
        for (error, cause) in cases {
            assert_eq!(handshake(error.clone()).cause(), cause, "{error:?}");
        }
        // The same words at each request, so that they are logged once.
        for time in [9, 10] {
            let late = handshake(CertificateError::ExpiredContext { time: at(time), not_after: at(1) });
            let early =
                handshake(CertificateError::NotValidYetContext { time: at(time), not_before: at(99) });
            let words = "no TLS with h: invalid peer certificate: certificate";
            assert_eq!(late.to_string(), format!("{words} expired (1970-01-01T00:00:01Z)"));
            assert_eq!(early.to_string(), format!("{words} not valid yet (1970-01-01T00:01:39Z)"));
        }
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(HttpError::Connect { host: "h".to_owned(), source: refused }.cause(), Cause::Network);
        assert_eq!(HttpError::TooLarge { limit: 1 }.cause(), Cause::Other);
    }
}
