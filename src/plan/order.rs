//! Ordered start: whom a pod waits for before it starts, and which orders cannot be kept. Pure.
//!
//! Invariants: pods that wait for each other in a circle are all refused, and a version that was good before stays in
//! place of a refused one; what has started, or may start, is not held up again; no wait is without an end.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::pod::annotations::{self, AFTER, AFTER_TIMEOUT};
use crate::pod::identity::static_name;
use crate::pod::observed::Observed;
use crate::pod::{Finding, Pod, PodName};

/// How long a pod waits for others, unless it says otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Pods by name.
pub(crate) type Pods = BTreeMap<PodName, Arc<Pod>>;

/// A pod that another one waits for in vain so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unmet {
    /// Its name, as the one that waits wrote it.
    pub name: String,
    /// What is wanting.
    pub lack: Lack,
}

/// Why nobody may start after a pod yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lack {
    /// There is no such pod.
    Absent,
    /// It is not ready.
    NotReady,
    /// It has failed for good.
    Failed,
}

/// Whether an instance may start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Gate {
    /// It may, and this is not asked again.
    Open(Opened),
    /// Not before these are ready, or the time is over.
    Shut {
        /// Whom it waits for.
        unmet: Vec<Unmet>,
        /// For how long still.
        left: Duration,
    },
}

/// Why an instance may start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Opened {
    /// Nobody is waited for, or not any more; or it runs already.
    InOrder,
    /// It has waited long enough for these.
    Late(Vec<Unmet>),
}

impl Gate {
    /// Judges the gate of an instance that has waited for so long. `before` is the last judgement on it.
    pub(crate) fn judge(
        before: Option<&Gate>,
        pod: &Pod,
        observed: &Observed,
        unmet: &[Unmet],
        waited: Duration,
    ) -> Self {
        if let Some(open @ Gate::Open(_)) = before {
            return open.clone();
        }
        let up = observed.sandboxes.iter().any(|s| s.ready && s.is_of(pod));
        if unmet.is_empty() || up {
            return Gate::Open(Opened::InOrder);
        }
        match timeout(pod).checked_sub(waited).filter(|left| !left.is_zero()) {
            Some(left) => Gate::Shut { unmet: unmet.to_vec(), left },
            None => Gate::Open(Opened::Late(unmet.to_vec())),
        }
    }
}

/// Whom a pod still waits for. `lack` tells what is wanting of a pod, if anything.
pub(crate) fn unmet(pod: &Pod, lack: impl Fn(&PodName) -> Option<Lack>) -> Vec<Unmet> {
    let wanting = |name: &str| {
        let found =
            meanings(pod, name).map(|name| lack(&name)).into_iter().find(|l| *l != Some(Lack::Absent));
        found.unwrap_or(Some(Lack::Absent))
    };
    annotations::names(&pod.metadata, AFTER)
        .into_iter()
        .filter_map(|name| wanting(name).map(|lack| Unmet { name: name.to_owned(), lack }))
        .collect()
}

/// Whom a pod waits for and what they lack, in words.
pub(crate) fn in_words(unmet: &[Unmet]) -> String {
    let each = unmet.iter().map(|Unmet { name, lack }| match lack {
        Lack::Absent => format!("{name} (there is no such pod)"),
        Lack::NotReady => format!("{name} (not ready)"),
        Lack::Failed => format!("{name} (failed)"),
    });
    each.collect::<Vec<_>>().join(", ")
}

/// How long a pod waits for others.
pub(crate) fn timeout(pod: &Pod) -> Duration {
    // What is not a duration was refused when the manifest was read.
    annotations::duration(&pod.metadata, AFTER_TIMEOUT).ok().flatten().unwrap_or(DEFAULT_TIMEOUT)
}

/// Refuses the pods that wait for each other in a circle. In their place stays the version of `before`, if there is
/// one; it may close another circle with somebody else's new version, which is then refused as well.
pub(crate) fn refuse_cycles(mut wanted: Pods, before: &Pods) -> (Pods, BTreeMap<PodName, Finding>) {
    let mut refused: BTreeMap<PodName, Finding> = BTreeMap::new();
    loop {
        let cycles = find_cycles(&wanted);
        let mut changed = false;
        for (name, cycle) in cycles {
            let last_good = before.get(&name).cloned();
            let now = match &last_good {
                Some(last_good) => wanted.insert(name.clone(), last_good.clone()),
                None => wanted.remove(&name),
            };
            changed |= !matches!((&now, &last_good), (Some(now), Some(good)) if now.same_as(good));
            refused.entry(name).or_insert(cycle);
        }
        if !changed {
            return (wanted, refused);
        }
    }
}

/// Every pod that waits for itself, through others or not, with the shortest way round.
fn find_cycles(pods: &Pods) -> BTreeMap<PodName, Finding> {
    let way_round = |start: &Arc<Pod>| {
        let mut came_from: BTreeMap<PodName, &Arc<Pod>> = BTreeMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(pod) = queue.pop_front() {
            for next in predecessors(pod, pods) {
                if came_from.contains_key(&next.name) {
                    continue;
                }
                came_from.insert(next.name.clone(), pod);
                if next.name == start.name {
                    return Some(spell_out(start, &came_from));
                }
                queue.push_back(next);
            }
        }
        None
    };
    pods.iter().filter_map(|(name, pod)| Some((name.clone(), way_round(pod)?))).collect()
}

/// Writes a way round as `a -> b -> a`.
fn spell_out(start: &Arc<Pod>, came_from: &BTreeMap<PodName, &Arc<Pod>>) -> Finding {
    let mut way = vec![as_written(start)];
    let mut at = start;
    while let Some(before) = came_from.get(&at.name) {
        way.push(as_written(before));
        if before.name == start.name {
            break;
        }
        at = before;
    }
    way.reverse();
    Finding::new(
        annotations::field(AFTER),
        format!("pods wait for each other in a circle: {}", way.join(" -> ")),
    )
}

/// The pods that are there of those that a pod waits for.
fn predecessors<'a>(pod: &'a Pod, pods: &'a Pods) -> impl Iterator<Item = &'a Arc<Pod>> {
    let names = annotations::names(&pod.metadata, AFTER);
    names.into_iter().filter_map(|name| meanings(pod, name).into_iter().find_map(|name| pods.get(&name)))
}

/// What a name in a pod's annotation may mean, in this order: a manifest's name, or a pod's full one.
fn meanings(pod: &Pod, name: &str) -> [PodName; 2] {
    let namespace = &pod.name.namespace;
    [PodName::new(namespace, static_name(name, node_of(pod))), PodName::new(namespace, name)]
}

/// The name of a pod as its manifest has it.
fn as_written(pod: &Pod) -> &str {
    let name = &pod.name.name;
    let suffix = static_name("", node_of(pod));
    name.strip_suffix(&suffix).filter(|name| !name.is_empty()).unwrap_or(name)
}

fn node_of(pod: &Pod) -> &str {
    pod.spec.node_name.as_deref().unwrap_or_default()
}
