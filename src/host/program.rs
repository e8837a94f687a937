//! Runs a program of the system to its end, for no longer than it is given. Blocking.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::text::excerpt::one_line;

/// How long a program that was killed may take to be gone; it may be in the kernel.
const TO_DIE: Duration = Duration::from_secs(2);
/// As much of what it says is told.
const MAX_SAID: u64 = 2048;

const MAX_TOLD: usize = 512;

/// Why a program did not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    /// It was not begun.
    #[error("cannot run {program}")]
    Start {
        /// Which.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// It ended with a failure.
    #[error("{how}{said}")]
    Failed {
        /// Its exit code or signal.
        how: String,
        /// What it wrote to stderr.
        said: String,
    },
    /// It took too long.
    #[error("it did not end within {0:?}, and was killed")]
    Late(Duration),
}

/// Runs a program; success is exit code 0.
pub(crate) fn run_program(
    program: &str,
    arguments: &[OsString],
    deadline: Duration,
) -> Result<(), ProgramError> {
    let start = |source| ProgramError::Start { program: program.to_owned(), source };
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C").process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(start)?;
    if !ends_within(&child, deadline).map_err(start)? {
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        // What it has begun goes with it.
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        if ends_within(&child, TO_DIE).unwrap_or(false) {
            let _ = child.wait();
        }
        return Err(ProgramError::Late(deadline));
    }
    let status = child.wait().map_err(start)?;
    if status.success() {
        return Ok(());
    }
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, signal) => format!("killed by signal {}", signal.unwrap_or_default()),
    };
    let said = said(&mut child);
    Err(ProgramError::Failed { how, said: if said.is_empty() { said } else { format!(": {said}") } })
}

/// Waits for the end of a program, without taking note of it; false if it did not come.
fn ends_within(child: &Child, time: Duration) -> io::Result<bool> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let process = pidfd_open(pid.ok_or(io::ErrorKind::InvalidInput)?, PidfdFlags::empty())?;
    let time = Timespec::try_from(time).map_err(io::Error::other)?;
    let mut ends = [PollFd::new(&process, PollFlags::IN)];
    Ok(poll(&mut ends, Some(&time))? > 0)
}

/// What is there to be read: somebody whom the program has begun may hold the other end open.
fn said(child: &mut Child) -> String {
    let Some(stderr) = child.stderr.take() else { return String::new() };
    let flags = rustix::fs::fcntl_getfl(stderr.as_fd());
    let set = flags.and_then(|flags| rustix::fs::fcntl_setfl(&stderr, flags | rustix::fs::OFlags::NONBLOCK));
    let mut text = Vec::new();
    if set.is_ok() {
        let _ = stderr.take(MAX_SAID).read_to_end(&mut text);
    }
    one_line(String::from_utf8_lossy(&text).trim(), MAX_TOLD)
}
