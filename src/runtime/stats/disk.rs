//! Measures directories and file systems on threads of their own, and remembers what was found for a while.
//!
//! Invariant: a path that hangs holds one thread; the others are measured without it, and it is not tried again until it has
//! answered. There is a limit of such threads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::host::disk_usage::{Counted, count_disk};
use crate::host::usage::fs_size;
use crate::status::stats::{DiskUsage, FsReading, FsSize};
use crate::time::within::within;

/// Threads that may hang at the same time.
const MAX_ROUNDS: usize = 4;
/// kubelet's interval for volumes (`volumeStatsAggPeriod`).
const VOLUMES_KEPT: Duration = Duration::from_secs(60);
/// What is small, and asked for more than once in a reading.
const SMALL_KEPT: Duration = Duration::from_secs(2);

/// A path to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DiskJob {
    path: PathBuf,
    kind: JobKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JobKind {
    /// A file system as a whole.
    FileSystem,
    /// The same, on another machine.
    Network,
    /// A volume: its file system, and what it takes of that.
    Volume,
    /// What something takes.
    Count(Counted),
}

impl DiskJob {
    /// A file system as a whole.
    pub(super) fn file_system(path: PathBuf) -> Self {
        Self { path, kind: JobKind::FileSystem }
    }

    /// The same, on another machine.
    pub(super) fn network(path: PathBuf) -> Self {
        Self { path, kind: JobKind::Network }
    }

    /// A volume.
    pub(super) fn volume(path: PathBuf) -> Self {
        Self { path, kind: JobKind::Volume }
    }

    /// What something takes.
    pub(super) fn count(path: PathBuf, counted: Counted) -> Self {
        Self { path, kind: JobKind::Count(counted) }
    }

    /// Whether an answer may depend on another machine.
    pub(super) fn may_hang(&self) -> bool {
        self.kind == JobKind::Network
    }

    fn kept(&self) -> Duration {
        match self.kind {
            JobKind::Volume | JobKind::Network => VOLUMES_KEPT,
            JobKind::FileSystem | JobKind::Count(_) => SMALL_KEPT,
        }
    }

    fn measure(&self) -> Measured {
        let at = Timestamp::now();
        let count = |counted| {
            let count = count_disk(&self.path, counted).ok()?;
            Some(DiskUsage { at, bytes: Some(count.bytes), inodes: Some(count.inodes) })
        };
        match self.kind {
            JobKind::Count(counted) => Measured { size: None, used: count(counted) },
            JobKind::Volume => Measured { size: fs_size(&self.path), used: count(Counted::Whole) },
            JobKind::FileSystem | JobKind::Network => {
                let size = fs_size(&self.path);
                let used = size.map(|size| DiskUsage {
                    at,
                    bytes: Some(size.capacity.saturating_sub(size.free)),
                    inodes: Some(size.inodes.saturating_sub(size.inodes_free)),
                });
                Measured { size, used }
            }
        }
    }
}

/// What was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Measured {
    pub(super) size: Option<FsSize>,
    pub(super) used: Option<DiskUsage>,
}

impl Measured {
    /// A file system, if all of it is known.
    pub(super) fn as_fs(&self) -> Option<FsReading> {
        Some(FsReading { size: self.size?, used: self.used? })
    }
}

/// What was measured, and what is being measured.
#[derive(Debug, Clone, Default)]
pub(super) struct Disk(Arc<Mutex<DiskState>>);

#[derive(Debug, Default)]
struct DiskState {
    known: BTreeMap<PathBuf, (Instant, Measured)>,
    busy: BTreeSet<PathBuf>,
    rounds: usize,
}

impl Disk {
    /// What is known of these paths, measured anew where that is old. What does not come in time is as it was, or absent.
    pub(super) async fn measure(&self, jobs: Vec<DiskJob>, limit: Duration) -> BTreeMap<PathBuf, Measured> {
        let (done, ended) = async_channel::bounded::<()>(1);
        let begun = self.begin(&jobs);
        if let Some(old) = begun {
            let disk = self.clone();
            smol::unblock(move || {
                disk.round(&old);
                drop(done);
            })
            .detach();
            within(limit, ended.recv()).await;
        }
        let state = self.lock();
        let known = |job: &DiskJob| Some((job.path.clone(), state.known.get(&job.path)?.1));
        jobs.iter().filter_map(known).collect()
    }

    /// What is to be measured; none if nothing is old, or too much hangs. Forgets what nobody asks for any more.
    fn begin(&self, jobs: &[DiskJob]) -> Option<Vec<DiskJob>> {
        let mut state = self.lock();
        let wanted: BTreeSet<_> = jobs.iter().map(|job| &job.path).collect();
        state.known.retain(|path, _| wanted.contains(path));
        let is_old = |job: &&DiskJob| {
            state.known.get(&job.path).is_none_or(|(measured, _)| measured.elapsed() >= job.kept())
        };
        let old: Vec<_> = jobs.iter().filter(is_old).cloned().collect();
        if old.is_empty() || state.rounds >= MAX_ROUNDS {
            return None;
        }
        state.rounds += 1;
        Some(old)
    }

    fn round(&self, jobs: &[DiskJob]) {
        for job in jobs {
            if !self.lock().busy.insert(job.path.clone()) {
                continue;
            }
            let measured = job.measure();
            let mut state = self.lock();
            state.busy.remove(&job.path);
            state.known.insert(job.path.clone(), (Instant::now(), measured));
        }
        self.lock().rounds -= 1;
    }

    fn lock(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use futures_lite::future::block_on;

    use super::*;

    #[test]
    fn what_is_old_is_measured_and_the_rest_is_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("volume");
        fs::create_dir(&path).unwrap();
        let disk = Disk::default();
        let jobs = || vec![DiskJob::volume(path.clone()), DiskJob::file_system("/none".into())];
        let measure = || block_on(disk.measure(jobs(), Duration::from_secs(60)));
        let first = measure();
        assert_eq!(first[&path].used.unwrap().inodes, Some(1));
        assert_eq!(first[&PathBuf::from("/none")], Measured::default());
        fs::write(path.join("file"), "text").unwrap();
        assert_eq!(measure()[&path], first[&path], "a minute has not passed");
        block_on(disk.measure(Vec::new(), Duration::from_secs(60)));
        assert_eq!(measure()[&path].used.unwrap().inodes, Some(2), "forgotten, and measured anew");
    }

    #[test]
    fn what_hangs_is_left_alone_and_keeps_nobody_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::default();
        let hung = dir.path().join("hung");
        disk.lock().busy.insert(hung.clone());
        disk.lock().rounds = MAX_ROUNDS - 1;
        let jobs = || vec![DiskJob::network(hung.clone()), DiskJob::volume(dir.path().to_owned())];
        let found = block_on(disk.measure(jobs(), Duration::from_secs(60)));
        assert_eq!(found.keys().collect::<Vec<_>>(), [dir.path()]);
        disk.lock().rounds = MAX_ROUNDS;
        disk.lock().known.clear();
        assert!(block_on(disk.measure(jobs(), Duration::from_secs(60))).is_empty(), "no more threads");
    }
}
