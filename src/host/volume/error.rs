//! Why a volume cannot be had.

use std::path::PathBuf;

use crate::host::files::FileError;
use crate::host::program::ProgramError;

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
    /// A file of a volume has no value.
    #[error("MountVolume.SetUp failed for volume {volume:?}: {reason}")]
    NoValue {
        /// The volume.
        volume: String,
        /// Which, and why.
        reason: String,
    },
    /// Huge pages that the node does not have, or that are not said clearly.
    #[error("{0}")]
    HugePages(String),
    /// A part of a volume that cannot be.
    #[error("failed to prepare subPath for volumeMount {volume:?}: {reason}")]
    SubPath {
        /// The volume.
        volume: String,
        /// The reason.
        reason: String,
    },
    /// A mount that must be read-only with all below it.
    #[error("volumeMount {0:?}: recursiveReadOnly Enabled is not supported by the container runtime")]
    RecursiveReadOnly(String),
    /// A file of variables in another volume than an emptyDir.
    #[error("volume {0:?} is no emptyDir: a fileKeyRef needs one")]
    NotEmptyDir(String),
    /// An image that cannot be mounted.
    #[error("volume {volume:?}: {reason}")]
    Image {
        /// The volume.
        volume: String,
        /// The reason.
        reason: String,
    },
    /// The system's mount program.
    #[error("mount of {volume} failed")]
    Mount {
        /// What was to be mounted.
        volume: String,
        /// Why.
        source: ProgramError,
    },
    /// Something could not be made or examined.
    #[error(transparent)]
    File(#[from] FileError),
}

impl VolumeError {
    /// What was asked for is not there.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::File(error) if error.is_absent())
    }
}
