//! Which manifest has which pod name and UID: each belongs to one. Pure.

use std::collections::BTreeMap;
use std::fmt::Display;

use crate::pod::{Finding, Pod, PodName, PodUid};

/// The names and UIDs that are taken; two pods with one UID would share their directories. `O` says by whom.
#[derive(Debug)]
pub(crate) struct Claims<O> {
    names: BTreeMap<PodName, O>,
    uids: BTreeMap<PodUid, O>,
}

/// Somebody else has the name or the UID.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Clash<'a, O> {
    taken: OwnedField,
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
        self.find(pod, |owner| owner != claimant)
    }

    fn find(&self, pod: &Pod, matters: impl Fn(&O) -> bool) -> Option<Clash<'_, O>> {
        let name = self.names.get(&pod.name).filter(|owner| matters(owner));
        let name = name.map(|owner| Clash { taken: OwnedField::Name(pod.name.clone()), owner });
        let uid = || self.uids.get(&pod.uid).filter(|owner| matters(owner));
        name.or_else(|| uid().map(|owner| Clash { taken: OwnedField::Uid(pod.uid.clone()), owner }))
    }

    /// Somebody has this name.
    pub(super) fn has_name(&self, name: &PodName) -> bool {
        self.names.contains_key(name)
    }
}

impl<O: Clone + PartialEq + Display> Claims<O> {
    /// Takes a pod's name and UID for `owner`, or says who has them: nobody may claim twice.
    pub(crate) fn claim_or_refuse(&mut self, pod: &Pod, owner: &O) -> Result<(), Finding> {
        if let Some(clash) = self.find(pod, |_| true) {
            return Err(clash.finding(clash.owner));
        }
        self.claim(pod, owner);
        Ok(())
    }
}

impl<O> Clash<'_, O> {
    /// Why the newcomer is refused; `owner` is the one who has it, in words.
    pub(super) fn finding(&self, owner: impl Display) -> Finding {
        self.taken.finding(owner)
    }
}

/// What belongs to one pod alone.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OwnedField {
    /// A pod's name.
    Name(PodName),
    /// A pod's UID.
    Uid(PodUid),
}

impl OwnedField {
    /// Why a newcomer is refused; `owner` is the one who has it, in words.
    pub(super) fn finding(&self, owner: impl Display) -> Finding {
        match self {
            Self::Name(name) => {
                Finding::new("metadata.name", format!("pod {name} is already defined by {owner}"))
            }
            Self::Uid(uid) => {
                Finding::new("metadata.uid", format!("UID {uid} is already defined by {owner}"))
            }
        }
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
        let again = claims.claim_or_refuse(&with("a", "1"), &"first").unwrap_err();
        assert_eq!(again.to_string(), "metadata.name: pod default/a is already defined by first");
        assert_eq!(claims.claim_or_refuse(&with("b", "2"), &"second"), Ok(()));
        assert!(
            claims.claim_or_refuse(&with("c", "2"), &"third").is_err()
                && claims.has_name(&with("b", "2").name)
        );
    }
}
