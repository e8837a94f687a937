//! Which files of a pod's logs are rotated, compressed, cut and removed. kubelet's names and numbers:
//!
//! ```text
//! 0.log                       what the runtime writes to
//! 0.log.20261118-110203       the newest part that was rotated: plain, for collectors still read it
//! 0.log.20261118-105501.gz    older ones
//! 0.log.20261118-110203.tmp   in the making; left behind by an agent that was killed
//! ```
//!
//! Invariants: what a running container writes to is only ever renamed, never cut or removed; of a container of which
//! nothing is known, only parts that were rotated go. What frees space comes before what takes some.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::civil::DateTime;
use jiff::{Span, Timestamp, tz::TimeZone};

const COMPRESSED: &str = ".gz";
/// The suffix of what is not whole yet.
pub(crate) const TEMPORARY: &str = ".tmp";
const STAMP: &str = "%Y%m%d-%H%M%S";
/// The shortest time between two looks at logs that grow fast.
const SHORTEST_WAIT: Duration = Duration::from_millis(500);

/// The limits, from `containerLogMaxSize` and its like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy {
    /// The size in bytes from which on a log is rotated.
    pub(crate) max_size: u64,
    /// How many files a container's log may consist of.
    pub(crate) max_files: usize,
    /// How many pods' logs may be worked on at a time.
    pub(crate) workers: usize,
    /// The time between two looks at logs that are written to.
    pub(crate) interval: Duration,
}

impl Policy {
    /// What the logs of a pod with so many containers may take, dead ones included. Where every look rotates (a size of 0),
    /// there is no such limit.
    pub(crate) fn pod_cap(&self, containers: usize) -> u64 {
        let files = u64::try_from(self.max_files.saturating_mul(containers)).unwrap_or(u64::MAX);
        if self.max_size == 0 { u64::MAX } else { self.max_size.saturating_mul(files) }
    }

    /// How long to wait until the next look, after one that came `waited` after the last and found logs of up to `largest`
    /// bytes: sooner if one of them passes its limit sooner.
    pub(crate) fn next_wait(&self, waited: Duration, largest: u64) -> Duration {
        if largest <= self.max_size || self.max_size == 0 {
            return self.interval;
        }
        let nanos = waited.as_nanos().saturating_mul(u128::from(self.max_size)) / u128::from(largest);
        let wait = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        wait.max(SHORTEST_WAIT).min(self.interval)
    }
}

/// What is known of the container that a log is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContainerLife {
    /// The runtime writes to its log.
    Running,
    /// Nobody writes to its log any more.
    Dead,
    /// It may be about to start.
    Unknown,
}

/// A regular file in the directory of a container's logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogFile {
    pub(crate) name: String,
    pub(crate) size: u64,
}

/// The logs of one container of a pod, over all its restarts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ContainerLogs {
    /// What is in its directory.
    pub(crate) files: Vec<LogFile>,
    /// What the runtime knows of its attempts.
    pub(crate) attempts: BTreeMap<u32, ContainerLife>,
}

impl ContainerLogs {
    fn life(&self, attempt: u32) -> ContainerLife {
        let newest = self.attempts.last_key_value().map(|(attempt, _)| *attempt);
        match self.attempts.get(&attempt) {
            Some(life) => *life,
            // The runtime has removed it.
            None if newest.is_some_and(|newest| attempt < newest) => ContainerLife::Dead,
            None => ContainerLife::Unknown,
        }
    }
}

/// One thing to do in the directory of a container's logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RotationStep {
    /// Remove a file.
    Remove(String),
    /// Compress a part that was rotated.
    Compress(String),
    /// Rename what is written to, and have the runtime open it anew.
    Rotate { attempt: u32, from: String, to: String },
    /// Have the runtime open its log anew: an earlier agent came no further than to rename it.
    Reopen { attempt: u32 },
    /// Give the log of a dead container its name back, for the same reason.
    Restore { from: String, to: String },
    /// Keep the last lines of a dead container's log, in so many bytes.
    Cut { name: String, keep: u64 },
}

/// What a file is by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LogFileKind<'a> {
    Current,
    Rotated(&'a str),
    Temporary,
}

