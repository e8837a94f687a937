//! YAML and JSON as Kubernetes reads them, into JSON values. The one room that names `serde_yaml`.
//!
//! A text that begins with a brace is read as JSON if it is JSON; JSON is no subset of YAML in practice. Anything else
//! is YAML. Kubernetes reads YAML 1.1 (`0644` is octal, `yes` is true); `serde_yaml` reads 1.2. The parser's
//! deserializer hands one-line scalars out as slices of the text, so the position of a slice tells whether it
//! was quoted or tagged, and a plain scalar that 1.2 leaves as a string is resolved here by the rules of 1.1.
//! Keys are always strings. Of a key written twice the last one counts, and its path is noted.
//!
//! Must not: panic or overflow the stack on any text, or grow far beyond the size of what it was given.

mod json;
mod key;
mod limits;
mod outline;
mod positions;
mod reader;
mod resolve;
pub(crate) mod write;

use std::collections::BTreeMap;
use std::fmt;

use serde::de::DeserializeSeed as _;
use serde_json::Value;

use limits::{Budget, check_text};
use positions::{Cursor, Search, positions_at};
use reader::DocumentReader;

/// Some editors put it before the text.
const BOM: char = '\u{feff}';

/// More documents than these nobody serves from one URL.
const MAX_DOCUMENTS: usize = 5000;

/// A position in a text, as editors count: lines and columns begin at 1, a column is a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Position {
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

/// What a text is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// YAML.
    Yaml,
    /// JSON.
    Json,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Yaml => "YAML",
            Format::Json => "JSON",
        })
    }
}

/// A text that is neither YAML nor JSON, or that no JSON can hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", .position.map(|at| format!(" at line {} column {}", at.line, at.column)).unwrap_or_default())]
pub struct SyntaxError {
    /// What the text seems to be written in.
    pub format: Format,
    /// What is the matter, in one line.
    pub message: String,
    /// Where, if that is known; the message does not repeat it.
    pub position: Option<Position>,
}

impl SyntaxError {
    fn yaml(message: impl fmt::Display) -> Self {
        let message = message.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        Self { format: Format::Yaml, message, position: None }
    }
}

impl From<serde_yaml::Error> for SyntaxError {
    fn from(error: serde_yaml::Error) -> Self {
        let mut told = Self::yaml(&error);
        if let Some(at) = error.location() {
            let suffix = format!(" at line {} column {}", at.line(), at.column());
            // After it comes at most what the parser was in the middle of, with a position of its own.
            let is_whole = |at: &usize| {
                !told.message[at + suffix.len()..].starts_with(|next: char| next.is_ascii_digit())
            };
            let end = told.message.match_indices(&suffix).map(|(at, _)| at).find(is_whole);
            told.message.truncate(end.unwrap_or(told.message.len()));
            told.position = Some(Position { line: at.line(), column: at.column() });
        }
        told
    }
}

/// Reads every document of a text. Documents that hold nothing but comments are skipped.
///
/// # Errors
/// When the text is neither JSON nor YAML, or passes a limit.
pub fn parse_documents(text: &str) -> Result<Vec<Document>, SyntaxError> {
    let text = text.strip_prefix(BOM).unwrap_or(text);
    let Some(parts) = json::split(text) else { return parse_yaml(text) };
    json::parse(text, &parts).or_else(|error| {
        // As in Kubernetes' own tools: what begins with a brace and is no JSON may still be YAML.
        parse_yaml(text).map_err(|other| if json::is_meant(text) { error } else { other })
    })
}

fn parse_yaml(text: &str) -> Result<Vec<Document>, SyntaxError> {
    check_text(text)?;
    let budget = Budget::of(text);
    let mut documents = Vec::new();
    for (document, number) in serde_yaml::Deserializer::from_str(text).zip(1..) {
        if number > MAX_DOCUMENTS {
            return Err(SyntaxError::yaml(format!("holds more than {MAX_DOCUMENTS} documents")));
        }
        let reader = DocumentReader::new(Format::Yaml, text, &budget);
        let value = reader.document(document)?;
        if !value.is_null() {
            documents.push(Document { number, value, duplicate_keys: reader.duplicates.into_inner() });
        }
    }
    Ok(documents)
}

/// Where fields stand in the text that they were parsed from, each given by the number of its document and its path:
/// at the key, or where a list's item begins. What is not written stands where the nearest thing above it does.
/// Costs a second parse, one for all fields: not for the hot path.
pub fn find_positions(text: &str, fields: &[(usize, &str)]) -> Vec<Option<Position>> {
    let text = text.strip_prefix(BOM).unwrap_or(text);
    let mut documents: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, (document, _)) in fields.iter().enumerate() {
        documents.entry(*document).or_default().push(index);
    }
    let last = documents.keys().next_back().copied().unwrap_or_default();
    let mut offsets = vec![None; fields.len()];
    for (parser, number) in parsers(text).take(last).zip(1..) {
        let Some(indexes) = documents.get(&number) else { continue };
        let paths: Vec<&str> = indexes.iter().map(|index| fields[*index].1).collect();
        let search = Search::new(text, &paths);
        // What was found before an error stands; there is none in a text that was parsed before.
        let _ = match parser {
            Parser::Json(part) => {
                search.root().deserialize(&mut serde_json::Deserializer::from_str(part)).is_ok()
            }
            Parser::Yaml(document) => search.root().deserialize(document).is_ok(),
        };
        for (index, offset) in indexes.iter().zip(search.offsets()) {
            offsets[*index] = offset;
        }
    }
    positions_at(text, &offsets)
}

/// What a document is read with.
enum Parser<'a> {
    Json(&'a str),
    Yaml(serde_yaml::Deserializer<'a>),
}

/// The parsers of a text's documents.
fn parsers(text: &str) -> Box<dyn Iterator<Item = Parser<'_>> + '_> {
    match json::split(text).filter(|parts| json::are_json(parts)) {
        Some(parts) => Box::new(parts.into_iter().map(Parser::Json)),
        None => Box::new(serde_yaml::Deserializer::from_str(text).map(Parser::Yaml)),
    }
}

/// The position after this beginning of a text.
pub(crate) fn position_after(beginning: &str) -> Position {
    let mut cursor = Cursor::new(beginning.strip_prefix(BOM).unwrap_or(beginning));
    cursor.advance(beginning.len())
}

/// What the YAML parser makes of a text, to compare our own scan with.
#[cfg(test)]
type ParserValue = serde_yaml::Value;

#[cfg(test)]
fn parser_value(text: &str) -> Option<ParserValue> {
    serde_yaml::from_str(text).ok()
}

#[cfg(test)]
mod tests;
