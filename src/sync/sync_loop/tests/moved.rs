//! Pods that moved from one source to another.

use super::*;

#[test]
fn a_pod_that_moved_ends_only_if_neither_source_wants_it() {
    for (http_complete, ends) in [(None, false), (Some(false), false), (Some(true), true)] {
        let mut state = SyncLoop::new([Source::File, Source::Http]);
        let sources = [Some(Source::File), Some(Source::Http)].into();
        let moved = Listed { sources, seen: seen(&[("old", false), ("new", true)]), ..Listed::default() };
        assert_eq!(state.handle(Event::Pleg(PlegEvent::Listed([(name("a"), moved)].into()))), []);
        let mut commands = state.handle(config(&[], true));
        if let Some(complete) = http_complete {
            let snapshot = Snapshot {
                source: Source::Http,
                pods: vec![],
                objects: vec![],
                complete,
                untrusted_signatures: BTreeMap::new(),
                verdicts: vec![],
            };
            commands.extend(state.handle(Event::Config(snapshot)));
        }
        assert_eq!(!commands.is_empty(), ends, "the URL's answer is complete: {http_complete:?}");
    }
}
