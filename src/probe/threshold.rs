//! What a stream of results means: from so many in a row of one kind follows a verdict. Pure.
//!
//! A tally belongs to one probe of one container; a new container begins with a new one.

use serde::Serialize;

/// What a probe is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub(crate) enum Kind {
    /// Whether the container has started; the other two wait for it.
    Startup,
    /// Whether it can do its work.
    Readiness,
    /// Whether it is to be restarted.
    Liveness,
}

impl Kind {
    /// All of them.
    pub(crate) const ALL: [Kind; 3] = [Kind::Startup, Kind::Readiness, Kind::Liveness];

    /// The word in metrics and messages, as kubelet writes it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Kind::Startup => "Startup",
            Kind::Readiness => "Readiness",
            Kind::Liveness => "Liveness",
        }
    }
}

/// What one run found, and what follows from many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum ProbeOutcome {
    /// All is well.
    Success,
    /// It is not.
    Failure,
}

/// How many results in a row make a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Thresholds {
    /// Successes.
    pub success: u32,
    /// Failures.
    pub failure: u32,
}

/// The results of one probe so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    verdict: Option<ProbeOutcome>,
    last: Option<ProbeOutcome>,
    in_a_row: u32,
}

/// What a result changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbeChange {
    /// Nothing that others need to know.
    None,
    /// The verdict, to this.
    Verdict(ProbeOutcome),
}

impl Tally {
    /// Begins with the verdict that an earlier agent came to, if it did.
    pub(crate) fn knowing(verdict: Option<ProbeOutcome>) -> Self {
        Self { verdict, ..Self::default() }
    }

    /// The verdict, once there is one.
    pub(crate) fn verdict(&self) -> Option<ProbeOutcome> {
        self.verdict
    }

    /// Results of the last kind in a row.
    pub(crate) fn in_a_row(&self) -> u32 {
        self.in_a_row
    }

    /// Nothing more is to be learned about this container: it has started, or is to be restarted.
    pub(crate) fn is_settled(&self, kind: Kind) -> bool {
        match kind {
            Kind::Startup => self.verdict.is_some(),
            Kind::Liveness => self.verdict == Some(ProbeOutcome::Failure),
            Kind::Readiness => false,
        }
    }

    /// Takes in one result.
    pub(crate) fn note(&mut self, thresholds: Thresholds, outcome: ProbeOutcome) -> ProbeChange {
        self.in_a_row = if self.last == Some(outcome) { self.in_a_row.saturating_add(1) } else { 1 };
        self.last = Some(outcome);
        let enough = match outcome {
            ProbeOutcome::Success => thresholds.success,
            ProbeOutcome::Failure => thresholds.failure,
        };
        if self.in_a_row < enough || self.verdict == Some(outcome) {
            return ProbeChange::None;
        }
        self.verdict = Some(outcome);
        ProbeChange::Verdict(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ProbeOutcome::{Failure, Success};

    /// `+` and `-` are results; the verdict after each, `?` for none, in capitals where it changed.
    fn verdicts(known: Option<ProbeOutcome>, success: u32, failure: u32, results: &str) -> String {
        let mut tally = Tally::knowing(known);
        let letter = |result: char| {
            let outcome = if result == '+' { Success } else { Failure };
            let change = tally.note(Thresholds { success, failure }, outcome);
            let letter = match tally.verdict() {
                None => '?',
                Some(Success) => 's',
                Some(Failure) => 'f',
            };
            if change == ProbeChange::None { letter } else { letter.to_ascii_uppercase() }
        };
        results.chars().map(letter).collect()
    }

    #[test]
    fn so_many_in_a_row_make_a_verdict() {
        for (known, success, failure, results, expect) in [
            (None, 1, 1, "+-+-", "SFSF"),
            (None, 1, 3, "---", "??F"),
            (None, 1, 3, "--+--", "??Sss"),
            (None, 1, 3, "+---+", "SssFS"),
            (None, 2, 3, "+-++", "???S"),
            (None, 3, 1, "+++-++", "??SFff"),
            (Some(Success), 1, 3, "--+---", "sssssF"),
            (Some(Success), 1, 3, "+", "s"),
            (Some(Failure), 2, 1, "+-++", "fffS"),
        ] {
            let found = verdicts(known, success, failure, results);
            assert_eq!(found, expect, "{known:?}, {success} and {failure}: {results}");
        }
    }

    #[test]
    fn what_is_settled_is_not_asked_again() {
        for (kind, verdict, expect) in [
            (Kind::Startup, None, false),
            (Kind::Startup, Some(Success), true),
            (Kind::Startup, Some(Failure), true),
            (Kind::Readiness, Some(Success), false),
            (Kind::Readiness, Some(Failure), false),
            (Kind::Liveness, Some(Success), false),
            (Kind::Liveness, Some(Failure), true),
        ] {
            assert_eq!(Tally::knowing(verdict).is_settled(kind), expect, "{kind:?} {verdict:?}");
        }
    }
}
