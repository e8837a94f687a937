//! Which manifest has which pod name, UID and object: each belongs to one. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::pod::object::{Object, Subject};
use crate::pod::{Finding, Pod, PodUid};

/// The names and UIDs that are taken; two pods with one UID would share their directories. `O` says by whom.
#[derive(Debug)]
pub(super) struct Claims<O> {
    names: BTreeMap<Subject, O>,
    uids: BTreeMap<PodUid, O>,
}

/// What a manifest holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claimed<'a> {
    /// Its pod.
    pub(super) pod: Option<&'a Pod>,
    /// Its ConfigMaps and Secrets.
    pub(super) objects: &'a [Arc<Object>],
}

impl<'a> Claimed<'a> {
    /// All that it describes.
    pub(super) fn subjects(self) -> impl Iterator<Item = Subject> + 'a {
        let pod = self.pod.map(|pod| Subject::Pod(pod.name.clone()));
        pod.into_iter().chain(self.objects.iter().map(|object| Subject::Object(object.key.clone())))
    }
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
    /// Takes all names and the UID of a manifest, if all are free.
    pub(super) fn claim(&mut self, claimed: Claimed<'_>, owner: &O) -> bool {
        let uid = claimed.pod.map(|pod| &pod.uid);
        let free = claimed.subjects().all(|subject| !self.names.contains_key(&subject))
            && uid.is_none_or(|uid| !self.uids.contains_key(uid));
        if free {
            self.names.extend(claimed.subjects().map(|subject| (subject, owner.clone())));
            self.uids.extend(uid.map(|uid| (uid.clone(), owner.clone())));
        }
        free
    }

    /// What of a manifest of `claimant`'s belongs to somebody else.
    pub(super) fn clash(&self, claimed: Claimed<'_>, claimant: &O) -> Option<Clash<'_, O>> {
        for subject in claimed.subjects() {
            if let Some(owner) = self.names.get(&subject).filter(|owner| *owner != claimant) {
                let what = match subject {
                    Subject::Pod(name) => format!("pod {name}"),
                    Subject::Object(key) => key.to_string(),
                };
                return Some(Clash { field: "metadata.name", what, owner });
            }
        }
        let uid = &claimed.pod?.uid;
        let owner = self.uids.get(uid).filter(|owner| *owner != claimant)?;
        Some(Clash { field: "metadata.uid", what: format!("UID {uid}"), owner })
    }

    /// Somebody has this.
    pub(super) fn has(&self, subject: &Subject) -> bool {
        self.names.contains_key(subject)
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
    use crate::pod::object::ObjectKind;
    use crate::pod::object::testing::object;
    use crate::pod::testing::pod;

    fn of(pod: &Pod) -> Claimed<'_> {
        Claimed { pod: Some(pod), objects: &[] }
    }

    #[test]
    fn a_name_and_a_uid_have_one_owner() {
        let with = |name: &str, uid: &str| Pod { uid: PodUid(uid.into()), ..pod(name, "1") };
        let mut claims = Claims::default();
        assert!(claims.claim(of(&with("a", "1")), &"first"));
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
            let clash = claims.clash(of(&pod), &claimant).map(|clash| clash.finding("x").to_string());
            assert_eq!(clash.is_some(), expect.is_some(), "{name}: {clash:?}");
            assert!(clash.unwrap_or_default().starts_with(expect.unwrap_or_default()), "{name}");
        }
        let other = with("b", "1");
        assert!(!claims.claim(of(&other), &"second") && !claims.has(&other.name.clone().into()));
        let objects = [object(ObjectKind::Secret, "s", &[]), object(ObjectKind::ConfigMap, "s", &[])];
        assert!(claims.claim(Claimed { pod: None, objects: &objects[..1] }, &"third"));
        let both = Claimed { pod: None, objects: &objects };
        assert!(!claims.claim(both, &"fourth"), "all or nothing");
        assert!(claims.claim(Claimed { pod: None, objects: &objects[1..] }, &"fifth"), "another kind");
        let clash = claims.clash(both, &"fourth").map(|clash| clash.finding("x").to_string());
        assert_eq!(clash.unwrap(), "metadata.name: Secret default/s is already defined by x");
    }
}
