//! UIDs and ports of the host change hands when nothing is left of who had them.

use k8s_openapi::api::core::v1::ContainerPort;

use super::*;

fn fixed(name: &str, uid: &str) -> Arc<Pod> {
    Arc::new(Pod { uid: PodUid::from(uid), ..pod(name, &format!("hash-{name}-{uid}")) })
}

fn with_port(name: &str, hash: &str, port: i32) -> Arc<Pod> {
    let mut pod = pod(name, hash);
    let port = ContainerPort { host_port: Some(port), ..ContainerPort::default() };
    pod.spec.containers[0].ports = Some(vec![port]);
    Arc::new(pod)
}

fn stop(pod: &str) -> Said {
    Said::Tell(name(pod), Want::Stop { grace: None })
}

/// The worker has looked, for the newest desired state, and these instances are left.
fn left(state: &SyncLoop, pod: &Arc<Pod>, instances: &[(&str, &str)]) -> Event {
    let Event::Worker(Report::Synced { pod, state: shown, seen, running, .. }) = synced(pod, &[]) else {
        panic!("a report")
    };
    let number = state.workers[&pod].desired.generation;
    let instances = instances.iter().map(|(uid, hash)| (PodUid::from(*uid), Some((*hash).into()))).collect();
    Event::Worker(Report::Synced { pod, state: shown, seen, running, number, instances })
}

#[test]
fn a_fixed_uid_moves_to_another_name_only_when_the_first_is_gone() {
    let (a, b) = (fixed("a", "fixed"), fixed("b", "fixed"));
    let mut state = SyncLoop::new([Source::File]);
    assert_eq!(on(&mut state, config(&[&a], true)), [], "the runtime may hold it under another name");
    assert_eq!(on(&mut state, listed(&[])), [run(&a)]);
    on(&mut state, synced(&a, &[("s", true)]));
    let commands = on(&mut state, config(&[&b], true));
    assert_eq!(commands, [Said::Tell(name("a"), Want::Stop { grace: None })], "b waits");
    assert!(state.view().pods.contains_key(&name("b")), "and is shown");
    assert_eq!(on(&mut state, listed(&[("a", Some(Source::File), &[("s", true)])])), []);
    let gone = gone(&state, "a");
    assert_eq!(on(&mut state, gone), [Said::Dismiss(name("a")), run(&b)]);

    // The rename happened while no agent ran: the runtime holds the first.
    let mut state = SyncLoop::new([Source::File]);
    assert_eq!(on(&mut state, config(&[&b], true)), []);
    let held = Listed {
        sources: [Some(Source::File)].into(),
        uids: [PodUid::from("fixed")].into(),
        seen: seen(&[("s", true)]),
    };
    let list = Event::Pleg(PlegEvent::Listed([(name("a"), held)].into()));
    assert_eq!(on(&mut state, list), [Said::Tell(name("a"), Want::Stop { grace: None })]);
    let gone = self::gone(&state, "a");
    assert_eq!(on(&mut state, gone), [Said::Dismiss(name("a")), run(&b)]);
}

#[test]
fn whichever_name_comes_first_the_new_one_waits() {
    for (old, new) in [("a", "b"), ("b", "a")] {
        let (first, second) = (fixed(old, "fixed"), fixed(new, "fixed"));
        let mut state = SyncLoop::new([Source::File]);
        on(&mut state, listed(&[]));
        assert_eq!(on(&mut state, config(&[&first], true)), [run(&first)]);
        assert_eq!(on(&mut state, config(&[&second], true)), [stop(old)], "{new} waits");
        let gone = gone(&state, old);
        assert_eq!(on(&mut state, gone), [Said::Dismiss(name(old)), run(&second)]);
    }
}

#[test]
fn what_an_earlier_agent_left_on_disk_alone_is_waited_for_too() {
    let (a, b) = (fixed("a", "fixed"), fixed("b", "fixed"));
    let mut checkpoint = Checkpoint::default();
    checkpoint.note(&a, Life::Open, Default::default());
    let remembered = BTreeMap::from([(name("a"), Remembered { checkpoint, ..Remembered::default() })]);
    let mut state = SyncLoop::new([Source::File]).remembering(remembered);
    assert_eq!(on(&mut state, config(&[&b], true)), []);
    assert_eq!(on(&mut state, listed(&[])), [stop("a")], "b waits until its directories are removed");
    let generation = state.workers[&name("a")].desired.generation;
    let looked = Report::Synced {
        pod: name("a"),
        state: None,
        seen: Fingerprint::default(),
        running: false,
        number: generation,
        instances: BTreeSet::new(),
    };
    assert_eq!(on(&mut state, Event::Worker(looked)), [], "the runtime holds nothing, the disk may");
    let gone = gone(&state, "a");
    assert_eq!(on(&mut state, gone), [Said::Dismiss(name("a")), run(&b)]);
}

#[test]
fn a_pod_that_is_found_running_is_not_ended_while_it_waits() {
    let a = fixed("a", "fixed");
    let mut checkpoint = Checkpoint::default();
    checkpoint.note(&a, Life::Open, Default::default());
    let remembered = BTreeMap::from([(name("a"), Remembered { checkpoint, ..Remembered::default() })]);
    let mut state = SyncLoop::new([Source::File]).remembering(remembered);
    assert_eq!(on(&mut state, config(&[&a], true)), []);
    assert_eq!(on(&mut state, listed(&[("a", Some(Source::File), &[("s", true)])])), [run(&a)]);
}

