//! What is said about a manifest: a field and a reason, in one line each.

use std::fmt;

use serde::ser::{Serialize, SerializeStruct as _, Serializer};

use crate::text::excerpt::shorten;
use crate::text::yaml::Place;

/// How much of a text is told, in bytes: it may quote megabytes of a manifest.
const MAX_TEXT: usize = 1024;
/// How many problems of one manifest are told at once.
const MAX_TOLD: usize = 10;

/// One remark on one field.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Finding {
    /// The path as Kubernetes writes it (`spec.containers[0].name`); empty for the manifest as a whole.
    pub field: String,
    /// What is the matter.
    pub reason: String,
    /// Where the field is written, or the nearest thing above it.
    #[serde(flatten)]
    pub place: Option<Place>,
}

impl Finding {
    /// A remark on a field.
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: one_line(field.into()), reason: one_line(reason.into()), place: None }
    }

    /// A remark on the manifest as a whole.
    pub fn whole(reason: impl Into<String>) -> Self {
        Self::new("", reason)
    }

    /// The same remark, with its place.
    pub fn at(self, place: impl Into<Option<Place>>) -> Self {
        Self { place: place.into(), ..self }
    }
}

/// Keys and values come from the manifest, and may hold anything: no remark breaks a line or a terminal, or fills a log.
fn one_line(text: String) -> String {
    let text = shorten(text, MAX_TEXT);
    if !text.chars().any(char::is_control) {
        return text;
    }
    let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escape).collect()
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            f.write_str(&self.reason)
        } else {
            write!(f, "{}: {}", self.field, self.reason)
        }
    }
}

/// Why a manifest is not a pod of this node. The first finding is the one to name if only one can be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{}", told(&.first.to_string(), .others, *.note))]
pub struct Refusal {
    /// The first problem.
    pub first: Finding,
    /// Every other problem found in the same pass.
    pub others: Vec<Finding>,
    /// What follows from it.
    pub note: Option<&'static str>,
}

impl Refusal {
    /// A refusal for all of these, or `None` if there are none.
    pub fn from_findings(findings: Vec<Finding>) -> Option<Self> {
        let mut findings = findings.into_iter();
        let first = findings.next()?;
        Some(Self { first, others: findings.collect(), note: None })
    }

    /// Why, without the first problem's field.
    pub fn reason(&self) -> String {
        told(&self.first.reason, &self.others, self.note)
    }

    /// Every problem, the first one first.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Every problem, to be amended.
    pub fn findings_mut(&mut self) -> impl Iterator<Item = &mut Finding> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }
}

impl From<Finding> for Refusal {
    fn from(first: Finding) -> Self {
        Self { first, others: Vec::new(), note: None }
    }
}

impl Serialize for Refusal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut refusal = serializer.serialize_struct("Refusal", 2)?;
        refusal.serialize_field("problems", &self.findings().collect::<Vec<_>>())?;
        match self.note {
            Some(note) => refusal.serialize_field("note", note)?,
            None => refusal.skip_field("note")?,
        }
        refusal.end()
    }
}

fn told(first: &str, others: &[Finding], note: Option<&str>) -> String {
    let mut text = first.to_owned();
    for other in others.iter().take(MAX_TOLD - 1) {
        text.push_str("; ");
        text.push_str(&other.to_string());
    }
    if let Some(more) = others.len().checked_sub(MAX_TOLD - 1).filter(|more| *more > 0) {
        text.push_str(&format!("; and {more} more"));
    }
    if let Some(note) = note {
        text.push_str("; ");
        text.push_str(note);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_one_line() {
        assert_eq!(Finding::new("spec.hostname", "too long").to_string(), "spec.hostname: too long");
        assert_eq!(Finding::whole("empty").to_string(), "empty");
        assert_eq!(Finding::new("a\nb", "\u{1b}[0mé").to_string(), "a\\nb: \\u{1b}[0mé");
        let long = Finding::new("f".repeat(9 << 20), "r".repeat(9 << 20)).to_string();
        assert!(long.len() < 3000 && long.ends_with("r... (9437184 bytes)"), "{} bytes", long.len());
    }

    #[test]
    fn a_refusal_tells_ten_and_counts_the_rest() {
        assert_eq!(Refusal::from_findings(Vec::new()), None);
        let findings = |count| (0..count).map(|i| Finding::new(format!("f{i}"), "bad")).collect::<Vec<_>>();
        let text = |count| Refusal::from_findings(findings(count)).unwrap().to_string();
        assert_eq!(text(1), "f0: bad");
        assert_eq!(text(2), "f0: bad; f1: bad");
        assert!(text(10).ends_with("f9: bad"));
        assert!(text(12).ends_with("f9: bad; and 2 more"));
        let noted = Refusal { note: Some("so"), ..Refusal::from_findings(findings(2)).unwrap() };
        assert_eq!(noted.reason(), "bad; f1: bad; so");
    }
}
