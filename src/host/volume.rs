//! Volumes: what a container's mounts come to on this node.
//!
//! [`plan_pod_volumes`] and [`plan_mounts`] are pure; [`PlannedVolume::apply`] and [`PlannedMount::apply`] are the effects,
//! safe to repeat. Other kinds are refused when the manifest is read, so that no container ever runs without what it mounts.

mod error;
mod memory;
mod nfs;
mod ownership;
mod projection;
mod subpath;

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, Volume, VolumeMount};

pub(crate) use self::error::VolumeError;
use self::memory::{HugePages, check_huge_pages, memory_size, plan_huge_pages};
use self::nfs::Nfs;
pub(crate) use self::projection::OldFiles;
use self::subpath::{SubPath, read_beneath};
use super::Dirs;
use super::files::{make_dir, make_dir_exactly, on};
use super::mounts::{is_mounted, mount_new};
use crate::pod::Pod;
use crate::pod::downward_api::ProjectedFiles;
use crate::pod::env::expand_all;
use crate::pod::object::PodObjects;
use crate::pod::object::references::mounted_volumes;
use crate::pod::object::volume_files::volume_files;
use crate::pod::resource_field::NodeCapacity;

/// Kubernetes' limit for a file of variables.
const MAX_ENV_FILE: u64 = 64 << 10;

/// A volume of a pod, and what must be there for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedVolume {
    need: Need,
    host_path: PathBuf,
    /// The group that it belongs to; never for what is the node's.
    group: Option<u32>,
    /// The file that says that it was made, where kubelet has it.
    ready: Option<PathBuf>,
}

/// A mount of a container, with its path on the node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlannedMount {
    /// The path on the node.
    pub(crate) host_path: PathBuf,
    /// The mount as the manifest has it.
    pub(crate) mount: VolumeMount,
    /// It is read-only with all that is mounted below it.
    pub(crate) recursive_read_only: bool,
    /// It is a device, which the container needs a rule for.
    pub(crate) is_device: bool,
    /// It is an image, which the runtime mounts; then there is no path on the node.
    pub(crate) image: Option<ImagePart>,
    /// What is bound at the path before the container is made.
    sub_path: Option<SubPath>,
}

/// An image, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImagePart {
    /// As the manifest names it.
    pub(crate) reference: String,
    /// As the runtime names it, once that is known.
    pub(crate) resolved: String,
    /// A path in it; empty for all of it.
    pub(crate) sub_path: String,
}

/// What must be at the path on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Need {
    /// An emptyDir, open to all, made if it is not there.
    EmptyDir,
    /// An emptyDir in memory, of so many bytes.
    Memory(u64),
    /// An emptyDir of huge pages.
    HugePages(HugePages),
    /// Files made from the pod, in memory.
    Files(ProjectedFiles),
    /// A directory of another machine.
    Nfs(Nfs),
    /// Nothing is checked; a directory is made where nothing is.
    Anything,
    DirectoryOrCreate,
    Directory,
    FileOrCreate,
    File,
    Socket,
    CharDevice,
    BlockDevice,
}

/// The volumes that containers of a pod mount, each once.
///
/// # Errors
/// For a mount that cannot be served.
pub(crate) fn plan_pod_volumes(
    pod: &Pod,
    objects: &PodObjects,
    dirs: &Dirs,
    node: &NodeCapacity,
) -> Result<Vec<PlannedVolume>, VolumeError> {
    let mounts = pod.containers().flat_map(|(_, container)| container.volume_mounts.iter().flatten());
    let names: BTreeSet<&str> = mounts.map(|mount| mount.name.as_str()).collect();
    let volumes: Vec<_> = names.into_iter().map(|name| find(pod, name)).collect::<Result<_, _>>()?;
    // Images are the runtime's to mount.
    let volumes = volumes.into_iter().filter(|volume| volume.image.is_none());
    volumes.map(|volume| plan_volume(pod, objects, volume, dirs, node)).collect()
}

