//! The PodConfig mux: whole snapshots of sources come in, differences of the merged state go out.
//!
//! Invariants: no source counts before those of higher precedence have said their first word, were it that they cannot
//! be read; a source's pods change only through that source's own snapshots; on a clash of names the source
//! of higher precedence wins and the other takes over when it goes; applying a snapshot twice changes nothing;
//! the merged state depends on the last snapshot of each source, not on their order. One exception: in place of a pod
//! that waits in a circle, or claims another's UID or host port, the version that was merged before stays.

pub(super) mod claims;
#[cfg(test)]
mod failures;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::plan::Starts;
use crate::plan::order::{Pods, refuse_cycles};
use crate::pod::object::{Object, ObjectKey, ObjectProvider, Subject};
use crate::pod::{ConfigHash, Finding, Pod, PodName, PodUid, Refusal, Source};
use crate::sync::view::{Outcome, Verdict, Winner};
use claims::refuse_claimed;

/// All that a source holds, read whole.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    /// Who speaks.
    pub source: Source,
    /// Its valid pods, last good versions included.
    pub pods: Vec<Arc<Pod>>,
    /// Its valid ConfigMaps and Secrets, last good versions included, but for those that no current key signed.
    pub objects: Vec<Arc<Object>>,
    /// Every manifest was read and is accounted for in `pods`: what is not there is not wanted. Without it, a
    /// pod that runs and is not listed may be the one whose manifest could not be read.
    pub complete: bool,
    /// Of `pods`, those that the current key did not sign, and why: they run on, and are not started.
    pub untrusted_signatures: BTreeMap<PodName, String>,
    /// What became of each document. Which of the accepted ones are unchanged is for the mux to find out.
    pub verdicts: Vec<Verdict>,
}

/// One difference of the merged state.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PodUpdate {
    /// A name that was not there.
    Add(Arc<Pod>),
    /// Another instance, or another source, of a name that was there.
    Update(Arc<Pod>),
    /// A name that is gone.
    Remove(PodName),
}

/// The merged state of all sources.
#[derive(Debug, Default)]
pub(crate) struct PodConfig {
    expected: BTreeSet<Source>,
    snapshots: BTreeMap<Source, Snapshot>,
    merged: Pods,
    /// The ConfigMaps and Secrets that count.
    objects: BTreeMap<ObjectKey, Arc<Object>>,
    /// Where they are looked for, in words.
    places: Arc<str>,
    /// Of the merged pods, those that are not started, and why.
    untrusted_signatures: BTreeMap<PodName, String>,
    /// Versions that are not taken though their source took them: whose, and why.
    refused: BTreeMap<PodName, (Source, Finding)>,
}

impl PodConfig {
    /// A mux for these sources, none of which has spoken.
    pub(crate) fn new(expected: impl IntoIterator<Item = Source>) -> Self {
        Self { expected: expected.into_iter().collect(), ..Self::default() }
    }

    /// The same, which says where objects are looked for.
    pub(crate) fn with_places(self, places: Arc<str>) -> Self {
        Self { places, ..self }
    }

    /// Takes in what a source holds now, and says what that changes.
    pub(crate) fn apply(&mut self, mut snapshot: Snapshot) -> Vec<PodUpdate> {
        if let Some(before) = self.snapshots.get(&snapshot.source) {
            mark_unchanged(before, &mut snapshot);
        }
        self.snapshots.insert(snapshot.source, snapshot);
        let counting = self.snapshots.values().filter(|snapshot| self.counts(snapshot.source));
        let counting: Vec<_> = counting.collect();
        let wanted = merge_snapshots(counting.iter().copied());
        self.objects = merge_objects(&counting);
        let source_of: BTreeMap<_, _> = wanted.iter().map(|(name, pod)| (name.clone(), pod.source)).collect();
        let (wanted, claimed) = refuse_claimed(wanted, &self.merged);
        let (merged, circles) = refuse_cycles(wanted, &self.merged);
        self.refused = claimed
            .into_iter()
            .chain(circles)
            .filter_map(|(name, why)| source_of.get(&name).map(|source| (name, (*source, why))))
            .collect();
        self.untrusted_signatures = self.find_untrusted(&merged);
        let updates = diff_pods(&self.merged, &merged);
        self.merged = merged;
        updates
    }

