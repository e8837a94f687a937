//! The inotify watch on the manifest directory: when to look, and which files to leave alone for a while.
//!
//! One inotify instance, whatever is watched. Directories are watched by their real paths, each once.

mod bell;
mod interest;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use async_channel::{Receiver, Sender};
use futures_lite::future;
use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use smol::Timer;
use tracing::{info, warn};

use super::places::Places;
use super::scan::{self, Read, Writers};
use bell::Bell;
use interest::{Hint, Interest};

/// How long after its last write a file that is still open is left alone.
const WRITING: Duration = Duration::from_secs(10);
/// How long to wait, after a reading, to be told of what happened before it.
const HEARSAY: Duration = Duration::from_millis(100);
/// How long to wait for more after an event that says little, or where a second file belongs to the first.
const SETTLE: Duration = Duration::from_millis(100);

/// What inotify told.
#[derive(Debug)]
enum Told {
    Event(EventKind, PathBuf),
    /// Events were lost, by an overflow of the queue: anything may have happened.
    Lost,
    /// Our own bell.
    Bell,
}

/// The watch, and what it has told.
pub(super) struct Watch {
    watcher: Option<RecommendedWatcher>,
    told: Receiver<Told>,
    sender: Sender<Told>,
    interest: Interest,
    /// The directories that are watched, by device and inode: a path can come to mean another one.
    watched: BTreeMap<PathBuf, (u64, u64)>,
    /// Files that somebody has open for writing, and when they were last written to.
    writing: BTreeMap<PathBuf, Instant>,
    /// Files that were closed, or moved into place, since the last reading.
    whole: BTreeSet<PathBuf>,
    /// Files that were removed, or moved away, since the last reading.
    gone: BTreeSet<PathBuf>,
    /// When to look, for what was heard.
    look: Option<Instant>,
    /// How long the second file of a pair is waited for.
    pause: Duration,
    bell: Option<Bell>,
    complained: bool,
}

impl Watch {
    /// Watches nothing yet. `pairs`: files come in pairs.
    pub(super) fn new(pairs: bool) -> Self {
        let (sender, told) = async_channel::unbounded();
        Self {
            watcher: None,
            told,
            sender,
            interest: Interest::default(),
            watched: BTreeMap::new(),
            writing: BTreeMap::new(),
            whole: BTreeSet::new(),
            gone: BTreeSet::new(),
            look: None,
            // The other one is likely to follow.
            pause: if pairs { SETTLE } else { Duration::ZERO },
            bell: Bell::new(),
            complained: false,
        }
    }

    /// Watches the directory of the manifests, if there is one, and all that it depends on. Blocking.
    pub(super) fn follow(&mut self, directory: Option<PathBuf>, places: Places) {
        self.interest = Interest { directory, places };
        let identity = |path: &Path| std::fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
        let wanted: BTreeMap<PathBuf, (u64, u64)> = self
            .interest
            .directories()
            .into_iter()
            .filter_map(|path| Some((path.to_owned(), identity(path)?)))
            .collect();
        // A path that means another directory now may have been dropped by the kernel already: begin anew.
        if self.watched.iter().any(|(path, identity)| wanted.get(path).is_some_and(|now| now != identity)) {
            self.drop_watcher();
        }
        if let Err(error) = self.rewatch(wanted) {
            self.drop_watcher();
            if !std::mem::replace(&mut self.complained, true) {
                warn!(%error, "cannot watch the manifests; relying on the rescan");
            }
        }
    }

    /// What is known of the files' writers. Asked once: what was whole then may not be any more.
    pub(super) fn writers(&mut self) -> Writers {
        let mut whole = std::mem::take(&mut self.whole);
        // A writer may have begun since the wait was over. What became whole since then is for the next reading.
        while let Ok(told) = self.told.try_recv() {
            let hint = self.hear(told);
            if let Some(Hint::Writing(path) | Hint::Gone(path)) = &hint {
                whole.remove(path);
            }
        }
        let (writing, gone) = (self.writing.keys().cloned().collect(), std::mem::take(&mut self.gone));
        Writers { writing, whole, gone, quiet: scan::QUIET }
    }