/// The volumes of a pod that are made of objects, as far as these are there. The others keep what they have.
pub(crate) fn plan_object_volumes(
    pod: &Pod,
    objects: &PodObjects,
    dirs: &Dirs,
    node: &NodeCapacity,
) -> Vec<PlannedVolume> {
    let volumes = mounted_volumes(pod).filter(|volume| is_of_objects(volume));
    volumes.filter_map(|volume| plan_volume(pod, objects, volume, dirs, node).ok()).collect()
}

fn is_of_objects(volume: &Volume) -> bool {
    volume.config_map.is_some() || volume.secret.is_some() || volume.projected.is_some()
}

/// The mounts of a container with this environment.
///
/// # Errors
/// For a mount that cannot be served.
pub(crate) fn plan_mounts(
    pod: &Pod,
    container: &Container,
    env: &[(String, String)],
    dirs: &Dirs,
) -> Result<Vec<PlannedMount>, VolumeError> {
    let mounts = container.volume_mounts.iter().flatten().enumerate();
    mounts
        .map(|(index, mount)| {
            let volume = find(pod, &mount.name)?;
            let mut mount = mount.clone();
            let part = plan_sub_path(&mount, env)?;
            let mut planned = PlannedMount {
                host_path: PathBuf::new(),
                recursive_read_only: false,
                is_device: false,
                image: None,
                sub_path: None,
                mount: mount.clone(),
            };
            if let Some(source) = &volume.image {
                let reference = source.reference.clone().unwrap_or_default();
                let sub_path = part.unwrap_or_default();
                planned.image = Some(ImagePart { reference, resolved: String::new(), sub_path });
                return Ok(planned);
            }
            // What is in it is made from the pod, and no container's to change.
            if volume.downward_api.is_some() || is_of_objects(volume) {
                mount.read_only = Some(true);
            }
            let kind = volume.host_path.as_ref().and_then(|host_path| host_path.type_.as_deref());
            planned.is_device = matches!(kind, Some("CharDevice" | "BlockDevice"));
            planned.host_path = host_path(pod, volume, dirs)?;
            if let Some(path) = part {
                let target = dirs.sub_path(&pod.uid, &mount.name, &container.name, index);
                let volume = std::mem::replace(&mut planned.host_path, target.clone());
                planned.sub_path = Some(SubPath { volume, path, target });
            }
            planned.mount = mount;
            Ok(planned)
        })
        .collect()
}

/// The part of the volume that is mounted; none for all of it.
fn plan_sub_path(mount: &VolumeMount, env: &[(String, String)]) -> Result<Option<String>, VolumeError> {
    let fail = |reason: String| VolumeError::SubPath { volume: mount.name.clone(), reason };
    let written = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let path = match (written(&mount.sub_path), written(&mount.sub_path_expr)) {
        (Some(path), _) => path,
        (None, Some(expression)) => expand_all(&expression, env).map_err(fail)?,
        (None, None) => return Ok(None),
    };
    if path.starts_with('/') {
        return Err(fail(format!("{path:?} must be relative")));
    }
    if path.split('/').any(|part| part == "..") {
        return Err(fail(format!("{path:?} must not contain '..'")));
    }
    Ok(Some(path).filter(|path| !path.is_empty()))
}

fn find<'p>(pod: &'p Pod, name: &str) -> Result<&'p Volume, VolumeError> {
    let volume = pod.spec.volumes.iter().flatten().find(|volume| volume.name == name);
    volume.ok_or_else(|| VolumeError::Missing(name.to_owned()))
}

/// Where a volume is on the node that the agent has made, or mounted.
pub(crate) fn own_path(pod: &Pod, volume: &Volume, dirs: &Dirs) -> Option<PathBuf> {
    host_path(pod, volume, dirs).ok().filter(|_| volume.host_path.is_none())
}

