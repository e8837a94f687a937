//! The PodConfig mux: whole snapshots of sources come in, differences of the merged state go out.
//!
//! Invariants: a source's pods change only through that source's own snapshots; on a clash of names the source
//! of higher precedence wins and the other takes over when it goes; applying a snapshot twice changes nothing;
//! the merged state depends on the last snapshot of each source, not on their order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::pod::{Pod, PodName, Source};
use crate::view::{Outcome, Verdict};

/// All that a source holds, read whole.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Who speaks.
    pub source: Source,
    /// Its valid pods, last good versions included.
    pub pods: Vec<Arc<Pod>>,
    /// Every manifest was read and is accounted for in `pods`: what is not there is not wanted. Without it, a
    /// pod that runs and is not listed may be the one whose manifest could not be read.
    pub complete: bool,
    /// What became of each manifest.
    pub verdicts: Vec<Verdict>,
}

/// One difference of the merged state.
#[derive(Debug, Clone, PartialEq)]
pub enum PodUpdate {
    /// A name that was not there.
    Add(Arc<Pod>),
    /// Another instance, or another source, of a name that was there.
    Update(Arc<Pod>),
    /// A name that is gone.
    Remove(PodName),
}

/// The merged state of all sources.
#[derive(Debug, Default)]
pub struct PodConfig {
    expected: BTreeSet<Source>,
    snapshots: BTreeMap<Source, Snapshot>,
    merged: BTreeMap<PodName, Arc<Pod>>,
}

impl PodConfig {
    /// A mux for these sources, none of which has spoken.
    pub fn new(expected: impl IntoIterator<Item = Source>) -> Self {
        Self { expected: expected.into_iter().collect(), ..Self::default() }
    }

    /// Takes in what a source holds now, and says what that changes.
    pub fn apply(&mut self, snapshot: Snapshot) -> Vec<PodUpdate> {
        self.snapshots.insert(snapshot.source, snapshot);
        let merged = merge_snapshots(self.snapshots.values());
        let updates = diff_pods(&self.merged, &merged);
        self.merged = merged;
        updates
    }

    /// Nothing more can be wanted than what is: a running pod of that origin that is not wanted may be ended.
    /// Of a source that this agent was not given nothing is known: a typing error must not end its pods.
    pub fn is_settled(&self, source: Source) -> bool {
        self.snapshots.get(&source).is_some_and(|s| s.complete)
    }

    /// The agent was given this source.
    pub fn expects(&self, source: Source) -> bool {
        self.expected.contains(&source)
    }

    /// Every source is settled.
    pub fn all_settled(&self) -> bool {
        self.expected.iter().all(|source| self.is_settled(*source))
    }

    /// What became of every manifest, with the clashes between sources.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for snapshot in self.snapshots.values() {
            for verdict in &snapshot.verdicts {
                let mut verdict = verdict.clone();
                if let Outcome::Accepted { pod, .. } = &verdict.outcome
                    && let Some(winner) = self.merged.get(pod)
                    && winner.source != snapshot.source
                {
                    verdict.outcome = Outcome::Shadowed { pod: pod.clone(), by: winner.source };
                }
                verdicts.push(verdict);
            }
        }
        verdicts
    }
}

/// Merges what the sources hold; snapshots come in order of precedence, highest first.
fn merge_snapshots<'a>(snapshots: impl Iterator<Item = &'a Snapshot>) -> BTreeMap<PodName, Arc<Pod>> {
    let mut merged = BTreeMap::new();
    for pod in snapshots.flat_map(|snapshot| &snapshot.pods) {
        merged.entry(pod.name.clone()).or_insert_with(|| pod.clone());
    }
    merged
}

