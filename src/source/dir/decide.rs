//! Decides what a reading of the directory proves, and keeps what follows on disk. Blocks for the agent's own disk alone.

use std::time::{Duration, Instant};

use super::files::{Files, MissingFiles, Notice};
use super::identity::{DirectoryId, Evidence, weigh};
use super::last_good::{LastGoodStore, Unusable};
use super::reader::{Scan, until_finished};
use super::scan::{DirectoryReading, KnownFiles};
use super::signing_key::SigningKey;
use super::timing::{FIRST_SNAPSHOT_GRACE, MISSING_RETRY, REMOVAL_GRACE, REPLACED_GRACE};
use super::{DirSource, check_manifest};
use crate::source::untrusted_signature::UntrustedSignatures;
use crate::sync::mux::Snapshot;

/// Why a directory does not count that is not the one that was read before.
const MISPLACED: &str = "another directory, without a valid pod, is in its place";

/// What is known of the directory.
pub(super) struct Decider {
    source: DirSource,
    files: Files,
    store: LastGoodStore,
    missing: MissingFiles,
    /// The directory that was last read, with none of its files missing.
    directory: Option<DirectoryId>,
    /// The pods that the key, as it was last read, did not sign.
    untrusted_signatures: UntrustedSignatures,
    first: FirstSnapshot,
}

/// The snapshot that sources of lower precedence wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FirstSnapshot {
    /// Nothing was read yet.
    Due,
    /// Held back since then: a file was written just before it was to be read.
    HeldBack(Instant),
    Sent,
}

impl FirstSnapshot {
    /// After a reading. `unfinished`: a file was left alone, and will be read soon.
    fn after(self, unfinished: bool, began: Instant, ended: Instant) -> Self {
        let since = match self {
            Self::Sent => return Self::Sent,
            Self::HeldBack(since) => since,
            Self::Due => began,
        };
        let is_held_back = unfinished && ended.duration_since(since) < FIRST_SNAPSHOT_GRACE;
        if is_held_back { Self::HeldBack(since) } else { Self::Sent }
    }
}

/// What follows from a reading.
pub(super) struct Decided {
    /// To be logged.
    pub(super) notices: Vec<Notice>,
    /// There when anything changed.
    pub(super) snapshot: Option<Snapshot>,
    /// When to look again, events or no events.
    pub(super) next: Duration,
    /// The files as they were read, if the reading counts.
    pub(super) known: Option<KnownFiles>,
}

impl Decider {
    /// Begins where an earlier agent ended. Where a key is needed, what another one signed is not started.
    pub(super) fn load(source: DirSource, key: Option<&SigningKey>) -> Self {
        let mut store = LastGoodStore::new(&source.root_dir, &source.path);
        let (files, directory) = store.load(|record| {
            if let Some(key) = key {
                key.check_signer(&record.audit).map_err(Unusable::Untrusted)?;
            }
            let signed = record.audit.signed.clone();
            check_manifest(&source, &record.path, record.text.0.as_bytes(), signed).map_err(Unusable::Refused)
        });
        Self {
            source,
            files,
            store,
            missing: MissingFiles::default(),
            directory,
            untrusted_signatures: UntrustedSignatures::default(),
            first: FirstSnapshot::Due,
        }
    }

    /// The path was seen to be a single file, not a directory.
    pub(super) fn was_single(&self) -> bool {
        self.files.paths().any(|known| *known == self.source.path)
    }

