//! Image names by the grammar of distribution/reference, which kubelet and containerd read them by.

use crate::text::excerpt::one_line;

/// A name that parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImageName {
    /// Registry and path in full: `docker.io/library/busybox` for `busybox`.
    pub repository: String,
    /// The tag, if one is written.
    pub tag: Option<String>,
    /// The digest, if one is written.
    pub digest: Option<String>,
}

/// Why a text names no image, in the words of distribution/reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NameError {
    /// It could be the id of an image.
    #[error("invalid repository name ({0}), cannot specify 64-byte hexadecimal strings")]
    Identifier(String),
    /// The path has upper-case letters.
    #[error("invalid reference format: repository name ({0}) must be lowercase")]
    Uppercase(String),
    /// It does not follow the grammar.
    #[error("invalid reference format")]
    Format,
    /// The path is too long.
    #[error("repository name must not be more than {MAX_PATH} characters")]
    TooLong,
    /// The digest has the wrong length for its algorithm.
    #[error("invalid checksum digest length")]
    DigestLength,
    /// The digest has letters that its algorithm does not write.
    #[error("invalid checksum digest format")]
    DigestFormat,
    /// Nobody can check such a digest.
    #[error("unsupported digest algorithm")]
    DigestAlgorithm,
}

const DEFAULT_DOMAIN: &str = "docker.io";
const LEGACY_DOMAIN: &str = "index.docker.io";
const OFFICIAL: &str = "library/";
const DEFAULT_TAG: &str = "latest";
const MAX_PATH: usize = 255;
const MAX_TAG: usize = 128;
const MIN_DIGEST: usize = 32;

impl ImageName {
    /// Reads a name as a manifest writes it.
    ///
    /// # Errors
    /// When it names no image.
    pub(crate) fn parse(text: &str) -> Result<Self, NameError> {
        if text.len() == 64 && text.bytes().all(is_lower_hex) {
            return Err(NameError::Identifier(text.to_owned()));
        }
        let (domain, rest) = split_domain(text);
        let remote = rest.split(':').next().unwrap_or_default();
        if remote.to_lowercase() != remote {
            return Err(NameError::Uppercase(one_line(remote, MAX_PATH)));
        }
        let (name, digest) = match rest.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (rest.as_str(), None),
        };
        let (path, tag) = match name.split_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (name, None),
        };
        let well_formed = (is_domain(domain) || is_component(domain))
            && path.split('/').all(is_component)
            && tag.is_none_or(is_tag)
            && digest.is_none_or(is_digest);
        if !well_formed {
            return Err(NameError::Format);
        }
        if path.len() > MAX_PATH {
            return Err(NameError::TooLong);
        }
        digest.map_or(Ok(()), check_digest)?;
        Ok(Self {
            repository: format!("{domain}/{path}"),
            tag: tag.map(str::to_owned),
            digest: digest.map(str::to_owned),
        })
    }

    /// `written` as the runtime is asked for it: what has neither tag nor digest gets the default tag. A short name
    /// stays short, because the runtime chooses its registry.
    pub(crate) fn with_default_tag(&self, written: &str) -> String {
        match (&self.tag, &self.digest) {
            (None, None) => format!("{written}:{DEFAULT_TAG}"),
            _ => written.to_owned(),
        }
    }

    /// Whether it means the newest image: tagged `latest`, or without a tag and a digest.
    pub(crate) fn is_latest(&self) -> bool {
        match (&self.tag, &self.digest) {
            (Some(tag), _) => tag == DEFAULT_TAG,
            (None, digest) => digest.is_none(),
        }
    }
}

/// The registry, and the rest; a name without a registry is one of Docker Hub.
fn split_domain(text: &str) -> (&str, String) {
    let (domain, rest) = match text.split_once('/') {
        Some((LEGACY_DOMAIN, rest)) => (DEFAULT_DOMAIN, rest),
        Some((first, rest))
            if first == "localhost" || first.contains(['.', ':']) || first.to_lowercase() != first =>
        {
            (first, rest)
        }
        _ => (DEFAULT_DOMAIN, text),
    };
    match domain == DEFAULT_DOMAIN && !rest.contains('/') {
        true => (domain, format!("{OFFICIAL}{rest}")),
        false => (domain, rest.to_owned()),
    }
}

/// A host name, an IPv4 address or an IPv6 address in brackets, and perhaps a port.
fn is_domain(text: &str) -> bool {
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (host_is_good, port) = match bracketed {
        Some((address, after)) => {
            let good = !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':');
            (good, if after.is_empty() { None } else { Some(after.strip_prefix(':').unwrap_or_default()) })
        }
        None => {
            let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
            (host.split('.').all(is_host_label), port)
        }
    };
    host_is_good && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()))
}

