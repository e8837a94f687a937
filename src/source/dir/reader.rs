//! Watches and reads the directory. Everything here may block for as long as a file system likes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::scan::{self, DirectoryReading, FileContents, KnownFiles, ReadRules};
use super::signing_key::SigningKey;
use super::timing::QUIET;
use super::watch::DirectoryWatch;
use super::watched_names::observe_watched;
use super::{DirSource, check_manifest};

/// What is carried from one reading to the next.
pub(super) struct DirectoryReader {
    source: DirSource,
    rules: ReadRules,
    key: Option<SigningKey>,
    known: KnownFiles,
    watch: DirectoryWatch,
}

/// One reading.
pub(super) struct Scan {
    /// What was found.
    pub(super) reading: DirectoryReading,
    /// There is a directory to watch.
    pub(super) exists: bool,
    /// Manifests that were there since the last reading, and were removed or moved away.
    pub(super) just_removed: BTreeSet<PathBuf>,
    /// The key as it was read; none if it was not, or if none is required.
    pub(super) key: Option<SigningKey>,
    /// When it began and ended.
    pub(super) began: Instant,
    pub(super) ended: Instant,
    /// The files as they were read; to be remembered when the reading counts.
    known: KnownFiles,
}

impl Scan {
    /// A reading that came to nothing, for this reason.
    pub(super) fn unreadable(reason: String) -> Self {
        let now = Instant::now();
        Self {
            reading: DirectoryReading::Unreadable(reason),
            exists: true,
            just_removed: BTreeSet::new(),
            key: None,
            began: now,
            ended: now,
            known: KnownFiles::default(),
        }
    }

    /// What will be remembered of it.
    pub(super) fn take_known(&mut self) -> KnownFiles {
        std::mem::take(&mut self.known)
    }
}

impl DirectoryReader {
    /// Nothing is read yet.
    pub(super) fn new(source: DirSource, key: Option<SigningKey>) -> Self {
        let rules = ReadRules { own_uid: source.trust.own_uid(), signatures: key.is_some() };
        let watch = DirectoryWatch::new(rules.signatures);
        Self { source, rules, key, known: KnownFiles::default(), watch }
    }

    /// Watches and reads. `was_single`: the path was seen to be a single file, not a directory.
    pub(super) fn read(&mut self, was_single: bool) -> Scan {
        let path = self.source.path.clone();
        // Watch first, read second: a change between the two is seen by one of them.
        let watched = observe_watched(&path, was_single, self.key.as_ref().map(SigningKey::path));
        let directory = watched.directory.clone();
        self.watch.follow(watched);
        if let Some(key) = &mut self.key
            && key.reread(self.rules.own_uid)
        {
            // Every signature is to be checked again.
            self.known = KnownFiles::default();
        }
        let writers = self.watch.writers();
        let began = Instant::now();
        let check = |path: &Path, contents: &FileContents| {
            let signed = self.key.as_ref().map(|key| key.check(contents)).transpose()?;
            check_manifest(&self.source, path, &contents.bytes, signed)
        };
        let (mut reading, mut known) =
            scan::read(&path, was_single, self.rules, &self.known, &writers, check);
        if let DirectoryReading::Files(found) = &mut reading {
            let disturbed = self.watch.disturbed(&found.read);
            found.disregard(&disturbed, &mut known);
        }
        let shown = |file: &PathBuf| {
            let name = file.file_name().filter(|_| file.parent() == directory.as_deref())?;
            match was_single {
                true => (path.file_name() == Some(name)).then(|| path.clone()),
                false => Some(path.join(name)),
            }
        };
        let just_removed = writers.gone.iter().filter_map(shown).collect();
        let (exists, key) = (directory.is_some(), self.key.clone());
        Scan { reading, exists, just_removed, key, began, ended: Instant::now(), known }
    }

    /// The reading counts: what is as it was then need not be read again.
    pub(super) fn remember(&mut self, known: KnownFiles) {
        self.known = known;
    }

    /// Waits until there is a reason to read, or until the rescan is due.
    pub(super) async fn wait(&mut self, rescan: Duration) {
        self.watch.wait(rescan).await;
    }
}

/// How soon to read again what was found to be written just now.
pub(super) fn until_finished(reading: &DirectoryReading) -> Option<Duration> {
    matches!(reading, DirectoryReading::Files(found) if found.unfinished).then_some(QUIET)
}
