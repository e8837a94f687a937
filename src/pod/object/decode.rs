//! From a document to a ConfigMap or Secret, or to the reasons why not. No reason holds a value of the document.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::{Digest, Object, ObjectKey, ObjectKind, ObjectValue};
use crate::pod::Source;
use crate::pod::decode::{MAX_PROBLEMS, Origin, one_per_field};
use crate::pod::finding::{Finding, Refusal};
use crate::pod::image::keyring::{DockerFile, Keyring};
use crate::pod::validate::names::{not_label, not_subdomain};
use crate::text::excerpt::quoted;
use crate::text::suggest::nearest;
use crate::text::yaml::Document;

/// What all values of an object may weigh together, as in Kubernetes.
const MAX_OBJECT: usize = 1 << 20;
/// The longest key.
const MAX_KEY: usize = 253;

const CONFIG_MAP_FIELDS: &[&str] = &["apiVersion", "kind", "metadata", "data", "binaryData", "immutable"];
const SECRET_FIELDS: &[&str] = &["apiVersion", "kind", "metadata", "data", "stringData", "immutable", "type"];
const METADATA_FIELDS: &[&str] = &[
    "name",
    "namespace",
    "labels",
    "annotations",
    "uid",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
];

/// The type of a Secret for a registry: docker's `config.json`.
pub(super) const DOCKER_CONFIG_JSON: (&str, &str) = ("kubernetes.io/dockerconfigjson", ".dockerconfigjson");
/// The same in docker's old format.
pub(super) const DOCKERCFG: (&str, &str) = ("kubernetes.io/dockercfg", ".dockercfg");

/// An object, and what its author should know.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DecodedObject {
    /// The object.
    pub(crate) object: Object,
    /// What the manifest says in vain.
    pub(crate) warnings: Vec<Finding>,
}

/// The kind of a document, if it is an object's.
pub(crate) fn kind_of(manifest: &Value) -> Option<ObjectKind> {
    ObjectKind::parse(manifest["kind"].as_str()?)
}

/// Which object a document would be if the rest of it were good.
pub(crate) fn key_of(manifest: &Value) -> Option<ObjectKey> {
    let (kind, metadata) = (kind_of(manifest)?, &manifest["metadata"]);
    let name = metadata["name"].as_str().filter(|name| not_subdomain(name).is_none())?;
    let namespace = match &metadata["namespace"] {
        Value::Null => "default",
        Value::String(namespace) if namespace.is_empty() => "default",
        Value::String(namespace) => namespace,
        _ => return None,
    };
    not_label(namespace).is_none().then(|| ObjectKey::new(kind, namespace, name))
}

/// Decodes a document that is already parsed. Its findings have no positions yet.
pub(crate) fn decode_object(document: &Document, origin: &Origin<'_>) -> Result<DecodedObject, Refusal> {
    let mut problems = Vec::new();
    let mut doubtful: Vec<_> = document
        .duplicate_keys
        .iter()
        .map(|key| Finding::new(key, "written more than once; the last counts"))
        .collect();
    let object = read(&document.value, origin, &mut problems, &mut doubtful);
    doubtful.truncate(MAX_PROBLEMS);
    let mut warnings = Vec::new();
    if origin.strict {
        problems.extend(doubtful);
    } else {
        warnings = doubtful;
    }
    match (object, Refusal::from_findings(one_per_field(problems))) {
        (Some(object), None) => Ok(DecodedObject { object, warnings }),
        (_, Some(refusal)) => Err(refusal.with_warnings(warnings)),
        (None, None) => Err(Finding::whole("not a ConfigMap or Secret").into()),
    }
}

