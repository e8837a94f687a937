//! Restart policies, crash loops, rounds, completion, and ends that were begun.

use k8s_openapi::api::core::v1::{ContainerRestartRule, ContainerRestartRuleOnExitCodes};

use super::*;
use crate::plan::checkpoint::Life;

fn rule(action: &str, code: i32) -> ContainerRestartRule {
    let exit_codes = ContainerRestartRuleOnExitCodes { operator: "In".into(), values: Some(vec![code]) };
    ContainerRestartRule { action: action.into(), exit_codes: Some(exit_codes) }
}

/// `setup` runs to its end, then `main` and `side` run; a container's own policy and rules are `own`.
fn pod(policy: &str, own: &[(&str, &str, Option<ContainerRestartRule>)]) -> Arc<Pod> {
    let mut pod = pod_with("p", "u", policy, &["setup", "main", "side"]);
    let mut init = pod.spec.containers.remove(0);
    for (name, policy, rule) in own {
        let mut all = pod.spec.containers.iter_mut().chain([&mut init]);
        let container = all.find(|c| c.name == *name).unwrap();
        container.restart_policy = Some((*policy).into());
        container.restart_policy_rules = rule.clone().map(|rule| vec![rule]);
    }
    pod.spec.init_containers = Some(vec![init]);
    Arc::new(pod)
}

fn one(name: &str, attempt: u32, state: ContainerState) -> Container {
    container("u", 0, name, attempt, state)
}

fn of_round(round: u32, container: Container) -> Container {
    Container { round, ..container }
}

fn up(containers: Vec<Container>) -> Observed {
    Observed { sandboxes: vec![sandbox("u", 0, true)], containers }
}

fn next(pod: &Arc<Pod>, observed: &Observed, checkpoint: &Checkpoint, now: i64) -> Plan {
    plan_remembering(&Want::Run(pod.clone()), observed, checkpoint, now)
}

#[test]
fn a_containers_own_policy_comes_before_the_pods() {
    let done = || one("setup", 0, exited(0, 90));
    let cases = [
        (
            "Never, but one container always",
            pod("Never", &[("main", "Always", None)]),
            vec![done(), one("main", 0, exited(0, 99)), one("side", 0, exited(1, 99))],
            vec!["start 0 #1 in u-s0 after 1"],
            PodLifecycle::Active,
        ),
        (
            "Always, but all its containers once",
            pod("Always", &[("main", "Never", None), ("side", "OnFailure", None)]),
            vec![done(), one("main", 0, exited(1, 99)), one("side", 0, exited(0, 99))],
            vec!["stop-sandbox u-s0"],
            PodLifecycle::Completed,
        ),
        (
            "a rule restarts what would stay",
            pod("Never", &[("main", "Never", Some(rule("Restart", 42)))]),
            vec![done(), one("main", 0, exited(42, 99)), one("side", 0, running())],
            vec!["start 0 #1 in u-s0 after 1"],
            PodLifecycle::Active,
        ),
        (
            "an init container is tried again though its pod never is",
            pod("Never", &[("setup", "OnFailure", None)]),
            vec![one("setup", 0, exited(1, 99))],
            vec!["start i0 #1 in u-s0 after 1"],
            PodLifecycle::Active,
        ),
        (
            "an init container fails its pod though that always restarts",
            pod("Always", &[("setup", "Never", None)]),
            vec![one("setup", 0, exited(1, 99))],
            vec!["stop-sandbox u-s0"],
            PodLifecycle::Completed,
        ),
        (
            "an init container that was lost has failed",
            pod("Never", &[]),
            vec![one("setup", 0, ContainerState::Unknown)],
            vec!["stop u-setup-0@7"],
            PodLifecycle::Completed,
        ),
    ];
    for (name, pod, containers, expect, lifecycle) in cases {
        let plan = next(&pod, &up(containers), &Checkpoint::default(), 100);
        assert_eq!(
            (words(&plan), plan.lifecycle),
            (expect.iter().map(|s| (*s).to_owned()).collect(), lifecycle),
            "{name}"
        );
    }
}

