//! Patterns that match repositories: a registry's host, which may hold wildcards, its port, and the beginning of a path.

/// A pattern, as credentials and plugins write it: `*.example.com:5000/team`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RegistryPattern<'a> {
    host: &'a str,
    port: &'a str,
    path: &'a str,
}

impl<'a> RegistryPattern<'a> {
    /// Reads `host:port/path`; the port and the path may be missing.
    pub(super) fn parse(text: &'a str) -> Self {
        let (authority, path) = split_path(text);
        // The colons of an address in brackets are none of a port.
        let bracket = authority.rfind(']').unwrap_or_default();
        match authority[bracket..].rfind(':').map(|colon| authority.split_at(bracket + colon)) {
            Some((host, port)) => Self { host, port: &port[1..], path },
            None => Self { host: authority, port: "", path },
        }
    }

    /// Whether the pattern matches a repository: the same port, as many labels of the host, each of them matching, and
    /// a path that begins with the pattern's.
    pub(super) fn covers(&self, repository: &RegistryPattern<'_>) -> bool {
        let (mut own, mut theirs) = (self.host.split('.'), repository.host.split('.'));
        let hosts_match = loop {
            match (own.next(), theirs.next()) {
                (None, None) => break true,
                (Some(glob), Some(label)) if matches(glob, label) => {}
                _ => break false,
            }
        };
        hosts_match && self.port == repository.port && repository.path.starts_with(self.path)
    }
}

/// The part up to the first slash, and the rest with it.
pub(super) fn split_path(text: &str) -> (&str, &str) {
    text.split_at(text.find('/').unwrap_or(text.len()))
}

/// `*` stands for anything, also for nothing.
fn matches(glob: &str, text: &str) -> bool {
    let Some((first, rest)) = glob.split_once('*') else { return glob == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    for piece in middle.split('*') {
        match text.find(piece) {
            Some(at) => text = &text[at + piece.len()..],
            None => return false,
        }
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_cover_repositories() {
        let rows = [
            ("*.kubernetes.io", "prefix.kubernetes.io", true),
            ("prefix.*.io", "prefix.kubernetes.io", true),
            ("prefix.kubernetes.*", "prefix.kubernetes.io", true),
            ("*-good.kubernetes.io", "prefix-good.kubernetes.io", true),
            ("*-good.kubernetes.io", "prefix-bad.kubernetes.io", false),
            ("a*b*c.io", "a-b-c.io", true),
            ("a*b*c.io", "a-c-b.io", false),
            ("a*a.io", "a.io", false),
            ("**.io", "x.io", true),
            ("*.kubernetes.io/blah", "prefix.kubernetes.io/blah", true),
            ("prefix.*.io/foo", "prefix.kubernetes.io/foo/bar", true),
            ("prefix.*.io/foo", "prefix.kubernetes.io/food", true),
            ("prefix.*.io/foo/", "prefix.kubernetes.io/food", false),
            ("prefix.*.io/foo", "prefix.kubernetes.io/bar", false),
            ("*.kubernetes.io:1111/blah", "prefix.kubernetes.io:1111/blah", true),
            ("*.kubernetes.io", "kubernetes.io", false),
            ("*.*.kubernetes.io", "prefix.kubernetes.io", false),
            ("*kubernetes.io", "a.kubernetes.io", false),
            ("*kubernetes.io", "kubernetes.io", true),
            ("*.*.*.kubernetes.io", "a.b.c.kubernetes.io", true),
            ("kubernetes.io", "kubernetes.com", false),
            ("k*.io", "quay.io", false),
            ("*.kubernetes.io:1234/blah", "prefix.kubernetes.io:1111/blah", false),
            ("prefix.*.io/foo", "prefix.kubernetes.io:1111/foo/bar", false),
            ("localhost:5000", "localhost:5000/a", true),
            ("localhost", "localhost:5000/a", false),
            ("[::1]:5000", "[::1]:5000/a", true),
            ("[::1]", "[::1]/a", true),
            ("[::1]", "[::1]:5000/a", false),
        ];
        for (glob, repository, expect) in rows {
            let covers = RegistryPattern::parse(glob).covers(&RegistryPattern::parse(repository));
            assert_eq!(covers, expect, "{glob} covers {repository}");
        }
    }
}
