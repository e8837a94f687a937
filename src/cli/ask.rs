//! The commands that ask the running agent and print what it says: `get`, `describe`, `why`, `top`, `restart`, `wait`.
//!
//! Effects only: what is printed is made in `pods`, `why`, `describe` and `table`.

use std::io::{self, IsTerminal as _, Write};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;

use super::client::{AgentClient, ClientError, encoded};
use super::command::ParsedCommand;
use super::describe::{describe, usage_rows};
use super::pods::{
    NoPod, POD_HEADS, age, find_pod, has_condition, is_event_of, items, name_of, pod_rows, status_word, text,
};
use super::table::{Cell, Colours, Tone, paint, table};
use super::why::{Known, find_cause, render};
use crate::text::yaml::write::write_yaml;
use crate::time::duration::parse_duration;

/// How often the agent is asked while somebody watches or waits.
const PACE: Duration = Duration::from_secs(1);
/// How long `wait` waits.
const WAIT: Duration = Duration::from_secs(300);

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommandError {
    /// The command line.
    #[error("{0}")]
    Usage(String),
    /// The agent.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The pod.
    #[error(transparent)]
    NoPod(#[from] NoPod),
    /// Our own output, or the terminal.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A reason in words.
    #[error("{0}")]
    Failed(String),
}

/// Whether stdout takes colours.
pub(super) fn colours() -> Colours {
    let is_wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if io::stdout().is_terminal() && is_wanted { Colours::On } else { Colours::Off }
}

/// The one word that a command is about.
pub(super) fn one_word<'a>(command: &'a ParsedCommand, what: &str) -> Result<&'a str, CommandError> {
    match command.words.as_slice() {
        [word] => Ok(word),
        [] => Err(CommandError::Usage(format!("name {what}"))),
        _ => Err(CommandError::Usage(format!("name one {what} only"))),
    }
}

/// How a list is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListFormat {
    Table,
    Wide,
    Json,
    Yaml,
    Name,
}

fn format(command: &ParsedCommand) -> Result<ListFormat, CommandError> {
    match command.value("output") {
        None => Ok(ListFormat::Table),
        Some("wide") => Ok(ListFormat::Wide),
        Some("json") => Ok(ListFormat::Json),
        Some("yaml") => Ok(ListFormat::Yaml),
        Some("name") => Ok(ListFormat::Name),
        Some(other) => Err(CommandError::Usage(format!("-o {other} is not json, yaml, wide or name"))),
    }
}

/// JSON as programs, or YAML as people, read it.
fn written(value: &Value, format: ListFormat) -> String {
    match format {
        ListFormat::Yaml => write_yaml(value),
        _ => format!("{value:#}\n"),
    }
}

/// `get`: once, or again and again.
pub(super) fn get(client: &AgentClient, command: &ParsedCommand) -> Result<u8, CommandError> {
    let (kind, name) = match command.words.as_slice() {
        [kind] => (kind.as_str(), None),
        [kind, name] => (kind.as_str(), Some(name.as_str())),
        _ => return Err(CommandError::Usage("say what: pods, events, sources or images".into())),
    };
    let format = format(command)?;
    repeat(command, || list(client, command, kind, name, format))
}

/// Prints a text; with `--watch` again whenever it changes, until the reader goes.
fn repeat(
    command: &ParsedCommand,
    mut make: impl FnMut() -> Result<String, CommandError>,
) -> Result<u8, CommandError> {
    let mut last = String::new();
    loop {
        let now = make()?;
        if now != last {
            let mut stdout = io::stdout().lock();
            let again = if last.is_empty() { "" } else { "\n" };
            stdout.write_all(format!("{again}{now}").as_bytes())?;
            stdout.flush()?;
            last = now;
        }
        if !command.has("watch") {
            return Ok(0);
        }
        pause(PACE);
    }
}

#[expect(clippy::disallowed_methods, reason = "a command has one thread, and nothing else to do")]
fn pause(time: Duration) {
    thread::sleep(time);
}

