//! The pods of a source that the current key did not sign: they run on, and nothing of them is started.

use std::collections::BTreeMap;

use tracing::{info, warn};

use crate::pod::PodName;
use crate::sync::mux::Snapshot;

/// Those pods, each with the reason. Logs only on change.
#[derive(Debug, Default)]
pub(super) struct Unvouched(BTreeMap<PodName, String>);

impl Unvouched {
    /// Takes in what the key vouches for now; true if that is something else than before.
    pub(super) fn update<'a>(
        &mut self,
        judged: impl Iterator<Item = (&'a PodName, Result<(), String>)>,
    ) -> bool {
        let now: BTreeMap<_, _> =
            judged.filter_map(|(name, vouched)| Some((name.clone(), vouched.err()?))).collect();
        for (pod, reason) in now.iter().filter(|(pod, reason)| self.0.get(*pod) != Some(*reason)) {
            warn!(%pod, reason, "the pod is not trusted any more: what runs of it runs on, and nothing is started");
        }
        for pod in self.0.keys().filter(|pod| !now.contains_key(*pod)) {
            info!(%pod, "the pod is trusted again, or gone");
        }
        let changed = self.0 != now;
        self.0 = now;
        changed
    }

    /// Tells the snapshot which of its pods they are.
    pub(super) fn mark(&self, snapshot: &mut Snapshot) {
        snapshot.unvouched.clone_from(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::Source;

    #[test]
    fn a_snapshot_is_due_when_what_the_key_vouches_for_changes() {
        let (a, b) = (PodName::new("default", "a"), PodName::new("default", "b"));
        let no = |reason: &str| Err(reason.to_owned());
        let mut unvouched = Unvouched::default();
        for (name, judged, changed, marked) in [
            ("all are signed", vec![(&a, Ok(())), (&b, Ok(()))], false, &[][..]),
            ("the key is replaced", vec![(&a, no("key 1")), (&b, Ok(()))], true, &["key 1"]),
            ("and stays", vec![(&a, no("key 1")), (&b, Ok(()))], false, &["key 1"]),
            ("it is lost", vec![(&a, no("no key")), (&b, no("no key"))], true, &["no key", "no key"]),
            ("a pod is gone", vec![(&b, no("no key"))], true, &["no key"]),
            ("signed again", vec![(&b, Ok(()))], true, &[]),
        ] {
            assert_eq!(unvouched.update(judged.into_iter()), changed, "{name}");
            let mut snapshot = Snapshot {
                source: Source::File,
                pods: vec![],
                complete: true,
                unvouched: [(a.clone(), "left over".to_owned())].into(),
                verdicts: vec![],
            };
            unvouched.mark(&mut snapshot);
            assert_eq!(snapshot.unvouched.values().collect::<Vec<_>>(), marked, "{name}");
        }
    }
}
