//! Which file gets which pod name and UID. Pure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{FileState, Version};
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

/// Gives each name and UID to one file, in the order of [`ClaimTurn`]; within a turn to the file that is longest there.
pub(super) fn assign(files: &mut BTreeMap<PathBuf, FileState>) -> Claims<PathBuf> {
    let mut claims = Claims::default();
    let mut owners: BTreeMap<PathBuf, Version> = BTreeMap::new();
    let mut by_age: Vec<_> = files.iter_mut().collect();
    by_age.sort_by(|(a, left), (b, right)| (left.since, *a).cmp(&(right.since, *b)));
    for turn in ClaimTurn::ALL {
        for (path, file) in &by_age {
            // A file that is bad now keeps what it has, and asks for nothing.
            let wanted = if file.is_good() { &file.good } else { &file.runs };
            let candidate = match (turn, &file.runs, wanted) {
                (ClaimTurn::Incumbents, Some(runs), Some(wanted)) if runs.pod.name == wanted.pod.name => {
                    wanted
                }
                (ClaimTurn::Movers, Some(_), Some(wanted)) | (ClaimTurn::Newcomers, None, Some(wanted)) => {
                    wanted
                }
                (ClaimTurn::Returned, Some(runs), _) => runs,
                _ => continue,
            };
            if !owners.contains_key(*path) && claims.claim(&candidate.pod, *path) {
                owners.insert((*path).clone(), candidate.clone());
            }
        }
    }
    for (path, file) in by_age {
        file.runs = owners.remove(path);
    }
    claims
}
