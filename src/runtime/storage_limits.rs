//! Holds pods to their limits of disk: measures those that have one, and has whoever uses more ended. What is too much is
//! decided in `pod::storage_limit`.
//!
//! Only pods with a limit are measured, and only while they run: on a node without such a pod nothing wakes up. One pod is
//! measured at a time, on a thread for blocking work; where that takes long, the next round waits longer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tracing::warn;

use super::{Runtime, StepError};
use crate::host::disk_usage::disk_usage;
use crate::pod::state::{Failed, FailedReason, Phase};
use crate::pod::storage_limit::{Exceeded, StorageLimits, StorageUsage, storage_limits};
use crate::pod::{ContainerId, Pod, PodUid};
use crate::sync::handles::Handles;
use crate::sync::message::{EndPod, Event};
use crate::sync::published::Published;
use crate::sync::view::{PodView, View};
use crate::text::chain;

/// kubelet's interval.
const INTERVAL: Duration = Duration::from_secs(10);
/// Measuring takes no more than this part of the time.
const SHARE: u32 = 20;
/// What kubelet leaves to those that it evicts, in seconds.
const GRACE: i64 = 1;
/// kubelet's plugin for emptyDirs.
const EMPTY_DIR: &str = "kubernetes.io~empty-dir";

/// A pod that runs and has limits.
struct LimitedPod {
    pod: Arc<Pod>,
    limits: StorageLimits,
    /// Its containers that run, by name.
    running: Vec<(String, ContainerId)>,
}

/// Measures pods for as long as the agent runs.
pub(crate) async fn run_storage_limits(runtime: Arc<Runtime>, view: Published, handles: Handles) {
    let mut changes = view.watch();
    let mut told = BTreeSet::new();
    loop {
        let limited = select_limited(&view.load());
        if limited.is_empty() {
            told.clear();
            changes.changed().await;
            continue;
        }
        let begun = handles.clock.uptime();
        for pod in limited {
            match runtime.measure(&pod).await {
                Ok(usage) => judge(&pod, &usage, &mut told, &handles).await,
                Err(error) => {
                    if told.insert(pod.pod.uid.clone()) {
                        warn!(pod = %pod.pod.name, error = chain(&error), "cannot measure the storage that the pod uses");
                    }
                }
            }
        }
        let took = handles.clock.uptime().saturating_sub(begun);
        handles.clock.sleep(INTERVAL.max(took.saturating_mul(SHARE))).await;
    }
}

/// The pods that run and have limits.
fn select_limited(view: &View) -> Vec<LimitedPod> {
    view.pods.values().filter_map(limited).collect()
}

fn limited(shown: &PodView) -> Option<LimitedPod> {
    let limits = storage_limits(&shown.pod.spec)?;
    let state =
        shown.state.as_ref().filter(|state| matches!(state.phase, Phase::Pending | Phase::Running))?;
    let running: Vec<_> = state
        .all_containers()
        .filter(|container| container.running_since().is_some())
        .filter_map(|container| Some((container.name.clone(), container.id()?.clone())))
        .collect();
    (!running.is_empty()).then(|| LimitedPod { pod: shown.pod.clone(), limits, running })
}

async fn judge(limited: &LimitedPod, usage: &StorageUsage, told: &mut BTreeSet<PodUid>, handles: &Handles) {
    let pod = &limited.pod;
    let Some(Exceeded { signal, message }) = limited.limits.exceeded(usage) else {
        told.remove(&pod.uid);
        return;
    };
    if told.insert(pod.uid.clone()) {
        let outcome = if limited.limits.only_told { "a critical pod goes on" } else { "ending the pod" };
        warn!(pod = %pod.name, reason = "Evicted", message = message.trim_end(), "{outcome}");
    }
    if !limited.limits.only_told {
        handles.telemetry.metrics.pod_evicted(signal);
        let failed = Failed { reason: FailedReason::Evicted, message };
        let end = EndPod { pod: pod.name.clone(), uid: pod.uid.clone(), failed, grace: Some(GRACE) };
        handles.send(Event::End(end)).await;
    }
}

impl Runtime {
    /// What a pod uses. Layers and logs are looked at only if a container has a limit.
    async fn measure(&self, limited: &LimitedPod) -> Result<StorageUsage, StepError> {
        let mut usage = StorageUsage::default();
        let pod = &limited.pod;
        for volume in pod.spec.volumes.iter().flatten() {
            let source = volume.empty_dir.as_ref();
            let on_disk =
                source.is_some_and(|source| source.medium.as_deref().unwrap_or_default().is_empty());
            let counts = limited.limits.pod.is_some() || limited.limits.volumes.contains_key(&volume.name);
            if on_disk && counts {
                let path = self.node.dirs.volume(&pod.uid, EMPTY_DIR, &volume.name);
                let used = smol::unblock(move || disk_usage(&path)).await?;
                usage.volumes.insert(volume.name.clone(), used);
            }
        }
        if limited.limits.pod.is_some() {
            for (name, id) in &limited.running {
                let layer = self.cri.writable_layer(id).await?.unwrap_or_default();
                let logs = self.node.dirs.logs(&pod.name, &pod.uid).join(name);
                let logs = smol::unblock(move || disk_usage(&logs)).await?;
                usage.containers.insert(name.clone(), layer.saturating_add(logs));
            }
        }
        Ok(usage)
    }
}
