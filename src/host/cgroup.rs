//! The cgroup of an instance: made before its sandbox, removed after its last container.
//!
//! With the driver cgroupfs we make the directories; with systemd it makes slices, is told their values, and the files are
//! written too, as libcontainer does. What the kernel or the node does not let us apply to the whole pod is told once; it
//! refuses a pod only if that is the only place where its limit stands.
//!
//! Invariant: only cgroups below our own root are touched, and only those of UIDs that have a directory below our root
//! directory: another agent's are left alone. One with processes in it never goes.

pub(crate) mod mounts;
mod pod_cgroups;
mod tree;
mod values;

#[cfg(test)]
mod tests;

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tracing::warn;

use super::files::{FileError, on};
use crate::pod::cgroup_name::{CgroupDriver, CgroupRoot, uid_of};
use crate::pod::qos::{QosClass, qos_class};
use crate::pod::resources::{NodeResources, PodFigures, pod_figures};
use crate::pod::{Pod, PodUid, cgroup_name};
use crate::text::chain;
use mounts::Hierarchies;
pub(super) use pod_cgroups::PodCgroups;
use tree::{
    Systemd, SystemdError, below, children, name_of, note_shares, pass_controllers_on,
    remove_tree_of_cgroups, shares_of,
};
use values::{Value, for_systemd, pod_values, slice_properties, slice_values};

