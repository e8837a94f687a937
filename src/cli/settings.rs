//! `rkubelet config`: the settings of the running agent, and where each comes from.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::{env, fs};

use serde_json::{Value, json};

use super::ask::{CommandError, colours};
use super::client::AgentClient;
use super::command::ParsedCommand;
use super::table::{Cell, Tone, table};
use crate::config::origin::{KnownSetting, settings};
use crate::text::yaml::write::write_yaml;

/// Prints them.
pub(super) fn config(client: &AgentClient, command: &ParsedCommand) -> Result<u8, CommandError> {
    let (arguments, directory) = match command.words.is_empty() {
        true => of_agent(client)?,
        false => (command.words.iter().map(OsString::from).collect(), env::current_dir()?),
    };
    let mut all = settings(arguments.into_iter(), &directory)
        .map_err(|error| CommandError::Usage(error.to_string()))?;
    if !command.has("all") {
        all.retain(|setting| setting.value.is_some());
    }
    let object = |setting: &KnownSetting| json!({"name": setting.name, "value": setting.value, "origin": setting.origin, "honoured": setting.is_honoured});
    let text = match command.value("output") {
        Some("json") => format!("{:#}\n", Value::from(all.iter().map(object).collect::<Vec<_>>())),
        Some("yaml") => write_yaml(&Value::from(all.iter().map(object).collect::<Vec<_>>())),
        Some("name") => all.iter().map(|setting| format!("{}\n", setting.name)).collect(),
        _ => table(&["SETTING", "VALUE", "FROM"], &all.iter().map(row).collect::<Vec<_>>(), colours()),
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(0)
}

fn row(setting: &KnownSetting) -> Vec<Cell> {
    let value = match &setting.value {
        None => "(default)".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    let (note, tone) =
        if setting.is_honoured { ("", Tone::Plain) } else { (" (without effect yet)", Tone::Doubtful) };
    vec![setting.name.as_str().into(), value.into(), Cell(format!("{}{note}", setting.origin), tone)]
}

/// The command line and the working directory of the agent behind the socket.
fn of_agent(client: &AgentClient) -> Result<(Vec<OsString>, PathBuf), CommandError> {
    let stream = client.connect()?;
    let peer = rustix::net::sockopt::socket_peercred(&stream).map_err(io::Error::from)?;
    let process = PathBuf::from("/proc").join(peer.pid.as_raw_nonzero().to_string());
    let line = fs::read(process.join("cmdline"))?;
    let arguments = line.strip_suffix(b"\0").unwrap_or(&line).split(|byte| *byte == 0).skip(1);
    let arguments = arguments.map(|argument| OsString::from_vec(argument.to_vec())).collect();
    // A path of the command line may be relative.
    let directory = fs::read_link(process.join("cwd")).unwrap_or_else(|_| PathBuf::from("/"));
    Ok((arguments, directory))
}
