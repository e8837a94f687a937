//! Pods that the node has no room for, and pods that make room.

use super::*;
use crate::pod::state::FailedReason;
use crate::pod::testing::pod;
use crate::sync::admission::{NodeLimits, PODS};

/// A pod that requests so much memory.
fn sized(name: &str, memory: i64, priority: i32) -> Arc<Pod> {
    sized_as(name, &format!("{name}-1"), memory, priority)
}

fn sized_as(name: &str, hash: &str, memory: i64, priority: i32) -> Arc<Pod> {
    let mut pod = pod(name, hash);
    pod.spec.priority = Some(priority);
    let requests = serde_json::json!({"requests": {"memory": memory.to_string()}});
    pod.spec.containers[0].resources = Some(serde_json::from_value(requests).unwrap());
    Arc::new(pod)
}

fn node(memory: i64) -> NodeLimits {
    let allocatable = [(PODS.to_owned(), 10), ("memory".to_owned(), memory)];
    NodeLimits { allocatable: allocatable.into_iter().collect(), ..NodeLimits::default() }
}

fn limited(memory: i64) -> SyncLoop {
    SyncLoop::new([Source::File]).on_node(node(memory))
}

/// What workers are told, in short: `a run`, `a OutOfmemory`, `a end Preempting`, `a stop`, `a dismissed`.
fn told(commands: Vec<Command>) -> Vec<String> {
    let each = commands.into_iter().map(|command| match command {
        Command::Dismiss(name) => format!("{} dismissed", name.name),
        Command::Tell(name, desired) => {
            let what = match (&desired.want, &desired.starts) {
                (Want::Run(_), Starts::NotAdmitted(waiting)) => waiting.reason.clone(),
                (Want::Run(_), _) => "run".to_owned(),
                (Want::End { failed, .. }, _) => format!("end {}", failed.reason.as_str()),
                (Want::Stop { .. }, _) => "stop".to_owned(),
            };
            format!("{} {what}", name.name)
        }
    });
    let mut told: Vec<_> = each.collect();
    told.sort();
    told
}

/// A worker's report on the newest desired state.
fn report(state: &SyncLoop, pod: &Arc<Pod>, phase: Phase, failed: Option<FailedReason>) -> Event {
    let number = state.workers[&pod.name].desired.generation;
    let failed = failed.map(|reason| crate::pod::state::Failed { reason, message: String::new() });
    let of = PodState { phase, failed, ..PodState::default() };
    Event::Worker(Report::Synced {
        pod: pod.name.clone(),
        state: Some((pod.clone(), Arc::new(of))),
        seen: Fingerprint::default(),
        running: phase == Phase::Running,
        number,
        instances: [(pod.uid.clone(), Some(pod.hash.clone()))].into(),
    })
}

fn gone(state: &SyncLoop, pod: &Arc<Pod>) -> Event {
    let number = state.workers[&pod.name].desired.generation;
    Event::Worker(Report::Gone { pod: pod.name.clone(), number })
}

/// Everything of a pod that the runtime holds, as listed.
fn listed_with(pods: &[&Arc<Pod>]) -> Event {
    let each = pods.iter().map(|pod| {
        let sources = [Some(Source::File)].into();
        (pod.name.clone(), Listed { sources, uids: vec![pod.uid.clone()], ..Listed::default() })
    });
    Event::Pleg(PlegEvent::Listed(each.collect()))
}

#[test]
fn nobody_is_told_before_it_is_known_what_runs() {
    let mut state = limited(100);
    let (a, b) = (sized("a", 60, 0), sized("b", 60, 0));
    assert_eq!(told(state.handle(config(&[&a, &b], true))), [""; 0]);
    // Who runs keeps its place, first in the alphabet or not.
    assert_eq!(told(state.handle(listed_with(&[&b]))), ["a OutOfmemory", "b run"]);
    let notices: Vec<_> = state.take_notices().into_iter().map(|n| (n.pod.name.clone(), n.reason)).collect();
    assert_eq!(notices, [(name("a"), "OutOfmemory".to_owned())]);
    assert_eq!(state.take_notices(), []);
}

