//! Waiting after failures, as pure functions of how often and when.
//!
//! Time is counted on a clock that nobody sets ([`Since`](super::since::Since)): a device that boots into 1970 and is set
//! right later waits no longer than any other.

use std::time::Duration;

/// A run that is longer forgives the crashes before it: kubelet's ten minutes, whatever the cap.
const HEALTHY: Duration = Duration::from_secs(600);

/// How delays grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Backoff {
    /// The first delay.
    pub base: Duration,
    /// No delay is longer.
    pub cap: Duration,
}

impl Backoff {
    /// Crash loops: 10 s, doubling to `cap` (kubelet's 5 min unless configured).
    pub(crate) fn crash_loop(cap: Duration) -> Self {
        Self { base: Duration::from_secs(10).min(cap), cap }
    }

    /// Pulls of images: 10 s, doubling to 5 min, as kubelet's.
    pub(crate) const PULL: Self = Self { base: Duration::from_secs(10), cap: Duration::from_secs(300) };

    /// Other failed steps (a sandbox, a container that cannot be created): quick at first.
    pub(crate) const STEP: Self = Self { base: Duration::from_secs(1), cap: Duration::from_secs(60) };

    /// The delay after `failures` in a row: none after none, then `base`, doubling.
    pub(crate) fn delay(&self, failures: u32) -> Duration {
        match failures {
            0 => Duration::ZERO,
            n => self.base.saturating_mul(1u32.checked_shl(n - 1).unwrap_or(u32::MAX)).min(self.cap),
        }
    }

    /// How much of the delay is left when the last failure was so long ago.
    pub(crate) fn remaining(&self, failures: u32, elapsed: Duration) -> Option<Duration> {
        self.delay(failures).checked_sub(elapsed).filter(|left| !left.is_zero())
    }

    /// The crashes in a row that count when a container ends that came after `before` of them and had run for `ran`:
    /// a long healthy run forgives them.
    pub(crate) fn counted(&self, before: u32, ran: Duration) -> u32 {
        if ran > HEALTHY { 0 } else { before }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_cap() {
        let backoff = Backoff::crash_loop(Duration::from_secs(300));
        for (failures, seconds) in
            [(0, 0), (1, 10), (2, 20), (3, 40), (5, 160), (6, 300), (40, 300), (u32::MAX, 300)]
        {
            assert_eq!(backoff.delay(failures), Duration::from_secs(seconds), "after {failures}");
        }
        assert_eq!(Backoff::crash_loop(Duration::from_secs(4)).delay(1), Duration::from_secs(4));
    }

    #[test]
    fn what_remains_never_exceeds_the_delay() {
        let backoff = Backoff::crash_loop(Duration::from_secs(300));
        let cases = [
            ("at once after the first", 0, 0, None),
            ("all of it", 1, 0, Some(10)),
            ("some of it", 1, 4, Some(6)),
            ("over", 1, 10, None),
            ("long over", 2, u64::MAX, None),
        ];
        for (name, failures, elapsed, left) in cases {
            let left = left.map(Duration::from_secs);
            assert_eq!(backoff.remaining(failures, Duration::from_secs(elapsed)), left, "{name}");
        }
    }

    #[test]
    fn ten_minutes_of_health_forgive() {
        for cap in [4, 300] {
            let backoff = Backoff::crash_loop(Duration::from_secs(cap));
            assert_eq!(backoff.counted(3, Duration::from_secs(600)), 3);
            assert_eq!(backoff.counted(3, Duration::from_secs(601)), 0);
        }
    }
}
