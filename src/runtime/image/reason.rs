//! What is shown of an image that cannot be had: kubelet's reasons and words. Pure.

use crate::plan::Waiting;
use crate::pod::image::name::NameError;
use crate::runtime::cri::CriError;

/// Reasons that a runtime may begin its message with, and what kubelet makes of them.
const CRI_REASONS: [(&str, &str); 2] = [
    ("RegistryUnavailable", "the registry is unavailable"),
    ("SignatureValidationFailed", "the signature validation failed"),
];

/// What stands in an error when nobody was there to answer, or only somebody in front of him.
const UNREACHABLE: [&str; 15] = [
    "RegistryUnavailable",
    "connection refused",
    "connection reset",
    "no such host",
    "no route to host",
    "network is unreachable",
    "server misbehaving",
    "i/o timeout",
    "TLS handshake timeout",
    "deadline exceeded",
    "no answer within",
    "unexpected EOF",
    "502 Bad Gateway",
    "503 Service Unavailable",
    "504 Gateway Timeout",
];
/// What stands in an error when somebody answered no.
const REFUSAL: [&str; 5] =
    ["unauthorized", "forbidden", "denied", "authorization failed", "insufficient_scope"];

/// No try reached a registry. One that was refused did, whatever else it met.
pub(super) fn is_unreachable(errors: &[CriError]) -> bool {
    let says = |error: &CriError, words: &[&str]| {
        let text = error.message.to_lowercase();
        words.iter().any(|word| text.contains(&word.to_lowercase()))
    };
    !errors.is_empty() && errors.iter().all(|error| says(error, &UNREACHABLE) && !says(error, &REFUSAL))
}

/// Nothing can be made of the name.
pub(super) fn invalid_name(image: &str, error: &NameError) -> Waiting {
    let message =
        format!("Failed to apply default image tag {image:?}: couldn't parse image name {image:?}: {error}");
    Waiting { reason: "InvalidImageName".into(), message }
}

/// The image is not there, and the policy is to leave it at that.
pub(super) fn never_pull(image: &str) -> Waiting {
    let message = format!("Container image {image:?} is not present with pull policy of Never");
    Waiting { reason: "ErrImageNeverPull".into(), message }
}

/// The runtime cannot tell whether the image is there.
pub(super) fn inspect(image: &str, error: &CriError) -> Waiting {
    let message = format!("Failed to inspect image {image:?}: {}", error.as_go_writes_it());
    Waiting { reason: "ImageInspectError".into(), message }
}

/// Every try failed. What kept credentials away is told as well, for it may be the cause.
pub(super) fn failed_pull(image: &str, errors: &[CriError], complaints: &[String]) -> Waiting {
    let text = aggregate(errors.iter().map(CriError::as_go_writes_it));
    let known =
        CRI_REASONS.iter().find_map(|(reason, means)| Some((reason, means, text.strip_prefix(reason)?)));
    let (reason, mut message) = match known {
        Some((reason, means, rest)) => {
            ((*reason).to_owned(), format!("image pull failed for {image} because {means}{rest}"))
        }
        None => ("ErrImagePull".to_owned(), text),
    };
    if !complaints.is_empty() {
        message = format!("{message} ({})", complaints.join("; "));
    }
    Waiting { reason, message }
}

/// Several errors in one line, each of them once, as Kubernetes joins them.
fn aggregate(texts: impl Iterator<Item = String>) -> String {
    let mut all: Vec<String> = Vec::new();
    for text in texts {
        if !all.contains(&text) {
            all.push(text);
        }
    }
    match all.len() {
        0 | 1 => all.pop().unwrap_or_default(),
        _ => format!("[{}]", all.join(", ")),
    }
}
