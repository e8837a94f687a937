//! CPUs of their own for containers (`cpuManagerPolicy: static`): who gets which, as kubelet's static policy gives them. Pure.
//!
//! Invariant: no CPU is in two sets, but those of an init container and of the containers that run after it; reserved CPUs are
//! always shared.

pub(crate) mod state_file;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;

use super::cpu_set::CpuSet;
use super::qos::{QosClass, qos_class};
use super::quantity::Amount;
use super::{Pod, PodUid, containers_of, is_sidecar};

/// Where a CPU is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The package.
    pub(crate) socket: u32,
    /// The NUMA node.
    pub(crate) node: u32,
    /// The core, by the lowest of its threads.
    pub(crate) first_thread: u32,
}

/// The CPUs of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Topology(pub(crate) BTreeMap<u32, Place>);

impl Topology {
    /// All of them.
    pub(crate) fn all(&self) -> CpuSet {
        self.0.keys().copied().collect()
    }

    /// Takes so many of the available ones, as few packages, nodes and cores as possible; none if there are too few.
    pub(crate) fn take(&self, available: &CpuSet, count: usize) -> Option<CpuSet> {
        let (mut left, mut taken) = (available.clone(), CpuSet::default());
        if count > left.len() {
            return None;
        }
        // The larger unit first: a package may hold several nodes, or a node several packages.
        let (socket, node): (fn(&Place) -> u32, fn(&Place) -> u32) =
            (|place| place.socket, |place| place.node);
        let (first, second) =
            if self.units(node).len() > self.units(socket).len() { (socket, node) } else { (node, socket) };
        let threads: fn(&Place) -> u32 = |place| place.first_thread;
        for unit in [first, second, threads] {
            let whole = self.units(unit);
            for id in self.in_turn(&left, unit) {
                let Some(cpus) = whole.get(&id) else { continue };
                if cpus.is_within(&left) && cpus.len() <= count.saturating_sub(taken.len()) {
                    taken = taken.union(cpus);
                    left = left.minus(cpus);
                }
            }
        }
        // What remains: single threads, of the cores that have the fewest left.
        for id in self.in_turn(&left, threads) {
            let threads: Vec<u32> = left
                .0
                .iter()
                .copied()
                .filter(|cpu| self.0.get(cpu).is_some_and(|p| p.first_thread == id))
                .collect();
            for cpu in threads {
                if taken.len() < count {
                    left.0.remove(&cpu);
                    taken.0.insert(cpu);
                }
            }
        }
        (taken.len() == count).then_some(taken)
    }

    /// The CPUs of each unit.
    fn units(&self, unit: fn(&Place) -> u32) -> BTreeMap<u32, CpuSet> {
        let mut units = BTreeMap::<u32, CpuSet>::new();
        for (cpu, place) in &self.0 {
            units.entry(unit(place)).or_default().0.insert(*cpu);
        }
        units
    }

    /// The units with available CPUs: those of the package with the fewest left first, then the unit with the fewest left.
    fn in_turn(&self, left: &CpuSet, unit: fn(&Place) -> u32) -> Vec<u32> {
        let (mut units, mut sockets) = (BTreeMap::<u32, (u32, usize)>::new(), BTreeMap::<u32, usize>::new());
        for place in left.0.iter().filter_map(|cpu| self.0.get(cpu)) {
            units.entry(unit(place)).or_insert((place.socket, 0)).1 += 1;
            *sockets.entry(place.socket).or_default() += 1;
        }
        let mut all: Vec<_> = units.into_iter().collect();
        all.sort_by_key(|(id, (socket, free))| (sockets.get(socket).copied(), *socket, *free, *id));
        all.into_iter().map(|(id, _)| id).collect()
    }
}

/// There are too few CPUs for a container.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not enough cpus available to satisfy request: requested={requested}, available={available}")]
pub(crate) struct TooFewCpus {
    requested: usize,
    available: usize,
}

/// Who has which CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Assignments {
    /// Those of all containers that have none of their own.
    pub(crate) shared: CpuSet,
    /// By UID and name of the container.
    pub(crate) own: BTreeMap<String, BTreeMap<String, CpuSet>>,
}

impl Assignments {
    /// The CPUs that a container runs on.
    pub(crate) fn of(&self, uid: &str, container: &str) -> &CpuSet {
        self.own.get(uid).and_then(|containers| containers.get(container)).unwrap_or(&self.shared)
    }

    /// Gives the containers of a pod what they are to have of their own, all or nothing. True if anything has changed.
    ///
    /// # Errors
    /// When there are too few CPUs.
    pub(crate) fn assign(
        &mut self,
        pod: &Pod,
        topology: &Topology,
        reserved: &CpuSet,
    ) -> Result<bool, TooFewCpus> {
        if self.own.contains_key(pod.uid.as_str()) {
            return Ok(false);
        }
        let (mut shared, mut own) = (self.shared.clone(), BTreeMap::new());
        // What init containers that end had is free again for those that run after them.
        let mut again = CpuSet::default();
        for (place, container) in containers_of(&pod.spec) {
            let count = exclusive_cpus(pod, container);
            if count == 0 {
                continue;
            }
            let available = shared.minus(reserved).union(&again);
            let too_few = TooFewCpus { requested: count, available: available.len() };
            let taken = topology.take(&available, count).ok_or(too_few)?;
            shared = shared.minus(&taken);
            let ends = matches!(place, super::ContainerRef::Init(_)) && !is_sidecar(container);
            again = if ends { again.union(&taken) } else { again.minus(&taken) };
            own.insert(container.name.clone(), taken);
        }
        if own.is_empty() {
            return Ok(false);
        }
        self.shared = shared;
        self.own.insert(pod.uid.to_string(), own);
        Ok(true)
    }

    /// Gives back what pods have that need it no more. True if anything has changed.
    pub(crate) fn retain(&mut self, needed: impl Fn(&PodUid) -> bool) -> bool {
        let over: Vec<_> =
            self.own.keys().filter(|uid| !needed(&PodUid::from(uid.as_str()))).cloned().collect();
        for uid in &over {
            let freed = self.own.remove(uid).unwrap_or_default();
            self.shared = freed.values().fold(self.shared.clone(), |shared, cpus| shared.union(cpus));
        }
        !over.is_empty()
    }

    /// What is wrong with assignments that were read, on this machine.
    pub(crate) fn find_fault(&self, topology: &Topology, reserved: &CpuSet) -> Option<String> {
        let all = topology.all();
        let sets = || self.own.values().flat_map(|containers| containers.values());
        let known = sets().fold(self.shared.clone(), |known, cpus| known.union(cpus));
        if let Some(cpus) = sets().find(|cpus| !cpus.is_apart_from(&self.shared)) {
            return Some(format!("cpuset {cpus} overlaps with the default cpuset {}", self.shared));
        }
        if !reserved.is_within(&self.shared) {
            return Some(format!(
                "not all reserved cpus {reserved} are in the default cpuset {}",
                self.shared
            ));
        }
        (known != all).then(|| format!("the machine has the CPUs {all}, and the state has {known}"))
    }
}

/// How many CPUs a container is to have for itself: whole ones, of a Guaranteed pod.
pub(crate) fn exclusive_cpus(pod: &Pod, container: &Container) -> usize {
    if qos_class(&pod.spec) != QosClass::Guaranteed {
        return 0;
    }
    let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let cpu = requests.and_then(|requests| Amount::parse(&requests.get("cpu")?.0).ok());
    cpu.filter(|cpu| cpu.is_whole()).and_then(|cpu| usize::try_from(cpu.value()).ok()).unwrap_or(0)
}