#[test]
fn a_crash_loop_is_forgiven_by_ten_minutes_of_health_and_capped_by_its_pod() {
    let ran = |seconds: i64, crashes| {
        let state = ContainerState::Exited(Exit {
            started_at: Some(at(2_000 - seconds)),
            finished_at: at(2_000),
            code: 1,
            reason: "Error".into(),
            message: String::new(),
        });
        up(vec![Container { crashes, ..one("main", 7, state) }])
    };
    // How long it ran, crashes before, the pod's own cap; how long it waits, crashes after.
    let cases = [
        (5, 0, None, Err(1)),
        (5, 1, None, Ok(10)),
        (5, 3, None, Ok(40)),
        (600, 3, None, Ok(40)),
        (601, 3, None, Err(1)),
        (5, 9, None, Ok(300)),
        (5, 1, Some("30s"), Ok(10)),
        (5, 9, Some("30s"), Ok(30)),
        (5, 9, Some("4s"), Ok(4)),
        (5, 9, Some("1h"), Ok(300)),
    ];
    for (seconds, crashes, cap, expect) in cases {
        let mut pod = pod_with("p", "u", "Always", &["main"]);
        let cap =
            cap.map(|cap: &str| (crate::pod::annotations::MAX_RESTART_BACKOFF.to_owned(), cap.to_owned()));
        pod.metadata.annotations = Some(cap.clone().into_iter().collect());
        let plan = next(&Arc::new(pod), &ran(seconds, crashes), &Checkpoint::default(), 2_000);
        let found = match plan.steps.first() {
            Some(Step::StartContainer(start)) => Err(start.crashes),
            _ => Ok(plan.wake_in.unwrap().as_secs()),
        };
        assert_eq!(found, expect, "ran {seconds} s after {crashes} crashes with {cap:?}");
    }
}

#[test]
fn a_rule_restarts_all_containers_from_the_first() {
    let pod = pod("Never", &[("main", "Never", Some(rule("RestartAllContainers", 42)))]);
    let seen = |containers| words(&next(&pod, &up(containers), &Checkpoint::default(), 100));
    let setup = || one("setup", 0, exited(0, 90));
    let main = || one("main", 0, exited(42, 99));
    let killed = || one("side", 0, exited(137, 99));
    assert_eq!(
        seen(vec![setup(), main(), one("side", 0, running())]),
        ["stop u-side-0@2"],
        "without grace, but for the least"
    );
    assert_eq!(seen(vec![setup(), main(), killed()]), ["start i0 #1 in u-s0 after 0"]);
    let setup_again = |state| of_round(1, one("setup", 1, state));
    assert_eq!(seen(vec![setup(), main(), killed(), setup_again(running())]), Vec::<String>::new());
    let ready = vec![setup(), main(), killed(), setup_again(exited(0, 99))];
    assert_eq!(seen(ready.clone()), ["start 0 #1 in u-s0 after 1", "start 1 #1 in u-s0 after 0"]);
    let half = [ready, vec![of_round(1, one("main", 1, running()))]].concat();
    assert_eq!(
        seen(half.clone()),
        ["start 1 #1 in u-s0 after 0"],
        "an agent that was killed goes on from here"
    );
    let all = [half, vec![of_round(1, one("side", 1, running()))]].concat();
    assert_eq!(seen(all), Vec::<String>::new());

    let round =
        |number: u32, state| of_round(number, Container { crashes: number, ..one("main", number, state) });
    let again = vec![round(1, exited(42, 96)), of_round(1, one("side", 1, exited(137, 97)))];
    let plan = next(&pod, &up(again), &Checkpoint::default(), 100);
    assert_eq!((words(&plan), plan.wake_in), (vec![], Some(Duration::from_secs(6))), "a loop backs off");
    assert_eq!(plan.waiting["side"].reason, "RestartingAllContainers");
    assert_eq!(
        plan.waiting["side"].message,
        "back-off 10s restarting all containers after main ended with exit code 42"
    );

    let other = vec![setup(), one("main", 0, exited(1, 99)), one("side", 0, exited(0, 99))];
    assert_eq!(seen(other), ["stop-sandbox u-s0"], "another exit code");
}

