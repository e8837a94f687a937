//! Which files, directories and links the agent believes, by their owners and modes.
//!
//! Whoever decides what a manifest says is root on the node: who can write the file, put another one in its place, or
//! turn a link or a directory on its path elsewhere. As sshd does, every step of a path is checked, and [`walk`] opens
//! each step by a handle, so that what was checked is what is read. What an owner and a mode mean is decided in [`role`].

mod role;
mod walk;

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

pub(super) use role::PathRole;
use role::distrust;
pub(super) use walk::{Located, WalkError, locate, locate_in, names};

/// The bits of a mode that say who may do what.
pub(super) const PERMISSIONS: u32 = 0o7777;

/// Whose files are believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Those that only root, or the agent's own user, can have written.
    Root,
    /// Anybody's.
    Anybody,
}

impl Trust {
    /// The user whose files are trusted beside root's; none if everybody's are.
    pub(super) fn own_uid(self) -> Option<u32> {
        (self == Trust::Root).then(|| rustix::process::geteuid().as_raw())
    }
}

/// Checks one file, directory or link; everything is trusted if there is no `own_uid`.
///
/// # Errors
/// When it cannot be trusted: its path, mode and owner, and why.
pub(super) fn check(
    path: &Path,
    role: PathRole,
    metadata: &Metadata,
    own_uid: Option<u32>,
) -> Result<(), String> {
    let (owner, mode) = (metadata.uid(), metadata.mode() & PERMISSIONS);
    match own_uid.and_then(|own_uid| distrust(role, owner, mode, own_uid)) {
        None => Ok(()),
        Some(reason) => Err(format!(
            "{} (mode {mode:04o}, owner {owner}) {reason}; change that, or give --allow-unsafe-manifest-permissions",
            path.display()
        )),
    }
}
