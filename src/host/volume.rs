//! Volumes: what a container's mounts come to on this node. hostPath and emptyDir so far.
//!
//! [`plan_pod_volumes`] and [`plan_mounts`] are pure; [`PlannedVolume::apply`] is the effect, safe to repeat. Other kinds are refused when the
//! manifest is read, so that no container ever runs without what it mounts.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, Volume, VolumeMount};

use super::Dirs;
use super::files::{FileError, make_dir, make_dir_exactly, on};
use crate::pod::Pod;

/// Why a volume cannot be mounted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VolumeError {
    /// The mount names no volume of the pod.
    #[error("volume {0:?} is not in the pod")]
    Missing(String),
    /// A kind that is not there yet.
    #[error("volume {0:?} is of a kind that is not supported yet")]
    Unsupported(String),
    /// The path on the node is not what the manifest says.
    #[error("hostPath type check failed: {} is not {expected}", path.display())]
    WrongType {
        /// The path on the node.
        path: PathBuf,
        /// What it should be.
        expected: &'static str,
    },
    /// Something could not be made or examined.
    #[error(transparent)]
    File(#[from] FileError),
}

/// A volume of a pod, and what must be there for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedVolume {
    need: Need,
    host_path: PathBuf,
}

/// A mount of a container, with its path on the node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlannedMount {
    /// The path on the node.
    pub(crate) host_path: PathBuf,
    /// The mount as the manifest has it.
    pub(crate) mount: VolumeMount,
}

/// What must be at the path on the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// An emptyDir, open to all, made if it is not there.
    EmptyDir,
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
pub(crate) fn plan_pod_volumes(pod: &Pod, dirs: &Dirs) -> Result<Vec<PlannedVolume>, VolumeError> {
    let mounts = pod.containers().flat_map(|(_, container)| container.volume_mounts.iter().flatten());
    let names: BTreeSet<&str> = mounts.map(|mount| mount.name.as_str()).collect();
    names.into_iter().map(|name| plan_volume(pod, name, dirs)).collect()
}

/// The mounts of a container.
///
/// # Errors
/// For a mount that cannot be served.
pub(crate) fn plan_mounts(
    pod: &Pod,
    container: &Container,
    dirs: &Dirs,
) -> Result<Vec<PlannedMount>, VolumeError> {
    let mounts = container.volume_mounts.iter().flatten();
    mounts
        .map(|mount| {
            let PlannedVolume { host_path, .. } = plan_volume(pod, &mount.name, dirs)?;
            Ok(PlannedMount { host_path, mount: mount.clone() })
        })
        .collect()
}

fn plan_volume(pod: &Pod, name: &str, dirs: &Dirs) -> Result<PlannedVolume, VolumeError> {
    let volume = pod.spec.volumes.iter().flatten().find(|volume| volume.name == name);
    let volume = volume.ok_or_else(|| VolumeError::Missing(name.to_owned()))?;
    let (need, host_path) = plan_source(pod, volume, dirs)?;
    Ok(PlannedVolume { need, host_path })
}

fn plan_source(pod: &Pod, volume: &Volume, dirs: &Dirs) -> Result<(Need, PathBuf), VolumeError> {
    if volume.empty_dir.is_some() {
        return Ok((Need::EmptyDir, dirs.empty_dir(&pod.uid, &volume.name)));
    }
    let unsupported = || VolumeError::Unsupported(volume.name.clone());
    let host_path = volume.host_path.as_ref().ok_or_else(unsupported)?;
    let need = match host_path.type_.as_deref().unwrap_or_default() {
        "" => Need::Anything,
        "DirectoryOrCreate" => Need::DirectoryOrCreate,
        "Directory" => Need::Directory,
        "FileOrCreate" => Need::FileOrCreate,
        "File" => Need::File,
        "Socket" => Need::Socket,
        "CharDevice" => Need::CharDevice,
        "BlockDevice" => Need::BlockDevice,
        _ => return Err(unsupported()),
    };
    Ok((need, PathBuf::from(&host_path.path)))
}

impl PlannedVolume {
    /// Makes or checks what must be there. Blocking.
    ///
    /// # Errors
    /// When it is something else, or cannot be made.
    pub(crate) fn apply(&self) -> Result<(), VolumeError> {
        let path = &self.host_path;
        match self.need {
            Need::EmptyDir => return Ok(make_dir_exactly(path, 0o777)?),
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
            Need::EmptyDir | Need::Anything => (true, ""),
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

/// A path in a container without a leading slash means one from the root.
pub(crate) fn absolute(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

#[cfg(test)]
mod tests;