/// Where a volume is on the node.
fn host_path(pod: &Pod, volume: &Volume, dirs: &Dirs) -> Result<PathBuf, VolumeError> {
    let plugin = match volume {
        Volume { host_path: Some(host_path), .. } => return Ok(PathBuf::from(&host_path.path)),
        Volume { empty_dir: Some(_), .. } => "kubernetes.io~empty-dir",
        Volume { downward_api: Some(_), .. } => "kubernetes.io~downward-api",
        Volume { projected: Some(_), .. } => "kubernetes.io~projected",
        Volume { nfs: Some(_), .. } => "kubernetes.io~nfs",
        Volume { config_map: Some(_), .. } => "kubernetes.io~configmap",
        Volume { secret: Some(_), .. } => "kubernetes.io~secret",
        _ => return Err(VolumeError::Unsupported(volume.name.clone())),
    };
    Ok(dirs.volume(&pod.uid, plugin, &volume.name))
}

fn plan_volume(
    pod: &Pod,
    objects: &PodObjects,
    volume: &Volume,
    dirs: &Dirs,
    node: &NodeCapacity,
) -> Result<PlannedVolume, VolumeError> {
    let need = plan_need(pod, objects, volume, node)?;
    let group = pod.spec.security_context.as_ref().and_then(|context| context.fs_group);
    let is_ours = volume.host_path.is_none() && volume.nfs.is_none();
    let group = group.filter(|_| is_ours).and_then(|gid| u32::try_from(gid).ok());
    // kubelet makes volumes of files inside an emptyDir of another name.
    let ready = match &need {
        Need::EmptyDir | Need::Memory(_) | Need::HugePages(_) => Some(volume.name.clone()),
        Need::Files(_) => Some(format!("wrapped_{}", volume.name)),
        _ => None,
    };
    let ready = ready.map(|name| dirs.ready_file(&pod.uid, &name));
    Ok(PlannedVolume { need, host_path: host_path(pod, volume, dirs)?, group, ready })
}

fn plan_need(
    pod: &Pod,
    objects: &PodObjects,
    volume: &Volume,
    node: &NodeCapacity,
) -> Result<Need, VolumeError> {
    if let Some(empty_dir) = &volume.empty_dir {
        let limit = empty_dir.size_limit.as_ref();
        return Ok(match empty_dir.medium.as_deref().unwrap_or_default() {
            "" => Need::EmptyDir,
            "Memory" => Need::Memory(memory_size(pod, limit, node)),
            medium => Need::HugePages(plan_huge_pages(pod, medium, limit).map_err(VolumeError::HugePages)?),
        });
    }
    if let Some(files) = volume_files(pod, volume, objects, node) {
        let no_value = |reason| VolumeError::NoValue { volume: volume.name.clone(), reason };
        return Ok(Need::Files(files.map_err(no_value)?));
    }
    if let Some(source) = &volume.nfs {
        return Ok(Need::Nfs(Nfs::new(source)));
    }
    let unsupported = || VolumeError::Unsupported(volume.name.clone());
    let host_path = volume.host_path.as_ref().ok_or_else(unsupported)?;
    Ok(match host_path.type_.as_deref().unwrap_or_default() {
        "" => Need::Anything,
        "DirectoryOrCreate" => Need::DirectoryOrCreate,
        "Directory" => Need::Directory,
        "FileOrCreate" => Need::FileOrCreate,
        "File" => Need::File,
        "Socket" => Need::Socket,
        "CharDevice" => Need::CharDevice,
        "BlockDevice" => Need::BlockDevice,
        _ => return Err(unsupported()),
    })
}

impl PlannedMount {
    /// Binds the part of the volume that is mounted, if it is a part. Blocking.
    ///
    /// # Errors
    /// When there is no such part, or it leads out of its volume.
    pub(crate) fn apply(&self) -> Result<(), VolumeError> {
        Ok(self.sub_path.iter().try_for_each(SubPath::apply)?)
    }
}

impl PlannedVolume {
    /// Replaces the files of a volume that is there already. Blocking.
    ///
    /// # Errors
    /// When they cannot be written.
    pub(crate) fn update(&self, old: OldFiles) -> Result<(), VolumeError> {
        match &self.need {
            Need::Files(files) if is_mounted(&self.host_path).is_ok_and(|mount| mount.is_some()) => {
                Ok(projection::write_files(&self.host_path, files, self.group, old)?)
            }
            _ => Ok(()),
        }
    }

