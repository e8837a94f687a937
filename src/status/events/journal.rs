//! How events stand on disk: two segments that take turns, a line of JSON per event, and when they are written. Pure.
//!
//! A segment begins with its number; the higher one is newer. A line that is torn costs its event; the same event again
//! stands for the one before it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ring::RingEntry;

/// How long a new event waits for others, to be written with them.
const EVENTS_WAIT: Duration = Duration::from_secs(60);
/// How long a count waits that became higher: a crash loop costs a write in so long.
const COUNTS_WAIT: Duration = Duration::from_secs(600);

/// What of the events is still to be saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PendingEvents {
    /// Nothing.
    Nothing,
    /// Counts of events that are saved.
    Counts,
    /// New events.
    Events,
}

impl PendingEvents {
    /// How long it may wait; none if there is nothing to save.
    pub(crate) fn may_wait(self) -> Option<Duration> {
        match self {
            Self::Nothing => None,
            Self::Counts => Some(COUNTS_WAIT),
            Self::Events => Some(EVENTS_WAIT),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct SegmentHead {
    segment: u64,
}

/// What a segment holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Its number; 0 if it has none.
    pub(crate) number: u64,
    /// Its events, the oldest first.
    pub(crate) entries: Vec<RingEntry>,
}

/// The first line of a segment.
pub(crate) fn segment_head(number: u64) -> String {
    serde_json::to_string(&SegmentHead { segment: number }).unwrap_or_default()
}

/// An event as a line.
pub(super) fn encode(entry: &RingEntry) -> String {
    // Strings and numbers: there is nothing in an event that JSON cannot hold.
    serde_json::to_string(entry).unwrap_or_default()
}

/// Reads a segment; what is damaged is left out.
pub(crate) fn decode(bytes: &[u8]) -> Segment {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let head = lines.next().and_then(|line| serde_json::from_slice::<SegmentHead>(line).ok());
    Segment {
        number: head.map_or(0, |head| head.segment),
        entries: lines.filter_map(|line| serde_json::from_slice(line).ok()).collect(),
    }
}

/// What is appended to a segment for these lines: of too many, the newest that fit. The first line break ends a line
/// that was torn.
pub(crate) fn batch(lines: &[String], most: usize) -> String {
    let mut size = 1;
    let fit = lines.iter().rev().take_while(|line| {
        size += line.len() + 1;
        size <= most
    });
    let first = lines.len() - fit.count();
    let kept = lines[first..].iter().flat_map(|line| [line.as_str(), "\n"]);
    std::iter::once("\n").chain(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::super::ring::{EventType, Involved, NodeEvent, Ring};
    use super::*;
    use crate::pod::{PodName, PodUid};

    fn lines(messages: &[&str]) -> Vec<String> {
        let mut ring = Ring::default();
        for message in messages {
            let involved = Involved::pod(&PodName::new("default", "a"), &PodUid("u".into()), None);
            let (kind, reason, message) = (EventType::Normal, "Started".into(), (*message).into());
            ring.note(NodeEvent { kind, involved, reason, message }, jiff::Timestamp::UNIX_EPOCH);
        }
        ring.take_unsaved()
    }

    #[test]
    fn what_was_written_is_read_but_for_what_is_torn() {
        let lines = lines(&["one", "two\nlines", "three"]);
        let text = format!("{}\n{}", segment_head(7), batch(&lines, 1 << 20));
        let whole = decode(text.as_bytes());
        assert_eq!((whole.number, whole.entries.len()), (7, 3));
        let again: Vec<_> = whole.entries.iter().map(encode).collect();
        assert_eq!(again, lines);
        for cut in 0..text.len() {
            let torn = [&text.as_bytes()[..cut], batch(&lines[..1], 1 << 20).as_bytes()].concat();
            let read = decode(&torn);
            assert!(read.entries.len() <= 4);
            if cut > segment_head(7).len() {
                assert_eq!(read.entries.last(), whole.entries.first(), "cut at {cut}");
            }
        }
        for garbage in [&b""[..], b"\0\0\0\0", b"\n\n", b"{}\n[]\n\xff\n"] {
            assert_eq!(decode(garbage), Segment::default());
        }
    }

    #[test]
    fn of_too_many_the_newest_are_written() {
        let lines = ["1234", "5678", "9abc"].map(str::to_owned);
        for (most, expect) in [
            (100, "\n1234\n5678\n9abc\n"),
            (16, "\n1234\n5678\n9abc\n"),
            (15, "\n5678\n9abc\n"),
            (6, "\n9abc\n"),
            (5, "\n"),
        ] {
            assert_eq!(batch(&lines, most), expect);
        }
    }
}
