//! From the bytes of a manifest to a pod of this node, or to the reasons why not.
//!
//! The order: YAML, kind, hash of what is written, types, identity, defaults, validation, support. Whatever
//! the manifest says that is not done is either a warning or a refusal, with the field's path.

pub(crate) mod file;
mod known;
pub(crate) mod list;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod as ApiPod;
use serde::Deserialize as _;
use serde_json::Value;

use super::annotations::{self, AFTER, AFTER_TIMEOUT};
use super::defaults::apply_defaults;
use super::fields::check_fields;
use super::finding::{Finding, Refusal};
use super::identity::{apply_identity, config_hash, container_hashes};
use super::security;
use super::validate::{LocalObjects, validate_pod};
use super::{Pod, Source};
use crate::text::excerpt::quoted;
use crate::text::suggest::nearest;
use crate::text::yaml::{Document, find_positions, parse_documents, position_after};

/// The largest manifest, as in kubelet.
pub(crate) const MAX_MANIFEST: usize = 10 << 20;

/// More problems than these are not looked at: nobody reads them, and sorting them takes time.
pub(crate) const MAX_PROBLEMS: usize = 100;
/// More values of the wrong type than these are not looked for: each takes another pass.
const MAX_TYPE_ERRORS: usize = 10;
/// More findings of one text than these get no positions: the search takes its time for each.
const MAX_LOCATED: usize = 1000;

/// Where a manifest was found, by whom and when.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    /// This node's name, as it is in `spec.nodeName`.
    pub node_name: &'a str,
    /// What kind of source holds the manifest.
    pub source: Source,
    /// The file's path or the URL. Part of the pod's identity.
    pub path: &'a str,
    /// When it was read.
    pub seen: jiff::Timestamp,
    /// Whether unknown and doubled fields are refused rather than warned about.
    pub strict: bool,
    /// Whether ConfigMaps and Secrets, and pods that refer to them, are refused, as kubelet does.
    pub kubelet_strict: bool,
}

/// A pod that can run, and what its author should know.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The pod: whole, valid, with identity and defaults.
    pub pod: Pod,
    /// What the manifest says in vain.
    pub warnings: Vec<Finding>,
}

/// Decodes a manifest that holds one pod, in YAML or JSON.
pub fn decode_manifest(bytes: &[u8], origin: &Origin<'_>) -> Result<Decoded, Refusal> {
    let (text, documents) = parse_manifest(bytes)?;
    decode_single(text, &documents, origin)
}

/// Decodes documents that are one pod.
fn decode_single(text: &str, documents: &[Document], origin: &Origin<'_>) -> Result<Decoded, Refusal> {
    match documents {
        [] => Err(Finding::whole("holds no pod: it is empty or has only comments").into()),
        [document] => match decode_document(document, origin) {
            Ok(mut decoded) => {
                locate(text, decoded.warnings.iter_mut().map(|w| (document.number, String::new(), w)));
                Ok(decoded)
            }
            Err(mut refusal) => {
                locate(text, refusal.findings_mut().map(|f| (document.number, String::new(), f)));
                Err(refusal)
            }
        },
        several => {
            let reason = format!("holds {} documents; a manifest is one Pod", several.len());
            Err(Finding::whole(reason).into())
        }
    }
}

/// Reads the documents of a manifest, whatever they hold, and gives its text with them.
pub(crate) fn parse_manifest(bytes: &[u8]) -> Result<(&str, Vec<Document>), Refusal> {
    if bytes.len() > MAX_MANIFEST {
        let reason = format!("has {} bytes, at most {MAX_MANIFEST} are allowed", bytes.len());
        return Err(Finding::whole(reason).into());
    }
    let text = std::str::from_utf8(bytes).map_err(|error| not_text(bytes, error.valid_up_to()))?;
    let documents = parse_documents(text).map_err(|error| {
        // The error may quote what it stumbled upon.
        let message = if text.contains("Secret") { "it holds a Secret" } else { error.message.as_str() };
        Finding::whole(format!("not valid {}: {message}", error.format)).at(error.position)
    })?;
    Ok((text, documents))
}

/// Tells where the fields are written that something is said about, for all of a text at once: each search is another
/// parse. With a finding go the number of its document and the path of the pod in it, which is empty if the document
/// is the pod.
pub(crate) fn locate<'a>(text: &str, findings: impl Iterator<Item = (usize, String, &'a mut Finding)>) {
    let findings: Vec<(usize, String, &mut Finding)> = findings
        .take(MAX_LOCATED)
        .map(|(document, mut path, finding)| {
            if !path.is_empty() && !finding.field.is_empty() {
                path.push('.');
            }
            (document, path + &finding.field, finding)
        })
        .collect();
    if findings.is_empty() {
        return;
    }
    let fields: Vec<(usize, &str)> =
        findings.iter().map(|(document, path, _)| (*document, path.as_str())).collect();
    let positions = find_positions(text, &fields);
    for ((.., finding), position) in findings.into_iter().zip(positions) {
        finding.position = position;
    }
}

