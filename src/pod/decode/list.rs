//! From a text that holds any number of pods to one result for each: Pods, PodLists and Lists, in several documents.
//!
//! Invariant: nothing is passed over in silence. A document that is neither a pod nor a list of pods is a refusal in
//! its own place, and only a list that says it is empty, and says nothing else, is empty. What is doubtful about a list
//! itself is told with its first pod.

mod doubts;

use std::fmt;

use serde_json::Value;

use super::{Decoded, Origin, decode_document, locate, parse_manifest};
use crate::pod::PodName;
use crate::pod::finding::{Finding, Refusal};
use crate::pod::identity::static_name;
use crate::text::yaml::Document;
use doubts::doubts;

/// More pods than these no node runs, and what holds more is a mistake.
const MAX_ITEMS: usize = 5000;

/// Where in a text a pod was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The document, if there are several; the first is 1, and empty ones are counted.
    pub document: Option<usize>,
    /// The place in the list, if it is in one; the first is 0.
    pub item: Option<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.document, self.item) {
            (None, None) => Ok(()),
            (Some(document), None) => write!(f, "document {document}"),
            (None, Some(item)) => write!(f, "items[{item}]"),
            (Some(document), Some(item)) => write!(f, "document {document} items[{item}]"),
        }
    }
}

/// What one place of the text comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Where it stands.
    pub place: Place,
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
pub fn decode_list(bytes: &[u8], origin: &Origin<'_>) -> Result<Vec<Item>, Refusal> {
    let (text, documents) = parse_manifest(bytes)?;
    if documents.is_empty() {
        return Err(Finding::whole("holds no document").into());
    }
    let several = documents.len() > 1;
    let mut items = Vec::new();
    let mut numbers = Vec::new();
    let mut doubts = Vec::new();
    for document in documents {
        let number = document.number;
        let document_place = Place { document: several.then_some(number), item: None };
        match split(document, origin.strict) {
            Ok(Split::Single(document)) => items.push(decode(document_place, document, origin)),
            Ok(Split::List(list, _)) if list.len() > MAX_ITEMS - items.len().min(MAX_ITEMS) => {
                return Err(Finding::whole(format!("holds more than {MAX_ITEMS} pods")).into());
            }
            Ok(Split::List(list, doubtful)) => {
                doubts.push((number, items.len()..items.len() + list.len(), doubtful));
                let places = list.into_iter().enumerate();
                items.extend(places.map(|(index, document)| {
                    decode(Place { item: Some(index), ..document_place }, document, origin)
                }));
            }
            Err(refusal) => items.push(Item {
                place: document_place,
                name: None,
                manifest: Value::Null,
                decoded: Err(refusal),
            }),
        }
        numbers.resize(items.len(), number);
    }
    locate(text, items.iter_mut().zip(numbers).flat_map(|(item, number)| findings(item, number)));
    for (number, range, mut doubtful) in doubts {
        locate(text, doubtful.iter_mut().map(|finding| (number, String::new(), finding)));
        tell_with(&mut items[range], doubtful);
    }
    Ok(items)
}

/// Tells what is doubtful about a list with its first good pod, or with its first item if there is none.
fn tell_with(items: &mut [Item], doubtful: Vec<Finding>) {
    let index = items.iter().position(|item| item.decoded.is_ok()).unwrap_or_default();
    match items.get_mut(index).map(|item| &mut item.decoded) {
        Some(Ok(decoded)) => drop(decoded.warnings.splice(0..0, doubtful)),
        Some(Err(refusal)) => refusal.others.extend(doubtful),
        None => {}
    }
}

/// What is said about an item, each with the number of its document and the path of the item in it.
fn findings(item: &mut Item, number: usize) -> impl Iterator<Item = (usize, String, &mut Finding)> {
    let path = item.place.item.map(|index| format!("items[{index}]")).unwrap_or_default();
    let (warnings, problems) = match &mut item.decoded {
        Ok(decoded) => (Some(decoded.warnings.iter_mut()), None),
        Err(refusal) => (None, Some(refusal.findings_mut())),
    };
    let all = warnings.into_iter().flatten().chain(problems.into_iter().flatten());
    all.map(move |finding| (number, path.clone(), finding))
}

enum Split {
    Single(Document),
    /// The items, and what is doubtful about the list.
    List(Vec<Document>, Vec<Finding>),
}