    /// Those manifests of which it turns out that somebody wrote to them, or removed them, before they were read: they may
    /// have been read by halves, and are looked at again. Blocking.
    pub(super) fn disturbed(&mut self, read: &[Read]) -> Vec<PathBuf> {
        if read.is_empty() {
            return Vec::new();
        }
        let due = Instant::now() + HEARSAY;
        let mut heard_all = self.watcher.is_none() || !self.bell.as_ref().is_some_and(Bell::ring);
        let mut disturbed = BTreeSet::new();
        loop {
            let told = match heard_all {
                true => self.told.try_recv().ok(),
                false => smol::block_on(self.next(due)),
            };
            let Some(told) = told else { break };
            heard_all |= matches!(told, Told::Bell);
            if let Some(Hint::Writing(path) | Hint::Gone(path)) = self.hear(told) {
                disturbed.insert(path);
            }
        }
        let is_disturbed = |read: &&Read| read.files.iter().any(|file| disturbed.contains(file));
        read.iter().filter(is_disturbed).map(|read| read.path.clone()).collect()
    }

    /// Waits until there is a reason to look, or until the rescan is due.
    pub(super) async fn wait(&mut self, rescan: Duration) {
        let rescan = Instant::now() + rescan;
        while let Some(told) = self.next(self.due(rescan)).await {
            self.hear(told);
        }
        self.look = None;
        self.writing.retain(|_, last| last.elapsed() < WRITING);
    }

    /// Takes in what inotify told, and when to look because of it.
    fn hear(&mut self, told: Told) -> Option<Hint> {
        let hint = match told {
            Told::Lost => {
                info!("events of the manifests were lost; reading all of them");
                Hint::Look
            }
            Told::Event(kind, path) => self.interest.hint(&kind, &path)?,
            Told::Bell => return None,
        };
        let now = Instant::now();
        let look = match &hint {
            Hint::Look => Some(now + self.pause),
            Hint::LookSoon => Some(now + SETTLE),
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

    /// When to look, if nothing more is heard.
    fn due(&self, rescan: Instant) -> Instant {
        // A writer that stopped without a word is not waited for.
        let silent = self.writing.values().min().map(|oldest| *oldest + WRITING);
        [self.look, silent].into_iter().flatten().fold(rescan, Instant::min)
    }

    /// Watches these, and nothing else.
    fn rewatch(&mut self, wanted: BTreeMap<PathBuf, (u64, u64)>) -> notify::Result<()> {
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
        self.complained = false;
        Ok(())
    }

    fn drop_watcher(&mut self) {
        self.watcher = None;
        self.watched.clear();
    }

    fn start(&mut self) -> notify::Result<RecommendedWatcher> {
        let sender = self.sender.clone();
        let bell = self.bell.as_ref().map(|bell| bell.path().to_owned());
        let own_bell = bell.clone();
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // The receiver lives as long as the watch.
            match event {
                Ok(event) if !event.need_rescan() => {
                    let close = EventKind::Access(AccessKind::Close(AccessMode::Write));
                    for path in event.paths {
                        let told = match Some(&path) == own_bell.as_ref() {
                            true => Told::Bell,
                            // Reading is nobody's business, and we do it ourselves all the time.
                            false if event.kind.is_access() && event.kind != close => continue,
                            false => Told::Event(event.kind, path),
                        };
                        let _ = sender.try_send(told);
                    }
                }
                _ => {
                    let _ = sender.try_send(Told::Lost);
                }
            }
        })?;
        if bell.is_some_and(|bell| watcher.watch(&bell, RecursiveMode::NonRecursive).is_err()) {
            // Without it there is a little less to rely on, and no reason to watch nothing.
            self.bell = None;
        }
        Ok(watcher)
    }

