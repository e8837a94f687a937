//! Which bytes of a container's log a client gets. Pure: bytes in, bytes out, whatever the size of a line.
//!
//! The log has CRI's format, an entry per line: time, stream, tags (`P` for a part of a line, `F` for its end), content.

use jiff::Timestamp;

/// What is asked of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    /// Nothing from before.
    pub since: Option<Timestamp>,
    /// Each line begins with its time.
    pub timestamps: bool,
    /// No more bytes than that.
    pub limit_bytes: Option<u64>,
    /// No more entries than that.
    pub limit_entries: Option<u64>,
    /// Of this stream alone, `stdout` or `stderr`.
    pub stream: Option<&'static str>,
}

/// The longest time, stream and tags of an entry.
const MAX_HEAD: usize = 256;

/// Selects from a log, chunk by chunk. Invariant: holds no more than the head of one entry.
#[derive(Debug)]
pub(crate) struct Selector {
    selection: Selection,
    at: EntryPart,
    head: Vec<u8>,
    /// The next entry begins a line.
    begins_line: bool,
    is_done: bool,
}

/// Where in an entry the next byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryPart {
    Head,
    Content {
        is_shown: bool,
        is_part: bool,
    },
    /// In a line that is no entry.
    Junk,
}

/// The head of an entry.
struct EntryHead<'a> {
    at: Timestamp,
    stream: &'a str,
    is_part: bool,
}

impl Selector {
    /// At the beginning of an entry.
    pub(crate) fn new(selection: Selection) -> Self {
        let is_done = selection.limit_entries == Some(0);
        Self { selection, at: EntryPart::Head, head: Vec::new(), begins_line: true, is_done }
    }

    /// Nothing more will come.
    pub(crate) fn is_done(&self) -> bool {
        self.is_done
    }

    /// The rest of an entry that is not there is not waited for: the log goes on in another file.
    pub(crate) fn cut(&mut self) {
        self.at = EntryPart::Head;
        self.head.clear();
    }

    /// What a client gets of these bytes.
    pub(crate) fn select(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        while !bytes.is_empty() && !self.is_done {
            bytes = match self.at {
                EntryPart::Head => self.read_head(bytes, &mut out),
                EntryPart::Content { is_shown, is_part } => {
                    self.read_content(bytes, is_shown, is_part, &mut out)
                }
                EntryPart::Junk => self.skip_line(bytes),
            };
        }
        out
    }

    fn read_head<'b>(&mut self, bytes: &'b [u8], out: &mut Vec<u8>) -> &'b [u8] {
        for (index, byte) in bytes.iter().enumerate() {
            self.head.push(*byte);
            let is_whole = *byte == b' ' && self.head.iter().filter(|byte| **byte == b' ').count() == 3;
            if is_whole {
                let head = std::mem::take(&mut self.head);
                self.begin(parse_head(&head), out);
                return &bytes[index + 1..];
            }
            if *byte == b'\n' || self.head.len() > MAX_HEAD {
                self.head.clear();
                self.at = if *byte == b'\n' { EntryPart::Head } else { EntryPart::Junk };
                return &bytes[index + 1..];
            }
        }
        &[]
    }

    fn begin(&mut self, head: Option<EntryHead<'_>>, out: &mut Vec<u8>) {
        let Some(head) = head else {
            self.at = EntryPart::Junk;
            return;
        };
        let is_shown = self.selection.since.is_none_or(|since| head.at >= since)
            && self.selection.stream.is_none_or(|stream| stream == head.stream);
        self.at = EntryPart::Content { is_shown, is_part: head.is_part };
        if is_shown && self.selection.timestamps && self.begins_line {
            let time = head.at.strftime("%Y-%m-%dT%H:%M:%S.%9fZ ").to_string();
            self.put(time.as_bytes(), out);
        }
    }

    fn read_content<'b>(
        &mut self,
        bytes: &'b [u8],
        is_shown: bool,
        is_part: bool,
        out: &mut Vec<u8>,
    ) -> &'b [u8] {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let (content, rest) = match end {
            Some(end) if is_part => (&bytes[..end], &bytes[end + 1..]),
            Some(end) => bytes.split_at(end + 1),
            None => (bytes, &[][..]),
        };
        if is_shown {
            self.put(content, out);
        }
        if end.is_some() {
            self.at = EntryPart::Head;
            self.begins_line = !is_part;
            if let Some(left) = &mut self.selection.limit_entries {
                *left = left.saturating_sub(1);
                self.is_done |= *left == 0;
            }
        }
        rest
    }

    fn skip_line<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        match bytes.iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                self.at = EntryPart::Head;
                &bytes[end + 1..]
            }
            None => &[],
        }
    }

    fn put(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let Some(left) = &mut self.selection.limit_bytes else {
            out.extend_from_slice(bytes);
            return;
        };
        let length = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
        out.extend_from_slice(&bytes[..length]);
        *left = left.saturating_sub(length as u64);
        self.is_done |= *left == 0;
    }
}

