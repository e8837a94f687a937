//! The KubeletConfiguration file: decoded, checked field by field, merged. Pure: text in, values out.
//!
//! Invariant: a `KubeletConfiguration` holds only fields of the table, each of its kind, with every path absolute;
//! nulls are gone but for those inside lists. A missing field therefore means "unset", and nothing else.
//! It gives no defaults and knows no flags: those belong to `resolve` and `flags`. What the values mean together is
//! checked by `validate`, after flags and files are merged.

pub(crate) mod fields;

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};

use self::fields::{FIELDS, ZERO_IS_A_CHOICE};
use super::error::{ConfigError, Ignored, Suggestion, shorten};
use super::kind::{Effect, Field, ValueKind};
use crate::text::suggest::nearest;
use crate::text::yaml::parse_documents;
use crate::time::duration::{format_duration, parse_duration};

const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
const KIND: &str = "KubeletConfiguration";

/// The settings of a file, or of several merged.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct KubeletConfiguration(Map<String, Value>);

impl KubeletConfiguration {
    /// Merges the text of a file into the settings: maps are merged, lists and scalars replaced, null unsets.
    ///
    /// The whole file is checked first; a file that is refused changes nothing. `path` names it in errors, and is
    /// where its relative paths start. Returns what is ignored of it.
    pub(crate) fn merge_file(&mut self, text: &str, path: &Path) -> Result<Vec<Ignored>, ConfigError> {
        let (mut root, mut ignored) = decode(text, path)?;
        for (field, expected) in [("apiVersion", API_VERSION), ("kind", KIND)] {
            let found = root.remove(field).unwrap_or(Value::Null);
            if found != expected {
                return Err(ConfigError::WrongType { path: path.to_owned(), field, found, expected });
            }
        }
        check_object(FIELDS, &mut root, "", path, &mut ignored)?;
        merge(&mut self.0, root);
        Ok(ignored)
    }

    /// Sets one field, given by its dotted path, to what a flag says.
    pub(crate) fn set(&mut self, field: &str, value: Value) {
        let mut map = &mut self.0;
        let mut rest = field;
        while let Some((name, inner)) = rest.split_once('.') {
            let entry = map.entry(name).or_insert_with(|| Value::Object(Map::new()));
            let Value::Object(object) = entry else { return };
            (map, rest) = (object, inner);
        }
        match (map.get_mut(rest), value, field_at(field).map(|field| field.kind)) {
            (Some(Value::Object(known)), Value::Object(more), Some(ValueKind::BoolMap)) => known.extend(more),
            (_, value, _) => drop(map.insert(rest.to_owned(), value)),
        }
    }

    /// One field by its dotted path.
    pub(crate) fn get(&self, field: &str) -> Option<&Value> {
        let (first, rest) = field.split_once('.').map_or((field, None), |(first, rest)| (first, Some(rest)));
        let value = self.0.get(first)?;
        rest.into_iter().flat_map(|rest| rest.split('.')).try_fold(value, |value, name| value.get(name))
    }

    /// Writes what is set over defaults, as kubelet shows it: durations as Go writes them, and no header's value.
    pub(crate) fn show(&self, defaults: &mut Value) {
        if let Value::Object(shown) = defaults {
            show(FIELDS, &self.0, "", shown);
        }
    }

    /// The paths of the fields that ask for something on which rkubelet does not act yet.
    pub(crate) fn without_effect(&self) -> Vec<String> {
        let mut found = Vec::new();
        collect_without_effect(FIELDS, &self.0, "", &mut found);
        found
    }
}

/// The row of the table at a dotted path.
pub(crate) fn field_at(path: &str) -> Option<&'static Field> {
    let mut fields = FIELDS;
    let mut found = None;
    for name in path.split('.') {
        let field = fields.iter().find(|field| field.name == name)?;
        fields = if let ValueKind::Object(inner) = field.kind { inner } else { &[] };
        found = Some(field);
    }
    found
}

/// The path as it is if absolute or empty ("no path"), else below `base` and without `.` and `..`, as kubelet joins.
pub(crate) fn absolute(path: &str, base: &Path) -> Value {
    if path.is_empty() || path.starts_with('/') {
        return path.into();
    }
    normalize(&base.join(path)).to_string_lossy().into()
}

/// The path without `.`, `..` and doubled or trailing slashes. Links are not looked at.
pub(crate) fn normalize(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            // Above the root is the root.
            Component::ParentDir => drop(parts.pop()),
            other => parts.push(other),
        }
    }
    parts
}