    /// Applies a reading.
    pub(super) fn decide(mut self, mut scan: Scan) -> (Self, Decided) {
        let mut next = if scan.exists { self.source.rescan } else { MISSING_RETRY };
        next = next.min(until_finished(&scan.reading).unwrap_or(next));
        let evidence = self.evidence(&scan.reading);
        if evidence == Evidence::Misplaced {
            scan.reading = DirectoryReading::Unreadable(MISPLACED.into());
        }
        let mut known = None;
        match &mut scan.reading {
            // What happens to the files meanwhile cannot be seen.
            DirectoryReading::Unreadable(_) => self.missing = MissingFiles::default(),
            DirectoryReading::Files(found) => {
                let lost = self.files.paths().filter(|path| !found.files.contains_key(*path));
                let lost: Vec<_> = lost.cloned().collect();
                let grace = if evidence == Evidence::Replaced { REPLACED_GRACE } else { REMOVAL_GRACE };
                self.missing.note(lost, |path| scan.just_removed.contains(path), scan.ended);
                found.missing = self.missing.in_grace(grace, scan.began);
                next = next.min(self.missing.until_over(grace, scan.began, scan.ended).unwrap_or(next));
                // One that has taken the place of another is the new one once it has had time to be filled.
                if found.missing.is_empty() {
                    self.directory.clone_from(&found.directory);
                }
                known = Some(scan.take_known());
            }
        }
        let was_held_back = matches!(self.first, FirstSnapshot::HeldBack(_));
        let unfinished = matches!(&scan.reading, DirectoryReading::Files(found) if found.unfinished);
        self.first = self.first.after(unfinished, scan.began, scan.ended);
        let (notices, mut snapshot) = self.files.apply(scan.reading);
        match self.first {
            FirstSnapshot::Sent if was_held_back => snapshot = snapshot.or_else(|| Some(self.files.latest())),
            FirstSnapshot::HeldBack(_) => snapshot = None,
            FirstSnapshot::Sent | FirstSnapshot::Due => {}
        }
        if let Some(key) = &scan.key {
            let judged = self.files.versions().map(|(subject, audit)| (subject, key.check_signer(audit)));
            if self.untrusted_signatures.update(judged) {
                let is_held_back = matches!(self.first, FirstSnapshot::HeldBack(_));
                snapshot = snapshot.or_else(|| (!is_held_back).then(|| self.files.latest()));
            }
        }
        if let Some(snapshot) = &mut snapshot {
            self.untrusted_signatures.mark(snapshot);
        }
        self.store.save(&mut self.files, self.directory.as_ref());
        (self, Decided { notices, snapshot, next, known })
    }

