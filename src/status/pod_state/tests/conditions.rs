//! Conditions: when they hold, why not, and since when.

use std::collections::BTreeMap;

use super::*;
use crate::plan::Init;

/// Conditions in short words: whether it holds, the reason, since when.
type Short = BTreeMap<String, (bool, String, i64)>;

fn conditions_of(status: &PodStatus) -> Short {
    let each = status.conditions.iter().flatten().map(|c| {
        let since = c.last_transition_time.as_ref().unwrap().0.as_second();
        (c.type_.clone(), (c.status == "True", c.reason.clone().unwrap_or_default(), since))
    });
    each.collect()
}

fn expect(rows: [(&str, bool, &str, i64); 5]) -> Short {
    rows.into_iter().map(|(kind, holds, why, since)| (kind.into(), (holds, why.into(), since))).collect()
}

/// The life of a pod, each row as (now, the sandbox if there is one and whether it is ready, containers).
type Moment = (i64, Option<bool>, Vec<Container>);

fn life() -> Vec<(Moment, Short)> {
    let main = |attempt, state| vec![container("main", attempt, state)];
    let up = |ready| {
        expect([
            ("PodReadyToStartContainers", true, "", 100),
            ("Initialized", true, "", 100),
            ("Ready", true, "", ready),
            ("ContainersReady", true, "", ready),
            ("PodScheduled", true, "", 100),
        ])
    };
    let down = |why: &'static str, since| {
        expect([
            ("PodReadyToStartContainers", true, "", 100),
            ("Initialized", true, "", 100),
            ("Ready", false, why, since),
            ("ContainersReady", false, why, since),
            ("PodScheduled", true, "", 100),
        ])
    };
    let not_begun = expect([
        ("PodReadyToStartContainers", false, "", 100),
        ("Initialized", true, "", 100),
        ("Ready", false, "ContainersNotReady", 100),
        ("ContainersReady", false, "ContainersNotReady", 100),
        ("PodScheduled", true, "", 100),
    ]);
    let completed = expect([
        ("PodReadyToStartContainers", false, "", 150),
        ("Initialized", true, "PodCompleted", 100),
        ("Ready", false, "PodCompleted", 150),
        ("ContainersReady", false, "PodCompleted", 150),
        ("PodScheduled", true, "", 100),
    ]);
    vec![
        ((100, None, vec![]), not_begun),
        ((101, Some(true), vec![]), down("ContainersNotReady", 100)),
        ((112, Some(true), main(0, runs_since(110))), up(110)),
        ((119, Some(true), main(0, runs_since(110))), up(110)),
        ((131, Some(true), main(0, ran(110, 130, 1))), down("ContainersNotReady", 130)),
        ((141, Some(true), main(1, runs_since(140))), up(140)),
        // It ended and was started again, and nobody looked in between.
        ((149, Some(true), main(2, runs_since(148))), up(148)),
        ((151, Some(false), main(2, ran(148, 150, 0))), completed),
    ]
}

fn at_moment(moment: &Moment, previous: Option<&PodState>) -> PodState {
    let (now, ready, found) = moment;
    let sandboxes = ready.map(|ready| sandbox(0, ready, &["10.88.0.4"])).into_iter().collect();
    let observed = Observed { sandboxes, containers: found.clone() };
    pod_state(&once(), &observed, &Plan::default(), &Verdicts::default(), previous, &[], at(*now))
}

fn once() -> Pod {
    pod_with("p", "u", "OnFailure", &["main"])
}

#[test]
fn conditions_change_with_what_happened_and_only_then() {
    let mut previous: Option<PodState> = None;
    for (moment, expect) in life() {
        let state = at_moment(&moment, previous.as_ref());
        let status = served(&once(), &state);
        assert_eq!(conditions_of(&status), expect, "{moment:?}");
        let start = status.start_time.as_ref().map(|time| time.0.as_second());
        assert_eq!(start, Some(100), "the start stays: {moment:?}");
        previous = Some(state);
    }
    let last = served(&once(), &previous.unwrap());
    assert_eq!(last.pod_ip.as_deref(), Some("10.88.0.4"), "a completed pod is still known by its address");
}

#[test]
fn an_agent_that_has_just_begun_tells_the_same_times() {
    for (moment, expect) in life() {
        assert_eq!(conditions_of(&served(&once(), &at_moment(&moment, None))), expect, "{moment:?}");
    }
}

#[test]
fn a_clock_that_was_set_back_moves_nothing_into_the_future() {
    let early: Moment = (50, Some(true), vec![container("main", 0, runs_since(110))]);
    for (kind, (holds, _, since)) in conditions_of(&served(&once(), &at_moment(&early, None))) {
        assert_eq!((holds, since), (true, 50), "{kind}");
    }
}

#[test]
fn since_when_a_pod_is_not_ready() {
    let a = |state| container("a", 0, state);
    let b = |state| container("b", 0, state);
    let rows = [
        ("neither has run", vec![], 100),
        ("one never ran", vec![a(ran(110, 120, 1))], 100),
        ("the other runs on", vec![a(ran(110, 120, 1)), b(runs_since(111))], 120),
        ("the first to end", vec![a(ran(110, 120, 1)), b(ran(111, 130, 0))], 120),
    ];
    for (case, containers, since) in rows {
        let pod = pod_with("p", "u", "Always", &["a", "b"]);
        let found = conditions_of(&status(&pod, containers, &[]));
        assert_eq!(found["Ready"], (false, "ContainersNotReady".into(), since), "{case}");
    }
}

