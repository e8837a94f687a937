//! Pods whose containers may not be started.

use super::*;
use crate::probe::threshold::{Kind, ProbeOutcome};

#[test]
fn what_may_not_be_started_runs_on_and_is_not_started() {
    let pod = pod_with("p", "u", "Always", &["main", "side"]);
    let up = || vec![sandbox("u", 0, true)];
    let runs = |name| container("u", 0, name, 0, running());
    let ended = |name| container("u", 0, name, 0, exited(1, 99));
    let edited = Container { hash: "of-another-version".into(), ..runs("main") };
    let made = container("u", 0, "main", 0, ContainerState::Created);
    let old = container("old", 0, "main", 0, running());
    // What is observed; the steps if they may be started, and if not; and who says why it does not run.
    type Case<'a> = (&'a str, Vec<Sandbox>, Vec<Container>, &'a [&'a str], &'a [&'a str], &'a [&'a str]);
    let cases: [Case<'_>; 7] = [
        ("nothing", vec![], vec![], &["create-sandbox 0"], &[], &["main", "side"]),
        ("all run", up(), vec![runs("main"), runs("side")], &[], &[], &[]),
        (
            "one has ended",
            up(),
            vec![ended("main"), runs("side")],
            &["start 0 #1 in u-s0 after 1"],
            &[],
            &["main"],
        ),
        (
            "one was made",
            up(),
            vec![made, runs("side")],
            &["rm u-main-0", "start 0 #0 in u-s0 after 0"],
            &[],
            &["main"],
        ),
        ("an edited one", up(), vec![edited, runs("side")], &["stop u-main-0@7"], &[], &[]),
        (
            "the sandbox has died",
            vec![sandbox("u", 0, false)],
            vec![ended("main"), ended("side")],
            &["stop-sandbox u-s0", "create-sandbox 1"],
            &[],
            &["main", "side"],
        ),
        (
            "the version before runs",
            vec![sandbox("old", 0, true)],
            vec![old],
            &["stop old-main-0@7"],
            &[],
            &["main", "side"],
        ),
    ];
    let want = Want::Run(Arc::new(pod));
    let calm = Inputs::default();
    let refused = Inputs { starts: Starts::Refused("it was signed by K1".into()), ..Inputs::default() };
    for (name, sandboxes, containers, if_allowed, if_refused, waiting) in cases {
        let observed = Observed { sandboxes, containers };
        assert_eq!(words(&plan_pod(&calm.situation(&want, &observed))), if_allowed, "{name}, allowed");
        let plan = plan_pod(&refused.situation(&want, &observed));
        assert_eq!(words(&plan), if_refused, "{name}");
        assert_eq!(plan.waiting.keys().map(String::as_str).collect::<Vec<_>>(), waiting, "{name}");
        for said in plan.waiting.values() {
            assert_eq!(said.reason, "SignatureNotTrusted", "{name}");
            assert_eq!(said.message, "not started: it was signed by K1", "{name}");
        }
        assert_eq!((plan.wake_in, plan.lifecycle), (None, PodLifecycle::Active), "{name}");
    }
}

#[test]
fn an_unhealthy_container_is_ended_though_it_is_not_started_again() {
    let want = Want::Run(Arc::new(pod_with("p", "u", "Always", &["main"])));
    let failed = ((ContainerId::from("u-main-0"), Kind::Liveness), Some(ProbeOutcome::Failure));
    let calm = Inputs {
        starts: Starts::Refused("another key".into()),
        probes: [failed].into_iter().collect(),
        ..Inputs::default()
    };
    let observed = Observed {
        sandboxes: vec![sandbox("u", 0, true)],
        containers: vec![container("u", 0, "main", 0, running())],
    };
    assert_eq!(words(&plan_pod(&calm.situation(&want, &observed))), ["stop u-main-0@7"]);
}
