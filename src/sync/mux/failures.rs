//! Random sequences of what sources say, of their failures, and of restarts of the agent, against a plain model.

use proptest::prelude::*;

use super::*;
use crate::pod::testing::pod;

const SOURCES: [Source; 3] = [Source::File, Source::Http, Source::Api];

/// What can happen to the mux.
#[derive(Debug, Clone)]
enum Step {
    /// A source was read whole: these names, each in this version.
    Says(Source, BTreeMap<u8, u8>),
    /// A source could not be read: it holds what it held.
    Fails(Source),
    /// The agent starts anew; each source has what it kept on disk, and no more.
    Restarts,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let source = || prop::sample::select(SOURCES.to_vec());
    let pods = prop::collection::btree_map(0u8..5, 0u8..3, 0..5);
    let step = prop_oneof![
        4 => (source(), pods).prop_map(|(source, pods)| Step::Says(source, pods)),
        3 => source().prop_map(Step::Fails),
        1 => Just(Step::Restarts),
    ];
    prop::collection::vec(step, 0..30)
}

/// The last word of each source: what it holds, and whether that is all.
type Model = BTreeMap<Source, (Vec<Arc<Pod>>, bool)>;

fn held(source: Source, pods: &BTreeMap<u8, u8>) -> Vec<Arc<Pod>> {
    let one = |(name, version): (&u8, &u8)| {
        let pod = pod(&format!("p{name}"), &format!("{source}-{name}-{version}"));
        Arc::new(Pod { source, ..pod })
    };
    pods.iter().map(one).collect()
}

fn snapshot(source: Source, pods: Vec<Arc<Pod>>, complete: bool) -> Snapshot {
    let verdict = |pod: &Arc<Pod>| Verdict {
        source,
        origin: pod.name.name.clone(),
        document: 1,
        item: None,
        outcome: Outcome::Accepted { subject: pod.name.clone().into(), warnings: vec![] },
    };
    Snapshot {
        source,
        verdicts: pods.iter().map(verdict).collect(),
        pods,
        objects: vec![],
        complete,
        untrusted_signatures: BTreeMap::new(),
    }
}

/// Who should have each name: the first source, in order of precedence, that holds it, if all before it have spoken.
fn winners(model: &Model) -> BTreeMap<PodName, Arc<Pod>> {
    let mut winners = BTreeMap::new();
    for pod in SOURCES.iter().map_while(|source| model.get(source)).flat_map(|(pods, _)| pods) {
        winners.entry(pod.name.clone()).or_insert_with(|| pod.clone());
    }
    winners
}

proptest! {
    #[test]
    fn nothing_is_lost_but_by_its_own_sources_word(steps in steps()) {
        let mut mux = PodConfig::new(SOURCES);
        let mut model = Model::new();
        for step in steps {
            let before = winners(&model);
            match step {
                Step::Says(source, pods) => {
                    model.insert(source, (held(source, &pods), true));
                    let updates = mux.apply(snapshot(source, held(source, &pods), true));
                    for update in updates {
                        if let PodUpdate::Remove(name) = update {
                            prop_assert_eq!(before[&name].source, source, "removed by another source's word");
                        }
                    }
                }
                Step::Fails(source) => {
                    let (pods, complete) = model.entry(source).or_default();
                    *complete = false;
                    let updates = mux.apply(snapshot(source, pods.clone(), false));
                    // As a first word it lets those count that waited for it.
                    let harmless = updates.iter().all(|update| matches!(update, PodUpdate::Add(_)));
                    prop_assert!(harmless, "a failure changed {updates:?}");
                }
                Step::Restarts => {
                    mux = PodConfig::new(SOURCES);
                    prop_assert!(SOURCES.iter().all(|source| !mux.is_settled(*source)), "nobody has spoken");
                    // Whoever speaks first, nobody is replaced: here those come first that have the least to say.
                    for (source, (pods, complete)) in model.iter_mut().rev() {
                        *complete = false;
                        let updates = mux.apply(snapshot(*source, pods.clone(), false));
                        prop_assert!(updates.iter().all(|update| matches!(update, PodUpdate::Add(_))));
                    }
                    prop_assert_eq!(&winners(&model), &before, "a restart lost something");
                }
            }
            prop_assert_eq!(&mux.merged, &winners(&model));
            for source in SOURCES {
                let before = SOURCES.iter().take_while(|before| **before < source);
                let complete = model.get(&source).is_some_and(|(_, complete)| *complete)
                    && before.into_iter().all(|before| model.contains_key(before));
                prop_assert_eq!(mux.is_settled(source), complete, "{} may be cleaned up after", source);
            }
            // Whoever holds a name and does not have it is shown as shadowed by the one that has it.
            for verdict in mux.verdicts() {
                let (name, by) = match verdict.outcome {
                    Outcome::Accepted { subject, .. } | Outcome::Unchanged { subject, .. } => {
                        (subject, verdict.source)
                    }
                    Outcome::Shadowed { subject, by } => (subject, by.source),
                    Outcome::Refused(refusal) => return Err(TestCaseError::fail(refusal.to_string())),
                    Outcome::Skipped { reason } => return Err(TestCaseError::fail(reason.clone())),
                };
                // Of a source that does not count yet nothing is merged.
                if let Some(pod) = mux.merged.get(name.pod().unwrap()) {
                    prop_assert_eq!(pod.source, by);
                }
            }
        }
    }
}
