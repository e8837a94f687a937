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
use crate::time::since::Since;

/// How often an image is looked for while its pull waits, and how long a failed pull is shown as such.
const LOOK: Backoff = Backoff { base: Duration::from_secs(5), cap: Duration::from_secs(5) };

/// Failed pulls of one image for one container, in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PullFailure {
    /// The image, as the manifest names it.
    pub image: String,
    /// How many.
    pub count: u32,
    /// When the last one was.
    pub since: Since,
    /// When the image was last looked for; none if nobody has looked since the agent began.
    pub looked: Option<Since>,
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
    /// The image, as the manifest names it.
    pub image: String,
    /// How often its pull failed in a row.
    pub count: u32,
    /// When it last did.
    pub at: Timestamp,
    /// The reason and message.
    pub waiting: Waiting,
}

impl PullFailure {
    /// One more failure, after `earlier`. One of another image, or of long ago, is not counted.
    pub(crate) fn after(earlier: Option<&Self>, image: &str, uptime: Duration, waiting: Waiting) -> Self {
        let counted = earlier.filter(|earlier| earlier.image == image && !is_over(&earlier.since, uptime));
        let count = counted.map_or(0, |failure| failure.count).saturating_add(1);
        let since = Since::now(uptime);
        Self { image: image.to_owned(), count, since, looked: Some(since), waiting }
    }

    /// What is to be kept of it, at this time of day.
    pub(crate) fn record(&self, hash: &ConfigHash, now: Timestamp) -> PullRecord {
        let (image, waiting) = (self.image.clone(), self.waiting.clone());
        PullRecord { hash: hash.to_string(), image, count: self.count, at: now, waiting }
    }

    /// Whether it is time to pull again, or only to look.
    pub(crate) fn permit(&self, uptime: Duration) -> PullPermit {
        match self.left(uptime) {
            Some(_) => PullPermit::Look,
            None => PullPermit::Pull,
        }
    }

    /// What to show: the failure while it is fresh, and then that the next try waits.
    fn shown(&self, uptime: Duration) -> Waiting {
        if self.fresh(uptime).is_some() {
            return self.waiting.clone();
        }
        let Waiting { reason, message } = &self.waiting;
        Waiting {
            reason: "ImagePullBackOff".into(),
            message: format!("Back-off pulling image \"{}\": {reason}: {message}", self.image),
        }
    }

    /// How long until there is something to do, which is to look if that may help.
    fn remaining(&self, always: bool, uptime: Duration) -> Option<Duration> {
        let pull = self.left(uptime)?;
        match always {
            // What is there is not good enough: there is only something else to show.
            true => Some(self.fresh(uptime).map_or(pull, |fresh| fresh.min(pull))),
            false => LOOK.remaining(1, self.looked?.elapsed(uptime)).map(|look| look.min(pull)),
        }
    }

    /// How long it will still be shown as it came.
    fn fresh(&self, uptime: Duration) -> Option<Duration> {
        LOOK.remaining(1, self.since.elapsed(uptime))
    }

    fn left(&self, uptime: Duration) -> Option<Duration> {
        Backoff::PULL.remaining(self.count, self.since.elapsed(uptime))
    }
}

/// So long ago that it says nothing any more: twice the longest delay, as kubelet forgets.
fn is_over(since: &Since, uptime: Duration) -> bool {
    since.elapsed(uptime) > Backoff::PULL.cap.saturating_mul(2)
}

impl PullRecord {
    /// The failure, if it says something about this container of this manifest at this time.
    pub(crate) fn revive(
        self,
        hash: &ConfigHash,
        image: &str,
        now: Timestamp,
        uptime: Duration,
    ) -> Option<PullFailure> {
        let since = Since::dated(self.at, now, uptime);
        let counts = self.hash == hash.as_str() && self.image == image && !is_over(&since, uptime);
        let Self { image, count, waiting, .. } = self;
        counts.then_some(PullFailure { image, count, since, looked: None, waiting })
    }
}

impl History {
    /// How long a container must still wait after what failed before.
    pub(super) fn remaining(&self, spec: &ContainerSpec, uptime: Duration) -> Option<Duration> {
        let always = spec.image_pull_policy.as_deref() == Some("Always");
        let pull = || self.pulls.get(&spec.name)?.remaining(always, uptime);
        self.starts.get(&spec.name).and_then(|failure| failure.remaining(uptime)).or_else(pull)
    }

    /// What is to be shown of what failed last.
    pub(super) fn waiting(&self, container: &str, uptime: Duration) -> Option<Waiting> {
        let pull = || Some(self.pulls.get(container)?.shown(uptime));
        self.starts.get(container).map(|failure| failure.waiting.clone()).or_else(pull)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn failed(count: u32, second: u64) -> PullFailure {
        let waiting = Waiting { reason: "ErrImagePull".into(), message: "no".into() };
        let mut failure = PullFailure::after(None, "i:1", secs(second), waiting);
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
        ];
        for (name, image, second, count) in rows {
            let waiting = failed(1, 0).waiting;
            let next = PullFailure::after(Some(&failed(3, 100)), image, secs(second), waiting);
            let since = Since::now(secs(second));
            assert_eq!((next.count, next.since, next.looked), (count, since, Some(since)), "{name}");
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
            let looked_at = Some(Since::now(secs(looked)));
            let failure = PullFailure { looked: looked_at, ..failed(count, 100) };
            let name = format!("{count} failures, looked at {looked}, now {now}");
            assert_eq!(failure.remaining(always, secs(now)), left.map(secs), "{name}");
            assert_eq!(failure.permit(secs(now)), permit, "{name}");
        }
    }

    #[test]
    fn a_failure_is_shown_first_and_the_wait_afterwards() {
        let failure = failed(2, 100);
        for now in [100, 104] {
            assert_eq!(failure.shown(secs(now)), failure.waiting, "{now}");
        }
        for now in [105, 119, 500] {
            let shown = failure.shown(secs(now));
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
            ("the clock fell back: nobody knows when it was", "h", "i:1", 1, false),
        ];
        for (name, hash, image, now, kept) in rows {
            let record = failed(3, 0).record(&ConfigHash::from("h"), at(100));
            let text = serde_json::to_string(&record).unwrap();
            let read: PullRecord = serde_json::from_str(&text).unwrap();
            assert_eq!(read, record);
            let revived = read.revive(&ConfigHash::from(hash), image, at(now), secs(7));
            assert_eq!(revived.as_ref().map(|failure| failure.count), kept.then_some(3), "{name}");
            if let Some(failure) = revived {
                assert_eq!(failure.remaining(false, secs(8)), None, "{name}: it is looked for at once");
                assert_eq!(failure.permit(secs(8)), PullPermit::Look, "{name}: and not pulled yet");
            }
        }
    }
}