fn list(
    client: &AgentClient,
    command: &ParsedCommand,
    kind: &str,
    name: Option<&str>,
    format: ListFormat,
) -> Result<String, CommandError> {
    let namespace = command.value("namespace");
    let now = Timestamp::now();
    let wide = format == ListFormat::Wide;
    let (mut list, kind) = match kind {
        "pod" | "pods" | "po" => (client.get("/pods")?, "pod"),
        "event" | "events" | "ev" => (client.get("/events")?, "event"),
        "source" | "sources" => (client.get("/verdicts")?, "source"),
        "image" | "images" => (client.get("/images")?, "image"),
        other => {
            return Err(CommandError::Usage(format!(
                "there are pods, events, sources and images, and no {other}"
            )));
        }
    };
    // What the name means: of pods and events, the pod; of sources and images, a part of what they say.
    let wanted = match (kind, name) {
        ("pod", Some(name)) => Some(find_pod(&list, name, namespace)?["metadata"]["uid"].clone()),
        (_, name) => name.map(Value::from),
    };
    let keep = |item: &Value| {
        let space = match kind {
            "pod" => text(item, "/metadata/namespace"),
            "event" => text(item, "/involvedObject/namespace"),
            _ => namespace.unwrap_or_default(),
        };
        let is_named = wanted.as_ref().is_none_or(|wanted| match kind {
            "pod" => item["metadata"]["uid"] == *wanted,
            "event" => wanted.as_str().is_some_and(|wanted| is_event_of(item, wanted, namespace)),
            _ => wanted.as_str().is_some_and(|part| item.to_string().contains(part)),
        });
        namespace.is_none_or(|namespace| namespace == space) && is_named
    };
    if let Some(items) = list["items"].as_array_mut() {
        items.retain(keep);
    }
    if matches!(format, ListFormat::Json | ListFormat::Yaml) {
        let single = (kind == "pod" && name.is_some()).then(|| items(&list).first()).flatten();
        return Ok(written(single.unwrap_or(&list), format));
    }
    let rows = rows(kind, &list, wide, now);
    if format == ListFormat::Name {
        let names = items(&list).iter().map(|item| format!("{kind}/{}\n", name_in(kind, item)));
        return Ok(names.collect());
    }
    if rows.is_empty() {
        return Ok(format!("no {kind}s\n"));
    }
    let heads: &[&str] = match kind {
        "pod" => &POD_HEADS[..if wide { 8 } else { 6 }],
        "event" => &["LAST", "TYPE", "REASON", "OBJECT", "COUNT", "MESSAGE"],
        "source" => &["SOURCE", "ORIGIN", "OUTCOME", "POD", "REASON"],
        _ => &["IMAGE", "ID", "SIZE"],
    };
    Ok(table(heads, &rows, colours()))
}

fn name_in<'a>(kind: &str, item: &'a Value) -> &'a str {
    match kind {
        "source" => text(item, "/origin"),
        "image" => match text(item, "/names/0") {
            "" => text(item, "/id"),
            name => name,
        },
        _ => name_of(item).1,
    }
}

fn rows(kind: &str, list: &Value, wide: bool, now: Timestamp) -> Vec<Vec<Cell>> {
    let each = items(list).iter();
    match kind {
        "pod" => pod_rows(&each.collect::<Vec<_>>(), wide, now),
        "event" => each
            .map(|event| {
                let tone = if text(event, "/type") == "Warning" { Tone::Doubtful } else { Tone::Plain };
                let object = &event["involvedObject"];
                vec![
                    age(text(event, "/lastTimestamp"), now).into(),
                    Cell(text(event, "/type").to_owned(), tone),
                    text(event, "/reason").into(),
                    format!("{}/{}", text(object, "/kind").to_lowercase(), text(object, "/name")).into(),
                    event["count"].to_string().into(),
                    text(event, "/message").into(),
                ]
            })
            .collect(),
        "source" => each
            .map(|verdict| {
                let outcome = text(verdict, "/outcome");
                let tone = match outcome {
                    "refused" => Tone::Bad,
                    "shadowed" => Tone::Doubtful,
                    "skipped" => Tone::Plain,
                    _ => Tone::Good,
                };
                let first = verdict.pointer("/problems/0").or_else(|| verdict.pointer("/warnings/0"));
                let reason = match first {
                    Some(first) => {
                        format!("{} {}", text(first, "/field"), text(first, "/reason")).trim().to_owned()
                    }
                    None => text(verdict, "/reason").to_owned(),
                };
                let object = verdict["pod"].as_str().or(verdict["object"].as_str()).unwrap_or_default();
                vec![
                    text(verdict, "/source").into(),
                    text(verdict, "/origin").into(),
                    Cell(outcome.to_owned(), tone),
                    object.into(),
                    reason.into(),
                ]
            })
            .collect(),
        _ => each
            .map(|image| {
                let id = text(image, "/id").trim_start_matches("sha256:");
                let size = image["size"].as_u64().unwrap_or_default();
                let megabytes = format!("{}.{} MB", size / 1_000_000, size / 100_000 % 10);
                vec![
                    name_in("image", image).into(),
                    id.chars().take(12).collect::<String>().into(),
                    megabytes.into(),
                ]
            })
            .collect(),
    }
}

/// `why`.
pub(super) fn why(client: &AgentClient, command: &ParsedCommand) -> Result<u8, CommandError> {
    let wanted = one_word(command, "a pod")?;
    let (pods, verdicts, events) = (client.get("/pods")?, client.get("/verdicts")?, client.get("/events")?);
    let known = Known { pods: &pods, verdicts: &verdicts, events: &events, now: Timestamp::now() };
    let cause = find_cause(&known, wanted, command.value("namespace"))?;
    io::stdout().lock().write_all(render(&cause).as_bytes())?;
    Ok(u8::from(!cause.is_well))
}

