//! From a text that holds any number of pods to one result for each: Pods, PodLists and Lists, in several documents.
//!
//! Invariant: nothing is passed over in silence. A document that is neither a pod nor a list of pods is a refused
//! item, and only a list that says it is empty, and says nothing else that is not known, is empty. Remarks on a list itself
//! are warnings on its first item.

use std::fmt;

use serde_json::Value;

use super::{Decoded, MAX_PROBLEMS, Origin, decode_document, locate, parse_manifest, shown};
use crate::pod::PodName;
use crate::pod::finding::{Finding, Refusal};
use crate::pod::identity::static_name;
use crate::text::suggest::nearest;
use crate::text::yaml::Document;

/// More pods than these no node runs, and what holds more is a mistake.
const MAX_ITEMS: usize = 5000;

/// What a list may hold beside its kind, and its metadata.
const LIST_FIELDS: &[&str] = &["apiVersion", "kind", "metadata", "items"];
const METADATA_FIELDS: &[&str] = &["continue", "remainingItemCount", "resourceVersion", "selfLink"];

/// Where in a text a pod was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ItemPath {
    /// The document, if there are several; the first is 1, and empty ones are counted.
    pub document: Option<usize>,
    /// The index in the list, if it is in one; the first is 0.
    pub item: Option<usize>,
}

impl fmt::Display for ItemPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.document, self.item) {
            (None, None) => Ok(()),
            (Some(document), None) => write!(f, "document {document}"),
            (None, Some(item)) => write!(f, "items[{item}]"),
            (Some(document), Some(item)) => write!(f, "document {document} items[{item}]"),
        }
    }
}

/// What one item of a text comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct ListItem {
    /// Where it stands.
    pub path: ItemPath,
    /// The name that the pod has or would have; none if it cannot be told.
    pub name: Option<PodName>,
    /// The manifest, as JSON; what a pod's hash is made of.
    pub manifest: Value,
    /// The pod, or why it is none.
    pub decoded: Result<Decoded, Refusal>,
}

/// Decodes every pod of a text.
///
/// # Errors
/// When the text as a whole is at fault: it cannot be read, holds no document at all, or too many.
pub fn decode_list(bytes: &[u8], origin: &Origin<'_>) -> Result<Vec<ListItem>, Refusal> {
    let (text, documents) = parse_manifest(bytes)?;
    if documents.is_empty() {
        return Err(Finding::whole("holds no document").into());
    }
    let several = documents.len() > 1;
    let mut items = Vec::new();
    let mut numbers = Vec::new();
    for document in documents {
        let number = document.number;
        let document_path = ItemPath { document: several.then_some(number), item: None };
        match split(document, origin.strict) {
            Ok(Split::Single(document)) => items.push(decode(document_path, document, origin)),
            Ok(Split::List { pods, .. }) if pods.len() > MAX_ITEMS - items.len().min(MAX_ITEMS) => {
                return Err(Finding::whole(format!("holds more than {MAX_ITEMS} pods")).into());
            }
            Ok(Split::List { pods, mut doubtful }) => {
                locate(text, doubtful.iter_mut().map(|finding| (number, String::new(), finding)));
                let paths = (0..).map(|index| ItemPath { item: Some(index), ..document_path });
                let first = items.len();
                items.extend(pods.into_iter().zip(paths).map(|(pod, path)| decode(path, pod, origin)));
                match items.get_mut(first).map(|item| &mut item.decoded) {
                    Some(Ok(decoded)) => decoded.warnings.extend(doubtful),
                    Some(Err(refusal)) => *refusal = refusal.clone().with_warnings(doubtful),
                    None => {}
                }
            }
            Err(refusal) => items.push(ListItem {
                path: document_path,
                name: None,
                manifest: Value::Null,
                decoded: Err(refusal),
            }),
        }
        numbers.resize(items.len(), number);
    }
    locate(text, items.iter_mut().zip(numbers).flat_map(|(item, number)| findings(item, number)));
    Ok(items)
}

/// What is said about an item, each with the number of its document and the path of the item in it.
fn findings(item: &mut ListItem, number: usize) -> impl Iterator<Item = (usize, String, &mut Finding)> {
    let path = item.path.item.map(|index| format!("items[{index}]")).unwrap_or_default();
    let (warnings, problems) = match &mut item.decoded {
        Ok(decoded) => (Some(decoded.warnings.iter_mut()), None),
        Err(refusal) => (None, Some(refusal.findings_mut())),
    };
    let all = warnings.into_iter().flatten().chain(problems.into_iter().flatten());
    // What is said about the list as a whole has its position already.
    let open = all.filter(|finding| finding.position.is_none());
    open.map(move |finding| (number, path.clone(), finding))
}

