//! What is wanted: which wants are the same, and what each of them is about.

use super::*;
use crate::pod::state::FailedReason;

#[test]
fn work_for_one_want_serves_only_the_same_want() {
    let failed = |message: &str| Failed { reason: FailedReason::DeadlineExceeded, message: message.into() };
    let pod = |hash: &str| Arc::new(pod_with("p", hash, "Always", &["main"]));
    let run = |hash: &str| Want::Run(pod(hash));
    let end = |hash: &str, message: &str, grace| Want::End { pod: pod(hash), failed: failed(message), grace };
    let stop = |grace| Want::Stop { grace };
    let all = [
        run("a"),
        run("b"),
        end("a", "late", None),
        end("b", "late", None),
        end("a", "evicted", None),
        end("a", "late", Some(1)),
        end("b", "evicted", Some(1)),
        stop(None),
        stop(Some(1)),
    ];
    for (place, want) in all.iter().enumerate() {
        for (other_place, other) in all.iter().enumerate() {
            assert_eq!(want.same_as(other), place == other_place, "{want:?} and {other:?}");
        }
    }
}

#[test]
fn what_a_want_is_about() {
    let pod = Arc::new(pod_with("p", "u", "Always", &["main"]));
    let failed = crate::plan::deadline::exceeded();
    let end = Want::End { pod: pod.clone(), failed, grace: Some(3) };
    for (want, of_pod, is_stop, grace) in [
        (Want::Run(pod), true, false, None),
        (end, true, false, Some(3)),
        (Want::Stop { grace: Some(4) }, false, true, Some(4)),
    ] {
        let uid = want.pod().map(|pod| pod.uid.clone());
        assert_eq!((uid, want.is_stop()), (of_pod.then(|| "u".into()), is_stop), "{want:?}");
        assert_eq!(want.grace(), grace, "{want:?}");
    }
}