/// `describe`.
pub(super) fn describe_pod(client: &AgentClient, command: &ParsedCommand) -> Result<u8, CommandError> {
    let wanted = one_word(command, "a pod")?;
    let (pods, events) = (client.get("/pods")?, client.get("/events")?);
    let pod = find_pod(&pods, wanted, command.value("namespace"))?;
    let known = Known { pods: &pods, verdicts: &Value::Null, events: &events, now: Timestamp::now() };
    io::stdout().lock().write_all(describe(&known, pod).as_bytes())?;
    Ok(0)
}

/// `top`.
pub(super) fn top(client: &AgentClient, command: &ParsedCommand) -> Result<u8, CommandError> {
    repeat(command, || {
        let summary = client.get("/stats/summary")?;
        Ok(table(&["NAMESPACE", "NAME", "CPU", "MEMORY", "DISK"], &usage_rows(&summary), colours()))
    })
}

/// The pod of a name, as the agent lists it now.
pub(super) fn pod_named(
    client: &AgentClient,
    command: &ParsedCommand,
    wanted: &str,
) -> Result<Value, CommandError> {
    let pods = client.get("/pods")?;
    Ok(find_pod(&pods, wanted, command.value("namespace"))?.clone())
}

/// `restart`.
pub(super) fn restart(client: &AgentClient, command: &ParsedCommand) -> Result<u8, CommandError> {
    let pod = pod_named(client, command, one_word(command, "a pod")?)?;
    let (namespace, name) = name_of(&pod);
    client.stream("POST", &format!("/restart?namespace={}&pod={}", encoded(namespace), encoded(name)))?;
    writeln!(io::stdout().lock(), "{namespace}/{name} is being replaced; see: rkubelet wait {name}")?;
    Ok(0)
}

/// `wait`: what it waits for shows on a terminal.
pub(super) fn wait(client: &AgentClient, command: &ParsedCommand) -> Result<u8, CommandError> {
    let wanted = one_word(command, "a pod")?;
    let condition = command.value("for").unwrap_or("Ready");
    let condition = condition.strip_prefix("condition=").unwrap_or(condition);
    let timeout = duration(command, "timeout")?.unwrap_or(WAIT);
    let begun = Instant::now();
    let mut shown = String::new();
    loop {
        let (pods, events) = (client.get("/pods")?, client.get("/events")?);
        let known = Known { pods: &pods, verdicts: &Value::Null, events: &events, now: Timestamp::now() };
        let found = find_pod(&pods, wanted, command.value("namespace"));
        let holds = |pod: &Value| {
            has_condition(pod, condition) || text(pod, "/status/phase").eq_ignore_ascii_case(condition)
        };
        if let Ok(pod) = found.as_ref()
            && holds(pod)
        {
            writeln!(io::stdout().lock(), "{} is {condition}", name_of(pod).1)?;
            return Ok(0);
        }
        let state = match &found {
            Ok(pod) => find_cause(&known, name_of(pod).1, Some(name_of(pod).0))?.sentence,
            Err(error) => error.to_string(),
        };
        if begun.elapsed() >= timeout {
            return Err(CommandError::Failed(format!(
                "{wanted} is not {condition} after {timeout:?}: {state}"
            )));
        }
        if io::stderr().is_terminal() && state != shown {
            writeln!(io::stderr(), "{}", paint(&state, Tone::Doubtful, Colours::On))?;
            shown = state;
        }
        pause(PACE.min(timeout.saturating_sub(begun.elapsed())));
    }
}

/// The value of an option that is a duration.
pub(super) fn duration(command: &ParsedCommand, option: &str) -> Result<Option<Duration>, CommandError> {
    let Some(text) = command.value(option) else { return Ok(None) };
    let nanos = parse_duration(text).and_then(|nanos| u64::try_from(nanos).ok());
    match nanos {
        Some(nanos) => Ok(Some(Duration::from_nanos(nanos))),
        None => Err(CommandError::Usage(format!("--{option} {text} is not a duration such as 90s or 5m"))),
    }
}

/// The container that a command is about: the one that is named, or the first.
pub(super) fn container_of<'a>(pod: &'a Value, named: Option<&'a str>) -> Result<&'a str, CommandError> {
    let lists = ["containers", "initContainers"].into_iter();
    let mut all = lists.flat_map(|list| pod["spec"][list].as_array().into_iter().flatten());
    let names: Vec<_> = all.by_ref().map(|spec| text(spec, "/name")).collect();
    match named {
        None => names.first().copied().ok_or_else(|| CommandError::Failed("the pod has no container".into())),
        Some(named) if names.contains(&named) => Ok(named),
        Some(named) => Err(CommandError::Failed(format!(
            "there is no container {named}; there are: {}",
            names.join(", ")
        ))),
    }
}

/// A pod that cannot be looked into, with its word.
pub(super) fn state_in_a_word(pod: &Value) -> String {
    status_word(pod).0
}
