//! The keys of mappings.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, Visitor};
use serde_json::Value;

use super::reader::{DocumentReader, Style};
use super::resolve::number_from_f64;

/// A key: a name, or the sign that merges another mapping.
pub(super) enum MappingKey {
    Name(String),
    Merge,
}

/// Reads a key. Numbers and booleans become their usual spelling, as Kubernetes does it.
pub(super) struct KeyNode<'a> {
    pub(super) reader: &'a DocumentReader<'a>,
}

impl KeyNode<'_> {
    fn name<E: de::Error>(&self, value: Value) -> Result<MappingKey, E> {
        match value {
            Value::String(name) => Ok(MappingKey::Name(name)),
            Value::Bool(_) | Value::Number(_) => Ok(MappingKey::Name(value.to_string())),
            _ => Err(E::custom("a key must be a string")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for KeyNode<'_> {
    type Value = MappingKey;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<MappingKey, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for KeyNode<'_> {
    type Value = MappingKey;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key that is a string")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<MappingKey, E> {
        self.name(Value::Bool(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<MappingKey, E> {
        self.name(Value::from(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<MappingKey, E> {
        self.name(Value::from(value))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<MappingKey, E> {
        self.name(number_from_f64(value).unwrap_or_default())
    }

    fn visit_borrowed_str<E: de::Error>(self, value: &'de str) -> Result<MappingKey, E> {
        let style = self.reader.style(value)?;
        if value == "<<" && style == Style::Plain {
            return Ok(MappingKey::Merge);
        }
        self.name(self.reader.string(value, style)?)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<MappingKey, E> {
        self.name(self.reader.string(value, Style::Quoted)?)
    }
}
