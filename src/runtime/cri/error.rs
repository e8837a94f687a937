//! What a failed call to the runtime means to us. Pure.
//!
//! Invariant: every failure falls in one [`ErrorClass`], and decisions are made on the class; the runtime's text is for
//! people. Runtimes misuse gRPC's codes and keep to themselves what is wrong: what we know of that is here and nowhere else.

use std::error::Error as _;
use std::iter;

use thiserror::Error;
use tonic::{Code, Status, TimeoutExpired};

/// A call to the runtime that failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{op}: {message}")]
pub struct CriError {
    /// The call, by its CRI name: `StopContainer`.
    pub op: &'static str,
    /// What the failure means.
    pub class: ErrorClass,
    /// The code as it came.
    pub code: Code,
    /// The runtime's words, or the cause in the transport.
    pub message: String,
}

/// What a failure means to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// What the call names does not exist.
    NotFound,
    /// No answer in time: the call may or may not have had its effect.
    Timeout,
    /// The runtime cannot be reached, or is not ready yet: the call may be made again later.
    Unavailable,
    /// The runtime answered and declined.
    Refused,
    /// The runtime does not know this call.
    Unimplemented,
}

impl CriError {
    /// The failure of `op` that `status` describes.
    pub fn from_status(op: &'static str, status: &Status) -> Self {
        Self { op, class: ErrorClass::of(status), code: status.code(), message: message(status) }
    }

    /// There is no runtime to speak of: it cannot be reached, or its CRI service is switched off.
    pub fn is_away(&self) -> bool {
        matches!(self.class, ErrorClass::Unavailable | ErrorClass::Unimplemented)
    }

    /// CRI takes a container for dead that containerd has a task of: containerd 1.6 loses one when its caller vanishes
    /// while the task is made.
    pub fn is_lost_task(&self) -> bool {
        self.code == Code::FailedPrecondition && self.message.contains("cannot delete running task")
    }

    /// An answer that lacks what `op` promises.
    pub(super) fn incomplete(op: &'static str, missing: &'static str) -> Self {
        Self {
            op,
            class: ErrorClass::Refused,
            code: Code::Internal,
            message: format!("the runtime's answer has no {missing}"),
        }
    }

    /// The failure as Go's gRPC writes it, and so kubelet; a code that tells nothing is left out.
    pub fn as_go_writes_it(&self) -> String {
        match self.code {
            Code::Unknown => self.message.clone(),
            Code::Cancelled => format!("rpc error: code = Canceled desc = {}", self.message),
            code => format!("rpc error: code = {code:?} desc = {}", self.message),
        }
    }
}

impl ErrorClass {
    /// The class of a status.
    pub fn of(status: &Status) -> Self {
        if status.source().is_some() {
            // Only our own side of the connection knows a source; the runtime sends code and text.
            return if causes(status).any(|cause| cause.is::<TimeoutExpired>()) {
                Self::Timeout
            } else {
                Self::Unavailable
            };
        }
        let text = status.message();
        match status.code() {
            Code::NotFound => Self::NotFound,
            Code::DeadlineExceeded | Code::Cancelled => Self::Timeout,
            // containerd, of a registry that is not there for it.
            Code::Unavailable if text.starts_with("failed to pull") => Self::Refused,
            Code::Unavailable => Self::Unavailable,
            Code::Unimplemented => Self::Unimplemented,
            // containerd before its CRI plugin is up.
            Code::Unknown if text.contains("server is not initialized yet") => Self::Unavailable,
            // containerd, where a lookup's error lost its code on the way.
            Code::Unknown if text.contains("try to find") && text.ends_with("not found") => Self::NotFound,
            Code::Unknown if text.ends_with("context deadline exceeded") => Self::Timeout,
            _ => Self::Refused,
        }
    }
}

fn causes(status: &Status) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    iter::successors(status.source(), |cause| (*cause).source())
}

/// The transport says "transport error" and keeps the reason ("no such file") at the end of its chain.
fn message(status: &Status) -> String {
    let text = status.message();
    let root = causes(status).last().map(ToString::to_string);
    match root {
        Some(root) if text.is_empty() => root,
        Some(root) if !text.contains(&root) => format!("{text}: {root}"),
        _ if text.is_empty() => status.code().description().to_owned(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn classes() {
        use ErrorClass::*;
        let gone = "an error occurred when try to find container \"x\": not found";
        let table = [
            (Code::NotFound, "whatever", NotFound),
            (Code::Unknown, gone, NotFound),
            (Code::Unknown, "failed to find runtime binary in $PATH: executable not found", Refused),
            (Code::Unknown, "failed to start shim: not found: unknown", Refused),
            (Code::DeadlineExceeded, "context deadline exceeded", Timeout),
            (Code::Unknown, "failed to stop: context deadline exceeded", Timeout),
            (Code::Cancelled, "Timeout expired", Timeout),
            (Code::Cancelled, "context canceled", Timeout),
            (Code::Unavailable, "closing", Unavailable),
            (Code::Unavailable, "failed to pull and unpack image \"x\": 503 Service Unavailable", Refused),
            (Code::Unknown, "server is not initialized yet", Unavailable),
            (Code::Unimplemented, "unknown service runtime.v1.RuntimeService", Unimplemented),
            (Code::Unknown, "failed to create containerd task: OCI runtime create failed", Refused),
            (Code::InvalidArgument, "bad", Refused),
            (Code::AlreadyExists, "name is reserved", Refused),
            (Code::FailedPrecondition, "not running", Refused),
            (Code::PermissionDenied, "no", Refused),
            (Code::ResourceExhausted, "no space left on device", Refused),
            (Code::Internal, "bug", Refused),
        ];
        for (code, text, class) in table {
            assert_eq!(ErrorClass::of(&Status::new(code, text)), class, "{code:?} {text:?}");
        }
    }

    #[test]
    fn errors_of_our_own_transport_are_unavailable_and_name_the_cause() {
        let status = Status::from_error(Box::new(io::Error::from_raw_os_error(2)));
        let error = CriError::from_status("Version", &status);
        assert_eq!(error.class, ErrorClass::Unavailable);
        assert_eq!(error.to_string(), "Version: No such file or directory (os error 2)");
    }

    #[test]
    fn a_lost_task() {
        let lost =
            "failed to delete containerd container \"x\": cannot delete running task x: failed precondition";
        for (code, text, is_lost) in [
            (Code::FailedPrecondition, lost, true),
            (Code::FailedPrecondition, "container is in starting state, can't be removed", false),
            (Code::Unknown, lost, false),
        ] {
            let error = CriError::from_status("RemoveContainer", &Status::new(code, text));
            assert_eq!(error.is_lost_task(), is_lost, "{code:?} {text}");
        }
    }

    #[test]
    fn words_of_go() {
        for (code, text) in [
            (Code::NotFound, "rpc error: code = NotFound desc = no"),
            (Code::Cancelled, "rpc error: code = Canceled desc = no"),
            (Code::Unknown, "no"),
        ] {
            assert_eq!(CriError::from_status("PullImage", &Status::new(code, "no")).as_go_writes_it(), text);
        }
    }

    #[test]
    fn an_empty_message_is_replaced_by_the_code() {
        let error = CriError::from_status("Status", &Status::new(Code::Internal, ""));
        assert_eq!(error.to_string(), "Status: Internal error");
    }
}
