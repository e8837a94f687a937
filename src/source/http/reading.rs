//! Whether an answer of the server holds contents. Pure.
//!
//! Invariant: only a whole answer that says OK is contents; whatever else comes changes nothing.

use std::time::Duration;

use hyper::header::{
    CONTENT_ENCODING, DATE, ETAG, HeaderMap, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED,
};
use jiff::fmt::rfc2822::DateTimeParser;

use crate::http::encoding::{EncodingError, unpack};
use crate::http::{BodyEnd, GetResponse, Url};

/// How long a server is believed that nothing changed since a date. Who puts older contents back, with their older date,
/// is answered "not modified" for ever.
const MAX_AGE_BY_DATE: Duration = Duration::from_secs(5 * 60);

/// What a server can compare instead of sending the same contents again. They belong to the URL that sent the contents,
/// which may be another than the one that was asked for first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Validators {
    url: Option<Url>,
    etag: Option<HeaderValue>,
    last_modified: Option<HeaderValue>,
}

impl Validators {
    fn of(response: &GetResponse) -> Self {
        let headers = &response.headers;
        let etag = headers.get(ETAG).cloned();
        let tells = etag.is_some() || is_over(headers);
        let last_modified = headers.get(LAST_MODIFIED).filter(|_| tells).cloned();
        Self { url: Some(response.url.clone()), etag, last_modified }
    }

    /// These, if they can be relied on; none otherwise, and the contents are asked for as a whole: when another key than
    /// the one that signed them must sign them anew, and when a date alone was relied on for so long (`age`).
    pub(super) fn usable(&self, signer: Option<&str>, key: Option<&str>, age: Duration) -> Self {
        let is_fresh = self.etag.is_some() || age < MAX_AGE_BY_DATE;
        if signer == key && is_fresh { self.clone() } else { Self::default() }
    }

    /// The headers that ask for what changed, and whom they are for.
    pub(super) fn headers(&self) -> Option<(Url, HeaderMap)> {
        let pairs = [(IF_NONE_MATCH, &self.etag), (IF_MODIFIED_SINCE, &self.last_modified)];
        let headers: HeaderMap =
            pairs.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect();
        let url = self.url.clone().filter(|_| !headers.is_empty())?;
        Some((url, headers))
    }

    /// They were sent to this URL.
    fn were_sent_to(&self, url: &Url) -> bool {
        self.headers().is_some_and(|(own, _)| own == *url)
    }
}

/// What was found at the URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Contents {
    /// The same as last time.
    Same,
    /// This.
    Body {
        /// Unpacked.
        bytes: Vec<u8>,
        /// What to ask by next time.
        validators: Validators,
    },
}

