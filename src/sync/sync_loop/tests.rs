//! Recorded sequences of events, replayed.

mod admission;
mod ends;
mod fixed_uid;
mod holds;
mod moved;
mod objects;
mod starts;

use super::*;
use crate::plan::checkpoint::{Age, Checkpoint, Life};
use crate::plan::order;
use crate::pod::PodUid;
use crate::pod::state::{Condition, ConditionType, Phase};
use crate::pod::testing::{pod, pod_after};
use crate::sync::node_list::Listed;
use crate::sync::view::Outcome;

fn name(name: &str) -> PodName {
    PodName::new("default", name)
}

fn wanted(name: &str, hash: &str) -> Arc<Pod> {
    Arc::new(pod(name, hash))
}

fn config(pods: &[&Arc<Pod>], complete: bool) -> Event {
    let pods = pods.iter().map(|pod| (*pod).clone()).collect();
    let untrusted_signatures = BTreeMap::new();
    Event::Config(Snapshot {
        source: Source::File,
        pods,
        objects: vec![],
        complete,
        untrusted_signatures,
        verdicts: vec![],
    })
}

fn seen(ids: &[(&str, bool)]) -> Fingerprint {
    ids.iter().map(|(id, alive)| ((*id).to_owned(), Seen::alive_if(*alive))).collect()
}

/// A pod that the runtime lists: its name, its source, its sandboxes and containers.
type Entry<'a> = (&'a str, Option<Source>, &'a [(&'a str, bool)]);

