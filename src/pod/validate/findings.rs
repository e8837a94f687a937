//! Collects what validation finds.

use std::fmt;
use std::ops::RangeInclusive;

use crate::pod::finding::Finding;
use crate::text::excerpt::quoted;

/// The findings so far.
#[derive(Default)]
pub(super) struct Findings(pub(super) Vec<Finding>);

impl Findings {
    /// Adds a reason for a field.
    pub(super) fn add(&mut self, field: impl fmt::Display, reason: impl Into<String>) {
        self.0.push(Finding::new(field.to_string(), reason));
    }

    /// Adds a reason where there is one.
    pub(super) fn check(&mut self, field: impl fmt::Display, reason: Option<String>) {
        if let Some(reason) = reason {
            self.add(field, reason);
        }
    }

    /// A field that must be one of a few words. Absent and empty are for the defaults.
    pub(super) fn one_of(&mut self, field: impl fmt::Display, value: Option<&str>, words: &[&str]) {
        let Some(value) = value.filter(|value| !value.is_empty()) else { return };
        if !words.contains(&value) {
            self.add(field, format!("{} is not one of {}", quoted(value), words.join(", ")));
        }
    }

    /// Adds a reason if the value is there and less than `least`.
    pub(super) fn at_least(&mut self, field: impl fmt::Display, value: Option<i64>, least: i64) {
        if let Some(value) = value.filter(|value| *value < least) {
            self.add(field, format!("{value} is less than {least}"));
        }
    }

    /// Adds a reason if the value is there and outside of the range.
    pub(super) fn in_range(
        &mut self,
        field: impl fmt::Display,
        value: Option<i64>,
        range: RangeInclusive<i64>,
    ) {
        if let Some(value) = value.filter(|value| !range.contains(value)) {
            self.add(field, format!("{value} is not from {} to {}", range.start(), range.end()));
        }
    }

    /// Adds a reason if the value is not a port number.
    pub(super) fn port(&mut self, field: impl fmt::Display, value: i32) {
        if !(1..=65535).contains(&value) {
            self.add(field, format!("{value} is not a port number from 1 to 65535"));
        }
    }
}
