//! The kernel's log, from now on: who was killed because the whole node was out of memory.

use std::convert::Infallible;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use smol::Async;
use tracing::{info, warn};

use crate::status::events::{EventType, Recorder};

const KERNEL_LOG: &str = "/dev/kmsg";
/// kubelet's reason.
const SYSTEM_OOM: &str = "SystemOOM";
/// No record is longer.
const MAX_RECORD: usize = 8192;

/// Tells of every process that the kernel kills because the node is out of memory, for as long as the agent runs.
pub(crate) async fn run_kernel_log(events: Recorder) {
    let told = async {
        let log = KernelLog::open()?;
        loop {
            let OomVictim { process, pid } = log.next_victim().await?;
            warn!(reason = SYSTEM_OOM, process, pid, "System OOM encountered: the node has no memory left");
            // kubelet's sentence.
            let message = format!("System OOM encountered, victim process: {process}, pid: {pid}");
            events.note_node(EventType::Warning, SYSTEM_OOM, &message);
        }
    };
    let end: io::Result<Infallible> = told.await;
    let Err(error) = end;
    info!(%error, path = KERNEL_LOG, "cannot read the kernel's log: a node without memory is not told of");
}

/// A process that the kernel killed since the node had no memory left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OomVictim {
    /// Its name.
    pub(crate) process: String,
    /// Its pid.
    pub(crate) pid: u32,
}

/// The kernel's log.
#[derive(Debug)]
pub(crate) struct KernelLog(Async<File>);

impl KernelLog {
    /// Opens it behind its last record.
    ///
    /// # Errors
    /// When it may not be read, as in many containers.
    pub(crate) fn open() -> io::Result<Self> {
        Self::open_at(Path::new(KERNEL_LOG))
    }

    fn open_at(path: &Path) -> io::Result<Self> {
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
        let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self(Async::new(file)?))
    }

    /// Waits for the next victim.
    ///
    /// # Errors
    /// When the log cannot be read any more.
    pub(crate) async fn next_victim(&self) -> io::Result<OomVictim> {
        let mut record = vec![0; MAX_RECORD];
        loop {
            let length = match self.0.read_with(|mut file: &File| file.read(&mut record)).await {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => length,
                // Records were overwritten before they were read: the next read goes on behind them.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => continue,
                Err(error) => return Err(error),
            };
            let record = record.get(..length).map(String::from_utf8_lossy).unwrap_or_default();
            if let Some(victim) = parse_victim(&record) {
                return Ok(victim);
            }
        }
    }
}

/// The victim in a record such as `3,1160,5140900140,-;Out of memory: Killed process 123 (name) total-vm:...`. What was
/// killed for the limit of its cgroup begins with other words. Records of others than the kernel do not count: everybody
/// may write some.
fn parse_victim(record: &str) -> Option<OomVictim> {
    let (prefix, text) = record.split_once(';')?;
    let priority: u32 = prefix.split(',').next()?.parse().ok()?;
    // The facility, of which the kernel's is 0.
    if priority >> 3 != 0 {
        return None;
    }
    let rest = text.strip_prefix("Out of memory: Kill")?;
    let rest = rest.strip_prefix("ed process ").or_else(|| rest.strip_prefix(" process "))?;
    let (pid, rest) = rest.split_once(" (")?;
    let (process, _) = rest.lines().next()?.rsplit_once(')')?;
    Some(OomVictim { process: process.to_owned(), pid: pid.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn victims_of_the_whole_node() {
        let rows = [
            (
                "3,1160,5140900140,-;Out of memory: Killed process 123 (nginx) total-vm:1kB, anon-rss:1kB\n",
                Some(("nginx", 123)),
            ),
            (
                "3,1,2,-;Out of memory: Kill process 7 (a (b) c) score 1 or sacrifice child\n",
                Some(("a (b) c", 7)),
            ),
            ("3,1,2,-;Memory cgroup out of memory: Killed process 123 (nginx) total-vm:1kB\n", None),
            ("6,1,2,-;usb 1-1: new device\n", None),
            // Written by a user's program.
            ("11,1,2,-;Out of memory: Killed process 123 (nginx) total-vm:1kB\n", None),
            ("3,1,2,-;Out of memory: Killed process x (nginx)\n", None),
            ("", None),
        ];
        for (record, expect) in rows {
            let found = parse_victim(record).map(|victim| (victim.process, victim.pid));
            assert_eq!(found, expect.map(|(process, pid)| (process.to_owned(), pid)), "{record}");
        }
    }
}
