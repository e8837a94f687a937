//! The name of the node. Pure: the caller brings the hostname.

/// The node's name: the override if it says anything, else the hostname; trimmed and in lower case.
pub(crate) fn node_name(hostname_override: &str, hostname: &str) -> String {
    let chosen = if hostname_override.is_empty() { hostname } else { hostname_override };
    chosen.trim().to_lowercase()
}

/// Whether the API would take the text as a name: a DNS-1123 subdomain.
pub(crate) fn is_dns1123_subdomain(text: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= 253
        && text.split('.').all(|label| {
            let bytes = label.as_bytes();
            bytes.first().is_some_and(|byte| alphanumeric(*byte))
                && bytes.last().is_some_and(|byte| alphanumeric(*byte))
                && bytes.iter().all(|byte| alphanumeric(*byte) || *byte == b'-')
        })
}

#[cfg(test)]
mod tests {
    use super::{is_dns1123_subdomain, node_name};

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
    fn names_are_subdomains() {
        for good in ["a", "edge-7", "a.b-c.d0", "0"] {
            assert!(is_dns1123_subdomain(good), "{good}");
        }
        let long = "a".repeat(254);
        for bad in ["", "-a", "a-", "a..b", "A", "a_b", "a b", ".a", &long] {
            assert!(!is_dns1123_subdomain(bad), "{bad}");
        }
    }
}
