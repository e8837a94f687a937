//! What the files of a directory come to: the last good version of each, and one pod per name. Pure.
//!
//! Invariants: a file that turns bad keeps its pod; a file that is gone loses it; of two files with one pod name
//! the one that had it stays; a directory that cannot be read changes nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::scan::{FileReading, Reading};
use crate::pod::decode::Decoded;
use crate::pod::finding::Refusal;
use crate::pod::{Pod, PodName, PodUid, Source};
use crate::pod_config::Snapshot;
use crate::view::{Outcome, Verdict};

/// A change of mind, to be said once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// The directory cannot be read any more.
    Unreadable(String),
    /// The directory can be read again.
    Readable,
    /// A file is gone.
    Removed(PathBuf),
    /// A file is judged differently, or again.
    Verdict(PathBuf, Outcome),
}

/// What is known of the directory.
#[derive(Debug, Default)]
pub(super) struct Files {
    files: BTreeMap<PathBuf, Held>,
    claims: Claims,
    unreadable: Option<String>,
    spoken: bool,
}

#[derive(Debug)]
struct Held {
    /// The last valid version.
    good: Option<Arc<Pod>>,
    /// The version that counts: the last valid one that clashed with no other file.
    runs: Option<Arc<Pod>>,
    /// The judgement on the file as it is now, clashes aside.
    judged: Outcome,
    /// The judgement that was last said.
    said: Option<Outcome>,
    /// When the file came to be as it is.
    since: (i64, i64),
}

/// Which file has which name.
#[derive(Debug, Default)]
struct Claims {
    names: BTreeMap<PodName, PathBuf>,
    /// Two pods with one UID would share their directories.
    uids: BTreeMap<PodUid, PathBuf>,
}

impl Claims {
    fn has(&self, path: &Path) -> bool {
        self.names.values().any(|owner| owner == path)
    }

    /// Takes a pod's name and UID, if both are free.
    fn claim(&mut self, path: &Path, pod: &Pod) -> bool {
        let free = !self.names.contains_key(&pod.name) && !self.uids.contains_key(&pod.uid);
        if free {
            self.names.insert(pod.name.clone(), path.to_owned());
            self.uids.insert(pod.uid.clone(), path.to_owned());
        }
        free
    }
}

/// Who may claim a name, in this order.
#[derive(Clone, Copy)]
enum Round {
    Incumbents,
    Movers,
    Returned,
    Newcomers,
}

impl Round {
    const ALL: [Self; 4] = [Self::Incumbents, Self::Movers, Self::Returned, Self::Newcomers];
}

impl Files {
    /// Takes in a reading. The snapshot is there when anything changed.
    pub(super) fn apply(
        &mut self,
        reading: Reading,
        decode: impl Fn(&Path, &[u8]) -> Result<Decoded, Refusal>,
    ) -> (Vec<Change>, Option<Snapshot>) {
        let mut changes = Vec::new();
        let found = match reading {
            Reading::Unreadable(reason) => {
                let first = self.unreadable.as_ref() != Some(&reason);
                if first {
                    self.unreadable = Some(reason.clone());
                    changes.push(Change::Unreadable(reason));
                }
                // Said once even so: the source has spoken, and holds what it held.
                let snapshot = first.then(|| self.snapshot(false));
                return (changes, snapshot);
            }
            Reading::Files(found) => found,
        };
        let mut changed = !self.spoken;
        self.spoken = true;
        if self.unreadable.take().is_some() {
            changes.push(Change::Readable);
            changed = true;
        }
        let gone: Vec<_> = self.files.keys().filter(|path| !found.contains_key(*path)).cloned().collect();
        for path in gone {
            self.files.remove(&path);
            changes.push(Change::Removed(path));
        }
        for (path, reading) in found {
            self.judge(path, reading, &decode);
        }
        self.assign_names();
        for path in self.files.keys().cloned().collect::<Vec<_>>() {
            let outcome = self.outcome(&path);
            if let (Some(outcome), Some(held)) = (outcome, self.files.get_mut(&path))
                && held.said.as_ref() != Some(&outcome)
            {
                held.said = Some(outcome.clone());
                changes.push(Change::Verdict(path, outcome));
            }
        }
        changed |= !changes.is_empty();
        let snapshot = changed.then(|| self.snapshot(true));
        (changes, snapshot)
    }

