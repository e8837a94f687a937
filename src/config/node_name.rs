//! The name of the node. Pure: the caller brings the hostname.

/// The node's name: the override if it says anything, else the hostname; trimmed and in lower case.
pub(crate) fn node_name(hostname_override: &str, hostname: &str) -> String {
    let chosen = if hostname_override.is_empty() { hostname } else { hostname_override };
    chosen.trim().to_lowercase()
}

/// Whether the name can be part of pods' names and of paths. kubelet takes any; one with a slash would lead elsewhere.
pub(crate) fn is_usable(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    name.len() <= 253 && name.bytes().all(allowed) && name.bytes().any(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::{is_usable, node_name};

    #[test]
    fn the_override_wins_and_case_is_lowered() {
        for (over, host, name) in [
            ("", "Edge-7\n", "edge-7"),
            ("Node.A", "edge", "node.a"),
            (" n1 ", "edge", "n1"),
            ("  ", "edge", ""),
        ] {
            assert_eq!(node_name(over, host), name);
        }
    }

    #[test]
    fn names_are_part_of_paths() {
        for good in ["a", "edge-7", "a.b-c.d0", "0", "my_host", "-a", "a..b"] {
            assert!(is_usable(good), "{good}");
        }
        let long = "a".repeat(254);
        for bad in ["", ".", "..", "a/b", "a b", "../a", "ä", &long] {
            assert!(!is_usable(bad), "{bad}");
        }
    }
}
