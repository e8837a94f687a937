//! YAML as Kubernetes reads it, into JSON values. The one file that names `serde_yaml`.
//!
//! Kubernetes reads YAML 1.1 (`0644` is octal, `yes` is true); `serde_yaml` reads 1.2. The parser's
//! deserializer hands one-line scalars out as slices of the text, so the place of a slice tells whether it
//! was quoted or tagged, and a plain scalar that 1.2 leaves as a string is resolved here by the rules of 1.1.
//! Keys are always strings. Of a key written twice the last one counts, and its path is noted.
//!
//! Must not: panic or overflow the stack on any text, or grow far beyond the size of what it was given.

mod key;
mod limits;
mod places;
mod resolve;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use key::{Key, KeyNode};
use limits::{Budget, check_text};
use places::{Cursor, Search, places_at};
use resolve::{number_from_f64, resolve_plain};

/// Some editors put it before the text.
const BOM: char = '\u{feff}';

/// More documents than these nobody serves from one place.
const MAX_DOCUMENTS: usize = 5000;

/// More doubled keys than these are not noted.
const MAX_DUPLICATES: usize = 100;

/// A place in a text, as editors count: lines and columns begin at 1, a column is a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// One document of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Which document of the text it is, from 1; empty ones are counted.
    pub number: usize,
    /// The document as JSON.
    pub value: Value,
    /// The paths of keys that were written more than once in one mapping.
    pub duplicate_keys: Vec<String>,
}

/// A text that is not YAML, or that no JSON can hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", .place.map(|at| format!(" at line {} column {}", at.line, at.column)).unwrap_or_default())]
pub struct YamlError {
    /// What is the matter, in one line.
    pub message: String,
    /// Where, if that is known; the message does not repeat it.
    pub place: Option<Place>,
}

impl YamlError {
    fn new(message: impl fmt::Display) -> Self {
        let message = message.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        Self { message, place: None }
    }
}

impl From<serde_yaml::Error> for YamlError {
    fn from(error: serde_yaml::Error) -> Self {
        let mut told = Self::new(&error);
        if let Some(at) = error.location() {
            let suffix = format!(" at line {} column {}", at.line(), at.column());
            // After it comes at most what the parser was in the middle of, with a position of its own.
            let is_whole = |at: &usize| {
                !told.message[at + suffix.len()..].starts_with(|next: char| next.is_ascii_digit())
            };
            let end = told.message.match_indices(&suffix).map(|(at, _)| at).find(is_whole);
            told.message.truncate(end.unwrap_or(told.message.len()));
            told.place = Some(Place { line: at.line(), column: at.column() });
        }
        told
    }
}

/// Reads every document of a text. Documents that hold nothing but comments are skipped.
pub fn parse_documents(text: &str) -> Result<Vec<Document>, YamlError> {
    check_text(text)?;
    let text = text.strip_prefix(BOM).unwrap_or(text);
    let budget = Budget::of(text);
    let mut documents = Vec::new();
    for (document, number) in serde_yaml::Deserializer::from_str(text).zip(1..) {
        if number > MAX_DOCUMENTS {
            return Err(YamlError::new(format!("holds more than {MAX_DOCUMENTS} documents")));
        }
        let reader = Reader { text, duplicates: RefCell::default(), budget: &budget };
        let node = Node { reader: &reader, path: &Path::Root };
        let value = node.deserialize(document)?;
        if !value.is_null() {
            documents.push(Document { number, value, duplicate_keys: reader.duplicates.into_inner() });
        }
    }
    Ok(documents)
}

