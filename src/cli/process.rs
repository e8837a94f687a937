//! The process: the command line becomes a command or a configuration, and the configuration an agent.

use std::process::ExitCode;

use tracing::{error, warn};

use super::log::start_logging;
use super::{CliCommand, USAGE};
use crate::agent;
use crate::config::{self, Invocation};
use crate::text::chain;

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "the output of the command line")]
/// Runs a command, or else the agent, as the command line says.
pub fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).peekable();
    if let Some(command) = arguments.peek().and_then(|first| CliCommand::named(first)) {
        return command.run(arguments.skip(1));
    }
    let config = match config::load(arguments) {
        Ok(Invocation::Run(config)) => config,
        Ok(Invocation::Help(text) | Invocation::Version(text)) => {
            println!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("rkubelet: {error}");
            return ExitCode::from(USAGE);
        }
    };
    abort_on_panic();
    start_logging(config.verbosity);
    for warning in &config.warnings {
        warn!("{warning}");
    }
    match agent::run(&config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(error = chain(&error), "cannot run");
            ExitCode::FAILURE
        }
    }
}

/// A panic ends the agent at once, also in a task that nobody awaits: the supervisor restarts it, and pods run on.
fn abort_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
}
