//! The cgroup of an instance, with the driver cgroupfs: made before its sandbox, removed after its last container.
//!
//! With the driver systemd the runtime has systemd make the slices, and nothing is applied to the pod as a whole. What
//! the kernel or the node does not let us apply to the whole pod is told once; it refuses a pod only if that is the
//! only place where its limit stands.
//!
//! Invariant: only cgroups below our own root are touched, and only those of UIDs that have a directory below our root
//! directory: another agent's are left alone. One with processes in it never goes.

pub(crate) mod mounts;
mod values;

#[cfg(test)]
mod tests;

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use tracing::warn;

use super::Dirs;
use super::files::{FileError, on};
use super::resource::{Resource, ResourceError};
use super::state::{Durability, Store};
use crate::pod::cgroup_name::{CgroupDriver, CgroupRoot, uid_of};
use crate::pod::object::PodObjects;
use crate::pod::qos::{QosClass, qos_class};
use crate::pod::resources::{NodeResources, PodFigures, pod_figures};
use crate::pod::{Pod, PodName, PodUid};
use crate::text::chain;
use mounts::Hierarchies;
use values::{Value, pod_values, shares_value};

const CLASSES: [QosClass; 3] = [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort];
/// Processes that were killed are in their cgroup until they are reaped.
const BUSY_TRIES: u32 = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// A limit of a whole pod that cannot be applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CgroupError {
    /// Nobody applies it with this driver.
    #[error("limits of spec.resources need the cgroup driver cgroupfs and cgroupsPerQOS: true, so far")]
    Driver,
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
    pub(crate) driver: OnceLock<CgroupDriver>,
    /// What the node has.
    pub(crate) node: NodeResources,
    /// The hierarchies that are mounted.
    pub(crate) hierarchies: Hierarchies,
    /// The node's cores.
    pub(crate) cores: i64,
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
        cores: i64,
    ) -> Self {
        let (told, balance) = (Mutex::default(), Mutex::default());
        Self { root, per_qos, driver: OnceLock::new(), node, hierarchies, cores, told, balance }
    }

    /// What the runtime is told as the parent of a pod's cgroups; empty if it has none.
    pub(crate) fn parent(&self, pod: &Pod, driver: CgroupDriver) -> String {
        if !self.per_qos {
            return String::new();
        }
        self.root.pod(qos_class(&pod.spec), &pod.uid, driver)
    }

    fn prepare(&self, pod: &Pod) -> Result<(), CgroupError> {
        if self.driver.get() == Some(&CgroupDriver::Systemd) {
            return Err(CgroupError::Driver);
        }
        let class = qos_class(&pod.spec);
        let figures = pod_figures(&pod.spec, &self.node);
        self.apply(&self.root.pods(), &[shares_value(self.cores * 1024, self.node.unified)])?;
        let of_class = self.root.class(class, CgroupDriver::Cgroupfs);
        if class == QosClass::BestEffort {
            self.apply(&of_class, &[shares_value(0, self.node.unified)])?;
        }
        self.apply_to_pod(&self.root.pod(class, &pod.uid, CgroupDriver::Cgroupfs), &figures)?;
        if class == QosClass::Burstable {
            self.balance();
        }
        Ok(())
    }

    fn apply_to_pod(&self, path: &str, figures: &PodFigures) -> Result<(), CgroupError> {
        self.apply(path, &pod_values(figures, self.node.unified))
    }

    /// Makes a cgroup where its values belong, and writes them.
    fn apply(&self, path: &str, values: &[Value]) -> Result<(), CgroupError> {
        for value in values {
            let Some(point) = self.hierarchies.point_of(value.controller) else {
                if value.may_be_missing {
                    continue;
                }
                return Err(CgroupError::NoController(value.controller));
            };
            let dir = point.join(path.trim_start_matches('/'));
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

    /// Gives the burstable pods together what they were given each.
    fn balance(&self) {
        let _one_at_a_time = self.balance.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(point) = self.hierarchies.point_of("cpu") else { return };
        let class = self.root.class(QosClass::Burstable, CgroupDriver::Cgroupfs);
        let dir = point.join(class.trim_start_matches('/'));
        let value = shares_value(0, self.node.unified);
        let share = |dir: PathBuf| fs::read_to_string(dir.join(&value.file)).ok()?.trim().parse::<i64>().ok();
        let sum: i64 = children(&dir).into_iter().filter_map(share).sum();
        let (least, most) = if self.node.unified { (1, 10_000) } else { (2, 262_144) };
        let file = dir.join(&value.file);
        // The class is gone with its last pod, or has another share than it should: no pod is the worse for it.
        let _ = fs::write(file, sum.clamp(least, most).to_string());
    }

    /// Where the cgroups of an instance may be, in every hierarchy.
    fn places(&self, uid: &PodUid) -> Vec<PathBuf> {
        let paths = CLASSES.map(|class| self.root.pod(class, uid, CgroupDriver::Cgroupfs));
        let of_point = |point: &Path| paths.clone().map(|path| point.join(path.trim_start_matches('/')));
        self.hierarchies.points().flat_map(of_point).collect()
    }

    /// The cgroups of all instances, in every hierarchy.
    fn found(&self) -> Vec<(PodUid, PathBuf)> {
        let mut found = Vec::new();
        for point in self.hierarchies.points() {
            for class in CLASSES {
                let dir = self.root.class(class, CgroupDriver::Cgroupfs);
                for dir in children(&point.join(dir.trim_start_matches('/'))) {
                    let uid = dir.file_name().and_then(|name| name.to_str()).and_then(uid_of);
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

/// The instance's cgroup.
#[derive(Debug)]
pub(super) struct PodCgroups(pub(super) Arc<Cgroups>, pub(super) Dirs);

impl Resource for PodCgroups {
    fn failure_reason(&self) -> &'static str {
        "FailedToCreatePodContainer"
    }

    fn prepare(&self, pod: &Pod, _: &PodObjects) -> Result<(), ResourceError> {
        let has_own_limits = pod
            .spec
            .resources
            .as_ref()
            .and_then(|resources| resources.limits.as_ref())
            .is_some_and(|limits| !limits.is_empty());
        let prepared = if self.0.per_qos { self.0.prepare(pod) } else { Err(CgroupError::Driver) };
        match prepared {
            Err(error) if has_own_limits => Err(error.into()),
            // The driver does not apply them, as the documentation says; everything else is worth a line.
            Err(CgroupError::Driver) | Ok(()) => Ok(()),
            Err(error) => {
                self.0.tell_once(chain(&error));
                Ok(())
            }
        }
    }

    fn release(&self, _: &PodName, uid: &PodUid) -> Result<(), ResourceError> {
        let mut left = false;
        for dir in self.0.places(uid) {
            // A pod that is gone is not held back by its cgroup: housekeeping comes back to it.
            if let Err(error) = remove_cgroup(&dir) {
                warn!(error = chain(&error), "cannot remove the cgroup of a pod that is gone");
                left = true;
            }
        }
        self.note_left(uid, left);
        self.0.balance();
        Ok(())
    }

    fn list(&self) -> Vec<(PodUid, PathBuf)> {
        let left = self.left().names().unwrap_or_default();
        let is_ours = |(uid, _): &(PodUid, PathBuf)| {
            self.1.pod(uid).is_dir() || left.iter().any(|left| left == uid.as_str())
        };
        self.0.found().into_iter().filter(is_ours).collect()
    }

    fn remove(&self, path: &Path) -> Result<(), ResourceError> {
        let removed = remove_cgroup(path);
        if let Some(uid) = path.file_name().and_then(|name| name.to_str()).and_then(uid_of) {
            let left = self.0.places(&uid).iter().any(|place| place.is_dir());
            self.note_left(&uid, left);
        }
        removed?;
        self.0.balance();
        Ok(())
    }
}

impl PodCgroups {
    /// Instances whose cgroups could not be removed: their directories, which show whose they are, are gone by now.
    fn left(&self) -> Store {
        Store::new(self.1.root(), "cgroups")
    }

    /// Notes whether something is left of an instance.
    fn note_left(&self, uid: &PodUid, left: bool) {
        let (store, uid) = (self.left(), uid.as_str());
        let noted = if left { store.write(uid, &(), Durability::Process) } else { store.remove(uid) };
        if let Err(error) = noted {
            warn!(error = chain(&error), "cannot note which cgroup is left");
        }
    }
}

/// Removes a cgroup and those below it, but none with processes in it.
#[expect(clippy::disallowed_methods, reason = "blocking file work is on a thread of its own")]
fn remove_cgroup(dir: &Path) -> Result<(), FileError> {
    if !dir.is_dir() {
        return Ok(());
    }
    for child in children(dir) {
        remove_cgroup(&child)?;
    }
    for _ in 0..BUSY_TRIES {
        match fs::remove_dir(dir) {
            Err(error) if error.kind() == ErrorKind::ResourceBusy => thread::sleep(BUSY_PAUSE),
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(on("cannot remove", dir)(error));
            }
            _ => return Ok(()),
        }
    }
    Err(on("cannot remove", dir)(io::Error::from(ErrorKind::ResourceBusy)))
}

/// The directories in a directory; one that is not there has none.
fn children(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dirs.map(|entry| entry.path()).collect()
}

/// Lets the children of a v2 cgroup have the controllers that pods need and it has.
fn pass_controllers_on(dir: &Path) -> Result<(), FileError> {
    let read = |file: &str| fs::read_to_string(dir.join(file)).unwrap_or_default();
    let (has, passes) = (read("cgroup.controllers"), read("cgroup.subtree_control"));
    let file = dir.join("cgroup.subtree_control");
    for controller in values::missing_controllers(&has, &passes) {
        fs::write(&file, format!("+{controller}")).map_err(on("cannot write", &file))?;
    }
    Ok(())
}