/// Where fields stand in the text that they were parsed from, each given by the number of its document and its path:
/// at the key, or where a list's item begins. What is not written stands where the nearest thing above it does.
/// Costs a second parse, one for all fields: not for the hot path.
pub fn find_places(text: &str, fields: &[(usize, &str)]) -> Vec<Option<Place>> {
    let text = text.strip_prefix(BOM).unwrap_or(text);
    let mut documents: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, (document, _)) in fields.iter().enumerate() {
        documents.entry(*document).or_default().push(index);
    }
    let last = documents.keys().next_back().copied().unwrap_or_default();
    let mut offsets = vec![None; fields.len()];
    for (document, number) in serde_yaml::Deserializer::from_str(text).take(last).zip(1..) {
        let Some(indexes) = documents.get(&number) else { continue };
        let paths: Vec<&str> = indexes.iter().map(|index| fields[*index].1).collect();
        let search = Search::new(text, &paths);
        // What was found before an error stands; there is none in a text that was parsed before.
        let _ = search.root().deserialize(document);
        for (index, offset) in indexes.iter().zip(search.offsets()) {
            offsets[*index] = offset;
        }
    }
    places_at(text, &offsets)
}

/// The place after this beginning of a text.
pub(crate) fn place_after(beginning: &str) -> Place {
    let mut cursor = Cursor::new(beginning.strip_prefix(BOM).unwrap_or(beginning));
    cursor.advance(beginning.len())
}

/// What is common to all nodes of a document.
struct Reader<'a> {
    text: &'a str,
    duplicates: RefCell<Vec<String>>,
    budget: &'a Budget,
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
    /// Tells from the bytes before a slice of the text how the scalar was written. Looks back no further than to the
    /// node before it, and pays for that: an alias may make it look again and again.
    fn style<E: de::Error>(&self, scalar: &str) -> Result<Style, E> {
        let place = (scalar.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        let Some(before) = self.text.get(..place) else {
            return Ok(Style::Quoted); // Not a slice of the text: it had escapes or line breaks.
        };
        if before.ends_with(['"', '\'']) {
            return Ok(Style::Quoted);
        }
        // Before a plain scalar on its line, a tag and an anchor may stand, in either order.
        let mut rest = before;
        let style = loop {
            rest = rest.trim_end_matches(|c: char| c.is_whitespace() && c != '\n');
            // The end of what stands before, whatever it began with.
            if rest.is_empty() || rest.ends_with(['\n', ',', ':', '[', '{']) {
                break Style::Plain;
            }
            let word = rest.rsplit(char::is_whitespace).next().unwrap_or_default();
            rest = rest.strip_suffix(word).unwrap_or_default();
            if word == "!!binary" {
                break Style::Binary;
            }
            if word.starts_with('!') {
                break Style::Tagged;
            }
            if !word.starts_with('&') {
                break Style::Plain;
            }
        };
        self.budget.pay_bytes(before.len() - rest.len())?;
        Ok(style)
    }

    /// The value of a scalar that the parser took for a string.
    fn string<E: de::Error>(&self, scalar: &str, style: Style) -> Result<Value, E> {
        self.budget.pay_node()?;
        self.budget.pay_bytes(scalar.len())?;
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
        self.reader.budget.pay_node()?;
        Ok(Value::Null)
    }

    fn visit_none<E: de::Error>(self) -> Result<Value, E> {
        self.visit_unit()
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        self.reader.budget.pay_node()?;
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        self.reader.budget.pay_node()?;
        Ok(Value::from(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        self.reader.budget.pay_node()?;
        Ok(Value::from(value))
    }

    fn visit_u128<E: de::Error>(self, value: u128) -> Result<Value, E> {
        self.visit_f64(value as f64)
    }

    fn visit_i128<E: de::Error>(self, value: i128) -> Result<Value, E> {
        self.visit_f64(value as f64)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        self.reader.budget.pay_node()?;
        number_from_f64(value).ok_or_else(|| E::custom("infinity and not-a-number have no place in JSON"))
    }

    fn visit_borrowed_str<E: de::Error>(self, value: &'de str) -> Result<Value, E> {
        self.reader.string(value, self.reader.style(value)?)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        self.reader.string(value, Style::Quoted)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        self.reader.budget.pay_node()?;
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
        self.reader.budget.pay_node()?;
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

#[cfg(test)]
mod tests;
