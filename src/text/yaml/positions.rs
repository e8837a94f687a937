//! Where the fields of a document stand in its text.
//!
//! The parser hands keys and one-line scalars out as slices of the text: the offset of a slice is its position.
//! A key with escapes in it is no slice; then the nearest thing above it has to do.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::Position;

/// A search for fields by their paths, all in one walk that leaves out what leads nowhere.
pub(super) struct Search<'a> {
    text: &'a str,
    fields: &'a [&'a str],
    best: RefCell<Vec<Option<Best>>>,
}

/// The nearest that was found to a field: the longest part of its path, and of the same length what is written
/// rather than merged. Of equals the last counts, as with keys that are written twice.
#[derive(Clone, Copy)]
struct Best {
    length: usize,
    written: bool,
    offset: usize,
}

impl<'a> Search<'a> {
    /// A search for these fields, which has found nothing yet.
    pub(super) fn new(text: &'a str, fields: &'a [&'a str]) -> Self {
        Self { text, fields, best: RefCell::new(vec![None; fields.len()]) }
    }

    /// The walk, from the top of a document.
    pub(super) fn root(&'a self) -> Walk<'a> {
        Walk { search: self, path: "", written: true, named: false }
    }

    /// The bytes at which was found what was found, field by field.
    pub(super) fn offsets(&self) -> Vec<Option<usize>> {
        self.best.borrow().iter().map(|best| best.map(|best| best.offset)).collect()
    }

    /// The byte at which a slice of the text begins, its quote included.
    fn offset(&self, slice: &str) -> Option<usize> {
        let offset = (slice.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        let before = self.text.get(..offset)?;
        Some(offset - usize::from(before.ends_with(['"', '\''])))
    }

    /// The path of a key or item below `parent`, if it is on the way to a field.
    fn child(&self, parent: &str, step: PathStep<'_>) -> Option<&'a str> {
        self.fields.iter().find_map(|field| {
            let rest = step.strip(field.strip_prefix(parent)?, parent.is_empty())?;
            ends_step(rest).then(|| field.strip_suffix(rest)).flatten()
        })
    }

    fn note(&self, path: &str, written: bool, offset: Option<usize>) {
        let Some(offset) = offset else { return };
        for (field, best) in self.fields.iter().zip(self.best.borrow_mut().iter_mut()) {
            let on_the_way = field.strip_prefix(path).is_some_and(|rest| path.is_empty() || ends_step(rest));
            let found = Best { length: path.len(), written, offset };
            if on_the_way && best.is_none_or(|b| (b.length, b.written) <= (found.length, written)) {
                *best = Some(found);
            }
        }
    }
}

fn ends_step(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with(['.', '['])
}

/// One step of a path.
#[derive(Clone, Copy)]
enum PathStep<'a> {
    Key(&'a str),
    Index(&'a str),
}

impl PathStep<'_> {
    /// What is left of a path after this step. A key is written `.key`, or `[key]` where any key may be.
    fn strip(self, path: &str, at_root: bool) -> Option<&str> {
        match self {
            PathStep::Key(key) if at_root => path.strip_prefix(key),
            PathStep::Key(key) => {
                let dotted = path.strip_prefix('.').and_then(|rest| rest.strip_prefix(key));
                dotted.or_else(|| path.strip_prefix('[')?.strip_prefix(key)?.strip_prefix(']'))
            }
            PathStep::Index(index) => path.strip_prefix('[')?.strip_prefix(index)?.strip_prefix(']'),
        }
    }
}

/// The positions of these bytes of a text, in one walk through it.
pub(super) fn positions_at(text: &str, offsets: &[Option<usize>]) -> Vec<Option<Position>> {
    let mut order: Vec<usize> = (0..offsets.len()).collect();
    order.sort_by_key(|index| offsets[*index]);
    let mut cursor = Cursor::new(text);
    let mut positions = vec![None; offsets.len()];
    for index in order {
        positions[index] = offsets[index].map(|offset| cursor.advance(offset));
    }
    positions
}

/// Counts lines and columns from the beginning of a text onwards.
pub(super) struct Cursor<'a> {
    text: &'a str,
    offset: usize,
    position: Position,
}

impl<'a> Cursor<'a> {
    /// A cursor at the beginning of the text.
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, offset: 0, position: Position { line: 1, column: 1 } }
    }

    /// The position of a byte that is not before the last one.
    pub(super) fn advance(&mut self, to: usize) -> Position {
        let passed = self.text.get(self.offset..to).unwrap_or(&self.text[self.offset..]);
        let bytes = passed.as_bytes();
        // A carriage return ends a line by itself, but for one before a line feed.
        let ends =
            |at: &usize| bytes[*at] == b'\n' || bytes[*at] == b'\r' && bytes.get(at + 1) != Some(&b'\n');
        let breaks = (0..bytes.len()).filter(ends);
        let (count, line_start) = breaks.fold((0, 0), |(count, _), at| (count + 1, at + 1));
        let characters = passed.get(line_start..).unwrap_or_default().chars().count();
        self.position.line += count;
        self.position.column = characters + if count == 0 { self.position.column } else { 1 };
        self.offset += passed.len();
        self.position
    }
}

/// Looks at one node, whose path leads to a field.
#[derive(Clone, Copy)]
pub(super) struct Walk<'a> {
    search: &'a Search<'a>,
    path: &'a str,
    /// Not brought in by a merge key.
    written: bool,
    /// The position of its key is noted already.
    named: bool,
}

