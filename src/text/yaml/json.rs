//! Texts that begin like JSON.

use serde::de::IgnoredAny;

use super::limits::Budget;
use super::positions::Cursor;
use super::reader::DocumentReader;
use super::{Document, Format, MAX_DOCUMENTS, Position, SyntaxError};

/// The documents of a text that begins with a brace, as Kubernetes tells JSON from YAML. Lines of three hyphens stand
/// between them: no JSON holds such a line.
pub(super) fn split(text: &str) -> Option<Vec<&str>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let mut parts = Vec::new();
    let mut rest = text;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_end() == "---" {
            let (part, after) = rest.split_at(at);
            parts.push(part);
            rest = &after[line.len()..];
            at = 0;
        } else {
            at += line.len();
        }
    }
    parts.push(rest);
    Some(parts)
}

/// Whether a text that begins with a brace is meant as JSON: its first key is quoted, or there is none.
pub(super) fn is_meant(text: &str) -> bool {
    let inside = text.trim_start().strip_prefix('{').unwrap_or_default();
    inside.trim_start().starts_with(['"', '}'])
}

/// Whether each document is one JSON value or empty.
pub(super) fn are_json(parts: &[&str]) -> bool {
    parts.iter().all(|part| part.trim_ascii().is_empty() || serde_json::from_str::<IgnoredAny>(part).is_ok())
}

/// Reads documents, each of which is one JSON value or empty.
pub(super) fn parse(text: &str, parts: &[&str]) -> Result<Vec<Document>, SyntaxError> {
    let budget = Budget::of(text);
    let mut documents = Vec::new();
    for (part, number) in parts.iter().zip(1..) {
        if number > MAX_DOCUMENTS {
            return Err(error_at(None, format!("holds more than {MAX_DOCUMENTS} documents")));
        }
        if part.trim_ascii().is_empty() {
            continue;
        }
        let reader = DocumentReader::new(Format::Json, text, &budget);
        let mut parser = serde_json::Deserializer::from_str(part);
        let value = reader.document(&mut parser).and_then(|value| parser.end().map(|()| value));
        let value = value.map_err(|error| describe(text, part, &error))?;
        if !value.is_null() {
            documents.push(Document { number, value, duplicate_keys: reader.duplicates.into_inner() });
        }
    }
    Ok(documents)
}

fn error_at(position: Option<Position>, message: String) -> SyntaxError {
    SyntaxError { format: Format::Json, message, position }
}

/// The parser counts lines in its part of the text, and columns in bytes.
fn describe(text: &str, part: &str, error: &serde_json::Error) -> SyntaxError {
    let message = error.to_string();
    let suffix = format!(" at line {} column {}", error.line(), error.column());
    let message = message.strip_suffix(&suffix).unwrap_or(&message).to_owned();
    if error.line() == 0 {
        return error_at(None, message);
    }
    let lines = part.split_inclusive('\n').take(error.line() - 1);
    let line_start = (part.as_ptr() as usize - text.as_ptr() as usize) + lines.map(str::len).sum::<usize>();
    let mut offset = line_start + error.column().saturating_sub(1);
    while !text.is_char_boundary(offset) && offset > line_start {
        offset -= 1;
    }
    error_at(Some(Cursor::new(text).advance(offset.min(text.len()))), message)
}
