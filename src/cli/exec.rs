//! `rkubelet exec` and `rkubelet logs`: bytes between the terminal and a container.
//!
//! Owns the terminal while a command runs in a container: raw, and as it was before when the command ends.

mod frames;

use std::io::{self, IsTerminal as _, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use async_signal::{Signal, Signals};
use futures_lite::StreamExt as _;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use serde_json::{Value, json};

use self::frames::{Opcode, read_frame, write_frame};
use super::ask::{CommandError, container_of, duration, pod_named, state_in_a_word};
use super::client::{AgentClient, encoded};
use super::command::ParsedCommand;
use super::pods::{name_of, text};

/// The protocols of remote commands, the newer one first: it can say that there is no more input.
const PROTOCOLS: &str = "v5.channel.k8s.io, v4.channel.k8s.io";

/// The first byte of a message: which stream it is of.
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const RESIZE: u8 = 4;
const CLOSE: u8 = 255;

/// `logs`.
pub(super) fn logs(client: &AgentClient, command: &ParsedCommand) -> Result<u8, CommandError> {
    let wanted = super::ask::one_word(command, "a pod")?;
    let pod = pod_named(client, command, wanted)?;
    let (namespace, name) = name_of(&pod);
    let container = container_of(&pod, command.value("container"))?;
    let mut query = Vec::new();
    for switch in ["follow", "previous", "timestamps"] {
        if command.has(switch) {
            query.push(format!("{switch}=true"));
        }
    }
    if let Some(lines) = command.value("tail") {
        let count: u32 = lines
            .parse()
            .map_err(|_| CommandError::Usage(format!("--tail {lines} is not a number of lines")))?;
        query.push(format!("tailLines={count}"));
    }
    if let Some(since) = duration(command, "since")? {
        query.push(format!("sinceSeconds={}", since.as_secs().max(1)));
    }
    let path = format!(
        "/containerLogs/{}/{}/{}?{}",
        encoded(namespace),
        encoded(name),
        encoded(container),
        query.join("&")
    );
    let mut log = client.stream("GET", &path)?;
    let mut stdout = io::stdout().lock();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = log.read(&mut buffer)?;
        if count == 0 {
            return Ok(0);
        }
        stdout.write_all(&buffer[..count])?;
        stdout.flush()?;
    }
}

/// `exec`: the exit code is the command's.
pub(super) fn exec(client: &AgentClient, command: &ParsedCommand) -> Result<u8, CommandError> {
    let Some((wanted, words)) = command.words.split_first().filter(|(_, words)| !words.is_empty()) else {
        return Err(CommandError::Usage("name a pod and, behind --, a command: exec POD -- COMMAND".into()));
    };
    let pod = pod_named(client, command, wanted)?;
    let (namespace, name) = name_of(&pod);
    let container = container_of(&pod, command.value("container"))?;
    let (stdin, tty) = (command.has("stdin"), command.has("tty") && io::stdin().is_terminal());
    if command.has("tty") && !tty {
        writeln!(io::stderr(), "rkubelet: stdin is no terminal; going on without one")?;
    }
    let mut query: Vec<_> = words.iter().map(|word| format!("command={}", encoded(word))).collect();
    query.push("output=1".into());
    query.push(if tty { "tty=1".into() } else { "error=1".into() });
    if stdin {
        query.push("input=1".into());
    }
    let path =
        format!("/exec/{}/{}/{}?{}", encoded(namespace), encoded(name), encoded(container), query.join("&"));
    let (mut stream, protocol) = client.upgrade(&path, PROTOCOLS).map_err(|error| {
        let hint = format!("{error}; the pod is {}", state_in_a_word(&pod));
        CommandError::Failed(hint)
    })?;
    let writer = Arc::new(Mutex::new(stream.get_ref().try_clone()?));
    let terminal = if tty { Some(RawTerminal::begin()?) } else { None };
    if tty {
        follow_size(writer.clone());
    }
    if stdin {
        pass_on_stdin(writer.clone(), protocol.starts_with("v5"));
    }
    let mut status = None;
    while let Some((opcode, message)) = read_frame(&mut stream)? {
        match (opcode, message.split_first()) {
            (Opcode::Data, Some((&STDOUT, bytes))) => print(io::stdout().lock(), bytes)?,
            (Opcode::Data, Some((&STDERR, bytes))) => print(io::stderr().lock(), bytes)?,
            (Opcode::Data, Some((&STATUS, bytes))) if !bytes.is_empty() => {
                status = serde_json::from_slice(bytes).ok();
            }
            (Opcode::Data | Opcode::Other, _) => {}
            (Opcode::Ping, _) => send(&writer, Opcode::Pong, &message)?,
            (Opcode::Pong, _) => {}
            (Opcode::Close, _) => break,
        }
    }
    drop(terminal);
    exit_code(status.as_ref()).map_err(CommandError::Failed)
}

