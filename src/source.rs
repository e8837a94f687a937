//! Where pods come from. Each source sends whole snapshots of what it holds, never differences.

pub(crate) mod dir;
pub(crate) mod http;
pub(crate) mod signature;
