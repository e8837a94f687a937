//! What only one pod can have (a UID, a port of the host): who has it keeps it until nothing of its instance is left, and
//! whoever claims it next waits for that. Pure.

use std::collections::BTreeSet;

use super::admit::Placement;
use super::{Command, SyncLoop};
use crate::plan::checkpoint::InstanceRecord;
use crate::plan::{Starts, Want};
use crate::pod::{ConfigHash, Pod, PodName, PodUid};
use crate::sync::mux::claims::{Claim, claims, claims_of};

/// The claims of the instances of one pod name that may be left on the node. A UID that the manifest fixes is that of each
/// of its versions: the hash tells them apart. Lists: every pod has one entry, and a map takes twenty times the memory.
#[derive(Debug, Default)]
pub(super) struct Holds(Vec<Hold>);

/// What one instance holds.
#[derive(Debug)]
struct Hold {
    uid: PodUid,
    hash: ConfigHash,
    claims: Box<[Claim]>,
}

impl Holds {
    /// An instance is about to be made.
    pub(super) fn add(&mut self, pod: &Pod) {
        self.remove(&pod.uid, &pod.hash);
        self.push(Hold {
            uid: pod.uid.clone(),
            hash: pod.hash.clone(),
            claims: claims(pod).into_iter().collect(),
        });
    }

    /// An instance of an earlier agent may be left.
    pub(super) fn add_left(&mut self, instance: &InstanceRecord) {
        let (uid, hash) = (&instance.uid, &instance.hash);
        if !self.0.iter().any(|hold| hold.uid == *uid && hold.hash == *hash) {
            let claims = claims_of(uid, instance.host_ports.iter().cloned());
            self.push(Hold { uid: uid.clone(), hash: hash.clone(), claims: claims.into_iter().collect() });
        }
    }

    fn push(&mut self, hold: Hold) {
        self.0.reserve_exact(1);
        self.0.push(hold);
    }

    fn remove(&mut self, uid: &PodUid, hash: &ConfigHash) {
        self.0.retain(|hold| hold.uid != *uid || hold.hash != *hash);
    }

    /// Only these instances are left, and the one that is wanted; true if others were there before.
    pub(super) fn retain(
        &mut self,
        left: &BTreeSet<(PodUid, Option<ConfigHash>)>,
        wanted: Option<&Pod>,
    ) -> bool {
        let before = self.0.len();
        self.0.retain(|Hold { uid, hash, .. }| {
            let is_wanted = wanted.is_some_and(|pod| pod.uid == *uid && pod.hash == *hash);
            let mut same_uid = left.iter().filter(|(left, _)| left == uid);
            // One that does not tell its hash may be any.
            is_wanted || same_uid.any(|(_, left)| left.as_ref().is_none_or(|left| left == hash))
        });
        self.0.len() < before
    }

    /// Nothing is left.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Something may be left of another instance than this.
    pub(super) fn has_other_than(&self, pod: &Pod) -> bool {
        self.0.iter().any(|hold| hold.uid != pod.uid || hold.hash != pod.hash)
    }

    /// What a pod claims and cannot have for as long as these are held.
    fn exclude<'a>(&self, claims: &'a BTreeSet<Claim>) -> Option<&'a Claim> {
        claims
            .iter()
            .find(|claim| self.0.iter().flat_map(|hold| &hold.claims).any(|held| claim.excludes(held)))
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
        if worker.admission == Placement::Undecided && matches!(worker.desired.want, Want::Run(_)) {
            return None;
        }
        let (mut told, mut waits) = (Some(Told::All), None);
        match (&worker.desired.want, worker.told) {
            (Want::Run(_), Told::ToClear) => (told, waits) = (Some(Told::ToClear), worker.waits.clone()),
            (Want::Run(pod), Told::Nothing) => {
                let holder = self.holder(pod);
                waits = holder.map(|(claim, owner)| claim.in_words(&owner).into());
                if waits.is_some() {
                    told = worker.holds.has_other_than(pod).then_some(Told::ToClear);
                } else if pod.has_fixed_uid() && self.uid_is_taken(pod) {
                    told = None;
                }
            }
            _ => {}
        }
        let worker = self.workers.get_mut(name)?;
        if worker.waits != waits {
            worker.waits = waits;
            self.changed.insert(name.clone());
        }
        let told = told?;
        worker.told = told;
        let mut desired = worker.desired.clone();
        match &desired.want {
            Want::Run(_) if told == Told::ToClear => {
                (desired.want, desired.blocked_on) = (Want::Stop { grace: None }, Vec::new());
            }
            Want::Run(pod) => {
                worker.holds.add(pod);
                if let (Placement::Refused(waiting), Starts::Allowed) = (&worker.admission, &desired.starts) {
                    desired.starts = Starts::NotAdmitted(waiting.clone());
                }
            }
            Want::Stop { .. } | Want::End { .. } => {}
        }
        Some(Command::Tell(name.clone(), desired))
    }

    /// What a pod claims that an instance of another name has, and whose that is. Only a UID that a manifest fixes can move to
    /// another name.
    fn holder(&self, pod: &Pod) -> Option<(Claim, PodName)> {
        let mut claims = claims(pod);
        claims.retain(|claim| pod.has_fixed_uid() || !matches!(claim, Claim::Uid(_)));
        if claims.is_empty() {
            return None;
        }
        let others = self.workers.iter().filter(|(name, _)| **name != pod.name);
        let held = others.map(|(name, worker)| (name, worker.holds.exclude(&claims)));
        // Of an earlier agent, and not looked at yet: it has its ports for as long as the runtime holds it.
        let is_listed = |name: &PodName| self.listed.as_ref().is_none_or(|list| list.contains_key(name));
        let past = self.remembered.iter().filter(|(name, _)| **name != pod.name && is_listed(name));
        let past = past.filter_map(|(name, past)| {
            let mut holds = Holds::default();
            holds.add_left(past.checkpoint.instance.as_ref()?);
            Some((name, holds.exclude(&claims)))
        });
        let mut all = held.chain(past);
        all.find_map(|(name, claim)| Some((claim?.clone(), name.clone())))
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
