//! What others than the sources want of an instance: that it ends as Failed, or that its containers are replaced. Pure.

use std::collections::BTreeSet;

use super::{Command, SyncLoop};
use crate::plan::Want;
use crate::pod::{ContainerId, PodName, PodUid};
use crate::sync::message::EndPod;

impl SyncLoop {
    /// Ends an instance, if it is the one that is wanted. An edit of its manifest makes another.
    pub(super) fn on_end(&mut self, EndPod { pod: name, uid, failed, grace }: EndPod) -> Vec<Command> {
        let want = self.workers.get(&name).map(|worker| &worker.desired.want);
        let Some(Want::Run(pod)) = want.filter(|want| want.pod().is_some_and(|pod| pod.uid == uid)) else {
            return Vec::new();
        };
        let want = Want::End { pod: pod.clone(), failed, grace };
        let name = self.set_desired(name, want);
        self.tell(&name).into_iter().collect()
    }

    /// Has containers replaced, if they are of the instance that is wanted. Those that were replaced before are forgotten.
    pub(super) fn on_restart(
        &mut self,
        name: PodName,
        uid: &PodUid,
        containers: BTreeSet<ContainerId>,
    ) -> Vec<Command> {
        let Some(worker) = self.workers.get_mut(&name) else { return Vec::new() };
        if !matches!(&worker.desired.want, Want::Run(pod) if pod.uid == *uid) {
            return Vec::new();
        }
        let seen = &worker.seen;
        worker.desired.restarts.retain(|id| seen.contains(id.as_str()));
        worker.desired.restarts.extend(containers);
        self.tell(&name).into_iter().collect()
    }

    /// Has the wanted instance of a pod replaced: its sandboxes, and with them all that runs in them. None if there is none.
    pub(super) fn on_restart_pod(&mut self, name: PodName) -> Option<Vec<Command>> {
        let worker = self.workers.get(&name).filter(|worker| matches!(worker.desired.want, Want::Run(_)))?;
        let uid = worker.desired.want.pod()?.uid.clone();
        let all = worker.seen.ids().map(ContainerId::from).collect();
        Some(self.on_restart(name, &uid, all))
    }
}
