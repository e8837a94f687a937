//! Init containers and sidecars in the status.

use super::*;
use crate::plan::Init;

/// `setup` runs to its end, `proxy` is a sidecar, then `main`.
fn initialising() -> Pod {
    let mut pod = pod_with("p", "u", "Always", &["main"]);
    let mut init = pod_with("p", "u", "Always", &["setup", "proxy"]).spec.containers;
    init[1].restart_policy = Some("Always".into());
    pod.spec.init_containers = Some(init);
    pod
}

#[test]
fn init_containers_hold_the_pod_back_and_say_so() {
    let ready = "ready";
    let not = "not";
    let cases = [
        (
            "setup runs",
            Init::Pending,
            vec![container("setup", 0, running())],
            "Pending",
            "[setup proxy]",
            [not, not, not],
        ),
        (
            "setup failed for good",
            Init::Failed,
            vec![container("setup", 0, exited(1))],
            "Failed",
            "[setup proxy]",
            [not, not, not],
        ),
        (
            "the sidecar is to start",
            Init::Pending,
            vec![container("setup", 0, exited(0))],
            "Pending",
            "[proxy]",
            [ready, not, not],
        ),
        (
            "all of it runs",
            Init::Passed,
            vec![
                container("setup", 0, exited(0)),
                container("proxy", 0, running()),
                container("main", 0, running()),
            ],
            "Running",
            "",
            [ready, ready, ready],
        ),
        (
            "the sidecar died later: the pod is not ready, and runs",
            Init::Passed,
            vec![
                container("setup", 0, exited(0)),
                container("proxy", 0, exited(1)),
                container("main", 0, running()),
            ],
            "Running",
            "",
            [ready, not, ready],
        ),
    ];
    for (name, init, containers, phase, incomplete, readiness) in cases {
        let observed = Observed { sandboxes: vec![sandbox(0, true, &["10.0.0.1"])], containers };
        let plan = Plan { init, ..Plan::default() };
        let status = pod_status(&initialising(), &observed, &plan, &Verdicts::default(), None, &[], at(100));
        assert_eq!(status.phase.as_deref(), Some(phase), "{name}");
        let conditions = status.conditions.as_deref().unwrap_or_default();
        let initialized = conditions.iter().find(|c| c.type_ == "Initialized").unwrap();
        if incomplete.is_empty() {
            assert_eq!(initialized.status, "True", "{name}");
        } else {
            assert_eq!(initialized.reason.as_deref(), Some("ContainersNotInitialized"), "{name}");
            let message = format!("containers with incomplete status: {incomplete}");
            assert_eq!(initialized.message.as_ref(), Some(&message), "{name}");
        }
        let init = status.init_container_statuses.unwrap_or_default();
        let all = init.iter().chain(status.container_statuses.iter().flatten());
        let found: Vec<_> = all.map(|c| if c.ready { ready } else { not }).collect();
        assert_eq!(found, readiness, "{name}");
        let is_ready = conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True");
        assert_eq!(is_ready, readiness == [ready, ready, ready], "{name}");
    }
}

#[test]
fn what_has_not_begun_is_being_initialised() {
    let plan = Plan { init: Init::Pending, ..Plan::default() };
    let observed = Observed { sandboxes: vec![sandbox(0, true, &[])], containers: vec![] };
    let status = pod_status(&initialising(), &observed, &plan, &Verdicts::default(), None, &[], at(100));
    let all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    for container in all {
        let waiting = container.state.as_ref().and_then(|s| s.waiting.as_ref()).unwrap();
        assert_eq!(waiting.reason.as_deref(), Some("PodInitializing"), "{}", container.name);
    }
}

/// While a pod ends its plan says nothing of init containers: the phase comes from their states alone.
#[test]
fn phases_with_init_containers() {
    let [setup, proxy, main] = ["setup", "proxy", "main"].map(|name| move |state| container(name, 0, state));
    let begun = || vec![setup(exited(0)), proxy(running())];
    let rows = [
        ("setup runs", vec![setup(running())], ["Pending"; 3]),
        ("setup failed", vec![setup(exited(1))], ["Pending", "Pending", "Failed"]),
        ("main is to start", begun(), ["Pending"; 3]),
        ("main runs", [begun(), vec![main(running())]].concat(), ["Running"; 3]),
        ("main is done, the sidecar is not", [begun(), vec![main(exited(0))]].concat(), ["Running"; 3]),
        (
            "both have ended",
            vec![setup(exited(0)), proxy(exited(137)), main(exited(0))],
            ["Running", "Succeeded", "Succeeded"],
        ),
        (
            "main failed",
            vec![setup(exited(0)), proxy(exited(0)), main(exited(1))],
            ["Running", "Running", "Failed"],
        ),
        ("a sidecar that never ran", vec![setup(exited(0)), main(running())], ["Pending"; 3]),
        ("a sidecar that ended", vec![setup(exited(0)), proxy(exited(1)), main(running())], ["Running"; 3]),
    ];
    for (case, containers, expect) in rows {
        for (policy, phase) in ["Always", "OnFailure", "Never"].into_iter().zip(expect) {
            let mut pod = initialising();
            pod.spec.restart_policy = Some(policy.into());
            let status = status(&pod, containers.clone(), &[]);
            assert_eq!(status.phase.as_deref(), Some(phase), "{case}, {policy}");
        }
    }
}
