//! The devices that containers have of plugins: what plugins offer, who has which, and the file in which kubelet keeps it.
//!
//! Invariant: what was given is on disk before it is used. A file that cannot be used costs what it held, never a start.
//! Blocking: call it through `smol::unblock`, but for [`DeviceManager::look`].

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::warn;

use super::files::{FileError, on, replace_synced};
use crate::pod::device_assignment::DeviceAssignments;
use crate::pod::device_assignment::checkpoint::{self, CheckpointError};
use crate::text::chain;

const DIR: &str = "device-plugins";
const FILE: &str = "kubelet_internal_checkpoint";

/// Why devices could not be noted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeviceStateError {
    /// The file.
    #[error(transparent)]
    File(#[from] FileError),
    /// Its form.
    #[error(transparent)]
    Form(#[from] CheckpointError),
}

/// Who has which devices on this machine.
#[derive(Debug)]
pub(crate) struct DeviceManager {
    dir: PathBuf,
    assignments: Mutex<DeviceAssignments>,
    /// What the file holds. Held while it is written: who looks does not wait for the disk.
    written: Mutex<Vec<u8>>,
}

#[derive(Debug, Default)]
struct KeptDevices {
    assignments: DeviceAssignments,
    /// What the file holds.
    written: Vec<u8>,
}

impl DeviceManager {
    /// Reads what an earlier agent gave.
    pub(crate) fn new(root_dir: &Path) -> Self {
        let dir = root_dir.join(DIR);
        let path = dir.join(FILE);
        let state = read(&path).unwrap_or_else(|error| {
            warn!(path = %path.display(), error = chain(&error), "cannot use the checkpoint of devices: who has which is not known");
            KeptDevices::default()
        });
        let KeptDevices { assignments, written } = state;
        Self { dir, assignments: Mutex::new(assignments), written: Mutex::new(written) }
    }

    /// The directory of the file and of all sockets.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The checkpoint.
    pub(crate) fn file(&self) -> PathBuf {
        self.dir.join(FILE)
    }

    /// Looks at it.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&DeviceAssignments) -> T) -> T {
        look(&lock(&self.assignments))
    }

    /// Changes it, and writes it down.
    ///
    /// # Errors
    /// When it cannot be written; the change holds all the same, and is written with the next one.
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&mut DeviceAssignments) -> T,
    ) -> Result<T, DeviceStateError> {
        let mut written = lock(&self.written);
        let (result, now) = {
            let mut all = lock(&self.assignments);
            let result = change(&mut all);
            (result, all.clone())
        };
        let bytes = checkpoint::write(&now)?;
        let holds_nothing = written.is_empty() && now == DeviceAssignments::default();
        if bytes != *written && !holds_nothing {
            replace_synced(&self.file(), &bytes)?;
            *written = bytes;
        }
        Ok(result)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // A change is whole or not there.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read(path: &Path) -> Result<KeptDevices, DeviceStateError> {
    match fs::read(path) {
        Ok(written) => Ok(KeptDevices { assignments: checkpoint::read(&written)?, written }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(KeptDevices::default()),
        Err(error) => Err(on("cannot read", path)(error).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::PodUid;
    use crate::pod::device_assignment::Device;

    #[test]
    fn kept_for_a_successor_and_forgotten_if_damaged() {
        let root = tempfile::tempdir().unwrap();
        let uid = PodUid::from("1");
        let manager = DeviceManager::new(root.path());
        manager.change(|all| all.release(&uid)).unwrap();
        assert!(!manager.dir().exists(), "a node without plugins has no file");
        fs::create_dir(manager.dir()).unwrap();
        let one = Device { healthy: true, nodes: Vec::new() };
        manager.change(|all| all.update("a.com/x", [("d1".to_owned(), one)].into())).unwrap();
        manager.change(|all| all.grant(&uid, "main", "a.com/x", ["d1".to_owned()].into(), vec![1])).unwrap();
        let later = DeviceManager::new(root.path());
        assert_eq!(later.look(|all| all.granted.clone()), manager.look(|all| all.granted.clone()));
        assert_eq!(later.look(DeviceAssignments::allocatable), [("a.com/x".to_owned(), 0)].into());
        let before = fs::metadata(later.file()).unwrap().modified().unwrap();
        manager.change(|_| ()).unwrap();
        assert_eq!(
            fs::metadata(later.file()).unwrap().modified().unwrap(),
            before,
            "not written for nothing"
        );
        assert!(later.change(|all| all.release(&uid)).unwrap());
        assert_eq!(DeviceManager::new(root.path()).look(|all| all.granted.len()), 0);
        fs::write(later.file(), "{}").unwrap();
        assert_eq!(DeviceManager::new(root.path()).look(|all| all.offers.len()), 0);
        fs::remove_dir_all(later.dir()).unwrap();
        let refused = manager.change(|all| all.disconnect("a.com/x"));
        assert!(matches!(refused, Err(DeviceStateError::File(_))));
    }
}
