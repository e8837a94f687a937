//! Why a request got no answer, and what that means for the next one. Pure.

use std::error::Error;
use std::io;
use std::time::Duration;

use rustls::{CertificateError, InvalidMessage};

use super::redirect::RedirectError;
use super::tls::TlsError;

/// A request without an answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    /// A name that has no address, or nobody who could tell it.
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
    /// The two sides could not agree.
    #[error("no TLS with {host}")]
    Handshake {
        /// The host.
        host: String,
        /// Why not.
        source: io::Error,
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
    #[error("redirected in vain")]
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
    /// The way to the server; it may open at any moment.
    Network,
    /// Certificates that are not valid at this time: the clock may be wrong, and be set soon.
    Clock,
    /// The server or the settings.
    Other,
}

impl HttpError {
    /// What the failure depends on.
    pub(crate) fn cause(&self) -> Cause {
        match self {
            HttpError::Resolve { .. }
            | HttpError::LookupNotStarted { .. }
            | HttpError::LookupDeadline { .. }
            | HttpError::Connect { .. }
            | HttpError::Deadline { .. } => Cause::Network,
            HttpError::Handshake { source, .. } if is_about_time(source) => Cause::Clock,
            HttpError::Handshake { .. } | HttpError::Exchange { .. } | HttpError::BrokenOff { .. } => {
                Cause::Network
            }
            HttpError::Tls(_)
            | HttpError::Request(_)
            | HttpError::TooLarge { .. }
            | HttpError::Redirect(_)
            | HttpError::Reactor => Cause::Other,
        }
    }

    /// TLS was asked for, and what came back is none: the server speaks in plain text.
    pub(crate) fn is_plain_text(&self) -> bool {
        let HttpError::Handshake { source, .. } = self else { return false };
        let not_tls = rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType);
        said_by_tls(source) == Some(&not_tls)
    }
}

/// The server's certificate is not valid now, but was or will be.
fn is_about_time(error: &io::Error) -> bool {
    matches!(
        said_by_tls(error),
        Some(rustls::Error::InvalidCertificate(
            CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. }
        ))
    )
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
        let handshake = |error: CertificateError| HttpError::Handshake {
            host: "h".to_owned(),
            source: io::Error::new(io::ErrorKind::InvalidData, rustls::Error::InvalidCertificate(error)),
        };
        let cases = [
            (CertificateError::NotValidYet, Cause::Clock),
            (CertificateError::Expired, Cause::Clock),
            (CertificateError::UnknownIssuer, Cause::Network),
            (CertificateError::NotValidForName, Cause::Network),
        ];
        for (error, cause) in cases {
            assert_eq!(handshake(error.clone()).cause(), cause, "{error:?}");
        }
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(HttpError::Connect { host: "h".to_owned(), source: refused }.cause(), Cause::Network);
        assert_eq!(HttpError::TooLarge { limit: 1 }.cause(), Cause::Other);
    }
}
