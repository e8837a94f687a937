//! The manifest directory: inotify for speed, a rescan for safety.
//!
//! # What it promises
//!
//! A pod ends when its manifest is gone, or names another pod, in a directory that was read whole and is the one that was
//! read before. Nothing else ends it: not a file that cannot be read, decoded, trusted or verified, not a directory that is
//! missing, hangs or was unmounted, not a restart of the agent in between. What an agent once wanted, the next one knows.
//!
//! # Its parts
//!
//! [`reader`] watches ([`watch`], [`watched_names`]) and reads ([`scan`]); it may block for as long as a file system likes.
//! [`decide`] says what a reading proves ([`identity`]), applies it to what is known of each file ([`files`]) and keeps
//! that on disk ([`last_good`]). [`run_dir`] lets them take turns, and speaks when a reading does not answer.
//!
//! # The states of the directory
//!
//! | state | what the source says | what ends it |
//! |---|---|---|
//! | not read yet | nothing; sources of lower precedence wait | the first reading, or its deadline ([`timing::READ_DEADLINE`]) |
//! | read | the pods of its files, complete if each file is accounted for | |
//! | unreadable: missing, distrusted, an I/O error | the last good versions, incomplete | a reading; tried each second if missing, else at the rescan |
//! | hanging: no answer in time | the same | its answer, or another mount in its place |
//! | misplaced: another directory without a valid pod | the same | a valid pod in it, or the right one again |
//! | replaced: another directory with valid pods | its pods; those that it lacks stay for [`timing::REPLACED_GRACE`] | |
//!
//! # The states of a file
//!
//! | state | what follows |
//! |---|---|
//! | being written, or written just now ([`timing::OPEN_WRITER`], [`timing::QUIET`]) | what was known of it stays |
//! | valid | its pod runs and its ConfigMaps and Secrets are there, unless another file has one of their names or the UID |
//! | refused | its last good version runs on |
//! | missing for less than [`timing::REMOVAL_GRACE`] | as if it were there, unchanged |
//! | gone | its pod ends |
//!
//! Every delay is in [`timing`], with its reason.

mod decide;
mod files;
mod hang;
mod identity;
mod last_good;
mod reader;
mod scan;
mod signing_key;
mod timing;
mod watch;
mod watched_names;

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use tracing::field::display;
use tracing::{info, warn};

use crate::pod::Source;
use crate::pod::decode::Origin;
use crate::pod::decode::file::decode_file;
use crate::pod::decode::list::ItemPath;
use crate::pod::finding::Refusal;
use crate::pod::object::{ObjectKind, Subject};
use crate::source::trust::Trust;
use crate::sync::handles::Handles;
use crate::sync::message::Event;
use crate::sync::view::Outcome;
use decide::Decider;
use files::{Audit, Notice, Signed, ValidManifest};
use hang::{Readings, read_key};
pub(crate) use scan::{is_manifest_name, read_regular, why_skipped};

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
    /// ConfigMaps and Secrets, and references to them, are refused.
    pub kubelet_strict: bool,
    /// The agent's root directory, where the last good versions are kept.
    pub root_dir: PathBuf,
    /// Whose files are believed.
    pub trust: Trust,
    /// What must be signed.
    pub signing: Signing,
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
pub(crate) async fn run_dir(source: DirSource, handles: Handles) {
    let path = source.path.clone();
    let key = read_key(&source).await;
    let mut readings = Readings::new(source.clone(), key.clone());
    // Manifests may be many and large, and disks slow: nobody else waits for them.
    let mut decider = smol::unblock(move || Decider::load(source, key.as_ref())).await;
    while !handles.inbox.is_closed() {
        let scan = readings.next(decider.was_single()).await;
        let (back, decided) = smol::unblock(move || decider.decide(scan)).await;
        decider = back;
        decided.notices.iter().for_each(|notice| log(&path, notice));
        if decided.known.is_some() {
            handles.telemetry.metrics.source_read(Source::File, Timestamp::now());
        }
        if let Some(snapshot) = decided.snapshot
            && handles.inbox.send(Event::Config(snapshot)).await.is_err()
        {
            return;
        }
        let read = handles.clock.uptime();
        readings.wait(decided.known, decided.next).await;
        let since = handles.clock.uptime().saturating_sub(read);
        handles.clock.sleep(timing::READ_INTERVAL.saturating_sub(since)).await;
    }
}

