//! Which directory a path means, and whether an empty one says that everything was removed. Pure.

use serde::{Deserialize, Serialize};

/// A directory, by what stays the same when it is moved or filled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    /// The number of its file system's device.
    pub(super) device: u64,
    /// Its number inside the file system.
    pub(super) inode: u64,
    /// The boot during which it was seen: the next one may number devices differently.
    pub(super) boot: String,
}

/// What a reading of a directory is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Evidence {
    /// It is the directory that it was: what is not there was removed.
    Same,
    /// Another directory has taken its place, with manifests: it counts, once it has had time to be filled.
    Replaced,
    /// An empty one has: what an unmounted directory leaves behind looks like this.
    Emptied,
}

impl Identity {
    /// Both are the same directory.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.inode == other.inode && (self.device == other.device || self.boot != other.boot)
    }
}

/// What a reading is worth that found `found` manifests where `lost` of those that are known are missing.
pub(super) fn weigh(
    before: Option<&Identity>,
    now: Option<&Identity>,
    found: usize,
    lost: usize,
) -> Evidence {
    match (before, now) {
        (Some(before), Some(now)) if before.is(now) => Evidence::Same,
        (Some(_), _) if found == 0 && lost > 0 => Evidence::Emptied,
        (Some(_), _) => Evidence::Replaced,
        (None, _) => Evidence::Same,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(device: u64, inode: u64, boot: &str) -> Identity {
        Identity { device, inode, boot: boot.into() }
    }

    #[test]
    fn a_directory_is_known_again_after_a_boot() {
        let cases = [
            ("the same", identity(1, 2, "a"), true),
            ("another inode", identity(1, 3, "a"), false),
            ("another device", identity(9, 2, "a"), false),
            ("the next boot", identity(1, 2, "b"), true),
            ("the next boot numbers devices differently", identity(9, 2, "b"), true),
            ("another one since the boot", identity(1, 3, "b"), false),
        ];
        for (name, now, expect) in cases {
            assert_eq!(identity(1, 2, "a").is(&now), expect, "{name}");
            assert_eq!(now.is(&identity(1, 2, "a")), expect, "{name}");
        }
    }

    #[test]
    fn an_empty_directory_is_evidence_only_where_the_manifests_were() {
        let (it, other) = (identity(1, 2, "a"), identity(1, 3, "a"));
        let cases = [
            ("never read", None, Some(&it), 0, 0, Evidence::Same),
            ("emptied by hand", Some(&it), Some(&it), 0, 3, Evidence::Same),
            ("unmounted", Some(&it), Some(&other), 0, 3, Evidence::Emptied),
            ("replaced while there was nothing", Some(&it), Some(&other), 0, 0, Evidence::Replaced),
            ("replaced by one that holds less", Some(&it), Some(&other), 1, 2, Evidence::Replaced),
            ("replaced by one that holds as much", Some(&it), Some(&other), 3, 0, Evidence::Replaced),
            ("gone in the meantime", Some(&it), None, 0, 3, Evidence::Emptied),
        ];
        for (name, before, now, found, lost, expect) in cases {
            assert_eq!(weigh(before, now, found, lost), expect, "{name}");
        }
    }
}
