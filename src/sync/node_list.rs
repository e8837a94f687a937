//! Compares what the whole node lists with what each worker saw last. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::pod::observed::{ContainerState, Observed};
use crate::pod::{PodName, PodUid, Source};

/// Sandboxes and containers by the runtime's id. A sorted list: there is one per pod, it holds few entries, and a map takes
/// twice the memory for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint(Vec<(Box<str>, Seen)>);

impl Fingerprint {
    /// Notes one of them, in place of what was noted of it before.
    pub(crate) fn insert(&mut self, id: String, seen: Seen) {
        match self.find(&id) {
            Ok(at) => self.0[at].1 = seen,
            Err(at) => {
                self.0.reserve_exact(1);
                self.0.insert(at, (id.into_boxed_str(), seen));
            }
        }
    }

    /// All ids: of sandboxes and of containers.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(id, _)| &**id)
    }

    /// Whether it holds this id.
    pub(crate) fn contains(&self, id: &str) -> bool {
        self.find(id).is_ok()
    }

    fn find(&self, id: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| (**other).cmp(id))
    }
}

impl FromIterator<(String, Seen)> for Fingerprint {
    fn from_iter<I: IntoIterator<Item = (String, Seen)>>(all: I) -> Self {
        let mut print = Self::default();
        all.into_iter().for_each(|(id, seen)| print.insert(id, seen));
        print
    }
}

/// What the node holds, by pod name.
pub(crate) type NodeList = BTreeMap<PodName, Listed>;

/// What the node holds for one pod name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Listed {
    /// The sources that its sandboxes came from; none where a sandbox does not say so.
    pub sources: BTreeSet<Option<Source>>,
    /// The UIDs of its sandboxes.
    pub uids: Vec<PodUid>,
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
    let nothing = Fingerprint::default();
    reported
        .into_iter()
        .filter(|(name, seen)| listed.get(*name).map_or(&nothing, |l| &l.seen) != *seen)
        .map(|(name, _)| name.clone())
        .collect()
}

/// What of a list is worth keeping once it was compared: which pods there are, of which source, with which UIDs.
pub(crate) fn without_seen(mut list: NodeList) -> NodeList {
    for listed in list.values_mut() {
        listed.seen = Fingerprint::default();
        listed.uids.shrink_to_fit();
    }
    list
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

    #[test]
    fn a_fingerprint_does_not_depend_on_the_order_and_keeps_the_last_of_an_id() {
        let sorted = print(&[("a", true), ("b", false), ("c", true)]);
        assert_eq!(print(&[("c", true), ("a", true), ("b", false)]), sorted);
        assert_eq!(print(&[("b", true), ("c", true), ("b", false), ("a", true)]), sorted);
        assert_ne!(print(&[("a", true), ("b", true), ("c", true)]), sorted);
        for (id, holds) in [("a", true), ("b", true), ("c", true), ("", false), ("ab", false), ("d", false)] {
            assert_eq!(sorted.contains(id), holds, "{id:?}");
        }
    }

    #[test]
    fn of_a_compared_list_pods_sources_and_uids_are_kept() {
        let (name, uids) = (PodName::new("default", "a"), vec![PodUid::from("u")]);
        let listed = Listed {
            sources: [Some(Source::File)].into(),
            uids: uids.clone(),
            seen: print(&[("s", true), ("c", true)]),
        };
        let kept = without_seen([(name.clone(), listed)].into());
        let expected = Listed { sources: [Some(Source::File)].into(), uids, seen: Fingerprint::default() };
        assert_eq!(kept, [(name, expected)].into());
    }
}