/// Decodes a manifest whose signature, if it needs one, was checked.
fn check_manifest(
    source: &DirSource,
    path: &Path,
    bytes: &[u8],
    signed: Option<Signed>,
) -> Result<ValidManifest, Refusal> {
    let path = path.to_string_lossy();
    let origin = Origin {
        node_name: &source.node_name,
        source: Source::File,
        path: &path,
        seen: Timestamp::now(),
        strict: source.strict,
        kubelet_strict: source.kubelet_strict,
    };
    Ok(ValidManifest { decoded: decode_file(bytes, &origin)?, signed })
}

/// Logs a change, once.
fn log(dir: &Path, notice: &Notice) {
    match notice {
        Notice::Unreadable(reason) => {
            warn!(path = %dir.display(), reason, "cannot read the manifests; what runs stays as it is");
        }
        Notice::Readable => info!(path = %dir.display(), "reading the manifests again"),
        Notice::Skipped(path, reason) => info!(file = %path.display(), reason, "file skipped"),
        Notice::SkippedUnnamed(count) => {
            info!(path = %dir.display(), count, "more files skipped, which are not named");
        }
        Notice::Removed(path) => info!(file = %path.display(), "manifest is gone"),
        Notice::Verdict { path, outcomes, audit } => {
            // A digest of a file with a Secret tells who can guess its value whether the guess is right.
            let is_secret = |outcome: &Outcome| {
                let object = outcome.taken().and_then(Subject::object);
                object.is_some_and(|key| key.kind == ObjectKind::Secret)
            };
            let with_digest = !outcomes.iter().any(|(_, outcome)| is_secret(outcome));
            for (at, outcome) in outcomes {
                log_outcome(path, *at, outcome, audit.as_ref(), with_digest);
            }
        }
    }
}

fn log_outcome(path: &Path, at: ItemPath, outcome: &Outcome, audit: Option<&Audit>, with_digest: bool) {
    match outcome {
        Outcome::Accepted { subject, warnings } => {
            log_accepted(path, at, subject, audit, with_digest);
            let (pod, object) = (subject.pod().map(display), subject.object().map(display));
            for warning in warnings {
                warn!(file = %path.display(), pod, object, "{warning}");
            }
        }
        Outcome::Refused(refusal) => {
            let (place, field) = (refusal.first.position, &refusal.first.field);
            let (line, column) = (place.map(|p| p.line), place.map(|p| p.column));
            let reason = refusal.reason();
            warn!(file = %path.display(), field, reason, line, column, "manifest refused");
            for warning in &refusal.warnings {
                warn!(file = %path.display(), "{warning}");
            }
        }
        // The first two are for the mux to find out; skipped files have a notice of their own.
        Outcome::Unchanged { .. } | Outcome::Shadowed { .. } | Outcome::Skipped { .. } => {}
    }
}

/// The audit line: who wrote what.
fn log_accepted(path: &Path, at: ItemPath, subject: &Subject, audit: Option<&Audit>, with_digest: bool) {
    let Some(Audit { sha256, owner, mode, signed }) = audit else { return };
    let signer = signed.as_ref().map(|signed| signed.key.as_str());
    let serial = signed.as_ref().and_then(|signed| signed.serial);
    let mode = format_args!("{mode:04o}");
    let (pod, object) = (subject.pod().map(display), subject.object().map(display));
    let sha256 = with_digest.then_some(sha256);
    let (document, item) = (at.document, at.item);
    info!(file = %path.display(), document, item, pod, object, sha256, owner, %mode, signer, serial, "manifest accepted");
}
