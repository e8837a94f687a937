//! Init containers and sidecars.

use super::*;
use crate::plan::checkpoint::Life;
use crate::pod::observed::Observed;

/// `setup` runs to its end, `proxy` is a sidecar, `last` runs to its end, then `main`.
fn pod(policy: &str) -> Arc<Pod> {
    let mut pod = pod_with("p", "u", policy, &["main"]);
    let init = pod_with("p", "u", policy, &["setup", "proxy", "last"]);
    pod.container_hashes = pod.container_hashes.into_iter().chain(init.container_hashes).collect();
    let mut init = init.spec.containers;
    init[1].restart_policy = Some("Always".into());
    pod.spec.init_containers = Some(init);
    Arc::new(pod)
}

fn sidecar(attempt: u32, state: ContainerState) -> Container {
    Container { sidecar: Some(1), ..container("u", 0, "proxy", attempt, state) }
}

struct Case {
    name: &'static str,
    policy: &'static str,
    containers: Vec<Container>,
    expect: &'static [&'static str],
    init: Init,
}

#[test]
fn one_after_the_other() {
    let setup = |code| container("u", 0, "setup", 0, exited(code, 90));
    let last = |state| container("u", 0, "last", 0, state);
    let main = |state| container("u", 0, "main", 0, state);
    let cases = [
        Case {
            name: "the first",
            policy: "Always",
            containers: vec![],
            expect: &["start i0 #0 in u-s0 after 0"],
            init: Init::Pending,
        },
        Case {
            name: "while it runs, nothing else does",
            policy: "Always",
            containers: vec![container("u", 0, "setup", 0, running())],
            expect: &[],
            init: Init::Pending,
        },
        Case {
            name: "it failed: again, at once for the first time",
            policy: "Always",
            containers: vec![setup(1)],
            expect: &["start i0 #1 in u-s0 after 1"],
            init: Init::Pending,
        },
        Case {
            name: "it failed, and never again",
            policy: "Never",
            containers: vec![setup(1)],
            expect: &["stop-sandbox u-s0"],
            init: Init::Failed,
        },
        Case {
            name: "the sidecar is next",
            policy: "Never",
            containers: vec![setup(0)],
            expect: &["start i1 #0 in u-s0 after 0"],
            init: Init::Pending,
        },
        Case {
            name: "a sidecar that runs lets the next one start",
            policy: "Always",
            containers: vec![setup(0), sidecar(0, running())],
            expect: &["start i2 #0 in u-s0 after 0"],
            init: Init::Pending,
        },
        Case {
            name: "a sidecar that died comes back first",
            policy: "Always",
            containers: vec![setup(0), sidecar(0, exited(1, 95)), last(exited(0, 95))],
            expect: &["start i1 #1 in u-s0 after 1"],
            init: Init::Pending,
        },
        Case {
            name: "then the container",
            policy: "Always",
            containers: vec![setup(0), sidecar(0, running()), last(exited(0, 95))],
            expect: &["start 0 #0 in u-s0 after 0"],
            init: Init::Passed,
        },
        Case {
            name: "at rest",
            policy: "Always",
            containers: vec![setup(0), sidecar(0, running()), last(exited(0, 95)), main(running())],
            expect: &[],
            init: Init::Passed,
        },
        Case {
            name: "an initialised sandbox stays so though the traces are gone",
            policy: "Always",
            containers: vec![sidecar(0, running()), main(exited(0, 99))],
            expect: &["start 0 #1 in u-s0 after 1"],
            init: Init::Passed,
        },
        Case {
            name: "a sidecar is restarted beside its pod",
            policy: "Never",
            containers: vec![setup(0), sidecar(0, exited(0, 95)), last(exited(0, 95)), main(running())],
            expect: &["start i1 #1 in u-s0 after 1"],
            init: Init::Passed,
        },
        Case {
            name: "a finished pod does not live on for its sidecars",
            policy: "OnFailure",
            containers: vec![setup(0), sidecar(0, running()), last(exited(0, 95)), main(exited(0, 99))],
            expect: &["stop u-proxy-0@7"],
            init: Init::Passed,
        },
    ];
    for case in cases {
        let observed = Observed { sandboxes: vec![sandbox("u", 0, true)], containers: case.containers };
        let plan = planned(&Want::Run(pod(case.policy)), &observed, &History::default(), at(100));
        assert_eq!(words(&plan), case.expect, "{}", case.name);
        assert_eq!(plan.init, case.init, "{}", case.name);
    }
}

#[test]
fn a_new_sandbox_is_initialised_anew() {
    let setup = container("u", 0, "setup", 0, exited(0, 90));
    let main = container("u", 0, "main", 0, exited(137, 99));
    let dead = Observed { sandboxes: vec![sandbox("u", 0, false)], containers: vec![setup, main] };
    let next = |observed: &Observed, policy| {
        words(&planned(&Want::Run(pod(policy)), observed, &History::default(), at(100)))
    };
    assert_eq!(next(&dead, "Always"), ["stop-sandbox u-s0", "create-sandbox 1"]);
    assert_eq!(next(&dead, "Never"), Vec::<String>::new(), "it is over");
    let mut anew = dead.clone();
    anew.sandboxes.push(sandbox("u", 1, true));
    assert_eq!(next(&anew, "Always"), ["start i0 #1 in u-s1 after 0"]);
}

#[test]
fn a_pod_whose_init_container_failed_stays_failed_when_its_sidecar_has_ended() {
    let mut pod = pod_with("p", "u", "Never", &["main", "proxy", "setup"]);
    let init = pod.spec.containers.split_off(1);
    pod.spec.init_containers = Some(init);
    pod.spec
        .init_containers
        .iter_mut()
        .flatten()
        .take(1)
        .for_each(|c| c.restart_policy = Some("Always".into()));
    let setup = container("u", 0, "setup", 0, exited(1, 50));
    for (proxy, completed) in [(running(), false), (exited(143, 60), true)] {
        let proxy = Container { sidecar: Some(0), ..container("u", 0, "proxy", 0, proxy) };
        let observed =
            Observed { sandboxes: vec![sandbox("u", 0, true)], containers: vec![proxy, setup.clone()] };
        let mut inputs = Inputs::default();
        if completed {
            inputs.checkpoint.note(&pod, Life::Completed, Arc::default());
        }
        let plan = plan_pod(&inputs.situation(&Want::Run(Arc::new(pod.clone())), &observed));
        assert_eq!(
            (plan.init, plan.lifecycle),
            (Init::Failed, PodLifecycle::Completed),
            "noted: {completed}"
        );
    }
}