#[test]
fn what_runs_is_not_refused_though_the_node_has_shrunk() {
    let mut state = limited(10);
    let (a, b) = (sized("a", 60, 0), sized("b", 60, 0));
    state.handle(listed_with(&[&a, &b]));
    assert_eq!(told(state.handle(config(&[&a, &b], true))), ["a run", "b run"]);
}

#[test]
fn a_refused_pod_runs_as_soon_as_there_is_room() {
    // It is told again when what others use has changed: its message names that.
    let mut state = limited(100);
    let (a, b, c) = (sized("a", 60, 0), sized("b", 60, 0), sized("c", 30, 0));
    state.handle(listed_with(&[]));
    assert_eq!(told(state.handle(config(&[&a, &b, &c], true))), ["a run", "b OutOfmemory", "c run"]);
    assert_eq!(told(state.handle(report(&state, &a, Phase::Running, None))), [""; 0]);
    // It ends, and keeps its place until nothing is left of it.
    assert_eq!(told(state.handle(config(&[&b, &c], true))), ["a stop", "b OutOfmemory"]);
    assert_eq!(told(state.handle(gone(&state, &a))), ["a dismissed", "b run"]);
    // One that completes needs no place any more.
    let d = sized("d", 40, 0);
    assert_eq!(told(state.handle(config(&[&b, &c, &d], true))), ["d OutOfmemory"]);
    assert_eq!(told(state.handle(report(&state, &c, Phase::Succeeded, None))), ["d run"]);
}

#[test]
fn an_edit_that_does_not_fit_leaves_the_version_before_it_running_and_counted() {
    let mut state = limited(100);
    let (a, b) = (sized("a", 60, 0), sized("b", 60, 0));
    state.handle(listed_with(&[]));
    assert_eq!(told(state.handle(config(&[&a], true))), ["a run"]);
    state.handle(report(&state, &a, Phase::Running, None));
    let larger = sized_as("a", "a-2", 200, 0);
    assert_eq!(told(state.handle(config(&[&larger], true))), ["a OutOfmemory"]);
    assert_eq!(told(state.handle(config(&[&larger, &b], true))), ["b OutOfmemory"]);
    // Its own room counts for its successor.
    let smaller = sized_as("a", "a-3", 90, 0);
    assert_eq!(told(state.handle(config(&[&smaller, &b], true))), ["a run"]);
    // Once the one before it is gone, what it used is free.
    let least = sized_as("a", "a-4", 30, 0);
    assert_eq!(told(state.handle(config(&[&least, &b], true))), ["a run", "b OutOfmemory"]);
    assert_eq!(told(state.handle(report(&state, &least, Phase::Running, None))), ["b run"]);
}

#[test]
fn the_more_important_one_is_judged_first_and_takes_the_place_of_the_less_important() {
    let mut state = limited(100);
    let (low, critical) = (sized("a", 60, 0), sized("z", 60, 2_000_001_000));
    state.handle(listed_with(&[]));
    assert_eq!(told(state.handle(config(&[&low, &critical], true))), ["a OutOfmemory", "z run"]);

    let mut state = limited(100);
    let (small, equal) = (sized("b", 30, 0), sized("c", 60, 0));
    state.handle(listed_with(&[]));
    assert_eq!(told(state.handle(config(&[&low, &small], true))), ["a run", "b run"]);
    state.handle(report(&state, &low, Phase::Running, None));
    assert_eq!(told(state.handle(config(&[&low, &small, &equal], true))), ["c OutOfmemory"], "no preemption");
    let all = config(&[&low, &small, &equal, &critical], true);
    let expect = ["a end Preempting", "c OutOfmemory", "z OutOfmemory"];
    assert_eq!(told(state.handle(all)), expect, "b is too small to help");
    // While it ends its place is not free, nor is it anybody else's.
    assert_eq!(told(state.handle(report(&state, &low, Phase::Running, None))), [""; 0]);
    let failed = report(&state, &low, Phase::Failed, Some(FailedReason::Preempting));
    assert_eq!(told(state.handle(failed)), ["c OutOfmemory", "z run"]);
    state.handle(report(&state, &critical, Phase::Running, None));
    // It comes back when there is room: what is left of it goes first.
    assert_eq!(told(state.handle(config(&[&low, &small], true))), ["c stop", "z stop"]);
    assert_eq!(told(state.handle(gone(&state, &equal))), ["c dismissed"]);
    assert_eq!(told(state.handle(gone(&state, &critical))), ["a stop", "z dismissed"]);
    assert_eq!(told(state.handle(gone(&state, &low))), ["a run"]);
}

