//! Compares what the whole node lists with what each worker saw last. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::pod::observed::{ContainerState, Observed};
use crate::pod::{PodName, PodUid, Source};

/// Sandboxes and containers by the runtime's id.
pub(crate) type Fingerprint = BTreeMap<String, Seen>;

/// What the node holds, by pod name.
pub(crate) type NodeList = BTreeMap<PodName, Listed>;

/// What the node holds for one pod name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Listed {
    /// The sources that its sandboxes came from; none where a sandbox does not say so.
    pub sources: BTreeSet<Option<Source>>,
    /// The UIDs of its sandboxes.
    pub uids: BTreeSet<PodUid>,
    /// Its sandboxes and containers.
    pub seen: Fingerprint,
}

/// Whether something runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// A ready sandbox, a running container.
    Alive,
    /// Anything else that is there.
    Dead,
}

impl Seen {
    /// `Alive` if so.
    pub(crate) fn alive_if(alive: bool) -> Self {
        if alive { Self::Alive } else { Self::Dead }
    }
}

/// What a worker saw, in the list's terms.
pub(crate) fn fingerprint(observed: &Observed) -> Fingerprint {
    let sandboxes = observed.sandboxes.iter().map(|s| (s.id.0.clone(), Seen::alive_if(s.ready)));
    let containers = observed.containers.iter().map(|c| {
        let runs = matches!(c.state, ContainerState::Running { .. });
        (c.id.0.clone(), Seen::alive_if(runs))
    });
    sandboxes.chain(containers).collect()
}

/// The names whose worker should look again.
pub(crate) fn diff_listed<'a>(
    reported: impl IntoIterator<Item = (&'a PodName, &'a Fingerprint)>,
    listed: &NodeList,
) -> BTreeSet<PodName> {
    let nothing = Fingerprint::new();
    reported
        .into_iter()
        .filter(|(name, seen)| listed.get(*name).map_or(&nothing, |l| &l.seen) != *seen)
        .map(|(name, _)| name.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(ids: &[(&str, bool)]) -> Fingerprint {
        ids.iter().map(|(id, alive)| ((*id).to_owned(), Seen::alive_if(*alive))).collect()
    }

    #[test]
    fn what_a_worker_saw_compares_with_the_list() {
        use crate::pod::observed::Sandbox;
        use crate::pod::testing::container;
        use jiff::Timestamp;
        let sandbox = |id: &str, ready| Sandbox {
            id: id.into(),
            uid: "u".into(),
            hash: None,
            attempt: 0,
            created_at: Timestamp::UNIX_EPOCH,
            ready,
            ips: vec![],
        };
        let running = ContainerState::Running { started_at: Timestamp::UNIX_EPOCH };
        let observed = Observed {
            sandboxes: vec![sandbox("up", true), sandbox("down", false)],
            containers: vec![container("runs", running), container("created", ContainerState::Created)],
        };
        let expect = print(&[("up", true), ("down", false), ("runs", true), ("created", false)]);
        assert_eq!(fingerprint(&observed), expect);
    }

    #[test]
    fn only_what_differs_is_looked_at_again() {
        let cases = [
            ("the same", vec![("s", true), ("c", true)], vec![("s", true), ("c", true)], false),
            ("a container died", vec![("s", true), ("c", true)], vec![("s", true), ("c", false)], true),
            ("one that nobody told of", vec![("s", true)], vec![("s", true), ("c", true)], true),
            ("all gone", vec![("s", true)], vec![], true),
            ("nothing, and nothing expected", vec![], vec![], false),
        ];
        for (case, reported, listed, differs) in cases {
            let name = PodName::new("default", "a");
            let reported = print(&reported);
            let mut list = NodeList::new();
            if !listed.is_empty() {
                list.insert(name.clone(), Listed { seen: print(&listed), ..Listed::default() });
            }
            let found = diff_listed([(&name, &reported)], &list);
            assert_eq!(found.contains(&name), differs, "{case}");
        }
    }
}
