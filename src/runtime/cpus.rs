//! Which CPUs containers run on, where some have CPUs of their own (`cpuManagerPolicy: static`).
//!
//! A container is told when it is created; those that run are told when what all others share shrinks or grows. Without the
//! policy nothing of this costs anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Container;
use tracing::{info, warn};

use super::{Runtime, StartError};
use crate::host::cpu_manager::{CpuError, CpuManager};
use crate::pod::cpu_assignment::exclusive_cpus;
use crate::pod::cpu_set::CpuSet;
use crate::pod::state::Phase;
use crate::pod::{ContainerId, Pod, PodUid, keys};
use crate::runtime::cri::proto::ContainerState;
use crate::sync::published::Published;
use crate::sync::view::{PodView, View};
use crate::text::chain;
use crate::text::last_logged::LastLogged;

/// What containers were last told, by their id.
#[derive(Debug, Default)]
pub(super) struct ToldCpus(Mutex<BTreeMap<ContainerId, CpuSet>>);

impl ToldCpus {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ContainerId, CpuSet>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Runtime {
    /// The CPUs that a container is to run on, given to its pod if they were not yet; none without the policy.
    ///
    /// # Errors
    /// When there are too few, or it cannot be written down.
    pub(super) async fn container_cpus(
        &self,
        pod: &Pod,
        container: &Container,
    ) -> Result<Option<CpuSet>, StartError> {
        let Some(manager) = &self.node.cpus else { return Ok(None) };
        let given = assign(manager, pod).await.map_err(|error| {
            let message = format!("Allocate failed due to {}, which is unexpected", chain(&error));
            StartError::refused("UnexpectedAdmissionError", message)
        })?;
        if given {
            self.tell_cpus(manager).await;
        }
        Ok(Some(manager.of(pod.uid.as_str(), &container.name)))
    }

    /// A container was created, and told this.
    pub(super) fn note_cpus(&self, id: &ContainerId, cpus: Option<CpuSet>) {
        if let Some(cpus) = cpus {
            self.told_cpus.lock().insert(id.clone(), cpus);
        }
    }

    /// Tells running containers what they are to run on, where that is not what they were told last. False if one could not
    /// be told.
    async fn tell_cpus(&self, manager: &CpuManager) -> bool {
        let containers = match self.cri.list_containers(None).await {
            Ok(containers) => containers,
            Err(error) => {
                warn!(%error, "cannot ask the runtime for the containers that share CPUs");
                return false;
            }
        };
        let mut done = true;
        let mut seen = BTreeSet::new();
        for container in containers {
            let id = ContainerId(container.id);
            seen.insert(id.clone());
            let label = |key: &str| container.labels.get(key).map(String::as_str);
            let (Some(uid), Some(name)) = (label(keys::POD_UID), label(keys::CONTAINER_NAME)) else {
                continue;
            };
            let wanted = manager.of(uid, name);
            if container.state != ContainerState::ContainerRunning as i32
                || self.told_cpus.lock().get(&id) == Some(&wanted)
            {
                continue;
            }
            match self.cri.update_cpus(&id, wanted.to_string()).await {
                Ok(()) => drop(self.told_cpus.lock().insert(id, wanted)),
                Err(error) => {
                    // It may have ended meanwhile; if not, it is told at the next change.
                    warn!(container = %id, cpus = %wanted, %error, "cannot tell a container its CPUs");
                    done = false;
                }
            }
        }
        self.told_cpus.lock().retain(|id, _| seen.contains(id));
        done
    }
}

/// Gives a pod CPUs of its own, if it is to have any. True if that has changed what others have.
async fn assign(manager: &Arc<CpuManager>, pod: &Pod) -> Result<bool, CpuError> {
    if pod.containers().all(|(_, container)| exclusive_cpus(pod, container) == 0) {
        return Ok(false);
    }
    let (manager, pod) = (manager.clone(), pod.clone());
    smol::unblock(move || manager.assign(&pod)).await
}

/// Takes CPUs back from pods that are over, and tells those that share them.
pub(crate) async fn run_cpu_assignment(runtime: Arc<Runtime>, view: Published) {
    let Some(manager) = runtime.node.cpus.clone() else { return };
    let mut changes = view.watch();
    let mut logged = LastLogged::default();
    let (mut told, mut running) = (false, BTreeSet::new());
    loop {
        changes.changed().await;
        // In this order: who is given CPUs from now on is not judged by a view that does not know it yet.
        let held = manager.uids();
        let now = view.load();
        match follow(&manager, &held, &now).await {
            Ok(changed) => told &= !changed,
            Err(error) => {
                let error = chain(&error);
                if logged.is_new(&error) {
                    warn!(error, "cannot give or take back CPUs");
                }
            }
        }
        // A container that was created while they changed was told what held before.
        let runs: BTreeSet<_> =
            now.pods.values().filter(|pod| pod.running).map(|pod| pod.pod.uid.clone()).collect();
        if !told || !runs.is_subset(&running) {
            told = now.settled && runtime.tell_cpus(&manager).await;
        }
        running = runs;
    }
}

/// Gives CPUs to pods that run without those that they are to have, and takes back what is needed no more.
async fn follow(manager: &Arc<CpuManager>, held: &[PodUid], now: &View) -> Result<bool, CpuError> {
    if !now.settled {
        return Ok(false);
    }
    let needs = |pod: &&PodView| {
        let phase = pod.state.as_ref().map(|state| state.phase);
        !matches!(phase, Some(Phase::Succeeded | Phase::Failed))
    };
    let needed: BTreeSet<_> = now.pods.values().filter(needs).map(|pod| &pod.pod.uid).collect();
    let over: BTreeSet<_> = held.iter().filter(|uid| !needed.contains(uid)).cloned().collect();
    let mut changed = false;
    if !over.is_empty() {
        info!(pods = over.len(), "CPUs are shared again");
        let manager = manager.clone();
        changed |= smol::unblock(move || manager.release(&over)).await?;
    }
    // The state was lost, or the policy is new.
    for pod in now.pods.values().filter(|pod| pod.running && needs(pod) && !held.contains(&pod.pod.uid)) {
        changed |= assign(manager, &pod.pod).await?;
    }
    Ok(changed)
}
