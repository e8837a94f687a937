//! systemd as the manager of cgroups: makes, changes and stops slices through its private socket. Blocking.
//!
//! Speaks D-Bus without a message bus, and of D-Bus only the four calls below, written by hand: a library for all of it
//! would weigh more than all of this room. A connection lives for one piece of work; nothing is held at rest.

mod message;

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(crate) use message::Property;
use message::{
    BusBody, BusMessage, BusMessageKind, MAX_MESSAGE, body_string, job_of, method_call, removed_job, sizes,
};

/// Where systemd listens to root.
const PRIVATE_SOCKET: &str = "/run/systemd/private";
/// As long as libcontainer waits for a job.
const DEADLINE: Duration = Duration::from_secs(30);
const MAX_LINE: usize = 512;

/// Why systemd did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SystemdError {
    /// It cannot be reached.
    #[error(
        "cannot reach systemd at {path}, which makes the cgroups of pods (cgroup driver systemd): {cause}. Is systemd the \
         init of this node, and is its socket visible to rkubelet? Else set SystemdCgroup = false in containerd's \
         configuration and cgroupDriver: cgroupfs"
    )]
    Connect { path: PathBuf, cause: io::Error },
    /// The connection broke, or an answer took too long.
    #[error("systemd does not answer to {call}")]
    Exchange { call: &'static str, source: io::Error },
    /// It says no.
    #[error("systemd refuses {call} of {unit}: {message} ({name})")]
    Refused { call: &'static str, unit: String, name: String, message: String },
    /// A job ended otherwise than done.
    #[error("systemd could not complete {call} of {unit}: {result}")]
    Job { call: &'static str, unit: String, result: String },
}

impl SystemdError {
    fn is(&self, error: &str) -> bool {
        matches!(self, Self::Refused { name, .. } if name.ends_with(error))
    }
}

/// A connection to systemd.
#[derive(Debug)]
pub(crate) struct Systemd {
    stream: UnixStream,
    serial: u32,
    until: Instant,
}

impl Systemd {
    /// Connects to the systemd of this machine.
    ///
    /// # Errors
    /// When there is none that listens to us.
    pub(crate) fn connect() -> Result<Self, SystemdError> {
        let path = Path::new(PRIVATE_SOCKET);
        Self::connect_to(path).map_err(|cause| SystemdError::Connect { path: path.to_owned(), cause })
    }

    fn connect_to(path: &Path) -> io::Result<Self> {
        let mut stream = UnixStream::connect(path)?;
        stream.set_write_timeout(Some(DEADLINE))?;
        stream.set_read_timeout(Some(DEADLINE))?;
        let uid = rustix::process::getuid().as_raw().to_string();
        let hex: String = uid.bytes().map(|byte| format!("{byte:02x}")).collect();
        stream.write_all(format!("\0AUTH EXTERNAL {hex}\r\n").as_bytes())?;
        let answer = read_line(&mut stream)?;
        if !answer.starts_with("OK ") {
            return Err(io::Error::new(ErrorKind::PermissionDenied, format!("not let in: {answer}")));
        }
        stream.write_all(b"BEGIN\r\n")?;
        Ok(Self { stream, serial: 0, until: Instant::now() + DEADLINE })
    }

    /// Makes a slice unless there is one of this name, and waits for it.
    ///
    /// # Errors
    /// When systemd refuses, or does not answer.
    pub(crate) fn start_slice(&mut self, unit: &str, properties: &[Property]) -> Result<(), SystemdError> {
        const CALL: &str = "StartTransientUnit";
        let mut body = BusBody::default();
        body.string(unit).string("replace").properties(properties).no_units();
        match self.job(CALL, unit, "ssa(sv)a(sa(sv))", body) {
            Err(error) if error.is(".UnitExists") => Ok(()),
            other => other,
        }
    }

    /// Changes the properties of a unit until the next boot.
    ///
    /// # Errors
    /// When systemd refuses, or does not answer.
    pub(crate) fn set_properties(&mut self, unit: &str, properties: &[Property]) -> Result<(), SystemdError> {
        let mut body = BusBody::default();
        body.string(unit).bool(true).properties(properties);
        self.call("SetUnitProperties", unit, "sba(sv)", body).map(drop)
    }

    /// Stops a unit, and waits for it; one that is not there is stopped.
    ///
    /// # Errors
    /// When systemd refuses, or does not answer.
    pub(crate) fn stop(&mut self, unit: &str) -> Result<(), SystemdError> {
        let mut body = BusBody::default();
        body.string(unit).string("replace");
        match self.job("StopUnit", unit, "ss", body) {
            Err(error) if error.is(".NoSuchUnit") => return Ok(()),
            other => other?,
        }
        // One that failed would stay in systemd's memory.
        let mut body = BusBody::default();
        body.string(unit);
        match self.call("ResetFailedUnit", unit, "s", body) {
            Err(error) if error.is(".NoSuchUnit") => Ok(()),
            other => other.map(drop),
        }
    }

    /// Makes a call whose answer is a job, and waits for the job's end.
    fn job(
        &mut self,
        call: &'static str,
        unit: &str,
        signature: &str,
        body: BusBody,
    ) -> Result<(), SystemdError> {
        // A quick job is over before the call is answered.
        let mut removed = Vec::new();
        let answer = self.exchange(call, unit, signature, body, &mut removed)?;
        let wrong = || io::Error::new(ErrorKind::InvalidData, "the answer names no job");
        let job = job_of(&answer).ok_or_else(|| SystemdError::Exchange { call, source: wrong() })?;
        loop {
            if let Some((_, result)) = removed.iter().find(|(path, _)| *path == job) {
                let (unit, result) = (unit.to_owned(), result.clone());
                let is_done = result == "done" || result == "skipped";
                return if is_done { Ok(()) } else { Err(SystemdError::Job { call, unit, result }) };
            }
            let message = self.receive().map_err(|source| SystemdError::Exchange { call, source })?;
            removed.extend(removed_job(&message));
        }
    }

    fn call(
        &mut self,
        call: &'static str,
        unit: &str,
        signature: &str,
        body: BusBody,
    ) -> Result<BusMessage, SystemdError> {
        self.exchange(call, unit, signature, body, &mut Vec::new())
    }

    /// Sends a call and reads until its answer; jobs that ended meanwhile are added to `removed`.
    fn exchange(
        &mut self,
        call: &'static str,
        unit: &str,
        signature: &str,
        body: BusBody,
        removed: &mut Vec<(String, String)>,
    ) -> Result<BusMessage, SystemdError> {
        let failed = |source| SystemdError::Exchange { call, source };
        self.serial += 1;
        self.until = Instant::now() + DEADLINE;
        self.stream.write_all(&method_call(call, self.serial, signature, body)).map_err(failed)?;
        loop {
            let message = self.receive().map_err(failed)?;
            removed.extend(removed_job(&message));
            if message.reply_to != Some(self.serial) {
                continue;
            }
            if message.kind == BusMessageKind::Error {
                let text = body_string(&message).unwrap_or_default();
                let (name, unit) = (message.error_name.unwrap_or_default(), unit.to_owned());
                return Err(SystemdError::Refused { call, unit, name, message: text });
            }
            return Ok(message);
        }
    }

    fn receive(&mut self) -> io::Result<BusMessage> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        let invalid = || io::Error::new(ErrorKind::InvalidData, "not a message of D-Bus");
        let mut start = [0; 16];
        self.stream.read_exact(&mut start)?;
        let (header, body) = sizes(&start).filter(|(h, b)| h + b <= MAX_MESSAGE).ok_or_else(invalid)?;
        let mut rest = vec![0; header + body];
        self.stream.read_exact(&mut rest)?;
        BusMessage::parse(&start, &rest, header).ok_or_else(invalid)
    }
}

fn read_line(stream: &mut UnixStream) -> io::Result<String> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        line.push(byte[0]);
        if line.len() > MAX_LINE {
            return Err(ErrorKind::InvalidData.into());
        }
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

#[cfg(test)]
mod tests;
