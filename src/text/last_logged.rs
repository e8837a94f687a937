//! What was logged last about something that is looked at again and again, so that it is logged only on change.

/// The last text that was logged; none while all is well.
#[derive(Debug, Default)]
pub(crate) struct LastLogged(Option<String>);

impl LastLogged {
    /// Notes a text; true if it is not the one that was logged last.
    pub(crate) fn is_new(&mut self, text: &str) -> bool {
        let is_new = self.0.as_deref() != Some(text);
        if is_new {
            self.0 = Some(text.to_owned());
        }
        is_new
    }

    /// All is well again: whatever comes next is new.
    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_is_new() {
        let mut last = LastLogged::default();
        assert_eq!(["a", "a", "b", "a"].map(|text| last.is_new(text)), [true, false, true, true]);
        last.clear();
        assert!(last.is_new("a"));
    }
}
