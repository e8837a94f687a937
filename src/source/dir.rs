//! The manifest directory: inotify for speed, a rescan for safety.
//!
//! Owns the watch and the reading. What the files come to, last good versions and clashes included, is decided
//! in [`files`]. A directory that cannot be read is not an empty one.

mod files;
mod scan;
mod watch;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use async_channel::Sender;
use jiff::Timestamp;
use smol::Timer;
use tracing::{info, warn};

use crate::pod::Source;
use crate::pod::decode::{Origin, decode_manifest};
use crate::pod_config::Snapshot;
use crate::sync_loop::Event;
use crate::view::Outcome;
use files::{Change, Files};
use scan::{DirStamp, Known, Reading};
use watch::Watch;

/// How soon a directory that is missing is looked for again.
const MISSING: Duration = Duration::from_secs(1);
/// How long a file must be gone to count as removed: editors and `rm a; cp b a` take it away for a moment.
const GONE: Duration = Duration::from_millis(150);
/// The same in a directory that has taken the place of another: it may be on its way to being filled.
const REPLACED: Duration = Duration::from_secs(3);
/// The shortest time between two readings, however many events come.
const BREATH: Duration = Duration::from_millis(20);

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
    let rescan = source.rescan;
    let (files, known, watch) = (Files::default(), Known::default(), Watch::new());
    let mut state = State { source, files, known, watch, directory: None };
    while !inbox.is_closed() {
        // Files may lie on a slow disk, and manifests may be large: nobody else waits for them.
        let (mut now, mut round) = smol::unblock(move || state.read()).await;
        if round.lost_files {
            Timer::after(if round.replaced { REPLACED } else { GONE }).await;
            (now, round) = smol::unblock(move || now.read()).await;
        }
        let is_there = round.is_there;
        let (mut now, (changes, snapshot)) = smol::unblock(move || now.judge(round)).await;
        changes.iter().for_each(|change| log(&now.source.path, change));
        if let Some(snapshot) = snapshot
            && inbox.send(Event::Config(snapshot)).await.is_err()
        {
            return;
        }
        let read = Instant::now();
        now.watch.wait(if is_there { rescan } else { MISSING }).await;
        Timer::after(BREATH.saturating_sub(read.elapsed())).await;
        state = now;
    }
}

/// What is carried from one round to the next.
struct State {
    source: DirSource,
    files: Files,
    known: Known,
    watch: Watch,
    /// The directory that was last read.
    directory: Option<DirStamp>,
}

/// One reading.
struct Round {
    is_there: bool,
    /// The path means another directory than it did.
    replaced: bool,
    directory: Option<DirStamp>,
    /// Files that were there are not.
    lost_files: bool,
    reading: Reading,
    /// The files as they were read; to be remembered when the reading counts.
    known: Known,
}

impl State {
    /// Watches and reads. Blocking.
    fn read(mut self) -> (Self, Round) {
        // Watch first, read second: a change between the two is seen by one of them.
        let directory = self.watch.follow(&self.source.path);
        let (mut reading, known) = scan::read(&self.source.path, &self.known, &self.watch.being_written());
        let replaced = self.directory.is_some() && self.directory != directory;
        let lost_files = match &reading {
            Reading::Files(found) => self.files.paths().any(|path| !found.contains_key(path)),
            Reading::Unreadable(_) => false,
        };
        if replaced && lost_files && matches!(&reading, Reading::Files(found) if found.is_empty()) {
            // What an unmounted directory leaves behind looks like this.
            reading = Reading::Unreadable("an empty directory has taken its place".into());
        }
        let is_there = directory.is_some();
        (self, Round { is_there, replaced, directory, lost_files, reading, known })
    }

    /// Decodes and judges. Takes its time with large manifests.
    fn judge(mut self, round: Round) -> (Self, (Vec<Change>, Option<Snapshot>)) {
        self.known = round.known;
        if matches!(round.reading, Reading::Files(_)) {
            self.directory = round.directory;
        }
        let (source, seen) = (&self.source, Timestamp::now());
        let outcome = self.files.apply(round.reading, |path, bytes| {
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
        (self, outcome)
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
