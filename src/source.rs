//! Where pods come from. Each source sends whole snapshots of what it holds, never differences.

pub mod dir;
pub mod http;
