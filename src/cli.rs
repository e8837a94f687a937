//! The operator's commands: `rkubelet COMMAND ...`.
//!
//! kubelet takes flags only, so a first argument that is a command's name cannot be meant for it. All but `check`, and
//! `config` with flags, are clients of the agent's socket. Only `ask`, `diff`, `exec` and `settings` have effects; what is printed
//! is made by pure functions.

mod ask;
mod check;
mod client;
pub(crate) mod command;
mod describe;
mod diff;
mod exec;
mod journal;
mod log;
mod pods;
mod process;
mod settings;
mod table;
mod why;

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

pub use process::main;

use self::ask::CommandError;
use self::client::{AgentClient, ClientError};
use self::command::{CommandRow, help, parse};

/// The command line or the configuration is at fault (sysexits' EX_USAGE).
pub(crate) const USAGE: u8 = 64;
/// The agent cannot be reached (EX_UNAVAILABLE).
const UNAVAILABLE: u8 = 69;

/// A command.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CliCommand {
    /// Check manifests without running them.
    Check,
    /// Ask the running agent.
    Ask(&'static CommandRow),
}

impl CliCommand {
    /// The command that the first argument names, if it names one.
    pub(crate) fn named(argument: &OsStr) -> Option<Self> {
        match argument.to_str()? {
            "check" => Some(Self::Check),
            name => command::find(name).map(Self::Ask),
        }
    }

    /// Runs it with the arguments after its name.
    pub(crate) fn run(self, arguments: impl Iterator<Item = OsString>) -> ExitCode {
        let output = match self {
            Self::Check => check::run(arguments),
            Self::Ask(row) => return ask_agent(row, arguments),
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

fn ask_agent(row: &'static CommandRow, arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let done =
        parse(row, arguments).map_err(|error| CommandError::Usage(error.to_string())).and_then(|command| {
            if command.has("help") {
                io::stdout().lock().write_all(help(row).as_bytes())?;
                return Ok(0);
            }
            let client = AgentClient::new(command.value("socket"));
            match row.name {
                "get" => ask::get(&client, &command),
                "describe" => ask::describe_pod(&client, &command),
                "why" => ask::why(&client, &command),
                "logs" => exec::logs(&client, &command),
                "exec" => exec::exec(&client, &command),
                "restart" => ask::restart(&client, &command),
                "wait" => ask::wait(&client, &command),
                "top" => ask::top(&client, &command),
                "diff" => diff::diff(&client, &command),
                _ => settings::config(&client, &command),
            }
        });
    let error = match done {
        Ok(code) => return ExitCode::from(code),
        // The reader may have read enough and closed the pipe.
        Err(CommandError::Io(error)) if error.kind() == ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
        Err(error) => error,
    };
    // There is nowhere left to report a failure of this.
    let _ = writeln!(io::stderr(), "rkubelet {}: {error}", row.name);
    match error {
        CommandError::Usage(_) => {
            let _ = writeln!(io::stderr(), "see: rkubelet {} --help", row.name);
            ExitCode::from(USAGE)
        }
        CommandError::Client(ClientError::Absent { .. } | ClientError::Forbidden) => {
            ExitCode::from(UNAVAILABLE)
        }
        CommandError::Client(_) | CommandError::NoPod(_) | CommandError::Io(_) | CommandError::Failed(_) => {
            ExitCode::FAILURE
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