#[test]
fn a_successor_remembers_who_was_preempted() {
    let (low, critical) = (sized("a", 60, 0), sized("z", 60, 2_000_001_000));
    let failed = crate::pod::state::Failed { reason: FailedReason::Preempting, message: String::new() };
    let state = PodState { phase: Phase::Failed, failed: Some(failed), ..PodState::default() };
    let mut checkpoint = Checkpoint::default();
    checkpoint.note(&low, Life::Completed, Arc::new(state));
    let past = Remembered { checkpoint, age: Age::ThisBoot };
    let mut state = limited(100).remembering([(low.name.clone(), past)].into());
    state.handle(config(&[&low, &critical], true));
    assert_eq!(told(state.handle(listed_with(&[&low, &critical]))), ["a end Preempting", "z run"]);
    assert_eq!(told(state.handle(config(&[&low], true))), ["z stop"]);
    assert_eq!(told(state.handle(gone(&state, &critical))), ["a stop", "z dismissed"]);
    assert_eq!(told(state.handle(gone(&state, &low))), ["a run"]);
}

#[test]
fn a_pod_waits_for_the_plugin_of_its_devices() {
    use crate::sync::message::DeviceChange;
    const GPU: &str = "example.com/gpu";
    let devices = |count: Option<usize>, pods: &[&Arc<Pod>]| {
        Event::Devices(DeviceChange {
            allocatable: count.map(|count| (GPU.to_owned(), count)).into_iter().collect(),
            health: Arc::default(),
            pods: pods.iter().map(|pod| pod.uid.clone()).collect(),
        })
    };
    let needy = |name: &str, count: &str| {
        let mut pod = Pod::clone(&sized(name, 1, 0));
        let amounts = serde_json::json!({"requests": {GPU: count}, "limits": {GPU: count}});
        pod.spec.containers[0].resources = Some(serde_json::from_value(amounts).unwrap());
        Arc::new(pod)
    };
    let (a, b, plain) = (needy("a", "2"), needy("b", "1"), sized("c", 1, 0));
    let mut state = limited(100);
    assert_eq!(told(state.handle(config(&[&a, &b, &plain], true))), [""; 0]);
    assert_eq!(
        told(state.handle(listed(&[]))),
        ["a OutOfexample.com/gpu", "b OutOfexample.com/gpu", "c run"]
    );
    // No plugin has registered; one registers, with too little, then with enough for one of them.
    assert_eq!(told(state.handle(devices(None, &[]))), [""; 0]);
    assert_eq!(told(state.handle(devices(Some(0), &[]))), [""; 0]);
    assert_eq!(told(state.handle(devices(Some(1), &[]))), ["a OutOfexample.com/gpu", "b run"]);
    assert_eq!(
        told(state.handle(devices(Some(2), &[]))),
        ["a OutOfexample.com/gpu"],
        "it says how many there are"
    );
    assert_eq!(told(state.handle(devices(Some(2), &[]))), [""; 0]);
    state.handle(report(&state, &b, Phase::Running, None));
    // Who has its place keeps it when the plugin goes; a change of health wakes those that it is about.
    assert_eq!(told(state.handle(devices(Some(0), &[]))), ["a OutOfexample.com/gpu"]);
    assert_eq!(told(state.handle(devices(Some(0), &[&b]))), ["b run"]);
    assert_eq!(told(state.handle(devices(Some(3), &[]))), ["a run"]);
}