fn read(
    manifest: &Value,
    origin: &Origin<'_>,
    problems: &mut Vec<Finding>,
    doubtful: &mut Vec<Finding>,
) -> Option<Object> {
    let kind = kind_of(manifest)?;
    if manifest["apiVersion"] != "v1" {
        problems.push(Finding::new("apiVersion", "must be v1"));
        return None;
    }
    let fields = match kind {
        ObjectKind::ConfigMap => CONFIG_MAP_FIELDS,
        ObjectKind::Secret => SECRET_FIELDS,
    };
    note_unknown(manifest, "", fields, doubtful);
    let metadata = &manifest["metadata"];
    note_unknown(metadata, "metadata.", METADATA_FIELDS, doubtful);
    check_names(metadata, problems);
    let mut immutable = false;
    match &manifest["immutable"] {
        Value::Null => {}
        Value::Bool(value) => immutable = *value,
        _ => problems.push(Finding::new("immutable", "must be true or false")),
    }
    let mut read_map = |field: &str, encoded: bool| read_values(manifest, field, encoded, problems);
    let (data, binary_data) = match kind {
        ObjectKind::ConfigMap => (read_map("data", false), read_map("binaryData", true)),
        ObjectKind::Secret => {
            let mut data = read_map("data", true);
            data.extend(read_map("stringData", false));
            (data, BTreeMap::new())
        }
    };
    for key in data.keys().filter(|key| binary_data.contains_key(*key)) {
        problems.push(Finding::new(at("binaryData", key), "the same key is in data"));
    }
    let size: usize = data.values().chain(binary_data.values()).map(|value| value.bytes().len()).sum();
    if size > MAX_OBJECT {
        let reason = format!("has {size} bytes of data, at most {MAX_OBJECT} are allowed");
        problems.push(Finding::new("data", reason));
    }
    let mut secret_type = None;
    if kind == ObjectKind::Secret {
        match &manifest["type"] {
            Value::Null => {}
            Value::String(text) => {
                check_type(text, &data, problems);
                secret_type = Some(text.as_str());
            }
            _ => problems.push(Finding::new("type", "must be a string")),
        }
    }
    let key = key_of(manifest)?;
    Some(build(key, origin.source, data, binary_data, immutable, secret_type))
}