#[test]
fn what_completed_stays_so_whatever_is_left_of_it() {
    let pod = Arc::new(pod_with("p", "u", "Never", &["main"]));
    let mut checkpoint = Checkpoint::default();
    checkpoint.note(&pod, Life::Completed, Arc::default());
    let gone = Observed::default();
    let revived = up(vec![one("main", 0, running())]);
    let cases = [(&gone, vec![]), (&revived, vec!["stop u-main-0@7"])];
    for (observed, expect) in cases {
        let plan = next(&pod, observed, &checkpoint, 100);
        assert_eq!(
            (words(&plan), plan.lifecycle, plan.wake_in),
            (expect.iter().map(|s| (*s).to_owned()).collect(), PodLifecycle::Completed, None)
        );
    }
    let edited = Arc::new(pod_with("p", "v", "Never", &["main"]));
    assert_eq!(
        words(&next(&edited, &gone, &checkpoint, 100)),
        ["create-sandbox 0"],
        "until its manifest changes"
    );
    checkpoint.note(&edited, Life::Open, Arc::default());
    assert_eq!(words(&next(&edited, &gone, &checkpoint, 100)), ["create-sandbox 0"]);
}

#[test]
fn a_container_in_a_dead_sandbox_has_not_completed_before_it_has_ended() {
    let pod = Arc::new(pod_with("p", "u", "Never", &["main"]));
    let mut observed =
        Observed { sandboxes: vec![sandbox("u", 0, false)], containers: vec![one("main", 0, running())] };
    assert_eq!(next(&pod, &observed, &Checkpoint::default(), 100).lifecycle, PodLifecycle::Active);
    observed.containers[0].state = exited(137, 99);
    let plan = next(&pod, &observed, &Checkpoint::default(), 100);
    assert_eq!((words(&plan), plan.lifecycle), (vec![], PodLifecycle::Completed), "it counts as failed then");
}

#[test]
fn what_runs_in_a_dead_sandbox_has_passed_its_init_containers_or_not() {
    let once = pod("Never", &[]);
    let dead = |containers| Observed { sandboxes: vec![sandbox("u", 0, false)], containers };
    let setup = |state| one("setup", 0, state);
    let both = |side| vec![setup(exited(0, 90)), one("main", 0, running()), one("side", 0, side)];
    let stop_both = "stop u-main-0@7 u-side-0@7";
    for (containers, expect, init) in [
        (both(running()), stop_both, Init::Passed),
        (both(exited(1, 95)), "stop u-main-0@7", Init::Passed),
        (vec![setup(running())], "stop u-setup-0@7", Init::Pending),
    ] {
        let plan = next(&once, &dead(containers.clone()), &Checkpoint::default(), 100);
        assert_eq!((words(&plan), plan.init), (vec![expect.to_owned()], init), "{containers:?}");
        assert_eq!(plan.lifecycle, PodLifecycle::Active, "{containers:?}");
    }
}

#[test]
fn an_end_that_was_begun_is_finished_before_the_pod_runs_afresh() {
    let once = |uid| Arc::new(pod_with("p", uid, "Never", &["main"]));
    let (a, b) = (once("u"), once("v"));
    let mut checkpoint = Checkpoint::default();
    let killed = up(vec![one("main", 0, exited(137, 99))]);

    assert_eq!(next(&a, &killed, &checkpoint, 100).lifecycle, PodLifecycle::Completed, "it died by itself");
    for other in [Want::Run(b), Want::Stop { grace: None }] {
        let ends = plan_remembering(&other, &killed, &checkpoint, 100).terminating;
        assert_eq!(ends, BTreeSet::from(["u-s0".into()]), "{other:?} ends it");
    }

    checkpoint.terminating_sandboxes.insert("u-s0".into());
    let plan = next(&a, &killed, &checkpoint, 100);
    assert_eq!(words(&plan), ["stop-sandbox u-s0", "rm u-main-0", "rm-instance u", "rm-sandbox u-s0"]);
    assert_eq!(plan.lifecycle, PodLifecycle::TerminatesFirst);
    let gone = Observed::default();
    assert_eq!(words(&next(&a, &gone, &checkpoint, 100)), ["create-sandbox 0"]);
    let anew = Observed {
        sandboxes: vec![Sandbox { id: "new".into(), ..sandbox("u", 0, true) }],
        containers: vec![],
    };
    assert_eq!(
        words(&next(&a, &anew, &checkpoint, 100)),
        ["start 0 #0 in new after 0"],
        "a stale checkpoint ends nobody else"
    );
}

