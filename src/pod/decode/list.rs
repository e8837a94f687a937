//! From a text that holds any number of pods, ConfigMaps and Secrets to one result for each: alone and in lists, in several
//! documents.
//!
//! Invariant: nothing is passed over in silence. A document that is none of these is a refused
//! item, and only a list that says it is empty, and says nothing else that is not known, is empty. Remarks on a list itself
//! are warnings on its first item.

use std::fmt;

use serde_json::Value;

use super::{Decoded, MAX_PROBLEMS, Origin, decode_document, locate, parse_manifest, shown};
use crate::pod::finding::{Finding, Refusal};
use crate::pod::identity::static_name;
use crate::pod::object::decode::{DecodedObject, decode_object};
use crate::pod::object::{HiddenText, ObjectKey};
use crate::pod::{PodName, object};
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

/// A ConfigMap or Secret of a text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ObjectItem {
    /// Where it stands.
    pub(crate) path: ItemPath,
    /// Which object it is or would be; none if it cannot be told.
    pub(crate) key: Option<ObjectKey>,
    /// The manifest, as JSON.
    pub(crate) manifest: HiddenText,
    /// The object, or why it is none.
    pub(crate) decoded: Result<DecodedObject, Refusal>,
}

/// All that a text holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ListContents {
    /// Its pods, and what is neither pod nor object.
    pub(crate) pods: Vec<ListItem>,
    /// Its ConfigMaps and Secrets.
    pub(crate) objects: Vec<ObjectItem>,
}

/// Decodes every pod of a text.
///
/// # Errors
/// When the text as a whole is at fault: it cannot be read, holds no document at all, or too many.
pub fn decode_list(bytes: &[u8], origin: &Origin<'_>) -> Result<Vec<ListItem>, Refusal> {
    decode_contents(bytes, origin).map(|contents| contents.pods)
}

/// Decodes all that a text holds.
///
/// # Errors
/// When the text as a whole is at fault: it cannot be read, holds no document at all, or too many.
pub(crate) fn decode_contents(bytes: &[u8], origin: &Origin<'_>) -> Result<ListContents, Refusal> {
    let (text, documents) = parse_manifest(bytes)?;
    decode_documents(text, documents, origin)
}

/// The same for a text that is already parsed.
pub(super) fn decode_documents(
    text: &str,
    documents: Vec<Document>,
    origin: &Origin<'_>,
) -> Result<ListContents, Refusal> {
    if documents.is_empty() {
        return Err(Finding::whole("holds no document").into());
    }
    let mut parts = decode_parts(text, documents, origin)?;
    locate(text, parts.iter_mut().flat_map(|(number, part)| part.findings(*number)));
    let mut contents = ListContents::default();
    for (_, part) in parts {
        match part {
            Part::Pod(item) => contents.pods.push(*item),
            Part::Object(item) => contents.objects.push(*item),
        }
    }
    Ok(contents)
}

/// One item, with the number of its document.
type NumberedPart = (usize, Part);

fn decode_parts(
    text: &str,
    documents: Vec<Document>,
    origin: &Origin<'_>,
) -> Result<Vec<NumberedPart>, Refusal> {
    let several = documents.len() > 1;
    let mut parts: Vec<NumberedPart> = Vec::new();
    for document in documents {
        let number = document.number;
        let document_path = ItemPath { document: several.then_some(number), item: None };
        match split(document, origin) {
            Ok(Split::Single(document)) => parts.push((number, decode(document_path, document, origin))),
            Ok(Split::List { items, .. }) if items.len() > MAX_ITEMS - parts.len().min(MAX_ITEMS) => {
                return Err(Finding::whole(format!("holds more than {MAX_ITEMS} pods")).into());
            }
            Ok(Split::List { items, mut doubtful }) => {
                locate(text, doubtful.iter_mut().map(|finding| (number, String::new(), finding)));
                let paths = (0..).map(|index| ItemPath { item: Some(index), ..document_path });
                let first = parts.len();
                let decoded = items.into_iter().zip(paths).map(|(item, path)| decode(path, item, origin));
                parts.extend(decoded.map(|part| (number, part)));
                parts.get_mut(first).into_iter().for_each(|(_, part)| part.warn(doubtful.clone()));
            }
            Err(refusal) => {
                let (path, manifest) = (document_path, Value::Null);
                parts.push((
                    number,
                    Part::Pod(Box::new(ListItem { path, name: None, manifest, decoded: Err(refusal) })),
                ));
            }
        }
    }
    Ok(parts)
}

