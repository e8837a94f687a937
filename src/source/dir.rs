//! The manifest directory: inotify for speed, a rescan for safety.
//!
//! Owns the watch, the reading and what is kept on disk. What the files come to, last good versions and clashes
//! included, is decided in [`files`]. A directory that cannot be read is not an empty one.

mod access;
mod files;
mod identity;
mod kept;
mod key;
mod places;
mod scan;
mod watch;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use async_channel::Sender;
use jiff::Timestamp;
use smol::Timer;
use tracing::{info, warn};

use crate::pod::Source;
use crate::pod::decode::{Decoded, Origin, decode_manifest};
use crate::pod::finding::{Finding, Refusal};
use crate::sync::message::Event;
use crate::sync::mux::Snapshot;
use crate::sync::view::Outcome;
use files::{Audit, Change, Files, Missing, Taken};
use identity::{Evidence, Identity, weigh};
use kept::Kept;
use key::Key;
pub(in crate::source) use key::{KeyError, read_key};
use places::Places;
use scan::{Known, Reading, Rules};
pub(crate) use scan::{is_manifest_name, read_regular};
use watch::Watch;

/// How soon a directory that is missing is looked for again.
const MISSING: Duration = Duration::from_secs(1);
/// How long each file must be gone to count as removed: editors and `rm a; cp b a` take it away for a moment.
const GONE: Duration = Duration::from_millis(150);
/// The same in a directory that has taken the place of another: it may be on its way to being filled.
const REPLACED: Duration = Duration::from_secs(3);
/// The shortest time between two readings, however many events come.
const BREATH: Duration = Duration::from_millis(20);

/// What the source is told.
#[derive(Debug, Clone)]
pub(crate) struct DirSource {
    /// The directory, or a single file.
    pub path: PathBuf,
    /// The period of the rescan.
    pub rescan: Duration,
    /// The node's name, for the pods' identity.
    pub node_name: String,
    /// Unknown fields are refused.
    pub strict: bool,
    /// The agent's root directory, where the last good versions are kept.
    pub root_dir: PathBuf,
    /// Whose files are believed.
    pub trust: Trust,
    /// What must be signed.
    pub signing: Signing,
}

/// Whose manifests are believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Those that only root, or the agent's own user, can have written.
    Root,
    /// Anybody's.
    Anybody,
}

impl Trust {
    /// The user whose files are trusted beside root's; none if everybody's are.
    pub(in crate::source) fn own_uid(self) -> Option<u32> {
        (self == Trust::Root).then(|| rustix::process::geteuid().as_raw())
    }
}

/// Which manifests must be signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Signing {
    /// None.
    NotRequired,
    /// All, with the public key in this file.
    Required(PathBuf),
}

/// Reads and watches until the inbox is closed.
pub(crate) async fn run_dir(source: DirSource, inbox: Sender<Event>) {
    let mut state = smol::unblock(move || State::load(source)).await;
    while !inbox.is_closed() {
        // Files may lie on a slow disk, and manifests may be large: nobody else waits for them.
        let read = move || {
            let (state, round) = state.read();
            let next = round.next;
            let (state, outcome) = state.judge(round);
            (state, outcome, next)
        };
        let (mut now, (changes, snapshot), next) = smol::unblock(read).await;
        changes.iter().for_each(|change| log(&now.source.path, change));
        if let Some(snapshot) = snapshot
            && inbox.send(Event::Config(snapshot)).await.is_err()
        {
            return;
        }
        let read = Instant::now();
        now.watch.wait(next).await;
        Timer::after(BREATH.saturating_sub(read.elapsed())).await;
        state = now;
    }
}

/// What is carried from one round to the next.
struct State {
    source: DirSource,
    rules: Rules,
    key: Option<Key>,
    files: Files,
    kept: Kept,
    known: Known,
    missing: Missing,
    watch: Watch,
    /// The directory that was last read, with none of its files missing.
    directory: Option<Identity>,
    /// The running boot of the machine.
    boot: String,
}

/// One reading.
struct Round {
    /// Which directory the path means; none if there is none.
    identity: Option<Identity>,
    /// When to look again, events or no events.
    next: Duration,
    reading: Reading,
    /// The files as they were read; to be remembered when the reading counts.
    known: Known,
}

impl State {
    /// Begins where an earlier agent ended. Blocking.
    fn load(source: DirSource) -> Self {
        let key = match &source.signing {
            Signing::NotRequired => None,
            Signing::Required(path) => Some(Key::at(path.clone())),
        };
        let rules = Rules { own_uid: source.trust.own_uid(), signatures: key.is_some() };
        // Where there is none, every boot is the same.
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let mut kept = Kept::new(&source.root_dir, &source.path);
        let (files, directory) = kept.load(|record| {
            if rules.signatures && record.audit.signed.is_none() {
                return Err(Finding::whole("it was taken before manifests had to be signed").into());
            }
            let decoded = decode(&source, &record.path, record.text.as_bytes())?;
            Ok(Taken { decoded, signed: record.audit.signed.clone() })
        });
        let (known, missing) = (Known::default(), Missing::default());
        let watch = Watch::new(rules.signatures);
        Self {
            source,
            rules,
            key,
            files,
            kept,
            known,
            missing,
            watch,
            directory,
            boot: boot.trim().to_owned(),
        }
    }

