//! `rkubelet why POD`: one sentence of cause, from the source's verdict to the exit code, then the evidence. Pure.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde_json::Value;

use super::pods::{NoPod, age, find_pod, has_condition, items, name_of, seconds_in_words, statuses, text};
use crate::text::excerpt::one_line;

/// The most bytes of a message inside the sentence.
const MAX_MESSAGE: usize = 300;
/// How many events are evidence.
const MAX_EVENTS: usize = 8;

/// What the agent says, as it serves it.
pub(super) struct Known<'a> {
    pub(super) pods: &'a Value,
    pub(super) verdicts: &'a Value,
    pub(super) events: &'a Value,
    pub(super) now: Timestamp,
}

/// Why a pod is as it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PodCause {
    /// One sentence.
    pub(super) sentence: String,
    /// It runs and is ready, or is done.
    pub(super) is_well: bool,
    /// What the sentence rests on, a line each.
    pub(super) evidence: Vec<String>,
}

/// Why the pod of this name is as it is.
pub(super) fn find_cause(
    known: &Known<'_>,
    wanted: &str,
    namespace: Option<&str>,
) -> Result<PodCause, NoPod> {
    match find_pod(known.pods, wanted, namespace) {
        Ok(pod) => Ok(cause_of(known, pod)),
        Err(NoPod::None { name, hint }) => refused(known, wanted).ok_or(NoPod::None { name, hint }),
        Err(several) => Err(several),
    }
}

/// A manifest that gives no pod: refused, shadowed or skipped.
fn refused(known: &Known<'_>, wanted: &str) -> Option<PodCause> {
    let verdict = items(known.verdicts).iter().find(|verdict| {
        !matches!(text(verdict, "/outcome"), "accepted" | "unchanged") && is_about(verdict, wanted)
    })?;
    Some(PodCause {
        sentence: format!("{wanted} does not run: {}", verdict_in_words(verdict)),
        is_well: false,
        evidence: problem_lines(verdict),
    })
}

/// Whether a verdict is about a pod of this name: by what it says, or by the name of its file.
fn is_about(verdict: &Value, wanted: &str) -> bool {
    let wanted = wanted.rsplit('/').next().unwrap_or(wanted);
    let named = text(verdict, "/pod").rsplit('/').next().unwrap_or_default();
    let file = text(verdict, "/origin").rsplit('/').next().unwrap_or_default();
    let stem = file.split('.').next().unwrap_or_default();
    let fits = |name: &str| {
        !name.is_empty()
            && (name == wanted || wanted.strip_prefix(name).is_some_and(|rest| rest.starts_with('-')))
    };
    named == wanted || named.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('-')) || fits(stem)
}

fn verdict_in_words(verdict: &Value) -> String {
    let origin = text(verdict, "/origin");
    match text(verdict, "/outcome") {
        "shadowed" => {
            let by = verdict["by"]["origin"].as_str().unwrap_or(text(verdict, "/by/source"));
            format!("its name in {origin} is taken by {by}")
        }
        "skipped" => format!("{origin} is not read: {}", text(verdict, "/reason")),
        _ => match problem_lines(verdict).first() {
            Some(first) => format!("its manifest is refused: {first}"),
            None => format!("its manifest {origin} is refused"),
        },
    }
}

fn problem_lines(verdict: &Value) -> Vec<String> {
    let problems = verdict["problems"].as_array().into_iter().flatten();
    let line = |problem: &Value| {
        let at = problem["line"].as_u64().map(|line| format!(":{line}")).unwrap_or_default();
        let field = text(problem, "/field");
        let field = if field.is_empty() { String::new() } else { format!("{field}: ") };
        format!("{}{at}: {field}{}", text(verdict, "/origin"), text(problem, "/reason"))
    };
    problems.map(line).collect()
}

fn cause_of(known: &Known<'_>, pod: &Value) -> PodCause {
    let name = name_of(pod).1;
    let (mut clause, is_well) = of_status(known, pod);
    let mut evidence = Vec::new();
    // A newer version that is refused explains why an edit shows no effect.
    let newer = items(known.verdicts)
        .iter()
        .find(|verdict| text(verdict, "/outcome") == "refused" && is_about(verdict, name));
    if let Some(verdict) = newer {
        let _ = write!(clause, "; it is an older version, since {}", verdict_in_words(verdict));
        evidence.extend(problem_lines(verdict));
    }
    evidence.extend(container_lines(pod, known.now));
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    evidence.extend(conditions.filter(|condition| condition["status"] != "True").map(|condition| {
        let (kind, message) = (text(condition, "/type"), text(condition, "/message"));
        format!("condition {kind} is False: {}", if message.is_empty() { "no message" } else { message })
    }));
    let own: Vec<_> = events_of(known, pod).collect();
    let first = own.len().saturating_sub(MAX_EVENTS);
    evidence.extend(own[first..].iter().map(|event| event_line(event, known.now)));
    PodCause { sentence: format!("{name} {clause}."), is_well, evidence }
}

