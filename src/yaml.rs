//! YAML as Kubernetes reads it, into JSON values. The one file that names `serde_yaml`.
//!
//! Kubernetes reads YAML 1.1 (`0644` is octal, `yes` is true); `serde_yaml` reads 1.2. The parser's
//! deserializer hands one-line scalars out as slices of the text, so the place of a slice tells whether it
//! was quoted or tagged, and a plain scalar that 1.2 leaves as a string is resolved here by the rules of 1.1.
//! Keys are always strings. Of a key written twice the last one counts, and its path is noted.
//!
//! Must not: panic or overflow the stack on any text, or grow far beyond the size of what it was given.

mod resolve;

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use resolve::{number_from_f64, resolve_plain};

/// The parser's time grows with the square of the depth of flow collections, so deep ones stop here.
const MAX_OPEN_BRACKETS: usize = 4096;

/// What aliases may make of a text: this many times its size, and a constant for small ones.
const MAX_GROWTH: usize = 10;
const FREE_GROWTH: usize = 1 << 20;

/// More doubled keys than these are not noted.
const MAX_DUPLICATES: usize = 100;

/// One document of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// The document as JSON.
    pub value: Value,
    /// The paths of keys that were written more than once in one mapping.
    pub duplicate_keys: Vec<String>,
}

/// A text that is not YAML, or that no JSON can hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct YamlError {
    message: String,
}

impl YamlError {
    fn new(message: impl fmt::Display) -> Self {
        let message = message.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        Self { message }
    }
}

/// Reads every document of a text. Documents that hold nothing but comments are skipped.
pub fn parse_documents(text: &str) -> Result<Vec<Document>, YamlError> {
    check_brackets(text)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let budget = Cell::new(text.len().saturating_mul(MAX_GROWTH).saturating_add(FREE_GROWTH));
    let mut documents = Vec::new();
    for document in serde_yaml::Deserializer::from_str(text) {
        let reader = Reader { text, duplicates: RefCell::default(), budget: &budget };
        let node = Node { reader: &reader, path: &Path::Root };
        let value = node.deserialize(document).map_err(YamlError::new)?;
        if !value.is_null() {
            documents.push(Document { value, duplicate_keys: reader.duplicates.into_inner() });
        }
    }
    Ok(documents)
}

/// Counts brackets without regard for quotes: real manifests come nowhere near the limit either way.
fn check_brackets(text: &str) -> Result<(), YamlError> {
    let mut open = 0_usize;
    for byte in text.bytes() {
        match byte {
            b'[' | b'{' => open += 1,
            b']' | b'}' => open = open.saturating_sub(1),
            _ => continue,
        }
        if open > MAX_OPEN_BRACKETS {
            return Err(YamlError::new("too many brackets are open at once"));
        }
    }
    Ok(())
}

/// What is common to all nodes of a document.
struct Reader<'a> {
    text: &'a str,
    duplicates: RefCell<Vec<String>>,
    budget: &'a Cell<usize>,
}

/// How a scalar was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Quoted,
    /// After an explicit tag, `!!str` but for the ones that the parser resolves itself.
    Tagged,
    Binary,
}

impl Reader<'_> {
    /// Takes from the budget what a node costs. An alias pays for its target each time.
    fn pay<E: de::Error>(&self, size: usize) -> Result<(), E> {
        match self.budget.get().checked_sub(size.saturating_add(8)) {
            Some(rest) => {
                self.budget.set(rest);
                Ok(())
            }
            None => Err(E::custom("aliases make the document too large")),
        }
    }

    /// Tells from the bytes before a slice of the text how the scalar was written.
    fn style(&self, scalar: &str) -> Style {
        let place = (scalar.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        let Some(before) = self.text.get(..place) else {
            return Style::Quoted; // Not a slice of the text: it had escapes or line breaks.
        };
        if before.ends_with(['"', '\'']) {
            return Style::Quoted;
        }
        // Before a plain scalar on its line, a tag and an anchor may stand, in either order.
        let line = before.rsplit('\n').next().unwrap_or_default();
        for word in line.split_whitespace().rev() {
            if word.ends_with([',', ':', '[', '{']) {
                break; // The end of what stands before, whatever it began with.
            }
            if word == "!!binary" {
                return Style::Binary;
            }
            if word.starts_with('!') {
                return Style::Tagged;
            }
            if !word.starts_with('&') {
                break;
            }
        }
        Style::Plain
    }

    /// The value of a scalar that the parser took for a string.
    fn string<E: de::Error>(&self, scalar: &str, style: Style) -> Result<Value, E> {
        self.pay(scalar.len())?;
        match style {
            Style::Binary => Err(E::custom("the tag !!binary is not supported")),
            Style::Plain => Ok(resolve_plain(scalar).unwrap_or_else(|| Value::from(scalar))),
            Style::Quoted | Style::Tagged => Ok(Value::from(scalar)),
        }
    }
}

