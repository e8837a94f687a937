//! A moment in the past, dated once and from then on counted on a clock that nobody sets.

use std::time::Duration;

use jiff::Timestamp;

/// Two dates that lie this close together may be in the wrong order though nobody set the clock.
const TOLERANCE: Duration = Duration::from_secs(1);

/// A moment in the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Since {
    /// How long ago it was when it was noted.
    age: Duration,
    /// When it was noted, in uptime.
    noted: Duration,
}

impl Since {
    /// This moment.
    pub(crate) fn now(uptime: Duration) -> Self {
        Self { age: Duration::ZERO, noted: uptime }
    }

    /// A moment that the wall clock dates. One in the future tells that the clock was set back meanwhile, by nobody knows
    /// how much: it counts as long ago, so that nothing waits for it.
    pub(crate) fn dated(moment: Timestamp, now: Timestamp, uptime: Duration) -> Self {
        let age = match Duration::try_from(now.duration_since(moment)) {
            Ok(age) => age,
            Err(_) => match Duration::try_from(moment.duration_since(now)) {
                Ok(ahead) if ahead <= TOLERANCE => Duration::ZERO,
                _ => Duration::MAX,
            },
        };
        Self { age, noted: uptime }
    }

    /// How long ago it is.
    pub(crate) fn elapsed(&self, uptime: Duration) -> Duration {
        self.age.saturating_add(uptime.saturating_sub(self.noted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_on_the_clock_that_nobody_sets() {
        let secs = Duration::from_secs;
        let at = |second| Timestamp::from_second(second).unwrap();
        // When it was, the wall clock when it was noted, and how old it is ten seconds of uptime later.
        let rows = [
            ("just now", 100, 100, secs(10)),
            ("a while ago", 60, 100, secs(50)),
            ("a hair ahead", 101, 100, secs(10)),
            ("the clock was set back", 1_900_000_000, 100, Duration::MAX),
        ];
        for (name, moment, now, expect) in rows {
            assert_eq!(Since::dated(at(moment), at(now), secs(5)).elapsed(secs(15)), expect, "{name}");
        }
        assert_eq!(Since::now(secs(5)).elapsed(secs(15)), secs(10));
    }
}
