//! Which pods follow from the contents of the URL: the last good version of each pod, one pod per name. Pure. Objects: [`super::objects`].
//!
//! Invariants: a request that fails changes nothing; a pod that turns bad keeps its last good version; a pod goes only
//! when contents in which every part is known by name no longer hold it; of two pods of one name the first stays, and
//! of two of one UID the one that has it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::http::Cause;
use crate::pod::decode::list::{ListContents, ListItem, ObjectItem};
use crate::pod::finding::Finding;
use crate::pod::object::Subject;
use crate::pod::validate::is_valid_name;
use crate::pod::{Pod, PodName, Source};
use crate::sync::mux::Snapshot;
use crate::sync::view::{Outcome, Verdict};
use crate::text::excerpt::one_line;

use super::keep::can_be_kept;
use super::objects::{HeldObject, HeldObjects, settle_objects};
use super::settle::{Settled, settle};

/// More pods than any node runs: a bound on the cost of judging contents.
const MOST_ITEMS: usize = 5000;
/// How much of a reason is told, in bytes: it may quote what the server says.
const MAX_REASON: usize = 2048;

/// The result of one request.
#[derive(Debug)]
pub(super) enum UrlReading {
    /// No contents.
    Failed(UrlFailure),
    /// The same contents as those that were judged last.
    Same,
    /// Contents, taken apart.
    Items {
        /// What they hold.
        contents: ListContents,
        /// The key that signed them; none where none is asked for.
        signer: Option<String>,
    },
}

/// Why there are no contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UrlFailure {
    /// In words.
    pub(super) reason: String,
    /// What it depends on.
    pub(super) cause: Cause,
}

/// A change, to be logged once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UrlChange {
    /// The contents cannot be had any more, or for another reason.
    Failed(String),
    /// The contents can be had again.
    Recovered,
    /// A pod or an object is gone.
    Removed(Subject),
    /// A part of the contents is judged differently, or again.
    Verdict(Verdict),
}

/// What follows from a reading.
#[derive(Debug)]
pub(super) struct Judged {
    /// To be logged.
    pub(super) changes: Vec<UrlChange>,
    /// There when anything changed.
    pub(super) snapshot: Option<Snapshot>,
    /// There when the reading failed.
    pub(super) failure: Option<UrlFailure>,
}

/// A pod that is held: it runs.
#[derive(Debug, Clone)]
pub(super) struct Held {
    /// The pod.
    pub(super) pod: Arc<Pod>,
    /// Its manifest as JSON, for the disk.
    pub(super) manifest: Arc<str>,
    /// The key that signed the contents in which it came.
    pub(super) signer: Option<Arc<str>>,
}

/// What is known of the URL.
#[derive(Debug)]
pub(super) struct UrlJudge {
    /// The URL, as it may be shown.
    url: String,
    held: BTreeMap<PodName, Held>,
    objects: HeldObjects,
    verdicts: Vec<Verdict>,
    /// All that the URL holds is accounted for in `held` and `objects`.
    complete: bool,
    /// The reason that was last reported.
    failed: Option<String>,
    reported: bool,
}

impl UrlJudge {
    /// What an earlier agent held is held, until the URL says otherwise.
    pub(super) fn new(
        url: String,
        kept: impl IntoIterator<Item = Held>,
        objects: impl IntoIterator<Item = HeldObject>,
    ) -> Self {
        let held: BTreeMap<_, _> = kept.into_iter().map(|held| (held.pod.name.clone(), held)).collect();
        let objects: HeldObjects = objects.into_iter().map(|held| (held.object.key.clone(), held)).collect();
        // Where they stood is not kept: they are as a list of their own.
        let verdict = |(index, subject): (usize, Subject)| Verdict {
            source: Source::Http,
            origin: url.clone(),
            document: 1,
            item: Some(index),
            outcome: Outcome::Accepted { subject, warnings: Vec::new() },
        };
        let verdicts = subjects(&held, &objects).enumerate().map(verdict).collect();
        Self { url, held, objects, verdicts, complete: false, failed: None, reported: false }
    }

    /// The pods that are held.
    pub(super) fn held(&self) -> impl Iterator<Item = &Held> + Clone {
        self.held.values()
    }

    /// The objects that are held.
    pub(super) fn objects(&self) -> impl Iterator<Item = &HeldObject> + Clone {
        self.objects.values()
    }