fn is_host_label(label: &str) -> bool {
    !label.is_empty()
        && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Lower-case words, joined by one dot, one or two underscores, or any number of dashes.
fn is_component(text: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    let edges = bytes.first().copied().is_some_and(is_word) && bytes.last().copied().is_some_and(is_word);
    let mut joints = text.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    edges && joints.all(|joint| matches!(joint, "" | "." | "_" | "__") || joint.bytes().all(|b| b == b'-'))
}

fn is_tag(text: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    text.len() <= MAX_TAG
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().all(|b| is_word(b) || matches!(b, b'.' | b'-'))
}

fn is_digest(text: &str) -> bool {
    let Some((algorithm, hex)) = text.split_once(':') else { return false };
    let is_part = |part: &str| {
        part.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
            && part.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    algorithm.split(['-', '_', '+', '.']).all(is_part)
        && hex.len() >= MIN_DIGEST
        && hex.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Checks a digest of the right form for its algorithm.
fn check_digest(text: &str) -> Result<(), NameError> {
    let (algorithm, hex) = text.split_once(':').ok_or(NameError::DigestFormat)?;
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        other if other.to_lowercase() != other => return Err(NameError::DigestFormat),
        _ => return Err(NameError::DigestAlgorithm),
    };
    match hex.len() == length {
        false => Err(NameError::DigestLength),
        true if hex.bytes().all(is_lower_hex) => Ok(()),
        true => Err(NameError::DigestFormat),
    }
}

fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn names_in_full() {
        let pinned = format!("busybox@{SHA}");
        let both = format!("r.example:5000/a/b:1@{SHA}");
        let rows = [
            ("busybox", "docker.io/library/busybox", None, "busybox:latest"),
            ("busybox:1.36", "docker.io/library/busybox", Some("1.36"), "busybox:1.36"),
            ("busybox:latest", "docker.io/library/busybox", Some("latest"), "busybox:latest"),
            ("me/app", "docker.io/me/app", None, "me/app:latest"),
            ("docker.io/busybox:1", "docker.io/library/busybox", Some("1"), "docker.io/busybox:1"),
            ("index.docker.io/me/app:1", "docker.io/me/app", Some("1"), "index.docker.io/me/app:1"),
            ("localhost/a:1", "localhost/a", Some("1"), "localhost/a:1"),
            ("localhost:5000/a", "localhost:5000/a", None, "localhost:5000/a:latest"),
            ("127.0.0.1:5000/a/b:x", "127.0.0.1:5000/a/b", Some("x"), "127.0.0.1:5000/a/b:x"),
            ("[::1]:5000/a:1", "[::1]:5000/a", Some("1"), "[::1]:5000/a:1"),
            ("[fe80::1]/a:1", "[fe80::1]/a", Some("1"), "[fe80::1]/a:1"),
            ("Reg/a", "Reg/a", None, "Reg/a:latest"),
            (
                "r.example/a__b/c--d/e.f_g",
                "r.example/a__b/c--d/e.f_g",
                None,
                "r.example/a__b/c--d/e.f_g:latest",
            ),
            // No host has an underscore: this is a path after all.
            ("a_b.c/d", "a_b.c/d", None, "a_b.c/d:latest"),
            // One name without a slash is never a registry.
            ("localhost:5000", "docker.io/library/localhost", Some("5000"), "localhost:5000"),
            (&pinned, "docker.io/library/busybox", None, &pinned),
            (&both, "r.example:5000/a/b", Some("1"), &both),
        ];
        for (text, repository, tag, asked) in rows {
            let name = ImageName::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((name.repository.as_str(), name.tag.as_deref()), (repository, tag), "{text}");
            assert_eq!(name.digest.is_some(), text.contains('@'), "{text}");
            assert_eq!(name.with_default_tag(text), asked, "{text}");
        }
    }

    #[test]
    fn what_is_no_name() {
        use NameError::*;
        let long = format!("r.example/{}", "a".repeat(256));
        let tag = format!("a:{}", "t".repeat(129));
        let rows = [
            ("", Format),
            ("Busybox", Uppercase("library/Busybox".into())),
            ("r.example/Path/a:1", Uppercase("Path/a".into())),
            ("a b", Format),
            ("a:", Format),
            ("a:b:c", Format),
            ("a:-x", Format),
            ("/a", Format),
            ("a/", Format),
            ("a//b", Format),
            ("r.example/a..b", Format),
            ("r.example/a___b", Format),
            ("r.example/-a", Format),
            ("-r.example/a", Format),
            ("r.example:port/a", Format),
            ("r.example:/a", Format),
            ("[::1/a", Format),
            ("[]/a", Format),
            ("[::1]x/a", Format),
            ("https://r.example/a", Format),
            ("a@sha256:0123", Format),
            ("a@", Format),
            (&SHA["sha256:".len()..], Identifier(SHA["sha256:".len()..].into())),
            (&format!("a@{}0", SHA), DigestLength),
            (&format!("a@{}", SHA.replace('b', "B")), DigestFormat),
            (&format!("a:1@{}", SHA.replace("sha", "SHA")), DigestFormat),
            (&format!("a@{}", SHA.replace("sha256", "md5")), DigestAlgorithm),
            (&long, TooLong),
            (&tag, Format),
        ];
        for (text, expect) in rows {
            assert_eq!(ImageName::parse(text), Err(expect), "{text:?}");
        }
    }

    #[test]
    fn what_is_newest() {
        let rows = [
            ("a".to_owned(), true),
            ("a:latest".to_owned(), true),
            ("a:1".to_owned(), false),
            (format!("a@{SHA}"), false),
            (format!("a:latest@{SHA}"), true),
            (format!("a:1@{SHA}"), false),
        ];
        for (text, expect) in rows {
            assert_eq!(ImageName::parse(&text).unwrap().is_latest(), expect, "{text}");
        }
    }
}
