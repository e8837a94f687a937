//! The agent's log: one line per event, whatever the event quotes.
//!
//! Invariant: nothing that comes from outside (container output, manifests, answers of servers) makes a line of its own or
//! reaches a terminal as a control sequence: it is escaped here, where every line passes. journald gets each line's
//! priority, and neither time nor level in its text: it keeps both itself.

mod json;

use std::io::{self, Write};

use tracing::{Level, Metadata};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::{MakeWriter, layer};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use self::json::JsonLines;
use super::journal::{LogPriority, stderr_is_journal};
use crate::config::LogFormat;
use crate::text::excerpt::one_line;

/// The most bytes of one line: what events quote is cut before, so only a fault is longer.
const MAX_LINE: usize = 64 << 10;

/// Begins to log to stderr, with klog's levels: 4 and more is for developers.
pub(super) fn start_logging(verbosity: u32, format: LogFormat) {
    let level = match verbosity {
        0..=3 => Level::INFO,
        4..=5 => Level::DEBUG,
        _ => Level::TRACE,
    };
    // Our lines at the configured level; of libraries only warnings and errors.
    let ours = Targets::new().with_default(Level::WARN).with_target("rkubelet", level);
    let journal = stderr_is_journal();
    // A log that cannot be written (a full disk, a closed pipe) must not stop the agent.
    let lines = layer().with_writer(Lines { journal }).with_target(false).log_internal_errors(false);
    let registry = tracing_subscriber::registry();
    if format == LogFormat::Json {
        registry.with(lines.event_format(JsonLines)).with(ours).init();
    } else if journal {
        registry.with(lines.without_time().with_level(false)).with(ours).init();
    } else {
        registry.with(lines).with(ours).init();
    }
}

/// Writes one line to stderr before the log has begun, or past it.
pub(super) fn write_line(priority: LogPriority, text: &str) {
    let mut writer =
        LineWriter { priority: stderr_is_journal().then_some(priority), stderr: io::stderr().lock() };
    // There is nowhere left to report a failure of this.
    let _ = writer.write_all(text.as_bytes());
}

/// Makes a writer for each event.
struct Lines {
    journal: bool,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = LineWriter<io::Stderr>;

    fn make_writer(&'a self) -> Self::Writer {
        LineWriter { priority: None, stderr: io::stderr() }
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Self::Writer {
        let priority = self.journal.then(|| LogPriority::of(*event.level()));
        LineWriter { priority, stderr: io::stderr() }
    }
}

/// Writes one event as one line. The formatter gives an event whole, with the line break that ends it.
struct LineWriter<W> {
    priority: Option<LogPriority>,
    stderr: W,
}

impl<W: Write> Write for LineWriter<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = one_line(text.strip_suffix('\n').unwrap_or(&text), MAX_LINE);
        let line = match self.priority {
            Some(priority) => format!("{}{line}\n", priority.prefix()),
            None => line + "\n",
        };
        self.stderr.write_all(line.as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stderr.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(priority: Option<LogPriority>, event: &[u8]) -> String {
        let mut stderr = Vec::new();
        LineWriter { priority, stderr: &mut stderr }.write_all(event).unwrap();
        String::from_utf8(stderr).unwrap()
    }

    #[test]
    fn an_event_is_one_line_whatever_it_quotes() {
        let forged = "2026-01-01T00:00:00Z  INFO pod is gone";
        let event = format!("WARN probe failed: no\n{forged}\r\x1b[2J\u{2028}\n");
        let line = format!("WARN probe failed: no\\n{forged}\\r\\u{{1b}}[2J\\u{{2028}}\n");
        assert_eq!(written(None, event.as_bytes()), line);
        assert_eq!(written(Some(LogPriority::Warning), event.as_bytes()), format!("<4>{line}"));
        assert!(written(None, &vec![b'x'; 9 << 20]).len() < 2 * MAX_LINE);
    }
}