/// One item of a text.
enum Part {
    Pod(Box<ListItem>),
    Object(Box<ObjectItem>),
}

impl Part {
    fn path(&self) -> ItemPath {
        match self {
            Part::Pod(item) => item.path,
            Part::Object(item) => item.path,
        }
    }

    /// Its warnings if it is good, else why it is not.
    fn remarks(&mut self) -> Result<&mut Vec<Finding>, &mut Refusal> {
        match self {
            Part::Pod(item) => item.decoded.as_mut().map(|decoded| &mut decoded.warnings),
            Part::Object(item) => item.decoded.as_mut().map(|decoded| &mut decoded.warnings),
        }
    }

    fn warn(&mut self, more: Vec<Finding>) {
        match self.remarks() {
            Ok(warnings) => warnings.extend(more),
            Err(refusal) => *refusal = refusal.clone().with_warnings(more),
        }
    }

    /// What is said about it, each with the number of its document and the path of the item in it.
    fn findings(&mut self, number: usize) -> impl Iterator<Item = (usize, String, &mut Finding)> {
        let path = self.path().item.map(|index| format!("items[{index}]")).unwrap_or_default();
        let (warnings, problems) = match self.remarks() {
            Ok(warnings) => (Some(warnings.iter_mut()), None),
            Err(refusal) => (None, Some(refusal.findings_mut())),
        };
        let all = warnings.into_iter().flatten().chain(problems.into_iter().flatten());
        // What is said about the list as a whole has its position already.
        let open = all.filter(|finding| finding.position.is_none());
        open.map(move |finding| (number, path.clone(), finding))
    }
}

enum Split {
    Single(Document),
    List {
        items: Vec<Document>,
        /// Unknown and doubled fields of the list itself.
        doubtful: Vec<Finding>,
    },
}

/// Takes a list apart. Unknown and doubled fields refuse it if that is asked for, or if it is empty: they may be the pods
/// that are missing in it.
fn split(mut document: Document, origin: &Origin<'_>) -> Result<Split, Refusal> {
    let strict = origin.strict;
    let item_kind = match document.value["kind"].as_str() {
        Some("List") => None,
        Some("PodList") => Some("Pod"),
        Some("ConfigMapList") if !origin.kubelet_strict => Some("ConfigMap"),
        Some("SecretList") if !origin.kubelet_strict => Some("Secret"),
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
        if let (Some(kind), Value::Object(item)) = (item_kind, &mut value) {
            for (field, text) in [("apiVersion", "v1"), ("kind", kind)] {
                item.entry(field).or_insert_with(|| text.into());
            }
        }
        Document { number: document.number, value, duplicate_keys: duplicates(index) }
    });
    let items = pods.collect();
    Ok(Split::List { items, doubtful })
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

fn decode(path: ItemPath, document: Document, origin: &Origin<'_>) -> Part {
    if !origin.kubelet_strict && object::decode::kind_of(&document.value).is_some() {
        let decoded = decode_object(&document, origin);
        let key = object::decode::key_of(&document.value);
        let manifest = HiddenText(document.value.to_string().into());
        return Part::Object(Box::new(ObjectItem { path, key, manifest, decoded }));
    }
    let decoded = decode_document(&document, origin);
    let name = match &decoded {
        Ok(decoded) => Some(decoded.pod.name.clone()),
        Err(_) => name_of(&document.value, origin.node_name),
    };
    Part::Pod(Box::new(ListItem { path, name, manifest: document.value, decoded }))
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