    /// The files that are known.
    pub(super) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.keys()
    }

    fn judge(
        &mut self,
        path: PathBuf,
        reading: FileReading,
        decode: &impl Fn(&Path, &[u8]) -> Result<Decoded, Refusal>,
    ) {
        let refused = |field: String, reason: String| Outcome::Refused { field, reason };
        let since = match &reading {
            FileReading::Contents { since, .. } => *since,
            _ => (i64::MAX, 0),
        };
        let (good, judged) = match reading {
            FileReading::Unchanged => return,
            FileReading::Refused(reason) => (None, refused(String::new(), reason)),
            FileReading::Contents { bytes, .. } => match decode(&path, &bytes) {
                Ok(decoded) => {
                    let warnings = decoded.warnings.iter().map(ToString::to_string).collect();
                    let pod = decoded.pod.name.clone();
                    (Some(Arc::new(decoded.pod)), Outcome::Accepted { pod, warnings })
                }
                Err(refusal) => {
                    let others: String = refusal.others.iter().map(|other| format!("; {other}")).collect();
                    (None, refused(refusal.first.field, format!("{}{others}", refusal.first.reason)))
                }
            },
        };
        let held = self.files.entry(path).or_insert(Held {
            good: None,
            runs: None,
            judged: judged.clone(),
            said: None,
            since,
        });
        // The same instance read again is the pod that is known; an edit is worth saying even if it is accepted too.
        let same = matches!((&held.good, &good), (Some(a), Some(b)) if a.hash == b.hash && a.uid == b.uid);
        if good.is_some() && !same {
            held.good = good;
            held.said = None;
            held.since = since;
        }
        held.judged = judged;
    }

    /// Gives each name and UID to one file: to the one that has it; to one that gives up another for it; back to one
    /// that may not have what it wants; at last to the one that is longest there.
    fn assign_names(&mut self) {
        let mut claims = Claims::default();
        let mut by_age: Vec<_> = self.files.iter_mut().collect();
        by_age.sort_by(|(a, left), (b, right)| (left.since, *a).cmp(&(right.since, *b)));
        for round in Round::ALL {
            for (path, held) in &mut by_age {
                let candidate = match (round, &held.runs, &held.good) {
                    (Round::Incumbents, Some(runs), Some(good)) if runs.name == good.name => &held.good,
                    (Round::Movers, Some(_), Some(_)) | (Round::Newcomers, None, Some(_)) => &held.good,
                    (Round::Returned, Some(_), _) => &held.runs,
                    _ => continue,
                };
                if let Some(pod) = candidate.clone()
                    && !claims.has(path)
                    && claims.claim(path, &pod)
                {
                    held.runs = Some(pod);
                }
            }
        }
        for (path, held) in by_age {
            if !claims.has(path) {
                held.runs = None;
            }
        }
        self.claims = claims;
    }

    /// The judgement on a file, clashes included.
    fn outcome(&self, path: &Path) -> Option<Outcome> {
        let held = self.files.get(path)?;
        if let (Outcome::Accepted { pod, .. }, Some(good)) = (&held.judged, &held.good) {
            let clash = |field: &str, what: String, owner: &Path| Outcome::Refused {
                field: field.into(),
                reason: format!("{what} is already defined by {}", owner.display()),
            };
            if let Some(owner) = self.claims.names.get(&good.name).filter(|owner| *owner != path) {
                return Some(clash("metadata.name", format!("pod {pod}"), owner));
            }
            if let Some(owner) = self.claims.uids.get(&good.uid).filter(|owner| *owner != path) {
                return Some(clash("metadata.uid", format!("UID {}", good.uid), owner));
            }
        }
        Some(held.judged.clone())
    }

    fn snapshot(&self, readable: bool) -> Snapshot {
        let owned = self.files.values().filter_map(|held| held.runs.clone());
        let verdicts = self.files.keys().filter_map(|path| {
            let origin = path.to_string_lossy().into_owned();
            Some(Verdict { source: Source::File, origin, outcome: self.outcome(path)? })
        });
        Snapshot {
            source: Source::File,
            pods: owned.collect(),
            // A file that was never good may be the manifest of a pod that runs.
            complete: readable && self.files.values().all(|held| held.good.is_some()),
            verdicts: verdicts.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::finding::Finding;
    use crate::pod::testing::pod;

    /// A manifest is `NAME VERSION`; `!` is a bad one.
    fn decode(_: &Path, bytes: &[u8]) -> Result<Decoded, Refusal> {
        let text = std::str::from_utf8(bytes).unwrap();
        match text.split_once(' ') {
            Some((name, hash)) => {
                let uid = if hash == "same" { hash.to_owned() } else { format!("{name}-{hash}") };
                Ok(Decoded { pod: Pod { uid: PodUid(uid), ..pod(name, hash) }, warnings: vec![] })
            }
            None => Err(Refusal::from(Finding::new("spec", "bad"))),
        }
    }

    fn reading(files: &[(&str, Option<&str>)]) -> Reading {
        let each = files.iter().map(|(name, text)| {
            let reading = text.map_or(FileReading::Unchanged, |text| FileReading::Contents {
                bytes: text.as_bytes().to_vec(),
                since: if text.ends_with("old") { (0, 0) } else { (1, 0) },
            });
            (PathBuf::from(name), reading)
        });
        Reading::Files(each.collect())
    }

    fn pods(snapshot: &Snapshot) -> String {
        let mut all: Vec<_> = snapshot.pods.iter().map(|p| format!("{}@{}", p.name.name, p.hash)).collect();
        all.sort();
        all.join(" ")
    }

    /// What is read, the pods that follow (none: no snapshot), and whether all is accounted for.
    type Step<'a> = (&'a str, Reading, Option<(&'a str, bool)>);

    fn run(steps: Vec<Step<'_>>) {
        let mut files = Files::default();
        for (name, reading, expect) in steps {
            let (_, snapshot) = files.apply(reading, decode);
            let found = snapshot.as_ref().map(|s| (pods(s), s.complete));
            assert_eq!(found.as_ref().map(|(pods, complete)| (pods.as_str(), *complete)), expect, "{name}");
        }
    }

    #[test]
    fn desired_state_shrinks_only_on_evidence() {
        run(vec![
            ("an empty directory is an answer", reading(&[]), Some(("", true))),
            ("two files", reading(&[("a", Some("a 1")), ("b", Some("b 1"))]), Some(("a@1 b@1", true))),
            ("nothing new", reading(&[("a", None), ("b", None)]), None),
            ("touched", reading(&[("a", Some("a 1")), ("b", None)]), None),
            (
                "broken: the last good stays",
                reading(&[("a", Some("!")), ("b", None)]),
                Some(("a@1 b@1", true)),
            ),
            ("still broken", reading(&[("a", Some("!")), ("b", None)]), None),
            ("unmounted", Reading::Unreadable("gone".into()), Some(("a@1 b@1", false))),
            ("still", Reading::Unreadable("gone".into()), None),
            ("back", reading(&[("a", None), ("b", None)]), Some(("a@1 b@1", true))),
            ("mended", reading(&[("a", Some("a 2")), ("b", None)]), Some(("a@2 b@1", true))),
            ("removed", reading(&[("b", None)]), Some(("b@1", true))),
        ]);
        run(vec![
            ("a file that was never good", reading(&[("a", Some("!"))]), Some(("", false))),
            ("becomes good", reading(&[("a", Some("a 1"))]), Some(("a@1", true))),
        ]);
        run(vec![("missing from the start", Reading::Unreadable("gone".into()), Some(("", false)))]);
    }

    #[test]
    fn the_incumbent_stays() {
        run(vec![
            ("one", reading(&[("b", Some("p 1"))]), Some(("p@1", true))),
            ("a clash", reading(&[("a", Some("p 2")), ("b", None)]), Some(("p@1", true))),
            ("the incumbent is edited", reading(&[("a", None), ("b", Some("p 3"))]), Some(("p@3", true))),
            ("the incumbent goes", reading(&[("a", None)]), Some(("p@2", true))),
        ]);
        run(vec![
            ("two", reading(&[("a", Some("p 1")), ("b", Some("q 1"))]), Some(("p@1 q@1", true))),
            (
                "one wants the other's name: its last good stays",
                reading(&[("a", None), ("b", Some("p 2"))]),
                Some(("p@1 q@1", true)),
            ),
            ("and gets it when it is free", reading(&[("b", None)]), Some(("p@2", true))),
        ]);
        run(vec![
            ("two", reading(&[("a", Some("p 1")), ("b", Some("q 1"))]), Some(("p@1 q@1", true))),
            ("swapped", reading(&[("a", Some("q 2")), ("b", Some("p 2"))]), Some(("p@2 q@2", true))),
        ]);
        run(vec![(
            "after a restart the older file is the incumbent",
            reading(&[("a", Some("p new")), ("b", Some("p old"))]),
            Some(("p@old", true)),
        )]);
        run(vec![(
            "one UID, two pods",
            reading(&[("a", Some("p same")), ("b", Some("q same"))]),
            Some(("p@same", true)),
        )]);
        let mut files = Files::default();
        let (changes, _) = files.apply(reading(&[("a", Some("p 1")), ("b", Some("p 2"))]), decode);
        assert!(changes.iter().any(|change| matches!(
            change,
            Change::Verdict(path, Outcome::Refused { field, reason })
                if path == Path::new("b") && field == "metadata.name" && reason == "pod default/p is already defined by a"
        )));
    }

    #[test]
    fn each_verdict_is_said_once_and_each_edit_again() {
        let mut files = Files::default();
        let mut said = |reading| files.apply(reading, decode).0.len();
        assert_eq!(said(reading(&[("a", Some("a 1"))])), 1);
        assert_eq!(said(reading(&[("a", Some("a 1"))])), 0);
        assert_eq!(said(reading(&[("a", Some("a 2"))])), 1);
        assert_eq!(said(reading(&[("a", Some("!"))])), 1);
        assert_eq!(said(reading(&[("a", Some("!"))])), 0);
        assert_eq!(said(reading(&[("a", Some("a 2"))])), 1, "good again");
        assert_eq!(said(reading(&[])), 1);
    }
}
