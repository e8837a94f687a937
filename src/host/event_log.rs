//! Events on disk: they survive the agent and the node's boots, within a bound.
//!
//! Owns two files under `ROOT/rkubelet/events`, which take turns: one is appended to until it is full, then the other begins
//! anew. Written in batches and never synced: at rest nothing, in a crash loop a page every ten minutes. A power cut costs
//! the last minutes; a damaged file costs what it held. Must not: log a failure twice.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures_lite::future;
use tracing::warn;

use crate::status::events::Recorder;
use crate::status::events::journal::{batch, decode, segment_head};
use crate::text::last_logged::LastLogged;
use crate::time::clock::Clock;

const SEGMENTS: [&str; 2] = ["0.jsonl", "1.jsonl"];

/// The files.
#[derive(Debug)]
pub(crate) struct EventLog {
    dir: PathBuf,
    /// The most that one segment takes.
    segment_size: usize,
    writer: Mutex<Writer>,
}

#[derive(Debug, Default)]
struct Writer {
    /// The segment that is appended to, and its number; the number is 0 before the first.
    current: usize,
    number: u64,
    logged: LastLogged,
}

impl EventLog {
    /// Reads what an earlier agent wrote into the recorder. `limit` bounds the bytes on disk.
    pub(crate) fn open(root_dir: &Path, limit: usize, events: &Recorder) -> Self {
        let dir = root_dir.join("rkubelet").join("events");
        // Made at once: nothing else below the root directory changes later. What fails here is told at the first write.
        let _ = make(&dir);
        let segment_size = limit / 2;
        let mut segments = SEGMENTS.map(|name| decode(&read(&dir.join(name), segment_size)));
        let current = usize::from(segments[1].number > segments[0].number);
        let writer = Writer { current, number: segments[current].number, logged: LastLogged::default() };
        for place in [1 - current, current] {
            events.restore(std::mem::take(&mut segments[place].entries));
        }
        Self { dir, segment_size, writer: Mutex::new(writer) }
    }

    /// Writes what is not saved yet. Blocking.
    pub(crate) fn save(&self, events: &Recorder) {
        let lines = events.take_unsaved();
        if lines.is_empty() {
            return;
        }
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        match self.append(&mut writer, &lines) {
            Ok(()) => writer.logged.clear(),
            Err(error) => {
                events.mark_unsaved();
                let error = error.to_string();
                if writer.logged.is_new(&error) {
                    warn!(dir = %self.dir.display(), error, "cannot keep events; they are in memory only");
                }
            }
        }
    }

    fn append(&self, writer: &mut Writer, lines: &[String]) -> io::Result<()> {
        make(&self.dir)?;
        let text = batch(lines, self.segment_size.saturating_sub(segment_head(u64::MAX).len()));
        let path = self.dir.join(SEGMENTS[writer.current]);
        let size = fs::metadata(&path).map_or(0, |found| found.len());
        let fits = usize::try_from(size).is_ok_and(|size| size + text.len() <= self.segment_size);
        let mut options = OpenOptions::new();
        options.create(true).mode(0o600);
        if fits && size > 0 && writer.number > 0 {
            return options.append(true).open(&path)?.write_all(text.as_bytes());
        }
        let (next, number) = (1 - writer.current, writer.number + 1);
        let mut file = options.write(true).truncate(true).open(self.dir.join(SEGMENTS[next]))?;
        file.write_all(format!("{}{text}", segment_head(number)).as_bytes())?;
        (writer.current, writer.number) = (next, number);
        Ok(())
    }
}

fn make(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

fn read(path: &Path, most: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    // One that is longer was kept under another limit: its oldest events are read.
    let most = u64::try_from(most.max(1 << 20)).unwrap_or(u64::MAX);
    // What cannot be read costs what it holds.
    let _ = File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
    bytes
}

/// Saves events for as long as the agent lives.
pub(crate) async fn run_event_log(log: Arc<EventLog>, events: Recorder, clock: Arc<dyn Clock>) {
    loop {
        events.recorded().await;
        let begun = clock.uptime();
        while let Some(wait) = events.unsaved().may_wait() {
            let left = wait.saturating_sub(clock.uptime().saturating_sub(begun));
            if left.is_zero() {
                let (log, events) = (log.clone(), events.clone());
                smol::unblock(move || log.save(&events)).await;
                break;
            }
            future::or(clock.sleep(left), events.recorded()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::pod::{PodName, PodUid};
    use crate::status::events::EventType;

    fn note(events: &Recorder, name: &str, message: &str) {
        let (pod, uid) = (PodName::new("default", name), PodUid("u".into()));
        events.note(EventType::Normal, (&pod, &uid), None, "Started", message);
    }

    fn shown(events: &Recorder) -> Vec<(String, u64)> {
        let list = serde_json::to_value(events.list()).unwrap();
        let shown = |item: &Value| {
            (item["involvedObject"]["name"].as_str().unwrap().to_owned(), item["count"].as_u64().unwrap())
        };
        list["items"].as_array().unwrap().iter().map(shown).collect()
    }

    fn size(dir: &Path) -> u64 {
        let all = fs::read_dir(dir.join("rkubelet/events")).unwrap();
        all.map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
    }

    #[test]
    fn an_agent_goes_on_with_the_events_of_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        for round in 1..=3 {
            let events = Recorder::new("node1");
            let log = EventLog::open(dir.path(), 1 << 20, &events);
            assert_eq!(shown(&events).len(), if round == 1 { 0 } else { 2 });
            note(&events, "a", "m");
            note(&events, "b", "m");
            log.save(&events);
            assert_eq!(shown(&events), [("a".into(), round), ("b".into(), round)]);
            let before = size(dir.path());
            log.save(&events);
            assert_eq!(size(dir.path()), before, "nothing new");
        }
    }

    #[test]
    fn the_disk_is_bounded_and_the_newest_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let limit = 16 << 10;
        let events = Recorder::new("node1");
        let log = EventLog::open(dir.path(), limit, &events);
        for number in 0..500 {
            note(&events, &format!("p{number}"), "m");
            log.save(&events);
            assert!(size(dir.path()) <= limit as u64);
        }
        let later = Recorder::new("node1");
        EventLog::open(dir.path(), limit, &later);
        let kept = shown(&later);
        assert!(kept.len() > 20, "{}", kept.len());
        assert_eq!(kept.last(), Some(&("p499".into(), 1)));
        assert_eq!(kept.first().map(|(name, _)| name.clone()), Some(format!("p{}", 500 - kept.len())));
    }

    #[test]
    fn what_cannot_be_written_is_written_later() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("rkubelet"), "in the way").unwrap();
        let events = Recorder::new("node1");
        let log = EventLog::open(dir.path(), 1 << 20, &events);
        note(&events, "a", "m");
        log.save(&events);
        fs::remove_file(dir.path().join("rkubelet")).unwrap();
        log.save(&events);
        let later = Recorder::new("node1");
        EventLog::open(dir.path(), 1 << 20, &later);
        assert_eq!(shown(&later), [("a".into(), 1)]);
        for name in SEGMENTS {
            fs::write(dir.path().join("rkubelet/events").join(name), [0; 5000]).unwrap();
        }
        let damaged = Recorder::new("node1");
        let log = EventLog::open(dir.path(), 1 << 20, &damaged);
        assert_eq!(shown(&damaged), []);
        note(&damaged, "b", "m");
        log.save(&damaged);
        let last = Recorder::new("node1");
        EventLog::open(dir.path(), 1 << 20, &last);
        assert_eq!(shown(&last), [("b".into(), 1)]);
    }
}
