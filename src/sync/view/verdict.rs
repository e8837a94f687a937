//! What became of each document of each source.
//!
//! The serialized form is what `/verdicts` serves and `rkubelet check -o json` prints; `docs/check.md` promises it.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::pod::object::Subject;
use crate::pod::{Finding, Refusal, Source};

/// What became of one document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Verdict {
    /// The source that holds it.
    #[serde(serialize_with = "as_text")]
    pub source: Source,
    /// The file's path, or the URL.
    pub origin: String,
    /// Which document of the origin it is, from 1; 0 is the origin as a whole.
    pub document: usize,
    /// Its place in the document's list, from 0, if it is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<usize>,
    /// The judgement.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The judgement on one document.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "outcome", rename_all = "camelCase")]
pub(crate) enum Outcome {
    /// Taken, new or changed.
    Accepted {
        /// What it describes.
        #[serde(flatten)]
        subject: Subject,
        /// Fields that are unknown or not honoured.
        warnings: Vec<Finding>,
    },
    /// As good as it was when its source was last heard.
    Unchanged {
        /// What it describes.
        #[serde(flatten)]
        subject: Subject,
        /// Fields that are unknown or not honoured.
        warnings: Vec<Finding>,
    },
    /// Not taken; a last good version runs on.
    Refused(Refusal),
    /// Valid, but a source of higher precedence holds the same name.
    Shadowed {
        /// What it describes.
        #[serde(flatten)]
        subject: Subject,
        /// What wins.
        by: Winner,
    },
    /// Not read: it is no manifest by its name.
    Skipped {
        /// Why.
        reason: String,
    },
}

/// What holds a name that others want too.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Winner {
    /// Its source.
    #[serde(serialize_with = "as_text")]
    pub source: Source,
    /// Its file or URL. Not known for a last good version whose file now says something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

impl Outcome {
    /// Every outcome's word.
    pub(crate) const WORDS: [&str; 5] = ["accepted", "unchanged", "refused", "shadowed", "skipped"];

    /// The outcome in one word.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Outcome::Accepted { .. } => "accepted",
            Outcome::Unchanged { .. } => "unchanged",
            Outcome::Refused(_) => "refused",
            Outcome::Shadowed { .. } => "shadowed",
            Outcome::Skipped { .. } => "skipped",
        }
    }

    /// What a document describes that is taken as it is.
    pub(crate) fn taken(&self) -> Option<&Subject> {
        match self {
            Outcome::Accepted { subject, .. } | Outcome::Unchanged { subject, .. } => Some(subject),
            Outcome::Refused(_) | Outcome::Shadowed { .. } | Outcome::Skipped { .. } => None,
        }
    }

    /// The same judgement; lines and columns of the fields that it names do not count.
    pub(crate) fn without_places(&self) -> Self {
        let mut outcome = self.clone();
        let findings: Vec<&mut Finding> = match &mut outcome {
            Outcome::Accepted { warnings, .. } | Outcome::Unchanged { warnings, .. } => {
                warnings.iter_mut().collect()
            }
            Outcome::Refused(refusal) => refusal.findings_mut().collect(),
            Outcome::Shadowed { .. } | Outcome::Skipped { .. } => Vec::new(),
        };
        findings.into_iter().for_each(|finding| finding.position = None);
        outcome
    }

    /// The warnings on a document that was taken: fields without effect.
    pub(crate) fn warnings(&self) -> &[Finding] {
        match self {
            Outcome::Accepted { warnings, .. } | Outcome::Unchanged { warnings, .. } => warnings,
            Outcome::Refused(refusal) => &refusal.warnings,
            Outcome::Shadowed { .. } | Outcome::Skipped { .. } => &[],
        }
    }
}

/// The verdicts that are new or changed, each with the one before on the same document.
pub(crate) fn diff_verdicts<'a>(
    old: &'a [Verdict],
    new: &'a [Verdict],
) -> Vec<(Option<&'a Outcome>, &'a Verdict)> {
    fn place(v: &Verdict) -> (Source, &str, usize, Option<usize>) {
        (v.source, &v.origin, v.document, v.item)
    }
    let old: BTreeMap<_, _> = old.iter().map(|v| (place(v), &v.outcome)).collect();
    let pairs = new.iter().map(|v| (old.get(&place(v)).copied(), v));
    pairs.filter(|(before, now)| *before != Some(&now.outcome)).collect()
}

/// Verdicts as JSON, under a heading that says what they are.
pub(crate) fn to_json(verdicts: &[Verdict]) -> Result<Vec<u8>, serde_json::Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct List<'a> {
        kind: &'static str,
        api_version: &'static str,
        items: &'a [Verdict],
    }
    serde_json::to_vec(&List { kind: "VerdictList", api_version: "rkubelet.dev/v1", items: verdicts })
}