    /// The pod that should run under this name.
    pub(crate) fn get(&self, name: &PodName) -> Option<&Arc<Pod>> {
        self.merged.get(name)
    }

    /// Whether the pod that should run under this name may be started.
    pub(crate) fn starts(&self, name: &PodName) -> Starts {
        self.untrusted_signatures.get(name).map_or(Starts::Allowed, |reason| Starts::Refused(reason.clone()))
    }

    /// The merged pods that no current key has signed. In place of a version that is refused here an earlier one stays:
    /// a key that signed the newer one did not sign that.
    fn find_untrusted(&self, merged: &Pods) -> BTreeMap<PodName, String> {
        let reason = |name: &PodName, pod: &Arc<Pod>| {
            let snapshot = self.snapshots.get(&pod.source)?;
            let is_newest = snapshot.pods.iter().any(|newest| newest.name == *name && newest.same_as(pod));
            let before = self.untrusted_signatures.get(name).filter(|_| !is_newest);
            snapshot.untrusted_signatures.get(name).or(before).cloned()
        };
        merged.iter().filter_map(|(name, pod)| Some((name.clone(), reason(name, pod)?))).collect()
    }

    /// What a source says counts once those before it have spoken. After a restart of the agent a source may be quicker
    /// than the one whose pod of the same name runs; that pod must not be replaced, and then replaced back.
    fn counts(&self, source: Source) -> bool {
        self.expected.iter().take_while(|before| **before < source).all(|s| self.snapshots.contains_key(s))
    }

    /// Nothing more can be wanted than what is: a running pod of that origin that is not wanted may be ended.
    /// Of a source that this agent was not given nothing is known: a typing error must not end its pods.
    pub(crate) fn is_settled(&self, source: Source) -> bool {
        self.snapshots.get(&source).is_some_and(|s| s.complete) && self.counts(source)
    }

    /// The agent was given this source.
    pub(crate) fn expects(&self, source: Source) -> bool {
        self.expected.contains(&source)
    }

    /// Every source is settled.
    pub(crate) fn all_settled(&self) -> bool {
        self.expected.iter().all(|source| self.is_settled(*source))
    }

    /// A version of this pod is refused here: what runs under its name is not unwanted for that.
    pub(crate) fn refuses(&self, name: &PodName) -> bool {
        self.refused.contains_key(name)
    }

    /// The manifests that their source took and that are refused here.
    pub(crate) fn refusals(&self) -> Vec<Verdict> {
        let all = self.snapshots.values().flat_map(|snapshot| &snapshot.verdicts);
        all.filter_map(|verdict| {
            let outcome = self.refusal(verdict)?;
            Some(Verdict { outcome, ..verdict.clone() })
        })
        .collect()
    }

    fn refusal(&self, verdict: &Verdict) -> Option<Outcome> {
        let pod = verdict.outcome.taken()?.pod()?;
        let (_, why) = self.refused.get(pod).filter(|(source, _)| *source == verdict.source)?;
        let warnings = verdict.outcome.warnings().to_vec();
        Some(Outcome::Refused(Refusal::from(why.clone()).with_warnings(warnings)))
    }