fn parse_head(head: &[u8]) -> Option<EntryHead<'_>> {
    let mut words = std::str::from_utf8(head).ok()?.split(' ');
    let (at, stream, tags) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
    let known = ["stdout", "stderr"].contains(&stream);
    known.then(|| EntryHead { at, stream, is_part: tags.split(':').next() == Some("P") })
}

/// How far the end of a log has to be read for its last entries: counts the ends of entries in blocks, from the last to
/// the first.
#[derive(Debug)]
pub(crate) struct TailSearch {
    left: u64,
}

impl TailSearch {
    /// Searches for the beginning of the last `entries`.
    pub(crate) fn new(entries: u64) -> Self {
        Self { left: entries }
    }

    /// The place in this block, which comes before all blocks so far, where the last entries begin, if it is in there.
    pub(crate) fn search(&mut self, block: &[u8]) -> Option<usize> {
        for (index, _) in block.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            if self.left == 0 {
                return Some(index + 1);
            }
            self.left -= 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "2026-11-18T10:00:00.1Z stdout F one\n\
                       2026-11-18T10:00:01Z stderr F two\n\
                       no entry\n\
                       2026-11-18T10:00:02Z stdout P thr\n\
                       2026-11-18T10:00:03Z stdout F ee\n\
                       2026-11-18T12:00:04+01:00 stdout F \n\
                       2026-11-18T12:00:05Z other F x\n";

    fn selected(selection: &Selection, log: &[u8], chunk: usize) -> String {
        let mut selector = Selector::new(selection.clone());
        let out: Vec<u8> = log.chunks(chunk).flat_map(|chunk| selector.select(chunk)).collect();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_a_client_gets() {
        let all = Selection::default();
        let since = |text: &str| Some(text.parse().unwrap());
        for (selection, expect) in [
            (all.clone(), "one\ntwo\nthree\n\n"),
            (Selection { stream: Some("stderr"), ..all.clone() }, "two\n"),
            (Selection { stream: Some("stdout"), ..all.clone() }, "one\nthree\n\n"),
            (Selection { since: since("2026-11-18T10:00:03Z"), ..all.clone() }, "ee\n\n"),
            (Selection { limit_bytes: Some(5), ..all.clone() }, "one\nt"),
            (Selection { limit_entries: Some(1), ..all.clone() }, "one\n"),
            (Selection { limit_entries: Some(0), ..all.clone() }, ""),
            (
                Selection { timestamps: true, stream: Some("stdout"), ..all.clone() },
                "2026-11-18T10:00:00.100000000Z one\n2026-11-18T10:00:02.000000000Z three\n\
                 2026-11-18T11:00:04.000000000Z \n",
            ),
        ] {
            for chunk in [1, 7, 1000] {
                assert_eq!(selected(&selection, LOG.as_bytes(), chunk), expect, "{selection:?} by {chunk}");
            }
        }
    }

    #[test]
    fn a_line_of_any_length_is_passed_on_and_never_held() {
        let mut selector = Selector::new(Selection::default());
        selector.select(b"2026-11-18T10:00:00Z stdout F ");
        let chunk = vec![b'x'; 64 << 10];
        for _ in 0..1600 {
            assert_eq!(selector.select(&chunk).len(), chunk.len());
            assert!(selector.head.capacity() <= 2 * MAX_HEAD);
        }
        let mut selector = Selector::new(Selection::default());
        for _ in 0..1600 {
            assert!(selector.select(&chunk).is_empty(), "what is no entry is not shown");
            assert!(selector.head.capacity() <= 2 * MAX_HEAD + 1);
        }
        assert_eq!(selector.select(b"\n2026-11-18T10:00:00Z stdout F y\n"), b"y\n");
    }

    #[test]
    fn the_last_entries_are_found() {
        for (entries, expect) in [(0, 12), (1, 9), (2, 6), (3, 3), (4, 0), (9, 0)] {
            for size in [1, 2, 5, 100] {
                let log = b"aa\nbb\ncc\ndd\n";
                let mut search = TailSearch::new(entries);
                let starts = (0..log.len()).step_by(size).rev();
                let found = starts.into_iter().find_map(|start| {
                    let block = &log[start..log.len().min(start + size)];
                    search.search(block).map(|at| start + at)
                });
                assert_eq!(found.unwrap_or(0), expect, "{entries} in blocks of {size}");
            }
        }
    }
}
