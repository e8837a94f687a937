//! A hook's request, made: what counts as an answer, and what is done about a server without TLS.

use hyper::header::AUTHORIZATION;

use super::super::http_get::REDIRECTS;
use crate::http::{Client, GetRequest, GetResponse, HttpError};
use crate::text::url::Scheme;

/// As kubelet 1.36 calls itself.
pub(super) const USER_AGENT: &str = "kube-lifecycle/1.36";

/// How the answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answered {
    /// As it was asked for.
    AsAsked,
    /// In plain text: the server speaks no TLS.
    InPlainText,
}

/// Makes the request, once more in plain text if the server knows nothing else, and waits for the answer, whatever
/// it is.
pub(super) async fn ask(client: &Client, request: &GetRequest) -> Result<Answered, HttpError> {
    let first = match settle(client.get(request, &REDIRECTS).await) {
        Err(error) if request.url.scheme == Scheme::Https && error.is_plain_text() => error,
        settled => return settled.map(|()| Answered::AsAsked),
    };
    match settle(client.get(&in_plain_text(request), &REDIRECTS).await) {
        Ok(()) => Ok(Answered::InPlainText),
        Err(_) => Err(first),
    }
}

/// Any answer will do, whatever its status, and whatever becomes of its body.
fn settle(answered: Result<GetResponse, HttpError>) -> Result<(), HttpError> {
    match answered {
        Ok(_) | Err(HttpError::BrokenOff { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// What was meant for TLS alone stays behind.
fn in_plain_text(request: &GetRequest) -> GetRequest {
    let mut plain = request.clone();
    plain.url.scheme = Scheme::Http;
    plain.headers.remove(AUTHORIZATION);
    plain
}

#[cfg(test)]
mod tests;
