//! The beginning or the end of a text, in whole characters.

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
    fn no_character_is_torn() {
        for (most, first, last) in
            [(0, "", ""), (1, "a", "b"), (2, "a", "b"), (3, "aä", "äb"), (4, "aäb", "aäb"), (9, "aäb", "aäb")]
        {
            assert_eq!((beginning("aäb", most), ending("aäb", most)), (first, last), "{most}");
        }
    }
}