/// Decodes a document that is already parsed. Its findings have no positions yet: see [`locate`].
pub(crate) fn decode_document(document: &Document, origin: &Origin<'_>) -> Result<Decoded, Refusal> {
    let mut remarks = Remarks::default();
    let decoded = decode_pod(document, origin, &mut remarks);
    let Remarks { mut problems, mut warnings, doubtful, not_honoured } = remarks;
    if origin.strict {
        problems.extend(doubtful);
    } else {
        warnings.extend(doubtful);
    }
    warnings.extend(not_honoured);
    if let Some(more) = warnings.len().checked_sub(MAX_PROBLEMS).filter(|more| *more > 0) {
        warnings.truncate(MAX_PROBLEMS);
        warnings.push(Finding::whole(format!("and {more} more warnings")));
    }
    match (decoded, Refusal::from_findings(one_per_field(problems))) {
        (Some(pod), None) => Ok(Decoded { pod, warnings }),
        (_, Some(refusal)) => Err(refusal.with_warnings(warnings)),
        // What gives no pod says why.
        (None, None) => Err(Finding::whole("not a Pod").into()),
    }
}

/// What is said about one manifest.
#[derive(Default)]
struct Remarks {
    /// Reasons to refuse it.
    problems: Vec<Finding>,
    /// What it says in vain.
    warnings: Vec<Finding>,
    /// Unknown and doubled fields: problems if that is asked for, else warnings.
    doubtful: Vec<Finding>,
    /// Fields that have no effect yet.
    not_honoured: Vec<Finding>,
}

/// The pod of a document, if its types are those of a Pod.
fn decode_pod(document: &Document, origin: &Origin<'_>, remarks: &mut Remarks) -> Option<Pod> {
    let manifest = &document.value;
    let doubled = |key: &String| Finding::new(key, "written more than once; the last counts");
    remarks.doubtful.extend(document.duplicate_keys.iter().map(doubled));
    let kinds = if origin.kubelet_strict { "Pod" } else { "Pod, ConfigMap or Secret" };
    if let Err(problem) = check_kind(manifest, kinds) {
        remarks.problems.push(problem);
        return None;
    }
    let hash = config_hash(manifest, origin.node_name, origin.path);
    let (typed, unknown) = decode_types(manifest);
    remarks.doubtful.extend(unknown);
    let report = check_fields(manifest);
    remarks.not_honoured.extend(report.warnings);
    let api_pod = match typed {
        Ok(api_pod) => api_pod,
        Err(problems) => {
            remarks.problems.extend(problems);
            return None;
        }
    };

    let mut metadata = api_pod.metadata;
    let mut spec = api_pod.spec.unwrap_or_default();
    if metadata.name.as_deref().unwrap_or_default().is_empty() {
        remarks.problems.push(Finding::new("metadata.name", "must not be empty"));
    }
    if let Some(other) =
        spec.node_name.as_deref().filter(|name| !name.is_empty() && *name != origin.node_name)
    {
        let reason = format!("{} is replaced by this node's name, {:?}", quoted(other), origin.node_name);
        remarks.warnings.push(Finding::new("spec.nodeName", reason));
    }
    let given = |key| metadata.annotations.as_ref().is_some_and(|all| all.contains_key(key));
    if given(AFTER_TIMEOUT) && !given(AFTER) {
        let reason = format!("has no effect without {AFTER}");
        remarks.warnings.push(Finding::new(annotations::field(AFTER_TIMEOUT), reason));
    }
    remarks.warnings.extend(security::old_annotations(&metadata));
    let (name, uid) = apply_identity(&mut metadata, &mut spec, &hash, origin);
    apply_defaults(&mut spec);
    let local_objects = if origin.kubelet_strict { LocalObjects::Refused } else { LocalObjects::Allowed };
    remarks.problems.extend(validate_pod(&metadata, &spec, local_objects));
    remarks.problems.extend(report.refusals);
    let container_hashes = container_hashes(manifest).into_iter().collect();
    Some(Pod { name, uid, hash, source: origin.source, metadata, spec, container_hashes })
}

fn not_text(bytes: &[u8], valid: usize) -> Finding {
    let beginning = bytes.get(..valid).and_then(|bytes| std::str::from_utf8(bytes).ok());
    Finding::whole(format!("not UTF-8 text at byte {valid}")).at(beginning.map(position_after))
}

fn check_kind(manifest: &Value, kinds: &str) -> Result<(), Finding> {
    if !manifest.is_object() {
        return Err(Finding::whole("not a Pod: the manifest is not a mapping"));
    }
    for (field, want) in [("kind", "Pod"), ("apiVersion", "v1")] {
        match &manifest[field] {
            Value::Null => return Err(Finding::new(field, format!("missing, must be {want}"))),
            Value::String(text) if text == want => {}
            other => {
                let want = if field == "kind" { kinds } else { want };
                return Err(Finding::new(field, format!("{} is not {want}", shown(other))));
            }
        }
    }
    Ok(())
}

