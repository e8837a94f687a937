//! What of a source the current key did not sign. Its pods run on, and nothing of them is started; its ConfigMaps and Secrets
//! stay with the pods that have them, and no other gets them.

use std::collections::BTreeMap;

use tracing::{info, warn};

use crate::pod::object::Subject;
use crate::sync::mux::Snapshot;

/// All of that, each with the reason. Logs only on change.
#[derive(Debug, Default)]
pub(super) struct UntrustedSignatures(BTreeMap<Subject, String>);

impl UntrustedSignatures {
    /// Takes in what the key has signed; true if that is something else than before.
    pub(super) fn update(&mut self, judged: impl Iterator<Item = (Subject, Result<(), String>)>) -> bool {
        let now: BTreeMap<_, _> =
            judged.filter_map(|(subject, trusted)| Some((subject, trusted.err()?))).collect();
        for (subject, reason) in now.iter().filter(|(subject, reason)| self.0.get(*subject) != Some(*reason))
        {
            match subject {
                Subject::Pod(pod) => {
                    warn!(%pod, reason, "the pod is not trusted any more: what runs of it runs on, and nothing is started");
                }
                Subject::Object(object) => {
                    warn!(%object, reason, "the object is not trusted any more: pods that have it keep it, and no other gets it");
                }
            }
        }
        for subject in self.0.keys().filter(|subject| !now.contains_key(*subject)) {
            match subject {
                Subject::Pod(pod) => info!(%pod, "the pod is trusted again, or gone"),
                Subject::Object(object) => info!(%object, "the object is trusted again, or gone"),
            }
        }
        let changed = self.0 != now;
        self.0 = now;
        changed
    }

    /// Tells the snapshot which of its pods they are, and takes the objects out of it.
    pub(super) fn mark(&self, snapshot: &mut Snapshot) {
        let pods =
            self.0.iter().filter_map(|(subject, reason)| Some((subject.pod()?.clone(), reason.clone())));
        snapshot.untrusted_signatures = pods.collect();
        snapshot.objects.retain(|object| !self.0.contains_key(&Subject::Object(object.key.clone())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::object::ObjectKind;
    use crate::pod::object::testing::object;
    use crate::pod::{PodName, Source};

    #[test]
    fn a_snapshot_is_due_when_what_the_key_has_signed_changes() {
        let (a, b) = (PodName::new("default", "a"), PodName::new("default", "b"));
        let no = |reason: &str| Err(reason.to_owned());
        let mut untrusted = UntrustedSignatures::default();
        for (name, judged, changed, marked) in [
            ("all are signed", vec![(&a, Ok(())), (&b, Ok(()))], false, &[][..]),
            ("the key is replaced", vec![(&a, no("key 1")), (&b, Ok(()))], true, &["key 1"]),
            ("and stays", vec![(&a, no("key 1")), (&b, Ok(()))], false, &["key 1"]),
            ("it is lost", vec![(&a, no("no key")), (&b, no("no key"))], true, &["no key", "no key"]),
            ("a pod is gone", vec![(&b, no("no key"))], true, &["no key"]),
            ("signed again", vec![(&b, Ok(()))], true, &[]),
        ] {
            let judged = judged.into_iter().map(|(name, trusted)| (name.clone().into(), trusted));
            assert_eq!(untrusted.update(judged), changed, "{name}");
            let mut snapshot = Snapshot {
                source: Source::File,
                pods: vec![],
                objects: vec![],
                complete: true,
                untrusted_signatures: [(a.clone(), "left over".to_owned())].into(),
                verdicts: vec![],
            };
            untrusted.mark(&mut snapshot);
            assert_eq!(snapshot.untrusted_signatures.values().collect::<Vec<_>>(), marked, "{name}");
        }
    }

    #[test]
    fn an_object_without_a_signature_is_not_given_to_pods() {
        let (trusted, other) = (object(ObjectKind::Secret, "a", &[]), object(ObjectKind::Secret, "b", &[]));
        let mut untrusted = UntrustedSignatures::default();
        let judged = [(&trusted, Ok(())), (&other, Err("key 1".to_owned()))];
        assert!(
            untrusted
                .update(judged.into_iter().map(|(o, trusted)| (Subject::Object(o.key.clone()), trusted)))
        );
        let mut snapshot = Snapshot {
            source: Source::File,
            pods: vec![],
            objects: vec![trusted.clone(), other],
            complete: true,
            untrusted_signatures: BTreeMap::new(),
            verdicts: vec![],
        };
        untrusted.mark(&mut snapshot);
        assert_eq!(snapshot.objects, [trusted]);
    }
}
