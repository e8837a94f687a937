//! The little that must outlive the agent and cannot be read from the runtime: small files under `rkubelet/` in the
//! agent's root directory.
//!
//! A file is written beside its place and renamed into it, so that it is there whole or not at all. A small one that need not
//! outlive a power cut is written over in place instead: a rename makes ext4 allocate and flush a new file, which was
//! measured to cost flash six times as much as one page that is written over. A file that is torn or foreign costs what it held, never a
//! start. What need not outlive a boot lies in memory, under `/run`. Everything here blocks: call it through `smol::unblock`.

#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use super::lock::RUN_DIR;

pub(crate) use crate::plan::checkpoint::Durability;

/// No file of ours is larger; one that is was not written by us.
const MAX_BYTES: u64 = 64 << 20;
/// The kernel copies what lies in one page in one step: a killed agent leaves the old contents or the new ones.
const PAGE: usize = 4096;
/// The kernel's number for file systems in memory.
const TMPFS: i128 = 0x0102_1994;
/// The ending of a file in the making.
const UNFINISHED: &str = ".tmp";

/// One kind of files: a directory of its own.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    dir: PathBuf,
}

/// A file of the state that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StateError {
    /// The file system said no.
    #[error("cannot {operation} {}", path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// With which path.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// It is not what was written there.
    #[error("{} is damaged", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// It would not be read again.
    #[error("{} would take {size} bytes, more than {MAX_BYTES}", path.display())]
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// What it would take.
        size: usize,
    },
}

impl Store {
    /// The files of one kind under the agent's root directory. Nothing is made before the first write.
    pub(crate) fn new(root_dir: &Path, kind: &str) -> Self {
        Self { dir: root_dir.join("rkubelet").join(kind) }
    }

    /// Files that are gone after a boot, and cost the disk nothing; none where there is no file system in memory.
    pub(crate) fn in_memory(root_dir: &Path, kind: &str) -> Option<Self> {
        let run = Path::new(RUN_DIR);
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(run);
        let kept_in = made.ok().and_then(|()| rustix::fs::statfs(run).ok())?;
        // The root directory tells agents apart, by its real path.
        let root = fs::canonicalize(root_dir).unwrap_or_else(|_| root_dir.to_owned());
        let digest = Sha256::digest(root.as_os_str().as_encoded_bytes());
        let digest: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        (i128::from(kept_in.f_type) == TMPFS).then(|| Self { dir: run.join(format!("{kind}-{digest}")) })
    }

    /// What was last written under a name; none if nothing was.
    ///
    /// # Errors
    /// When there is a file that cannot be read, or that is damaged.
    pub(crate) fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, StateError> {
        let path = self.path(name);
        let mut bytes = Vec::new();
        match File::open(&path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            outcome => outcome.map_err(at("read", &path))?,
        };
        serde_json::from_slice(&bytes).map(Some).map_err(|source| StateError::Damaged { path, source })
    }

    /// Puts a value under a name, in place of what was there.
    ///
    /// # Errors
    /// When it cannot be written; what was there is there still.
    pub(crate) fn write<T: Serialize>(
        &self,
        name: &str,
        value: &T,
        durability: Durability,
    ) -> Result<(), StateError> {
        self.write_all([(name, value)], durability)
    }

    /// Puts several values under their names, in place of what was there. The disk is waited for once, not for each.
    ///
    /// # Errors
    /// When one cannot be written; under each name is what was there, or the new value.
    pub(crate) fn write_all<'a, T: Serialize + 'a>(
        &self,
        values: impl IntoIterator<Item = (&'a str, &'a T)>,
        durability: Durability,
    ) -> Result<(), StateError> {
        let (names, values): (Vec<_>, Vec<_>) = values.into_iter().unzip();
        let written = self.put(&names, &values, durability);
        if written.is_err() {
            // Half a file is of no use; it may be gone already.
            names.iter().for_each(|name| drop(fs::remove_file(self.unfinished(name))));
        }
        written
    }