fn as_text<T: ToString, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&value.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pod::PodName;
    use crate::pod::object::{ObjectKey, ObjectKind};
    use crate::text::yaml::Position;

    fn verdict(origin: &str, document: usize, outcome: Outcome) -> Verdict {
        Verdict { source: Source::File, origin: origin.to_owned(), document, item: None, outcome }
    }

    fn accepted(warnings: Vec<Finding>) -> Outcome {
        Outcome::Accepted { subject: PodName::new("default", "a").into(), warnings }
    }

    #[test]
    fn whoever_reads_a_document_finds_its_warnings() {
        let unknown = Finding::new("spec.x", "unknown field");
        let refusal = Refusal::from(Finding::new("spec", "bad")).with_warnings(vec![unknown.clone()]);
        let subject = Subject::Pod(PodName::new("default", "a"));
        let unchanged = Outcome::Unchanged { subject, warnings: vec![unknown.clone()] };
        for outcome in [accepted(vec![unknown.clone()]), unchanged, Outcome::Refused(refusal)] {
            assert_eq!(outcome.warnings(), std::slice::from_ref(&unknown), "{outcome:?}");
        }
        assert_eq!(Outcome::Skipped { reason: "hidden".into() }.warnings(), []);
    }

    #[test]
    fn the_json_is_as_documented() {
        let position = Position { line: 3, column: 5 };
        let mut verdicts = [
            verdict("a.yaml", 1, accepted(vec![Finding::new("spec.x", "unknown field").at(position)])),
            verdict("b.yaml", 1, Outcome::Refused(Finding::whole("not valid YAML").into())),
            verdict(
                "c.yaml",
                1,
                Outcome::Refused(
                    Refusal::from(Finding::new("spec", "bad"))
                        .with_warnings(vec![Finding::new("sepc", "unknown field").at(position)]),
                ),
            ),
            verdict(
                "http://x/",
                2,
                Outcome::Shadowed {
                    subject: PodName::new("default", "a").into(),
                    by: Winner { source: Source::File, origin: Some("a.yaml".to_owned()) },
                },
            ),
        ];
        verdicts[3].item = Some(3);
        let subject = Subject::Object(ObjectKey::new(ObjectKind::Secret, "default", "s"));
        let object = verdict("d.yaml", 2, Outcome::Accepted { subject, warnings: vec![] });
        let object: Value = serde_json::to_value(&object).unwrap();
        assert_eq!(
            object,
            json!({"source": "file", "origin": "d.yaml", "document": 2, "outcome": "accepted", "object": "Secret default/s", "warnings": []})
        );
        let value: Value = serde_json::from_slice(&to_json(&verdicts).unwrap()).unwrap();
        let want = json!({
            "kind": "VerdictList",
            "apiVersion": "rkubelet.dev/v1",
            "items": [
                {
                    "source": "file", "origin": "a.yaml", "document": 1, "outcome": "accepted", "pod": "default/a",
                    "warnings": [{"field": "spec.x", "reason": "unknown field", "line": 3, "column": 5}],
                },
                {
                    "source": "file", "origin": "b.yaml", "document": 1, "outcome": "refused",
                    "problems": [{"field": "", "reason": "not valid YAML"}],
                },
                {
                    "source": "file", "origin": "c.yaml", "document": 1, "outcome": "refused",
                    "problems": [{"field": "spec", "reason": "bad"}],
                    "warnings": [{"field": "sepc", "reason": "unknown field", "line": 3, "column": 5}],
                },
                {
                    "source": "file", "origin": "http://x/", "document": 2, "item": 3, "outcome": "shadowed",
                    "pod": "default/a", "by": {"source": "file", "origin": "a.yaml"},
                },
            ],
        });
        assert_eq!(value, want);
    }

    #[test]
    fn words_are_those_of_the_json() {
        let subject = Subject::Pod(PodName::new("default", "a"));
        let by = Winner { source: Source::File, origin: None };
        let outcomes = [
            accepted(vec![]),
            Outcome::Unchanged { subject: subject.clone(), warnings: vec![] },
            Outcome::Refused(Finding::whole("x").into()),
            Outcome::Shadowed { subject, by },
            Outcome::Skipped { reason: "x".into() },
        ];
        assert_eq!(outcomes.each_ref().map(Outcome::word), Outcome::WORDS);
        for outcome in outcomes {
            assert_eq!(serde_json::to_value(&outcome).unwrap()["outcome"], outcome.word());
        }
    }

    #[test]
    fn differences_are_per_document() {
        let refused = |reason: &str| Outcome::Refused(Finding::whole(reason).into());
        let old = [verdict("a", 1, refused("x")), verdict("b", 1, refused("x"))];
        let new =
            [verdict("a", 1, refused("x")), verdict("b", 1, refused("y")), verdict("b", 2, refused("x"))];
        assert_eq!(diff_verdicts(&old, &new), [(Some(&old[1].outcome), &new[1]), (None, &new[2])]);
        assert_eq!(diff_verdicts(&new, &new), []);
        let items: Vec<_> = [(None, "x"), (Some(0), "y"), (Some(1), "z")]
            .map(|(item, reason)| Verdict { item, ..verdict("c", 1, refused(reason)) })
            .into();
        assert_eq!(diff_verdicts(&items, &items), [], "each item is one of its own");
    }
}
