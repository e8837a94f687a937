//! The process: the command line becomes a command or a configuration, and the configuration an agent.

use std::process::ExitCode;

use tracing::{error, warn};

use super::journal::LogPriority;
use super::log::{start_logging, write_line};
use super::{CliCommand, USAGE};
use crate::agent;
use crate::config::{self, Invocation};
use crate::server::systemd::Notifier;
use crate::text::chain;

#[expect(clippy::print_stdout, reason = "the output of the command line")]
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
            let reason = error.to_string();
            write_line(LogPriority::Error, &format!("rkubelet: {reason}"));
            tell_service_manager(&format!("bad configuration: {reason}"));
            return ExitCode::from(USAGE);
        }
    };
    abort_on_panic();
    start_logging(config.verbosity, config.log_format);
    for warning in &config.warnings {
        warn!("{warning}");
    }
    match agent::run(&config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let reason = chain(&error);
            error!(error = reason, "cannot run");
            tell_service_manager(&format!("cannot run: {reason}"));
            ExitCode::FAILURE
        }
    }
}

/// Leaves the reason of an end where `systemctl status` shows it. The log has it too, so a failure of this is no news.
fn tell_service_manager(reason: &str) {
    if let Ok(Some(notifier)) = Notifier::from_env() {
        let _ = notifier.status(reason);
    }
}

/// A panic ends the agent at once, also in a task that nobody awaits: the supervisor restarts it, and pods run on.
fn abort_on_panic() {
    std::panic::set_hook(Box::new(move |panic| {
        write_line(LogPriority::Critical, &format!("rkubelet: {panic}"));
        std::process::abort();
    }));
}