const DRIVERS: [CgroupDriver; 2] = [CgroupDriver::Cgroupfs, CgroupDriver::Systemd];
const CLASSES: [QosClass; 3] = [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort];
/// Processes that were killed are in their cgroup until they are reaped.
const BUSY_TRIES: u32 = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// A limit of a whole pod that cannot be applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CgroupError {
    /// Pods have no cgroups of their own.
    #[error("limits of spec.resources need cgroupsPerQOS: true")]
    NoPodCgroups,
    /// systemd, which makes the cgroups, does not.
    #[error(transparent)]
    Systemd(#[from] SystemdError),
    /// It is not there.
    #[error("there is no cgroup {0}")]
    Missing(String),
    /// The controller is not there.
    #[error("the node has no cgroup controller {0} mounted")]
    NoController(&'static str),
    /// The kernel refuses.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Where pods are placed, and what their cgroups are given.
#[derive(Debug)]
pub(crate) struct Cgroups {
    /// The cgroup below which pods are placed.
    pub(crate) root: CgroupRoot,
    /// Whether pods have cgroups of their own (`cgroupsPerQOS`).
    pub(crate) per_qos: bool,
    /// The driver that the runtime was found to have.
    driver: Mutex<Option<CgroupDriver>>,
    /// What the node has.
    pub(crate) node: NodeResources,
    /// The hierarchies that are mounted.
    pub(crate) hierarchies: Hierarchies,
    /// What all pods together are given.
    of_all: PodFigures,
    /// Cgroups beside it that are held to what is reserved for them.
    reserved: Vec<(CgroupRoot, PodFigures)>,
    /// Whether all that was applied since the start.
    is_enforced: AtomicBool,
    /// What was told last about something that cannot be applied.
    told: Mutex<Option<String>>,
    /// Held while shares of a class are added up.
    balance: Mutex<()>,
}

impl Cgroups {
    /// Of these parts.
    pub(crate) fn new(
        root: CgroupRoot,
        per_qos: bool,
        node: NodeResources,
        hierarchies: Hierarchies,
        of_all: PodFigures,
    ) -> Self {
        let (driver, told, balance) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (reserved, is_enforced) = (Vec::new(), AtomicBool::new(false));
        Self { root, per_qos, driver, node, hierarchies, of_all, reserved, is_enforced, told, balance }
    }

    /// With cgroups that are held to what is reserved for them.
    pub(crate) fn with_reserved(self, reserved: Vec<(CgroupRoot, PodFigures)>) -> Self {
        Self { reserved, ..self }
    }

    /// Uses this driver from now on.
    pub(crate) fn set_driver(&self, driver: CgroupDriver) {
        *self.driver.lock().unwrap_or_else(PoisonError::into_inner) = Some(driver);
    }

    fn driver(&self) -> CgroupDriver {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or(CgroupDriver::Cgroupfs)
    }

    /// What the runtime is told as the parent of a pod's cgroups; empty if it has none.
    pub(crate) fn parent(&self, pod: &Pod, driver: CgroupDriver) -> String {
        if !self.per_qos {
            return String::new();
        }
        self.root.pod(qos_class(&pod.spec), &pod.uid, driver)
    }

    /// The cgroup of a pod that is there, from the root of the hierarchies.
    pub(crate) fn path_of(&self, pod: &Pod) -> Option<String> {
        let class = qos_class(&pod.spec);
        let found = |driver| Some(self.root.pod(class, &pod.uid, driver)).filter(|path| self.is_there(path));
        let drivers = DRIVERS.into_iter().filter(|_| self.per_qos);
        [self.driver()].into_iter().filter(|_| self.per_qos).chain(drivers).find_map(found)
    }

    /// The cgroups of all pods, then those of classes of pods, as far as they are there.
    pub(crate) fn paths_above(&self) -> Vec<String> {
        let driver = self.driver();
        let mut paths: Vec<_> = CLASSES.into_iter().map(|class| self.root.class(class, driver)).collect();
        paths.retain(|path| self.is_there(path));
        paths
    }

    fn is_there(&self, path: &str) -> bool {
        self.hierarchies.point_of("memory").is_some_and(|point| below(point, path).is_dir())
    }

    fn prepare(&self, pod: &Pod) -> Result<(), CgroupError> {
        let driver = self.driver();
        let mut systemd = systemd_of(driver)?;
        let class = qos_class(&pod.spec);
        let figures = pod_figures(&pod.spec, &self.node);
        self.enforce(driver, &mut systemd)?;
        if class != QosClass::Guaranteed {
            let least = PodFigures { cpu_shares: Some(2), ..PodFigures::default() };
            let figures = if class == QosClass::BestEffort { least } else { PodFigures::default() };
            self.apply(&mut systemd, &self.root.class(class, driver), &figures)?;
        }
        let path = self.root.pod(class, &pod.uid, driver);
        self.apply(&mut systemd, &path, &figures)?;
        // Made without a limit too, so that the memory of a pod can be read.
        if let Some(point) = self.hierarchies.point_of("memory") {
            self.make(point, &below(point, &path))?;
        }
        if class == QosClass::Burstable {
            if let (true, Some(shares), Some(point)) =
                (self.node.unified, figures.cpu_shares, self.hierarchies.point_of("cpu"))
            {
                note_shares(&below(point, &path), shares);
            }
            self.balance();
        }
        Ok(())
    }

    /// Gives the cgroup of all pods, and those with reservations, what they may use, once. What cannot be enforced, as
    /// more is used already, keeps no pod from running.
    fn enforce(&self, driver: CgroupDriver, systemd: &mut Option<Systemd>) -> Result<(), CgroupError> {
        let path = self.root.pods(driver);
        let is_there = self.hierarchies.point_of("cpu").is_some_and(|point| below(point, &path).is_dir());
        let shares = PodFigures { cpu_shares: self.of_all.cpu_shares, ..PodFigures::default() };
        self.apply(systemd, &path, &shares)?;
        if self.is_enforced.swap(true, Ordering::Relaxed) && is_there {
            return Ok(());
        }
        let limits = PodFigures { cpu_shares: None, ..self.of_all.clone() };
        let of_pods = [(path, self.apply(systemd, &self.root.pods(driver), &limits))];
        let reserved = self.reserved.iter().map(|(cgroup, figures)| {
            let path = cgroup.pods(driver);
            let is_there = self.hierarchies.points().any(|point| below(point, &path).is_dir());
            let applied = if is_there {
                self.apply(systemd, &path, figures)
            } else {
                Err(CgroupError::Missing(path.clone()))
            };
            (path, applied)
        });
        for (cgroup, applied) in of_pods.into_iter().chain(reserved) {
            if let Err(error) = applied {
                warn!(
                    cgroup,
                    error = chain(&error),
                    "cannot enforce what is reserved (enforceNodeAllocatable)"
                );
            }
        }
        Ok(())
    }

    /// Makes a cgroup, and gives it its figures.
    fn apply(
        &self,
        systemd: &mut Option<Systemd>,
        path: &str,
        figures: &PodFigures,
    ) -> Result<(), CgroupError> {
        let unified = self.node.unified;
        let (Some(systemd), Some((unit, parent))) = (systemd, cgroup_name::slice_and_parent(path)) else {
            return self.write(path, &pod_values(figures, unified));
        };
        let figures = for_systemd(figures.clone());
        systemd.start_slice(unit, &slice_properties(unit, parent, unified))?;
        let values = slice_values(&figures, unified);
        if !values.is_empty() {
            systemd.set_properties(unit, &values)?;
        }
        self.write(path, &pod_values(&figures, unified))
    }

    /// Makes a cgroup where its values belong, and writes them.
    fn write(&self, path: &str, values: &[Value]) -> Result<(), CgroupError> {
        for value in values {
            let Some(point) = self.hierarchies.point_of(value.controller) else {
                if value.may_be_missing {
                    continue;
                }
                return Err(CgroupError::NoController(value.controller));
            };
            let dir = below(point, path);
            self.make(point, &dir)?;
            let file = dir.join(&value.file);
            if value.may_be_missing && !file.exists() {
                continue;
            }
            fs::write(&file, &value.text).map_err(on("cannot write", &file))?;
        }
        Ok(())
    }

    /// Makes a cgroup and those above it, which pass their controllers on.
    fn make(&self, point: &Path, dir: &Path) -> Result<(), FileError> {
        let Some(parent) = dir.parent().filter(|_| dir != point) else { return Ok(()) };
        self.make(point, parent)?;
        if self.hierarchies.is_unified() {
            pass_controllers_on(parent)?;
        }
        match fs::create_dir(dir) {
            Ok(()) => {
                let hierarchical = dir.join("memory.use_hierarchy");
                // Before Linux 5.11 limits hold for children only if asked for.
                if hierarchical.exists() && fs::read_to_string(&hierarchical).is_ok_and(|s| s.trim() == "0") {
                    fs::write(&hierarchical, "1").map_err(on("cannot write", &hierarchical))?;
                }
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(on("cannot make", dir)(error)),
        }
    }

    /// Gives the burstable pods together what they were given each, with either driver: the first pod to go may have been
    /// made with another than is used now.
    fn balance(&self) {
        let _one_at_a_time = self.balance.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(point) = self.hierarchies.point_of("cpu") else { return };
        for driver in DRIVERS {
            let class = self.root.class(QosClass::Burstable, driver);
            let dir = below(point, &class);
            if !dir.is_dir() {
                continue;
            }
            let pods = children(&dir).into_iter().filter(|dir| name_of(dir).and_then(uid_of).is_some());
            let sum: i64 = pods.filter_map(|dir| shares_of(&dir, self.node.unified)).sum();
            let figures = PodFigures { cpu_shares: Some(sum.clamp(2, 262_144)), ..PodFigures::default() };
            // A class with another share than it should have: no pod is the worse for it.
            let systemd = systemd_of(driver).map_err(CgroupError::from);
            let _ = systemd.and_then(|mut systemd| self.apply(&mut systemd, &class, &figures));
        }
    }

    /// Where the cgroups of an instance may be, in every hierarchy, with either driver.
    fn places(&self, uid: &PodUid) -> Vec<PathBuf> {
        let paths: Vec<_> = kinds().map(|(class, driver)| self.root.pod(class, uid, driver)).collect();
        let of_point = |point| paths.iter().map(move |path| below(point, path));
        self.hierarchies.points().flat_map(of_point).collect()
    }

    /// The cgroups of all instances, in every hierarchy, with either driver.
    fn found(&self) -> Vec<(PodUid, PathBuf)> {
        let mut found = Vec::new();
        for point in self.hierarchies.points() {
            for (class, driver) in kinds() {
                for dir in children(&below(point, &self.root.class(class, driver))) {
                    let uid = name_of(&dir).and_then(uid_of);
                    found.extend(uid.map(|uid| (uid, dir)));
                }
            }
        }
        found
    }

    fn tell_once(&self, message: String) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.as_ref() != Some(&message) {
            warn!(
                reason = message,
                "limits are applied to containers alone, not to pods as a whole; pods run on"
            );
            *told = Some(message);
        }
    }
}

/// Removes a cgroup and those below it, but none with processes in it.
#[expect(clippy::disallowed_methods, reason = "blocking file work is on a thread of its own")]
fn remove_cgroup(dir: &Path) -> Result<(), FileError> {
    if !dir.is_dir() {
        return Ok(());
    }
    for _ in 0..BUSY_TRIES {
        match remove_tree_of_cgroups(dir) {
            Err(error) if error.kind() == ErrorKind::ResourceBusy => thread::sleep(BUSY_PAUSE),
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(on("cannot remove", dir)(error));
            }
            _ => return Ok(()),
        }
    }
    Err(on("cannot remove", dir)(io::Error::from(ErrorKind::ResourceBusy)))
}

/// A connection to systemd, if it makes the cgroups.
fn systemd_of(driver: CgroupDriver) -> Result<Option<Systemd>, SystemdError> {
    (driver == CgroupDriver::Systemd).then(Systemd::connect).transpose()
}

/// Every class with either driver.
fn kinds() -> impl Iterator<Item = (QosClass, CgroupDriver)> {
    CLASSES.into_iter().flat_map(|class| DRIVERS.map(|driver| (class, driver)))
}