fn print(mut to: impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}

/// The exit code of a command, from the status that comes last.
fn exit_code(status: Option<&Value>) -> Result<u8, String> {
    let Some(status) = status else { return Err("the connection broke before the command ended".into()) };
    if text(status, "/status") == "Success" {
        return Ok(0);
    }
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    let code = causes
        .filter(|cause| cause["reason"] == "ExitCode")
        .find_map(|cause| text(cause, "/message").parse::<i32>().ok());
    match code {
        Some(code) => Ok(u8::try_from(code).unwrap_or(1)),
        None => Err(text(status, "/message").to_owned()),
    }
}

fn send(writer: &Mutex<UnixStream>, opcode: Opcode, payload: &[u8]) -> io::Result<()> {
    write_frame(&mut *writer.lock().unwrap_or_else(PoisonError::into_inner), opcode, payload)
}

fn pass_on_stdin(writer: Arc<Mutex<UnixStream>>, can_close: bool) {
    thread::spawn(move || -> io::Result<()> {
        let mut stdin = io::stdin().lock();
        let mut buffer = vec![STDIN; 32 << 10];
        loop {
            let count = stdin.read(&mut buffer[1..])?;
            if count == 0 {
                return if can_close { send(&writer, Opcode::Data, &[CLOSE, STDIN]) } else { Ok(()) };
            }
            send(&writer, Opcode::Data, &buffer[..=count])?;
        }
    });
}

/// Tells the size of the terminal, now and whenever it changes.
fn follow_size(writer: Arc<Mutex<UnixStream>>) {
    thread::spawn(move || -> io::Result<()> {
        let mut signals = Signals::new([Signal::Winch])?;
        loop {
            let size = tcgetwinsize(io::stdin())?;
            let told = json!({"Width": size.ws_col, "Height": size.ws_row}).to_string();
            send(&writer, Opcode::Data, &[&[RESIZE], told.as_bytes()].concat())?;
            if smol::block_on(signals.next()).is_none() {
                return Ok(());
            }
        }
    });
}

/// The terminal passes on each key as it is, until this is dropped.
struct RawTerminal(Termios);

impl RawTerminal {
    fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Self(before))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // There is nobody left to tell.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_that_of_the_command() {
        let failed =
            |causes: Value| json!({"status": "Failure", "message": "no", "details": {"causes": causes}});
        for (status, expect) in [
            (Some(json!({"status": "Success"})), Ok(0)),
            (Some(failed(json!([{"reason": "ExitCode", "message": "3"}]))), Ok(3)),
            (Some(failed(json!([{"reason": "ExitCode", "message": "-1"}]))), Ok(1)),
            (Some(failed(json!([]))), Err("no".to_owned())),
            (None, Err("the connection broke before the command ended".to_owned())),
        ] {
            assert_eq!(exit_code(status.as_ref()), expect);
        }
    }
}
