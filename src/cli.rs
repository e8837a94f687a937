//! The operator's commands: `rkubelet COMMAND ...`.
//!
//! kubelet takes flags only, so a first argument that is a command's name cannot be meant for it.

mod check;
mod journal;
mod log;
mod process;

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

pub use process::main;

/// The command line or the configuration is at fault (sysexits' EX_USAGE).
pub(crate) const USAGE: u8 = 64;

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CliCommand {
    /// Check manifests without running them.
    Check,
}

impl CliCommand {
    /// The command that the first argument names, if it names one.
    pub(crate) fn named(argument: &OsStr) -> Option<Self> {
        (argument == "check").then_some(Self::Check)
    }

    /// Runs it with the arguments after its name.
    pub(crate) fn run(self, arguments: impl Iterator<Item = OsString>) -> ExitCode {
        let output = match self {
            Self::Check => check::run(arguments),
        };
        let (text, code) = match output {
            Ok(CommandOutput { text, code }) => (text, code),
            Err(error) => {
                // There is nowhere left to report a failure of this.
                let _ = writeln!(io::stderr(), "rkubelet: {error}");
                return ExitCode::from(USAGE);
            }
        };
        match io::stdout().lock().write_all(&text) {
            // The reader may have read enough and closed the pipe.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                let _ = writeln!(io::stderr(), "rkubelet: cannot write: {error}");
                ExitCode::FAILURE
            }
            _ => ExitCode::from(code),
        }
    }
}

/// What a command prints to stdout, and its exit code.
struct CommandOutput {
    text: Vec<u8>,
    code: u8,
}

/// A command line that is not valid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum UsageError {
    #[error("{command}: {reason}")]
    Argument { command: &'static str, reason: String },
    #[error("check: name a manifest, a directory, or - for stdin; see rkubelet check --help")]
    NothingToCheck,
    #[error("check: -o {word} is not text or json")]
    Output { word: String },
}