    /// Watches and reads. Blocking.
    fn read(mut self) -> (Self, Round) {
        let path = &self.source.path;
        let was_single = self.files.paths().any(|known| known == path);
        let directory = scan::directory_of(path, was_single);
        let identity = fs::metadata(&directory).ok().filter(fs::Metadata::is_dir).map(|metadata| Identity {
            device: metadata.dev(),
            inode: metadata.ino(),
            boot: self.boot.clone(),
        });
        // Watch first, read second: a change between the two is seen by one of them.
        let mut places = Places::new();
        places::add_way(&mut places, &directory);
        scan::links(path).iter().for_each(|link| places::add_file(&mut places, link));
        self.key.iter().for_each(|key| places::add_file(&mut places, key.path()));
        self.watch.follow(identity.as_ref().map(|_| scan::real(&directory)), places);
        if let Some(key) = &mut self.key
            && key.reread(self.rules)
        {
            // Every signature is to be checked again.
            self.known = Known::default();
        }
        let writers = self.watch.writers();
        let began = Instant::now();
        let (mut reading, mut known) = scan::read(path, was_single, self.rules, &self.known, &writers);
        let ended = Instant::now();
        let mut next = if identity.is_none() { MISSING } else { self.source.rescan };
        let mut evidence = Evidence::Same;
        if let Reading::Files(found) = &mut reading {
            let disturbed = self.watch.disturbed(&found.read);
            found.disregard(&disturbed, &mut known);
            if found.unfinished {
                next = next.min(scan::QUIET);
            }
            let lost: Vec<_> =
                self.files.paths().filter(|path| !found.files.contains_key(*path)).cloned().collect();
            evidence = weigh(self.directory.as_ref(), identity.as_ref(), found.files.len(), lost.len());
            let grace = if evidence == Evidence::Replaced { REPLACED } else { GONE };
            let real = scan::real(&directory);
            let just_removed =
                |path: &Path| path.file_name().is_some_and(|name| writers.gone.contains(&real.join(name)));
            self.missing.note(lost, just_removed, ended);
            found.missing = self.missing.within(grace, began);
            next = next.min(self.missing.until_over(grace, began, ended).unwrap_or(next));
        }
        if evidence == Evidence::Emptied {
            reading = Reading::Unreadable("an empty directory has taken its place".into());
        }
        if matches!(reading, Reading::Unreadable(_)) {
            // What happens to the files meanwhile cannot be seen.
            self.missing = Missing::default();
        }
        (self, Round { identity, next, reading, known })
    }

    /// Decodes, judges and keeps. Takes its time with large manifests. Blocking.
    fn judge(mut self, round: Round) -> (Self, (Vec<Change>, Option<Snapshot>)) {
        self.known = round.known;
        // One that has taken the place of another is the new one once it has had time to be filled.
        if matches!(&round.reading, Reading::Files(found) if found.missing.is_empty()) {
            self.directory = round.identity;
        }
        let (source, key) = (&self.source, &self.key);
        let outcome = self.files.apply(round.reading, |path, contents| {
            let signed = key.as_ref().map(|key| key.check(contents)).transpose()?;
            Ok(Taken { decoded: decode(source, path, &contents.bytes)?, signed })
        });
        self.kept.save(&mut self.files, self.directory.as_ref());
        (self, outcome)
    }
}

fn decode(source: &DirSource, path: &Path, bytes: &[u8]) -> Result<Decoded, Refusal> {
    let path = path.to_string_lossy();
    let origin = Origin {
        node_name: &source.node_name,
        source: Source::File,
        path: &path,
        seen: Timestamp::now(),
        strict: source.strict,
    };
    decode_manifest(bytes, &origin)
}

/// Each change of mind is said once.
fn log(dir: &Path, change: &Change) {
    match change {
        Change::Unreadable(reason) => {
            warn!(path = %dir.display(), reason, "cannot read the manifests; what runs stays as it is");
        }
        Change::Readable => info!(path = %dir.display(), "reading the manifests again"),
        Change::NotFollowed(path) => {
            info!(path = %path.display(), "not looking into a directory among the manifests")
        }
        Change::Removed(path) => info!(file = %path.display(), "manifest is gone"),
        Change::Verdict { path, outcome: Outcome::Accepted { pod, warnings }, taken } => {
            log_accepted(path, pod, taken.as_ref());
            for warning in warnings {
                warn!(file = %path.display(), %pod, "{warning}");
            }
        }
        Change::Verdict { path, outcome: Outcome::Refused(refusal), .. } => {
            let (place, field) = (refusal.first.position, &refusal.first.field);
            let (line, column) = (place.map(|p| p.line), place.map(|p| p.column));
            let reason = refusal.reason();
            warn!(file = %path.display(), field, reason, line, column, "manifest refused");
            for warning in &refusal.warnings {
                warn!(file = %path.display(), "{warning}");
            }
        }
        // These are found out where sources meet.
        Change::Verdict { outcome: Outcome::Unchanged { .. } | Outcome::Shadowed { .. }, .. } => {}
    }
}

/// The audit line: who wrote what.
fn log_accepted(path: &Path, pod: &crate::pod::PodName, taken: Option<&Audit>) {
    let Some(Audit { sha256, owner, mode, signed }) = taken else { return };
    let signer = signed.as_ref().map(|signed| signed.key.as_str());
    let serial = signed.as_ref().and_then(|signed| signed.serial);
    let mode = format_args!("{mode:04o}");
    info!(file = %path.display(), %pod, sha256, owner, %mode, signer, serial, "manifest accepted");
}
