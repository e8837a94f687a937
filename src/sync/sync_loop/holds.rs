//! What only one pod can have (a UID, a port of the host): who has it keeps it until nothing of its instance is left, and
//! whoever claims it next waits for that. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::admit::Admission;
use super::{Command, SyncLoop};
use crate::plan::{Starts, Want};
use crate::pod::{Pod, PodName, PodUid};
use crate::sync::mux::claims::{Claim, claims};

/// The claims of the instances of one pod name that may be left on the node.
#[derive(Debug, Default)]
pub(super) struct Holds(BTreeMap<PodUid, BTreeSet<Claim>>);

impl Holds {
    /// An instance is about to be made.
    pub(super) fn add(&mut self, pod: &Pod) {
        self.0.insert(pod.uid.clone(), claims(pod));
    }

    /// An instance may be left of which nothing else is known.
    pub(super) fn add_uid(&mut self, uid: &PodUid) {
        let claim = Claim::Uid(uid.to_string());
        self.0.entry(uid.clone()).or_insert_with(|| BTreeSet::from([claim]));
    }

    /// Only these instances are left, and the one that is wanted; true if others were there before.
    pub(super) fn retain(&mut self, left: &BTreeSet<PodUid>, wanted: Option<&PodUid>) -> bool {
        let before = self.0.len();
        self.0.retain(|uid, _| left.contains(uid) || Some(uid) == wanted);
        self.0.len() < before
    }

    /// Nothing is left.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Something may be left of another instance than this.
    pub(super) fn has_other_than(&self, uid: &PodUid) -> bool {
        self.0.keys().any(|other| other != uid)
    }

    /// A pod cannot have all that it claims for as long as these are held.
    pub(super) fn exclude(&self, claims: &BTreeSet<Claim>) -> bool {
        self.0.values().flatten().any(|held| claims.iter().any(|claim| claim.excludes(held)))
    }
}

/// What a pod's worker was told of the newest desired state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// Nothing yet: what the instance claims may still be another pod's.
    Nothing,
    /// To end the instance before, while the wanted one waits: others may wait for what that one has.
    ToClear,
    /// All of it.
    All,
}

impl SyncLoop {
    /// The newest desired state of a pod, for its worker. While another pod still has what the wanted instance claims,
    /// the instance waits: both would live in the same directories, or listen on the same port.
    pub(super) fn tell(&mut self, name: &PodName) -> Option<Command> {
        let worker = self.workers.get(name)?;
        if worker.admission == Admission::Undecided && matches!(worker.desired.want, Want::Run(_)) {
            return None;
        }
        let mut told = Told::All;
        match (&worker.desired.want, worker.told) {
            (Want::Run(_), Told::ToClear) => told = Told::ToClear,
            (Want::Run(pod), Told::Nothing) if self.is_held(pod) => {
                if !worker.holds.has_other_than(&pod.uid) {
                    return None;
                }
                told = Told::ToClear;
            }
            (Want::Run(pod), Told::Nothing) if pod.has_fixed_uid() && self.uid_is_taken(pod) => return None,
            _ => {}
        }
        let worker = self.workers.get_mut(name)?;
        worker.told = told;
        let mut desired = worker.desired.clone();
        match &desired.want {
            Want::Run(_) if told == Told::ToClear => {
                (desired.want, desired.blocked_on) = (Want::Stop { grace: None }, Vec::new());
            }
            Want::Run(pod) => {
                worker.holds.add(pod);
                if let (Admission::Refused(waiting), Starts::Allowed) = (&worker.admission, &desired.starts) {
                    desired.starts = Starts::NotAdmitted(waiting.clone());
                }
            }
            Want::Stop { .. } | Want::End { .. } => {}
        }
        Some(Command::Tell(name.clone(), desired))
    }

    /// An instance of another name has what a pod claims. Only a UID that a manifest fixes can move to another name.
    fn is_held(&self, pod: &Pod) -> bool {
        let mut claims = claims(pod);
        claims.retain(|claim| pod.has_fixed_uid() || !matches!(claim, Claim::Uid(_)));
        let mut others = self.workers.iter().filter(|(name, _)| **name != pod.name);
        !claims.is_empty() && others.any(|(_, worker)| worker.holds.exclude(&claims))
    }

    /// An earlier agent may have left something of another name with the pod's UID.
    fn uid_is_taken(&self, pod: &Pod) -> bool {
        let Some(list) = &self.listed else {
            // Until the runtime has told what it holds, nobody knows.
            return true;
        };
        let held = list.iter().filter(|(_, listed)| listed.uids.contains(&pod.uid)).map(|(name, _)| name);
        let remembered = self.remembered.iter().filter(|(_, past)| {
            past.checkpoint.instance.as_ref().is_some_and(|instance| instance.uid == pod.uid)
        });
        held.chain(remembered.map(|(name, _)| name)).any(|name| *name != pod.name)
    }

    /// Tells those who have waited for what may be free now.
    pub(super) fn tell_waiting(&mut self) -> Vec<Command> {
        let mut waiting = self.review_admission();
        let untold = self.workers.iter().filter(|(_, worker)| worker.told == Told::Nothing);
        waiting.extend(untold.map(|(name, _)| name.clone()));
        waiting.iter().filter_map(|name| self.tell(name)).collect()
    }
}
