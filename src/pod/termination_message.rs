//! The termination message of a container: what is kept of its file, or of its log.
//!
//! The numbers are kubelet's. A container may write anything: what is not UTF-8 is replaced, and no limit is passed.

use crate::text::excerpt::{beginning, ending};

/// The most that is read from a container's file, and shown of it: its end.
pub(crate) const MAX_FILE: usize = 4096;
/// The most that is shown of a log.
const MAX_LOG: usize = 2048;
const MAX_LOG_LINES: usize = 80;
/// The end of a log that holds as many lines as may be shown, or more than may be shown of them: a line of the log
/// holds at most 16 KiB.
pub(crate) const LOG_WINDOW: usize = 64 << 10;
/// The most that the containers of a pod may show together.
const MAX_POD: usize = 12 << 10;

/// Where the termination message of a container is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageFallback {
    /// In its file alone.
    None,
    /// In its log, if the file has nothing to say.
    Logs,
}

impl MessageFallback {
    /// By terminationMessagePolicy: the log counts only after a failure, of something that could be run.
    pub(crate) fn by_policy(policy: &str, exit_code: i32, reason: &str) -> Self {
        if policy == "FallbackToLogsOnError" && exit_code != 0 && reason != "ContainerCannotRun" {
            Self::Logs
        } else {
            Self::None
        }
    }
}

/// The text of a file's last bytes.
pub(crate) fn from_file(bytes: &[u8]) -> String {
    ending(&String::from_utf8_lossy(without_torn_start(bytes)), MAX_FILE).to_owned()
}

/// The text of a log's last bytes, in CRI's format: `TIME STREAM TAG TEXT`, where the tag `P` joins lines. `whole` if
/// the bytes begin where the log does.
pub(crate) fn from_log(bytes: &[u8], whole: bool) -> String {
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    if !whole {
        lines.remove(0);
    }
    if lines.last().is_some_and(|last| last.is_empty()) {
        lines.pop();
    }
    let mut text = Vec::new();
    for line in &lines[lines.len().saturating_sub(MAX_LOG_LINES)..] {
        let mut fields = line.splitn(4, |byte| *byte == b' ');
        let (Some(_), Some(_), Some(tag), Some(said)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        text.extend_from_slice(said);
        if !tag.starts_with(b"P") {
            text.push(b'\n');
        }
    }
    let kept = &text[text.len().saturating_sub(MAX_LOG)..];
    let kept = if kept.len() < text.len() { without_torn_start(kept) } else { kept };
    ending(&String::from_utf8_lossy(kept), MAX_LOG).to_owned()
}

/// The runtime's message and the container's termination message, joined.
pub(crate) fn joined(runtime: String, words: &str) -> String {
    match (runtime.is_empty(), words.is_empty()) {
        (_, true) => runtime,
        (true, false) => words.to_owned(),
        (false, false) => format!("{runtime}: {words}"),
    }
}

/// The share of one container in what its pod of so many containers may show.
pub(crate) fn shown(message: &str, containers: usize) -> &str {
    beginning(message, MAX_POD / containers.max(1))
}

/// Without the rest of a character whose beginning was cut off.
fn without_torn_start(bytes: &[u8]) -> &[u8] {
    let torn = bytes.iter().take(3).take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000).count();
    &bytes[torn..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_shown_from_its_end_and_as_text() {
        assert_eq!(from_file(b"out of cheese\n"), "out of cheese\n");
        assert_eq!(from_file(b""), "");
        assert_eq!(from_file(&[0x9c, b'a']), "a", "the rest of a character that was cut");
        assert_eq!(from_file(b"a\xffb"), "a\u{fffd}b");
        let garbage = from_file(&[0xff; MAX_FILE]);
        assert_eq!(garbage.chars().count(), MAX_FILE / 3, "what replaces it counts in full");
        assert!(garbage.chars().all(|c| c == '\u{fffd}'));
    }

    #[test]
    fn a_log_is_shown_without_what_the_runtime_adds() {
        let line = |tag: &str, text: &str| format!("2026-11-16T00:39:04.685901133Z stdout {tag} {text}\n");
        let log =
            line("P", "hello ") + &line("F", "world") + &line("F", "") + "garbage\n" + &line("F", "x y");
        assert_eq!(from_log(log.as_bytes(), true), "hello world\n\nx y\n");
        assert_eq!(from_log(log.as_bytes(), false), "world\n\nx y\n", "the first line was cut");
        assert_eq!(from_log(b"", true), "");
        assert_eq!(from_log(b"", false), "");
        let many: String = (0..100).map(|n| line("F", &n.to_string())).collect();
        assert!(from_log(many.as_bytes(), true).starts_with("20\n21\n"), "the last 80 lines");
        let long = line("F", &"€".repeat(2000));
        let text = from_log(long.as_bytes(), true);
        assert!(text.len() <= 2048 && text.len() > 2040 && text.ends_with("€\n"), "{}", text.len());
        assert!(text.starts_with('€'));
    }

    #[test]
    fn the_log_counts_after_failures_only() {
        for (policy, code, reason, expect) in [
            ("FallbackToLogsOnError", 1, "Error", MessageFallback::Logs),
            ("FallbackToLogsOnError", 0, "Completed", MessageFallback::None),
            ("FallbackToLogsOnError", 128, "ContainerCannotRun", MessageFallback::None),
            ("File", 1, "Error", MessageFallback::None),
            ("", 1, "Error", MessageFallback::None),
        ] {
            assert_eq!(MessageFallback::by_policy(policy, code, reason), expect, "{policy} {code} {reason}");
        }
    }

    #[test]
    fn containers_share_what_a_pod_may_show() {
        let words = "ä".repeat(4096);
        for (containers, bytes) in [(0, 8192), (1, 8192), (2, 6144), (3, 4096), (5, 2456), (13, 944)] {
            assert_eq!(shown(&words, containers).len(), bytes, "{containers} containers");
        }
        assert_eq!(shown("short", 3), "short");
        assert_eq!(joined(String::new(), "words"), "words");
        assert_eq!(joined("OOM".into(), "words"), "OOM: words");
        assert_eq!(joined("OOM".into(), ""), "OOM");
    }
}
