//! The `rkubelet` executable: flags become a configuration, the configuration an agent.

use std::process::ExitCode;

use rkubelet::agent;
use rkubelet::config::{self, Invocation};
use tracing::{Level, error, warn};

/// The command line or the configuration is at fault (sysexits' EX_USAGE).
const USAGE: u8 = 64;

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "the command line's own voice")]
fn main() -> ExitCode {
    let config = match config::load(std::env::args_os().skip(1)) {
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
    start_logging(config.verbosity);
    for warning in &config.warnings {
        warn!("{warning}");
    }
    match agent::run(&config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(error = rkubelet::runtime::chain(&error), "cannot run");
            ExitCode::FAILURE
        }
    }
}

/// klog's levels: 4 and more is for developers.
fn start_logging(verbosity: u32) {
    let level = match verbosity {
        0..=3 => Level::INFO,
        4..=5 => Level::DEBUG,
        _ => Level::TRACE,
    };
    tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_target(false).init();
}
