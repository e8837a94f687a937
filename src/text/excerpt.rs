//! How much of a text that is not our own is quoted, and how: a part of it, in whole characters, on one line. Pure.
//!
//! Whatever comes from a manifest, a container, a server or the runtime goes through [`one_line`] or [`quoted`] before it
//! becomes part of a log line, a verdict or a message: it can neither forge a line nor grow without bound.

/// How many bytes of a value are quoted.
const MAX_QUOTED: usize = 200;

/// A text on one line: characters that break lines, move the cursor or turn the direction of writing are escaped, and of
/// a text of more than `most` bytes only the beginning and the end are left.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    if text.len() <= most {
        return escaped(text);
    }
    let first = beginning(text, most - most / 3);
    let last = ending(text, most / 3);
    let left_out = text.len() - first.len() - last.len();
    format!("{} ...({left_out} bytes)... {}", escaped(first), escaped(last))
}

/// A value in quotes, on one line; of a long one only the beginning.
pub(crate) fn quoted(text: &str) -> String {
    let first = beginning(text, MAX_QUOTED);
    let left_out = text.len() - first.len();
    if left_out == 0 { format!("{text:?}") } else { format!("{first:?} ...({left_out} bytes more)") }
}

fn escaped(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

/// Control characters, line and paragraph separators, and marks that turn the direction of writing.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The first so many bytes at most.
pub(crate) fn beginning(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The last so many bytes at most.
pub(crate) fn ending(text: &str, most: usize) -> &str {
    let mut start = text.len().saturating_sub(most);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_says_so() {}

    #[test]
    fn no_character_is_torn() {
        for (most, first, last) in
            [(0, "", ""), (1, "a", "b"), (2, "a", "b"), (3, "aä", "äb"), (4, "aäb", "aäb"), (9, "aäb", "aäb")]
        {
            assert_eq!((beginning("aäb", most), ending("aäb", most)), (first, last), "{most}");
        }
    }

    #[test]
    fn one_line_is_one_line() {
        let table = [
            ("plain", "a b: ä \u{1f680} \"c\" \\", "a b: ä \u{1f680} \"c\" \\"),
            ("nothing", "", ""),
            ("line breaks", "a\nb\r\nc\u{2028}d\u{2029}e\u{85}", "a\\nb\\r\\nc\\u{2028}d\\u{2029}e\\u{85}"),
            (
                "a terminal's sequences",
                "\u{1b}[31mred\u{7}\u{8}\u{7f}\u{9b}0m",
                "\\u{1b}[31mred\\u{7}\\u{8}\\u{7f}\\u{9b}0m",
            ),
            ("a tab and a NUL", "a\tb\0", "a\\tb\\u{0}"),
            ("the direction of writing", "a\u{202e}b\u{2066}c\u{200f}", "a\\u{202e}b\\u{2066}c\\u{200f}"),
            ("exactly as long as allowed", &"x".repeat(30), &"x".repeat(30)),
            (
                "too long",
                &format!("{}b{}", "a".repeat(20), "c".repeat(10)),
                &format!("{} ...(1 bytes)... {}", "a".repeat(20), "c".repeat(10)),
            ),
            (
                "too long, not torn",
                &"ä".repeat(1_000_000),
                &format!("{} ...(1999970 bytes)... {}", "ä".repeat(10), "ä".repeat(5)),
            ),
        ];
        for (name, text, want) in table {
            assert_eq!(one_line(text, 30), want, "{name}");
            assert!(!one_line(text, 30).contains(is_unsafe), "{name}");
        }
    }

    #[test]
    fn quoted_values_are_short_and_one_line() {
        let table = [
            ("plain", "a ä", "\"a ä\"".to_owned()),
            ("nothing", "", "\"\"".to_owned()),
            (
                "quotes and control characters",
                "a\"b\n\u{1b}\u{202e}",
                "\"a\\\"b\\n\\u{1b}\\u{202e}\"".to_owned(),
            ),
            ("too long", &"a".repeat(9 << 20), format!("\"{}\" ...(9436984 bytes more)", "a".repeat(200))),
            ("too long, not torn", &"€".repeat(100), format!("\"{}\" ...(102 bytes more)", "€".repeat(66))),
        ];
        for (name, text, want) in table {
            assert_eq!(quoted(text), want, "{name}");
            assert!(!quoted(text).contains(is_unsafe), "{name}");
        }
    }
}
