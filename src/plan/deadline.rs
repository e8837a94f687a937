//! activeDeadlineSeconds: how long a pod may be at work, restarts included. It begins with its first sandbox: while it
//! waits for other pods, or for the end of its predecessor, its time does not run.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::Situation;
use crate::pod::Pod;
use crate::pod::state::{Failed, FailedReason};
use crate::time::since::Since;

/// 2020, before the first rkubelet: a clock that shows less was not set.
const CLOCK_IS_SET: i64 = 1_577_836_800;
/// How far a clock may drift, or be nudged, before it counts as having leapt.
const DRIFT: Duration = Duration::from_secs(60);

/// Since when an instance is at work, which began at this time by the wall clock and is first seen now: whatever leaps the
/// wall clock makes afterwards change nothing.
///
/// What began before the clock was set, or is in the future, is of no known age: it counts as new, since to end it early is
/// worse.
pub(crate) fn active_since(began: Timestamp, now: Timestamp, uptime: Duration) -> Since {
    let was_set = |clock: Timestamp| clock.as_second() >= CLOCK_IS_SET;
    let is_known = (was_set(began) || !was_set(now)) && began <= now;
    if is_known { Since::dated(began, now, uptime) } else { Since::now(uptime) }
}

/// When the instance began, for an agent that has only the wall clock to go by: as it is remembered, unless the clock
/// has leapt since.
pub(crate) fn date_of(
    active: Since,
    remembered: Option<Timestamp>,
    now: Timestamp,
    uptime: Duration,
) -> Timestamp {
    let lasted = SignedDuration::try_from(active.elapsed(uptime)).unwrap_or(SignedDuration::MAX);
    let began = now.checked_sub(lasted).unwrap_or(Timestamp::MIN);
    let has_leapt = |earlier: Timestamp| began.duration_since(earlier).unsigned_abs() > DRIFT;
    remembered.filter(|earlier| !has_leapt(*earlier)).unwrap_or(began)
}

/// How a pod stands to its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deadline {
    /// It has none, or was done before.
    None,
    /// It ends in this time.
    In(Duration),
    /// It has passed.
    Passed,
}

/// Judges a pod; `finished` if all that it had to do is done.
///
/// What completed is over. Else, what ended after the deadline did not finish by itself: so one that had finished stays
/// finished, whenever it is looked at.
pub(super) fn judge(pod: &Pod, situation: &Situation<'_>, finished: bool) -> Deadline {
    let &Situation { observed, checkpoint, now, uptime, .. } = situation;
    let Some(seconds) = pod.spec.active_deadline_seconds else { return Deadline::None };
    if checkpoint.has_completed(pod) {
        return Deadline::None;
    }
    let Some(active) = situation.active_since else { return Deadline::None };
    let limit = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    let lasted = active.elapsed(uptime);
    let own = observed.own(pod).filter(|c| c.sidecar.is_none());
    let last = own.filter_map(|c| c.exit()).map(|exit| exit.finished_at).max();
    let before_its_end = |last: Timestamp| {
        let since = Duration::try_from(now.duration_since(last)).unwrap_or_default();
        lasted.saturating_sub(since)
    };
    if finished && last.is_some_and(|last| before_its_end(last) <= limit) {
        return Deadline::None;
    }
    match limit.saturating_sub(lasted) {
        Duration::ZERO => Deadline::Passed,
        left => Deadline::In(left),
    }
}

/// What to show of a pod that was ended by its deadline: kubelet's words.
pub(super) fn exceeded() -> Failed {
    Failed {
        reason: FailedReason::DeadlineExceeded,
        message: "Pod was active on the node longer than the specified deadline".into(),
    }
}
