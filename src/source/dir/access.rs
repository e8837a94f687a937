//! Who else could have written a manifest: owners and modes. Pure.
//!
//! Whoever can write a manifest is root on the node. Trusted owners are root and the agent's own user.

/// A mode with one of these bits lets others than the owner write.
const WRITABLE: u32 = 0o022;
/// In a directory with this bit nobody moves or removes what another owns.
const STICKY: u32 = 0o1000;

/// What lies at a path, as far as its contents depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// A manifest, or the public key; where a link leads to, not the link.
    File,
    /// The directory of the manifests: whoever can write it can add one.
    Directory,
    /// The directory that the target of a link lies in: whoever can write it can put another file in its place.
    TargetDirectory,
}

/// Why it cannot be trusted; none if it can.
pub(super) fn distrust(role: Role, owner: u32, mode: u32, own_uid: u32) -> Option<&'static str> {
    let sticky = role == Role::TargetDirectory && mode & STICKY != 0;
    if owner != 0 && owner != own_uid {
        Some("is not root's")
    } else if mode & WRITABLE != 0 && !sticky {
        Some("can be written by group or others")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_root_alone_can_write_is_trusted() {
        use Role::{Directory, File, TargetDirectory};
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
            (Directory, 0, 0o755, 0, None),
            (Directory, 0, 0o700, 0, None),
            (Directory, 0, 0o775, 0, writable),
            (Directory, 0, 0o1777, 0, writable),
            (Directory, 1000, 0o755, 0, foreign),
            (TargetDirectory, 0, 0o777, 0, writable),
            (TargetDirectory, 0, 0o1777, 0, None),
            (TargetDirectory, 1000, 0o1755, 0, foreign),
        ];
        for (role, owner, mode, own_uid, expect) in cases {
            assert_eq!(distrust(role, owner, mode, own_uid), expect, "{role:?} {owner} {mode:o} {own_uid}");
        }
    }
}
