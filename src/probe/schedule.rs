//! When which probe is run, and what came of it. Pure: time and chance are parameters.
//!
//! Owns every probe of the node. At rest a probe is an entry here and nothing else. Invariants: a probe is never run
//! twice at the same time; until a container has started, only its startup probe is run.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::check::Spec;
use super::target::{ProbeActivity, ProbeHost, Target, Verdicts};
use super::threshold::{Kind, ProbeChange, ProbeOutcome, Tally};
use crate::pod::{ContainerId, ContainerRef, PodName, PodUid};

/// What tells one probe from another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProbeKey {
    /// The pod.
    pub pod: PodName,
    /// The container.
    pub id: ContainerId,
    /// What the probe is for.
    pub kind: Kind,
}

/// A run that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DueProbe {
    /// Which probe.
    pub key: Arc<ProbeKey>,
    /// The instance of its pod.
    pub uid: PodUid,
    /// The container's place in the manifest.
    pub which: ContainerRef,
    /// The container's name in the pod.
    pub container: String,
    /// What to do.
    pub spec: Arc<Spec>,
    /// Where the pod is reached.
    pub host: ProbeHost,
}

/// What one run came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ran {
    /// What it found.
    pub result: ProbeResult,
    /// What it printed, or what went wrong.
    pub output: String,
}

/// What one run found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum ProbeResult {
    /// All is well.
    Success,
    /// The same, as far as can be told.
    Warning,
    /// It is not.
    Failure,
    /// It could not be run, which says nothing about the container.
    Unknown,
}

impl ProbeResult {
    /// What counts of it.
    pub(crate) fn outcome(self) -> Option<ProbeOutcome> {
        match self {
            ProbeResult::Success | ProbeResult::Warning => Some(ProbeOutcome::Success),
            ProbeResult::Failure => Some(ProbeOutcome::Failure),
            ProbeResult::Unknown => None,
        }
    }
}

/// Whether the probes of a pod are those that they were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Roster {
    /// They are.
    Same,
    /// There are others, or fewer.
    Changed,
}

/// What a run means to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Noted {
    /// The result differs from the one before it.
    pub news: News,
    /// The verdict changed, to this.
    pub verdict: ProbeChange,
}

/// Whether a result is worth a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    /// The last one was the same.
    No,
    /// It is the first one.
    First,
    /// The last one was another.
    Changed,
}

/// What is known of one probe, for whoever asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProbeReport {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The pod's UID.
    pub uid: String,
    /// The container's name.
    pub container: String,
    /// The container's id.
    pub container_id: String,
    /// What the probe is for.
    pub probe: Kind,
    /// What follows from its results; none before it is known.
    pub verdict: Option<ProbeOutcome>,
    /// Results of the last kind in a row.
    pub in_a_row: u32,
    /// The last run; none before the first.
    pub last: Option<Last>,
}

/// The last run of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Last {
    /// What it found.
    pub result: ProbeResult,
    /// What it printed, or what went wrong.
    pub output: String,
    /// When it ended.
    pub at: Timestamp,
}

/// The time, on both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// On a clock that never jumps, since the agent began.
    pub uptime: Duration,
    /// On the wall.
    pub now: Timestamp,
}

/// Every probe of the node.
#[derive(Debug)]
pub(crate) struct Schedule {
    probes: BTreeMap<Arc<ProbeKey>, ScheduledProbe>,
    due: BTreeSet<(Duration, Arc<ProbeKey>)>,
    /// When the agent began: what ran before is met with a spread-out first round.
    began: Timestamp,
}

#[derive(Debug)]
struct ScheduledProbe {
    uid: PodUid,
    which: ContainerRef,
    container: String,
    spec: Arc<Spec>,
    host: ProbeHost,
    activity: ProbeActivity,
    tally: Tally,
    /// It is not run before this time.
    earliest: Option<Duration>,
    stage: Stage,
    last: Option<Last>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Idle,
    Due(Duration),
    Running { since: Duration },
}

impl Schedule {
    /// An empty one, of an agent that began now.
    pub(crate) fn new(began: Timestamp) -> Self {
        Self { probes: BTreeMap::new(), due: BTreeSet::new(), began }
    }

    /// These are the probes of a pod from now on. What is known of those that it had is kept. `chance` is from 0 to 1.
    pub(crate) fn watch(
        &mut self,
        pod: &PodName,
        uid: &PodUid,
        targets: Vec<Target>,
        at: Moment,
        mut chance: impl FnMut() -> f64,
    ) -> Roster {
        let known = self.keys_of(pod).len();
        let mut gone: BTreeSet<_> = self.keys_of(pod).into_iter().collect();
        for Target { id, which, container, kind, spec, host, known, activity } in targets {
            let key = Arc::new(ProbeKey { pod: pod.clone(), id, kind });
            gone.remove(&key);
            let began = self.began;
            let entry = self.probes.entry(key).or_insert_with(|| ScheduledProbe {
                uid: uid.clone(),
                which,
                container,
                spec: spec.clone(),
                host: ProbeHost::None,
                activity: ProbeActivity::Paused,
                tally: Tally::knowing(known),
                earliest: None,
                stage: Stage::Idle,
                last: None,
            });
            (entry.spec, entry.host, entry.activity) = (spec, host, activity);
            if let (None, ProbeActivity::Active { started_at }) = (entry.earliest, activity) {
                entry.earliest = Some(first_due(&entry.spec, started_at, began, at, &mut chance));
            }
        }
        let kept = known - gone.len();
        self.remove(gone);
        self.arrange(pod, at.uptime);
        if self.keys_of(pod).len() == kept && kept == known { Roster::Same } else { Roster::Changed }
    }