/// The attempt that a file belongs to, and what it is; none for what is no log.
fn part(name: &str) -> Option<(u32, LogFileKind<'_>)> {
    let (number, rest) = name.split_once(".log")?;
    let attempt: u32 = number.parse().ok().filter(|attempt: &u32| attempt.to_string() == number)?;
    let part = match rest.strip_prefix('.') {
        None if rest.is_empty() => LogFileKind::Current,
        None | Some("") => return None,
        Some(_) if rest.ends_with(TEMPORARY) => LogFileKind::Temporary,
        Some(suffix) => LogFileKind::Rotated(suffix),
    };
    Some((attempt, part))
}

/// The name of the log of an attempt.
pub(crate) fn current_name(attempt: u32) -> String {
    format!("{attempt}.log")
}

/// The name of a part once it is compressed.
pub(crate) fn compressed_name(name: &str) -> String {
    format!("{name}{COMPRESSED}")
}

/// The log that a part was rotated out of.
pub(crate) fn current_of(name: &str) -> Option<String> {
    part(name).map(|(attempt, _)| current_name(attempt))
}

/// The oldest part that was rotated: what goes when there is no space to compress it.
pub(crate) fn select_oldest(files: &[LogFile]) -> Option<&LogFile> {
    let rotated = files.iter().filter_map(|file| match part(&file.name)? {
        (_, LogFileKind::Rotated(stamp)) => Some((stamp, file)),
        _ => None,
    });
    rotated.min_by_key(|(stamp, _)| *stamp).map(|(_, file)| file)
}

/// What is to be done for one container: what is left of earlier agents, and rotation.
pub(crate) fn plan_rotation(logs: &ContainerLogs, policy: &Policy, now: Timestamp) -> Vec<RotationStep> {
    let mut groups: BTreeMap<u32, AttemptFiles<'_>> = BTreeMap::new();
    // A log that is gone from its place has no file to find its container by.
    for (attempt, life) in &logs.attempts {
        if *life == ContainerLife::Running {
            groups.entry(*attempt).or_default();
        }
    }
    for file in &logs.files {
        let Some((attempt, part)) = part(&file.name) else { continue };
        let group = groups.entry(attempt).or_default();
        match part {
            LogFileKind::Current => group.current = Some(file),
            LogFileKind::Rotated(_) => group.rotated.push(&file.name),
            LogFileKind::Temporary => group.temporary.push(&file.name),
        }
    }
    let mut steps = Vec::new();
    for (attempt, group) in groups {
        group.plan(attempt, logs.life(attempt), policy, now, &mut steps);
    }
    steps
}

/// The files of one attempt.
#[derive(Default)]
struct AttemptFiles<'a> {
    current: Option<&'a LogFile>,
    rotated: Vec<&'a str>,
    temporary: Vec<&'a str>,
}

impl AttemptFiles<'_> {
    fn plan(
        mut self,
        attempt: u32,
        life: ContainerLife,
        policy: &Policy,
        now: Timestamp,
        steps: &mut Vec<RotationStep>,
    ) {
        if life == ContainerLife::Unknown {
            return;
        }
        let remove = |name: &&str| RotationStep::Remove((*name).to_owned());
        steps.extend(self.temporary.iter().map(remove));
        // Oldest first.
        self.rotated.sort_unstable();
        let (doubled, mut rotated): (Vec<&str>, Vec<&str>) =
            self.rotated.iter().partition(|name| self.rotated.contains(&compressed_name(name).as_str()));
        steps.extend(doubled.iter().map(remove));
        let name = current_name(attempt);
        match (life, self.current) {
            (ContainerLife::Running, None) => steps.push(RotationStep::Reopen { attempt }),
            (ContainerLife::Running, Some(current))
                if current.size > 0 && current.size >= policy.max_size =>
            {
                let to = rotated_name(&name, &rotated, now);
                // Beside these there are the log itself and the part that it becomes.
                let keep = policy.max_files.saturating_sub(2);
                let excess = rotated.len().saturating_sub(keep);
                steps.extend(rotated.drain(..excess).map(|name| remove(&name)));
                let plain = rotated.iter().filter(|name| !name.ends_with(COMPRESSED));
                steps.extend(plain.map(|name| RotationStep::Compress((*name).to_owned())));
                steps.push(RotationStep::Rotate { attempt, from: name, to });
            }
            (ContainerLife::Dead, None) => {
                let newest = rotated.last().filter(|name| !name.ends_with(COMPRESSED));
                steps.extend(newest.map(|from| RotationStep::Restore { from: (*from).to_owned(), to: name }));
            }
            _ => {}
        }
    }
}

