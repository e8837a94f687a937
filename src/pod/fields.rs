//! What rkubelet makes of each field of a Pod. Nothing is dropped in silence.
//!
//! The walk is over the manifest as written. A row is for its field and all fields below it that have no
//! row of their own. `docs/pod-fields.md` lists the same rows; a test compares the two.

mod table;

use serde_json::Value;

use super::finding::Finding;
use table::{HONOURED, IGNORED, NOT_YET, REFUSED};

const NOT_SUPPORTED: &str = "not supported yet";

/// What becomes of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Support {
    /// It does what Kubernetes says it does.
    Honoured,
    /// The pod runs without it, with a warning.
    NotYet,
    /// The pod could not mean what it says without it, so it is refused.
    Refused,
    /// It has no meaning on a node without a scheduler and an API server.
    Ignored,
}

/// The rows of each kind: path patterns such as `spec.containers[].image`.
pub(crate) const TABLE: [(Support, &[&str]); 4] = [
    (Support::Honoured, HONOURED),
    (Support::NotYet, NOT_YET),
    (Support::Refused, REFUSED),
    (Support::Ignored, IGNORED),
];

/// What the fields of a manifest give rise to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldReport {
    /// Fields that are not honoured yet.
    pub warnings: Vec<Finding>,
    /// Fields that the pod cannot do without.
    pub refusals: Vec<Finding>,
}

/// Walks a manifest as written. Fields that Kubernetes does not know are the decoder's to report.
pub(crate) fn check_fields(manifest: &Value) -> FieldReport {
    let mut report = FieldReport::default();
    walk(manifest, String::new(), String::new(), None, &mut report);
    report
}

/// The row for a pattern.
pub(crate) fn support_of(pattern: &str) -> Option<Support> {
    let row =
        |pattern: &str| TABLE.iter().find(|(_, rows)| rows.contains(&pattern)).map(|(support, _)| *support);
    row(pattern).or_else(|| row(&as_container(pattern)?))
}

/// Init containers are containers: what has no row of its own has theirs.
fn as_container(pattern: &str) -> Option<String> {
    pattern.strip_prefix("spec.initContainers").map(|rest| format!("spec.containers{rest}"))
}

fn walk(value: &Value, pattern: String, path: String, inherited: Option<Support>, report: &mut FieldReport) {
    let support = support_of(&pattern).or(inherited);
    if value.is_null() {
        return;
    }
    if has_longer_row(&pattern) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    let dot = if path.is_empty() { "" } else { "." };
                    walk(value, format!("{pattern}{dot}{key}"), format!("{path}{dot}{key}"), support, report);
                }
                return;
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    walk(item, format!("{pattern}[]"), format!("{path}[{index}]"), support, report);
                }
                return;
            }
            _ => {}
        }
    }
    match support {
        Some(Support::Refused) if !says_nothing(value) || value.is_object() => {
            report.refusals.push(Finding::new(path, NOT_SUPPORTED));
        }
        Some(Support::NotYet) if !says_nothing(value) => {
            report.warnings.push(Finding::new(path, "not honoured yet"));
        }
        _ => {}
    }
}

fn has_longer_row(pattern: &str) -> bool {
    if let Some(pattern) = as_container(pattern) {
        return has_longer_row(&pattern);
    }
    let longer = |row: &&str| {
        let rest = row.strip_prefix(pattern);
        rest.is_some_and(|rest| !rest.is_empty() && (pattern.is_empty() || rest.starts_with(['.', '['])))
    };
    TABLE.iter().any(|(_, rows)| rows.iter().any(longer))
}

/// An empty list, mapping or string is the same as none.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