#[test]
fn a_port_of_the_host_is_free_when_its_owner_is_gone() {
    let (a, b) = (with_port("a", "a1", 80), with_port("b", "b1", 80));
    let mut state = SyncLoop::new([Source::File]);
    on(&mut state, listed(&[]));
    assert_eq!(on(&mut state, config(&[&b], true)), [run(&b)]);
    assert_eq!(on(&mut state, config(&[&a, &b], true)), [], "refused");
    assert_eq!(on(&mut state, config(&[&a], true)), [stop("b")], "a waits");
    let gone = gone(&state, "b");
    assert_eq!(on(&mut state, gone), [Said::Dismiss(name("b")), run(&a)]);

    // An edit gives it up: free when the runtime holds nothing of the instance before.
    let (moved, c) = (with_port("a", "a2", 81), with_port("c", "c1", 80));
    assert_eq!(on(&mut state, config(&[&moved, &c], true)), [run(&moved)], "c waits");
    let report = left(&state, &moved, &[("a1", "a1")]);
    assert_eq!(on(&mut state, report), []);
    let report = left(&state, &moved, &[("a2", "a2")]);
    assert_eq!(on(&mut state, report), [run(&c)]);
}

#[test]
fn two_pods_that_swap_what_they_have_wait_for_each_other_no_longer_than_needed() {
    let (a, b) = (with_port("a", "a1", 80), with_port("b", "b1", 81));
    let mut state = SyncLoop::new([Source::File]);
    on(&mut state, listed(&[]));
    on(&mut state, config(&[&a, &b], true));
    let (a, b) = (with_port("a", "a2", 81), with_port("b", "b2", 80));
    assert_eq!(
        on(&mut state, config(&[&a, &b], true)),
        [stop("a"), stop("b")],
        "both give up what they have"
    );
    let gone_a = gone(&state, "a");
    assert_eq!(on(&mut state, gone_a), [], "b still has the port");
    let gone_b = gone(&state, "b");
    assert_eq!(on(&mut state, gone_b), [run(&a), run(&b)]);
    // It was told twice to end, and has done so twice.
    let again = gone(&state, "a");
    assert_eq!(on(&mut state, again), []);
    assert!(state.workers.contains_key(&name("a")), "the wanted instance is not gone");
}

#[test]
fn two_pods_with_fixed_uids_swap_their_ports_too() {
    let version = |name: &str, hash: &str, port| {
        Arc::new(Pod { uid: PodUid::from(name), ..Pod::clone(&with_port(name, hash, port)) })
    };
    let mut state = SyncLoop::new([Source::File]);
    on(&mut state, listed(&[]));
    let (a, b) = (version("a", "a1", 80), version("b", "b1", 81));
    assert_eq!(on(&mut state, config(&[&a, &b], true)), [run(&a), run(&b)]);
    let (a, b) = (version("a", "a2", 81), version("b", "b2", 80));
    assert_eq!(on(&mut state, config(&[&a, &b], true)), [stop("a"), stop("b")]);
    let gone_a = gone(&state, "a");
    assert_eq!(on(&mut state, gone_a), []);
    let waits = state.view().pods[&name("a")].waits.clone();
    let expect = "starts when nothing is left of pod default/b, which has port 81/TCP of the host";
    assert_eq!(waits.as_deref(), Some(expect));
    let gone_b = gone(&state, "b");
    assert_eq!(on(&mut state, gone_b), [run(&a), run(&b)]);
    assert!(state.view().pods.values().all(|pod| pod.waits.is_none()));

    // What the version before has is free when nothing of it is left, though the next one has its UID.
    let (a, c) = (version("a", "a3", 82), with_port("c", "c1", 81));
    assert_eq!(on(&mut state, config(&[&a, &b, &c], true)), [run(&a)], "c waits");
    let report = left(&state, &a, &[("a", "a2"), ("a", "a3")]);
    assert_eq!(on(&mut state, report), []);
    let report = left(&state, &a, &[("a", "a3")]);
    assert_eq!(on(&mut state, report), [run(&c)]);
}

#[test]
fn the_port_of_a_pod_that_was_removed_while_no_agent_ran_is_waited_for() {
    let (a, b) = (with_port("a", "a1", 80), with_port("b", "b1", 80));
    let mut checkpoint = Checkpoint::default();
    checkpoint.note(&a, Life::Open, Default::default());
    let text = serde_json::to_string(&checkpoint).unwrap();
    let checkpoint: Checkpoint = serde_json::from_str(&text).unwrap();
    let remembered = BTreeMap::from([(name("a"), Remembered { checkpoint, ..Remembered::default() })]);
    let held = || listed(&[("a", Some(Source::File), &[("s", true)])]);

    let mut state = SyncLoop::new([Source::File]).remembering(remembered.clone());
    assert_eq!(on(&mut state, config(&[&b], true)), [], "nobody knows what the runtime holds");
    assert_eq!(on(&mut state, held()), [stop("a")], "b waits");
    let gone_a = gone(&state, "a");
    assert_eq!(on(&mut state, gone_a), [Said::Dismiss(name("a")), run(&b)]);

    // Its source has not said that it is gone.
    let mut state = SyncLoop::new([Source::File]).remembering(remembered.clone());
    assert_eq!(on(&mut state, held()), []);
    assert_eq!(on(&mut state, config(&[&b], false)), []);
    assert!(state.view().pods[&name("b")].waits.is_some());

    // The runtime holds nothing of it, as after a boot.
    let mut state = SyncLoop::new([Source::File]).remembering(remembered);
    on(&mut state, listed(&[]));
    assert_eq!(on(&mut state, config(&[&b], false)), [run(&b)]);
}
