//! Reads the documents of a text into JSON values, from either parser.

use std::cell::RefCell;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::Format;
use super::key::{KeyNode, MappingKey};
use super::limits::{Budget, check_depth};
use super::resolve::{number_from_f64, resolve_plain};

/// More doubled keys than these are not noted.
const MAX_DUPLICATES: usize = 100;

/// What is common to all nodes of a document.
pub(super) struct DocumentReader<'a> {
    pub(super) format: Format,
    pub(super) text: &'a str,
    pub(super) duplicates: RefCell<Vec<String>>,
    pub(super) budget: &'a Budget,
}

/// How a scalar was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Quoted,
    /// After an explicit tag, `!!str` but for the ones that the parser resolves itself.
    Tagged,
    Binary,
}

impl<'a> DocumentReader<'a> {
    /// A reader of documents of this text.
    pub(super) fn new(format: Format, text: &'a str, budget: &'a Budget) -> Self {
        Self { format, text, duplicates: RefCell::default(), budget }
    }

    /// Reads a document.
    pub(super) fn document<'de, D: Deserializer<'de>>(&self, from: D) -> Result<Value, D::Error> {
        NodeReader { reader: self, path: &Path::Root, depth: 0 }.deserialize(from)
    }

    /// Tells from the bytes before a slice of the text how the scalar was written. Looks back no further than to the
    /// node before it, and pays for that: an alias may make it look again and again.
    pub(super) fn style<E: de::Error>(&self, scalar: &str) -> Result<Style, E> {
        if self.format == Format::Json {
            return Ok(Style::Quoted);
        }
        let offset = (scalar.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        let Some(before) = self.text.get(..offset) else {
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
    pub(super) fn string<E: de::Error>(&self, scalar: &str, style: Style) -> Result<Value, E> {
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
struct NodeReader<'a> {
    reader: &'a DocumentReader<'a>,
    path: &'a Path<'a>,
    /// How many lists and mappings are around it.
    depth: usize,
}

impl<'a> NodeReader<'a> {
    /// Pays for a list or mapping, and gives the depth of what is inside.
    fn enter<E: de::Error>(&self) -> Result<usize, E> {
        self.reader.budget.pay_node()?;
        check_depth(self.depth + 1)?;
        Ok(self.depth + 1)
    }

    fn inside<'b>(&'b self, path: &'b Path<'b>, depth: usize) -> NodeReader<'b> {
        NodeReader { reader: self.reader, path, depth }
    }
}

impl<'de> DeserializeSeed<'de> for NodeReader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NodeReader<'_> {
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
        number_from_f64(value).ok_or_else(|| E::custom("JSON has no infinity and no not-a-number"))
    }

    fn visit_borrowed_str<E: de::Error>(self, value: &'de str) -> Result<Value, E> {
        self.reader.string(value, self.reader.style(value)?)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        self.reader.string(value, Style::Quoted)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let depth = self.enter()?;
        let mut list = Vec::new();
        loop {
            let path = Path::Index(self.path, list.len());
            match items.next_element_seed(self.inside(&path, depth))? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let depth = self.enter()?;
        let mut map = Map::new();
        let mut merged = Vec::new();
        while let Some(key) = entries.next_key_seed(KeyNode { reader: self.reader })? {
            let MappingKey::Name(name) = key else {
                let path = Path::Key(self.path, "<<");
                merged.push(entries.next_value_seed(self.inside(&path, depth))?);
                continue;
            };
            let path = Path::Key(self.path, &name);
            let value = entries.next_value_seed(self.inside(&path, depth))?;
            if map.contains_key(&name) {
                let duplicate = path.to_string();
                let mut duplicates = self.reader.duplicates.borrow_mut();
                // Those at the top are few, and must not get lost among those of the items of a list.
                let most = if matches!(self.path, Path::Root) { 2 * MAX_DUPLICATES } else { MAX_DUPLICATES };
                if duplicates.len() < most && !duplicates.contains(&duplicate) {
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
