//! The clock of these tests is a number of seconds.

use super::super::check::Check;
use super::super::threshold::Thresholds;
use super::*;

const BEGAN: i64 = 1000;

fn moment(second: u64) -> Moment {
    let wall = BEGAN + i64::try_from(second).unwrap();
    Moment { uptime: Duration::from_secs(second), now: Timestamp::from_second(wall).unwrap() }
}

fn pod(name: &str) -> PodName {
    PodName::new("default", name)
}

/// A probe of a container that began at this second of the agent's life, or before it. Every 10 s, the second failure
/// counts.
fn target(id: &str, kind: Kind, started: i64, delay: u64) -> Target {
    let spec = Spec {
        check: Check::Exec(vec![]),
        initial_delay: Duration::from_secs(delay),
        period: Duration::from_secs(10),
        timeout: Duration::from_secs(1),
        thresholds: Thresholds { success: 1, failure: 2 },
    };
    Target {
        id: ContainerId::from(id),
        which: ContainerRef::Main(0),
        container: "main".into(),
        kind,
        spec: Arc::new(spec),
        host: ProbeHost::Address("10.0.0.1".into()),
        known: None,
        activity: ProbeActivity::Active { started_at: Timestamp::from_second(BEGAN + started).unwrap() },
    }
}

fn schedule() -> Schedule {
    Schedule::new(moment(0).now)
}

fn watch(schedule: &mut Schedule, name: &str, targets: Vec<Target>, second: u64) {
    schedule.watch(&pod(name), &PodUid::from("u"), targets, moment(second), || 0.5);
}

/// What is due, as `id:Kind`.
fn due(schedule: &mut Schedule, second: u64) -> (Vec<String>, Vec<Arc<ProbeKey>>) {
    let jobs = schedule.take_due(Duration::from_secs(second));
    let words = jobs.iter().map(|job| format!("{}:{}", job.key.id, job.key.kind.as_str())).collect();
    (words, jobs.into_iter().map(|job| job.key).collect())
}

fn end(schedule: &mut Schedule, key: &Arc<ProbeKey>, result: ProbeResult, second: u64) -> Option<Noted> {
    schedule.note(key, Ran { result, output: String::new() }, moment(second))
}

fn next(schedule: &Schedule) -> Option<u64> {
    schedule.next_due().map(|due| due.as_secs())
}

#[test]
fn the_first_run_waits_for_the_delay_and_is_spread_out_after_a_restart() {
    for (name, started, delay, watched, expect) in [
        ("a new container", 20, 0, 20, 20),
        ("with a delay", 20, 4, 20, 24),
        ("seen late", 20, 4, 22, 24),
        ("seen too late", 20, 4, 30, 30),
        ("as old as the agent", 0, 0, 0, 0),
        ("of an earlier agent: half of the period, by chance", -100, 0, 0, 5),
        ("of an earlier agent, with what is left of a delay", -100, 130, 0, 30),
        ("a clock that was set back", 5000, 4, 20, 24),
    ] {
        let mut schedule = schedule();
        watch(&mut schedule, "p", vec![target("c", Kind::Readiness, started, delay)], watched);
        assert_eq!(next(&schedule), Some(expect), "{name}");
    }
}

#[test]
fn a_probe_keeps_its_pace_and_never_runs_twice_at_once() {
    let mut schedule = schedule();
    let targets = || vec![target("c", Kind::Readiness, 20, 0)];
    watch(&mut schedule, "p", targets(), 20);
    assert!(due(&mut schedule, 19).0.is_empty());
    let (words, keys) = due(&mut schedule, 20);
    assert_eq!(words, ["c:Readiness"]);
    // While it runs it is not due again, whatever its worker says.
    watch(&mut schedule, "p", targets(), 21);
    assert_eq!(next(&schedule), None);
    assert!(end(&mut schedule, &keys[0], ProbeResult::Success, 23).is_some());
    assert_eq!(next(&schedule), Some(30), "from the beginning of one to that of the next");
    let (_, keys) = due(&mut schedule, 30);
    end(&mut schedule, &keys[0], ProbeResult::Success, 45);
    assert_eq!(next(&schedule), Some(50), "what was missed is left out, and the activity stays");
    // An end that is told twice counts once.
    assert_eq!(end(&mut schedule, &keys[0], ProbeResult::Failure, 46), None);
    let (_, keys) = due(&mut schedule, 50);
    end(&mut schedule, &keys[0], ProbeResult::Success, 60);
    assert_eq!(next(&schedule), Some(70), "one that took all of its period has missed the next turn");
}