/// The first object that the text holds, and what of the text is ignored.
fn decode(text: &str, path: &Path) -> Result<(Map<String, Value>, Vec<Ignored>), ConfigError> {
    let refuse = |problem: String| Err(ConfigError::Syntax { path: path.to_owned(), problem });
    let mut documents = match parse_documents(text) {
        Ok(documents) => documents,
        Err(error) => return refuse(error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")),
    };
    documents.retain(|document| !document.value.is_null());
    let count = documents.len();
    let Some(document) = documents.into_iter().next() else {
        return refuse(format!("is empty, it must hold a {KIND}"));
    };
    let Value::Object(root) = document.value else {
        return refuse(format!("{} is not a {KIND}", shorten(&document.value)));
    };
    let doubled = document.duplicate_keys.into_iter().map(|field| Ignored::DoubledField { field });
    let more = (count > 1).then_some(Ignored::Documents { count });
    Ok((root, doubled.chain(more).collect()))
}

/// Checks every field of an object, makes its paths absolute, and takes unknown fields out.
fn check_object(
    fields: &'static [Field],
    object: &mut Map<String, Value>,
    prefix: &str,
    path: &Path,
    ignored: &mut Vec<Ignored>,
) -> Result<(), ConfigError> {
    object.retain(|name, _| {
        let known = fields.iter().any(|field| field.name == name);
        if !known {
            let field = format!("{prefix}{name}");
            ignored.push(Ignored::UnknownField { field, hint: hint(name, fields, prefix) });
        }
        known
    });
    for (name, value) in object {
        let full = format!("{prefix}{name}");
        let Some(field) = fields.iter().find(|field| field.name == name) else { continue };
        if value.is_null() {
            continue;
        }
        if !field.kind.check(value) {
            // A text that is not a header or a URL may still contain a secret.
            let value = if matches!(field.kind, ValueKind::Headers | ValueKind::Url) {
                "***".to_owned()
            } else {
                shorten(value)
            };
            let expected = field.kind.expected();
            return Err(ConfigError::FieldValue { path: path.to_owned(), field: full, value, expected });
        }
        match (field.kind, value) {
            (ValueKind::Object(inner), Value::Object(object)) => {
                check_object(inner, object, &format!("{full}."), path, ignored)?;
            }
            (ValueKind::Items(items_kind), Value::Array(items)) => {
                for (index, item) in items.iter_mut().enumerate() {
                    let Value::Object(object) = item else { continue };
                    let prefix = format!("{full}[{index}].");
                    check_object(items_kind.fields, object, &prefix, path, ignored)?;
                }
            }
            (ValueKind::Path, value) => {
                let base = path.parent().unwrap_or(Path::new(""));
                *value = absolute(value.as_str().unwrap_or_default(), base);
            }
            _ => {}
        }
    }
    Ok(())
}

/// The field that was probably meant: one beside it with a similar name, or one of this name at another place.
fn hint(name: &str, fields: &'static [Field], prefix: &str) -> Suggestion {
    let beside = nearest(name, fields.iter().map(|field| field.name)).map(|near| format!("{prefix}{near}"));
    Suggestion(beside.or_else(|| {
        let mut elsewhere = Vec::new();
        find_named(name, FIELDS, "", &mut elsewhere);
        if elsewhere.len() == 1 { elsewhere.pop() } else { None }
    }))
}

/// The paths of all fields of this name.
fn find_named(name: &str, fields: &'static [Field], prefix: &str, found: &mut Vec<String>) {
    for field in fields {
        let path = format!("{prefix}{}", field.name);
        if let ValueKind::Object(inner) = field.kind {
            find_named(name, inner, &format!("{path}."), found);
        }
        if field.name == name {
            found.push(path);
        }
    }
}

/// RFC 7396 (JSON merge patch), as kubelet merges its drop-ins.
fn merge(base: &mut Map<String, Value>, over: Map<String, Value>) {
    for (key, value) in over {
        match value {
            Value::Null => drop(base.remove(&key)),
            Value::Object(over) => {
                let entry = base.entry(key).or_insert(Value::Null);
                if !entry.is_object() {
                    *entry = Value::Object(Map::new());
                }
                if let Value::Object(inner) = entry {
                    merge(inner, over);
                }
            }
            other => drop(base.insert(key, other)),
        }
    }
}

fn show(fields: &'static [Field], object: &Map<String, Value>, prefix: &str, shown: &mut Map<String, Value>) {
    for field in fields {
        let Some(value) = object.get(field.name) else { continue };
        let path = format!("{prefix}{}", field.name);
        if let (ValueKind::Object(inner), Value::Object(object)) = (field.kind, value) {
            let entry = shown.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(shown) = entry {
                show(inner, object, &format!("{path}."), shown);
            }
            continue;
        }
        // What is zero means the default.
        if field.kind.is_zero(value) && !ZERO_IS_A_CHOICE.contains(&path.as_str()) {
            continue;
        }
        shown.insert(field.name.to_owned(), shown_value(field.kind, value));
    }
}

fn shown_value(kind: ValueKind, value: &Value) -> Value {
    match (kind, value) {
        (ValueKind::Duration(..) | ValueKind::DurationOrNanos, Value::String(text)) => {
            let nanos = parse_duration(text).and_then(|nanos| u64::try_from(nanos).ok());
            nanos.map_or_else(|| value.clone(), |nanos| format_duration(Duration::from_nanos(nanos)).into())
        }
        // A header may be a credential.
        (ValueKind::Headers, Value::Object(headers)) => headers
            .keys()
            .map(|name| (name.clone(), Value::from(vec!["<masked>"])))
            .collect::<Map<_, _>>()
            .into(),
        // An address may hold a password or a token; what is printed of it does not.
        (ValueKind::Url, Value::String(text)) => text
            .parse::<crate::text::url::Url>()
            .map_or_else(|_| "<masked>".into(), |url| url.to_string().into()),
        _ => value.clone(),
    }
}

fn collect_without_effect(
    fields: &'static [Field],
    object: &Map<String, Value>,
    prefix: &str,
    found: &mut Vec<String>,
) {
    for field in fields {
        match (field.kind, object.get(field.name)) {
            (_, None) => {}
            (ValueKind::Object(inner), Some(Value::Object(object))) => {
                collect_without_effect(inner, object, &format!("{prefix}{}.", field.name), found);
            }
            (kind, Some(value)) if field.effect == Effect::Accepted => {
                let path = format!("{prefix}{}", field.name);
                if !kind.is_zero(value) || ZERO_IS_A_CHOICE.contains(&path.as_str()) {
                    found.push(path);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
