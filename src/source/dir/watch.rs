//! The inotify watch on the manifest directory: when to look, and which files to leave alone for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use async_channel::{Receiver, Sender};
use futures_lite::future;
use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use smol::Timer;
use tracing::warn;

use super::scan::{self, DirStamp};

/// How long after its last write a file that is still open is left alone.
const WRITING: Duration = Duration::from_secs(10);
/// How long to wait for more after an event that says little.
const SETTLE: Duration = Duration::from_millis(100);

/// What an event says.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Hint {
    /// Look at once.
    Look,
    /// Look soon: more is likely to follow.
    LookSoon,
    /// This file is being written to.
    Writing(PathBuf),
    /// This file is whole again, or gone.
    Whole(PathBuf),
    /// The directory itself is gone: the watch is dead.
    Lost,
}

/// What an event on a path of the watched directory says; `None` if it is nobody's business.
fn hint(kind: &EventKind, path: &Path, dir: &Path) -> Option<Hint> {
    if path == dir {
        return match kind {
            EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)) => Some(Hint::Lost),
            EventKind::Access(_) => None,
            _ => Some(Hint::Look),
        };
    }
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    // `..data` and its like: links of manifests lead through them.
    if !scan::is_manifest_name(&name) && !name.starts_with("..") {
        return None;
    }
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write))
        | EventKind::Modify(ModifyKind::Name(_))
        | EventKind::Remove(_) => Some(Hint::Whole(path.to_owned())),
        // Our own reading opens files.
        EventKind::Access(_) => None,
        EventKind::Modify(ModifyKind::Data(_)) => Some(Hint::Writing(path.to_owned())),
        EventKind::Modify(ModifyKind::Metadata(_)) => Some(Hint::Look),
        _ => Some(Hint::LookSoon),
    }
}

/// The watch, and what it has told.
pub(super) struct Watch {
    watcher: Option<RecommendedWatcher>,
    hints: Receiver<Hint>,
    sender: Sender<Hint>,
    /// The directory that is watched: a path can come to mean another one.
    watched: Option<DirStamp>,
    /// Files that somebody has open for writing, and when they were last written to.
    writing: BTreeMap<PathBuf, Instant>,
    complained: bool,
}

impl Watch {
    pub(super) fn new() -> Self {
        let (sender, hints) = async_channel::unbounded();
        Self { watcher: None, hints, sender, watched: None, writing: BTreeMap::new(), complained: false }
    }

    /// Watches the directory that the path means now; none if there is none. Blocking.
    pub(super) fn follow(&mut self, path: &Path) -> Option<DirStamp> {
        let dir = scan::directory_of(path);
        let stamp = scan::dir_stamp(&dir);
        if stamp.is_none() || stamp != self.watched {
            self.watched = None;
            self.watcher = None;
            self.writing.clear();
        }
        if stamp.is_some() && self.watcher.is_none() {
            match self.start(&dir) {
                Ok(watcher) => {
                    self.watcher = Some(watcher);
                    self.watched = stamp.clone();
                    self.complained = false;
                }
                Err(error) if !self.complained => {
                    warn!(path = %dir.display(), %error, "cannot watch the manifests; relying on the rescan");
                    self.complained = true;
                }
                Err(_) => {}
            }
        }
        stamp
    }

    fn start(&self, dir: &Path) -> notify::Result<RecommendedWatcher> {
        let (sender, watched) = (self.sender.clone(), dir.to_owned());
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let hints = match event {
                Ok(event) if !event.need_rescan() => {
                    event.paths.iter().filter_map(|path| hint(&event.kind, path, &watched)).collect()
                }
                // A lost event (an overflow of the queue) is a reason to look, too.
                _ => vec![Hint::Look],
            };
            for hint in hints {
                // The receiver lives as long as the watch.
                let _ = sender.try_send(hint);
            }
        })?;
        watcher.watch(dir, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    }

    /// The files to leave alone: half of what they will say may be a manifest, too.
    pub(super) fn being_written(&self) -> BTreeSet<PathBuf> {
        self.writing.keys().cloned().collect()
    }

    /// Waits until there is a reason to look, or until the rescan is due.
    pub(super) async fn wait(&mut self, rescan: Duration) {
        let mut due = Instant::now() + rescan;
        while let Some(hint) = self.next(due).await {
            match hint {
                Hint::Look => due = Instant::now(),
                Hint::LookSoon => due = due.min(Instant::now() + SETTLE),
                Hint::Writing(path) => {
                    self.writing.insert(path, Instant::now());
                }
                Hint::Whole(path) => {
                    self.writing.remove(&path);
                    due = Instant::now();
                }
                Hint::Lost => {
                    self.watched = None;
                    self.watcher = None;
                    due = Instant::now();
                }
            }
            // A writer that stopped without a word is not waited for.
            if let Some(oldest) = self.writing.values().min() {
                due = due.min(*oldest + WRITING);
            }
        }
        self.writing.retain(|_, last| last.elapsed() < WRITING);
    }

    /// The next hint; none once `due` has come and all that piled up was heard.
    async fn next(&self, due: Instant) -> Option<Hint> {
        let next = async { self.hints.recv().await.ok() };
        let late = async {
            Timer::at(due).await;
            None
        };
        future::or(next, late).await
    }
}

#[cfg(test)]
mod tests {
    use notify::event::{CreateKind, DataChange, MetadataKind, RemoveKind, RenameMode};

    use super::*;

    #[test]
    fn what_events_say() {
        let file = || PathBuf::from("/d/a.yaml");
        let close = EventKind::Access(AccessKind::Close(AccessMode::Write));
        let write = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        let rename = EventKind::Modify(ModifyKind::Name(RenameMode::To));
        let cases = [
            (close, "/d/a.yaml", Some(Hint::Whole(file()))),
            (EventKind::Access(AccessKind::Open(AccessMode::Any)), "/d/a.yaml", None),
            (EventKind::Access(AccessKind::Close(AccessMode::Read)), "/d/a.yaml", None),
            (EventKind::Create(CreateKind::File), "/d/a.yaml", Some(Hint::LookSoon)),
            (write, "/d/a.yaml", Some(Hint::Writing(file()))),
            (rename, "/d/a.yaml", Some(Hint::Whole(file()))),
            (rename, "/d/..data", Some(Hint::Whole("/d/..data".into()))),
            (EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any)), "/d/a.yaml", Some(Hint::Look)),
            (EventKind::Remove(RemoveKind::File), "/d/a.yaml", Some(Hint::Whole(file()))),
            (close, "/d/notes.log", None),
            (write, "/d/.a.yaml.swp", None),
            (EventKind::Remove(RemoveKind::Folder), "/d", Some(Hint::Lost)),
            (rename, "/d", Some(Hint::Lost)),
        ];
        for (kind, path, expect) in cases {
            assert_eq!(hint(&kind, Path::new(path), Path::new("/d")), expect, "{kind:?} {path}");
        }
    }
}
