//! The ConfigMaps and Secrets of the wanted instance: what it has, what its volumes hold, and what it keeps though it is gone.
//!
//! Invariant: what an instance once had it keeps until it ends, in memory, in its volumes and on disk. It is on disk before
//! anything is made of it: whoever had it may forget it at any time, and the agent may be killed right after that.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};

use super::Worker;
use crate::host::volume::OldFiles;
use crate::plan::checkpoint::Durability;
use crate::plan::{Desired, Lacks, Waiting, Want};
use crate::pod::object::references::restarts_on_change;
use crate::pod::object::{ObjectKey, PodObjects};
use crate::pod::observed::Observed;
use crate::pod::{ContainerRef, Pod, env};
use crate::status::events::EventType;
use crate::text::chain;

/// How long the files that were replaced stay in a volume, for those who were on their way to them.
const OLD_FILES_STAY: Duration = Duration::from_secs(2);
/// How long to wait after volumes could not be brought up to date.
const RETRY: Duration = Duration::from_secs(10);

/// The objects of one instance.
#[derive(Debug)]
pub(super) struct InstanceObjects {
    /// The newest versions that there were.
    current: Arc<PodObjects>,
    /// Those that its volumes hold, if this agent knows.
    projected: Option<Arc<PodObjects>>,
    /// As they are on disk.
    kept: Arc<PodObjects>,
    /// Those that nobody else has any more: they are on disk through a power cut, too.
    lost: BTreeSet<ObjectKey>,
    /// When the volumes are to be looked at again.
    due: Option<Duration>,
    /// What was last said to be missing.
    told: Lacks,
}

impl Worker {
    /// Takes over the objects that are there now.
    pub(super) async fn follow_objects(&mut self, desired: &Desired) {
        let (Want::Run(pod), Some(given)) = (&desired.want, &desired.objects) else {
            return;
        };
        let Some(instance) = &mut self.instance else { return };
        let mut before = match instance.objects.take() {
            Some(before) => before,
            None => Box::new(self.read_kept(pod).await),
        };
        let Some(instance) = &mut self.instance else { return };
        let now = keep_lost(&before.current, given);
        if *before.current != now {
            before.current = Arc::new(now);
            instance.prepared = false;
            // What failed for want of an object is tried again at once.
            instance
                .history
                .starts
                .retain(|_, failure| failure.waiting.reason != "CreateContainerConfigError");
            instance.history.sandbox.take_if(|failure| failure.waiting.reason == "FailedMount");
            if pod.spec.image_pull_secrets.is_some() {
                instance.history.pulls.clear();
            }
        }
        let lost = lost_of(&before.current, given);
        let is_new = before.kept.found != before.current.found || !lost.is_subset(&before.lost);
        // What has completed starts nothing any more, and has nothing on disk.
        if is_new && !self.checkpoint.current.has_completed(pod) {
            let durability = if lost.is_empty() { Durability::Process } else { Durability::Power };
            let objects = before.current.found.values().cloned().collect();
            self.uids_on_disk.insert(pod.uid.clone());
            match self.context.checkpoints.write_objects(&pod.uid, objects, durability).await {
                Ok(()) => {
                    before.kept = before.current.clone();
                    before.lost = lost;
                }
                // Tried again in the next pass.
                Err(error) => {
                    warn!(pod = %self.name, error = chain(&error), "objects would not outlive the agent");
                }
            }
        }
        if let Some(instance) = &mut self.instance {
            instance.objects = Some(before);
        }
        self.tell_lacks(pod);
    }

    /// What an earlier agent kept for the instance.
    async fn read_kept(&self, pod: &Pod) -> InstanceObjects {
        let read = self.context.checkpoints.read_objects(&pod.uid).await.unwrap_or_else(|error| {
            warn!(pod = %self.name, error = chain(&error), "what was kept of objects is lost");
            Vec::new()
        });
        let found = read.into_iter().map(|object| (object.key.clone(), Arc::new(object)));
        let current = Arc::new(PodObjects { found: found.collect(), places: Arc::default() });
        InstanceObjects {
            kept: current.clone(),
            current,
            lost: BTreeSet::new(),
            projected: None,
            due: None,
            told: Lacks::default(),
        }
    }

    /// The objects of the instance.
    pub(super) fn objects(&self) -> Arc<PodObjects> {
        let own = self.instance.as_ref().and_then(|instance| instance.objects.as_ref());
        own.map(|objects| objects.current.clone()).unwrap_or_default()
    }

    /// What the instance cannot start without.
    pub(super) fn lacks(&self) -> Lacks {
        let instance = self.instance.as_ref().filter(|instance| instance.objects.is_some());
        instance.map(|instance| Lacks::find(&instance.pod, &self.objects())).unwrap_or_default()
    }

    /// Logs and records what is missing, on change.
    fn tell_lacks(&mut self, pod: &Pod) {
        let now = self.lacks();
        let Some(objects) = self.instance.as_mut().and_then(|instance| instance.objects.as_mut()) else {
            return;
        };
        let before = std::mem::replace(&mut objects.told, now.clone());
        let new = |old: Option<&Waiting>, now: Option<&Waiting>| now.filter(|now| old != Some(*now)).cloned();
        let volumes = new(before.volumes.as_ref(), now.volumes.as_ref());
        if let Some(Waiting { reason, message }) = volumes {
            let events = &self.context.handles.telemetry.events;
            events.warn_of_pod((&self.name, &pod.uid), reason, &message);
        }
        for (which, spec) in pod.containers() {
            if let Some(waiting) = new(before.env.get(&spec.name), now.env.get(&spec.name)) {
                self.record_warning(
                    pod,
                    (which, &spec.name),
                    "Failed",
                    &format!("Error: {}", waiting.message),
                );
            }
        }
    }

