//! Which file gets which names and UIDs. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::{FileState, Version};
use crate::pod::object::Subject;
use crate::source::claims::Claims;

/// Who may claim a name, in this order.
#[derive(Clone, Copy)]
enum ClaimTurn {
    /// Files that have the name that they want.
    Incumbents,
    /// Files that give up one name for another.
    Movers,
    /// Files that may not have what they want, and keep what they had.
    Returned,
    /// Files that have nothing yet.
    Newcomers,
}

impl ClaimTurn {
    const ALL: [Self; 4] = [Self::Incumbents, Self::Movers, Self::Returned, Self::Newcomers];
}

/// Gives each name and UID to one file, in the order of [`ClaimTurn`]; within a turn to the file that is longest there. What a file
/// has and still wants is taken by no other.
pub(super) fn assign(files: &mut BTreeMap<PathBuf, FileState>) -> Claims<PathBuf> {
    let mut claims = Claims::default();
    let mut owners: BTreeMap<PathBuf, Version> = BTreeMap::new();
    let reserved = reserve(files);
    let mut by_age: Vec<_> = files.iter_mut().collect();
    by_age.sort_by(|(a, left), (b, right)| (left.since, *a).cmp(&(right.since, *b)));
    for turn in ClaimTurn::ALL {
        for (path, file) in &by_age {
            let wanted = file.wanted();
            let candidate = match (turn, &file.runs, wanted) {
                (ClaimTurn::Incumbents, Some(runs), Some(wanted)) if runs.names_all_of(wanted) => wanted,
                (ClaimTurn::Movers, Some(_), Some(wanted)) | (ClaimTurn::Newcomers, None, Some(wanted)) => {
                    wanted
                }
                (ClaimTurn::Returned, Some(runs), _) => runs,
                _ => continue,
            };
            let is_free = |subject| reserved.get(&subject).is_none_or(|owner| owner == *path);
            if !owners.contains_key(*path)
                && candidate.claimed().subjects().all(is_free)
                && claims.claim(candidate.claimed(), *path)
            {
                owners.insert((*path).clone(), candidate.clone());
            }
        }
    }
    for (path, file) in by_age {
        file.runs = owners.remove(path);
    }
    claims
}

/// What files have and still want, and which.
fn reserve(files: &BTreeMap<PathBuf, FileState>) -> BTreeMap<Subject, PathBuf> {
    let mut reserved = BTreeMap::new();
    for (path, file) in files {
        let (Some(runs), Some(wanted)) = (&file.runs, file.wanted()) else { continue };
        let wanted: BTreeSet<Subject> = wanted.claimed().subjects().collect();
        let both = runs.claimed().subjects().filter(|subject| wanted.contains(subject));
        reserved.extend(both.map(|subject| (subject, path.clone())));
    }
    reserved
}
