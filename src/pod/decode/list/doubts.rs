//! What is doubtful about a list itself: keys that are written twice, and fields that it does not have. Pure.

use serde_json::Value;

use super::super::MAX_PROBLEMS;
use crate::pod::finding::Finding;
use crate::text::suggest::nearest;
use crate::text::yaml::Document;

/// The fields of a list, and those of its metadata.
const LIST_FIELDS: [&str; 4] = ["apiVersion", "items", "kind", "metadata"];
const LIST_METADATA: [&str; 4] = ["continue", "remainingItemCount", "resourceVersion", "selfLink"];

/// What is doubtful about a list, its items apart.
pub(super) fn doubts(list: &Document) -> Vec<Finding> {
    let twice = list.duplicate_keys.iter().filter(|key| !key.starts_with("items[")).map(|key| {
        let what = if key == "items" { "which of them counts cannot be told" } else { "the last counts" };
        Finding::new(key, format!("written more than once; {what}"))
    });
    let unknown = |prefix: &'static str, value: &Value, known: [&'static str; 4]| {
        let keys = value.as_object().into_iter().flat_map(|fields| fields.keys());
        let unknown = keys.filter(|key| !known.contains(&key.as_str())).take(MAX_PROBLEMS).map(|key| {
            let meant = nearest(key, known.into_iter());
            let hint = meant.map(|name| format!(", did you mean {name:?}?")).unwrap_or_default();
            Finding::new(format!("{prefix}{key}"), format!("unknown field{hint}"))
        });
        unknown.collect::<Vec<_>>()
    };
    let top = unknown("", &list.value, LIST_FIELDS);
    let metadata = unknown("metadata.", &list.value["metadata"], LIST_METADATA);
    twice.chain(top).chain(metadata).collect()
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use crate::pod::Source;

    fn origin(strict: bool) -> Origin<'static> {
        let seen = jiff::Timestamp::UNIX_EPOCH;
        Origin { node_name: "n", source: Source::Http, path: "url", seen, strict }
    }

    #[test]
    fn what_is_doubtful_about_a_list_is_told() {
        let a = "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: i}]}}";
        let list =
            |more: &str, items: &str| format!("{{apiVersion: v1, kind: PodList, {more}, items: {items}}}");
        let one = format!("[{a}]");
        let cases = [
            ("nothing", list("metadata: {resourceVersion: '1', selfLink: x}", &one), "", ""),
            ("a doubled list", list(&format!("items: {one}"), "[]"), "! items", "! items"),
            ("a doubled list with pods", list("items: []", &one), "! items", "! items"),
            ("another doubled key", list("apiVersion: v1", &one), "? apiVersion", "! apiVersion"),
            ("an unknown field", list("item: []", &one), "? item", "! item"),
            ("in the metadata", list("metadata: {name: x}", &one), "? metadata.name", "! metadata.name"),
            ("beside no pods", list(&format!("item: {one}"), "[]"), "! item", "! item"),
        ];
        for (name, text, lenient, strict) in cases {
            for (strict, expect) in [(false, lenient), (true, strict)] {
                let items = decode_list(text.as_bytes(), &origin(strict)).unwrap();
                let told = match &items[0].decoded {
                    Ok(decoded) => {
                        decoded.warnings.iter().map(|doubt| format!("? {}", doubt.field)).collect()
                    }
                    Err(refusal) => format!("! {}", refusal.first.field),
                };
                assert_eq!(told, expect, "{name}, strict: {strict}");
            }
        }
        let text = format!("kind: List\napiVersion: v1\nitems:\n- {a}\nitem: 1\n");
        let items = decode_list(text.as_bytes(), &origin(false)).unwrap();
        let warning = &items[0].decoded.as_ref().unwrap().warnings[0];
        assert_eq!(warning.to_string(), "item: unknown field, did you mean \"items\"?");
        assert!(format!("{warning:?}").contains("line: 5"), "{warning:?}");
    }
}
