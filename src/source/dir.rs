//! The manifest directory: inotify for speed, a rescan for safety.
//!
//! Owns the watch and the reading. What the files come to, last good versions and clashes included, is decided
//! in [`files`]. A directory that cannot be read is not an empty one.

mod files;
mod scan;

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_channel::{Receiver, Sender};
use futures_lite::future;
use jiff::Timestamp;
use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use smol::Timer;
use tracing::{info, warn};

use crate::pod::Source;
use crate::pod::decode::{Origin, decode_manifest};
use crate::sync_loop::Event;
use crate::view::Outcome;
use files::{Change, Files};
use scan::{DirStamp, Known};

/// How long a file that is being written may stay open before it is read all the same.
const SETTLE: Duration = Duration::from_millis(200);
/// How soon a directory that is missing is looked for again.
const MISSING: Duration = Duration::from_secs(1);

/// What the source is told.
#[derive(Debug, Clone)]
pub struct DirSource {
    /// The directory, or a single file.
    pub path: PathBuf,
    /// The period of the rescan.
    pub rescan: Duration,
    /// The node's name, for the pods' identity.
    pub node_name: String,
    /// Unknown fields are refused.
    pub strict: bool,
}

/// Reads and watches until the inbox is closed.
pub async fn run_dir(source: DirSource, inbox: Sender<Event>) {
    let mut files = Files::default();
    let mut watch = Watch::new();
    let mut known = Known::default();
    while !inbox.is_closed() {
        // Watch first, read second: a change between the two is seen by one of them.
        let stamp = watch.follow(&source.path);
        let path = source.path.clone();
        let (reading, now_known) = smol::unblock(move || scan::read(&path, known)).await;
        known = now_known;
        let seen = Timestamp::now();
        let (changes, snapshot) = files.apply(reading, |path, bytes| {
            let path = path.to_string_lossy();
            let origin = Origin {
                node_name: &source.node_name,
                source: Source::File,
                path: &path,
                seen,
                strict: source.strict,
            };
            decode_manifest(bytes, &origin)
        });
        changes.iter().for_each(|change| log(&source.path, change));
        if let Some(snapshot) = snapshot
            && inbox.send(Event::Config(snapshot)).await.is_err()
        {
            return;
        }
        watch.wait(if stamp.is_some() { source.rescan } else { MISSING }).await;
    }
}

/// Each change of mind is said once.
fn log(dir: &Path, change: &Change) {
    match change {
        Change::Unreadable(reason) => {
            warn!(path = %dir.display(), reason, "cannot read the manifests; what runs stays as it is");
        }
        Change::Readable => info!(path = %dir.display(), "reading the manifests again"),
        Change::Removed(path) => info!(file = %path.display(), "manifest is gone"),
        Change::Verdict(path, Outcome::Accepted { pod, warnings }) => {
            info!(file = %path.display(), %pod, "manifest accepted");
            for warning in warnings {
                warn!(file = %path.display(), %pod, "{warning}");
            }
        }
        Change::Verdict(path, Outcome::Refused { field, reason }) => {
            warn!(file = %path.display(), field, reason, "manifest refused");
        }
        Change::Verdict(_, Outcome::Shadowed { .. }) => {}
    }
}

/// What an event of the watch asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Urgency {
    /// Nothing.
    None,
    /// A look, once the writer has had time to finish.
    Soon,
    /// A look at once.
    Now,
}

fn urgency(kind: &EventKind) -> Urgency {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write))
        | EventKind::Modify(ModifyKind::Name(_) | ModifyKind::Metadata(_))
        | EventKind::Remove(_) => Urgency::Now,
        // Our own reading opens files.
        EventKind::Access(_) => Urgency::None,
        _ => Urgency::Soon,
    }
}

struct Watch {
    watcher: Option<RecommendedWatcher>,
    events: Receiver<Urgency>,
    sender: Sender<Urgency>,
    /// The directory that is watched: a path can come to mean another one.
    watched: Option<DirStamp>,
    complained: bool,
}

impl Watch {
    fn new() -> Self {
        let (sender, events) = async_channel::unbounded();
        Self { watcher: None, events, sender, watched: None, complained: false }
    }

    /// Watches the directory that the path means now; `None` if there is none.
    fn follow(&mut self, path: &Path) -> Option<DirStamp> {
        let dir = scan::directory_of(path);
        let stamp = dir.as_deref().and_then(scan::dir_stamp);
        if stamp.is_none() || stamp != self.watched || self.watcher.is_none() {
            self.watched = None;
            self.watcher = None;
        }
        if let (Some(dir), Some(_), None) = (&dir, &stamp, &self.watched) {
            match self.start(dir) {
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
        let sender = self.sender.clone();
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // A lost event (an overflow of the queue) is a reason to look, too.
            let urgency =
                event.map_or(Urgency::Now, |e| if e.need_rescan() { Urgency::Now } else { urgency(&e.kind) });
            if urgency != Urgency::None {
                // The receiver lives as long as the watch.
                let _ = sender.try_send(urgency);
            }
        })?;
        watcher.watch(dir, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    }

    /// Waits for an event that asks for a look, or until the rescan is due.
    async fn wait(&self, rescan: Duration) {
        let due = async {
            Timer::after(rescan).await;
            Urgency::Now
        };
        let event = async { self.events.recv().await.unwrap_or(Urgency::Now) };
        if future::or(event, due).await == Urgency::Soon {
            let settled = async {
                Timer::after(SETTLE).await;
            };
            let finished = async { while !matches!(self.events.recv().await, Ok(Urgency::Now) | Err(_)) {} };
            future::or(finished, settled).await;
        }
        // What has piled up is answered by the one look that follows.
        while self.events.try_recv().is_ok() {}
    }
}

#[cfg(test)]
mod tests {
    use notify::event::{CreateKind, DataChange, MetadataKind, RemoveKind, RenameMode};

    use super::*;

    #[test]
    fn events_ask_for_looks() {
        let cases = [
            (EventKind::Access(AccessKind::Close(AccessMode::Write)), Urgency::Now),
            (EventKind::Access(AccessKind::Open(AccessMode::Any)), Urgency::None),
            (EventKind::Access(AccessKind::Close(AccessMode::Read)), Urgency::None),
            (EventKind::Create(CreateKind::File), Urgency::Soon),
            (EventKind::Modify(ModifyKind::Data(DataChange::Any)), Urgency::Soon),
            (EventKind::Modify(ModifyKind::Name(RenameMode::To)), Urgency::Now),
            (EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any)), Urgency::Now),
            (EventKind::Remove(RemoveKind::File), Urgency::Now),
        ];
        for (kind, expect) in cases {
            assert_eq!(urgency(&kind), expect, "{kind:?}");
        }
    }
}