#[test]
fn startup_gates_the_others_and_is_not_asked_again() {
    let mut schedule = schedule();
    let kinds = || Kind::ALL.map(|kind| target("c", kind, 20, 0)).to_vec();
    watch(&mut schedule, "p", kinds(), 20);
    let (words, keys) = due(&mut schedule, 20);
    assert_eq!(words, ["c:Startup"]);
    let verdicts = schedule.verdicts(&pod("p"));
    assert!(!verdicts.has_started(&"c".into()) && !verdicts.is_ready(&"c".into()));
    end(&mut schedule, &keys[0], ProbeResult::Failure, 21);
    let (words, keys) = due(&mut schedule, 30);
    assert_eq!(words, ["c:Startup"]);
    let noted = end(&mut schedule, &keys[0], ProbeResult::Warning, 31).unwrap();
    assert_eq!(noted, Noted { news: News::Changed, verdict: ProbeChange::Verdict(ProbeOutcome::Success) });
    assert!(!schedule.verdicts(&pod("p")).is_ready(&"c".into()), "it has started, and is not ready yet");
    let (words, keys) = due(&mut schedule, 31);
    assert_eq!(words, ["c:Readiness", "c:Liveness"], "at once");
    end(&mut schedule, &keys[0], ProbeResult::Success, 31);
    assert!(schedule.verdicts(&pod("p")).is_ready(&"c".into()));
    assert_eq!(next(&schedule), Some(41), "the startup probe is over");
}

#[test]
fn failures_settle_liveness_and_startup_and_a_new_container_begins_anew() {
    for kind in [Kind::Liveness, Kind::Startup] {
        let mut schedule = schedule();
        watch(&mut schedule, "p", vec![target("old", kind, 20, 0)], 20);
        for (second, expect) in [(20, ProbeChange::None), (30, ProbeChange::Verdict(ProbeOutcome::Failure))] {
            let (_, keys) = due(&mut schedule, second);
            assert_eq!(end(&mut schedule, &keys[0], ProbeResult::Failure, second).unwrap().verdict, expect);
        }
        assert_eq!(schedule.verdicts(&pod("p")).failed(&"old".into()), Some(kind));
        assert_eq!(next(&schedule), None, "{kind:?}");
        watch(&mut schedule, "p", vec![target("new", kind, 40, 0)], 40);
        let verdicts = schedule.verdicts(&pod("p"));
        assert_eq!((verdicts.failed(&"old".into()), verdicts.failed(&"new".into())), (None, None));
        assert_eq!(next(&schedule), Some(40));
    }
}

#[test]
fn what_could_not_be_run_says_nothing() {
    let mut schedule = schedule();
    watch(&mut schedule, "p", vec![target("c", Kind::Liveness, 20, 0)], 20);
    for second in [20, 30, 40, 50] {
        let (_, keys) = due(&mut schedule, second);
        let noted = end(&mut schedule, &keys[0], ProbeResult::Unknown, second).unwrap();
        let news = if second == 20 { News::First } else { News::No };
        assert_eq!(noted, Noted { news, verdict: ProbeChange::None });
    }
    assert_eq!(schedule.verdicts(&pod("p")).failed(&"c".into()), None);
}

#[test]
fn what_is_held_keeps_its_verdict_and_is_not_run() {
    let mut schedule = schedule();
    let kinds = || Kind::ALL.map(|kind| target("c", kind, 20, 0)).to_vec();
    let known = |target: Target| Target { known: Some(ProbeOutcome::Success), ..target };
    watch(&mut schedule, "p", kinds().into_iter().map(known).collect(), 20);
    let (words, keys) = due(&mut schedule, 20);
    assert_eq!(words, ["c:Readiness", "c:Liveness"], "it is known to have started");
    let ending = |target: Target| match target.kind {
        Kind::Readiness => target,
        _ => Target { activity: ProbeActivity::Paused, ..target },
    };
    watch(&mut schedule, "p", kinds().into_iter().map(ending).collect(), 21);
    assert_eq!(end(&mut schedule, &keys[1], ProbeResult::Failure, 22), None, "it does not count any more");
    assert!(end(&mut schedule, &keys[0], ProbeResult::Failure, 22).is_some());
    assert_eq!(due(&mut schedule, 60).0, ["c:Readiness"]);
    assert!(schedule.verdicts(&pod("p")).is_ready(&"c".into()), "one failure contradicts nothing");
}

