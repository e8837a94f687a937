//! The beginning or the end of a text, in whole characters.

/// The first so many bytes at most.
pub(crate) fn beginning(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A text that is quoted: if it is longer, its first so many bytes, and how many there were.
pub(crate) fn shorten(text: String, most: usize) -> String {
    if text.len() <= most { text } else { format!("{}... ({} bytes)", beginning(&text, most), text.len()) }
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
    fn what_is_cut_says_so() {
        assert_eq!(shorten("äb".to_owned(), 3), "äb");
        assert_eq!(shorten("äb".to_owned(), 2), "ä... (3 bytes)");
        assert_eq!(shorten("äb".to_owned(), 1), "... (3 bytes)");
    }

    #[test]
    fn no_character_is_torn() {
        for (most, first, last) in
            [(0, "", ""), (1, "a", "b"), (2, "a", "b"), (3, "aä", "äb"), (4, "aäb", "aäb"), (9, "aäb", "aäb")]
        {
            assert_eq!((beginning("aäb", most), ending("aäb", most)), (first, last), "{most}");
        }
    }
}
