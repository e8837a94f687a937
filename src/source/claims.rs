//! Which manifest has which pod name and UID: each belongs to one. Pure.

use std::collections::BTreeMap;

use crate::pod::{Finding, Pod, PodName, PodUid};

/// The names and UIDs that are taken; two pods with one UID would share their directories. `O` says by whom.
#[derive(Debug)]
pub(super) struct Claims<O> {
    names: BTreeMap<PodName, O>,
    uids: BTreeMap<PodUid, O>,
}

/// Somebody else has the name or the UID.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Clash<'a, O> {
    field: &'static str,
    what: String,
    /// Who has it.
    pub(super) owner: &'a O,
}

impl<O> Default for Claims<O> {
    fn default() -> Self {
        Self { names: BTreeMap::new(), uids: BTreeMap::new() }
    }
}

impl<O: Clone + PartialEq> Claims<O> {
    /// Takes a pod's name and UID, if both are free.
    pub(super) fn claim(&mut self, pod: &Pod, owner: &O) -> bool {
        let free = !self.names.contains_key(&pod.name) && !self.uids.contains_key(&pod.uid);
        if free {
            self.names.insert(pod.name.clone(), owner.clone());
            self.uids.insert(pod.uid.clone(), owner.clone());
        }
        free
    }

    /// What of a pod of `claimant`'s belongs to somebody else.
    pub(super) fn clash(&self, pod: &Pod, claimant: &O) -> Option<Clash<'_, O>> {
        if let Some(owner) = self.names.get(&pod.name).filter(|owner| *owner != claimant) {
            return Some(Clash { field: "metadata.name", what: format!("pod {}", pod.name), owner });
        }
        let owner = self.uids.get(&pod.uid).filter(|owner| *owner != claimant)?;
        Some(Clash { field: "metadata.uid", what: format!("UID {}", pod.uid), owner })
    }

    /// Somebody has this name.
    pub(super) fn has_name(&self, name: &PodName) -> bool {
        self.names.contains_key(name)
    }
}

impl<O> Clash<'_, O> {
    /// Why the newcomer is refused; `owner` is the one who has it, in words.
    pub(super) fn finding(&self, owner: impl std::fmt::Display) -> Finding {
        Finding::new(self.field, format!("{} is already defined by {owner}", self.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::testing::pod;

    #[test]
    fn a_name_and_a_uid_have_one_owner() {
        let with = |name: &str, uid: &str| Pod { uid: PodUid(uid.into()), ..pod(name, "1") };
        let mut claims = Claims::default();
        assert!(claims.claim(&with("a", "1"), &"first"));
        let cases = [
            ("the owner again", with("a", "1"), "first", None),
            (
                "the name",
                with("a", "2"),
                "second",
                Some("metadata.name: pod default/a is already defined by x"),
            ),
            ("the UID", with("b", "1"), "second", Some("metadata.uid: UID 1 is already defined by x")),
            ("both: the name is said", with("a", "1"), "second", Some("metadata.name: pod default/a is")),
            ("neither", with("b", "2"), "second", None),
        ];
        for (name, pod, claimant, expect) in cases {
            let clash = claims.clash(&pod, &claimant).map(|clash| clash.finding("x").to_string());
            assert_eq!(clash.is_some(), expect.is_some(), "{name}: {clash:?}");
            assert!(clash.unwrap_or_default().starts_with(expect.unwrap_or_default()), "{name}");
        }
        assert!(!claims.claim(&with("b", "1"), &"second") && !claims.has_name(&with("b", "1").name));
    }
}