#[test]
fn what_was_ended_with_its_dead_sandbox_has_not_completed() {
    let lost = BTreeSet::from([ContainerId::from("u-main-0")]);
    let remembered = Checkpoint { killed_containers: lost.clone(), ..Checkpoint::default() };
    let dead =
        |state| Observed { sandboxes: vec![sandbox("u", 0, false)], containers: vec![one("main", 0, state)] };
    // What follows when it ended well on our signal, or had done so before its sandbox died.
    let (again, over): (&[&str], &[&str]) = (&["stop-sandbox u-s0", "create-sandbox 1"], &[]);
    for (policy, after, before) in
        [("Always", again, again), ("OnFailure", again, over), ("Never", over, over)]
    {
        let pod = Arc::new(pod_with("p", "u", policy, &["main"]));
        let plan = next(&pod, &dead(running()), &Checkpoint::default(), 100);
        assert_eq!((words(&plan), &plan.killed), (vec!["stop u-main-0@7".to_owned()], &lost), "{policy}");
        for (checkpoint, expect) in [(&remembered, after), (&Checkpoint::default(), before)] {
            let plan = next(&pod, &dead(exited(0, 99)), checkpoint, 100);
            assert_eq!(words(&plan), expect, "{policy} {checkpoint:?}");
            let lifecycle = if expect.is_empty() { PodLifecycle::Completed } else { PodLifecycle::Active };
            assert_eq!(
                (plan.lifecycle, &plan.killed),
                (lifecycle, &checkpoint.killed_containers),
                "{policy} {checkpoint:?}"
            );
        }
        let mut anew = dead(exited(0, 99));
        anew.sandboxes.push(sandbox("u", 1, true));
        let expect: &[_] =
            if after == over { &["stop-sandbox u-s1"] } else { &["start 0 #1 in u-s1 after 1"] };
        assert_eq!(words(&next(&pod, &anew, &remembered, 100)), expect, "{policy}");
    }
}

#[test]
fn a_containers_own_never_is_about_one_sandbox_if_its_pod_goes_on() {
    let (dead, anew) = (vec![sandbox("u", 0, false)], vec![sandbox("u", 0, false), sandbox("u", 1, true)]);
    let next_in = |sandboxes: &[Sandbox], pod: &Arc<Pod>, containers: &[Container]| {
        let observed = Observed { sandboxes: sandboxes.to_vec(), containers: containers.to_vec() };
        let plan = next(pod, &observed, &Checkpoint::default(), 100);
        (words(&plan).join(", "), plan.init)
    };
    let create = "stop-sandbox u-s0, create-sandbox 1";

    // The power was cut while the init container ran.
    let cuts =
        [(exited(255, 99), "start i0 #1 in u-s1 after 0"), (ContainerState::Unknown, "stop u-setup-0@7")];
    for (cut, expect) in cuts {
        let setup = [one("setup", 0, cut.clone())];
        for policy in ["Always", "OnFailure"] {
            let pod = pod(policy, &[("setup", "Never", None)]);
            let (steps, init) = next_in(&anew, &pod, &setup);
            // What the runtime lost track of is stopped first.
            assert_eq!((steps.as_str(), init), (expect, Init::Pending), "{policy} {cut:?}");
        }
        let (_, init) = next_in(&anew, &pod("Never", &[("setup", "Never", None)]), &setup);
        assert_eq!(init, Init::Failed, "{cut:?}");
    }
    let setup = [one("setup", 0, exited(255, 99))];
    assert_eq!(next_in(&dead, &pod("Always", &[("setup", "Never", None)]), &setup).0, create);

    // `main` runs once, `side` goes on.
    let pod = pod("Always", &[("main", "Never", None)]);
    let ended =
        [one("setup", 0, exited(0, 90)), one("main", 0, exited(0, 95)), one("side", 0, exited(137, 99))];
    assert_eq!(next_in(&dead, &pod, &ended).0, create);
    let again = Container { sandbox: "u-s1".into(), ..one("setup", 1, exited(0, 99)) };
    let initialised = [&ended[..], std::slice::from_ref(&again)].concat();
    let both = "start 0 #1 in u-s1 after 0, start 1 #1 in u-s1 after 1";
    assert_eq!(next_in(&anew, &pod, &initialised).0, both);
    let done = Container { sandbox: "u-s1".into(), ..one("main", 1, exited(0, 99)) };
    let half = [initialised, vec![done]].concat();
    assert_eq!(next_in(&anew, &pod, &half).0, "start 1 #1 in u-s1 after 1", "once per sandbox");

    // Nothing goes on: it is over.
    let mut only = pod_with("p", "u", "Always", &["main"]);
    only.spec.containers[0].restart_policy = Some("Never".into());
    assert_eq!(next_in(&dead, &Arc::new(only), &ended[1..2]).0, "");
}
