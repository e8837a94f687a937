//! The KubeletConfiguration file: decoded, checked field by field, merged. Pure: text in, values out.
//!
//! Invariant: a `KubeletConfiguration` holds only fields of the table, each of its kind, with every path absolute;
//! nulls are gone but for those inside lists. Whoever reads a field may therefore take a missing one for "unset", and nothing else.
//! It gives no defaults and knows no flags: those belong to `resolve` and `flags`.

pub(crate) mod fields;

use std::path::Path;

use serde_json::{Map, Value};

use self::fields::FIELDS;
use super::error::{ConfigError, Hint, shorten};
use super::kind::{Effect, Field, Kind};
use crate::text::suggest::nearest;
use crate::text::yaml::parse_documents;

const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
const KIND: &str = "KubeletConfiguration";

/// The settings of a file, or of several merged.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct KubeletConfiguration(Map<String, Value>);

impl KubeletConfiguration {
    /// Lays the text of a file over what is here: maps are merged, lists and scalars replaced, null unsets.
    ///
    /// The whole file is checked first; a file that is refused changes nothing. `path` names it in errors, and is
    /// where its relative paths start.
    pub(crate) fn merge_file(&mut self, text: &str, path: &Path) -> Result<(), ConfigError> {
        let mut root = decode(text, path)?;
        for (field, expected) in [("apiVersion", API_VERSION), ("kind", KIND)] {
            let found = root.remove(field).unwrap_or(Value::Null);
            if found != expected {
                return Err(ConfigError::WrongType { path: path.to_owned(), field, found, expected });
            }
        }
        check_object(FIELDS, &mut root, "", path)?;
        merge(&mut self.0, root);
        Ok(())
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
            (Some(Value::Object(known)), Value::Object(more), Some(Kind::BoolMap)) => known.extend(more),
            (_, value, _) => drop(map.insert(rest.to_owned(), value)),
        }
    }

    /// One field by its dotted path.
    pub(crate) fn get(&self, field: &str) -> Option<&Value> {
        let (first, rest) = field.split_once('.').map_or((field, None), |(first, rest)| (first, Some(rest)));
        let value = self.0.get(first)?;
        rest.into_iter().flat_map(|rest| rest.split('.')).try_fold(value, |value, name| value.get(name))
    }

    /// The paths of the fields that are set and on which rkubelet does not act yet.
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
        fields = if let Kind::Object(inner) = field.kind { inner } else { &[] };
        found = Some(field);
    }
    found
}

/// The path as it is if absolute or empty ("no path"), else below `base`.
pub(crate) fn absolute(path: &str, base: &Path) -> Value {
    if path.is_empty() || path.starts_with('/') {
        return path.into();
    }
    base.join(path).to_string_lossy().into()
}

/// The one object that the text holds.
fn decode(text: &str, path: &Path) -> Result<Map<String, Value>, ConfigError> {
    let refuse = |problem: String| Err(ConfigError::Syntax { path: path.to_owned(), problem });
    let mut documents = match parse_documents(text) {
        Ok(documents) => documents,
        Err(error) => return refuse(error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")),
    };
    documents.retain(|document| !document.value.is_null());
    let count = documents.len();
    match (documents.pop(), count) {
        (Some(document), 1) => match document.value {
            _ if !document.duplicate_keys.is_empty() => {
                refuse(format!("written twice: {}", document.duplicate_keys.join(", ")))
            }
            Value::Object(root) => Ok(root),
            other => refuse(format!("{} is not a {KIND}", shorten(&other))),
        },
        (None, _) => refuse(format!("is empty, it must hold a {KIND}")),
        _ => refuse(format!("holds {count} documents, it must hold one")),
    }
}

/// Checks every field of an object, and makes its paths absolute.
fn check_object(
    fields: &'static [Field],
    object: &mut Map<String, Value>,
    prefix: &str,
    path: &Path,
) -> Result<(), ConfigError> {
    for (name, value) in object {
        let full = format!("{prefix}{name}");
        let Some(field) = fields.iter().find(|field| field.name == name) else {
            let hint =
                nearest(name, fields.iter().map(|field| field.name)).map(|near| format!("{prefix}{near}"));
            return Err(ConfigError::UnknownField { path: path.to_owned(), field: full, hint: Hint(hint) });
        };
        if value.is_null() {
            continue;
        }
        if !field.kind.check(value) {
            // What is no header or URL may still hold a secret.
            let value = if matches!(field.kind, Kind::Headers | Kind::Url) {
                "***".to_owned()
            } else {
                shorten(value)
            };
            let expected = field.kind.expected();
            return Err(ConfigError::FieldValue { path: path.to_owned(), field: full, value, expected });
        }
        match (field.kind, value) {
            (Kind::Object(inner), Value::Object(object)) => {
                check_object(inner, object, &format!("{full}."), path)?
            }
            (Kind::Items(inner, _), Value::Array(items)) => {
                for (index, item) in items.iter_mut().enumerate() {
                    let Value::Object(object) = item else { continue };
                    check_object(inner, object, &format!("{full}[{index}]."), path)?;
                }
            }
            (Kind::Path, value) => {
                let base = path.parent().unwrap_or(Path::new(""));
                *value = absolute(value.as_str().unwrap_or_default(), base);
            }
            _ => {}
        }
    }
    Ok(())
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

fn collect_without_effect(
    fields: &'static [Field],
    object: &Map<String, Value>,
    prefix: &str,
    found: &mut Vec<String>,
) {
    for field in fields {
        match (field.kind, object.get(field.name)) {
            (_, None) => {}
            (Kind::Object(inner), Some(Value::Object(object))) => {
                collect_without_effect(inner, object, &format!("{prefix}{}.", field.name), found);
            }
            (_, Some(_)) if field.effect == Effect::Accepted => found.push(format!("{prefix}{}", field.name)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
