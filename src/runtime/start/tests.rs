//! What a failure to start comes to.

use tonic::{Code, Status};

use super::*;
use crate::host::FileError;

#[test]
fn only_a_runtime_that_is_away_is_no_fault_of_the_pod() {
    let rows = [
        (Code::Unavailable, None),
        (Code::DeadlineExceeded, Some("CreateContainerError")),
        (Code::NotFound, Some("CreateContainerError")),
        // Its CRI service is switched off.
        (Code::Unimplemented, None),
        (Code::Unknown, Some("CreateContainerError")),
    ];
    for (code, expect) in rows {
        let error = CriError::from_status("CreateContainer", &Status::new(code, "said so"));
        match (StartError::cri("CreateContainerError", error), expect) {
            (StartError::Away(_), None) => {}
            (StartError::Refused { backoff, waiting }, Some(reason)) => {
                assert_eq!((backoff, waiting.reason.as_str()), (Backoff::STEP, reason), "{code:?}");
                assert_eq!(waiting.message, "said so", "{code:?}");
            }
            (other, _) => panic!("{code:?}: {other:?}"),
        }
    }
}

#[test]
fn an_error_is_told_with_its_causes() {
    let source = std::io::Error::from_raw_os_error(13);
    let error = StepError::from(FileError::File { operation: "cannot read", path: "/a".into(), source });
    assert_eq!(chain(&error), "cannot read /a: Permission denied (os error 13)");
    let StartError::Refused { waiting, .. } = StartError::step("CreateContainerConfigError", &error) else {
        panic!("{error:?}")
    };
    assert_eq!(waiting.message, chain(&error));
}
