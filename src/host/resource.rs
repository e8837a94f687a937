//! What an instance of a pod needs on the node: prepared before its first container, released in reverse after its last.
//!
//! A new kind is one more [`Resource`] in the list of [`Resources::new`]. Invariant: prepare and
//! release are idempotent and stateless: what a killed agent left is found on the node again.
//!
//! Blocking: call it through `smol::unblock`.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Dirs;
use super::cgroup::{CgroupError, Cgroups, PodCgroups};
use super::device_manager::{DeviceManager, DeviceStateError};
use super::files::{FileError, make_dir, remove_tree};
use super::machine::read_capacity;
use super::mounts::unmount_ours;
use super::volume::{VolumeError, plan_pod_volumes};
use crate::pod::object::PodObjects;
use crate::pod::resource_field::NodeCapacity;
use crate::pod::{Pod, PodName, PodUid};

/// Why a resource could not be prepared or released.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResourceError {
    /// A file or directory.
    #[error(transparent)]
    File(#[from] FileError),
    /// A volume.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// A cgroup.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// The devices of plugins.
    #[error(transparent)]
    Devices(#[from] DeviceStateError),
}

/// One kind of thing that instances need.
pub(crate) trait Resource: Debug + Send + Sync {
    /// kubelet's reason for an instance that waits because this could not be prepared.
    fn failure_reason(&self) -> &'static str;

    /// Makes what is missing for an instance that has these ConfigMaps and Secrets.
    ///
    /// # Errors
    /// When it cannot be made, or is not what the manifest says.
    fn prepare(&self, pod: &Pod, objects: &PodObjects) -> Result<(), ResourceError>;

    /// Removes what there is of an instance.
    ///
    /// # Errors
    /// When something cannot be removed, or is not ours to remove.
    fn release(&self, name: &PodName, uid: &PodUid) -> Result<(), ResourceError>;

    /// What there is of any instance, by its UID.
    fn list(&self) -> Vec<(PodUid, PathBuf)>;

    /// Removes what [`Resource::list`] found of an instance that no pod has.
    ///
    /// # Errors
    /// When it cannot be removed, or is not ours to remove.
    fn remove(&self, path: &Path) -> Result<(), ResourceError> {
        Ok(remove_tree(path)?)
    }
}

/// Something of an instance, found on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundResource {
    /// Its place in the list of resources.
    kind: usize,
    uid: PodUid,
    /// Where it is.
    pub(crate) path: PathBuf,
}

/// Why an instance could not be prepared.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct PrepareError {
    /// kubelet's reason.
    pub(crate) reason: &'static str,
    /// The cause.
    pub(crate) source: ResourceError,
}

/// Everything that instances need, in the order in which it is prepared. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Resources(Arc<[Box<dyn Resource>]>);

impl Resources {
    /// All kinds that there are.
    pub(crate) fn new(dirs: &Dirs, cgroups: &Arc<Cgroups>, devices: &Arc<DeviceManager>) -> Self {
        let all: [Box<dyn Resource>; 5] = [
            Box::new(PodDevices(devices.clone())),
            Box::new(Directories(dirs.clone())),
            Box::new(Logs(dirs.clone())),
            Box::new(Volumes(dirs.clone(), cgroups.node.allocatable)),
            // Last, and so released before the directory that shows whose it is.
            Box::new(PodCgroups(cgroups.clone(), dirs.clone())),
        ];
        Self(Arc::new(all))
    }

    /// Prepares all that an instance needs.
    ///
    /// # Errors
    /// At the first that cannot be prepared.
    pub(crate) fn prepare(&self, pod: &Pod, objects: &PodObjects) -> Result<(), PrepareError> {
        self.0.iter().try_for_each(|resource| {
            resource
                .prepare(pod, objects)
                .map_err(|source| PrepareError { reason: resource.failure_reason(), source })
        })
    }

