//! What a text may cost: told from its bytes before the parser takes it in, and counted while it is read.
//!
//! The YAML parser holds all events of a document at once, over a hundred bytes for each, so a text that is small on
//! the disk can be large in memory.

use std::cell::Cell;

use serde::de;

use super::SyntaxError;
use super::outline::{Count, count_structure};

/// The parser's time grows with the depth of flow collections, for each of its tokens.
pub(super) const MAX_OPEN_BRACKETS: usize = 1024;

/// A manifest has hundreds; 5,000 pods fit.
pub(super) const MAX_NODES: usize = 500_000;

/// What is accepted is kept on disk inside of other JSON, and readers of JSON stop at 128 levels.
const MAX_DEPTH: usize = 100;

/// What aliases may make of a text: this many times its size, and a constant for small ones.
const MAX_GROWTH: usize = 2;
const FREE_GROWTH: usize = 1 << 20;

/// Why a text with more than [`MAX_NODES`] is refused.
pub(super) const TOO_MANY: &str = "too many keys and values, more than 500000";

/// Checks that the YAML parser can take a text in at a bearable cost.
pub(super) fn check_text(text: &str) -> Result<(), SyntaxError> {
    // Most texts pass even if what is in strings counts too.
    match Count::default().every_byte(text.as_bytes()) {
        Ok(()) => Ok(()),
        Err(_) => count_structure(text).map(|_| ()),
    }
}

/// Checks how deep a list or mapping is nested.
pub(super) fn check_depth<E: de::Error>(depth: usize) -> Result<(), E> {
    if depth > MAX_DEPTH {
        return Err(E::custom(format!("nested more than {MAX_DEPTH} levels deep")));
    }
    Ok(())
}

/// What may still be read, in all documents of a text together. An alias pays for its target each time.
pub(super) struct Budget {
    nodes: Cell<usize>,
    bytes: Cell<usize>,
}

impl Budget {
    /// What the documents of this text may grow to.
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
