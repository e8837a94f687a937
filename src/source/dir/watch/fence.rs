//! A fence in the stream of inotify's events: once its event arrives, all events from before it have arrived.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, memfd_create};

/// A file without a name that nobody else can open. Its opening is an event like any other, and events come in order.
#[derive(Debug)]
pub(super) struct InotifyFence {
    path: PathBuf,
    /// Keeps it alive.
    _file: OwnedFd,
}

impl InotifyFence {
    /// A new one, if the kernel gives us a file.
    pub(super) fn new() -> Option<Self> {
        let file = memfd_create("manifests", MemfdFlags::CLOEXEC).ok()?;
        Some(Self { path: format!("/proc/self/fd/{}", file.as_raw_fd()).into(), _file: file })
    }

    /// What to watch.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the event. False if there will be none.
    pub(super) fn trigger(&self) -> bool {
        File::open(&self.path).is_ok()
    }
}
