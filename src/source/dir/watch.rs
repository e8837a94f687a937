//! The inotify watch on the manifest directory: when to look, and which files to leave alone for a while.
//!
//! One inotify instance, whatever is watched. Directories are watched by their real paths, each once.

mod fence;
mod interest;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use async_channel::{Receiver, Sender};
use futures_lite::future;
use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use smol::Timer;
use tracing::{info, warn};

use crate::text::last_logged::LastLogged;

use super::scan::{MOUNT_ID, ReadFile, Writers};
use super::timing::{EMPTY_GRACE, EVENT_PAUSE, FENCE_DEADLINE, OPEN_WRITER, QUIET};
use super::watched_names::Watched;
use fence::InotifyFence;
use interest::Hint;

/// A directory that inotify watches: the kernel drops the watch when it is unmounted.
#[derive(Debug, PartialEq, Eq)]
struct WatchedDirectory {
    device: (u32, u32),
    inode: u64,
    mount: u64,
}

impl WatchedDirectory {
    fn observe(path: &Path) -> Option<Self> {
        let seen = statx(CWD, path, AtFlags::empty(), MOUNT_ID | StatxFlags::BASIC_STATS).ok()?;
        let device = (seen.stx_dev_major, seen.stx_dev_minor);
        Some(Self { device, inode: seen.stx_ino, mount: seen.stx_mnt_id })
    }
}

/// What the inotify thread sends.
#[derive(Debug)]
enum Message {
    Event(EventKind, PathBuf),
    /// Events were lost, by an overflow of the queue: anything may have happened.
    Lost,
    /// All events from before the fence have come.
    Fence,
}

/// The watch, and what is known from its events.
pub(super) struct DirectoryWatch {
    watcher: Option<RecommendedWatcher>,
    messages: Receiver<Message>,
    sender: Sender<Message>,
    watched_paths: Watched,
    /// The directories that are watched, each as it was: a path can come to mean another one.
    watched: BTreeMap<PathBuf, WatchedDirectory>,
    /// Files that somebody has open for writing, and when they were last written to.
    writing: BTreeMap<PathBuf, Instant>,
    /// Files that were closed, or moved into place, since the last reading.
    whole: BTreeSet<PathBuf>,
    /// Files that were removed, or moved away, since the last reading.
    gone: BTreeSet<PathBuf>,
    /// When to look, because of events.
    look: Option<Instant>,
    /// How long the second file of a pair is waited for.
    pause: Duration,
    fence: Option<InotifyFence>,
    logged: LastLogged,
}

impl DirectoryWatch {
    /// Watches nothing yet. `pairs`: each manifest comes with a signature.
    pub(super) fn new(pairs: bool) -> Self {
        let (sender, messages) = async_channel::unbounded();
        Self {
            watcher: None,
            messages,
            sender,
            watched_paths: Watched::default(),
            watched: BTreeMap::new(),
            writing: BTreeMap::new(),
            whole: BTreeSet::new(),
            gone: BTreeSet::new(),
            look: None,
            // A manifest and its signature are written one after the other.
            pause: if pairs { EVENT_PAUSE } else { Duration::ZERO },
            fence: InotifyFence::new(),
            logged: LastLogged::default(),
        }
    }

    /// Watches the directory of the manifests, if there is one, and all that it depends on. Blocking.
    pub(super) fn follow(&mut self, watched: Watched) {
        self.watched_paths = watched;
        let wanted: BTreeMap<PathBuf, WatchedDirectory> = self
            .watched_paths
            .directories()
            .into_iter()
            .filter_map(|path| Some((path.to_owned(), WatchedDirectory::observe(path)?)))
            .collect();
        // A path that means another directory now may have been dropped by the kernel already: begin anew.
        if self.watched.iter().any(|(path, before)| wanted.get(path).is_some_and(|now| now != before)) {
            self.drop_watcher();
        }
        if let Err(error) = self.rewatch(wanted) {
            self.drop_watcher();
            let error = error.to_string();
            if self.logged.is_new(&error) {
                warn!(error, "cannot watch the manifests; relying on the rescan");
            }
        }
    }

    /// What is known of the files' writers. Asked once: what was whole then may not be any more.
    pub(super) fn writers(&mut self) -> Writers {
        let mut whole = std::mem::take(&mut self.whole);
        // A writer may have begun since the wait was over. What became whole since then is for the next reading.
        while let Ok(message) = self.messages.try_recv() {
            let hint = self.handle(message);
            if let Some(Hint::Writing(path) | Hint::Gone(path)) = &hint {
                whole.remove(path);
            }
        }
        let (writing, gone) = (self.writing.keys().cloned().collect(), std::mem::take(&mut self.gone));
        Writers { writing, whole, gone, quiet: QUIET, empty: EMPTY_GRACE }
    }

