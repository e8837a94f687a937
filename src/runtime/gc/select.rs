//! Which directories belong to no pod. Pure.

use std::collections::BTreeSet;

use crate::pod::PodUid;

/// A pod's directory is named by its UID.
pub(crate) fn is_orphan_dir(name: &str, alive: &BTreeSet<PodUid>) -> bool {
    is_uid(name) && !alive.contains(&PodUid::from(name))
}

/// A pod's log directory is named NAMESPACE_NAME_UID.
pub(crate) fn is_orphan_log_dir(name: &str, alive: &BTreeSet<PodUid>) -> bool {
    let parts: Vec<_> = name.split('_').collect();
    matches!(parts.as_slice(), [_, _, uid] if is_orphan_dir(uid, alive))
}

/// What Kubernetes gives for a UID: hexadecimal, with dashes or without. Anything else is not ours to judge.
fn is_uid(name: &str) -> bool {
    let digits = name.chars().filter(char::is_ascii_hexdigit).count();
    digits == 32 && name.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALIVE: &str = "cd356e388f0b1d2e7bf518178c21b8ff";
    const DEAD: &str = "1d0dc1eff9be3a4ff33ec80437482d79";

    #[test]
    fn only_what_is_named_as_a_pod_and_is_none() {
        let alive = BTreeSet::from([PodUid::from(ALIVE)]);
        for (name, expect) in [
            (ALIVE, false),
            (DEAD, true),
            ("1d0dc1ef-f9be-3a4f-f33e-c80437482d79", true),
            ("lost+found", false),
            ("", false),
            ("my-fixed-uid", false),
        ] {
            assert_eq!(is_orphan_dir(name, &alive), expect, "{name}");
        }
        for (name, expect) in [
            (format!("default_simple-node1_{ALIVE}"), false),
            (format!("default_simple-node1_{DEAD}"), true),
            (DEAD.to_owned(), false),
            (format!("a_b_c_{DEAD}"), false),
        ] {
            assert_eq!(is_orphan_log_dir(&name, &alive), expect, "{name}");
        }
    }
}
