//! The agent's log: one line per event, whatever the event quotes.
//!
//! Invariant: nothing that comes from outside (container output, manifests, answers of servers) makes a line of its own or
//! reaches a terminal as a control sequence: it is escaped here, where every line passes.

use std::io::{self, Write};

use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::{MakeWriter, layer};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::text::excerpt::one_line;

/// The most bytes of one line: what events quote is cut before, so only a fault is longer.
const MAX_LINE: usize = 64 << 10;

/// Begins to log to stderr, with klog's levels: 4 and more is for developers.
pub(super) fn start_logging(verbosity: u32) {
    let level = match verbosity {
        0..=3 => Level::INFO,
        4..=5 => Level::DEBUG,
        _ => Level::TRACE,
    };
    // A log that cannot be written (a full disk, a closed pipe) must not stop the agent.
    let lines = layer().with_writer(Lines).with_target(false).log_internal_errors(false);
    // Our lines at the configured level; of libraries only warnings and errors.
    let ours = Targets::new().with_default(Level::WARN).with_target("rkubelet", level);
    tracing_subscriber::registry().with(lines).with(ours).init();
}

/// Makes a writer for each event.
struct Lines;

impl<'a> MakeWriter<'a> for Lines {
    type Writer = LineWriter<io::Stderr>;

    fn make_writer(&'a self) -> Self::Writer {
        LineWriter(io::stderr())
    }
}

/// Writes one event as one line. The formatter gives an event whole, with the line break that ends it.
struct LineWriter<W>(W);

impl<W: Write> Write for LineWriter<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = one_line(text.strip_suffix('\n').unwrap_or(&text), MAX_LINE) + "\n";
        self.0.write_all(line.as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_it_quotes() {
        let forged = "2026-01-01T00:00:00Z  INFO pod is gone";
        let event = format!("WARN probe failed: no\n{forged}\r\x1b[2J\u{2028}\n");
        let mut written = Vec::new();
        LineWriter(&mut written).write_all(event.as_bytes()).unwrap();
        let written = String::from_utf8(written).unwrap();
        assert_eq!(written, format!("WARN probe failed: no\\n{forged}\\r\\u{{1b}}[2J\\u{{2028}}\n"),);
        let mut written = Vec::new();
        LineWriter(&mut written).write_all(&vec![b'x'; 9 << 20]).unwrap();
        assert!(written.len() < 2 * MAX_LINE);
    }
}
