//! The versions of a file, and the judgement on it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Audit, FileState};
use crate::pod::Pod;
use crate::pod::decode::file::DecodedFile;
use crate::pod::decode::list::ItemPath;
use crate::pod::finding::{Finding, Refusal};
use crate::pod::object::{HiddenText, Object, Subject};
use crate::source::claims::Claimed;
use crate::sync::view::Outcome;

/// A valid version of a file.
#[derive(Debug, Clone)]
pub(super) struct Version {
    pub(super) pod: Option<Arc<Pod>>,
    pub(super) objects: Vec<Arc<Object>>,
    pub(super) audit: Audit,
    pub(super) size: usize,
    /// As it was written, until it is on disk.
    pub(super) text: Option<HiddenText>,
}

impl Version {
    /// What a file holds, without its text.
    pub(super) fn new(decoded: DecodedFile, audit: Audit, size: usize) -> Self {
        let pod = decoded.pod.map(|(_, decoded)| Arc::new(decoded.pod));
        let objects = decoded.objects.into_iter().map(|(_, decoded)| Arc::new(decoded.object)).collect();
        Self { pod, objects, audit, size, text: None }
    }

    /// All that only one file can have.
    pub(super) fn claimed(&self) -> Claimed<'_> {
        Claimed { pod: self.pod.as_deref(), objects: &self.objects }
    }

    /// All that the other describes, this one does.
    pub(super) fn names_all_of(&self, other: &Version) -> bool {
        let own: BTreeSet<Subject> = self.claimed().subjects().collect();
        other.claimed().subjects().all(|subject| own.contains(&subject))
    }

    /// Both hold the same versions of the same pod and objects.
    pub(super) fn same_as(&self, other: &Version) -> bool {
        self.same_pod(other) && self.objects == other.objects
    }

    /// Both hold the same version of the same pod, or none.
    pub(super) fn same_pod(&self, other: &Version) -> bool {
        match (&self.pod, &other.pod) {
            (Some(own), Some(other)) => own.same_as(other),
            (None, None) => true,
            _ => false,
        }
    }

    /// Why this may not follow a version: it changes what must not change.
    pub(super) fn changes_immutable(&self, before: &Version) -> Option<Finding> {
        let changed = self.objects.iter().find(|object| {
            let known = before.objects.iter().find(|known| known.key == object.key);
            known.is_some_and(|known| !known.may_become(object))
        })?;
        Some(changed.changed_immutable())
    }
}

/// The judgement on a file as it is now, clashes aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileJudgement {
    /// It is good: what it holds, where, and what its author should know.
    Good(Vec<(ItemPath, Subject, Vec<Finding>)>),
    /// It is not.
    Bad(Refusal),
}

impl FileJudgement {
    /// What is told of each document.
    pub(super) fn outcomes(&self) -> Vec<(ItemPath, Outcome)> {
        match self {
            FileJudgement::Good(subjects) => subjects
                .iter()
                .map(|(path, subject, warnings)| {
                    let (subject, warnings) = (subject.clone(), warnings.clone());
                    (*path, Outcome::Accepted { subject, warnings })
                })
                .collect(),
            FileJudgement::Bad(refusal) => vec![(WHOLE, Outcome::Refused(refusal.clone()))],
        }
    }
}

/// The file as a whole.
pub(super) const WHOLE: ItemPath = ItemPath { document: None, item: None };

impl FileState {
    /// The file as it is now is valid.
    pub(super) fn is_good(&self) -> bool {
        matches!(self.judged, FileJudgement::Good(_))
    }

    /// The version that is asked for. A file that is bad now keeps what it has, and asks for nothing.
    pub(super) fn wanted(&self) -> Option<&Version> {
        if self.is_good() { self.good.as_ref() } else { self.runs.as_ref() }
    }
}
