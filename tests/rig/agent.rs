//! The rkubelet under test: the real executable, inside the rig.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};

use rustix::process::{Pid, Signal, kill_process};

use super::machine::Machine;
use super::wait::wait_until;
use super::{PATIENCE, Rig, images};

/// A started agent; killed when dropped. Its pods stay.
pub(crate) struct Agent<'rig> {
    rig: &'rig Rig,
    child: Child,
    log_path: PathBuf,
    /// Set once the process is known to have ended.
    ended: Option<ExitStatus>,
}

impl<'rig> Agent<'rig> {
    /// Starts it through `launcher`, a command that ends in running its own last arguments; empty for none.
    pub(super) fn start(rig: &'rig Rig, launcher: &[&str], flags: &[String], extra: &[&str]) -> Self {
        let extra = extra.iter().map(|&flag| flag.to_owned());
        Self::start_program(
            rig,
            launcher,
            &program(),
            &flags.iter().cloned().chain(extra).collect::<Vec<_>>(),
        )
    }

    /// Starts another program in its place.
    pub(super) fn start_program(rig: &'rig Rig, launcher: &[&str], program: &Path, flags: &[String]) -> Self {
        let mut logs = rig.agent_logs.lock().expect("the list of logs");
        let log_path = rig.dir().join(format!("rkubelet-{}.log", logs.len()));
        logs.push(log_path.clone());
        let log = File::create(&log_path).expect("create the agent's log");
        let program = program.display().to_string();
        let words: Vec<&str> = launcher.iter().copied().chain([program.as_str()]).collect();
        let mut command = rig.command(words[0]);
        command.args(&words[1..]).args(flags);
        command.stdout(log.try_clone().expect("duplicate a file handle")).stderr(log);
        Self { rig, child: command.spawn().expect("run rkubelet"), log_path, ended: None }
    }

    /// Everything that it printed so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log_path).expect("read the agent's log")
    }

    /// The lines of the log that hold a text.
    pub(crate) fn log_lines_with(&self, text: &str) -> Vec<String> {
        self.log().lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
    }

    /// Waits until the log holds a text.
    pub(crate) fn wait_for_log(&self, text: &str) {
        self.rig.wait(&format!("the log to say {text:?}"), || self.log().contains(text));
    }

    /// Waits until the health endpoint says `ok`.
    pub(crate) fn wait_healthy(&self) {
        self.rig.wait("healthz to say ok", || {
            let reply = self.rig.http_get("http://127.0.0.1:10248/healthz");
            reply.is_some_and(|reply| reply.status == 200 && reply.body == "ok")
        });
    }

    /// Does something while it stands still.
    pub(crate) fn while_halted(&self, act: impl FnOnce()) {
        self.signal(Signal::STOP);
        act();
        // nsenter, which started it, halts with it.
        let parent = Pid::from_child(&self.child);
        kill_process(parent, Signal::CONT).expect("let nsenter go on");
        self.signal(Signal::CONT);
    }

    /// Ends it without a chance to clean up.
    pub(crate) fn kill9(mut self) {
        self.signal(Signal::KILL);
        self.wait_for_end();
    }

    /// Asks it to end, and leaves it to the caller to see that it has.
    pub(crate) fn terminate_in_place(&self) {
        self.signal(Signal::TERM);
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn terminate(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait_for_end()
    }

    /// Waits until it has ended by itself; then its log is whole.
    pub(crate) fn wait_for_end(&mut self) -> ExitStatus {
        let child = &mut self.child;
        let ended = &mut self.ended;
        let in_time = wait_until(PATIENCE, || {
            *ended = child.try_wait().expect("wait for rkubelet");
            ended.is_some()
        });
        assert!(in_time, "rkubelet does not end\n{}", self.rig.report());
        self.ended.expect("the wait ended with a status")
    }

    /// Lets it stand still until the guard is dropped.
    pub(crate) fn freeze(&self) -> Frozen<'_> {
        self.signal(Signal::STOP);
        Frozen(self)
    }

    /// The memory that it occupies, in KiB.
    pub(crate) fn rss_kib(&self) -> u64 {
        let pid = self.pid().expect("rkubelet runs");
        let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()))
            .expect("read the status of rkubelet");
        let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS of rkubelet");
        rss.trim().trim_end_matches(" kB").parse().expect("VmRSS is a number")
    }

    /// Its pid outside the rig.
    pub(crate) fn pid(&self) -> Option<Pid> {
        Machine::pid_behind(&self.child)
    }

    fn signal(&self, signal: Signal) {
        let pid = self.pid().unwrap_or_else(|| panic!("rkubelet has ended already\n{}", self.rig.report()));
        kill_process(pid, signal).expect("signal rkubelet");
    }
}

/// An agent that stands still.
pub(crate) struct Frozen<'agent>(&'agent Agent<'agent>);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        // nsenter stops with the program that it runs.
        let nsenter = i32::try_from(self.0.child.id()).ok().and_then(Pid::from_raw);
        for pid in self.0.pid().into_iter().chain(nsenter) {
            let _ = kill_process(pid, Signal::CONT);
        }
    }
}

impl Drop for Agent<'_> {
    fn drop(&mut self) {
        if self.ended.is_none() {
            if let Some(pid) = self.pid() {
                let _ = kill_process(pid, Signal::KILL);
            }
            let _ = self.child.wait();
        }
    }
}

/// The executable: cargo names it to tests; for the demo it lies beside.
fn program() -> PathBuf {
    let named = option_env!("CARGO_BIN_EXE_rkubelet").map(PathBuf::from);
    named.unwrap_or_else(|| images::build_dir().join("rkubelet"))
}