    fn evidence(&self, reading: &DirectoryReading) -> Evidence {
        let DirectoryReading::Files(found) = reading else { return Evidence::Same };
        let (valid, running) = (self.files.count_valid(found), self.files.running());
        weigh(self.directory.as_ref(), found.directory.as_ref(), valid, running)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;
    use std::time::SystemTime;

    use super::*;
    use crate::source::dir::Signing;
    use crate::source::dir::reader::DirectoryReader;
    use crate::source::trust::Trust;

    fn source(root: &Path) -> DirSource {
        DirSource {
            path: root.join("manifests"),
            rescan: Duration::from_secs(3600),
            node_name: "n".into(),
            strict: false,
            kubelet_strict: false,
            root_dir: root.join("state"),
            trust: Trust::Root,
            signing: Signing::NotRequired,
        }
    }

    /// Writes a file that was left alone long enough to be read.
    fn write(path: &Path, text: &str) {
        fs::write(path, text).unwrap();
        let past = SystemTime::now() - Duration::from_secs(60);
        File::options().append(true).open(path).unwrap().set_modified(past).unwrap();
    }

    fn pod(name: &str) -> String {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{containers: [{{name: c, image: i}}]}}}}"
        )
    }

    /// The agent, as far as the directory goes.
    struct Agent {
        reader: DirectoryReader,
        decider: Option<Decider>,
    }

    impl Agent {
        fn start(root: &Path) -> Self {
            let decider = Decider::load(source(root), None);
            Self { reader: DirectoryReader::new(source(root), None), decider: Some(decider) }
        }

        /// How many files are missing, and may come back.
        fn missing(&self) -> usize {
            let missing = &self.decider.as_ref().unwrap().missing;
            missing.in_grace(Duration::from_secs(60), Instant::now()).len()
        }

        /// Reads once; the pods that follow, whether they are all, and the reason if it cannot be read.
        fn read(&mut self) -> (String, Option<bool>, Option<String>) {
            let decider = self.decider.take().unwrap();
            let scan = self.reader.read(decider.was_single());
            let (decider, decided) = decider.decide(scan);
            self.decider = Some(decider);
            decided.known.into_iter().for_each(|known| self.reader.remember(known));
            let reason = decided.notices.iter().find_map(|notice| match notice {
                Notice::Unreadable(reason) => Some(reason.clone()),
                _ => None,
            });
            let names = |snapshot: &Snapshot| {
                let names: Vec<_> = snapshot.pods.iter().map(|pod| pod.name.name.clone()).collect();
                names.join(" ")
            };
            let snapshot = decided.snapshot.as_ref();
            (snapshot.map(names).unwrap_or_default(), snapshot.map(|snapshot| snapshot.complete), reason)
        }
    }

    #[test]
    fn the_first_snapshot_waits_for_files_that_were_written_just_now() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path();
        let dir = root.join("manifests");
        fs::create_dir(&dir).unwrap();
        write(&dir.join("old.yaml"), &pod("old"));
        // Cut short by its writer, as far as one can tell.
        write(&dir.join("new.yaml"), "");
        let mut agent = Agent::start(root);
        assert_eq!(agent.read(), (String::new(), None, None), "others wait");
        // Moved into place: of a writer inotify might tell too late.
        write(&root.join("staged"), &pod("new"));
        fs::rename(root.join("staged"), dir.join("new.yaml")).unwrap();
        assert_eq!(agent.read(), ("new-n old-n".to_owned(), Some(true), None));
    }

    #[test]
    fn the_first_snapshot_does_not_wait_for_long() {
        use FirstSnapshot::{Due, HeldBack, Sent};
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        for (state, unfinished, ended, next) in [
            (Due, false, 10, Sent),
            (Due, true, 10, HeldBack(start)),
            (Due, true, 1000, Sent),
            (HeldBack(start), true, 999, HeldBack(start)),
            (HeldBack(start), true, 1000, Sent),
            (HeldBack(start), false, 10, Sent),
            (Sent, true, 10, Sent),
        ] {
            let began = if state == Due { start } else { after(ended) };
            assert_eq!(state.after(unfinished, began, after(ended)), next, "{state:?} {unfinished} {ended}");
        }
    }

    #[test]
    fn a_directory_without_a_valid_pod_in_its_place_changes_nothing() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path();
        let (dir, aside) = (root.join("manifests"), root.join("aside"));
        fs::create_dir(&dir).unwrap();
        write(&dir.join("a.yaml"), &pod("a"));
        write(&dir.join("b.yaml"), &pod("b"));
        let mut agent = Agent::start(root);
        let all = || ("a-n b-n".to_owned(), Some(true), None);
        assert_eq!(agent.read(), all());

        fs::rename(&dir, &aside).unwrap();
        fs::create_dir(&dir).unwrap();
        let misplaced = || ("a-n b-n".to_owned(), Some(false), Some(MISPLACED.to_owned()));
        assert_eq!(agent.read(), misplaced(), "an empty one");
        write(&dir.join("leftover.json"), "{}");
        write(&dir.join("a.yaml"), "{}");
        assert_eq!(agent.read(), (String::new(), None, None), "nothing new");
        let mut next = Agent::start(root);
        assert_eq!(next.read(), misplaced(), "another agent thinks the same");

        fs::rename(&dir, root.join("stray")).unwrap();
        fs::rename(&aside, &dir).unwrap();
        assert_eq!(next.read(), all(), "the right one again");
        fs::remove_file(dir.join("b.yaml")).unwrap();
        write(&dir.join("a.yaml"), "{}");
        let mut last = Agent::start(root);
        assert_eq!(last.read().1, Some(false), "one is missing, and may come back");
        assert_eq!(last.missing(), 1);

        fs::rename(&dir, &aside).unwrap();
        fs::create_dir(&dir).unwrap();
        write(&dir.join("c.yaml"), &pod("c"));
        assert_eq!(last.read().2, None, "one with a valid pod counts");
    }
}