/// An object of these parts.
pub(super) fn build(
    key: ObjectKey,
    source: Source,
    data: BTreeMap<String, ObjectValue>,
    binary_data: BTreeMap<String, ObjectValue>,
    immutable: bool,
    secret_type: Option<&str>,
) -> Object {
    let mut hasher = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hasher.update((bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    add(secret_type.unwrap_or_default().as_bytes());
    for map in [&data, &binary_data] {
        add(&(map.len() as u64).to_le_bytes());
        for (key, value) in map {
            add(key.as_bytes());
            add(value.bytes());
        }
    }
    add(&[u8::from(immutable)]);
    let digest = Digest(hasher.finalize().into());
    let secret_type = secret_type.map(str::to_owned);
    Object { key, source, data, binary_data, immutable, secret_type, digest }
}

/// The path of a value.
fn at(field: &str, key: &str) -> String {
    format!("{field}[{key}]")
}

fn note_unknown(value: &Value, prefix: &str, known: &[&'static str], doubtful: &mut Vec<Finding>) {
    let fields = value.as_object().into_iter().flatten().map(|(field, _)| field);
    for field in fields.filter(|field| !known.contains(&field.as_str())).take(MAX_PROBLEMS) {
        let meant = nearest(field, known.iter().copied());
        let hint = meant.map(|name| format!(", did you mean {name:?}?")).unwrap_or_default();
        doubtful.push(Finding::new(format!("{prefix}{field}"), format!("unknown field{hint}")));
    }
}

fn check_names(metadata: &Value, problems: &mut Vec<Finding>) {
    let mut check = |field: &str, reason: Option<String>| {
        problems.extend(reason.map(|reason| Finding::new(format!("metadata.{field}"), reason)));
    };
    match &metadata["name"] {
        Value::String(name) => check("name", not_subdomain(name)),
        _ => check("name", Some("must not be empty".to_owned())),
    }
    match &metadata["namespace"] {
        Value::Null => {}
        Value::String(namespace) if namespace.is_empty() => {}
        Value::String(namespace) => check("namespace", not_label(namespace)),
        _ => check("namespace", Some("must be a string".to_owned())),
    }
}

fn read_values(
    manifest: &Value,
    field: &str,
    encoded: bool,
    problems: &mut Vec<Finding>,
) -> BTreeMap<String, ObjectValue> {
    let none = Map::new();
    let map = match &manifest[field] {
        Value::Null => &none,
        Value::Object(map) => map,
        _ => {
            problems.push(Finding::new(field, "must be a mapping"));
            &none
        }
    };
    let mut values = BTreeMap::new();
    for (key, value) in map {
        if let Some(reason) = not_key(key) {
            problems.push(Finding::new(at(field, key), reason));
        }
        let bytes = match value {
            // As the API server takes it.
            Value::Null => Vec::new(),
            Value::String(text) if encoded => match decode_base64(text) {
                Some(bytes) => bytes,
                None => {
                    problems.push(Finding::new(at(field, key), "is not base64"));
                    continue;
                }
            },
            Value::String(text) => text.clone().into_bytes(),
            _ => {
                problems.push(Finding::new(at(field, key), "must be a string"));
                continue;
            }
        };
        values.insert(key.clone(), bytes.into());
    }
    values
}

/// Line breaks count for nothing, as in Go.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let text: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\n' | b'\r')).collect();
    STANDARD.decode(text).ok()
}

/// The reason why a text is not a key of an object, if it is not. A key becomes the name of a file.
pub(crate) fn not_key(key: &str) -> Option<String> {
    let is_shaped = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if key.len() > MAX_KEY {
        Some(format!("the key has {} characters, at most {MAX_KEY} are allowed", key.len()))
    } else if key.is_empty() || !key.bytes().all(is_shaped) {
        Some(format!("{} is not a key: letters, digits, '-', '_' and '.' are allowed", quoted(key)))
    } else if key == "." || key.starts_with("..") {
        Some(format!("{} is not a key: it must not be '.' or begin with '..'", quoted(key)))
    } else {
        None
    }
}

/// What the types of Secrets promise.
fn check_type(secret_type: &str, data: &BTreeMap<String, ObjectValue>, problems: &mut Vec<Finding>) {
    let has = |key: &str| data.contains_key(key);
    let mut need = |key: &str, found: bool| {
        if !found {
            let reason = format!("is needed in a Secret of type {secret_type}");
            problems.push(Finding::new(at("data", key), reason));
        }
    };
    match secret_type {
        "kubernetes.io/basic-auth" => need("username", has("username") || has("password")),
        "kubernetes.io/ssh-auth" => need("ssh-privatekey", has("ssh-privatekey")),
        "kubernetes.io/tls" => {
            need("tls.crt", has("tls.crt"));
            need("tls.key", has("tls.key"));
        }
        docker if docker == DOCKER_CONFIG_JSON.0 || docker == DOCKERCFG.0 => {
            let (key, file) = match docker == DOCKERCFG.0 {
                true => (DOCKERCFG.1, DockerFile::Dockercfg),
                false => (DOCKER_CONFIG_JSON.1, DockerFile::ConfigJson),
            };
            need(key, has(key));
            if let Some(value) = data.get(key) {
                let parsed = std::str::from_utf8(value.bytes()).map(|text| Keyring::parse(text, file));
                // The error names a line and a column of the value, and nothing of what it holds.
                let reason = match parsed {
                    Ok(Ok(_)) => return,
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "not UTF-8 text".to_owned(),
                };
                problems.push(Finding::new(at("data", key), reason));
            }
        }
        _ => {}
    }
}

/// The keys that are in a list more than once.
pub(crate) fn doubled<'k>(keys: impl Iterator<Item = &'k ObjectKey>) -> Option<&'k ObjectKey> {
    let mut seen = BTreeSet::new();
    keys.into_iter().find(|key| !seen.insert(*key))
}

#[cfg(test)]
mod tests;