/// What there is to say of a pod's status, and whether all is well.
fn of_status(known: &Known<'_>, pod: &Value) -> (String, bool) {
    let (phase, reason) = (text(pod, "/status/phase"), text(pod, "/status/reason"));
    let message = one_line(text(pod, "/status/message"), MAX_MESSAGE);
    if phase == "Succeeded" {
        return ("has completed: all its containers ended with exit code 0".into(), true);
    }
    if !reason.is_empty() {
        return match (phase, reason) {
            ("Failed", _) => (format!("was ended ({reason}): {message}"), false),
            (_, "WaitingForPods") => (format!("waits: {message}"), false),
            _ => (format!("cannot start, no sandbox could be made ({reason}): {message}"), false),
        };
    }
    if statuses(pod).next().is_none() {
        return ("is accepted, and nobody has looked at it yet: does the runtime answer?".into(), false);
    }
    if let Some(stuck) = statuses(pod).find_map(|status| of_container(known, pod, status)) {
        return (stuck, false);
    }
    if !has_condition(pod, "Ready") {
        return (not_ready(known, pod), false);
    }
    let restarted = statuses(pod).filter(|status| status["restartCount"].as_i64().unwrap_or(0) > 0);
    match restarted.max_by_key(|status| text(status, "/lastState/terminated/finishedAt")) {
        Some(status) => {
            let (count, container) = (&status["restartCount"], text(status, "/name"));
            let last = ended(&status["lastState"]["terminated"], known.now);
            (
                format!(
                    "runs and is ready; its container {container} was restarted {count} times, last since it {last}"
                ),
                true,
            )
        }
        None => ("runs and is ready".into(), true),
    }
}

/// What keeps one container from running, if something does.
fn of_container(known: &Known<'_>, pod: &Value, status: &Value) -> Option<String> {
    let name = text(status, "/name");
    let state = &status["state"];
    if let Some(waiting) = state["waiting"].as_object() {
        let reason = waiting.get("reason").and_then(Value::as_str).unwrap_or_default();
        let message = one_line(text(state, "/waiting/message"), MAX_MESSAGE);
        let last = &status["lastState"]["terminated"];
        return match reason {
            // Another one is to blame.
            "PodInitializing" => None,
            "CrashLoopBackOff" => {
                let last = ended(last, known.now);
                let count = &status["restartCount"];
                Some(format!(
                    "does not run: its container {name} {last}; it was restarted {count} times and waits before the next time"
                ))
            }
            "ErrImagePull" | "ImagePullBackOff" | "RegistryUnavailable" => {
                let image = image_of(pod, name);
                Some(format!(
                    "does not run: the image {image} of its container {name} cannot be pulled: {message}"
                ))
            }
            "ContainerCreating" | "" => Some(creating(known, pod, name)),
            reason => Some(format!("does not run: its container {name} waits ({reason}): {message}")),
        };
    }
    let code = state["terminated"]["exitCode"].as_i64()?;
    let ended = ended(&state["terminated"], known.now);
    (code != 0).then(|| format!("does not run: its container {name} {ended}"))
}

/// A container that is not made yet: its image may be on its way.
fn creating(known: &Known<'_>, pod: &Value, name: &str) -> String {
    let newest = events_of(known, pod).filter(|event| is_of_container(event, name)).last();
    match newest {
        Some(event) if text(event, "/reason") == "Pulling" => {
            let since = age(text(event, "/lastTimestamp"), known.now);
            format!(
                "starts: the image {} of its container {name} is being pulled since {since}",
                image_of(pod, name)
            )
        }
        _ => format!("starts: its container {name} is being made"),
    }
}

/// Why a pod whose containers run is not ready.
fn not_ready(known: &Known<'_>, pod: &Value) -> String {
    let unready =
        statuses(pod).find(|status| status["ready"] != true && status["state"]["running"].is_object());
    let Some(status) = unready else { return "runs, and is not ready".into() };
    let name = text(status, "/name");
    let probe = events_of(known, pod)
        .filter(|event| text(event, "/reason") == "Unhealthy" && is_of_container(event, name))
        .last();
    match (probe, status["started"] == true) {
        (Some(event), _) => {
            let message = one_line(text(event, "/message"), MAX_MESSAGE);
            format!("runs, and its container {name} is not ready: {message}")
        }
        (None, false) => {
            format!("runs, and its container {name} has not started yet: its startup probe has not succeeded")
        }
        (None, true) => {
            format!("runs, and its container {name} is not ready yet: its readiness probe has not succeeded")
        }
    }
}

