//! What is said about a manifest: a field and a reason, in one line each.

use std::fmt;

/// How many problems of one manifest are told at once.
const MAX_TOLD: usize = 10;

/// One remark on one field.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Finding {
    /// The path as Kubernetes writes it (`spec.containers[0].name`); empty for the manifest as a whole.
    pub field: String,
    /// What is the matter.
    pub reason: String,
}

impl Finding {
    /// A remark on a field.
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into() }
    }

    /// A remark on the manifest as a whole.
    pub fn whole(reason: impl Into<String>) -> Self {
        Self::new("", reason)
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
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", told(.first, .others))]
pub struct Refusal {
    /// The first problem.
    pub first: Finding,
    /// Every other problem found in the same pass.
    pub others: Vec<Finding>,
}

impl Refusal {
    /// A refusal for all of these, or `None` if there are none.
    pub fn from_findings(findings: Vec<Finding>) -> Option<Self> {
        let mut findings = findings.into_iter();
        let first = findings.next()?;
        Some(Self { first, others: findings.collect() })
    }
}

impl From<Finding> for Refusal {
    fn from(first: Finding) -> Self {
        Self { first, others: Vec::new() }
    }
}

fn told(first: &Finding, others: &[Finding]) -> String {
    let mut text = first.to_string();
    for other in others.iter().take(MAX_TOLD - 1) {
        text.push_str("; ");
        text.push_str(&other.to_string());
    }
    if let Some(more) = others.len().checked_sub(MAX_TOLD - 1).filter(|more| *more > 0) {
        text.push_str(&format!("; and {more} more"));
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
    }
}
