//! Pods that may not be started.

use super::*;

#[test]
fn a_worker_is_told_when_its_pod_may_not_be_started_and_when_it_may_again() {
    let mut state = SyncLoop::new([Source::File]);
    let (a, b) = (wanted("a", "1"), wanted("b", "2"));
    let event = |reason: Option<&str>| {
        let Event::Config(snapshot) = config(&[&a, &b], true) else { panic!("a snapshot") };
        let untrusted_signatures = reason.map(|reason| (name("a"), reason.to_owned()));
        Event::Config(Snapshot {
            untrusted_signatures: untrusted_signatures.into_iter().collect(),
            ..snapshot
        })
    };
    let told = |commands: Vec<Command>| -> Vec<(String, u64, Starts)> {
        let each = commands.into_iter().map(|command| match command {
            Command::Tell(name, desired) => (name.name, desired.generation, desired.starts),
            Command::Dismiss(name) => panic!("{name} is dismissed"),
        });
        each.collect()
    };
    let entry = |name: &str, generation, starts: &Starts| (name.to_owned(), generation, starts.clone());
    let refused = |reason: &str| Starts::Refused(reason.to_owned());
    let (allowed, one, two) = (Starts::Allowed, refused("key 1"), refused("key 2"));

    assert_eq!(told(state.handle(event(None))), [entry("a", 1, &allowed), entry("b", 2, &allowed)]);
    // The generation stays: what was begun for the pod is still wanted.
    assert_eq!(told(state.handle(event(Some("key 1")))), [entry("a", 1, &one)]);
    assert_eq!(told(state.handle(event(Some("key 1")))), [], "no news");
    assert_eq!(told(state.handle(Event::Probe(name("a")))), [entry("a", 1, &one)], "told with all else");
    assert_eq!(told(state.handle(event(Some("key 2")))), [entry("a", 1, &two)]);
    assert_eq!(told(state.handle(event(None))), [entry("a", 1, &allowed)]);

    let mut state = SyncLoop::new([Source::File]);
    let first = told(state.handle(event(Some("key 1"))));
    assert_eq!(first, [entry("a", 1, &one), entry("b", 2, &allowed)], "from the first on");
}