    /// Makes or checks what must be there. Blocking.
    ///
    /// # Errors
    /// When it is something else, or cannot be made.
    pub(crate) fn apply(&self) -> Result<(), VolumeError> {
        self.make()?;
        if let Some(gid) = self.group {
            ownership::apply_group(&self.host_path, gid, matches!(self.need, Need::Files(_)))?;
        }
        match self.ready.as_ref().and_then(|ready| Some((ready, ready.parent()?))) {
            Some((ready, dir)) => {
                make_dir(dir, 0o750)?;
                make_file(ready)
            }
            None => Ok(()),
        }
    }

    fn make(&self) -> Result<(), VolumeError> {
        let path = &self.host_path;
        match &self.need {
            // What a group was given stays: see `apply`.
            Need::EmptyDir if self.group.is_some() && path.is_dir() => return Ok(()),
            Need::EmptyDir => return Ok(make_dir_exactly(path, 0o777)?),
            Need::Memory(size) => {
                make_dir(path, 0o777)?;
                return Ok(mount_new("tmpfs", &format!("size={size}"), path)?);
            }
            Need::HugePages(pages) => {
                check_huge_pages(pages)?;
                make_dir(path, 0o777)?;
                return Ok(mount_new("hugetlbfs", &pages.options(), path)?);
            }
            Need::Files(files) => {
                make_dir(path, 0o755)?;
                mount_new("tmpfs", "mode=1777", path)?;
                return Ok(projection::write_files(path, files, self.group, OldFiles::Remove)?);
            }
            Need::Nfs(nfs) => return nfs.mount(path),
            Need::DirectoryOrCreate => make_dir(path, 0o755)?,
            Need::FileOrCreate => make_file(path)?,
            // The runtime makes a directory where nothing is, as it does for kubelet.
            Need::Anything => return Ok(()),
            _ => {}
        }
        let found = match fs::metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            found => Some(found.map_err(on("cannot examine", path))?.file_type()),
        };
        let (fits, expected) = match self.need {
            Need::Directory | Need::DirectoryOrCreate => (found.is_some_and(|t| t.is_dir()), "a directory"),
            Need::File | Need::FileOrCreate => (found.is_some_and(|t| t.is_file()), "a file"),
            Need::Socket => (found.is_some_and(|t| t.is_socket()), "a socket file"),
            Need::CharDevice => (found.is_some_and(|t| t.is_char_device()), "a character device"),
            Need::BlockDevice => (found.is_some_and(|t| t.is_block_device()), "a block device"),
            _ => (true, ""),
        };
        if fits { Ok(()) } else { Err(VolumeError::WrongType { path: path.clone(), expected }) }
    }
}

fn make_file(path: &Path) -> Result<(), VolumeError> {
    match fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        done => Ok(done.map(drop).map_err(on("cannot create", path))?),
    }
}

/// Whether preparing the volumes of a pod may take long, and nobody should wait for it.
pub(crate) fn are_slow(pod: &Pod) -> bool {
    pod.spec.volumes.iter().flatten().any(|volume| volume.nfs.is_some())
}

/// Reads a file of variables (`fileKeyRef`) in a volume of a pod. Blocking.
///
/// # Errors
/// When there is no such file, it is too large, or it is something else than a file of the volume.
pub(crate) fn read_env_file(pod: &Pod, name: &str, path: &str, dirs: &Dirs) -> Result<String, VolumeError> {
    let volume = find(pod, name)?;
    if volume.empty_dir.is_none() {
        return Err(VolumeError::NotEmptyDir(name.to_owned()));
    }
    let at = host_path(pod, volume, dirs)?;
    let full = at.join(path);
    let bytes = read_beneath(&at, Path::new(path), MAX_ENV_FILE).map_err(on("cannot read", &full))?;
    Ok(String::from_utf8(bytes).map_err(|_| on("cannot read", &full)(io::Error::other("not UTF-8")))?)
}

/// A path in a container without a leading slash means one from the root.
pub(crate) fn absolute(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

#[cfg(test)]
mod tests;
