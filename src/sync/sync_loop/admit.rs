//! Whom the node has room for. Who was admitted keeps its place until it is over, an edit replaces it, or a pod of higher
//! priority needs it; who was refused is judged again whenever something may be free. Pure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::holds::Told;
use super::{SyncLoop, WorkerEntry};
use crate::plan::Want;
use crate::pod::priority::priority;
use crate::pod::qos::qos_class;
use crate::pod::state::{Failed, FailedReason, Phase, Waiting};
use crate::pod::{ConfigHash, Pod, PodName, PodUid};
use crate::sync::admission::preemption::{Candidate, select_victims};
use crate::sync::admission::{NodeLimits, Requests, Shortage, find_mismatch, find_shortages};

const PREEMPTED: &str = "Preempted in order to admit critical pod";

/// Whether a pod may run on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Placement {
    /// Not judged yet: its worker is told nothing.
    Undecided,
    /// It has its place.
    Admitted,
    /// It has none, and says why.
    Refused(Waiting),
    /// It had one, and another pod needs it.
    Preempted,
}

/// Something to be recorded as an event of a pod.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PodNotice {
    /// The pod.
    pub(crate) pod: Arc<Pod>,
    /// A word of kubelet's.
    pub(crate) reason: String,
    /// A sentence.
    pub(crate) message: String,
}

impl WorkerEntry {
    /// This instance is wanted from now on. What the one before it uses counts until it is gone.
    pub(super) fn await_admission(&mut self, pod: &Pod, limited: bool) {
        let had_place = matches!(self.admission, Placement::Admitted | Placement::Preempted);
        match &self.pod {
            Some(before) if before.same_as(pod) && self.admission == Placement::Admitted => return,
            Some(before) if had_place && self.is_active() => {
                self.leaving = Some(self.leaving.take().unwrap_or_default().max(&Requests::of(before)));
            }
            _ => {}
        }
        self.admission = if limited { Placement::Undecided } else { Placement::Admitted };
    }

    /// A pod of which is remembered that it was preempted still is, until there is room.
    pub(super) fn recall_preemption(&mut self) {
        let failed = self.state.as_ref().and_then(|state| state.failed.as_ref());
        let is_preempted = failed.is_some_and(|failed| failed.reason == FailedReason::Preempting);
        if let (Placement::Undecided, Some(pod), true) = (&self.admission, &self.pod, is_preempted) {
            self.desired.want = Want::End { pod: pod.clone(), failed: preempted(), grace: None };
            self.admission = Placement::Preempted;
        }
    }

    /// What its instances request of the node, if anything of them runs or will.
    fn usage(&self) -> Requests {
        let leaving = self.leaving.clone().unwrap_or_default();
        match (&self.pod, &self.admission) {
            (Some(pod), Placement::Admitted | Placement::Preempted) if self.is_active() => {
                leaving.max(&Requests::of(pod))
            }
            _ => leaving,
        }
    }

    /// Something of its newest instance runs, or may.
    pub(super) fn is_active(&self) -> bool {
        let over = |phase| matches!(phase, Phase::Succeeded | Phase::Failed);
        // What is left of one that was preempted shows its end until it is gone; its successor has the place by then.
        let returns = self.told == Told::ToClear && self.admission == Placement::Admitted;
        returns || !self.state.as_ref().is_some_and(|state| over(state.phase))
    }

    /// Only these instances are left; true if those before the newest were counted until now.
    pub(super) fn forget_left(&mut self, instances: &BTreeSet<(PodUid, Option<ConfigHash>)>) -> bool {
        let is_newest = |(uid, hash): &(PodUid, Option<ConfigHash>)| {
            self.pod.as_ref().is_some_and(|pod| pod.uid == *uid && hash.as_ref() == Some(&pod.hash))
        };
        instances.iter().all(is_newest) && self.leaving.take().is_some()
    }

