//! journald: whether stderr leads there, and the priority that each line is given (see sd-daemon(3)).

use std::ffi::OsStr;

use tracing::Level;

/// A priority of syslog's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogPriority {
    /// The agent ends for a fault of its own.
    Critical = 2,
    /// Something failed for good.
    Error = 3,
    /// Something is wrong, and is tried again or worked around.
    Warning = 4,
    /// What happens in the normal course.
    Info = 6,
    /// For developers.
    Debug = 7,
}

impl LogPriority {
    /// The priority of an event.
    pub(super) fn of(level: Level) -> Self {
        match level {
            Level::ERROR => Self::Error,
            Level::WARN => Self::Warning,
            Level::INFO => Self::Info,
            _ => Self::Debug,
        }
    }

    /// What journald takes off the beginning of a line.
    pub(super) fn prefix(self) -> String {
        format!("<{}>", self as u8)
    }
}

/// Whether journald reads our stderr. The variable alone does not say so: it is inherited by what is started with other
/// output.
pub(super) fn stderr_is_journal() -> bool {
    let Some(stream) = std::env::var_os("JOURNAL_STREAM") else { return false };
    rustix::fs::fstat(std::io::stderr()).is_ok_and(|stat| names(&stream, stat.st_dev, stat.st_ino))
}

/// Whether a value of the variable, `DEVICE:INODE` in decimal, names this file.
fn names(stream: &OsStr, device: u64, inode: u64) -> bool {
    let numbers = stream.to_str().and_then(|text| text.split_once(':'));
    numbers.is_some_and(|(dev, ino)| dev.parse() == Ok(device) && ino.parse() == Ok(inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_file_that_the_variable_names() {
        for (stream, expect) in [
            ("9:24160", true),
            ("9:24161", false),
            ("8:24160", false),
            ("9:", false),
            (":24160", false),
            ("9", false),
            ("", false),
            ("9:24160:1", false),
            ("0x9:24160", false),
            ("-9:24160", false),
        ] {
            assert_eq!(names(OsStr::new(stream), 9, 24160), expect, "{stream:?}");
        }
    }

    #[test]
    fn priorities() {
        for (level, prefix) in [
            (Level::ERROR, "<3>"),
            (Level::WARN, "<4>"),
            (Level::INFO, "<6>"),
            (Level::DEBUG, "<7>"),
            (Level::TRACE, "<7>"),
        ] {
            assert_eq!(LogPriority::of(level).prefix(), prefix, "{level}");
        }
        assert_eq!(LogPriority::Critical.prefix(), "<2>");
    }
}
