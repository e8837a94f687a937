//! What the owner and the mode of a file, a directory or a link mean for trust in what is read. Pure.

/// A mode with one of these bits lets others than the owner write.
const WRITABLE: u32 = 0o022;
/// In a directory with this bit nobody moves or removes what another owns.
const STICKY: u32 = 0o1000;

/// What lies at a path, as far as the contents that are read depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::source) enum PathRole {
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
pub(super) fn distrust(role: PathRole, owner: u32, mode: u32, own_uid: u32) -> Option<&'static str> {
    let tolerated = match role {
        PathRole::Link => true,
        PathRole::Ancestor => mode & STICKY != 0,
        PathRole::File | PathRole::ManifestDirectory | PathRole::Holder => false,
    };
    if owner != 0 && owner != own_uid {
        Some("is not root's")
    } else if mode & WRITABLE != 0 && !tolerated {
        Some("can be written by group or others")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_root_alone_decides_is_trusted() {
        use PathRole::{Ancestor, File, Holder, Link, ManifestDirectory};
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