    /// What is left of an instance is gone: it may run afresh.
    pub(super) fn forget_preemption(&mut self) {
        let failed = self.state.as_ref().and_then(|state| state.failed.as_ref());
        if failed.is_some_and(|failed| failed.reason == FailedReason::Preempting) {
            self.state = None;
        }
    }

    /// It is ending, and what it has is soon free.
    fn is_ending(&self) -> bool {
        !matches!(self.desired.want, Want::Run(_))
    }
}

impl SyncLoop {
    /// The same, for a node that has only so much room.
    pub(crate) fn on_node(self, node: NodeLimits) -> Self {
        Self { node: Some(node), ..self }
    }

    /// What is to be recorded since the last call.
    pub(crate) fn take_notices(&mut self) -> Vec<PodNotice> {
        std::mem::take(&mut self.notices)
    }

    /// Judges all who have no place, and names those of whom the judgement has changed.
    pub(super) fn review_admission(&mut self) -> BTreeSet<PodName> {
        let mut changed = BTreeSet::new();
        // Until the runtime has told what it holds, nobody knows whose place is taken.
        let (Some(node), Some(_)) = (self.node.clone(), &self.listed) else { return changed };
        let in_turn = self.without_place();
        if in_turn.is_empty() {
            return changed;
        }
        let mut room = Room {
            usage: self.workers.iter().map(|(name, worker)| (name.clone(), worker.usage())).collect(),
            node,
        };
        for name in in_turn {
            changed.extend(self.judge(&name, &mut room));
        }
        changed
    }

    /// Those who have no place, in the order in which they are judged: what runs comes first, then what is more important.
    fn without_place(&self) -> Vec<PodName> {
        let waiting = self.workers.iter().filter_map(|(name, worker)| {
            let pod = worker.pod.as_ref()?;
            let has_none = match worker.desired.want {
                Want::Run(_) => worker.admission != Placement::Admitted,
                Want::End { .. } => worker.admission == Placement::Preempted,
                Want::Stop { .. } => false,
            };
            // A state without a refusal was remembered of a pod that had a place.
            let had_place = worker.state.as_ref().is_some_and(|state| state.no_sandbox.is_none());
            let order = (!self.runs_already(worker, pod), Reverse(priority(&pod.spec)), !had_place);
            has_none.then_some((order, worker.desired.generation, name.clone()))
        });
        let mut waiting: Vec<_> = waiting.collect();
        waiting.sort();
        waiting.into_iter().map(|(.., name)| name).collect()
    }

    /// An earlier agent made the instance: it is not refused, though the node had shrunk.
    fn runs_already(&self, worker: &WorkerEntry, pod: &Pod) -> bool {
        let listed = self.listed.as_ref().and_then(|list| list.get(&pod.name));
        worker.admission == Placement::Undecided
            && worker.leaving.is_none()
            && listed.is_some_and(|listed| listed.uids.contains(&pod.uid))
    }

    fn judge(&mut self, name: &PodName, room: &mut Room) -> Vec<PodName> {
        let Some(worker) = self.workers.get(name) else { return Vec::new() };
        let Some(pod) = worker.pod.clone() else { return Vec::new() };
        let wanted = Requests::of(&pod);
        let own = room.usage.get(name).cloned().unwrap_or_default();
        let mut changed = Vec::new();
        let refusal = if self.runs_already(worker, &pod) {
            None
        } else if let Some(mismatch) = find_mismatch(&pod, &room.node) {
            Some(mismatch)
        } else if let Some(shortage) = room.shortages(name, &wanted, |_| true).first() {
            let ending: BTreeSet<_> =
                self.workers.iter().filter(|(_, w)| w.is_ending()).map(|(name, _)| name.clone()).collect();
            let still = room.shortages(name, &wanted, |other| !ending.contains(other));
            let victims = select_victims(&self.candidates(&pod, room), &still);
            // Kept free for it, once they have ended: nobody of lower priority comes between.
            if let Some(victims) = victims {
                room.usage.insert(name.clone(), own.clone().max(&wanted));
                for victim in victims {
                    self.preempt(&victim);
                    changed.push(victim);
                }
            }
            Some(shortage.refusal())
        } else {
            None
        };
        match refusal {
            None => {
                room.usage.insert(name.clone(), own.max(&wanted));
                self.admit(name);
                changed.push(name.clone());
            }
            Some(refusal) => changed.extend(self.refuse(name, refusal).then(|| name.clone())),
        }
        changed
    }

