//! Text: YAML, URLs, what was meant by a misspelt name, and how much of a text is quoted. Pure.

pub(crate) mod checksum;
pub(crate) mod error;
pub(crate) mod excerpt;
pub(crate) mod last_logged;
pub(crate) mod suggest;
pub(crate) mod url;
pub(crate) mod yaml;

pub(crate) use error::chain;
