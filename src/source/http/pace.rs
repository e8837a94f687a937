//! When to poll next. Pure: the random number is a parameter.

use std::time::Duration;

use crate::http::Cause;
use crate::time::backoff::Backoff;

/// The first delay after a failure, unless the period is shorter.
const FIRST: Duration = Duration::from_secs(1);
/// A server that fails is asked at least this often, unless the period is longer.
const SLOWEST: Duration = Duration::from_secs(60);
/// The longest delay where the clock may be wrong: it can be set at any moment, without notice.
const CLOCK: Duration = Duration::from_secs(10);

/// What to wait for before the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextRequest {
    /// For so long.
    After(Duration),
    /// For so long, or until the network changes.
    AfterOrNetwork(Duration),
}

/// The last request's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// It was answered, and what came was taken.
    Well,
    /// It failed, as did this many in a row, itself included.
    Failed {
        /// How many.
        times: u32,
        /// What it depends on.
        cause: Cause,
    },
}

/// When to ask again; `chance` is from 0 to 1, and keeps a thousand machines from asking as one.
pub(super) fn next(period: Duration, ended: Ended, chance: f64) -> NextRequest {
    let spread = |delay: Duration| delay.mul_f64(0.9 + 0.2 * chance.clamp(0.0, 1.0));
    match ended {
        Ended::Well => NextRequest::After(spread(period)),
        Ended::Failed { times, cause } => {
            let slowest = match cause {
                Cause::Clock => CLOCK,
                Cause::Network | Cause::Other => SLOWEST.max(period),
            };
            let delay = spread(Backoff { base: FIRST.min(period), cap: slowest }.delay(times));
            if cause == Cause::Network {
                NextRequest::AfterOrNetwork(delay)
            } else {
                NextRequest::After(delay)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays() {
        let ms = Duration::from_millis;
        let failed = |times, cause| Ended::Failed { times, cause };
        let cases = [
            ("the period", 20_000, Ended::Well, 0.5, NextRequest::After(ms(20_000))),
            ("early", 20_000, Ended::Well, 0.0, NextRequest::After(ms(18_000))),
            ("late", 20_000, Ended::Well, 1.0, NextRequest::After(ms(22_000))),
            (
                "soon after the first failure",
                20_000,
                failed(1, Cause::Other),
                0.5,
                NextRequest::After(ms(1_000)),
            ),
            ("then later", 20_000, failed(4, Cause::Other), 0.5, NextRequest::After(ms(8_000))),
            ("at the latest", 20_000, failed(99, Cause::Other), 0.5, NextRequest::After(ms(60_000))),
            (
                "or with the network",
                20_000,
                failed(99, Cause::Network),
                0.5,
                NextRequest::AfterOrNetwork(ms(60_000)),
            ),
            ("soon, for the clock", 20_000, failed(99, Cause::Clock), 0.5, NextRequest::After(ms(10_000))),
            ("a short period", 100, failed(1, Cause::Other), 0.5, NextRequest::After(ms(100))),
            ("a long period", 600_000, failed(99, Cause::Other), 0.5, NextRequest::After(ms(600_000))),
        ];
        for (name, period, ended, chance, expect) in cases {
            assert_eq!(next(ms(period), ended, chance), expect, "{name}");
        }
    }
}
