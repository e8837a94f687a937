//! Which manifest has which pod name, UID and object: each belongs to one. Pure.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use crate::pod::object::{Object, Subject};
use crate::pod::{Finding, Pod, PodUid};

/// The names and UIDs that are taken; two pods with one UID would share their directories. `O` says by whom.
#[derive(Debug)]
pub(crate) struct Claims<O> {
    names: BTreeMap<Subject, O>,
    uids: BTreeMap<PodUid, O>,
}

/// What a manifest holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claimed<'a> {
    /// Its pod.
    pub(crate) pod: Option<&'a Pod>,
    /// Its ConfigMaps and Secrets.
    pub(crate) objects: &'a [Arc<Object>],
}

impl<'a> Claimed<'a> {
    /// All that it describes.
    pub(super) fn subjects(self) -> impl Iterator<Item = Subject> + 'a {
        let pod = self.pod.map(|pod| Subject::Pod(pod.name.clone()));
        pod.into_iter().chain(self.objects.iter().map(|object| Subject::Object(object.key.clone())))
    }
}

impl<'a> From<&'a Pod> for Claimed<'a> {
    fn from(pod: &'a Pod) -> Self {
        Self { pod: Some(pod), objects: &[] }
    }
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
    /// Takes all names and the UID of a manifest, if all are free.
    pub(super) fn claim(&mut self, claimed: Claimed<'_>, owner: &O) -> bool {
        let is_free = self.find(claimed, |_| true).is_none();
        if is_free {
            self.names.extend(claimed.subjects().map(|subject| (subject, owner.clone())));
            self.uids.extend(claimed.pod.map(|pod| (pod.uid.clone(), owner.clone())));
        }
        is_free
    }

    /// What of a manifest of `claimant`'s belongs to somebody else.
    pub(super) fn clash(&self, claimed: Claimed<'_>, claimant: &O) -> Option<Clash<'_, O>> {
        self.find(claimed, |owner| owner != claimant)
    }

    fn find(&self, claimed: Claimed<'_>, matters: impl Fn(&O) -> bool) -> Option<Clash<'_, O>> {
        let name = claimed.subjects().find_map(|subject| {
            let owner = self.names.get(&subject).filter(|owner| matters(owner))?;
            Some(Clash { taken: OwnedField::Name(subject), owner })
        });
        name.or_else(|| {
            let uid = &claimed.pod?.uid;
            let owner = self.uids.get(uid).filter(|owner| matters(owner))?;
            Some(Clash { taken: OwnedField::Uid(uid.clone()), owner })
        })
    }

    /// Somebody has this.
    pub(super) fn has(&self, subject: &Subject) -> bool {
        self.names.contains_key(subject)
    }
}

impl<O: Clone + PartialEq + Display> Claims<O> {
    /// Takes all names and the UID of a manifest for `owner`, or says who has them: nobody may claim twice.
    pub(crate) fn claim_or_refuse<'a>(
        &mut self,
        claimed: impl Into<Claimed<'a>>,
        owner: &O,
    ) -> Result<(), Finding> {
        let claimed = claimed.into();
        if let Some(clash) = self.find(claimed, |_| true) {
            return Err(clash.finding(clash.owner));
        }
        self.claim(claimed, owner);
        Ok(())
    }
}

impl<O> Clash<'_, O> {
    /// Why the newcomer is refused; `owner` is the one who has it, in words.
    pub(super) fn finding(&self, owner: impl Display) -> Finding {
        self.taken.finding(owner)
    }
}

/// What belongs to one manifest alone.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OwnedField {
    /// The name of a pod or an object.
    Name(Subject),
    /// A pod's UID.
    Uid(PodUid),
}

impl OwnedField {
    /// Why a newcomer is refused; `owner` is the one who has it, in words.
    pub(super) fn finding(&self, owner: impl Display) -> Finding {
        let (field, what) = match self {
            Self::Name(Subject::Pod(name)) => ("metadata.name", format!("pod {name}")),
            Self::Name(Subject::Object(key)) => ("metadata.name", key.to_string()),
            Self::Uid(uid) => ("metadata.uid", format!("UID {uid}")),
        };
        Finding::new(field, format!("{what} is already defined by {owner}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::object::ObjectKind;
    use crate::pod::object::testing::object;
    use crate::pod::testing::pod;

    #[test]
    fn a_name_and_a_uid_have_one_owner() {
        let with = |name: &str, uid: &str| Pod { uid: PodUid(uid.into()), ..pod(name, "1") };
        let mut claims = Claims::default();
        assert!(claims.claim((&with("a", "1")).into(), &"first"));
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
            let clash = claims.clash((&pod).into(), &claimant).map(|clash| clash.finding("x").to_string());
            assert_eq!(clash.is_some(), expect.is_some(), "{name}: {clash:?}");
            assert!(clash.unwrap_or_default().starts_with(expect.unwrap_or_default()), "{name}");
        }
        let other = with("b", "1");
        assert!(!claims.claim((&other).into(), &"second") && !claims.has(&other.name.clone().into()));
        let again = claims.claim_or_refuse(&with("a", "1"), &"first").unwrap_err();
        assert_eq!(again.to_string(), "metadata.name: pod default/a is already defined by first");
        assert_eq!(claims.claim_or_refuse(&with("b", "2"), &"second"), Ok(()));
        assert!(claims.claim_or_refuse(&with("c", "2"), &"third").is_err());
    }

    #[test]
    fn objects_are_claimed_with_their_file() {
        let mut claims = Claims::default();
        let objects = [object(ObjectKind::Secret, "s", &[]), object(ObjectKind::ConfigMap, "s", &[])];
        assert!(claims.claim(Claimed { pod: None, objects: &objects[..1] }, &"third"));
        let both = Claimed { pod: None, objects: &objects };
        assert!(!claims.claim(both, &"fourth"), "all or nothing");
        assert!(claims.claim(Claimed { pod: None, objects: &objects[1..] }, &"fifth"), "another kind");
        let clash = claims.clash(both, &"fourth").map(|clash| clash.finding("x").to_string());
        assert_eq!(clash.unwrap(), "metadata.name: Secret default/s is already defined by x");
    }
}
