//! What is said about a manifest: a field and a reason, in one line each.

use std::fmt;

use serde::ser::{Serialize, SerializeStruct as _, Serializer};

use crate::text::excerpt::one_line;
use crate::text::yaml::Position;

/// How many bytes of a field's path are told.
const MAX_FIELD: usize = 600;

/// How many bytes of a reason are told.
const MAX_REASON: usize = 1200;

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
    pub position: Option<Position>,
}

impl Finding {
    /// A remark on a field.
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        // Both may hold keys and values of the manifest, and errors that quote it.
        let (field, reason) = (one_line(&field.into(), MAX_FIELD), one_line(&reason.into(), MAX_REASON));
        Self { field, reason, position: None }
    }

    /// A remark on the manifest as a whole.
    pub fn whole(reason: impl Into<String>) -> Self {
        Self::new("", reason)
    }

    /// The same remark, with its position.
    pub fn at(self, position: impl Into<Option<Position>>) -> Self {
        Self { position: position.into(), ..self }
    }
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
    pub others: Box<[Finding]>,
    /// What follows from it.
    pub note: Option<&'static str>,
    /// What the manifest says in vain: a misspelt field may be the cause of a problem.
    pub warnings: Box<[Finding]>,
}

impl Refusal {
    /// A refusal for all of these, or `None` if there are none.
    pub fn from_findings(findings: Vec<Finding>) -> Option<Self> {
        let mut findings = findings.into_iter();
        let first = findings.next()?;
        Some(Self { others: findings.collect(), ..Self::from(first) })
    }

    /// Why, without the first problem's field.
    pub fn reason(&self) -> String {
        told(&self.first.reason, &self.others, self.note)
    }

    /// The same refusal, with more warnings about the same manifest.
    pub fn with_warnings(mut self, more: Vec<Finding>) -> Self {
        self.warnings = self.warnings.into_iter().chain(more).collect();
        self
    }

    /// Every problem, the first one first.
    pub fn problems(&self) -> impl Iterator<Item = &Finding> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Every problem and every warning.
    pub fn findings_mut(&mut self) -> impl Iterator<Item = &mut Finding> {
        std::iter::once(&mut self.first).chain(&mut self.others).chain(&mut self.warnings)
    }
}

impl From<Finding> for Refusal {
    fn from(first: Finding) -> Self {
        Self { first, others: Box::default(), note: None, warnings: Box::default() }
    }
}

impl Serialize for Refusal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut refusal = serializer.serialize_struct("Refusal", 3)?;
        refusal.serialize_field("problems", &self.problems().collect::<Vec<_>>())?;
        match &*self.warnings {
            [] => refusal.skip_field("warnings")?,
            warnings => refusal.serialize_field("warnings", warnings)?,
        }
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
        assert!(Finding::new("x".repeat(9 << 20), "y".repeat(9 << 20)).to_string().len() < 2000);
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