/// What leads from one merged state to the next.
fn diff_pods(old: &BTreeMap<PodName, Arc<Pod>>, new: &BTreeMap<PodName, Arc<Pod>>) -> Vec<PodUpdate> {
    let removed =
        old.keys().filter(|name| !new.contains_key(*name)).map(|name| PodUpdate::Remove(name.clone()));
    let changed = new.iter().filter_map(|(name, pod)| match old.get(name) {
        None => Some(PodUpdate::Add(pod.clone())),
        Some(before) if before.uid != pod.uid || before.hash != pod.hash || before.source != pod.source => {
            Some(PodUpdate::Update(pod.clone()))
        }
        Some(_) => None,
    });
    removed.chain(changed).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pod::testing::pod;

    fn snapshot(source: Source, pods: Vec<Arc<Pod>>) -> Snapshot {
        let verdicts = pods
            .iter()
            .map(|p| Verdict {
                source,
                origin: p.name.name.clone(),
                outcome: Outcome::Accepted { pod: p.name.clone(), warnings: vec![] },
            })
            .collect();
        Snapshot { source, pods, complete: true, verdicts }
    }

    fn from(source: Source, name: &str, hash: &str) -> Arc<Pod> {
        Arc::new(Pod { source, ..pod(name, hash) })
    }

    #[test]
    fn differences_are_what_changed_and_nothing_else() {
        let mut mux = PodConfig::new([Source::File]);
        let a1 = from(Source::File, "a", "1");
        let a2 = from(Source::File, "a", "2");
        let b = from(Source::File, "b", "1");
        assert_eq!(
            mux.apply(snapshot(Source::File, vec![a1.clone(), b.clone()])),
            [PodUpdate::Add(a1.clone()), PodUpdate::Add(b.clone())]
        );
        assert_eq!(mux.apply(snapshot(Source::File, vec![a1, b])), []);
        assert_eq!(
            mux.apply(snapshot(Source::File, vec![a2.clone()])),
            [PodUpdate::Remove(PodName::new("default", "b")), PodUpdate::Update(a2)]
        );
    }

    #[test]
    fn the_directory_wins_and_the_url_takes_over_when_it_goes() {
        let mut mux = PodConfig::new([Source::File, Source::Http]);
        let file = from(Source::File, "a", "1");
        let http = from(Source::Http, "a", "2");
        mux.apply(snapshot(Source::Http, vec![http.clone()]));
        assert!(!mux.all_settled() && mux.is_settled(Source::Http) && !mux.is_settled(Source::File));
        assert_eq!(mux.apply(snapshot(Source::File, vec![file.clone()])), [PodUpdate::Update(file)]);
        assert!(mux.verdicts().iter().any(
            |v| matches!(&v.outcome, Outcome::Shadowed { by: Source::File, .. } if v.source == Source::Http)
        ));
        assert_eq!(mux.apply(snapshot(Source::File, vec![])), [PodUpdate::Update(http)]);
        assert!(mux.all_settled());
    }

    #[test]
    fn nothing_is_known_of_a_source_that_was_not_given_or_is_incomplete() {
        let mut mux = PodConfig::new([Source::File]);
        assert!(!mux.is_settled(Source::Api) && !mux.is_settled(Source::File));
        mux.apply(Snapshot { complete: false, ..snapshot(Source::File, vec![]) });
        assert!(!mux.is_settled(Source::File));
    }

    fn snapshots() -> impl Strategy<Value = Vec<Snapshot>> {
        let source = prop_oneof![Just(Source::File), Just(Source::Http), Just(Source::Api)];
        let pods = prop::collection::btree_map(0u8..5, 0u8..3, 0..5);
        let one = (source, pods).prop_map(|(source, pods)| {
            let held = pods.into_iter().map(|(n, h)| from(source, &format!("p{n}"), &format!("{source}{h}")));
            snapshot(source, held.collect())
        });
        prop::collection::vec(one, 0..12)
    }

    fn replay(updates: impl IntoIterator<Item = PodUpdate>, state: &mut BTreeMap<PodName, Arc<Pod>>) {
        for update in updates {
            match update {
                PodUpdate::Add(pod) => assert!(state.insert(pod.name.clone(), pod).is_none()),
                PodUpdate::Update(pod) => assert!(state.insert(pod.name.clone(), pod).is_some()),
                PodUpdate::Remove(name) => assert!(state.remove(&name).is_some()),
            }
        }
    }

    proptest! {
        #[test]
        fn merging_is_idempotent_and_blind_to_order(snapshots in snapshots()) {
            let mut mux = PodConfig::new([Source::File]);
            let mut followed = BTreeMap::new();
            for snapshot in &snapshots {
                replay(mux.apply(snapshot.clone()), &mut followed);
                prop_assert!(mux.apply(snapshot.clone()).is_empty(), "the same snapshot again changes nothing");
            }
            prop_assert_eq!(&followed, &mux.merged);

            // Only the last word of each source counts, whoever spoke first.
            let mut last = BTreeMap::new();
            for snapshot in &snapshots {
                last.insert(snapshot.source, snapshot.clone());
            }
            let mut backwards = PodConfig::new([Source::File]);
            for snapshot in last.into_values().rev() {
                backwards.apply(snapshot);
            }
            prop_assert_eq!(&backwards.merged, &mux.merged);
        }
    }
}
