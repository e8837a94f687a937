//! What a text may cost: told from its bytes before the parser takes it in, and counted while it is read.
//!
//! The parser holds all events of a document at once, over a hundred bytes for each, so a text that is small on the
//! disk can be large in memory. Each node but a document's first stands after a byte that can be counted.

use std::cell::Cell;

use serde::de;

use super::YamlError;

/// The parser's time grows with the depth of flow collections, for each of its tokens.
const MAX_OPEN_BRACKETS: usize = 1024;

/// A manifest has hundreds; a thousand pods fit.
const MAX_NODES: usize = 200_000;

/// What aliases may make of a text: this many times its size, and a constant for small ones.
const MAX_GROWTH: usize = 2;
const FREE_GROWTH: usize = 1 << 20;

/// Counts brackets and what separates nodes, without regard for quotes: real manifests come nowhere near the limits
/// either way.
pub(super) fn check_text(text: &str) -> Result<(), YamlError> {
    let (mut open, mut nodes) = (0_usize, 0_usize);
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => open += 1,
            b']' | b'}' => {
                open = open.saturating_sub(1);
                continue;
            }
            b',' | b':' => {}
            // Some of the blanks that end these are not ASCII.
            b'-' | b'?' if bytes.peek().is_none_or(|next| next.is_ascii_whitespace() || !next.is_ascii()) => {
            }
            _ => continue,
        }
        nodes += 1;
        if open > MAX_OPEN_BRACKETS {
            return Err(YamlError::new("too many brackets are open at once"));
        }
        if nodes > MAX_NODES {
            return Err(YamlError::new(TOO_MANY));
        }
    }
    Ok(())
}

const TOO_MANY: &str = "too many keys and values, more than 200000";

/// What may still be read, in all documents of a text together. An alias pays for its target each time.
pub(super) struct Budget {
    nodes: Cell<usize>,
    bytes: Cell<usize>,
}

impl Budget {
    /// What a document of this text may grow to.
    pub(super) fn of(text: &str) -> Self {
        let bytes = text.len().saturating_mul(MAX_GROWTH).saturating_add(FREE_GROWTH);
        Self { nodes: Cell::new(MAX_NODES), bytes: Cell::new(bytes) }
    }

    /// Pays for a node.
    pub(super) fn pay_node<E: de::Error>(&self) -> Result<(), E> {
        take(&self.nodes, 1).ok_or_else(|| E::custom(TOO_MANY))
    }

    /// Pays for bytes of the text that are looked at or copied.
    pub(super) fn pay_bytes<E: de::Error>(&self, size: usize) -> Result<(), E> {
        take(&self.bytes, size).ok_or_else(|| E::custom("aliases make the document too large"))
    }
}

fn take(from: &Cell<usize>, amount: usize) -> Option<()> {
    from.set(from.get().checked_sub(amount)?);
    Some(())
}
