//! The CPUs that containers have for themselves: the machine's topology, and the file in which kubelet keeps who has which.
//!
//! Invariant: what was given is on disk before it is used. A file that cannot be used costs what it held, never a start: pods
//! that run are given CPUs anew. Blocking: call it through `smol::unblock`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::{info, warn};

use super::files::{FileError, on, read_text, replace_synced};
use crate::pod::cpu_assignment::state_file::{self, FormError};
use crate::pod::cpu_assignment::{Assignments, Place, TooFewCpus, Topology};
use crate::pod::cpu_set::CpuSet;
use crate::pod::{Pod, PodUid};
use crate::text::chain;

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";
const FILE: &str = "cpu_manager_state";

/// CPUs that no container has for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReservedCpus {
    /// These (`reservedSystemCPUs`).
    These(CpuSet),
    /// So many (`kubeReserved` and `systemReserved`).
    Count(usize),
}

/// Why CPUs could not be given.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CpuError {
    /// There are too few.
    #[error(transparent)]
    TooFew(#[from] TooFewCpus),
    /// The file.
    #[error(transparent)]
    File(#[from] FileError),
    /// Its form.
    #[error(transparent)]
    Form(#[from] FormError),
    /// The configuration reserves what the machine has not.
    #[error("cannot reserve CPUs {reserved}: the machine has {all}")]
    Reserved { reserved: CpuSet, all: CpuSet },
}

/// Who has which CPUs on this machine.
#[derive(Debug)]
pub(crate) struct CpuManager {
    topology: Topology,
    reserved: CpuSet,
    path: PathBuf,
    assignments: Mutex<Assignments>,
}

impl CpuManager {
    /// Reads what the machine has, and what an earlier agent gave.
    ///
    /// # Errors
    /// When the machine does not tell its CPUs, or has not those that are reserved.
    pub(crate) fn new(root_dir: &Path, reserved: &ReservedCpus) -> Result<Self, CpuError> {
        let topology = read_topology()?;
        let all = topology.all();
        let reserved = match reserved {
            ReservedCpus::These(cpus) => cpus.clone(),
            ReservedCpus::Count(count) => topology.take(&all, *count).unwrap_or_else(|| all.clone()),
        };
        if !reserved.is_within(&all) {
            return Err(CpuError::Reserved { reserved, all });
        }
        let path = root_dir.join(FILE);
        let fresh = Assignments { shared: all, ..Assignments::default() };
        let kept = match read_state(&path) {
            Ok(None) => None,
            Ok(Some(kept)) => match kept.find_fault(&topology, &reserved) {
                None => Some(kept),
                Some(fault) => {
                    warn!(path = %path.display(), fault, "the state of the CPU manager does not fit this machine: CPUs are given anew");
                    None
                }
            },
            Err(error) => {
                warn!(path = %path.display(), error = chain(&error), "cannot use the state of the CPU manager: CPUs are given anew");
                None
            }
        };
        info!(%reserved, all = %fresh.shared, "containers may have CPUs of their own");
        Ok(Self { topology, reserved, path, assignments: Mutex::new(kept.unwrap_or(fresh)) })
    }

    /// The CPUs that a container runs on.
    pub(crate) fn of(&self, uid: &str, container: &str) -> CpuSet {
        self.lock().of(uid, container).clone()
    }

    /// Gives the containers of a pod what they are to have. True if that has changed what others have.
    ///
    /// # Errors
    /// When there are too few CPUs, or it cannot be written down.
    pub(crate) fn assign(&self, pod: &Pod) -> Result<bool, CpuError> {
        let mut assignments = self.lock();
        let mut next = assignments.clone();
        let changed = next.assign(pod, &self.topology, &self.reserved)?;
        if changed {
            self.write(&next)?;
            *assignments = next;
        }
        Ok(changed)
    }

    /// The pods that have CPUs of their own.
    pub(crate) fn uids(&self) -> Vec<PodUid> {
        self.lock().own.keys().map(|uid| PodUid::from(uid.as_str())).collect()
    }

    /// Takes back what these pods have. True if that has changed what others have.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub(crate) fn release(&self, over: &BTreeSet<PodUid>) -> Result<bool, CpuError> {
        let mut assignments = self.lock();
        let mut next = assignments.clone();
        let changed = next.retain(|uid| !over.contains(uid));
        if changed {
            self.write(&next)?;
            *assignments = next;
        }
        Ok(changed)
    }

    fn lock(&self) -> MutexGuard<'_, Assignments> {
        // Only whole assignments are ever put there.
        self.assignments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, assignments: &Assignments) -> Result<(), CpuError> {
        let bytes = state_file::write(assignments)?;
        Ok(replace_synced(&self.path, &bytes)?)
    }
}

