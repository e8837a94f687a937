//! Which files, directories and links the agent believes, by their owners and modes.
//!
//! Whoever decides what a manifest says is root on the node: who can write the file, put another one in its place, or
//! turn a link or a directory on its path elsewhere. As sshd does, every step of a path is checked, and [`walk`] opens
//! each step by a handle, so that what was checked is what is read. [`distrust`] is pure.

mod walk;

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

pub(super) use walk::{Located, WalkError, locate, locate_in, names};

/// A mode with one of these bits lets others than the owner write.
const WRITABLE: u32 = 0o022;
/// In a directory with this bit nobody moves or removes what another owns.
const STICKY: u32 = 0o1000;
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

/// What lies at a path, as far as the contents that are read depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The file that is read.
    File,
    /// A symbolic link: its owner decides where it leads to. Its mode says nothing.
    Link,
    /// The directory of the manifests: whoever can write it can add one.
    ManifestDirectory,
    /// The directory that holds a file or a link: whoever can write it can put another one in its place. A sticky bit
    /// does not help while the name is free: a file of root's can be moved or linked in by those who may not write it.
    Holder,
    /// The directory that holds the next directory of the path. A sticky bit will do: nobody moves a directory into or
    /// out of it who does not own that directory.
    Ancestor,
}

/// Why it cannot be trusted; none if it can.
fn distrust(role: Role, owner: u32, mode: u32, own_uid: u32) -> Option<&'static str> {
    let tolerated = match role {
        Role::Link => true,
        Role::Ancestor => mode & STICKY != 0,
        Role::File | Role::ManifestDirectory | Role::Holder => false,
    };
    if owner != 0 && owner != own_uid {
        Some("is not root's")
    } else if mode & WRITABLE != 0 && !tolerated {
        Some("can be written by group or others")
    } else {
        None
    }
}

/// Checks one file, directory or link; everything is trusted if there is no `own_uid`.
///
/// # Errors
/// When it cannot be trusted: its path, mode and owner, and why.
pub(super) fn check(
    path: &Path,
    role: Role,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_root_alone_decides_is_trusted() {
        use Role::{Ancestor, File, Holder, Link, ManifestDirectory};
        let (foreign, writable) = (Some("is not root's"), Some("can be written by group or others"));
        let cases = [
            (File, 0, 0o600, 0, None),
            (File, 0, 0o644, 0, None),
            (File, 0, 0o444, 0, None),
            (File, 0, 0o664, 0, writable),
            (File, 0, 0o646, 0, writable),
            (File, 0, 0o020, 0, writable),
            (File, 1000, 0o600, 0, foreign),
            (File, 1000, 0o666, 0, foreign),
            (File, 1000, 0o600, 1000, None),
            (File, 0, 0o600, 1000, None),
            (File, 1001, 0o600, 1000, foreign),
            (File, 0, 0o1666, 0, writable),
            (Link, 0, 0o777, 0, None),
            (Link, 1000, 0o777, 0, foreign),
            (Link, 1000, 0o777, 1000, None),
            (ManifestDirectory, 0, 0o755, 0, None),
            (ManifestDirectory, 0, 0o700, 0, None),
            (ManifestDirectory, 0, 0o775, 0, writable),
            (ManifestDirectory, 0, 0o1777, 0, writable),
            (ManifestDirectory, 1000, 0o755, 0, foreign),
            (Holder, 0, 0o755, 0, None),
            (Holder, 0, 0o777, 0, writable),
            (Holder, 0, 0o1777, 0, writable),
            (Holder, 1000, 0o755, 0, foreign),
            (Ancestor, 0, 0o777, 0, writable),
            (Ancestor, 0, 0o775, 0, writable),
            (Ancestor, 0, 0o1777, 0, None),
            (Ancestor, 1000, 0o1755, 0, foreign),
        ];
        for (role, owner, mode, own_uid, expect) in cases {
            assert_eq!(distrust(role, owner, mode, own_uid), expect, "{role:?} {owner} {mode:o} {own_uid}");
        }
    }
}
