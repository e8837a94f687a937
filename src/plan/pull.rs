//! Images that could not be pulled: how long to wait, what to look for and to show meanwhile, and what of it a restart
//! of the agent keeps.
//!
//! While a pull waits, the image is looked for: somebody may bring it by hand.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container as ContainerSpec;
use serde::{Deserialize, Serialize};

use super::{History, Waiting};
use crate::pod::ConfigHash;
use crate::time::backoff::Backoff;

/// How often an image is looked for while its pull waits, and how long a failed pull is shown as such.
const LOOK: Backoff = Backoff { base: Duration::from_secs(5), cap: Duration::from_secs(5) };

/// Failed pulls of one image for one container, in a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PullFailure {
    /// The image, as the manifest names it.
    pub image: String,
    /// How many.
    pub count: u32,
    /// When the last one was.
    pub at: Timestamp,
    /// When the image was last looked for.
    pub looked: Timestamp,
    /// The reason and message of the last one.
    pub waiting: Waiting,
}

/// What may be done about an image that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PullPermit {
    /// Pull it.
    Pull,
    /// Only look whether it is there by now.
    Look,
}

/// What is kept of a failure for an agent that is started again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PullRecord {
    /// The hash of the manifest: another one is another beginning.
    pub hash: String,
    /// The failure.
    pub failure: PullFailure,
}

impl PullFailure {
    /// One more failure, after `earlier`. One of another image, or of long ago, is not counted.
    pub(crate) fn after(earlier: Option<&Self>, image: &str, at: Timestamp, waiting: Waiting) -> Self {
        let counted = earlier.filter(|earlier| earlier.image == image && !earlier.is_over(at));
        let count = counted.map_or(0, |failure| failure.count).saturating_add(1);
        Self { image: image.to_owned(), count, at, looked: at, waiting }
    }

    /// Whether it is time to pull again, or only to look.
    pub(crate) fn permit(&self, now: Timestamp) -> PullPermit {
        match self.left(now) {
            Some(_) => PullPermit::Look,
            None => PullPermit::Pull,
        }
    }

    /// What to show: the failure while it is fresh, and then that the next try waits.
    fn shown(&self, now: Timestamp) -> Waiting {
        if self.fresh(now).is_some() {
            return self.waiting.clone();
        }
        let Waiting { reason, message } = &self.waiting;
        Waiting {
            reason: "ImagePullBackOff".into(),
            message: format!("Back-off pulling image \"{}\": {reason}: {message}", self.image),
        }
    }

    /// How long until there is something to do, which is to look if that may help.
    fn remaining(&self, always: bool, now: Timestamp) -> Option<Duration> {
        let pull = self.left(now)?;
        match always {
            // What is there is not good enough: there is only something else to show.
            true => Some(self.fresh(now).map_or(pull, |fresh| fresh.min(pull))),
            false => LOOK.remaining(1, self.looked, now).map(|look| look.min(pull)),
        }
    }

    /// How long it will still be shown as it came.
    fn fresh(&self, now: Timestamp) -> Option<Duration> {
        LOOK.remaining(1, self.at, now)
    }

    fn left(&self, now: Timestamp) -> Option<Duration> {
        Backoff::PULL.remaining(self.count, self.at, now)
    }

    /// So long ago that it says nothing any more: twice the longest delay, as kubelet forgets.
    fn is_over(&self, now: Timestamp) -> bool {
        Duration::try_from(now.duration_since(self.at))
            .is_ok_and(|age| age > Backoff::PULL.cap.saturating_mul(2))
    }
}

impl PullRecord {
    /// The failure, if it says something about this container of this manifest at this time.
    pub(crate) fn revive(self, hash: &ConfigHash, image: &str, now: Timestamp) -> Option<PullFailure> {
        let Self { hash: of, mut failure } = self;
        let counts = of == hash.as_str() && failure.image == image && !failure.is_over(now);
        // Nobody has looked since the agent ended.
        failure.looked = Timestamp::UNIX_EPOCH;
        counts.then_some(failure)
    }
}

impl History {
    /// How long a container must still wait after what failed before.
    pub(super) fn remaining(&self, spec: &ContainerSpec, now: Timestamp) -> Option<Duration> {
        let always = spec.image_pull_policy.as_deref() == Some("Always");
        let pull = || self.pulls.get(&spec.name)?.remaining(always, now);
        self.starts.get(&spec.name).and_then(|failure| failure.remaining(now)).or_else(pull)
    }

