//! activeDeadlineSeconds.

use super::*;
use crate::pod::state::FailedReason;

/// The pod began at 100 and has 50 seconds.
fn plan(policy: &str, containers: Vec<Container>, ready: bool, now: i64) -> Plan {
    let observed = Observed { sandboxes: vec![sandbox("u", 0, ready)], containers };
    plan_begun(policy, &observed, Some(100), now)
}

fn plan_begun(policy: &str, observed: &Observed, began: Option<i64>, now: i64) -> Plan {
    let mut pod = pod_with("p", "u", policy, &["main"]);
    pod.spec.active_deadline_seconds = Some(50);
    let (inputs, pod) = (Inputs::default(), Arc::new(pod));
    let plan = |want: &Want| {
        plan_pod(&Situation {
            active_since: began.map(|began| active_since(at(began), at(now), Duration::ZERO)),
            now: at(now),
            ..inputs.situation(want, observed)
        })
    };
    follow_end(plan(&Want::Run(pod.clone())), &pod, plan)
}

/// What follows a plan that wants the instance to end.
fn follow_end(first: Plan, pod: &Arc<Pod>, plan: impl Fn(&Want) -> Plan) -> Plan {
    match first.end {
        Some(failed) => plan(&Want::End { pod: pod.clone(), failed, grace: None }),
        None => first,
    }
}

#[test]
fn a_pod_ends_at_its_deadline_and_stays_failed() {
    let main = |state| vec![container("u", 0, "main", 0, state)];
    // Policy, containers, is the sandbox up, now; the steps, when to look again, has it failed.
    type Row = (&'static str, Vec<Container>, bool, i64, &'static [&'static str], Option<u64>, bool);
    let rows: Vec<Row> = vec![
        ("Always", main(running()), true, 149, &[], Some(1), false),
        ("Always", main(running()), true, 150, &["stop u-main-0@7"], None, false),
        ("Always", main(exited(137, 151)), true, 151, &["stop-sandbox u-s0"], None, false),
        ("Always", main(exited(137, 151)), false, 151, &[], None, true),
        ("Always", main(exited(137, 151)), false, 100_000, &[], None, true),
        ("OnFailure", main(exited(0, 151)), false, 200, &[], None, true),
        ("Never", main(exited(0, 140)), false, 200, &[], None, false),
        ("Never", main(exited(1, 140)), false, 200, &[], None, false),
        ("Never", main(exited(143, 151)), false, 200, &[], None, true),
        ("OnFailure", main(exited(1, 140)), true, 200, &["stop-sandbox u-s0"], None, false),
        ("Always", vec![], false, 200, &[], None, true),
        ("Always", main(running()), true, 20, &[], Some(50), false),
    ];
    for (policy, containers, ready, now, steps, wake, failed) in rows {
        let case = format!("{policy} at {now}: {containers:?}");
        let plan = plan(policy, containers, ready, now);
        assert_eq!(words(&plan), steps, "{case}");
        assert_eq!(plan.wake_in.map(|left| left.as_secs()), wake, "{case}");
        let reason = plan.failed.map(|failed| failed.reason);
        assert_eq!(reason, failed.then_some(FailedReason::DeadlineExceeded), "{case}");
    }
}

#[test]
fn what_has_not_begun_has_no_deadline() {
    let nothing = Observed::default();
    let plan = plan_begun("Never", &nothing, None, 100_000);
    assert_eq!((words(&plan), plan.failed), (vec!["create-sandbox 0".to_owned()], None));
    let plan = plan_begun("Never", &nothing, Some(100), 100_000);
    assert!(plan.failed.is_some(), "the runtime has forgotten it");
}

#[test]
fn a_leap_of_the_clock_neither_ends_a_pod_nor_spares_it() {
    let mut pod = pod_with("p", "u", "Always", &["main"]);
    pod.spec.active_deadline_seconds = Some(50);
    let (pod, today) = (Arc::new(pod), 1_800_000_000);
    let observed = Observed {
        sandboxes: vec![sandbox("u", 0, true)],
        containers: vec![container("u", 0, "main", 0, running())],
    };
    // When it began and was first seen, what the clock shows when it is looked at 20 and 60 seconds later.
    for (began, first, later) in [(5, 15, today), (today, today + 10, 7), (today, today + 10, today + 20)] {
        let active = active_since(at(began), at(first), Duration::from_secs(3));
        let look = |uptime| {
            let inputs = Inputs::default();
            let plan = |want: &Want| {
                plan_pod(&Situation {
                    active_since: Some(active),
                    now: at(later),
                    uptime: Duration::from_secs(uptime),
                    ..inputs.situation(want, &observed)
                })
            };
            follow_end(plan(&Want::Run(pod.clone())), &pod, plan)
        };
        let early = look(23);
        assert_eq!((words(&early), early.wake_in), (vec![], Some(Duration::from_secs(20))), "{later}");
        assert_eq!(words(&look(63)), ["stop u-main-0@7"], "{later}");
    }
}

#[test]
fn a_new_agent_goes_by_the_wall_clock() {
    let today = 1_800_000_000;
    // When it began, what the clock shows when an agent first sees it; how long it has been at work.
    let cases = [(5, 15, 10), (today, today + 10, 10), (5, today, 0), (today, today - 10, 0), (today, 15, 0)];
    for (began, now, age) in cases {
        let active = active_since(at(began), at(now), Duration::ZERO);
        assert_eq!(active.elapsed(Duration::ZERO), Duration::from_secs(age), "{began} {now}");
    }
    // What is remembered is put right after a leap, and only then.
    let active = active_since(at(5), at(15), Duration::ZERO);
    let began = |remembered: Option<i64>, now, uptime| {
        date_of(active, remembered.map(at), at(now), Duration::from_secs(uptime)).as_second()
    };
    assert_eq!(began(None, 15, 0), 5);
    assert_eq!(began(Some(5), 117, 100), 5, "a drift");
    assert_eq!(began(Some(5), 175, 100), 5, "a minute is still a drift");
    assert_eq!(began(Some(5), 176, 100), 66, "more is a leap");
    assert_eq!(began(Some(5), today, 100), today - 110, "a leap");
}

#[test]
fn an_end_has_its_reason_and_its_grace_and_stays() {
    let pod = Arc::new(pod_with("p", "u", "Always", &["main"]));
    let failed = crate::plan::deadline::exceeded();
    let end = |grace| Want::End { pod: pod.clone(), failed: failed.clone(), grace };
    let up = Observed {
        sandboxes: vec![sandbox("u", 0, true)],
        containers: vec![container("u", 0, "main", 0, running())],
    };
    let history = History::default();
    for (grace, expect) in
        [(None, "stop u-main-0@7"), (Some(3), "stop u-main-0@3"), (Some(60), "stop u-main-0@7")]
    {
        assert_eq!(words(&planned(&end(grace), &up, &history, at(100))), [expect], "{grace:?}");
        let stop = Want::Stop { grace };
        assert_eq!(words(&planned(&stop, &up, &history, at(100))), [expect], "{grace:?}");
    }
    let down = Observed {
        sandboxes: vec![sandbox("u", 0, false)],
        containers: vec![container("u", 0, "main", 0, exited(137, 99))],
    };
    let plan = planned(&end(None), &down, &history, at(100));
    assert_eq!(
        (words(&plan), plan.failed, plan.lifecycle),
        (vec![], Some(failed.clone()), PodLifecycle::Completed)
    );
    let nothing = planned(&end(None), &Observed::default(), &history, at(100));
    assert_eq!((words(&nothing), nothing.failed), (vec![], Some(failed)), "nothing starts");
}