    /// Releases all that an instance has, the last prepared first.
    ///
    /// # Errors
    /// At the first that cannot be released: what was prepared before it may be needed to try again.
    pub(crate) fn release(&self, name: &PodName, uid: &PodUid) -> Result<(), ResourceError> {
        self.0.iter().rev().try_for_each(|resource| resource.release(name, uid))
    }

    /// What there is of any instance, the last prepared first.
    pub(crate) fn list(&self) -> Vec<FoundResource> {
        let each = self.0.iter().enumerate().rev();
        let found = each.flat_map(|(kind, resource)| {
            resource.list().into_iter().map(move |(uid, path)| FoundResource { kind, uid, path })
        });
        found.collect()
    }

    /// Removes what was found.
    ///
    /// # Errors
    /// When it cannot be removed, or is not ours to remove.
    pub(crate) fn remove(&self, found: &FoundResource) -> Result<(), ResourceError> {
        self.0.get(found.kind).map_or(Ok(()), |resource| resource.remove(&found.path))
    }
}

/// What was found of instances other than these.
pub(crate) fn select_orphans(found: Vec<FoundResource>, alive: &BTreeSet<PodUid>) -> Vec<FoundResource> {
    found.into_iter().filter(|found| !alive.contains(&found.uid)).collect()
}

/// The instance's own directory, as kubelet lays it out.
#[derive(Debug)]
struct Directories(Dirs);

impl Resource for Directories {
    fn failure_reason(&self) -> &'static str {
        "FailedToMakePodDataDirectories"
    }

    fn prepare(&self, pod: &Pod, _: &PodObjects) -> Result<(), ResourceError> {
        let dir = self.0.pod(&pod.uid);
        ["volumes", "plugins", "containers"]
            .iter()
            .try_for_each(|name| make_dir(&dir.join(name), 0o750))
            .map_err(Into::into)
    }

    fn release(&self, _: &PodName, uid: &PodUid) -> Result<(), ResourceError> {
        Ok(remove_tree(&self.0.pod(uid))?)
    }

    fn list(&self) -> Vec<(PodUid, PathBuf)> {
        let dir = self.0.pods();
        names(&dir)
            .into_iter()
            .filter(|name| is_uid(name))
            .map(|name| (PodUid(name.clone()), dir.join(name)))
            .collect()
    }

    fn remove(&self, path: &Path) -> Result<(), ResourceError> {
        unmount_ours(path)?;
        Ok(remove_tree(path)?)
    }
}

/// The directory of the instance's logs.
#[derive(Debug)]
struct Logs(Dirs);

impl Resource for Logs {
    fn failure_reason(&self) -> &'static str {
        "FailedToMakePodDataDirectories"
    }

    fn prepare(&self, pod: &Pod, _: &PodObjects) -> Result<(), ResourceError> {
        Ok(make_dir(&self.0.logs(&pod.name, &pod.uid), 0o755)?)
    }

    fn release(&self, name: &PodName, uid: &PodUid) -> Result<(), ResourceError> {
        Ok(remove_tree(&self.0.logs(name, uid))?)
    }

    fn list(&self) -> Vec<(PodUid, PathBuf)> {
        let dir = self.0.pod_logs();
        names(dir).into_iter().filter_map(|name| Some((log_dir_uid(&name)?, dir.join(name)))).collect()
    }
}

/// The volumes that containers of the instance mount. They lie in its directory, and go with it. Only what we mounted is
/// unmounted; a directory with any other mount in it stays.
#[derive(Debug)]
struct Volumes(Dirs, Option<NodeCapacity>);

impl Resource for Volumes {
    fn failure_reason(&self) -> &'static str {
        "FailedMount"
    }

    fn prepare(&self, pod: &Pod, objects: &PodObjects) -> Result<(), ResourceError> {
        let node = self.1.map_or_else(|| read_capacity(self.0.root()), Ok)?;
        let volumes = plan_pod_volumes(pod, objects, &self.0, &node)?;
        Ok(volumes.iter().try_for_each(|volume| volume.apply())?)
    }

    fn release(&self, _: &PodName, uid: &PodUid) -> Result<(), ResourceError> {
        unmount_ours(&self.0.pod(uid))?;
        remove_tree(&self.0.sub_paths(uid))?;
        Ok(remove_tree(&self.0.volumes(uid))?)
    }

    fn list(&self) -> Vec<(PodUid, PathBuf)> {
        Vec::new()
    }
}