fn read_state(path: &Path) -> Result<Option<Assignments>, CpuError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(state_file::read(&bytes)?)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(on("cannot read", path)(error).into()),
    }
}

/// Packages, cores and threads, as the kernel shows them.
fn read_topology() -> Result<Topology, FileError> {
    let set = |path: &Path| Ok::<_, FileError>(CpuSet::parse(read_text(path)?.trim()).unwrap_or_default());
    let mut nodes = BTreeMap::new();
    for entry in fs::read_dir(NODES).into_iter().flatten().flatten() {
        let number =
            entry.file_name().to_str().and_then(|name| name.strip_prefix("node")?.parse::<u32>().ok());
        if let Some(number) = number {
            nodes.extend(set(&entry.path().join("cpulist"))?.0.into_iter().map(|cpu| (cpu, number)));
        }
    }
    let mut places = BTreeMap::new();
    for cpu in set(&Path::new(CPUS).join("online"))?.0 {
        let dir = Path::new(CPUS).join(format!("cpu{cpu}/topology"));
        // Machines without packages say -1, or nothing.
        let socket = read_text(&dir.join("physical_package_id")).ok();
        let socket = socket.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        let threads = set(&dir.join("thread_siblings_list")).unwrap_or_default();
        let first_thread = threads.0.first().copied().unwrap_or(cpu);
        places.insert(cpu, Place { socket, node: nodes.get(&cpu).copied().unwrap_or(0), first_thread });
    }
    Ok(Topology(places))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::testing::pod;

    #[test]
    fn kept_for_a_successor_and_given_anew_if_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let all = read_topology().unwrap().all();
        assert!(all.len() > 0);
        let reserved = ReservedCpus::Count(0);
        let mut guaranteed = pod("a", "1");
        let amounts = serde_json::json!({"cpu": "1", "memory": "1Mi"});
        let resources = serde_json::json!({"requests": amounts, "limits": amounts});
        guaranteed.spec.containers[0].resources = Some(serde_json::from_value(resources).unwrap());
        let manager = CpuManager::new(dir.path(), &reserved).unwrap();
        assert!(manager.assign(&guaranteed).unwrap() && !manager.assign(&guaranteed).unwrap());
        let own = manager.of("1", "main");
        assert_eq!((own.len(), manager.of("2", "main")), (1, all.minus(&own)));
        let successor = CpuManager::new(dir.path(), &reserved).unwrap();
        assert_eq!(successor.of("1", "main"), own);
        assert!(successor.release(&successor.uids().into_iter().collect()).unwrap());
        assert_eq!(CpuManager::new(dir.path(), &reserved).unwrap().of("1", "main"), all);
        fs::write(dir.path().join(FILE), "{}").unwrap();
        assert_eq!(CpuManager::new(dir.path(), &reserved).unwrap().of("1", "main"), all);
        let missing = ReservedCpus::These(CpuSet::parse("60000").unwrap());
        assert!(matches!(CpuManager::new(dir.path(), &missing), Err(CpuError::Reserved { .. })));
    }
}