    /// What became of every document, with the clashes between sources.
    pub(crate) fn verdicts(&self) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for snapshot in self.snapshots.values() {
            for verdict in &snapshot.verdicts {
                let mut verdict = verdict.clone();
                if let Some(refusal) = self.refusal(&verdict) {
                    verdict.outcome = refusal;
                } else if let Some(subject) = verdict.outcome.taken()
                    && let Some(source) = self.source_of(subject)
                    && source != snapshot.source
                {
                    let by = Winner { source, origin: self.origin_of(source, subject) };
                    verdict.outcome = Outcome::Shadowed { subject: subject.clone(), by };
                }
                verdicts.push(verdict);
            }
        }
        verdicts
    }

    /// Whose version counts.
    fn source_of(&self, subject: &Subject) -> Option<Source> {
        match subject {
            Subject::Pod(name) => self.merged.get(name).map(|pod| pod.source),
            Subject::Object(key) => self.objects.get(key).map(|object| object.source),
        }
    }

    /// The document of a source that describes something, if one still does.
    fn origin_of(&self, source: Source, subject: &Subject) -> Option<String> {
        let verdicts = &self.snapshots.get(&source)?.verdicts;
        let verdict = verdicts.iter().find(|verdict| verdict.outcome.taken() == Some(subject))?;
        Some(verdict.origin.clone())
    }
}

/// The local manifests as the place where pods find their objects.
impl ObjectProvider for PodConfig {
    fn find(&self, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.objects.get(key)
    }

    fn places(&self) -> &Arc<str> {
        &self.places
    }
}

/// Tells what is accepted anew from what was accepted before as the same instance.
fn mark_unchanged(before: &Snapshot, now: &mut Snapshot) {
    let instances = |snapshot: &Snapshot| -> BTreeMap<PodName, (PodUid, ConfigHash)> {
        snapshot.pods.iter().map(|pod| (pod.name.clone(), (pod.uid.clone(), pod.hash.clone()))).collect()
    };
    fn objects(snapshot: &Snapshot) -> BTreeMap<&ObjectKey, &Arc<Object>> {
        snapshot.objects.iter().map(|object| (&object.key, object)).collect()
    }
    let (old, new) = (instances(before), instances(now));
    let (old_objects, new_objects) = (objects(before), objects(now));
    let is_same = |subject: &Subject| match subject {
        Subject::Pod(name) => old.get(name) == new.get(name),
        Subject::Object(key) => old_objects.get(key) == new_objects.get(key),
    };
    let taken: BTreeSet<_> = before.verdicts.iter().filter_map(|verdict| verdict.outcome.taken()).collect();
    let accepted = |outcome: &Outcome| match outcome {
        Outcome::Accepted { subject, .. } => taken.contains(subject) && is_same(subject),
        _ => false,
    };
    let unchanged: Vec<bool> = now.verdicts.iter().map(|verdict| accepted(&verdict.outcome)).collect();
    for (verdict, unchanged) in now.verdicts.iter_mut().zip(unchanged) {
        if let (Outcome::Accepted { subject, warnings }, true) = (&mut verdict.outcome, unchanged) {
            let (subject, warnings) = (subject.clone(), std::mem::take(warnings));
            verdict.outcome = Outcome::Unchanged { subject, warnings };
        }
    }
}

/// Merges what the sources hold; snapshots come in order of precedence, highest first.
fn merge_snapshots<'a>(snapshots: impl Iterator<Item = &'a Snapshot>) -> Pods {
    let mut merged = BTreeMap::new();
    for pod in snapshots.flat_map(|snapshot| &snapshot.pods) {
        merged.entry(pod.name.clone()).or_insert_with(|| pod.clone());
    }
    merged
}

/// The same for objects.
fn merge_objects(snapshots: &[&Snapshot]) -> BTreeMap<ObjectKey, Arc<Object>> {
    let mut merged = BTreeMap::new();
    for object in snapshots.iter().flat_map(|snapshot| &snapshot.objects) {
        merged.entry(object.key.clone()).or_insert_with(|| object.clone());
    }
    merged
}

/// What leads from one merged state to the next.
fn diff_pods(old: &Pods, new: &Pods) -> Vec<PodUpdate> {
    let removed =
        old.keys().filter(|name| !new.contains_key(*name)).map(|name| PodUpdate::Remove(name.clone()));
    let changed = new.iter().filter_map(|(name, pod)| match old.get(name) {
        None => Some(PodUpdate::Add(pod.clone())),
        Some(before) if !before.same_as(pod) || before.source != pod.source => {
            Some(PodUpdate::Update(pod.clone()))
        }
        Some(_) => None,
    });
    removed.chain(changed).collect()
}