#[test]
fn a_failed_pod_says_so() {
    let pod = pod_with("p", "u", "Never", &["main"]);
    let found = conditions_of(&status(&pod, vec![container("main", 0, exited(1))], &[]));
    assert_eq!(found["Ready"], (false, "PodFailed".into(), 112));
    assert_eq!(found["ContainersReady"], (false, "PodFailed".into(), 112));
    assert_eq!(found["Initialized"], (true, String::new(), 100));
}

#[test]
fn initialised_since_the_last_of_the_init_containers() {
    let mut pod = pod_with("p", "u", "Always", &["main"]);
    let mut init = pod_with("p", "u", "Always", &["setup", "proxy"]).spec.containers;
    init[1].restart_policy = Some("Always".into());
    pod.spec.init_containers = Some(init);
    let setup = container("setup", 0, ran(101, 103, 0));
    let proxy = |attempt, since| container("proxy", attempt, runs_since(since));
    let main = container("main", 0, runs_since(106));
    let rows = [
        ("not yet", Init::Pending, vec![setup.clone()], (false, "ContainersNotInitialized", 100)),
        ("the sidecar was last", Init::Passed, vec![setup.clone(), proxy(0, 105)], (true, "", 105)),
        (
            "a sidecar that came back has not been waited for",
            Init::Passed,
            vec![setup, proxy(1, 150), main],
            (true, "", 103),
        ),
    ];
    for (case, init, containers, (holds, why, since)) in rows {
        let observed = Observed { sandboxes: vec![sandbox(0, true, &[])], containers };
        let plan = Plan { init, ..Plan::default() };
        let status = pod_status(&pod, &observed, &plan, &Verdicts::default(), None, &[], at(200));
        assert_eq!(conditions_of(&status)["Initialized"], (holds, why.into(), since), "{case}");
    }
}

#[test]
fn the_generation_is_told_where_the_manifest_gives_one() {
    for (given, told) in [(None, None), (Some(0), None), (Some(7), Some(7))] {
        let mut pod = pod_with("p", "u", "Always", &["main"]);
        pod.metadata.generation = given;
        let status = status(&pod, vec![container("main", 0, running())], &[]);
        assert_eq!(status.observed_generation, told, "{given:?}");
        let conditions = status.conditions.unwrap();
        assert!(conditions.iter().all(|c| c.observed_generation == told), "{conditions:?}");
    }
}

#[test]
fn a_sandbox_that_cannot_be_made_is_told_on_the_pod() {
    let pod = pod_with("p", "u", "Always", &["main"]);
    let why = Waiting { reason: "CreatePodSandboxError".into(), message: "no network".into() };
    let plan = Plan { sandbox: Some(why), ..Plan::default() };
    let status = pod_status(&pod, &Observed::default(), &plan, &Verdicts::default(), None, &[], at(200));
    assert_eq!(status.phase.as_deref(), Some("Pending"));
    assert_eq!(status.reason.as_deref(), Some("CreatePodSandboxError"));
    assert_eq!(status.message.as_deref(), Some("no network"));
    let fine =
        pod_status(&pod, &Observed::default(), &Plan::default(), &Verdicts::default(), None, &[], at(200));
    assert_eq!((fine.reason, fine.message), (None, None));
}

#[test]
fn while_a_rule_restarts_all_containers_a_condition_says_so() {
    let started = "RestartAllContainersStarted";
    // The policy, the action of the rule, what became of the container, and the condition.
    let rows = [
        ("Always", "Restart", container("main", 0, exited(42)), None),
        ("Always", "RestartAllContainers", container("main", 0, runs_since(110)), Some((false, "", 110))),
        (
            "Always",
            "RestartAllContainers",
            container("main", 0, ran(110, 120, 42)),
            Some((true, started, 120)),
        ),
        ("Always", "RestartAllContainers", container("main", 0, ran(110, 120, 1)), Some((false, "", 100))),
        (
            "Never",
            "RestartAllContainers",
            container("main", 0, ran(110, 120, 1)),
            Some((false, "PodFailed", 100)),
        ),
        (
            "Never",
            "RestartAllContainers",
            container("main", 0, ran(110, 120, 0)),
            Some((false, "PodCompleted", 100)),
        ),
    ];
    for (policy, action, found, expect) in rows {
        let mut pod = pod_with("p", "u", policy, &["main"]);
        pod.spec.containers[0].restart_policy_rules = super::phase::rule(action).map(|rule| vec![rule]);
        let shown = conditions_of(&status(&pod, vec![found.clone()], &[]));
        let expect = expect.map(|(holds, why, since)| (holds, why.to_owned(), since));
        assert_eq!(shown.get("AllContainersRestarting"), expect.as_ref(), "{policy}, {action}, {found:?}");
    }
}