fn listed(pods: &[Entry<'_>]) -> Event {
    let each = pods.iter().map(|(pod, source, ids)| {
        (name(pod), Listed { sources: [*source].into(), seen: seen(ids), ..Listed::default() })
    });
    Event::Pleg(PlegEvent::Listed(each.collect()))
}

fn synced(pod: &Arc<Pod>, ids: &[(&str, bool)]) -> Event {
    let state = PodState { phase: Phase::Running, ..PodState::default() };
    Event::Worker(Report::Synced {
        pod: pod.name.clone(),
        state: Some((pod.clone(), Arc::new(state))),
        seen: seen(ids),
        running: true,
        number: 0,
        instances: BTreeSet::new(),
    })
}

impl SyncLoop {
    /// All that there is to show.
    fn view(&self) -> View {
        let pods = self.workers.iter().filter_map(|(name, worker)| Some((name.clone(), worker.shown()?)));
        View {
            pods: pods.collect(),
            verdicts: self.verdicts.clone(),
            runtime: self.runtime.clone(),
            devices: self.devices.clone(),
            settled: self.listed.is_some() && self.config.all_settled(),
        }
    }
}

/// The phase of pod `a`; without a state it is pending.
fn phase_of_a(state: &SyncLoop) -> Phase {
    state.view().pods[&name("a")].state.as_ref().map_or(Phase::Pending, |state| state.phase)
}

/// What a command says, numbers aside.
#[derive(Debug, PartialEq)]
enum Said {
    Tell(PodName, Want),
    Dismiss(PodName),
}

/// Handles an event, and says what to do.
fn on(state: &mut SyncLoop, event: Event) -> Vec<Said> {
    let say = |command| match command {
        Command::Tell(name, desired) => Said::Tell(name, desired.want),
        Command::Dismiss(name) => Said::Dismiss(name),
    };
    state.handle(event).into_iter().map(say).collect()
}

/// The report that the pod was stopped, as its newest desired state asked for.
fn gone(state: &SyncLoop, pod: &str) -> Event {
    let number = state.workers[&name(pod)].desired.generation;
    Event::Worker(Report::Gone { pod: name(pod), number })
}

fn run(pod: &Arc<Pod>) -> Said {
    Said::Tell(pod.name.clone(), Want::Run(pod.clone()))
}

fn stop(pod: &str) -> Said {
    Said::Tell(name(pod), Want::Stop { grace: None })
}

#[test]
fn who_matters_more_is_told_first() {
    let mut state = SyncLoop::new([Source::File]);
    let with = |name: &str, priority: i32| {
        let mut pod = pod(name, name);
        pod.spec.priority = Some(priority);
        Arc::new(pod)
    };
    let (a, b, c, d) = (with("a", 0), with("b", 2), with("c", 2), with("d", 7));
    assert_eq!(on(&mut state, config(&[&a, &b, &c, &d], true)), [run(&d), run(&b), run(&c), run(&a)]);
    // The runtime is there: everybody looks.
    assert_eq!(on(&mut state, listed(&[])), [run(&d), run(&b), run(&c), run(&a)]);
    let e = with("e", 1);
    assert_eq!(on(&mut state, config(&[&b, &c, &d, &e], true)), [stop("a"), run(&e)]);
}

#[test]
fn the_life_of_a_pod() {
    let mut state = SyncLoop::new([Source::File]);
    let (a1, a2) = (wanted("a", "1"), wanted("a", "2"));
    assert_eq!(on(&mut state, listed(&[])), []);
    assert_eq!(on(&mut state, config(&[&a1], true)), [run(&a1)]);
    assert_eq!(on(&mut state, config(&[&a1], true)), [], "the same again is no news");
    assert_eq!(on(&mut state, synced(&a1, &[("s", true), ("c", true)])), []);
    assert_eq!(phase_of_a(&state), Phase::Running);

    assert_eq!(
        on(&mut state, Event::Pleg(PlegEvent::Exited("c".into()))),
        [run(&a1)],
        "an exit leads to its owner"
    );
    assert_eq!(on(&mut state, Event::Pleg(PlegEvent::Exited("x".into()))), [], "somebody else's");

    assert_eq!(on(&mut state, config(&[&a2], true)), [run(&a2)]);
    assert_eq!(phase_of_a(&state), Phase::Pending, "the status of the old instance is not the new one's");
    state.handle(synced(&a1, &[("s", true)]));
    assert_eq!(phase_of_a(&state), Phase::Pending, "nor is a late report");

    assert_eq!(on(&mut state, config(&[], true)), [stop("a")]);
    assert!(state.view().pods.contains_key(&name("a")), "shown while it ends");
    let event = gone(&state, "a");
    assert_eq!(on(&mut state, event), [Said::Dismiss(name("a"))]);
    assert!(state.view().pods.is_empty());
}

#[test]
fn a_worker_stays_when_its_pod_is_wanted_again_before_its_report() {
    let mut state = SyncLoop::new([Source::File]);
    let a = wanted("a", "1");
    state.handle(config(&[&a], true));
    state.handle(config(&[], true));
    let late = gone(&state, "a");
    assert_eq!(on(&mut state, config(&[&a], true)), [run(&a)]);
    assert_eq!(on(&mut state, late), []);
    assert!(state.view().pods.contains_key(&name("a")));

    // The worker may still work on the second desired state when the third one repeats the first.
    state.handle(config(&[], true));
    let late = gone(&state, "a");
    state.handle(config(&[&a], true));
    state.handle(config(&[], true));
    assert_eq!(on(&mut state, late), []);
    let event = gone(&state, "a");
    assert_eq!(on(&mut state, event), [Said::Dismiss(name("a"))]);
}

#[test]
fn a_container_that_dies_before_it_is_reported_has_an_owner() {
    let mut state = SyncLoop::new([Source::File]);
    let a = wanted("a", "1");
    state.handle(config(&[&a], true));
    state.handle(Event::Worker(Report::Created { pod: name("a"), container: "c".into() }));
    assert_eq!(on(&mut state, Event::Pleg(PlegEvent::Exited("c".into()))), [run(&a)]);
}

#[test]
fn a_list_wakes_only_those_that_differ_and_all_after_an_outage() {
    let mut state = SyncLoop::new([Source::File]);
    let (a, b) = (wanted("a", "1"), wanted("b", "2"));
    state.handle(config(&[&a, &b], true));
    let both: &[Entry<'_>] =
        &[("a", Some(Source::File), &[("sa", true)]), ("b", Some(Source::File), &[("sb", true)])];
    assert_eq!(on(&mut state, listed(both)), [run(&a), run(&b)], "the runtime's first word");
    state.handle(synced(&a, &[("sa", true)]));
    state.handle(synced(&b, &[("sb", true)]));
    assert_eq!(on(&mut state, listed(both)), [], "at rest");
    let b_died =
        [("a", Some(Source::File), &[("sa", true)] as &[_]), ("b", Some(Source::File), &[("sb", false)])];
    assert_eq!(on(&mut state, listed(&b_died)), [run(&b)]);

    state.handle(Event::Pleg(PlegEvent::Down("gone".into())));
    assert_eq!(state.view().runtime, RuntimeState::Down("gone".into()));
    assert_eq!(on(&mut state, listed(both)), [run(&a), run(&b)]);
    assert_eq!(state.view().runtime, RuntimeState::Up);
}

#[test]
fn orphans_end_only_on_evidence() {
    let orphan: &[Entry<'_>] = &[("x", Some(Source::File), &[("s", true)])];
    let strangers: &[Entry<'_>] =
        &[("made-by-hand", None, &[("s", true)]), ("from-the-api", Some(Source::Api), &[("t", true)])];

    let mut state = SyncLoop::new([Source::File]);
    assert_eq!(on(&mut state, listed(orphan)), [], "the source has not spoken");
    assert!(!state.view().settled);
    assert_eq!(on(&mut state, config(&[], false)), [], "a manifest could not be read");
    assert_eq!(on(&mut state, config(&[], true)), [stop("x")]);
    assert!(state.view().settled);
    assert_eq!(on(&mut state, listed(orphan)), [stop("x")], "it differs from what its worker saw");

    let mut state = SyncLoop::new([Source::File]);
    state.handle(config(&[], true));
    assert_eq!(on(&mut state, listed(strangers)), []);
    assert_eq!(state.left_alone(), [&name("from-the-api")], "and says so");
}

/// The report on a pod in this phase, ready or not.
fn told(pod: &Arc<Pod>, phase: Phase, ready: bool) -> Event {
    let since = jiff::Timestamp::UNIX_EPOCH;
    let ready = Condition { kind: ConditionType::Ready, holds: ready, since, reason: None };
    let state = PodState { phase, conditions: vec![ready], ..PodState::default() };
    let state = Some((pod.clone(), Arc::new(state)));
    let (pod, seen, instances) = (pod.name.clone(), Fingerprint::default(), BTreeSet::new());
    Event::Worker(Report::Synced { pod, state, seen, running: true, number: 0, instances })
}

/// Whom is told what, each as `name: whom it waits for`.
fn waits(commands: Vec<Command>) -> Vec<String> {
    let each = commands.into_iter().map(|command| match command {
        Command::Tell(name, desired) => format!("{}: {}", name.name, order::in_words(&desired.blocked_on)),
        Command::Dismiss(name) => format!("{}: dismissed", name.name),
    });
    each.collect()
}

#[test]
fn those_who_wait_are_told_when_the_others_are_ready() {
    let mut state = SyncLoop::new([Source::File]);
    let (a, b) = (wanted("a", "a"), wanted("b", "b"));
    // Its name comes first, and all of a snapshot is there before anybody is looked for.
    let waits_for_both = Arc::new(pod_after("0", "0", "a,b"));
    assert_eq!(
        waits(state.handle(config(&[&waits_for_both, &a], true))),
        ["0: a (not ready), b (there is no such pod)", "a: "]
    );
    assert_eq!(waits(state.handle(told(&a, Phase::Running, false))), [""; 0], "no news for those who wait");
    assert_eq!(waits(state.handle(told(&a, Phase::Running, true))), ["0: b (there is no such pod)"]);
    assert_eq!(waits(state.handle(config(&[&waits_for_both, &a, &b], true))), ["0: b (not ready)", "b: "]);
    assert_eq!(waits(state.handle(told(&a, Phase::Running, false))), ["0: a (not ready), b (not ready)"]);
    assert_eq!(waits(state.handle(told(&b, Phase::Failed, false))), ["0: a (not ready), b (failed)"]);
    assert_eq!(waits(state.handle(told(&a, Phase::Running, true))), ["0: b (failed)"]);
    assert_eq!(waits(state.handle(told(&b, Phase::Succeeded, false))), ["0: "], "done is as good as ready");

    assert_eq!(waits(state.handle(told(&a, Phase::Running, false))), [""; 0], "it may run by now");
    assert_eq!(waits(state.handle(config(&[&waits_for_both, &b], true))), ["a: "]);

    let edited = Arc::new(pod_after("0", "1", "b"));
    assert_eq!(waits(state.handle(config(&[&edited, &b], true))), ["0: "], "an edit, and all are ready");
    let b2 = wanted("b", "b2");
    let edited = Arc::new(pod_after("0", "2", "b"));
    assert_eq!(
        waits(state.handle(config(&[&edited, &b2], true))),
        ["0: b (not ready)", "b: "],
        "the readiness of the version before is not that of the next"
    );
}

#[test]
fn a_circle_ends_nobody() {
    let (a, b) = (Arc::new(pod_after("a", "1", "b")), Arc::new(pod_after("b", "2", "a")));
    let running: &[Entry<'_>] = &[("a", Some(Source::File), &[("s", true)])];
    let mut state = SyncLoop::new([Source::File]);
    state.handle(listed(running));
    assert_eq!(on(&mut state, config(&[&a, &b], true)), [], "an earlier agent started a");
    let accepted = |pod: &Arc<Pod>| Verdict {
        source: Source::File,
        origin: format!("{}.yaml", pod.name.name),
        document: 1,
        item: None,
        outcome: Outcome::Accepted { subject: pod.name.clone().into(), warnings: vec![] },
    };
    let verdicts = vec![accepted(&a), accepted(&b)];
    let pods = vec![a.clone(), b.clone()];
    state.handle(Event::Config(Snapshot {
        source: Source::File,
        pods,
        objects: vec![],
        complete: true,
        verdicts,
        untrusted_signatures: BTreeMap::new(),
    }));
    let refused: Vec<_> = state.refusals().iter().map(|verdict| verdict.origin.as_str()).collect();
    assert_eq!(refused, ["a.yaml", "b.yaml"], "their own source has taken them");
    assert_eq!(on(&mut state, config(&[&b], true)), [run(&b), stop("a")], "now a is not wanted");
}

#[test]
fn a_ping_is_answered_while_the_loop_turns() {
    let mut state = SyncLoop::new([]);
    let (reply, answer) = async_channel::bounded(1);
    state.handle(Event::Ping(reply));
    assert!(answer.try_recv().is_ok());
}

#[test]
fn what_was_remembered_is_shown_until_somebody_looks_and_forgotten_on_evidence() {
    let a = wanted("a", "1");
    let ready = Arc::new(PodState { phase: Phase::Running, ..PodState::default() });
    let past = |pod: &Arc<Pod>, life, age| {
        let mut checkpoint = Checkpoint::default();
        checkpoint.note(pod, life, ready.clone());
        Remembered { checkpoint, age }
    };
    let open = |pod| past(pod, Life::Open, Age::ThisBoot);
    let lost = Remembered::default();
    let all = [("a", open(&a)), ("gone", open(&wanted("gone", "1"))), ("lost", lost)];
    let all: BTreeMap<_, _> = all.into_iter().map(|(pod, past)| (name(pod), past)).collect();

    let mut state = SyncLoop::new([Source::File]).remembering(all.clone());
    assert_eq!(on(&mut state, config(&[&a], false)), [run(&a)]);
    assert_eq!(phase_of_a(&state), Phase::Running);
    assert_eq!(
        on(&mut state, listed(&[])),
        [run(&a), stop("lost")],
        "the source has not said all that it holds"
    );
    assert_eq!(on(&mut state, config(&[&a], true)), [stop("gone")]);

    let mut state = SyncLoop::new([Source::File]).remembering(all.clone());
    state.handle(config(&[&wanted("a", "2")], true));
    assert_eq!(phase_of_a(&state), Phase::Pending, "another instance");
    let by_hand = listed(&[("gone", None, &[("s", true)])]);
    assert_eq!(on(&mut state, by_hand), [run(&wanted("a", "2")), stop("lost")], "somebody else's by now");

    let mut state = SyncLoop::new([]).remembering(all);
    assert_eq!(on(&mut state, listed(&[])), [stop("lost")], "nobody speaks for its source");

    for (life, shown) in [(Life::Open, Phase::Pending), (Life::Completed, Phase::Running)] {
        let before = BTreeMap::from([(name("a"), past(&a, life, Age::Earlier))]);
        let mut state = SyncLoop::new([Source::File]).remembering(before);
        state.handle(config(&[&a], true));
        assert_eq!(phase_of_a(&state), shown, "{life:?} before the machine booted");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { failure_persistence: None, ..Default::default() })]

    /// However seldom it is shown.
    #[test]
    fn a_view_that_is_brought_up_to_date_shows_all(
        turns in proptest::collection::vec((0..6_u8, 0..3_usize, proptest::bool::ANY, proptest::bool::ANY), 1..60),
    ) {
        let names = ["a", "b", "c"];
        let (mut state, mut kept) = (SyncLoop::new([Source::File]), View::default());
        let mut pods: BTreeMap<_, Arc<Pod>> = BTreeMap::new();
        for (turn, which, is_so, shown) in turns {
            let pod = pods.get(names[which]).cloned();
            let event = match (turn, pod) {
                (0 | 1, _) => {
                    match is_so {
                        true => drop(pods.insert(names[which], wanted(names[which], &turn.to_string()))),
                        false => drop(pods.remove(names[which])),
                    }
                    config(&pods.values().collect::<Vec<_>>(), true)
                }
                (2, Some(pod)) => synced(&pod, &[("s", is_so)]),
                (3, Some(pod)) => told(&pod, Phase::Pending, is_so),
                (4, None) if state.workers.contains_key(&name(names[which])) => gone(&state, names[which]),
                (5, _) if is_so => Event::Pleg(PlegEvent::Down("gone".into())),
                _ => listed(&[(names[which], is_so.then_some(Source::File), &[("s", true)])]),
            };
            state.handle(event);
            if shown {
                state.show(&mut kept);
                proptest::prop_assert_eq!(format!("{kept:?}"), format!("{:?}", state.view()));
            }
        }
    }
}