    /// Pods that a pod may take the place of: those of lower priority.
    fn candidates(&self, pod: &Pod, room: &Room) -> Vec<Candidate> {
        let each = self.workers.iter().filter_map(|(name, worker)| {
            let other = worker.pod.as_ref()?;
            let may_go = *name != pod.name
                && worker.admission == Placement::Admitted
                && !worker.is_ending()
                && worker.is_active()
                && priority(&other.spec) < priority(&pod.spec);
            let requests = room.usage.get(name)?.clone();
            may_go.then(|| Candidate { name: name.clone(), class: qos_class(&other.spec), requests })
        });
        each.collect()
    }

    fn admit(&mut self, name: &PodName) {
        let Some(worker) = self.workers.get_mut(name) else { return };
        let before = std::mem::replace(&mut worker.admission, Placement::Admitted);
        if before == Placement::Preempted
            && let Some(pod) = worker.pod.clone()
        {
            // What is left of it goes first, and with it that it has failed.
            self.generations += 1;
            worker.desired.generation = self.generations;
            worker.desired.want = Want::Run(pod);
            worker.told = Told::ToClear;
            self.held.insert(name.clone());
        }
    }

    /// Notes a refusal; false if nothing has changed.
    fn refuse(&mut self, name: &PodName, refusal: Waiting) -> bool {
        let Some(worker) = self.workers.get_mut(name) else { return false };
        // The one that was preempted shows that until there is room again.
        if worker.admission == Placement::Preempted {
            return false;
        }
        let Waiting { reason, message } = refusal;
        let shown = Waiting { message: format!("Pod was rejected: {message}"), reason: reason.clone() };
        let is_news = !matches!(&worker.admission, Placement::Refused(before) if before.reason == reason);
        if let Some(pod) = worker.pod.clone().filter(|_| is_news) {
            self.notices.push(PodNotice { pod, reason, message });
        }
        let refused = Placement::Refused(shown);
        let changed = worker.admission != refused;
        worker.admission = refused;
        changed
    }

    fn preempt(&mut self, name: &PodName) {
        let Some(worker) = self.workers.get_mut(name) else { return };
        let Some(pod) = worker.pod.clone() else { return };
        worker.admission = Placement::Preempted;
        self.generations += 1;
        worker.desired.generation = self.generations;
        worker.desired.want = Want::End { pod: pod.clone(), failed: preempted(), grace: None };
        worker.told = Told::Nothing;
        self.changed.insert(name.clone());
        self.notices.push(PodNotice {
            pod,
            reason: preempted().reason.as_str().into(),
            message: PREEMPTED.into(),
        });
    }
}

fn preempted() -> Failed {
    Failed { reason: FailedReason::Preempting, message: PREEMPTED.to_owned() }
}

/// What is used of the node while pods are judged.
struct Room {
    node: NodeLimits,
    usage: BTreeMap<PodName, Requests>,
}

impl Room {
    /// What there is too little of for a pod, beside these others.
    fn shortages(
        &self,
        name: &PodName,
        wanted: &Requests,
        counts: impl Fn(&PodName) -> bool,
    ) -> Vec<Shortage> {
        let others = self.usage.iter().filter(|(other, _)| *other != name && counts(other));
        let used = others.fold(Requests::default(), |sum, (_, usage)| sum.plus(usage));
        find_shortages(wanted, &used, &self.node.allocatable)
    }
}
