//! Where pods come from. Each source sends whole snapshots of what it holds, never differences.
//!
//! Sources share how they tell whom to believe ([`trust`], [`key`], [`signature`], [`untrusted_signature`]) and who has a pod's
//! name and UID ([`claims`]); otherwise none knows another.

pub(crate) mod claims;
pub(crate) mod dir;
pub(crate) mod http;
mod key;
pub(crate) mod signature;
pub(crate) mod trust;
mod untrusted_signature;