    /// The pod has no probes any more.
    pub(crate) fn forget(&mut self, pod: &PodName) {
        self.remove(self.keys_of(pod));
    }

    /// The probes that are to be run now.
    pub(crate) fn take_due(&mut self, uptime: Duration) -> Vec<DueProbe> {
        let mut jobs = Vec::new();
        while let Some((due, _)) = self.due.first()
            && *due <= uptime
            && let Some((due, key)) = self.due.pop_first()
        {
            let Some(entry) = self.probes.get_mut(&key) else { continue };
            entry.stage = Stage::Running { since: due };
            let (uid, which, container) = (entry.uid.clone(), entry.which, entry.container.clone());
            jobs.push(DueProbe {
                uid,
                which,
                container,
                spec: entry.spec.clone(),
                host: entry.host.clone(),
                key,
            });
        }
        jobs
    }

    /// When the next probe is due.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Takes in what a run came to; none if nobody is interested any more.
    pub(crate) fn note(&mut self, key: &Arc<ProbeKey>, ran: Ran, at: Moment) -> Option<Noted> {
        let entry = self.probes.get_mut(key)?;
        let Stage::Running { since } = entry.stage else { return None };
        entry.stage = Stage::Idle;
        entry.earliest = Some(next_turn(since, entry.spec.period, at.uptime));
        let noted = (entry.activity != ProbeActivity::Paused).then(|| {
            let news = match &entry.last {
                None => News::First,
                Some(last) if last.result == ran.result => News::No,
                Some(_) => News::Changed,
            };
            let verdict = match ran.result.outcome() {
                Some(outcome) => entry.tally.note(entry.spec.thresholds, outcome),
                None => ProbeChange::None,
            };
            entry.last = Some(Last { result: ran.result, output: ran.output, at: at.now });
            Noted { news, verdict }
        });
        self.arrange(&key.pod, at.uptime);
        noted
    }

    /// What the probes of a pod found.
    pub(crate) fn verdicts(&self, pod: &PodName) -> Verdicts {
        let found = self.of(pod).map(|(key, entry)| ((key.id.clone(), key.kind), entry.tally.verdict()));
        found.collect()
    }

    /// Everything, for whoever asks.
    pub(crate) fn reports(&self) -> Vec<ProbeReport> {
        let report = |(key, entry): (&Arc<ProbeKey>, &ScheduledProbe)| ProbeReport {
            namespace: key.pod.namespace.clone(),
            pod: key.pod.name.clone(),
            uid: entry.uid.to_string(),
            container: entry.container.clone(),
            container_id: key.id.to_string(),
            probe: key.kind,
            verdict: entry.tally.verdict(),
            in_a_row: entry.tally.in_a_row(),
            last: entry.last.clone(),
        };
        self.probes.iter().map(report).collect()
    }

    fn remove(&mut self, keys: impl IntoIterator<Item = Arc<ProbeKey>>) {
        for key in keys {
            if let Some(ScheduledProbe { stage: Stage::Due(due), .. }) = self.probes.remove(&key) {
                self.due.remove(&(due, key));
            }
        }
    }

    /// Makes due what may be run, and holds back what may not.
    fn arrange(&mut self, pod: &PodName, uptime: Duration) {
        let verdicts = self.verdicts(pod);
        for key in self.keys_of(pod) {
            let Some(entry) = self.probes.get_mut(&key) else { continue };
            let opened = key.kind == Kind::Startup || verdicts.has_started(&key.id);
            let wanted =
                opened && entry.activity != ProbeActivity::Paused && !entry.tally.is_settled(key.kind);
            match (entry.stage, entry.earliest) {
                (Stage::Idle, Some(earliest)) if wanted => {
                    let due = earliest.max(uptime);
                    entry.stage = Stage::Due(due);
                    self.due.insert((due, key));
                }
                (Stage::Due(due), _) if !wanted => {
                    entry.stage = Stage::Idle;
                    self.due.remove(&(due, key));
                }
                _ => {}
            }
        }
    }

    fn of<'a>(&'a self, pod: &'a PodName) -> impl Iterator<Item = (&'a Arc<ProbeKey>, &'a ScheduledProbe)> {
        let first = ProbeKey { pod: pod.clone(), id: ContainerId(String::new()), kind: Kind::Startup };
        self.probes.range(Arc::new(first)..).take_while(move |(key, _)| key.pod == *pod)
    }

    fn keys_of(&self, pod: &PodName) -> Vec<Arc<ProbeKey>> {
        self.of(pod).map(|(key, _)| key.clone()).collect()
    }
}

/// When a probe that was due at `since` is due again. What a run that took longer than its period has missed is left out,
/// as kubelet does: probes that began at different moments stay apart, however long they hang.
fn next_turn(since: Duration, period: Duration, now: Duration) -> Duration {
    let missed = now.saturating_sub(since).as_nanos() / period.as_nanos().max(1);
    let turns = u32::try_from(missed).unwrap_or(u32::MAX).saturating_add(1);
    since.saturating_add(period.saturating_mul(turns))
}

/// When a probe is first run. The containers that an agent finds are met one by one, over the period of each probe.
fn first_due(
    spec: &Spec,
    started_at: Timestamp,
    began: Timestamp,
    at: Moment,
    chance: &mut impl FnMut() -> f64,
) -> Duration {
    let ran_for = Duration::try_from(at.now.duration_since(started_at)).unwrap_or_default();
    let delay = spec.initial_delay.saturating_sub(ran_for);
    let spread = if started_at < began { spec.period.mul_f64(chance()) } else { Duration::ZERO };
    at.uptime.saturating_add(delay.max(spread))
}
