//! Carries out plans on the container runtime: thin effects around the CRI client and the node's directories.
//!
//! Decides nothing: what to do comes from `plan`, how it is said to the runtime from `cri::convert`.

pub mod dirs;
mod execute;
mod image;
mod logs;
mod observe;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_lite::future;
use smol::lock::{RwLock, Semaphore};
use smol::{Executor, Timer};

use crate::cri::{CriClient, CriError};
use crate::metrics::Metrics;
use crate::pod::dns::ClusterDns;
use crate::volume::VolumeError;

pub use dirs::Dirs;
#[cfg(test)]
pub(crate) use execute::container_mounts;
pub use execute::{StartError, chain};
pub(crate) use logs::{make_dir, make_dir_exactly, on, remove_file, remove_tree};
pub use observe::Cache;

/// The container runtime and the node around it.
#[derive(Debug)]
pub struct Runtime {
    /// The client.
    pub cri: CriClient,
    /// Where things lie on disk.
    pub dirs: Dirs,
    /// The node's addresses, if they were given.
    pub node_ips: Vec<String>,
    /// The cluster's resolver.
    pub cluster_dns: ClusterDns,
    /// The node's resolver file; without one, pods with the node's policy get none.
    pub resolv_conf: Option<PathBuf>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Runs what goes on side by side.
    pub executor: Arc<Executor<'static>>,
    /// How many sandboxes are made at the same time: see [`Runtime::sandbox_width`].
    pub sandboxes: Semaphore,
    /// Held for reading while a container is being started: see [`Runtime::drain`].
    pub starts: RwLock<()>,
}

impl Runtime {
    /// Sandboxes to make at the same time. More of them start no sooner on a machine of this many cores, and keep
    /// the containers of those that are ready waiting.
    pub fn sandbox_width(cores: usize) -> usize {
        cores.saturating_mul(4).clamp(4, 16)
    }

    /// Lets the starts that are under way come to their end, and none begin any more: containerd kills a container
    /// whose caller goes away while it starts.
    pub async fn drain(&self, deadline: Duration) {
        // Never given back: what would start now waits until the process ends.
        let drained = async { std::mem::forget(self.starts.write().await) };
        let late = async {
            Timer::after(deadline).await;
        };
        future::or(drained, late).await;
    }
}

/// A step that failed.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The runtime refused, or did not answer.
    #[error(transparent)]
    Cri(#[from] CriError),
    /// A file or directory on the node.
    #[error("{operation} {}", path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// With which path.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A volume of the pod.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The runtime says that it was done, and shows that it was not.
    #[error("the runtime did as it was told, without effect")]
    NoEffect,
    /// A mount lies where a directory is to be removed: what is mounted there is not ours to delete.
    #[error("{} is a mount point, {} stays", mount.display(), dir.display())]
    Mounted {
        /// The mount point.
        mount: PathBuf,
        /// The directory.
        dir: PathBuf,
    },
}