    /// Takes in a reading.
    pub(super) fn apply(&mut self, reading: UrlReading) -> Judged {
        let (ListContents { pods: mut items, objects }, signer) = match reading {
            UrlReading::Failed(failure) => return self.fail(failure),
            UrlReading::Same => return self.succeed(Vec::new()),
            UrlReading::Items { contents, signer } => (contents, signer),
        };
        items.iter_mut().for_each(correct);
        if let Some(reason) =
            too_many(items.len() + objects.len()).or_else(|| nothing_known(&items, &objects))
        {
            return self.fail(UrlFailure { reason, cause: Cause::Other });
        }
        // A part that cannot be told by name may be any of those that seem to be gone.
        let nameless =
            items.iter().any(|item| item.name.is_none()) || objects.iter().any(|o| o.key.is_none());
        let signer: Option<Arc<str>> = signer.map(Arc::from);
        let settled_objects = settle_objects(&self.url, &self.objects, objects, signer.as_ref(), nameless);
        let mut settled = settle(&self.url, &self.held, items, signer, nameless);
        settled.complete &= settled_objects.complete;
        settled.verdicts.extend(settled_objects.verdicts);
        settled.verdicts.sort_by_key(|verdict| (verdict.document, verdict.item));
        let now: BTreeSet<Subject> = subjects(&settled.held, &settled_objects.held).collect();
        let gone = subjects(&self.held, &self.objects).filter(|subject| !now.contains(subject));
        let mut changes: Vec<_> = gone.map(UrlChange::Removed).collect();
        let before: BTreeSet<_> =
            self.verdicts.iter().map(|verdict| verdict.outcome.without_places()).collect();
        for verdict in &settled.verdicts {
            let said = before.contains(&verdict.outcome.without_places());
            let edited = match &verdict.outcome {
                Outcome::Accepted { subject: Subject::Pod(pod), .. } => {
                    let hash = |held: Option<&Held>| held.map(|held| held.pod.hash.clone());
                    hash(self.held.get(pod)) != hash(settled.held.get(pod))
                }
                Outcome::Accepted { subject: Subject::Object(key), .. } => {
                    let object = |held: Option<&HeldObject>| held.map(|held| held.object.clone());
                    object(self.objects.get(key)) != object(settled_objects.held.get(key))
                }
                _ => false,
            };
            if !said || edited {
                changes.push(UrlChange::Verdict(verdict.clone()));
            }
        }
        // A verdict that is gone must leave the view as well.
        let changed = self.verdicts != settled.verdicts || self.complete != settled.complete;
        Settled { held: self.held, verdicts: self.verdicts, complete: self.complete } = settled;
        self.objects = settled_objects.held;
        self.reported &= !changed;
        self.succeed(changes)
    }

    fn fail(&mut self, failure: UrlFailure) -> Judged {
        let failure = UrlFailure { reason: one_line(&failure.reason, MAX_REASON), ..failure };
        let new = self.failed.as_ref() != Some(&failure.reason);
        let changes = if new { vec![UrlChange::Failed(failure.reason.clone())] } else { Vec::new() };
        self.failed = Some(failure.reason.clone());
        let snapshot = new.then(|| self.snapshot());
        Judged { changes, snapshot, failure: Some(failure) }
    }

    fn succeed(&mut self, mut changes: Vec<UrlChange>) -> Judged {
        if self.failed.take().is_some() {
            changes.push(UrlChange::Recovered);
        }
        let changed = !self.reported || !changes.is_empty();
        self.reported = true;
        let snapshot = changed.then(|| self.snapshot());
        Judged { changes, snapshot, failure: None }
    }

    /// All that is known now.
    pub(super) fn snapshot(&self) -> Snapshot {
        let whole = self.failed.iter().map(|reason| Verdict {
            source: Source::Http,
            origin: self.url.clone(),
            document: 0,
            item: None,
            outcome: Outcome::Refused(Finding::whole(reason.clone()).into()),
        });
        Snapshot {
            source: Source::Http,
            pods: self.held.values().map(|held| held.pod.clone()).collect(),
            objects: self.objects.values().map(|held| held.object.clone()).collect(),
            complete: self.complete,
            // For whoever knows the key.
            untrusted_signatures: BTreeMap::new(),
            verdicts: whole.chain(self.verdicts.iter().cloned()).collect(),
        }
    }
}

/// Corrects an item: a name that no pod can have counts as unknown, and a pod that could not be read again from the disk
/// is refused.
fn correct(item: &mut ListItem) {
    match &item.decoded {
        Err(_) => item.name = item.name.take().filter(is_valid_name),
        Ok(_) if can_be_kept(&item.manifest.to_string()) => {}
        Ok(_) => {
            let reason = "nested too deeply to be kept for a start without the server";
            item.decoded = Err(Finding::whole(reason).into());
        }
    }
}

/// All that is held.
fn subjects(held: &BTreeMap<PodName, Held>, objects: &HeldObjects) -> impl Iterator<Item = Subject> {
    let pods = held.keys().map(|name| Subject::Pod(name.clone()));
    pods.chain(objects.keys().map(|key| Subject::Object(key.clone()))).collect::<Vec<_>>().into_iter()
}

fn too_many(count: usize) -> Option<String> {
    (count > MOST_ITEMS).then(|| format!("holds {count} pods, more than {MOST_ITEMS}"))
}

/// The reason if nothing in the contents is a pod: a page of a proxy, an object of another kind.
fn nothing_known(items: &[ListItem], objects: &[ObjectItem]) -> Option<String> {
    let refusal = match (items.first(), objects.first()) {
        (Some(item), _) => item.decoded.as_ref().err()?,
        (None, Some(object)) => object.decoded.as_ref().err()?,
        (None, None) => return None,
    };
    let is_unknown = items.iter().all(|item| item.name.is_none()) && objects.iter().all(|o| o.key.is_none());
    is_unknown.then(|| refusal.to_string())
}

#[cfg(test)]
mod tests;
