//! Pods whose manifest fixes their UID: one UID is one name's at a time.

use super::*;

/// A pod whose manifest says `uid: fixed`.
fn fixed(name: &str) -> Arc<Pod> {
    Arc::new(Pod { uid: PodUid::from("fixed"), ..pod(name, &format!("hash-{name}")) })
}

#[test]
fn a_late_report_on_an_earlier_version_of_a_fixed_uid_is_not_the_next_ones() {
    let mut state = SyncLoop::new([Source::File]);
    let before = wanted("a", "1");
    let edited = Arc::new(Pod { hash: "2".into(), ..Pod::clone(&before) });
    state.handle(config(&[&before], true));
    state.handle(config(&[&edited], true));
    for (report, phase) in [(&before, Phase::Pending), (&edited, Phase::Running)] {
        state.handle(synced(report, &[("s", true)]));
        assert_eq!(phase_of_a(&state), phase, "{}", report.hash);
    }
}

#[test]
fn only_what_has_the_same_uid_holds_it_up() {
    let b = fixed("b");
    let remembered = |other: &Arc<Pod>| {
        let mut checkpoint = Checkpoint::default();
        checkpoint.note(other, Life::Open, Arc::default());
        BTreeMap::from([(other.name.clone(), Remembered { checkpoint, age: Age::ThisBoot })])
    };
    // The source is not complete: what is remembered of another name is not ended, and stays.
    for (other, expect) in [(fixed("a"), vec![]), (wanted("a", "other"), vec![run(&b)])] {
        let mut state = SyncLoop::new([Source::File]).remembering(remembered(&other));
        state.handle(listed(&[]));
        assert_eq!(on(&mut state, config(&[&b], false)), expect, "remembered with the UID {}", other.uid);
    }
    let mut state = SyncLoop::new([Source::File]);
    state.handle(listed(&[]));
    let other = wanted("a", "other");
    assert_eq!(on(&mut state, config(&[&other], true)), [run(&other)]);
    assert_eq!(on(&mut state, config(&[&other, &b], true)), [run(&b)], "a worker of another UID runs");
}
