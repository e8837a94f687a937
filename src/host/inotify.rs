//! The one inotify instance beside that of the manifests: it tells of writes to logs, and of changes in directories.
//!
//! Of a log it tells the first write, and then no more until it is watched anew: a log at rest costs nothing, and one that is
//! written to all the time one event per look. Of directories it tells that something has changed in one of them: whoever
//! watches them looks for himself. Whichever of the two readers wakes first reads for both.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use smol::Async;

/// The watch of one log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WatchId(i32);

/// What became of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchEvent {
    /// The log was written to.
    Written(WatchId),
    /// The watch has ended: it has told, or its file is gone.
    Ended(WatchId),
    /// Some were lost.
    Overflow,
}

/// Watches logs and directories.
#[derive(Debug)]
pub(crate) struct Inotify {
    instance: Async<OwnedFd>,
    state: Mutex<InotifyState>,
}

#[derive(Debug, Default)]
struct InotifyState {
    /// What was read of logs and not told yet.
    logs: Vec<WatchEvent>,
    /// The directories that are watched.
    dirs: BTreeMap<PathBuf, i32>,
    /// Something has changed in one of them.
    changed: bool,
}

impl Inotify {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// When the kernel has no more of them.
    pub(crate) fn new() -> io::Result<Self> {
        let instance = Async::new(inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?)?;
        Ok(Self { instance, state: Mutex::default() })
    }

    /// Watches a log until its next write.
    ///
    /// # Errors
    /// When there is no such file, or the kernel watches too many already.
    pub(crate) fn watch(&self, log: &Path) -> io::Result<WatchId> {
        let flags = WatchFlags::MODIFY | WatchFlags::ONESHOT | WatchFlags::DONT_FOLLOW;
        Ok(WatchId(inotify::add_watch(self.instance.get_ref(), log, flags)?))
    }

    /// Watches these directories, and no others any more; those that cannot be watched are given back.
    pub(crate) fn watch_dirs(&self, dirs: &BTreeSet<PathBuf>) -> Vec<(PathBuf, io::Error)> {
        let flags = WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        let (mut watched, mut failed) = (BTreeMap::new(), Vec::new());
        for dir in dirs {
            // A directory that is watched already keeps its watch: it goes by the directory, not by its name.
            match inotify::add_watch(self.instance.get_ref(), dir, flags) {
                Ok(watch) => drop(watched.insert(dir.clone(), watch)),
                Err(error) => failed.push((dir.clone(), error.into())),
            }
        }
        let mut state = self.state();
        let kept: BTreeSet<i32> = watched.values().copied().collect();
        for watch in state.dirs.values().filter(|watch| !kept.contains(watch)) {
            // It may have ended by itself.
            let _ = inotify::remove_watch(self.instance.get_ref(), *watch);
        }
        state.dirs = watched;
        failed
    }

    /// Waits until there are events of logs.
    pub(crate) async fn ready(&self) {
        self.wait(|state| !state.logs.is_empty()).await
    }

    /// The events of logs that there are.
    pub(crate) fn events(&self) -> Vec<WatchEvent> {
        self.read();
        std::mem::take(&mut self.state().logs)
    }

    /// Waits until something has changed in a directory.
    pub(crate) async fn dirs_changed(&self) {
        self.wait(|state| state.changed).await;
        self.take_dirs_changed();
    }

    /// Whether something has changed in a directory since this was last asked.
    pub(crate) fn take_dirs_changed(&self) -> bool {
        self.read();
        std::mem::take(&mut self.state().changed)
    }

    async fn wait(&self, is_there: impl Fn(&InotifyState) -> bool) {
        loop {
            self.read();
            if is_there(&self.state()) {
                return;
            }
            if self.instance.readable().await.is_err() {
                std::future::pending().await
            }
        }
    }

    /// Reads what there is.
    fn read(&self) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(self.instance.get_ref(), &mut buffer);
        let mut state = self.state();
        while let Ok(event) = reader.next() {
            let (id, kind) = (event.wd(), event.events());
            if kind.contains(ReadFlags::QUEUE_OVERFLOW) {
                state.logs.push(WatchEvent::Overflow);
                state.changed = true;
            } else if state.dirs.values().any(|watch| *watch == id) {
                state.changed = true;
            } else if kind.contains(ReadFlags::IGNORED) {
                state.logs.push(WatchEvent::Ended(WatchId(id)));
            } else if kind.contains(ReadFlags::MODIFY) {
                state.logs.push(WatchEvent::Written(WatchId(id)));
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, InotifyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_first_write_is_told_and_only_that() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        let mut log = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let watch = Inotify::new().unwrap();
        for _ in 0..2 {
            let id = watch.watch(&path).unwrap();
            assert_eq!(watch.watch(&path).unwrap(), id, "watched once");
            assert_eq!(watch.events(), []);
            log.write_all(b"a\n").unwrap();
            log.write_all(b"b\n").unwrap();
            smol::block_on(watch.ready());
            assert_eq!(watch.events(), [WatchEvent::Written(id), WatchEvent::Ended(id)]);
        }
        log.write_all(b"c\n").unwrap();
        assert_eq!(watch.events(), []);
        assert!(watch.watch(&dir.path().join("1.log")).is_err());
    }
    #[test]
    fn changes_in_directories_are_told_beside_logs() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two, log) = (dir.path().join("1"), dir.path().join("2"), dir.path().join("0.log"));
        std::fs::create_dir(&one).unwrap();
        std::fs::create_dir(&two).unwrap();
        std::fs::write(&log, "").unwrap();
        let watch = Inotify::new().unwrap();
        let dirs = |list: &[&PathBuf]| list.iter().map(|dir| (*dir).clone()).collect::<BTreeSet<_>>();
        assert!(watch.watch_dirs(&dirs(&[&one, &two])).is_empty());
        let id = watch.watch(&log).unwrap();
        assert!(!watch.take_dirs_changed());
        std::fs::write(one.join("new"), "x").unwrap();
        std::fs::write(&log, "x").unwrap();
        // Either reader leaves the other what is his.
        smol::block_on(watch.dirs_changed());
        assert!(!watch.take_dirs_changed());
        smol::block_on(watch.ready());
        assert_eq!(watch.events(), [WatchEvent::Written(id), WatchEvent::Ended(id)]);
        assert_eq!(watch.watch_dirs(&dirs(&[&two, &dir.path().join("none")])).len(), 1);
        watch.take_dirs_changed();
        std::fs::write(one.join("other"), "x").unwrap();
        assert!(!watch.take_dirs_changed(), "watched no more");
        std::fs::rename(one.join("other"), two.join("other")).unwrap();
        assert!(watch.take_dirs_changed());
    }
}
