//! The channel into the machine: a console on which a small shell script reads commands and answers each in one line.
//!
//! A command goes as `NUMBER BASE64`, its answer comes as `= NUMBER EXIT-CODE BASE64`. Anything else on the console is
//! what the kernel or systemd says; it is kept for the report of a failure.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// What a command printed, on both of its streams, and how it ended.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The exit code.
    pub(crate) code: i32,
    /// Standard output and standard error, in the order in which they were written.
    pub(crate) text: String,
}

/// The machine did not answer.
#[derive(Debug)]
pub(crate) struct Silent(pub(crate) String);

/// One end of the channel.
pub(crate) struct Console {
    input: ChildStdin,
    lines: Receiver<String>,
    number: u32,
    said: Vec<String>,
}

impl Console {
    /// Over the pipes of the emulator.
    pub(crate) fn new(input: ChildStdin, output: ChildStdout) -> Self {
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).trim().to_owned();
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { input, lines, number: 0, said: Vec::new() }
    }

    /// Waits until the script in the machine says that it listens.
    pub(crate) fn wait_for_listener(&mut self, patience: Duration) -> Result<(), Silent> {
        self.wait_for(patience, |line| (line == "= listening").then_some(()))
    }

    /// Runs a shell script in the machine.
    pub(crate) fn run(&mut self, script: &str, patience: Duration) -> Result<Answer, Silent> {
        self.number += 1;
        let line = format!("{} {}\n", self.number, STANDARD.encode(script));
        self.input.write_all(line.as_bytes()).map_err(|error| Silent(error.to_string()))?;
        self.input.flush().map_err(|error| Silent(error.to_string()))?;
        let prefix = format!("= {} ", self.number);
        let answer = self.wait_for(patience, |line| line.strip_prefix(&prefix).map(str::to_owned))?;
        let (code, text) = answer.split_once(' ').unwrap_or((&answer, ""));
        let bytes = STANDARD.decode(text.trim()).map_err(|error| Silent(format!("{error}: {answer}")))?;
        let code = code.parse().map_err(|_| Silent(format!("no exit code: {answer}")))?;
        Ok(Answer { code, text: String::from_utf8_lossy(&bytes).into_owned() })
    }

    fn wait_for<T>(
        &mut self,
        patience: Duration,
        mut find: impl FnMut(&str) -> Option<T>,
    ) -> Result<T, Silent> {
        let deadline = Instant::now() + patience;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => match find(&line) {
                    Some(found) => return Ok(found),
                    None => self.said.push(line),
                },
                Err(RecvTimeoutError::Timeout) => {
                    return Err(Silent(format!("no answer within {patience:?}; {}", self.said.join("\n"))));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Silent(format!("the machine is off; {}", self.said.join("\n"))));
                }
            }
        }
    }
}