    /// What is to be shown of what failed last.
    pub(super) fn waiting(&self, container: &str, now: Timestamp) -> Option<Waiting> {
        let pull = || Some(self.pulls.get(container)?.shown(now));
        self.starts.get(container).map(|failure| failure.waiting.clone()).or_else(pull)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn failed(count: u32, second: i64) -> PullFailure {
        let waiting = Waiting { reason: "ErrImagePull".into(), message: "no".into() };
        let mut failure = PullFailure::after(None, "i:1", at(second), waiting);
        failure.count = count;
        failure
    }

    #[test]
    fn failures_are_counted_per_image_and_not_for_ever() {
        let rows = [
            ("the same", "i:1", 130, 4),
            ("another image", "i:2", 130, 1),
            ("ten minutes later", "i:1", 700, 4),
            ("long ago", "i:1", 701, 1),
            ("the clock fell back", "i:1", 10, 4),
        ];
        for (name, image, second, count) in rows {
            let waiting = failed(1, 0).waiting;
            let next = PullFailure::after(Some(&failed(3, 100)), image, at(second), waiting);
            assert_eq!((next.count, next.at, next.looked), (count, at(second), at(second)), "{name}");
        }
    }

    #[test]
    fn it_is_looked_for_while_its_pull_waits() {
        // Failures, policy Always, when it was looked for, now: what remains, and what may be done then.
        let rows = [
            (1, false, 100, 100, Some(5), PullPermit::Look),
            (1, false, 100, 105, None, PullPermit::Look),
            (1, false, 105, 106, Some(4), PullPermit::Look),
            (1, false, 105, 110, None, PullPermit::Pull),
            (3, false, 136, 138, Some(2), PullPermit::Look),
            (3, false, 0, 101, None, PullPermit::Look),
            (3, false, 139, 140, None, PullPermit::Pull),
            (1, true, 100, 100, Some(5), PullPermit::Look),
            (1, true, 100, 107, Some(3), PullPermit::Look),
            (1, true, 100, 110, None, PullPermit::Pull),
            (9, true, 100, 105, Some(295), PullPermit::Look),
        ];
        for (count, always, looked, now, left, permit) in rows {
            let failure = PullFailure { looked: at(looked), ..failed(count, 100) };
            let name = format!("{count} failures, looked at {looked}, now {now}");
            assert_eq!(failure.remaining(always, at(now)), left.map(Duration::from_secs), "{name}");
            assert_eq!(failure.permit(at(now)), permit, "{name}");
        }
    }

    #[test]
    fn a_failure_is_shown_first_and_the_wait_afterwards() {
        let failure = failed(2, 100);
        for now in [100, 104] {
            assert_eq!(failure.shown(at(now)), failure.waiting, "{now}");
        }
        for now in [105, 119, 500] {
            let shown = failure.shown(at(now));
            assert_eq!(shown.reason, "ImagePullBackOff", "{now}");
            assert_eq!(shown.message, "Back-off pulling image \"i:1\": ErrImagePull: no", "{now}");
        }
    }

    #[test]
    fn a_restart_keeps_what_still_counts() {
        let rows = [
            ("the same", "h", "i:1", 130, true),
            ("an edit", "other", "i:1", 130, false),
            ("another image", "h", "i:2", 130, false),
            ("long ago", "h", "i:1", 701, false),
            ("the clock fell back", "h", "i:1", 1, true),
        ];
        for (name, hash, image, now, kept) in rows {
            let record = PullRecord { hash: "h".into(), failure: failed(3, 100) };
            let text = serde_json::to_string(&record).unwrap();
            let read: PullRecord = serde_json::from_str(&text).unwrap();
            assert_eq!(read, record);
            let revived = read.revive(&ConfigHash::from(hash), image, at(now));
            assert_eq!(revived.as_ref().map(|failure| failure.count), kept.then_some(3), "{name}");
            if let Some(failure) = revived {
                assert_eq!(
                    failure.remaining(false, at(now.max(110))),
                    None,
                    "{name}: it is looked for at once"
                );
            }
        }
    }
}
