//! Looks again at what desired states depend on: other pods, keys, ConfigMaps and Secrets.

use std::sync::Arc;

use super::{SyncLoop, WorkerEntry};
use crate::plan::order::{self, Lack};
use crate::plan::{Desired, Want};
use crate::pod::PodName;
use crate::pod::object::PodObjects;
use crate::pod::state::Phase;

impl SyncLoop {
    /// Looks anew at those who wait, and names those whose wait has changed. A pod that waits for nobody never waits
    /// again: it may run by now.
    pub(super) fn review_held(&mut self) -> Vec<PodName> {
        let mut changed = Vec::new();
        for name in std::mem::take(&mut self.held) {
            let Some(WorkerEntry { desired: Desired { want: Want::Run(pod), blocked_on, .. }, .. }) =
                self.workers.get(&name)
            else {
                continue;
            };
            let now = order::unmet(pod, |name| self.lack(name));
            if !now.is_empty() {
                self.held.insert(name.clone());
            }
            if now != *blocked_on
                && let Some(worker) = self.workers.get_mut(&name)
            {
                worker.desired.blocked_on = now;
                changed.push(name);
            }
        }
        changed
    }

    /// Looks anew at which pods may be started, and names those of which it has changed.
    pub(super) fn review_starts(&mut self) -> Vec<PodName> {
        let mut changed = Vec::new();
        for (name, WorkerEntry { desired, .. }) in &mut self.workers {
            let now = self.config.starts(name);
            if matches!(desired.want, Want::Run(_)) && desired.starts != now {
                desired.starts = now;
                changed.push(name.clone());
            }
        }
        changed
    }

    /// Looks anew at the objects that pods refer to, and names the pods of which one has changed.
    pub(super) fn review_objects(&mut self) -> Vec<PodName> {
        let mut changed = Vec::new();
        for (name, worker) in self.workers.iter_mut().filter(|(_, worker)| !worker.references.is_empty()) {
            let now = Some(PodObjects::collect(&worker.references, &self.config));
            if worker.desired.objects.as_deref() != now.as_ref() {
                worker.desired.objects = now.map(Arc::new);
                changed.push(name.clone());
            }
        }
        changed
    }

    /// What a pod lacks for others to start after it. One that has done its work lacks nothing.
    fn lack(&self, name: &PodName) -> Option<Lack> {
        if self.config.get(name).is_none() {
            return Some(Lack::Absent);
        }
        let state = self.workers.get(name).and_then(|worker| worker.state.as_ref());
        match state.map(|state| state.phase) {
            Some(Phase::Succeeded) => None,
            Some(Phase::Failed) => Some(Lack::Failed),
            Some(Phase::Pending | Phase::Running) | None => {
                (!state.is_some_and(|state| state.is_ready())).then_some(Lack::NotReady)
            }
        }
    }
}