impl Walk<'_> {
    fn begins_at(&self, slice: &str) {
        if !self.named {
            self.search.note(self.path, self.written, self.search.offset(slice));
        }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// What is of no interest, but must not be an error.
macro_rules! skip {
    ($($visit:ident($($type:ty)?)),*) => {
        $(fn $visit<E>(self $(, _: $type)?) -> Result<Self::Value, E> {
            Ok(Default::default())
        })*
    };
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    skip!(
        visit_unit(),
        visit_none(),
        visit_bool(bool),
        visit_u64(u64),
        visit_i64(i64),
        visit_u128(u128),
        visit_i128(i128),
        visit_f64(f64),
        visit_str(&str)
    );

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<(), E> {
        self.begins_at(value);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        for index in 0_usize.. {
            let more = match self.search.child(self.path, PathStep::Index(&index.to_string())) {
                Some(path) => items.next_element_seed(Walk { path, named: false, ..self })?.is_some(),
                // The mappings that one key merges.
                None if !self.written => items.next_element_seed(self)?.is_some(),
                None => items.next_element::<IgnoredAny>()?.is_some(),
            };
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let mut first = true;
        while let Some(key) = entries.next_key_seed(KeySeed)? {
            let Name::Slice(name) = key else {
                entries.next_value::<IgnoredAny>()?;
                continue;
            };
            if std::mem::take(&mut first) {
                self.begins_at(name);
            }
            match self.search.child(self.path, PathStep::Key(name)) {
                Some(path) => {
                    self.search.note(path, self.written, self.search.offset(name));
                    entries.next_value_seed(Walk { path, named: true, ..self })?;
                }
                None if name == "<<" => {
                    entries.next_value_seed(Walk { written: false, named: true, ..self })?;
                }
                None => {
                    entries.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// A key: a slice of the text, or something whose position is not known.
#[derive(Default)]
enum Name<'de> {
    Slice(&'de str),
    #[default]
    Unknown,
}

struct KeySeed;

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Name<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Name<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for KeySeed {
    type Value = Name<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    skip!(visit_unit(), visit_bool(bool), visit_u64(u64), visit_i64(i64), visit_f64(f64), visit_str(&str));

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Name<'de>, E> {
        Ok(Name::Slice(value))
    }
}

#[cfg(test)]
mod tests {
    use crate::text::yaml::{Position, find_positions, parse_documents};

    fn position(text: &str, field: &str) -> Option<(usize, usize)> {
        let positions = find_positions(text, &[(1, field)]);
        positions[0].map(|Position { line, column }| (line, column))
    }

    #[test]
    fn keys_items_and_what_is_nearest() {
        let text = "kind: Pod\nmetadata:\n  labels: {a.b/c: x, \"q\": y}\nspec:\n  containers:\n  - name: a\n    \
                    ports: [80, 81]\n  - image: é\n    imag: i\n    command:\n    - sh\n    - 'ls'\n";
        parse_documents(text).unwrap();
        let table = [
            ("", Some((1, 1))),
            ("kind", Some((1, 1))),
            ("metadata.labels", Some((3, 3))),
            ("metadata.labels[a.b/c]", Some((3, 12))),
            ("metadata.labels[q]", Some((3, 22))),
            ("metadata.name", Some((2, 1))),
            ("spec.containers[0]", Some((6, 5))),
            ("spec.containers[0].name", Some((6, 5))),
            ("spec.containers[0].image", Some((6, 5))),
            ("spec.containers[0].ports[1]", Some((7, 5))),
            ("spec.containers[1].imag", Some((9, 5))),
            ("spec.containers[1].command[0]", Some((11, 7))),
            ("spec.containers[1].command[1]", Some((12, 7))),
            ("spec.containers[7].name", Some((5, 3))),
            ("spec.hostNetwork", Some((4, 1))),
            ("specification", Some((1, 1))),
        ];
        for (field, want) in table {
            assert_eq!(position(text, field), want, "{field}");
        }
        let fields: Vec<_> = table.iter().map(|(field, _)| (1, *field)).collect();
        let together: Vec<_> =
            find_positions(text, &fields).into_iter().map(|p| p.map(|p| (p.line, p.column))).collect();
        assert_eq!(together, table.map(|(_, want)| want));
        assert_eq!(position(text, "metadata.labels.a.b/c"), Some((3, 12)), "as type errors write it");
    }

    #[test]
    fn quirks() {
        let table = [
            ("the last of two keys counts", "a: {b: 1}\na: {b: 2}", "a.b", (2, 5)),
            ("a merge key", "x: &x {b: 1}\na:\n  <<: *x\n  c: 1", "a.b", (1, 8)),
            ("written wins over merged", "x: &x {b: 1}\na:\n  b: 1\n  <<: *x", "a.b", (3, 3)),
            ("several merged", "x: &x {b: 1}\ny: &y {c: 1}\na:\n  <<: [*x, *y]", "a.c", (2, 8)),
            ("an alias", "x: &x {b: 1}\na: *x", "a.b", (1, 8)),
            ("JSON", "{\"a\": {\n\t\"b\": 1}}", "a.b", (2, 2)),
            ("CRLF", "a:\r\n  b: 1\r\n", "a.b", (2, 3)),
            ("CR", "a:\r  b: 1\r", "a.b", (2, 3)),
            ("characters, not bytes", "é: {ü: {a: 1}}", "é.ü.a", (1, 9)),
            ("a key with an escape", "a:\n  \"\\x62\": 1", "a.b", (1, 1)),
            ("a byte order mark", "\u{feff}a: 1", "a", (1, 1)),
        ];
        for (name, text, field, want) in table {
            assert_eq!(position(text, field), Some(want), "{name}");
        }
        assert_eq!(position("", "a"), None);
    }

    #[test]
    fn documents_are_numbered_with_the_empty_ones() {
        let text = "---\n# nothing\n---\na: 1\n---\nb: {é: 1, c: 2}\n";
        let documents = parse_documents(text).unwrap();
        assert_eq!(documents.iter().map(|document| document.number).collect::<Vec<_>>(), [2, 3]);
        let at = |line, column| Some(Position { line, column });
        let fields = [(3, "b.c"), (2, "a"), (1, "a"), (3, "b"), (4, "a"), (2, "a.b")];
        assert_eq!(find_positions(text, &fields), [at(6, 11), at(4, 1), None, at(6, 1), None, at(4, 1)]);
    }
}