#[test]
fn a_probe_that_is_due_and_paused_is_not_run_until_it_goes_on() {
    let mut schedule = schedule();
    let active = || target("c", Kind::Liveness, 20, 5);
    watch(&mut schedule, "p", vec![active()], 20);
    assert_eq!(next(&schedule), Some(25));
    watch(&mut schedule, "p", vec![active()], 21);
    assert_eq!(next(&schedule), Some(25), "one that is due stays due");
    watch(&mut schedule, "p", vec![Target { activity: ProbeActivity::Paused, ..active() }], 22);
    assert_eq!((next(&schedule), due(&mut schedule, 60).0), (None, vec![]));
    watch(&mut schedule, "p", vec![active()], 61);
    assert_eq!(due(&mut schedule, 61).0, ["c:Liveness"]);
}

#[test]
fn results_of_one_kind_are_counted() {
    let mut schedule = schedule();
    watch(&mut schedule, "p", vec![target("c", Kind::Readiness, 20, 0)], 20);
    let count = |schedule: &Schedule| schedule.reports()[0].in_a_row;
    assert_eq!(count(&schedule), 0);
    for (second, result, expect) in [
        (20, ProbeResult::Failure, 1),
        (30, ProbeResult::Failure, 2),
        (40, ProbeResult::Failure, 3),
        (50, ProbeResult::Success, 1),
    ] {
        let (_, keys) = due(&mut schedule, second);
        end(&mut schedule, &keys[0], result, second);
        assert_eq!(count(&schedule), expect, "at {second}");
    }
}

#[test]
fn a_pod_that_goes_takes_its_probes_with_it_and_no_others() {
    let mut schedule = schedule();
    for name in ["a", "aa", "b"] {
        watch(&mut schedule, name, vec![target(name, Kind::Liveness, 20, 0)], 20);
    }
    schedule.forget(&pod("aa"));
    assert_eq!(due(&mut schedule, 20).0, ["a:Liveness", "b:Liveness"]);
    assert_eq!(schedule.reports().len(), 2);
    assert_eq!(schedule.verdicts(&pod("aa")), Verdicts::default());
}

#[test]
fn a_hundred_that_hang_leave_the_others_their_time() {
    let mut schedule = schedule();
    for number in 0..100 {
        let name = format!("hangs-{number}");
        watch(&mut schedule, &name, vec![target(&name, Kind::Liveness, 20, 0)], 20);
    }
    assert_eq!(due(&mut schedule, 20).0.len(), 100);
    watch(&mut schedule, "well", vec![target("well", Kind::Liveness, 20, 1)], 20);
    assert_eq!((next(&schedule), due(&mut schedule, 21).0), (Some(21), vec!["well:Liveness".to_owned()]));
}

#[test]
fn probes_that_hang_for_long_stay_apart() {
    let mut schedule = schedule();
    let mut running = Vec::new();
    for second in 20..30_u32 {
        let name = format!("p{second}");
        watch(&mut schedule, &name, vec![target(&name, Kind::Liveness, i64::from(second), 0)], second.into());
        running.extend(due(&mut schedule, second.into()).1);
    }
    // All of them end when the network comes back.
    for key in &running {
        end(&mut schedule, key, ProbeResult::Failure, 45);
    }
    let turns: Vec<_> = (45..60).map(|second| due(&mut schedule, second).0.len()).collect();
    assert!(turns.iter().all(|due| *due <= 1), "{turns:?}");
    assert_eq!(turns.iter().sum::<usize>(), 10);
}

#[test]
fn whether_there_are_other_probes_is_told() {
    let mut schedule = schedule();
    let mut told = |ids: &[&str]| {
        let targets = ids.iter().map(|id| target(id, Kind::Liveness, 20, 0)).collect();
        schedule.watch(&pod("p"), &PodUid::from("u"), targets, moment(20), || 0.5)
    };
    for (ids, expect) in [
        (&[][..], Roster::Same),
        (&["a"], Roster::Changed),
        (&["a"], Roster::Same),
        (&["a", "b"], Roster::Changed),
        (&["b", "c"], Roster::Changed),
        (&["c"], Roster::Changed),
    ] {
        assert_eq!(told(ids), expect, "{ids:?}");
    }
}