enum Split {
    Single(Document),
    List {
        pods: Vec<Document>,
        /// Unknown and doubled fields of the list itself.
        doubtful: Vec<Finding>,
    },
}

/// Takes a list apart. Unknown and doubled fields refuse it if that is asked for, or if it is empty: they may be the pods
/// that are missing in it.
fn split(mut document: Document, strict: bool) -> Result<Split, Refusal> {
    let kind = match document.value["kind"].as_str() {
        Some(kind @ ("PodList" | "List")) => kind.to_owned(),
        _ => return Ok(Split::Single(document)),
    };
    let doubtful = doubtful_fields(&document);
    let refuse = |finding: Finding| Err(Refusal::from(finding).with_warnings(doubtful.clone()));
    match &document.value["apiVersion"] {
        Value::String(version) if version == "v1" => {}
        Value::Null => return refuse(Finding::new("apiVersion", "missing, must be v1")),
        other => return refuse(Finding::new("apiVersion", format!("{} is not v1", shown(other)))),
    }
    if document.value["metadata"]["continue"].as_str().is_some_and(|more| !more.is_empty()) {
        return refuse(Finding::new("metadata.continue", "the list is only a part; the whole is needed"));
    }
    if document.duplicate_keys.iter().any(|key| key == "items") {
        return refuse(Finding::new(
            "items",
            "written more than once: it cannot be told which pods are meant",
        ));
    }
    let Value::Array(items) = document.value["items"].take() else {
        return refuse(Finding::new("items", "must be a list; one without pods is written as []"));
    };
    if (strict || items.is_empty())
        && let Some(refusal) = Refusal::from_findings(doubtful.clone())
    {
        return Err(refusal);
    }
    let duplicates = |index: usize| {
        let prefix = format!("items[{index}].");
        let inner = document.duplicate_keys.iter().filter_map(|key| key.strip_prefix(&prefix));
        inner.map(str::to_owned).collect()
    };
    let pods = items.into_iter().enumerate().map(|(index, mut value)| {
        // Whoever writes out a PodList leaves these out: what the items are is said above them.
        if kind == "PodList"
            && let Value::Object(pod) = &mut value
        {
            for (field, text) in [("apiVersion", "v1"), ("kind", "Pod")] {
                pod.entry(field).or_insert_with(|| text.into());
            }
        }
        Document { number: document.number, value, duplicate_keys: duplicates(index) }
    });
    let pods = pods.collect();
    Ok(Split::List { pods, doubtful })
}

/// The fields of a list itself that are unknown or written more than once.
fn doubtful_fields(list: &Document) -> Vec<Finding> {
    let inside = |key: &&String| !key.starts_with("items[") && *key != "items";
    let doubled = list.duplicate_keys.iter().filter(inside);
    let doubled = doubled.map(|key| Finding::new(key, "written more than once; the last counts"));
    let known = [("", LIST_FIELDS), ("metadata.", METADATA_FIELDS)];
    let unknown = known.into_iter().zip([&list.value, &list.value["metadata"]]);
    let unknown = unknown.flat_map(|((prefix, known), value)| {
        let fields = value.as_object().into_iter().flatten().map(|(field, _)| field);
        fields.filter(|field| !known.contains(&field.as_str())).map(move |field| {
            let meant = nearest(field, known.iter().copied());
            let hint = meant.map(|name| format!(", did you mean {name:?}?")).unwrap_or_default();
            Finding::new(format!("{prefix}{field}"), format!("unknown field of the list{hint}"))
        })
    });
    doubled.chain(unknown).take(MAX_PROBLEMS).collect()
}

fn decode(path: ItemPath, document: Document, origin: &Origin<'_>) -> ListItem {
    let decoded = decode_document(&document, origin);
    let name = match &decoded {
        Ok(decoded) => Some(decoded.pod.name.clone()),
        Err(_) => name_of(&document.value, origin.node_name),
    };
    ListItem { path, name, manifest: document.value, decoded }
}

/// The name that a pod would have if the rest of its manifest were good.
fn name_of(manifest: &Value, node_name: &str) -> Option<PodName> {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let metadata = &manifest["metadata"];
    (manifest["kind"] == "Pod").then_some(())?;
    let name = static_name(&text(&metadata["name"])?, node_name);
    let namespace = match &metadata["namespace"] {
        Value::Null => None,
        Value::String(namespace) => Some(namespace.clone()).filter(|namespace| !namespace.is_empty()),
        _ => return None,
    };
    Some(PodName::new(namespace.unwrap_or_else(|| "default".to_owned()), name))
}

#[cfg(test)]
mod tests;