    /// The next event; none once `due` has come and all that piled up was heard.
    async fn next(&self, due: Instant) -> Option<Told> {
        let next = async { self.told.recv().await.ok() };
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
        // What was heard during the wait, what was told since, then: is it written, whole, was it removed?
        let cases = [
            ("a writer begins", vec![], vec![write], (true, false, false)),
            ("and again", vec![close], vec![write], (true, false, false)),
            ("another file takes its place", vec![close], vec![remove], (false, false, true)),
            ("its end counts for the next reading", vec![write], vec![close], (false, false, false)),
            ("and is whole already", vec![], vec![remove, write, close], (false, false, true)),
            ("nothing", vec![close], vec![], (false, true, false)),
            ("it goes on", vec![write], vec![], (true, false, false)),
        ];
        for (name, heard, told, expect) in cases {
            let mut watch = Watch::new(false);
            watch.interest.directory = Some("/d".into());
            for kind in heard {
                watch.hear(Told::Event(kind, file.clone()));
            }
            for kind in &told {
                watch.sender.try_send(Told::Event(*kind, file.clone())).unwrap();
            }
            let writers = watch.writers();
            let found = [writers.writing, writers.whole, writers.gone].map(|files| files.contains(&file));
            assert_eq!(<(bool, bool, bool)>::from(found), expect, "{name}");
            assert!(watch.writers().gone.is_empty(), "{name}: asked once");
        }
    }

    #[test]
    fn what_was_told_during_a_reading_is_looked_at_soon() {
        let mut watch = Watch::new(true);
        watch.interest.directory = Some("/d".into());
        let rescan = Instant::now() + Duration::from_secs(3600);
        assert_eq!(watch.due(rescan), rescan);
        let told = |kind| Told::Event(kind, "/d/a.yaml".into());
        let write = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        watch.sender.try_send(told(write)).unwrap();
        watch.writers();
        assert!(watch.due(rescan) <= Instant::now() + WRITING, "a writer that stops is not waited for");
        watch.sender.try_send(told(EventKind::Access(AccessKind::Close(AccessMode::Write)))).unwrap();
        watch.writers();
        let due = watch.due(rescan);
        assert!(due <= Instant::now() + SETTLE, "the end of the writer");
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
            ("another's business", vec![(write, "/d/c.yaml")], vec![]),
            ("whole before it was read", vec![(close, a)], vec![]),
        ];
        let read = |path: &str, files: &[&str]| Read {
            path: path.into(),
            files: files.iter().map(PathBuf::from).collect(),
        };
        for (name, told, expect) in cases {
            let mut watch = Watch::new(true);
            watch.interest.directory = Some("/d".into());
            for (kind, path) in told {
                watch.sender.try_send(Told::Event(kind, path.into())).unwrap();
            }
            let disturbed = watch.disturbed(&[read(a, &[a, signature]), read(b, &[b])]);
            assert_eq!(disturbed, expect.into_iter().map(PathBuf::from).collect::<Vec<_>>(), "{name}");
        }
    }

    /// With the kernel's own events, none of which has to be waited for.
    #[test]
    fn all_that_was_written_before_is_told_before_the_bell() {
        let directory = tempfile::tempdir().unwrap();
        let real = directory.path().canonicalize().unwrap();
        let file = real.join("a.yaml");
        let mut watch = Watch::new(false);
        watch.follow(Some(real), Places::new());
        let read = [Read { path: "a.yaml".into(), files: vec![file.clone()] }];
        for turn in 0..100 {
            assert!(watch.disturbed(&read).is_empty(), "turn {turn}");
            std::fs::write(&file, "half").unwrap();
            assert_eq!(watch.disturbed(&read), ["a.yaml"].map(PathBuf::from), "turn {turn}");
        }
    }
}