/// The name of the next part: later than all there are, though the clock was set back, or stands within the second.
fn rotated_name(current: &str, rotated: &[&str], now: Timestamp) -> String {
    let name = |at: DateTime| format!("{current}.{}", at.strftime(STAMP));
    let second = Span::new().seconds(1);
    let stamps = rotated.iter().filter_map(|name| stamp(name));
    let mut at = now.to_zoned(TimeZone::UTC).datetime();
    if let Some(newest) = stamps.max().filter(|newest| *newest >= at || name(*newest) == name(at)) {
        at = newest.checked_add(second).unwrap_or(at);
    }
    // Only after the last second of all times: then somewhere before it.
    let taken = |at: DateTime| rotated.iter().any(|other| other.trim_end_matches(COMPRESSED) == name(at));
    while taken(at) {
        at = at.checked_add(second).unwrap_or(DateTime::MIN);
    }
    name(at)
}

/// When a part was rotated, by its name.
fn stamp(name: &str) -> Option<DateTime> {
    let (_, LogFileKind::Rotated(suffix)) = part(name)? else { return None };
    DateTime::strptime(STAMP, suffix.strip_suffix(COMPRESSED).unwrap_or(suffix)).ok()
}

/// What makes way for new lines where the disk is full: the oldest part of all, with the place of its container.
pub(crate) fn plan_full(pod: &[ContainerLogs]) -> Option<(usize, RotationStep)> {
    let oldest =
        pod.iter().enumerate().filter_map(|(place, logs)| Some((place, select_oldest(&logs.files)?)));
    let stamp = |file: &LogFile| file.name.split_once(".log.").map(|(_, stamp)| stamp.to_owned());
    let (place, file) = oldest.min_by_key(|(_, file)| stamp(file))?;
    Some((place, RotationStep::Remove(file.name.clone())))
}

/// What must go for a pod's logs to take no more than `cap` bytes, each with the place of its container in the list: the
/// oldest parts that were rotated; then the logs of dead containers but the newest of each; then all but the end of those.
pub(crate) fn plan_cap(pod: &[ContainerLogs], cap: u64, policy: &Policy) -> Vec<(usize, RotationStep)> {
    let mut excess = pod.iter().flat_map(|logs| &logs.files).map(|file| file.size).sum::<u64>();
    excess = excess.saturating_sub(cap);
    let mut steps = Vec::new();
    let (mut rotated, mut dead) = (Vec::new(), Vec::new());
    for (place, logs) in pod.iter().enumerate() {
        let is_dead = |attempt| logs.life(attempt) == ContainerLife::Dead;
        let parts = || logs.files.iter().filter_map(|file| Some((part(&file.name)?, file)));
        let newest_dead = parts().map(|((attempt, _), _)| attempt).filter(|attempt| is_dead(*attempt)).max();
        for ((attempt, part), file) in parts() {
            match part {
                LogFileKind::Rotated(stamp) => rotated.push((stamp, place, file)),
                LogFileKind::Current if is_dead(attempt) => {
                    dead.push((newest_dead == Some(attempt), attempt, place, file));
                }
                LogFileKind::Current | LogFileKind::Temporary => {}
            }
        }
    }
    rotated.sort_unstable_by_key(|(stamp, place, _)| (*stamp, *place));
    for (_, place, file) in rotated {
        if excess > 0 {
            excess = excess.saturating_sub(file.size);
            steps.push((place, RotationStep::Remove(file.name.clone())));
        }
    }
    // The largest of the newest first.
    dead.sort_unstable_by_key(|(newest, attempt, place, file)| {
        (*newest, if *newest { u64::MAX - file.size } else { u64::from(*attempt) }, *place)
    });
    for (newest, _, place, file) in dead {
        if excess > 0 && file.size > 0 {
            // No more than one file's worth stays, so that it is not cut again and again while others grow.
            let most = if newest { policy.max_size } else { 0 };
            let keep = file.size.saturating_sub(excess).min(most);
            excess = excess.saturating_sub(file.size - keep);
            steps.push((place, RotationStep::Cut { name: file.name.clone(), keep }));
        }
    }
    steps
}