    fn put<T: Serialize>(
        &self,
        names: &[&str],
        values: &[&T],
        durability: Durability,
    ) -> Result<(), StateError> {
        if names.is_empty() {
            return Ok(());
        }
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir);
        made.map_err(at("make", &self.dir))?;
        let dir = File::open(&self.dir).map_err(at("open", &self.dir))?;
        let power = durability == Durability::Power;
        for (name, value) in names.iter().zip(values) {
            let bytes = serde_json::to_vec(value)
                .map_err(|source| StateError::Damaged { path: self.path(name), source })?;
            if bytes.len() as u64 > MAX_BYTES {
                return Err(StateError::TooLarge { path: self.path(name), size: bytes.len() });
            }
            if !power && names.len() == 1 && self.write_over(name, &bytes) {
                return Ok(());
            }
            self.lay(name, &bytes, power && names.len() == 1)?;
        }
        if power && names.len() > 1 {
            // One journal commit for all of them.
            rustix::fs::syncfs(&dir).map_err(|error| at("sync", &self.dir)(error.into()))?;
        }
        for name in names {
            let unfinished = self.unfinished(name);
            fs::rename(&unfinished, self.path(name)).map_err(at("rename", &unfinished))?;
        }
        if power {
            dir.sync_all().map_err(at("sync", &self.dir))?;
        }
        Ok(())
    }

    /// Writes over a file in place, if it is there and both its contents and the new ones fit into one page. The file never
    /// shrinks: what is left of the old contents becomes white space.
    fn write_over(&self, name: &str, bytes: &[u8]) -> bool {
        let write = || -> std::io::Result<bool> {
            let flags = i32::try_from(OFlags::NOFOLLOW.bits()).map_err(std::io::Error::other)?;
            let file = fs::OpenOptions::new().write(true).custom_flags(flags).open(self.path(name))?;
            let metadata = file.metadata()?;
            let length = usize::try_from(metadata.len()).unwrap_or(usize::MAX).max(bytes.len());
            // Without a block of its own the write could fail for want of space, with the old contents gone.
            if length > PAGE || metadata.len() == 0 || metadata.blocks() == 0 {
                return Ok(false);
            }
            let mut padded = bytes.to_vec();
            padded.resize(length, b' ');
            Ok(file.write_at(&padded, 0)? == padded.len())
        };
        write().unwrap_or(false)
    }

    /// Writes a file beside its place.
    fn lay(&self, name: &str, bytes: &[u8], sync: bool) -> Result<(), StateError> {
        let path = self.unfinished(name);
        // Manifests may hold secrets: root's alone.
        let options =
            || fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        let mut file = options().map_err(at("write", &path))?;
        file.write_all(bytes).map_err(at("write", &path))?;
        if sync {
            file.sync_all().map_err(at("sync", &path))?;
        }
        Ok(())
    }

    /// Forgets what is under a name, if anything.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub(crate) fn remove(&self, name: &str) -> Result<(), StateError> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            outcome => outcome.map_err(at("remove", &path)),
        }
    }

    /// All names under which something is.
    ///
    /// # Errors
    /// When the directory cannot be read; one that is not there holds nothing.
    pub(crate) fn names(&self) -> Result<Vec<String>, StateError> {
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            outcome => outcome.map_err(at("read", &self.dir))?,
        };
        let names =
            entries.map(|entry| entry.map(|entry| entry.file_name().into_string().unwrap_or_default()));
        let names: Vec<_> = names.collect::<Result<_, _>>().map_err(at("read", &self.dir))?;
        Ok(names.iter().filter_map(|name| name.strip_suffix(".json")).map(str::to_owned).collect())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.json"))
    }

    fn unfinished(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}{UNFINISHED}"))
    }
}

fn at(operation: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> StateError {
    let path = path.to_owned();
    move |source| StateError::File { operation, path, source }
}
