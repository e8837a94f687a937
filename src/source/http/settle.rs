//! Which pods to hold after contents were read: who has which name and UID, and whose last good version stays. Pure.
//!
//! Invariant: what a held pod has is not taken from it by another part of the contents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::pod::decode::Decoded;
use crate::pod::decode::list::{ItemPath, ListItem};
use crate::pod::finding::Refusal;
use crate::pod::{Pod, PodName, Source};
use crate::source::claims::{Claims, OwnedField};
use crate::sync::view::{Outcome, Verdict};

use super::judge::Held;

/// What contents come to.
pub(super) struct Settled {
    pub(super) held: BTreeMap<PodName, Held>,
    pub(super) verdicts: Vec<Verdict>,
    pub(super) complete: bool,
}

/// The order in which pods claim their names and UIDs: those of a held pod are not taken from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ClaimOrder {
    /// It has both; or it is a last good version, and the contents hold no other.
    Incumbent,
    /// It has the name.
    Changed,
    /// A last good version in place of one that may not have what it wants.
    Returned,
    /// It has neither.
    Newcomer,
}

/// What claims a name and a UID.
enum Claimant<'a> {
    /// A part of the contents, by its index.
    Item(usize, &'a Pod),
    LastGood(&'a Held),
}

/// The pods to hold, and the verdicts, after contents with these items.
pub(super) fn settle(
    url: &str,
    before: &BTreeMap<PodName, Held>,
    items: Vec<ListItem>,
    signer: Option<Arc<str>>,
    nameless: bool,
) -> Settled {
    let names: BTreeSet<PodName> = items.iter().filter_map(|item| item.name.clone()).collect();
    let mut owners = Claims::default();
    let mut clashes = behind_bad_ones(url, &items);
    let mut held = BTreeMap::new();
    let is_behind: BTreeSet<usize> = clashes.keys().copied().collect();
    for claimant in claimants(before, &items, &is_behind, |name| nameless || names.contains(name)) {
        match claimant {
            Claimant::Item(index, pod) => {
                if let Err(finding) = owners.claim_or_refuse(pod, &shown(url, items[index].path)) {
                    clashes.insert(index, finding.into());
                }
            }
            Claimant::LastGood(last_good) => {
                let name = &last_good.pod.name;
                if owners
                    .claim_or_refuse(&*last_good.pod, &format!("the last good version of {name}"))
                    .is_ok()
                {
                    held.insert(name.clone(), last_good.clone());
                }
            }
        }
    }
    let mut verdicts = Vec::new();
    for (index, item) in items.into_iter().enumerate() {
        let outcome = match (item.decoded, clashes.remove(&index)) {
            (Ok(decoded), None) => {
                accept(&mut held, before, decoded, &item.manifest.to_string(), signer.clone())
            }
            (Ok(decoded), Some(refusal)) => Outcome::Refused(refusal.with_warnings(decoded.warnings)),
            (Err(refusal), _) => Outcome::Refused(refusal),
        };
        verdicts.push(Verdict {
            source: Source::Http,
            origin: url.to_owned(),
            document: item.path.document.unwrap_or(1),
            item: item.path.item,
            outcome,
        });
    }
    let complete = !nameless && names.iter().all(|name| held.contains_key(name));
    Settled { held, verdicts, complete }
}

/// Pods whose name an earlier item has that is refused, by their index: the name is that item's, and its last good version
/// runs on.
fn behind_bad_ones(url: &str, items: &[ListItem]) -> BTreeMap<usize, Refusal> {
    let mut first: BTreeMap<&PodName, &ListItem> = BTreeMap::new();
    let mut behind = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        let Some(name) = &item.name else { continue };
        let owner = first.entry(name).or_insert(item);
        if owner.decoded.is_err() && item.decoded.is_ok() {
            behind
                .insert(index, OwnedField::Name(name.clone().into()).finding(shown(url, owner.path)).into());
        }
    }
    behind
}

/// All claimants, in their order; `is_there` tells which names the contents hold, or may hold.
fn claimants<'a>(
    before: &'a BTreeMap<PodName, Held>,
    items: &'a [ListItem],
    is_behind: &BTreeSet<usize>,
    is_there: impl Fn(&PodName) -> bool,
) -> impl Iterator<Item = Claimant<'a>> {
    let mut good = BTreeSet::new();
    let mut all = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let Ok(Decoded { pod, .. }) = &item.decoded else { continue };
        if is_behind.contains(&index) {
            continue;
        }
        // Of two of one name the first counts, whichever is known.
        let first = good.insert(&pod.name);
        let round = match before.get(&pod.name) {
            Some(known) if first && known.pod.uid == pod.uid => ClaimOrder::Incumbent,
            Some(_) => ClaimOrder::Changed,
            None => ClaimOrder::Newcomer,
        };
        all.push((round, Claimant::Item(index, pod)));
    }
    for (name, last_good) in before.iter().filter(|(name, _)| is_there(name)) {
        let round = if good.contains(name) { ClaimOrder::Returned } else { ClaimOrder::Incumbent };
        all.push((round, Claimant::LastGood(last_good)));
    }
    all.sort_by_key(|(round, _)| *round);
    all.into_iter().map(|(_, claimant)| claimant)
}

/// A part of the contents, in words.
pub(super) fn shown(url: &str, path: ItemPath) -> String {
    let path = path.to_string();
    if path.is_empty() { url.to_owned() } else { format!("{url} {path}") }
}

fn accept(
    held: &mut BTreeMap<PodName, Held>,
    before: &BTreeMap<PodName, Held>,
    decoded: Decoded,
    manifest: &str,
    signer: Option<Arc<str>>,
) -> Outcome {
    let name = decoded.pod.name.clone();
    let warnings = decoded.warnings;
    // The same instance read again is the pod that is known.
    let known = before.get(&name).filter(|b| b.pod.hash == decoded.pod.hash && b.pod.uid == decoded.pod.uid);
    let new = match known.cloned() {
        Some(known) => Held { signer, ..known },
        None => Held { pod: Arc::new(decoded.pod), manifest: manifest.into(), signer },
    };
    held.insert(name.clone(), new);
    Outcome::Accepted { subject: name.into(), warnings }
}
