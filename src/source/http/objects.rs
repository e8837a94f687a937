//! Which ConfigMaps and Secrets follow from the contents of the URL: the last good version of each, one per name. Pure.
//!
//! Invariants: an object that turns bad keeps its last good version; it goes only when contents in which every part is known
//! by name no longer hold it; of two of one name the first counts; one that is immutable does not change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::pod::Source;
use crate::pod::decode::list::ObjectItem;
use crate::pod::finding::{Finding, Refusal};
use crate::pod::object::{HiddenText, Object, ObjectKey, Subject};
use crate::sync::view::{Outcome, Verdict};

use super::settle::shown;

/// An object that is held.
#[derive(Debug, Clone)]
pub(super) struct HeldObject {
    /// The object.
    pub(super) object: Arc<Object>,
    /// Its manifest as JSON, for the disk.
    pub(super) manifest: HiddenText,
    /// The key that signed the contents in which it came.
    pub(super) signer: Option<Arc<str>>,
}

/// The objects that are held, by name.
pub(super) type HeldObjects = BTreeMap<ObjectKey, HeldObject>;

/// What follows from contents.
pub(super) struct SettledObjects {
    /// What is held now.
    pub(super) held: HeldObjects,
    /// What became of each item.
    pub(super) verdicts: Vec<Verdict>,
    /// Every item is accounted for.
    pub(super) complete: bool,
}

/// The objects to hold, and the verdicts; `nameless` says that some part of the contents cannot be told by name, and may be
/// any object that seems to be gone.
pub(super) fn settle_objects(
    url: &str,
    before: &HeldObjects,
    items: Vec<ObjectItem>,
    signer: Option<&Arc<str>>,
    nameless: bool,
) -> SettledObjects {
    let names: BTreeSet<_> = items.iter().filter_map(|item| item.key.clone()).collect();
    let is_there = |key: &ObjectKey| nameless || names.contains(key);
    let kept = before.iter().filter(|(key, _)| is_there(key));
    let mut held: HeldObjects = kept.map(|(key, held)| (key.clone(), held.clone())).collect();
    let mut first = BTreeMap::new();
    let mut verdicts = Vec::new();
    for ObjectItem { path, key, manifest, decoded } in items {
        let place = shown(url, path);
        let owner = key.map(|key| (first.entry(key.clone()).or_insert_with(|| place.clone()).clone(), key));
        let outcome = match (decoded, owner) {
            (Ok(decoded), Some((owner, key))) if owner != place => {
                let finding = Finding::new("metadata.name", format!("{key} is already defined by {owner}"));
                Outcome::Refused(Refusal::from(finding).with_warnings(decoded.warnings))
            }
            (Ok(decoded), Some((_, key))) => match before.get(&key).map(|known| &known.object) {
                Some(known) if !known.may_become(&decoded.object) => Outcome::Refused(
                    Refusal::from(decoded.object.changed_immutable()).with_warnings(decoded.warnings),
                ),
                known => {
                    let same = known.filter(|known| known.same_as(&decoded.object)).cloned();
                    let object = same.unwrap_or_else(|| Arc::new(decoded.object));
                    held.insert(key.clone(), HeldObject { object, manifest, signer: signer.cloned() });
                    Outcome::Accepted { subject: Subject::Object(key), warnings: decoded.warnings }
                }
            },
            // What is decoded has a name.
            (Ok(_), None) => Outcome::Refused(Finding::new("metadata.name", "must not be empty").into()),
            (Err(refusal), _) => Outcome::Refused(refusal),
        };
        verdicts.push(Verdict {
            source: Source::Http,
            origin: url.to_owned(),
            document: path.document.unwrap_or(1),
            item: path.item,
            outcome,
        });
    }
    let complete = names.iter().all(|key| held.contains_key(key));
    SettledObjects { held, verdicts, complete }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::decode::list::decode_contents;
    use crate::source::http::keep::origin;

    /// Settles contents of these items, and tells what is held and what became of each.
    fn settle(before: &HeldObjects, items: &[&str], nameless: bool) -> (HeldObjects, String, bool) {
        let text = format!("{{apiVersion: v1, kind: List, items: [{}]}}", items.join(", "));
        let contents = decode_contents(text.as_bytes(), &origin("n", false, false)).unwrap();
        let settled = settle_objects("http://u", before, contents.objects, None, nameless);
        let words: Vec<_> = settled.verdicts.iter().map(|verdict| verdict.outcome.word()).collect();
        (settled.held, words.join(" "), settled.complete)
    }

    fn values(held: &HeldObjects) -> String {
        let text = |held: &HeldObject| {
            let value =
                held.object.data.get("a").map(|value| String::from_utf8_lossy(value.bytes()).into_owned());
            format!("{}={}", held.object.key.name, value.unwrap_or_default())
        };
        held.values().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn an_object_goes_on_evidence_alone() {
        let map = |name: &str, rest: &str| {
            format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, {rest}}}")
        };
        let (x1, x2, y) =
            (map("x", "data: {a: \"1\"}"), map("x", "data: {a: \"2\"}"), map("z", "data: {a: \"1\"}"));
        let bad = map("x", "data: {../a: \"3\"}");
        let fixed = map("z", "data: {a: \"1\"}, immutable: true");
        let (held, words, complete) = settle(&HeldObjects::new(), &[&x1, &fixed], false);
        assert_eq!(
            (values(&held).as_str(), words.as_str(), complete),
            ("x=1 z=1", "accepted accepted", true)
        );
        let rows = [
            ("a change", vec![&x2, &fixed], false, "x=2 z=1", "accepted accepted", true),
            (
                "a bad one keeps its last good version",
                vec![&bad, &fixed],
                false,
                "x=1 z=1",
                "refused accepted",
                true,
            ),
            ("one is gone", vec![&x1], false, "x=1", "accepted", true),
            ("it may be the one without a name", vec![&x1], true, "x=1 z=1", "accepted", true),
            (
                "of two the first counts",
                vec![&x1, &x2, &fixed],
                false,
                "x=1 z=1",
                "accepted refused accepted",
                true,
            ),
            ("not immutable any more", vec![&x1, &y], false, "x=1 z=1", "accepted refused", true),
        ];
        for (name, items, nameless, want, want_words, want_complete) in rows {
            let items: Vec<&str> = items.into_iter().map(String::as_str).collect();
            let (now, words, complete) = settle(&held, &items, nameless);
            assert_eq!(
                (values(&now).as_str(), words.as_str(), complete),
                (want, want_words, want_complete),
                "{name}"
            );
        }
        let (now, _, complete) = settle(&HeldObjects::new(), &[&bad], false);
        assert!(now.is_empty() && !complete, "what was never good is not accounted for");
    }
}
