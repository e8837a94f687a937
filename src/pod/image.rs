//! Images by name, and who may pull them: pure, as kubelet decides it.
//!
//! Owns the grammar of image names ([`name`]), which credentials suit a repository ([`keyring`]), and what is said
//! between the agent and credential provider plugins ([`provider`]).
//!
//! Invariant: no secret is ever part of an error or of a `Debug` text.

pub(crate) mod keyring;
pub(crate) mod name;
pub(crate) mod provider;
mod registry_pattern;
