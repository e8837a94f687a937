//! Which directory a path leads to, and whether what it lacks was removed. Pure.

use serde::{Deserialize, Serialize};

/// A directory, by what stays the same when it is moved or filled. Device and inode alone do not tell a file system from
/// another one that is mounted in its place: a tmpfs mounted anew has the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DirectoryId {
    /// The number of its file system's device.
    pub(super) device: u64,
    /// Its number inside the file system.
    pub(super) inode: u64,
    /// When it was made, in seconds and nanoseconds, if the file system tells.
    #[serde(default)]
    pub(super) created: Option<(i64, u32)>,
    /// The mount that it was reached through, if the kernel tells.
    #[serde(default)]
    pub(super) mount: Option<MountId>,
    /// The boot during which it was seen: the next one numbers devices and mounts anew.
    pub(super) boot: String,
}

/// A mount, for as long as the machine is up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MountId {
    /// The agent's mount namespace: each has mounts of its own.
    pub(super) namespace: String,
    /// The mount's number.
    pub(super) number: u64,
    /// No later mount gets this number (Linux 6.8). An older kernel gives the number of a mount that is gone to the next.
    pub(super) unique: bool,
}

/// What a reading of a directory proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Evidence {
    /// It is the directory that it was: what is not there was removed.
    Same,
    /// Another directory, with pods, has taken its place: it counts, once it has had time to be filled.
    Replaced,
    /// Another directory, without a pod, has taken its place: what an unmounted directory leaves behind looks like this.
    Misplaced,
}

impl DirectoryId {
    /// Both are certainly the same directory.
    pub(super) fn is(&self, other: &Self) -> bool {
        let same_boot = self.boot == other.boot;
        if self.inode != other.inode || same_boot && self.device != other.device {
            return false;
        }
        // Some file systems change the time of creation when a directory is written to for the first time (overlayfs), so
        // that a mount which is certain counts first.
        let created = self.created.zip(other.created);
        match (&self.mount, &other.mount) {
            (Some(own), Some(other)) if same_boot && own.namespace == other.namespace => {
                let certain = own.unique && other.unique;
                own.number == other.number && (certain || created.is_none_or(|(own, other)| own == other))
            }
            // Mounts that cannot be compared prove nothing.
            _ => created.is_some_and(|(own, other)| own == other),
        }
    }
}

/// What a reading proves that found `pods` valid manifests, where `expected` were known before.
pub(super) fn weigh(
    before: Option<&DirectoryId>,
    now: Option<&DirectoryId>,
    pods: usize,
    expected: usize,
) -> Evidence {
    match (before, now) {
        (None, _) => Evidence::Same,
        (Some(before), Some(now)) if before.is(now) => Evidence::Same,
        (Some(_), _) if pods == 0 && expected > 0 => Evidence::Misplaced,
        (Some(_), _) => Evidence::Replaced,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(device: u64, inode: u64, boot: &str) -> DirectoryId {
        let mount = Some(MountId { namespace: "n".into(), number: 7, unique: true });
        DirectoryId { device, inode, created: Some((1, 5)), mount, boot: boot.into() }
    }

    #[test]
    fn a_directory_is_known_by_its_mount_and_after_a_boot_by_its_making() {
        let mount =
            |namespace: &str, number| Some(MountId { namespace: namespace.into(), number, unique: true });
        let reused = || Some(MountId { namespace: "n".into(), number: 7, unique: false });
        let before = directory(1, 2, "a");
        let cases = [
            ("the same", before.clone(), true),
            ("another inode", directory(1, 3, "a"), false),
            ("another device", directory(9, 2, "a"), false),
            ("mounted anew", DirectoryId { mount: mount("n", 8), ..before.clone() }, false),
            ("copied up by overlayfs", DirectoryId { created: Some((1, 6)), ..before.clone() }, true),
            (
                "a number used again",
                DirectoryId { created: Some((1, 6)), mount: reused(), ..before.clone() },
                false,
            ),
            ("an older kernel", DirectoryId { mount: reused(), ..before.clone() }, true),
            (
                "an older kernel, no time",
                DirectoryId { created: None, mount: reused(), ..before.clone() },
                true,
            ),
            ("another namespace", DirectoryId { mount: mount("m", 8), ..before.clone() }, true),
            ("the same mount, no time", DirectoryId { created: None, ..before.clone() }, true),
            ("no mount id", DirectoryId { mount: None, ..before.clone() }, true),
            ("neither", DirectoryId { mount: None, created: None, ..before.clone() }, false),
            ("the next boot", directory(1, 2, "b"), true),
            ("the next boot numbers devices differently", directory(9, 2, "b"), true),
            ("and mounts", DirectoryId { mount: mount("n", 8), ..directory(1, 2, "b") }, true),
            ("another one since the boot", directory(1, 3, "b"), false),
            ("made since the boot", DirectoryId { created: Some((9, 5)), ..directory(1, 2, "b") }, false),
            ("made nobody knows when", DirectoryId { created: None, ..directory(1, 2, "b") }, false),
        ];
        for (name, now, expect) in cases {
            assert_eq!(before.is(&now), expect, "{name}");
            assert_eq!(now.is(&before), expect, "{name}");
        }
    }

    #[test]
    fn a_directory_without_pods_is_evidence_only_where_the_manifests_were() {
        let (it, other) = (directory(1, 2, "a"), directory(1, 3, "a"));
        let cases = [
            ("never read", None, Some(&it), 0, 3, Evidence::Same),
            ("emptied by hand", Some(&it), Some(&it), 0, 3, Evidence::Same),
            ("unmounted", Some(&it), Some(&other), 0, 3, Evidence::Misplaced),
            ("replaced while nothing was known", Some(&it), Some(&other), 0, 0, Evidence::Replaced),
            ("replaced by one that holds less", Some(&it), Some(&other), 1, 3, Evidence::Replaced),
            ("replaced by one that holds as much", Some(&it), Some(&other), 3, 3, Evidence::Replaced),
            ("gone in the meantime", Some(&it), None, 0, 3, Evidence::Misplaced),
        ];
        for (name, before, now, pods, expected, expect) in cases {
            assert_eq!(weigh(before, now, pods, expected), expect, "{name}");
        }
    }

    #[test]
    fn a_record_of_an_earlier_version_is_read() {
        let old: DirectoryId = serde_json::from_str(r#"{"device": 1, "inode": 2, "boot": "a"}"#).unwrap();
        assert_eq!(old, DirectoryId { created: None, mount: None, ..directory(1, 2, "a") });
    }
}