/// The devices of plugins that the containers have. They are given when a container is made, since a plugin must be asked.
#[derive(Debug)]
struct PodDevices(Arc<DeviceManager>);

impl Resource for PodDevices {
    fn failure_reason(&self) -> &'static str {
        "UnexpectedAdmissionError"
    }

    fn prepare(&self, _: &Pod, _: &PodObjects) -> Result<(), ResourceError> {
        Ok(())
    }

    fn release(&self, _: &PodName, uid: &PodUid) -> Result<(), ResourceError> {
        if self.0.look(|all| all.granted.contains_key(uid)) {
            self.0.change(|all| all.release(uid))?;
        }
        Ok(())
    }

    fn list(&self) -> Vec<(PodUid, PathBuf)> {
        let uids = self.0.look(|all| all.granted.keys().cloned().collect::<Vec<_>>());
        // By where it is noted, and by whom.
        uids.into_iter().map(|uid| (uid.clone(), self.0.file().join(uid.as_str()))).collect()
    }

    fn remove(&self, path: &Path) -> Result<(), ResourceError> {
        let uid = path.file_name().and_then(|name| name.to_str()).map(PodUid::from);
        Ok(uid.map_or(Ok(()), |uid| self.0.change(|all| all.release(&uid)).map(drop))?)
    }
}

/// The names in a directory; one that is not there has none.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// The UID in the name of a log directory, NAMESPACE_NAME_UID.
fn log_dir_uid(name: &str) -> Option<PodUid> {
    let parts: Vec<_> = name.split('_').collect();
    match parts.as_slice() {
        [_, _, uid] if is_uid(uid) => Some(PodUid::from(*uid)),
        _ => None,
    }
}