/// Takes a list apart.
fn split(mut document: Document, strict: bool) -> Result<Split, Refusal> {
    let kind = match document.value["kind"].as_str() {
        Some(kind @ ("PodList" | "List")) => kind.to_owned(),
        _ => return Ok(Split::Single(document)),
    };
    match &document.value["apiVersion"] {
        Value::String(version) if version == "v1" => {}
        Value::Null => return Err(Finding::new("apiVersion", "missing, must be v1").into()),
        other => return Err(Finding::new("apiVersion", format!("{other} is not v1")).into()),
    }
    if document.value["metadata"]["continue"].as_str().is_some_and(|more| !more.is_empty()) {
        let reason = "the list is only a part; the whole is needed";
        return Err(Finding::new("metadata.continue", reason).into());
    }
    let doubts = doubts(&document);
    let Value::Array(items) = document.value["items"].take() else {
        return Err(Finding::new("items", "must be a list; one without pods is written as []").into());
    };
    let is_serious = |doubt: &Finding| strict || items.is_empty() || doubt.field == "items";
    if doubts.iter().any(is_serious)
        && let Some(refusal) = Refusal::from_findings(doubts.clone())
    {
        return Err(refusal);
    }
    let duplicates = |index: usize| {
        let prefix = format!("items[{index}].");
        let inner = document.duplicate_keys.iter().filter_map(|key| key.strip_prefix(&prefix));
        inner.map(str::to_owned).collect()
    };
    let documents = items.into_iter().enumerate().map(|(index, mut value)| {
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
    Ok(Split::List(documents.collect(), doubts))
}

fn decode(place: Place, document: Document, origin: &Origin<'_>) -> Item {
    let decoded = decode_document(&document, origin);
    let name = match &decoded {
        Ok(decoded) => Some(decoded.pod.name.clone()),
        Err(_) => name_of(&document.value, origin.node_name),
    };
    Item { place, name, manifest: document.value, decoded }
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
mod tests {
    use super::*;
    use crate::pod::Source;

    const SPEC: &str = "spec: {containers: [{name: c, image: i}]}";

    fn origin() -> Origin<'static> {
        Origin {
            node_name: "n",
            source: Source::Http,
            path: "url",
            seen: jiff::Timestamp::UNIX_EPOCH,
            strict: false,
        }
    }

    fn pod(name: &str) -> String {
        format!("{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, {SPEC}}}")
    }

    /// `place name` for each pod, `place name! field` for each refusal.
    fn told(text: &str) -> Vec<String> {
        let items = match decode_list(text.as_bytes(), &origin()) {
            Ok(items) => items,
            Err(refusal) => return vec![format!("! {refusal}")],
        };
        let each = items.into_iter().map(|item| {
            let name = item.name.map_or("?".to_owned(), |name| name.to_string());
            let fault = item.decoded.err().map(|refusal| format!("! {}", refusal.first.field));
            format!("{}|{name}{}", item.place, fault.unwrap_or_default())
        });
        each.collect()
    }

    #[test]
    fn pods_are_found_wherever_they_stand() {
        let (a, b) = (pod("a"), pod("b"));
        let bare = format!("{{metadata: {{name: a}}, {SPEC}}}");
        let cases: &[(&str, String, &[&str])] = &[
            ("one pod", a.clone(), &["|default/a-n"]),
            (
                "two documents",
                format!("{a}\n---\n{b}"),
                &["document 1|default/a-n", "document 2|default/b-n"],
            ),
            (
                "a PodList",
                format!("{{apiVersion: v1, kind: PodList, items: [{bare}, {b}]}}"),
                &["items[0]|default/a-n", "items[1]|default/b-n"],
            ),
            ("a List", format!("{{apiVersion: v1, kind: List, items: [{a}]}}"), &["items[0]|default/a-n"]),
            (
                "items of a List say what they are",
                format!("{{apiVersion: v1, kind: List, items: [{bare}]}}"),
                &["items[0]|?! kind"],
            ),
            (
                "a list among documents",
                format!("{a}\n---\n{{apiVersion: v1, kind: List, items: [{b}]}}"),
                &["document 1|default/a-n", "document 2 items[0]|default/b-n"],
            ),
            (
                "empty documents are counted",
                format!("---\n# nothing\n---\n{a}\n---\n---\n{b}"),
                &["document 2|default/a-n", "document 4|default/b-n"],
            ),
            ("JSON", r#"{"apiVersion":"v1","kind":"PodList","items":[]}"#.to_owned(), &[]),
            ("an empty List", "{apiVersion: v1, kind: List, items: []}".to_owned(), &[]),
        ];
        for (name, text, expect) in cases {
            assert_eq!(told(text), *expect, "{name}");
        }
    }

    #[test]
    fn what_is_no_pod_is_refused_in_its_place() {
        let (a, bad) =
            (pod("a"), "{apiVersion: v1, kind: Pod, metadata: {name: bad, namespace: x}, spec: {}}");
        let cases: &[(&str, String, &[&str])] = &[
            ("nothing", String::new(), &["! holds no document"]),
            ("comments", "# nothing\n---\n".to_owned(), &["! holds no document"]),
            ("a page", "<html><body>Bad gateway</body></html>".to_owned(), &["|?! "]),
            ("a number", "5".to_owned(), &["|?! "]),
            ("an array", "[]".to_owned(), &["|?! "]),
            (
                "another kind",
                "{apiVersion: v1, kind: Service, metadata: {name: s}}".to_owned(),
                &["|?! kind"],
            ),
            ("a Status", r#"{"kind":"Status","apiVersion":"v1","code":500}"#.to_owned(), &["|?! kind"]),
            ("no items", "{apiVersion: v1, kind: PodList}".to_owned(), &["|?! items"]),
            ("null items", "{apiVersion: v1, kind: PodList, items: null}".to_owned(), &["|?! items"]),
            ("no version", "{kind: PodList, items: []}".to_owned(), &["|?! apiVersion"]),
            (
                "a part of a list",
                "{apiVersion: v1, kind: PodList, metadata: {continue: abc}, items: []}".to_owned(),
                &["|?! metadata.continue"],
            ),
            (
                "a bad one among good ones has its name",
                format!("{{apiVersion: v1, kind: List, items: [{a}, {bad}]}}"),
                &["items[0]|default/a-n", "items[1]|x/bad-n! spec.containers"],
            ),
            ("one without a name", format!("{{apiVersion: v1, kind: Pod, {SPEC}}}"), &["|?! metadata.name"]),
        ];
        for (name, text, expect) in cases {
            assert_eq!(told(text), *expect, "{name}");
        }
        let html = told("<!DOCTYPE html>\n<html>\n<head><title>502: Bad</title></head>\n");
        assert!(html.len() == 1 && html[0].contains('!'), "{html:?}");
    }

    #[test]
    fn too_many_are_a_fault_of_the_whole() {
        let list = |count: usize| format!("{{apiVersion: v1, kind: List, items: [{}]}}", "1,".repeat(count));
        assert_eq!(told(&list(5_000)).len(), 5_000);
        assert_eq!(told(&list(5_001)), ["! holds more than 5000 pods"]);
        assert_eq!(told(&format!("{}\n---\n{}", list(2_500), list(2_501))), ["! holds more than 5000 pods"]);
        assert_eq!(told(&"---\n1\n".repeat(5_000)).len(), 5_000);
        let documents = told(&"---\n1\n".repeat(5_001));
        assert_eq!(documents, ["! not valid YAML: holds more than 5000 documents"]);
    }

    #[test]
    fn findings_have_the_places_of_their_own_documents() {
        let odd = |name: &str| pod(name).replace("image: i", "image: i, x: 1");
        let text = format!("{}\n---\n---\nkind: List\napiVersion: v1\nitems:\n- {}\n", odd("a"), odd("b"));
        let items = decode_list(text.as_bytes(), &origin()).unwrap();
        let lines: Vec<_> = items
            .iter()
            .map(|item| item.decoded.as_ref().unwrap().warnings[0].place.map(|place| place.line))
            .collect();
        assert_eq!(lines, [Some(1), Some(7)]);
    }

    #[test]
    fn a_pod_is_the_same_pod_wherever_it_stands() {
        let hash = |text: &str| {
            let item = decode_list(text.as_bytes(), &origin()).unwrap().remove(0);
            let pod = item.decoded.unwrap().pod;
            (pod.hash, pod.uid)
        };
        let a = pod("a");
        let bare = format!("{{metadata: {{name: a}}, {SPEC}}}");
        assert_eq!(hash(&format!("{{apiVersion: v1, kind: List, items: [{a}]}}")), hash(&a));
        assert_eq!(hash(&format!("{{apiVersion: v1, kind: PodList, items: [{bare}]}}")), hash(&a));
        // And when it was kept as JSON.
        let odd = a.replace(
            "image: i",
            "image: i, args: [\"\\x7f\\u0085\"], resources: {limits: {cpu: 0.1234567890123456789}}",
        );
        let kept =
            serde_json::to_string(&decode_list(odd.as_bytes(), &origin()).unwrap()[0].manifest).unwrap();
        let document =
            Document { number: 1, value: serde_json::from_str(&kept).unwrap(), duplicate_keys: vec![] };
        let pod = decode_document(&document, &origin()).unwrap().pod;
        assert_eq!((pod.hash, pod.uid), hash(&odd));
    }

    #[test]
    fn keys_written_twice_are_told_of_their_own_pod() {
        let text = format!(
            "{{apiVersion: v1, kind: List, items: [{}, {}]}}",
            pod("a"),
            pod("b").replace("image: i", "image: i, image: j")
        );
        let items = decode_list(text.as_bytes(), &origin()).unwrap();
        let warnings: Vec<_> =
            items.iter().map(|item| item.decoded.as_ref().unwrap().warnings.len()).collect();
        assert_eq!(warnings, [0, 1]);
    }
}