    /// The manifests that were written to or removed while they were read, as events tell: they may have been read half
    /// written, and are read again. Blocking.
    pub(super) fn disturbed(&mut self, read: &[ReadFile]) -> Vec<PathBuf> {
        if read.is_empty() {
            return Vec::new();
        }
        let due = Instant::now() + FENCE_DEADLINE;
        let mut passed_fence =
            self.watcher.is_none() || !self.fence.as_ref().is_some_and(InotifyFence::trigger);
        let mut disturbed = BTreeSet::new();
        loop {
            let message = match passed_fence {
                true => self.messages.try_recv().ok(),
                false => smol::block_on(self.next(due)),
            };
            let Some(message) = message else { break };
            passed_fence |= matches!(message, Message::Fence);
            if let Some(Hint::Writing(path) | Hint::Gone(path)) = self.handle(message) {
                disturbed.insert(path);
            }
        }
        let is_disturbed = |read: &&ReadFile| read.files.iter().any(|file| disturbed.contains(file));
        read.iter().filter(is_disturbed).map(|read| read.path.clone()).collect()
    }

    /// Waits until there is a reason to look, or until the rescan is due.
    pub(super) async fn wait(&mut self, rescan: Duration) {
        let rescan = Instant::now() + rescan;
        while let Some(message) = self.next(self.due(rescan)).await {
            self.handle(message);
        }
        self.look = None;
        self.writing.retain(|_, last| last.elapsed() < OPEN_WRITER);
    }

    /// Takes in a message, and when to look because of it.
    fn handle(&mut self, message: Message) -> Option<Hint> {
        let hint = match message {
            Message::Lost => {
                info!("events of the manifests were lost; reading all of them");
                Hint::Look
            }
            Message::Event(kind, path) => self.watched_paths.hint(&kind, &path)?,
            Message::Fence => return None,
        };
        let now = Instant::now();
        let look = match &hint {
            Hint::Look => Some(now + self.pause),
            Hint::LookSoon => Some(now + EVENT_PAUSE),
            Hint::Writing(path) => {
                self.whole.remove(path);
                self.writing.insert(path.clone(), now);
                None
            }
            Hint::Whole(path) => {
                self.writing.remove(path);
                self.whole.insert(path.clone());
                Some(now + self.pause)
            }
            Hint::Gone(path) => {
                self.writing.remove(path);
                self.whole.remove(path);
                self.gone.insert(path.clone());
                Some(now + self.pause)
            }
            Hint::Moved => {
                self.drop_watcher();
                Some(now)
            }
        };
        self.look = self.look.into_iter().chain(look).min();
        Some(hint)
    }

    /// When to look, if no more events come.
    fn due(&self, rescan: Instant) -> Instant {
        // A writer that neither writes nor closes the file is not waited for.
        let silent = self.writing.values().min().map(|oldest| *oldest + OPEN_WRITER);
        [self.look, silent].into_iter().flatten().fold(rescan, Instant::min)
    }

    /// Watches these, and nothing else.
    fn rewatch(&mut self, wanted: BTreeMap<PathBuf, WatchedDirectory>) -> notify::Result<()> {
        if wanted.is_empty() {
            self.drop_watcher();
            return Ok(());
        }
        let mut watcher = match self.watcher.take() {
            Some(watcher) => watcher,
            None => self.start()?,
        };
        for path in self.watched.keys().filter(|path| !wanted.contains_key(*path)) {
            // The kernel drops the watch of a directory that is gone by itself.
            let _ = watcher.unwatch(path);
        }
        for path in wanted.keys().filter(|path| !self.watched.contains_key(*path)) {
            watcher.watch(path, RecursiveMode::NonRecursive)?;
        }
        self.watcher = Some(watcher);
        self.watched = wanted;
        self.logged.clear();
        Ok(())
    }

    fn drop_watcher(&mut self) {
        self.watcher = None;
        self.watched.clear();
    }

    fn start(&mut self) -> notify::Result<RecommendedWatcher> {
        let sender = self.sender.clone();
        let fence = self.fence.as_ref().map(|fence| fence.path().to_owned());
        let own_fence = fence.clone();
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // The receiver lives as long as the watch.
            match event {
                Ok(event) if !event.need_rescan() => {
                    let close = EventKind::Access(AccessKind::Close(AccessMode::Write));
                    for path in event.paths {
                        let message = match Some(&path) == own_fence.as_ref() {
                            true => Message::Fence,
                            // Reading changes nothing, and we read all the time.
                            false if event.kind.is_access() && event.kind != close => continue,
                            false => Message::Event(event.kind, path),
                        };
                        let _ = sender.try_send(message);
                    }
                }
                _ => {
                    let _ = sender.try_send(Message::Lost);
                }
            }
        })?;
        if fence.is_some_and(|fence| watcher.watch(&fence, RecursiveMode::NonRecursive).is_err()) {
            // Without it there is a little less to rely on, and no reason to watch nothing.
            self.fence = None;
        }
        Ok(watcher)
    }

    /// The next message; none once `due` has come and all that are queued were handled.
    async fn next(&self, due: Instant) -> Option<Message> {
        let next = async { self.messages.recv().await.ok() };
        let late = async {
            Timer::at(due).await;
            None
        };
        future::or(next, late).await
    }
}