/// What Kubernetes gives for a UID: hexadecimal, with dashes or without. Anything else is not ours to judge.
fn is_uid(name: &str) -> bool {
    let digits = name.chars().filter(char::is_ascii_hexdigit).count();
    digits == 32 && name.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::cgroup::mounts::Hierarchies;
    use crate::pod::cgroup_name::CgroupRoot;
    use crate::pod::device_assignment::DeviceAssignments;
    use crate::pod::resources::{NodeResources, PodFigures};
    use crate::pod::testing::pod;

    const ALIVE: &str = "cd356e388f0b1d2e7bf518178c21b8ff";
    const DEAD: &str = "1d0dc1eff9be3a4ff33ec80437482d79";

    fn no_cgroups() -> Arc<Cgroups> {
        let (root, node) = (CgroupRoot::new(""), NodeResources::default());
        Arc::new(Cgroups::new(root, true, node, Hierarchies::default(), PodFigures::default()))
    }

    fn no_devices(dirs: &Dirs) -> Arc<DeviceManager> {
        Arc::new(DeviceManager::new(dirs.root()))
    }

    #[test]
    fn devices_of_a_pod_that_is_gone_are_found_and_freed() {
        let root = tempfile::tempdir().unwrap();
        let dirs = Dirs::new(root.path().join("root"), root.path().join("logs"));
        let devices = no_devices(&dirs);
        fs::create_dir_all(devices.dir()).unwrap();
        for uid in [ALIVE, DEAD] {
            let grant = |all: &mut DeviceAssignments| {
                all.grant(&PodUid::from(uid), "main", "a.com/x", [uid.to_owned()].into(), Vec::new());
            };
            devices.change(grant).unwrap();
        }
        let resources = Resources::new(&dirs, &no_cgroups(), &devices);
        for orphan in select_orphans(resources.list(), &BTreeSet::from([PodUid::from(ALIVE)])) {
            resources.remove(&orphan).unwrap();
        }
        let left =
            |devices: &DeviceManager| devices.look(|all| all.granted.keys().cloned().collect::<Vec<_>>());
        assert_eq!(left(&devices), [PodUid::from(ALIVE)]);
        let name = pod("p", ALIVE).name;
        resources.release(&name, &PodUid::from(ALIVE)).unwrap();
        assert_eq!(left(&no_devices(&dirs)), []);
    }

    #[test]
    fn only_names_that_kubernetes_gives_are_uids() {
        for (name, expect) in [
            (DEAD, true),
            ("1d0dc1ef-f9be-3a4f-f33e-c80437482d79", true),
            ("lost+found", false),
            ("", false),
            ("my-fixed-uid", false),
        ] {
            assert_eq!(is_uid(name), expect, "{name}");
        }
        for (name, expect) in [
            (format!("default_simple-node1_{DEAD}"), true),
            (DEAD.to_owned(), false),
            (format!("a_b_c_{DEAD}"), false),
        ] {
            assert_eq!(log_dir_uid(&name).is_some(), expect, "{name}");
        }
    }

    #[test]
    fn what_is_prepared_is_found_again_and_released() {
        let root = tempfile::tempdir().unwrap();
        let dirs = Dirs::new(root.path().join("root"), root.path().join("logs"));
        let (resources, mut pods) = (Resources::new(&dirs, &no_cgroups(), &no_devices(&dirs)), Vec::new());
        for uid in [ALIVE, DEAD] {
            let mut pod = pod("p", uid);
            let volumes =
                serde_json::json!([{"name": "scratch", "emptyDir": {}}, {"name": "unused", "emptyDir": {}}]);
            pod.spec.volumes = Some(serde_json::from_value(volumes).unwrap());
            let mounts = serde_json::json!([{"name": "scratch", "mountPath": "/s"}]);
            pod.spec.containers[0].volume_mounts = Some(serde_json::from_value(mounts).unwrap());
            // A later agent prepares again.
            resources.prepare(&pod, &PodObjects::default()).unwrap();
            resources.prepare(&pod, &PodObjects::default()).unwrap();
            assert!(dirs.volume(&pod.uid, "kubernetes.io~empty-dir", "scratch").is_dir());
            assert!(!dirs.volume(&pod.uid, "kubernetes.io~empty-dir", "unused").exists());
            pods.push(pod);
        }
        let later = Resources::new(&dirs, &no_cgroups(), &no_devices(&dirs));
        let orphans = select_orphans(later.list(), &BTreeSet::from([PodUid::from(ALIVE)]));
        let paths: Vec<_> = orphans.iter().map(|found| found.path.clone()).collect();
        assert_eq!(paths, [dirs.logs(&pods[1].name, &pods[1].uid), dirs.pod(&pods[1].uid)]);
        for pod in &pods {
            later.release(&pod.name, &pod.uid).unwrap();
            later.release(&pod.name, &pod.uid).unwrap();
        }
        assert_eq!(later.list(), []);
    }

    #[test]
    fn a_failure_has_kubelets_reason() {
        let root = tempfile::tempdir().unwrap();
        let dirs = Dirs::new(root.path().join("root"), root.path().join("logs"));
        let mut pod = pod("p", DEAD);
        let missing = root.path().join("missing");
        let volumes =
            serde_json::json!([{"name": "host", "hostPath": {"path": missing, "type": "Directory"}}]);
        pod.spec.volumes = Some(serde_json::from_value(volumes).unwrap());
        let mounts = serde_json::json!([{"name": "host", "mountPath": "/s"}]);
        pod.spec.containers[0].volume_mounts = Some(serde_json::from_value(mounts).unwrap());
        let error = Resources::new(&dirs, &no_cgroups(), &no_devices(&dirs))
            .prepare(&pod, &PodObjects::default())
            .unwrap_err();
        assert_eq!(error.reason, "FailedMount");
        let expect = format!("hostPath type check failed: {} is not a directory", missing.display());
        assert_eq!(error.source.to_string(), expect);
    }
}