/// How a container ended, in words.
fn ended(terminated: &Value, now: Timestamp) -> String {
    let code = terminated["exitCode"].as_i64().unwrap_or_default();
    let (begun, done) = (text(terminated, "/startedAt"), text(terminated, "/finishedAt"));
    let lived = match (begun.parse::<Timestamp>(), done.parse::<Timestamp>()) {
        (Ok(begun), Ok(done)) => format!(" after {}", seconds_in_words(done.as_second() - begun.as_second())),
        _ => String::new(),
    };
    let ago = if done.is_empty() { String::new() } else { format!(", {} ago", age(done, now)) };
    let message = one_line(text(terminated, "/message").trim(), MAX_MESSAGE);
    let message = if message.is_empty() { message } else { format!(": {message}") };
    format!(
        "ended{lived} with exit code {code} ({}){ago}{message}",
        meaning(code, text(terminated, "/reason"))
    )
}

/// What an exit code and the runtime's word for it mean.
fn meaning(code: i64, reason: &str) -> String {
    match (reason, code) {
        ("OOMKilled", _) => "out of memory: the kernel killed it".into(),
        (_, 0) => "done".into(),
        (_, 126) => "its command cannot be executed".into(),
        (_, 127) => "its command was not found".into(),
        (_, 137) => "killed by SIGKILL".into(),
        (_, 139) => "killed by SIGSEGV, a fault of the program".into(),
        (_, 143) => "ended by SIGTERM".into(),
        (_, 129..=192) => format!("killed by signal {}", code - 128),
        ("" | "Error", _) => "an error of the program".into(),
        (reason, _) => reason.to_owned(),
    }
}

fn image_of<'a>(pod: &'a Value, container: &str) -> &'a str {
    let lists = ["initContainers", "containers"].into_iter();
    let mut all = lists.flat_map(|list| pod["spec"][list].as_array().into_iter().flatten());
    all.find(|spec| spec["name"] == container).map_or("", |spec| text(spec, "/image"))
}

fn is_of_container(event: &Value, name: &str) -> bool {
    text(event, "/involvedObject/fieldPath").ends_with(&format!("{{{name}}}"))
}

/// The events of this instance of a pod, the oldest first.
pub(super) fn events_of<'a>(known: &Known<'a>, pod: &'a Value) -> impl Iterator<Item = &'a Value> {
    let (namespace, name) = name_of(pod);
    let uid = text(pod, "/metadata/uid");
    items(known.events).iter().filter(move |event| {
        let involved = &event["involvedObject"];
        involved["name"] == name && involved["namespace"] == namespace && involved["uid"] == uid
    })
}

/// An event on a line.
pub(super) fn event_line(event: &Value, now: Timestamp) -> String {
    let count = event["count"].as_u64().unwrap_or(1);
    let often = if count > 1 { format!(" (x{count})") } else { String::new() };
    let (reason, message) = (text(event, "/reason"), one_line(text(event, "/message"), 4 * MAX_MESSAGE));
    format!("{} ago{often}: {reason}: {message}", age(text(event, "/lastTimestamp"), now))
}

/// A line for each container.
pub(super) fn container_lines(pod: &Value, now: Timestamp) -> Vec<String> {
    statuses(pod)
        .map(|status| {
            let (name, restarts, state) = (text(status, "/name"), &status["restartCount"], &status["state"]);
            let state_in_words = if state["running"].is_object() {
                let ready = if status["ready"] == true { "ready" } else { "not ready" };
                format!("runs since {}, {ready}", age(text(state, "/running/startedAt"), now))
            } else if state["terminated"].is_object() {
                ended(&state["terminated"], now)
            } else {
                format!("waits ({})", text(state, "/waiting/reason"))
            };
            let last = &status["lastState"]["terminated"];
            let before =
                if last.is_object() { format!("; before, it {}", ended(last, now)) } else { String::new() };
            format!("container {name} {state_in_words}; {restarts} restarts{before}")
        })
        .collect()
}

/// The sentence and the evidence, as they are printed.
pub(super) fn render(cause: &PodCause) -> String {
    let mut text = format!("{}\n", cause.sentence);
    cause.evidence.iter().for_each(|line| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  - {line}");
    });
    text
}

#[cfg(test)]
mod tests;