    fn record_warning(
        &self,
        pod: &Pod,
        container: (ContainerRef, &str),
        reason: &'static str,
        message: &str,
    ) {
        let events = &self.context.handles.telemetry.events;
        events.record(EventType::Warning, (&self.name, &pod.uid), container, reason, message);
    }

    /// Records which keys of objects give no variable, as kubelet does.
    pub(super) fn tell_skipped_keys(&self, pod: &Pod, which: ContainerRef) {
        let Some(spec) = pod.container(which).filter(|spec| spec.env_from.is_some()) else { return };
        let Ok((_, skipped)) = env::env_from(spec, &pod.name.namespace, &self.objects()) else { return };
        for env::SkippedKeys { object, keys } in skipped {
            let message = format!(
                "Keys [{}] from the EnvFrom {object} were skipped since they are considered invalid environment variable names or values.",
                keys.join(", ")
            );
            self.record_warning(pod, (which, &spec.name), "InvalidEnvironmentVariableNames", &message);
        }
    }

    /// The volumes hold what the instance has: they were just prepared.
    pub(super) fn note_projected(&mut self) {
        if let Some(objects) = self.instance.as_mut().and_then(|instance| instance.objects.as_mut()) {
            objects.projected = Some(objects.current.clone());
            objects.due = None;
        }
    }

    /// Brings the volumes of an instance that is up to date with its objects, and begins to replace one that asks for it.
    pub(super) async fn apply_objects(&mut self, desired: &Desired, observed: &Observed) {
        let Want::Run(pod) = &desired.want else { return };
        let uptime = self.context.handles.clock.uptime();
        let runtime = self.context.runtime.clone();
        let Some(objects) = self.instance.as_mut().and_then(|instance| instance.objects.as_mut()) else {
            return;
        };
        let own: Vec<_> = observed.sandboxes.iter().filter(|sandbox| sandbox.is_of(pod)).collect();
        if restarts_on_change(pod) && !self.checkpoint.current.has_completed(pod) {
            let now = objects.current.digest();
            let checkpoint = &mut self.checkpoint.current;
            let ended = |id| checkpoint.terminating_sandboxes.contains(id);
            let alive: Vec<_> = own.iter().filter(|sandbox| !ended(&sandbox.id)).collect();
            let changed = checkpoint.objects.as_ref().is_some_and(|before| *before != now);
            if alive.is_empty() || checkpoint.objects.is_none() {
                checkpoint.objects = Some(now);
            } else if changed {
                info!(pod = %self.name, "an object has changed: the pod is replaced");
                let ids: Vec<_> = alive.iter().map(|sandbox| sandbox.id.clone()).collect();
                checkpoint.terminating_sandboxes.extend(ids);
                return;
            }
        }
        let is_new = objects.projected.as_ref() != Some(&objects.current);
        let is_due = objects.due.is_some_and(|due| due <= uptime);
        if !own.iter().any(|sandbox| sandbox.ready) || !(is_new || is_due) {
            return;
        }
        let old = if is_new { OldFiles::KeepFor(OLD_FILES_STAY) } else { OldFiles::Remove };
        match runtime.update_volumes(pod, &objects.current, old).await {
            Ok(()) => {
                objects.projected = Some(objects.current.clone());
                objects.due = is_new.then_some(uptime + OLD_FILES_STAY);
            }
            Err(error) => {
                objects.projected = None;
                objects.due = Some(uptime + RETRY);
                warn!(pod = %self.name, error = chain(&error), "cannot update the volumes; trying again");
            }
        }
    }

    /// How long until the volumes are to be looked at again.
    pub(super) fn objects_due(&self) -> Option<Duration> {
        let due = self.instance.as_ref()?.objects.as_ref()?.due?;
        Some(due.saturating_sub(self.context.handles.clock.uptime()))
    }
}

/// What was there and is given no more.
fn lost_of(before: &PodObjects, given: &PodObjects) -> BTreeSet<ObjectKey> {
    before.found.keys().filter(|key| !given.found.contains_key(*key)).cloned().collect()
}

/// What is given, and what was there and is given no more.
fn keep_lost(before: &PodObjects, given: &PodObjects) -> PodObjects {
    let mut now = given.clone();
    for (key, object) in &before.found {
        now.found.entry(key.clone()).or_insert_with(|| object.clone());
    }
    now
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::object::testing::{object, objects};
    use crate::pod::object::{Object, ObjectKind};

    #[test]
    fn what_is_lost_stays_and_what_is_newer_counts() {
        let (old, new) =
            (object(ObjectKind::Secret, "s", &[("a", "1")]), object(ObjectKind::Secret, "s", &[("a", "2")]));
        let map = object(ObjectKind::ConfigMap, "c", &[]);
        let all =
            |list: &[&Arc<Object>]| objects(&list.iter().map(|object| (*object).clone()).collect::<Vec<_>>());
        let rows = [
            (all(&[]), all(&[&old]), all(&[&old])),
            (all(&[&old, &map]), all(&[&old]), all(&[&old, &map])),
            (all(&[&old, &map]), all(&[&new]), all(&[&new, &map])),
            (all(&[&old]), all(&[]), all(&[&old])),
        ];
        for (before, given, want) in rows {
            assert_eq!(keep_lost(&before, &given), want);
        }
    }
}
