//! Which redirects are followed. Pure.
//!
//! Invariant: what was meant for one origin (headers, a client certificate) is sent to no other, nor to the first again
//! after another.

use crate::text::url::{Scheme, Url, UrlError};

/// Who may be asked in plain text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlainText {
    /// This machine alone.
    Loopback,
    /// Anybody.
    Anywhere,
}

impl PlainText {
    /// The URL may be asked.
    pub(crate) fn allows(self, url: &Url) -> bool {
        url.scheme == Scheme::Https || self == PlainText::Anywhere || url.is_loopback()
    }
}

/// Which redirects the caller allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Redirects {
    /// They are followed to any host, but never from TLS to plain text.
    AnyHost {
        /// How many in a row.
        most: usize,
        /// Who may be asked in plain text.
        plain_text: PlainText,
    },
    /// They are followed within the host, through TLS or not. One that leads elsewhere, or nowhere, is an answer like
    /// any other. kubelet's rule for what it asks of containers.
    SameHost {
        /// How many in a row.
        most: usize,
    },
}

/// A redirect that is not followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RedirectError {
    /// There were too many.
    #[error("more than {most} redirects in a row")]
    TooMany {
        /// The limit.
        most: usize,
    },
    /// The answer does not say where to.
    #[error("a redirect ({status}) without a Location")]
    Nowhere {
        /// The answer's status.
        status: u16,
    },
    /// It says something that is no URL.
    #[error("a redirect to something that is no http or https URL")]
    Location(#[from] UrlError),
    /// It would leave TLS.
    #[error("a redirect from https to {to}, in plain text")]
    LeavesTls {
        /// Where to.
        to: Url,
    },
    /// It would ask another machine in plain text.
    #[error("a redirect to {to}, in plain text and not on this machine")]
    PlainText {
        /// Where to.
        to: Url,
    },
}

/// Whether a status is a redirect.
pub(crate) fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

impl Redirects {
    /// The URL to ask next, after `followed` redirects, when `from` answered with this one; none when the redirect is
    /// the answer.
    ///
    /// # Errors
    /// When it is not to be followed.
    pub(crate) fn next(
        &self,
        from: &Url,
        status: u16,
        location: Option<&str>,
        followed: usize,
    ) -> Result<Option<Url>, RedirectError> {
        match *self {
            Self::AnyHost { most, plain_text } => {
                check_count(most, followed)?;
                let to = from.join(location.ok_or(RedirectError::Nowhere { status })?)?;
                if from.scheme == Scheme::Https && to.scheme == Scheme::Http {
                    return Err(RedirectError::LeavesTls { to });
                }
                if !plain_text.allows(&to) {
                    return Err(RedirectError::PlainText { to });
                }
                Ok(Some(to))
            }
            Self::SameHost { most } => {
                let Some(location) = location.filter(|location| !location.is_empty()) else {
                    return Ok(None);
                };
                let to = from.join(location)?;
                if to.host != from.host {
                    return Ok(None);
                }
                check_count(most, followed)?;
                Ok(Some(to))
            }
        }
    }
}

fn check_count(most: usize, followed: usize) -> Result<(), RedirectError> {
    if followed < most { Ok(()) } else { Err(RedirectError::TooMany { most }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_followed_within_limits() {
        let careful = Redirects::AnyHost { most: 2, plain_text: PlainText::Loopback };
        let careless = Redirects::AnyHost { most: 2, plain_text: PlainText::Anywhere };
        let cases = [
            ("a path", careful, "https://h/a", Some("/b"), 0, Ok("https://h/b")),
            ("the last one", careful, "https://h/a", Some("/b"), 1, Ok("https://h/b")),
            ("one too many", careful, "https://h/a", Some("/b"), 2, Err("more than 2 redirects in a row")),
            ("no place", careful, "https://h/a", None, 0, Err("a redirect (302) without a Location")),
            (
                "no URL",
                careful,
                "https://h/a",
                Some("ftp://h"),
                0,
                Err("a redirect to something that is no http or https URL"),
            ),
            ("into TLS", careful, "http://127.0.0.1/a", Some("https://h/b"), 0, Ok("https://h/b")),
            (
                "out of TLS",
                careless,
                "https://h/a",
                Some("http://h/b?secret"),
                0,
                Err("a redirect from https to http://h/b?..., in plain text"),
            ),
            (
                "out of TLS, on this machine",
                careful,
                "https://h/a",
                Some("http://localhost/"),
                0,
                Err("a redirect from https to http://localhost/, in plain text"),
            ),
            (
                "to another machine",
                careful,
                "http://127.0.0.1/a",
                Some("http://h/b"),
                0,
                Err("a redirect to http://h/b, in plain text and not on this machine"),
            ),
            (
                "to another machine, allowed",
                careless,
                "http://127.0.0.1/a",
                Some("http://h/b"),
                0,
                Ok("http://h/b"),
            ),
        ];
        for (name, rule, from, location, followed, expect) in cases {
            let found = rule.next(&from.parse().unwrap(), 302, location, followed);
            let found = found.map_err(|error| error.to_string());
            assert_eq!(found, expect.map(|url| url.parse().ok()).map_err(str::to_owned), "{name}");
        }
    }

    #[test]
    fn within_the_host_they_are_followed_and_elsewhere_they_are_the_answer() {
        let rule = Redirects::SameHost { most: 2 };
        let stays = Ok(None);
        let cases = [
            ("a path", "http://h:81/a", Some("/b"), 0, Ok(Some("http://h:81/b"))),
            ("the last one", "http://h:81/a", Some("/b"), 1, Ok(Some("http://h:81/b"))),
            ("one too many", "http://h:81/a", Some("/b"), 2, Err("more than 2 redirects in a row")),
            ("another port", "http://h:81/a", Some("http://h:99/b?c"), 0, Ok(Some("http://h:99/b?c"))),
            ("into TLS", "http://h/a", Some("https://h/"), 0, Ok(Some("https://h/"))),
            ("out of TLS", "https://h/a", Some("http://h/"), 0, Ok(Some("http://h/"))),
            ("an address", "http://[::1]:81/a", Some("http://[::1]:82/"), 0, Ok(Some("http://[::1]:82/"))),
            ("no place", "http://h/a", None, 0, stays),
            ("an empty place", "http://h/a", Some(""), 0, stays),
            ("another host", "http://h/a", Some("https://other/"), 0, stays),
            ("another host, after many", "http://h/a", Some("//other/"), 9, stays),
            (
                "no URL",
                "http://h/a",
                Some("http://h:x/"),
                0,
                Err("a redirect to something that is no http or https URL"),
            ),
        ];
        for (name, from, location, followed, expect) in cases {
            let found = rule.next(&from.parse().unwrap(), 302, location, followed);
            let found = found.map_err(|error| error.to_string());
            let expect = expect.map(|url| url.map(|url| url.parse().unwrap())).map_err(str::to_owned);
            assert_eq!(found, expect, "{name}");
        }
    }
}