#[cfg(test)]
mod tests {
    use notify::event::{DataChange, ModifyKind, RemoveKind};

    use super::*;

    #[test]
    fn what_was_told_since_the_wait_counts_for_the_reading() {
        let file = PathBuf::from("/d/a.yaml");
        let close = EventKind::Access(AccessKind::Close(AccessMode::Write));
        let write = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        let remove = EventKind::Remove(RemoveKind::File);
        // The events during the wait, the events since, then: is it being written, whole, was it removed?
        let cases = [
            ("a writer begins", vec![], vec![write], (true, false, false)),
            ("and again", vec![close], vec![write], (true, false, false)),
            ("another file takes its place", vec![close], vec![remove], (false, false, true)),
            ("its end counts for the next reading", vec![write], vec![close], (false, false, false)),
            ("and is whole already", vec![], vec![remove, write, close], (false, false, true)),
            ("nothing", vec![close], vec![], (false, true, false)),
            ("it goes on", vec![write], vec![], (true, false, false)),
        ];
        for (name, during, since, expect) in cases {
            let mut watch = DirectoryWatch::new(false);
            watch.watched_paths.directory = Some("/d".into());
            for kind in during {
                watch.handle(Message::Event(kind, file.clone()));
            }
            for kind in &since {
                watch.sender.try_send(Message::Event(*kind, file.clone())).unwrap();
            }
            let writers = watch.writers();
            let found = [writers.writing, writers.whole, writers.gone].map(|files| files.contains(&file));
            assert_eq!(<(bool, bool, bool)>::from(found), expect, "{name}");
            assert!(watch.writers().gone.is_empty(), "{name}: asked once");
        }
    }

    #[test]
    fn what_was_told_during_a_reading_is_looked_at_soon() {
        let mut watch = DirectoryWatch::new(true);
        watch.watched_paths.directory = Some("/d".into());
        let rescan = Instant::now() + Duration::from_secs(3600);
        assert_eq!(watch.due(rescan), rescan);
        let message = |kind| Message::Event(kind, "/d/a.yaml".into());
        let write = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        watch.sender.try_send(message(write)).unwrap();
        watch.writers();
        assert!(watch.due(rescan) <= Instant::now() + OPEN_WRITER, "a writer that stops is not waited for");
        watch.sender.try_send(message(EventKind::Access(AccessKind::Close(AccessMode::Write)))).unwrap();
        watch.writers();
        let due = watch.due(rescan);
        assert!(due <= Instant::now() + EVENT_PAUSE, "the end of the writer");
        assert_eq!(watch.writers().whole.len(), 1);
    }

    #[test]
    fn what_was_written_before_it_was_read_is_disturbed() {
        let close = EventKind::Access(AccessKind::Close(AccessMode::Write));
        let write = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        let remove = EventKind::Remove(RemoveKind::File);
        let (a, b, signature) = ("/d/a.yaml", "/d/b.yaml", "/d/a.yaml.minisig");
        let cases = [
            ("nobody was there", vec![], vec![]),
            ("cut short", vec![(write, a)], vec![a]),
            ("written and closed meanwhile", vec![(write, a), (close, a)], vec![a]),
            ("removed", vec![(remove, b)], vec![b]),
            ("its signature is written", vec![(write, signature)], vec![a]),
            ("both", vec![(write, b), (write, a)], vec![a, b]),
            ("another file", vec![(write, "/d/c.yaml")], vec![]),
            ("whole before it was read", vec![(close, a)], vec![]),
        ];
        let read = |path: &str, files: &[&str]| ReadFile {
            path: path.into(),
            files: files.iter().map(PathBuf::from).collect(),
        };
        for (name, message, expect) in cases {
            let mut watch = DirectoryWatch::new(true);
            watch.watched_paths.directory = Some("/d".into());
            for (kind, path) in message {
                watch.sender.try_send(Message::Event(kind, path.into())).unwrap();
            }
            let disturbed = watch.disturbed(&[read(a, &[a, signature]), read(b, &[b])]);
            assert_eq!(disturbed, expect.into_iter().map(PathBuf::from).collect::<Vec<_>>(), "{name}");
        }
    }

    /// With the kernel's own events, none of which has to be waited for.
    #[test]
    fn all_that_was_written_before_is_told_before_the_fence() {
        let directory = tempfile::tempdir().unwrap();
        let real = directory.path().canonicalize().unwrap();
        let file = real.join("a.yaml");
        let mut watch = DirectoryWatch::new(false);
        watch.follow(Watched { directory: Some(real), ..Watched::default() });
        let read = [ReadFile { path: "a.yaml".into(), files: vec![file.clone()] }];
        for turn in 0..100 {
            assert!(watch.disturbed(&read).is_empty(), "turn {turn}");
            std::fs::write(&file, "half").unwrap();
            assert_eq!(watch.disturbed(&read), ["a.yaml"].map(PathBuf::from), "turn {turn}");
        }
    }
}
