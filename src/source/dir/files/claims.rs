//! Which file has which name. Pure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Held, Version};
use crate::pod::{Pod, PodName, PodUid};

/// The names and UIDs that files have; two pods with one UID would share their directories.
#[derive(Debug, Default)]
pub(super) struct Claims {
    names: BTreeMap<PodName, PathBuf>,
    uids: BTreeMap<PodUid, PathBuf>,
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

impl Claims {
    /// Gives each name and UID to one file: to the one that has it; to one that gives up another for it; back to one
    /// that may not have what it wants; at last to the one that is longest there.
    pub(super) fn assign(files: &mut BTreeMap<PathBuf, Held>) -> Self {
        let mut claims = Self::default();
        let mut owners: BTreeMap<PathBuf, Version> = BTreeMap::new();
        let mut by_age: Vec<_> = files.iter_mut().collect();
        by_age.sort_by(|(a, left), (b, right)| (left.since, *a).cmp(&(right.since, *b)));
        for round in Round::ALL {
            for (path, held) in &by_age {
                // A file that is bad now keeps what it has, and asks for nothing.
                let wish = if held.is_good() { &held.good } else { &held.runs };
                let candidate = match (round, &held.runs, wish) {
                    (Round::Incumbents, Some(runs), Some(wish)) if runs.pod.name == wish.pod.name => wish,
                    (Round::Movers, Some(_), Some(wish)) | (Round::Newcomers, None, Some(wish)) => wish,
                    (Round::Returned, Some(runs), _) => runs,
                    _ => continue,
                };
                if !owners.contains_key(*path) && claims.claim(path, &candidate.pod) {
                    owners.insert((*path).clone(), candidate.clone());
                }
            }
        }
        for (path, held) in by_age {
            held.runs = owners.remove(path);
        }
        claims
    }

    /// Which file has this name.
    pub(super) fn name(&self, name: &PodName) -> Option<&Path> {
        self.names.get(name).map(PathBuf::as_path)
    }

    /// Which file has this UID.
    pub(super) fn uid(&self, uid: &PodUid) -> Option<&Path> {
        self.uids.get(uid).map(PathBuf::as_path)
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