/// Where a node is, for the names of duplicate keys.
enum Path<'a> {
    Root,
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Key(Path::Root, key) => f.write_str(key),
            Path::Key(parent, key) => write!(f, "{parent}.{key}"),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Reads one node and what is below it.
#[derive(Clone, Copy)]
struct Node<'a> {
    reader: &'a Reader<'a>,
    path: &'a Path<'a>,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        self.reader.pay(0)?;
        Ok(Value::Null)
    }

    fn visit_none<E: de::Error>(self) -> Result<Value, E> {
        self.visit_unit()
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        self.reader.pay(0)?;
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        self.reader.pay(0)?;
        Ok(Value::from(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        self.reader.pay(0)?;
        Ok(Value::from(value))
    }

    fn visit_u128<E: de::Error>(self, value: u128) -> Result<Value, E> {
        self.visit_f64(value as f64)
    }

    fn visit_i128<E: de::Error>(self, value: i128) -> Result<Value, E> {
        self.visit_f64(value as f64)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        self.reader.pay(0)?;
        number_from_f64(value).ok_or_else(|| E::custom("infinity and not-a-number have no place in JSON"))
    }

    fn visit_borrowed_str<E: de::Error>(self, value: &'de str) -> Result<Value, E> {
        self.reader.string(value, self.reader.style(value))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        self.reader.string(value, Style::Quoted)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        self.reader.pay(0)?;
        let mut list = Vec::new();
        loop {
            let path = Path::Index(self.path, list.len());
            match items.next_element_seed(Node { reader: self.reader, path: &path })? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        self.reader.pay(0)?;
        let mut map = Map::new();
        let mut merged = Vec::new();
        while let Some(key) = entries.next_key_seed(KeyNode { reader: self.reader })? {
            let Key::Name(name) = key else {
                let path = Path::Key(self.path, "<<");
                merged.push(entries.next_value_seed(Node { reader: self.reader, path: &path })?);
                continue;
            };
            let path = Path::Key(self.path, &name);
            let value = entries.next_value_seed(Node { reader: self.reader, path: &path })?;
            if map.contains_key(&name) {
                let duplicate = path.to_string();
                let mut duplicates = self.reader.duplicates.borrow_mut();
                if duplicates.len() < MAX_DUPLICATES && !duplicates.contains(&duplicate) {
                    duplicates.push(duplicate);
                }
            }
            map.insert(name, value);
        }
        for value in merged {
            merge(&mut map, value).map_err(A::Error::custom)?;
        }
        Ok(Value::Object(map))
    }

    fn visit_enum<A: de::EnumAccess<'de>>(self, access: A) -> Result<Value, A::Error> {
        let (tag, _) = access.variant::<String>()?;
        Err(A::Error::custom(format!("the tag !{tag} is not supported")))
    }
}

/// Adds what a merge key (`<<`) names: a mapping, or several of which the first wins. Written keys win over both.
fn merge(map: &mut Map<String, Value>, value: Value) -> Result<(), &'static str> {
    const WHAT: &str = "a merge key (<<) takes a mapping or a list of mappings";
    match value {
        Value::Object(other) => {
            for (key, value) in other {
                map.entry(key).or_insert(value);
            }
            Ok(())
        }
        Value::Array(items) if items.iter().all(Value::is_object) => {
            items.into_iter().try_for_each(|item| merge(map, item))
        }
        _ => Err(WHAT),
    }
}

/// A key: a name, or the sign that merges another mapping.
enum Key {
    Name(String),
    Merge,
}

/// Reads a key. Numbers and booleans become their usual spelling, as Kubernetes does it.
struct KeyNode<'a> {
    reader: &'a Reader<'a>,
}

impl KeyNode<'_> {
    fn name<E: de::Error>(&self, value: Value) -> Result<Key, E> {
        match value {
            Value::String(name) => Ok(Key::Name(name)),
            Value::Bool(_) | Value::Number(_) => Ok(Key::Name(value.to_string())),
            _ => Err(E::custom("a key must be a string")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for KeyNode<'_> {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for KeyNode<'_> {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key that is a string")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Key, E> {
        self.name(Value::Bool(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Key, E> {
        self.name(Value::from(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Key, E> {
        self.name(Value::from(value))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Key, E> {
        self.name(number_from_f64(value).unwrap_or_default())
    }

    fn visit_borrowed_str<E: de::Error>(self, value: &'de str) -> Result<Key, E> {
        let style = self.reader.style(value);
        if value == "<<" && style == Style::Plain {
            return Ok(Key::Merge);
        }
        self.name(self.reader.string(value, style)?)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Key, E> {
        self.name(self.reader.string(value, Style::Quoted)?)
    }
}

#[cfg(test)]
mod tests;