/// An answer that holds no contents.
#[derive(Debug, thiserror::Error)]
pub(super) enum AnswerError {
    /// The server says something else than OK.
    #[error("the server answers with status {status}")]
    Status {
        /// What it says.
        status: u16,
    },
    /// Nothing at all.
    #[error("the body is empty; no pods are written as an empty list")]
    Empty,
    /// It cannot be told whether this is all.
    #[error("the server does not say where the body ends, so that it may be cut short")]
    Unframed,
    /// It cannot be unpacked.
    #[error("the body cannot be unpacked")]
    Encoding(#[from] EncodingError),
}

/// The contents of an answer to a request with the validators `asked`.
pub(super) fn read(response: GetResponse, asked: &Validators, limit: usize) -> Result<Contents, AnswerError> {
    match response.status {
        304 if asked.were_sent_to(&response.url) => return Ok(Contents::Same),
        200 => {}
        status => return Err(AnswerError::Status { status }),
    }
    // Packed or not: what was cut between two members of gzip looks whole.
    if response.end != BodyEnd::Told {
        return Err(AnswerError::Unframed);
    }
    let validators = Validators::of(&response);
    let encoding = response.headers.get(CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("?"));
    let bytes = unpack(encoding, response.body, limit)?;
    if bytes.is_empty() {
        return Err(AnswerError::Empty);
    }
    Ok(Contents::Body { bytes, validators })
}

/// The second of the last change was over when the server answered: what changes later has another (RFC 9110, 8.8.2.2).
fn is_over(headers: &HeaderMap) -> bool {
    let second = |name| {
        let text = headers.get(name)?.to_str().ok()?;
        Some(DateTimeParser::new().parse_timestamp(text).ok()?.as_second())
    };
    second(LAST_MODIFIED).zip(second(DATE)).is_some_and(|(modified, answered)| modified < answered)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(
        status: u16,
        headers: &[(&'static str, &'static str)],
        body: &str,
        end: BodyEnd,
    ) -> GetResponse {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (hyper::header::HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let url = URL.parse().unwrap();
        GetResponse { status, headers: headers.iter().map(pair).collect(), body: body.into(), end, url }
    }

    const URL: &str = "http://h/pods";

    fn tagged(url: &str) -> Validators {
        let etag = Some(HeaderValue::from_static("\"1\""));
        Validators { url: Some(url.parse().unwrap()), etag, last_modified: None }
    }

    #[test]
    fn only_a_whole_answer_is_contents() {
        let told = BodyEnd::Told;
        let (held, elsewhere) = (tagged(URL), tagged("http://h/other"));
        let none = Validators::default();
        let cases = [
            ("contents", answer(200, &[], "a", told), &none, Ok("a")),
            ("the same", answer(304, &[], "", told), &held, Ok("same")),
            (
                "the same as something else",
                answer(304, &[], "", told),
                &elsewhere,
                Err("the server answers with status 304"),
            ),
            (
                "the same as nothing",
                answer(304, &[], "", told),
                &none,
                Err("the server answers with status 304"),
            ),
            (
                "nothing",
                answer(200, &[], "", told),
                &none,
                Err("the body is empty; no pods are written as an empty list"),
            ),
            ("no contents", answer(204, &[], "", told), &none, Err("the server answers with status 204")),
            (
                "changed on the way",
                answer(203, &[], "a", told),
                &none,
                Err("the server answers with status 203"),
            ),
            ("a part", answer(206, &[], "a", told), &none, Err("the server answers with status 206")),
            ("not found", answer(404, &[], "a", told), &held, Err("the server answers with status 404")),
            ("a fault", answer(502, &[], "a", told), &held, Err("the server answers with status 502")),
            (
                "no end",
                answer(200, &[], "a", BodyEnd::Guessed),
                &none,
                Err("the server does not say where the body ends, so that it may be cut short"),
            ),
            (
                "no end, and nothing packed",
                answer(200, &[("content-encoding", "identity")], "a", BodyEnd::Guessed),
                &none,
                Err("the server does not say where the body ends, so that it may be cut short"),
            ),
            (
                "no end, and packed: there may have been another member",
                answer(200, &[("content-encoding", "gzip")], "a", BodyEnd::Guessed),
                &none,
                Err("the server does not say where the body ends, so that it may be cut short"),
            ),
            ("nothing packed", answer(200, &[("content-encoding", "identity")], "a", told), &none, Ok("a")),
            (
                "no gzip",
                answer(200, &[("content-encoding", "gzip")], "a", told),
                &none,
                Err("the body cannot be unpacked"),
            ),
        ];
        for (name, response, asked, expect) in cases {
            let found = match read(response, asked, 10) {
                Ok(Contents::Same) => Ok("same".to_owned()),
                Ok(Contents::Body { bytes, .. }) => Ok(String::from_utf8(bytes).unwrap()),
                Err(error) => Err(error.to_string()),
            };
            assert_eq!(found, expect.map(str::to_owned).map_err(str::to_owned), "{name}");
        }
    }

    #[test]
    fn what_the_server_said_is_asked_by() {
        let response = answer(200, &[("etag", "\"x\""), ("last-modified", "yesterday")], "a", BodyEnd::Told);
        let Ok(Contents::Body { validators, .. }) = read(response, &Validators::default(), 10) else {
            panic!()
        };
        let (url, headers) = validators.headers().unwrap();
        assert_eq!(url.to_string(), URL);
        assert_eq!(
            (&headers["if-none-match"], &headers["if-modified-since"]),
            (&HeaderValue::from_static("\"x\""), &HeaderValue::from_static("yesterday"))
        );
        assert_eq!(Validators::default().headers(), None);
    }

    #[test]
    fn validators_are_relied_on_for_their_key_and_a_date_for_a_while() {
        let dated =
            Validators { etag: None, last_modified: Some(HeaderValue::from_static("x")), ..tagged(URL) };
        let (soon, late) = (MAX_AGE_BY_DATE - Duration::from_secs(1), MAX_AGE_BY_DATE);
        let cases = [
            ("no key", tagged(URL), None, None, soon, true),
            ("the same key", tagged(URL), Some("a"), Some("a"), soon, true),
            ("another key", tagged(URL), Some("a"), Some("b"), soon, false),
            ("a key for what was not signed", tagged(URL), None, Some("a"), soon, false),
            ("a tag, for ever", tagged(URL), None, None, late, true),
            ("a date", dated.clone(), None, None, soon, true),
            ("a date, for too long", dated, None, None, late, false),
        ];
        for (name, validators, signer, key, age, expect) in cases {
            assert_eq!(validators.usable(signer, key, age).headers().is_some(), expect, "{name}");
        }
    }

    #[test]
    fn a_second_that_is_not_over_tells_nothing() {
        const MODIFIED: (&str, &str) = ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT");
        let at = |date| vec![MODIFIED, ("date", date)];
        let cases = [
            ("in the same second", at("Sun, 06 Nov 1994 08:49:37 GMT"), false),
            ("in the next", at("Sun, 06 Nov 1994 08:49:38 GMT"), true),
            ("long ago", at("Mon, 07 Nov 1994 08:49:37 GMT"), true),
            ("in times to come", at("Sun, 06 Nov 1994 08:49:36 GMT"), false),
            ("who knows when", vec![MODIFIED], false),
            ("no date", at("today"), false),
            ("no time", vec![("last-modified", "0"), ("date", "Sun, 06 Nov 1994 08:49:38 GMT")], false),
            ("with a tag", vec![MODIFIED, ("etag", "\"x\"")], true),
        ];
        for (name, headers, expect) in cases {
            let response = answer(200, &headers, "a", BodyEnd::Told);
            let Ok(Contents::Body { validators, .. }) = read(response, &Validators::default(), 10) else {
                panic!("{name}")
            };
            let asked =
                validators.headers().is_some_and(|(_, headers)| headers.contains_key(IF_MODIFIED_SINCE));
            assert_eq!(asked, expect, "{name}");
        }
    }
}