/// A value in a few words.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a mapping".to_owned(),
        short => short.to_string(),
    }
}

/// Decodes the types, and tells which fields are unknown. A value of the wrong type is taken away and the rest decoded
/// anew, so that all of it is told at once.
fn decode_types(manifest: &Value) -> (Result<ApiPod, Vec<Finding>>, Vec<Finding>) {
    let mut manifest = manifest.clone();
    quote_quantities(&mut manifest["spec"]);
    let mut problems = Vec::new();
    loop {
        let mut unknown = Vec::new();
        match decode_once(&manifest, &mut unknown) {
            Ok(api_pod) if problems.is_empty() => return (Ok(api_pod), unknown),
            Ok(_) => return (Err(problems), unknown),
            Err((path, problem)) => {
                problems.push(problem);
                let taken = value_at(&mut manifest, &path).filter(|value| !value.is_null()).map(Value::take);
                if taken.is_none() || problems.len() == MAX_TYPE_ERRORS {
                    return (Err(problems), unknown);
                }
            }
        }
    }
}

/// Decodes the types up to the first value of the wrong one, and notes the unknown fields on the way.
fn decode_once(
    manifest: &Value,
    unknown: &mut Vec<Finding>,
) -> Result<ApiPod, (serde_path_to_error::Path, Finding)> {
    let mut note = |path: serde_ignored::Path<'_>| {
        // Looking for what was meant takes time, and after so many nobody asks.
        let meant = (unknown.len() < MAX_PROBLEMS).then(|| meant(&path)).flatten();
        let hint = meant.map(|name| format!(", did you mean {name:?}?")).unwrap_or_default();
        unknown.push(Finding::new(dotted(&path), format!("unknown field{hint}")));
    };
    let mut track = serde_path_to_error::Track::new();
    let ignored = serde_ignored::Deserializer::new(manifest, &mut note);
    ApiPod::deserialize(serde_path_to_error::Deserializer::new(ignored, &mut track)).map_err(|error| {
        let path = track.path();
        let field = Some(path.to_string()).filter(|field| field != ".").unwrap_or_default();
        let reason = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        (path, Finding::new(field, reason))
    })
}

/// The value at a path, unless that is the whole.
fn value_at<'a>(value: &'a mut Value, path: &serde_path_to_error::Path) -> Option<&'a mut Value> {
    use serde_path_to_error::Segment;
    let mut steps = path.iter().peekable();
    steps.peek()?;
    steps.try_fold(value, |value, step| match step {
        Segment::Seq { index } => value.get_mut(*index),
        Segment::Map { key } => value.get_mut(key),
        Segment::Enum { .. } | Segment::Unknown => None,
    })
}

/// The known field that an unknown one resembles.
fn meant(path: &serde_ignored::Path<'_>) -> Option<&'static str> {
    let serde_ignored::Path::Map { parent, key } = path else { return None };
    nearest(key, known::fields_at::<ApiPod>(parent).iter().copied())
}

/// Quantities may be written as numbers; their type takes only strings.
fn quote_quantities(value: &mut Value) {
    let quote = |value: &mut Value| {
        if value.is_number() {
            *value = Value::String(value.to_string());
        }
    };
    match value {
        Value::Array(items) => items.iter_mut().for_each(quote_quantities),
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                match (key.as_str(), &mut *value) {
                    ("limits" | "requests" | "overhead", Value::Object(list)) => {
                        list.values_mut().for_each(quote)
                    }
                    ("sizeLimit" | "divisor", value) => quote(value),
                    (_, value) => quote_quantities(value),
                }
            }
        }
        _ => {}
    }
}

/// A path as Kubernetes writes it.
fn dotted(path: &serde_ignored::Path<'_>) -> String {
    use serde_ignored::Path;
    match path {
        Path::Root => String::new(),
        Path::Seq { parent, index } => format!("{}[{index}]", dotted(parent)),
        Path::Map { parent, key } => {
            let parent = dotted(parent);
            if parent.is_empty() { key.clone() } else { format!("{parent}.{key}") }
        }
        Path::Some { parent } | Path::NewtypeStruct { parent } | Path::NewtypeVariant { parent } => {
            dotted(parent)
        }
    }
}

/// Keeps the first word on each field, and drops what is said of fields above or below it.
pub(crate) fn one_per_field(problems: Vec<Finding>) -> Vec<Finding> {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let below = |field: &str, other: &str| {
        field.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let mut kept = Vec::new();
    for problem in problems {
        if kept.len() == MAX_PROBLEMS {
            break;
        }
        let known = seen.iter().any(|other| below(&problem.field, other) || below(other, &problem.field));
        if !known {
            seen.insert(problem.field.clone());
            kept.push(problem);
        }
    }
    kept
}

#[cfg(test)]
mod tests;
