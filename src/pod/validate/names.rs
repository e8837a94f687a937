//! What may be a name: of an object, a label, a port, a variable.

use crate::text::excerpt::quoted;

/// The reason why a text is not an RFC 1123 label, if it is not.
pub(crate) fn not_label(text: &str) -> Option<String> {
    bad(
        text,
        is_label_shaped(text),
        63,
        "lower-case letters, digits and '-', with a letter or digit at both ends",
    )
}

/// The reason why a text is not an RFC 1123 subdomain, if it is not.
pub(crate) fn not_subdomain(text: &str) -> Option<String> {
    bad(
        text,
        text.split('.').all(is_label_shaped),
        253,
        "lower-case letters, digits, '-' and '.', with a letter or digit at both ends of each part",
    )
}

fn is_label_shaped(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// The reason why a text is not the key of a label or annotation, if it is not.
pub(crate) fn not_qualified_name(text: &str) -> Option<String> {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    if let Some(reason) = prefix.and_then(not_subdomain) {
        return Some(format!("prefix: {reason}"));
    }
    let shape = !name.is_empty() && word(name);
    bad(name, shape, 63, "letters, digits, '-', '_' and '.', with a letter or digit at both ends")
}

/// The reason why a text is not the value of a label, if it is not.
pub(crate) fn not_label_value(text: &str) -> Option<String> {
    bad(text, word(text), 63, "letters, digits, '-', '_' and '.', with a letter or digit at both ends")
}

/// The reason why a text is not the name of an HTTP header, if it is not.
pub(super) fn not_header_name(text: &str) -> Option<String> {
    let shape = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    bad(text, shape, 1024, "letters, digits and '-'")
}

/// The reason why a text is not the name of a port, if it is not.
pub(super) fn not_port_name(text: &str) -> Option<String> {
    let shape = not_label(text).is_none()
        && !text.contains("--")
        && text.bytes().any(|byte| byte.is_ascii_lowercase());
    bad(text, shape, 15, "lower-case letters, digits and single '-' inside, with at least one letter")
}

/// The reason why a text is not the name of an environment variable, if it is not.
pub(crate) fn not_env_name(text: &str) -> Option<String> {
    let shape = !text.is_empty() && text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=');
    bad(text, shape, usize::MAX, "printable ASCII characters other than '='")
}

/// The reason why a text is not a UID, if it is not. A UID is part of paths on the node.
pub(super) fn not_uid(text: &str) -> Option<String> {
    bad(
        text,
        !text.is_empty() && word(text),
        128,
        "letters, digits, '-', '_' and '.', with a letter or digit at both ends",
    )
}

fn word(text: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn bad(text: &str, shape: bool, max: usize, what: &str) -> Option<String> {
    if text.len() > max {
        return Some(format!("has {} characters, at most {max} are allowed", text.len()));
    }
    if shape {
        return None;
    }
    Some(if text.is_empty() {
        "must not be empty".to_owned()
    } else {
        format!("{} must consist of {what}", quoted(text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        type Check = fn(&str) -> Option<String>;
        let long = |count| "a".repeat(count);
        let (a15, a16, a63, a64, a253, a254) = (long(15), long(16), long(63), long(64), long(253), long(254));
        let table: [(Check, &[&str], &[&str]); 8] = [
            (not_label, &["a", "a-b", "0a", &a63], &["", "-a", "a-", "a.b", "A", "a_b", "ü", &a64]),
            (not_subdomain, &["a", "a.b-c.d", &a253], &["", "a.", ".a", "a..b", "A", "-a", &a254]),
            (
                not_qualified_name,
                &["a", "A_b.c", "x.io/A", &a63],
                &["", "a/", "/a", "a/b/c", "X.io/a", "-a", &a64],
            ),
            (not_label_value, &["", "a", "A_b.c-d"], &["-a", "a b", "a/", &a64]),
            (not_port_name, &["http", "h2-c", "8a", &a15], &["", "80", "a--b", "-a", "HTTP", &a16]),
            (not_env_name, &["A", "a.b-c", "1", "a b"], &["", "A=B", "ü", "a\n"]),
            (not_header_name, &["Accept", "X-1"], &["", "a b", "a_b", "ü"]),
            (not_uid, &["a", "0-f", "A.b_c"], &["", "..", ".", "a/b", "../a"]),
        ];
        for (index, (check, good, wrong)) in table.into_iter().enumerate() {
            for text in good {
                assert_eq!(check(text), None, "{index}: {text}");
            }
            for text in wrong {
                assert!(check(text).is_some(), "{index}: {text}");
            }
        }
    }
}
