//! What probes and readiness gates do to a status.

use k8s_openapi::api::core::v1::{PodReadinessGate, Probe};

use super::*;
use crate::probe::threshold::{Kind, ProbeOutcome};

/// A container `main` with a startup and a readiness probe.
fn probed() -> Pod {
    let mut pod = pod_with("p", "u", "Always", &["main"]);
    pod.spec.containers[0].startup_probe = Some(Probe::default());
    pod.spec.containers[0].readiness_probe = Some(Probe::default());
    pod
}

fn probed_state(
    pod: &Pod,
    startup: Option<ProbeOutcome>,
    readiness: Option<ProbeOutcome>,
    before: Option<&PodState>,
    now: i64,
) -> PodState {
    let id = || ContainerId::from("main-0");
    let verdicts = [((id(), Kind::Startup), startup), ((id(), Kind::Readiness), readiness)];
    let containers = vec![container("main", 0, running())];
    let observed = Observed { sandboxes: vec![sandbox(0, true, &["10.88.0.4"])], containers };
    let probes = verdicts.into_iter().collect();
    pod_state(pod, &observed, &Plan::default(), &probes, before, &[], at(now))
}

/// Status, reason and time of a condition.
fn condition(status: &PodStatus, kind: &str) -> (String, String, i64) {
    let condition = status.conditions.iter().flatten().find(|c| c.type_ == kind).unwrap();
    let since = condition.last_transition_time.as_ref().unwrap().0.as_second();
    (condition.status.clone(), condition.reason.clone().unwrap_or_default(), since)
}

#[test]
fn started_and_ready_are_what_the_probes_found() {
    use ProbeOutcome::{Failure, Success};
    for (startup, readiness, expect) in [
        (None, None, (false, false)),
        (Some(Failure), None, (false, false)),
        (Some(Success), None, (true, false)),
        (Some(Success), Some(Failure), (true, false)),
        (Some(Success), Some(Success), (true, true)),
        (None, Some(Success), (false, false)),
    ] {
        let state = probed_state(&probed(), startup, readiness, None, 200);
        assert_eq!(state.is_ready(), expect.1);
        let status = served(&probed(), &state);
        let main = &status.container_statuses.as_ref().unwrap()[0];
        assert_eq!((main.started, main.ready), (Some(expect.0), expect.1), "{startup:?} {readiness:?}");
        assert_eq!(is_ready(&status), expect.1);
        assert_eq!(status.phase.as_deref(), Some("Running"));
    }
}

#[test]
fn readiness_holds_since_it_was_noticed() {
    use ProbeOutcome::{Failure, Success};
    let pod = probed();
    let mut before = None;
    for (now, readiness, expect) in [
        (200, None, ("False", 200)),
        (210, None, ("False", 200)),
        (220, Some(Success), ("True", 220)),
        (230, Some(Success), ("True", 220)),
        (240, Some(Failure), ("False", 240)),
        (250, Some(Failure), ("False", 240)),
        (260, Some(Success), ("True", 260)),
    ] {
        let state = probed_state(&pod, Some(Success), readiness, before.as_ref(), now);
        let status = served(&pod, &state);
        for kind in ["Ready", "ContainersReady"] {
            let (holds, _, since) = condition(&status, kind);
            assert_eq!((holds.as_str(), since), expect, "{kind} at {now}");
        }
        before = Some(state);
    }
}

#[test]
fn a_readiness_gate_keeps_the_pod_from_being_ready() {
    use ProbeOutcome::{Failure, Success};
    let mut pod = probed();
    let gate = |kind: &str| PodReadinessGate { condition_type: kind.into() };
    pod.spec.readiness_gates = Some(vec![gate("Initialized"), gate("example.com/a"), gate("example.com/b")]);
    let status = served(&pod, &probed_state(&pod, Some(Success), Some(Success), None, 200));
    assert_eq!(condition(&status, "ContainersReady").0, "True");
    let (holds, reason, _) = condition(&status, "Ready");
    assert_eq!((holds.as_str(), reason.as_str()), ("False", "ReadinessGatesNotReady"));
    let ready = status.conditions.iter().flatten().find(|c| c.type_ == "Ready").unwrap();
    assert_eq!(
        ready.message.as_deref(),
        Some(
            "corresponding condition of pod readiness gate \"example.com/a\" does not exist., \
             corresponding condition of pod readiness gate \"example.com/b\" does not exist."
        )
    );
    let unready = served(&pod, &probed_state(&pod, Some(Success), Some(Failure), None, 200));
    assert_eq!(condition(&unready, "Ready").1, "ContainersNotReady");
}
