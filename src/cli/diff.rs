//! `rkubelet diff`: which pods would an edit start, restart or end, and why. A dry run: the manifests are decoded as the agent
//! decodes them, and compared with what it runs by the same identity.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::ask::{CommandError, colours, one_word};
use super::check::input::{Input, read};
use super::client::AgentClient;
use super::command::ParsedCommand;
use super::pods::{items, name_of, text};
use super::table::{Cell, Tone, table};
use crate::config::this_node_name;
use crate::pod::decode::file::decode_file;
use crate::pod::{Origin, Pod, Source};
use crate::server::pods as served;
use crate::sync::view::{PodView, View};

/// How many fields are named.
const MAX_FIELDS: usize = 4;
/// How long a value is quoted.
const MAX_VALUE: usize = 60;

/// What becomes of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// It begins.
    Start,
    /// Its instance is replaced, since these fields differ.
    Restart(Vec<String>),
    /// It ends: no manifest holds it any more.
    End,
    /// A last good version runs on, if one does.
    Refused(String),
    /// It runs on.
    None,
}

/// Prints what would change; the exit code says whether anything does.
pub(super) fn diff(client: &AgentClient, command: &ParsedCommand) -> Result<u8, CommandError> {
    let path = Path::new(one_word(command, "a file or a directory")?);
    let (pods, verdicts) = (client.get("/pods")?, client.get("/verdicts")?);
    let node = items(&pods).first().map(|pod| text(pod, "/spec/nodeName").to_owned());
    let node = node.unwrap_or_else(|| this_node_name(""));
    let origins: Vec<_> = items(&verdicts).iter().filter(|verdict| verdict["source"] == "file").collect();
    let named_as = command.value("as").map(PathBuf::from);
    let inputs = read(std::slice::from_ref(&path.to_owned())).into_iter().map(|(file, bytes)| {
        let place = named_as.clone().unwrap_or_else(|| PathBuf::from(&file));
        (as_known(&place, &origins), bytes)
    });
    let edit = Edit::decode(inputs, &node, named_as.is_none() && path.is_dir());
    let changes = changes(&pods, &origins, &edit);
    let rows: Vec<_> = changes.iter().map(|(name, change)| row(name, change)).collect();
    let changed = changes.iter().any(|(_, change)| *change != Change::None);
    let text = table(&["POD", "CHANGE", "WHY"], &rows, colours());
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(u8::from(changed))
}

/// A file's path as the agent names it, which counts for the identity of a pod.
fn as_known(place: &Path, origins: &[&Value]) -> String {
    let real = |path: &Path| {
        let (dir, file) = (path.parent().filter(|dir| !dir.as_os_str().is_empty()), path.file_name());
        let dir = fs::canonicalize(dir.unwrap_or(Path::new("."))).ok()?;
        Some(dir.join(file?))
    };
    let wanted = real(place);
    let directory = |path: Option<PathBuf>| path.and_then(|path| path.parent().map(Path::to_owned));
    for origin in origins.iter().map(|verdict| Path::new(text(verdict, "/origin"))) {
        let known = real(origin);
        if wanted.is_some() && known == wanted {
            return origin.display().to_string();
        }
        // A new file of a directory that is known.
        if let (true, Some(dir), Some(file)) = (
            wanted.is_some() && directory(known) == directory(wanted.clone()),
            origin.parent(),
            place.file_name(),
        ) {
            return dir.join(file).display().to_string();
        }
    }
    wanted.unwrap_or_else(|| place.to_owned()).display().to_string()
}

/// What the manifests say.
#[derive(Debug, Default)]
struct Edit {
    pods: Vec<(String, Arc<Pod>)>,
    refused: Vec<(String, String)>,
    origins: BTreeSet<String>,
    /// They are all of a directory: what is not among them ends.
    is_whole: bool,
}

impl Edit {
    fn decode(inputs: impl Iterator<Item = Input>, node_name: &str, is_whole: bool) -> Self {
        let mut edit = Self { is_whole, ..Self::default() };
        for (path, bytes) in inputs {
            edit.origins.insert(path.clone());
            let origin = Origin {
                node_name,
                source: Source::File,
                path: &path,
                seen: Timestamp::now(),
                strict: false,
                kubelet_strict: false,
            };
            let decoded = bytes
                .and_then(|bytes| decode_file(&bytes, &origin).map_err(|refusal| refusal.first.to_string()));
            match decoded {
                Ok(file) => edit.pods.extend(file.pod.map(|(_, decoded)| (path, Arc::new(decoded.pod)))),
                Err(reason) => edit.refused.push((path, reason)),
            }
        }
        edit
    }
}

/// What becomes of each pod, by name.
fn changes(pods: &Value, origins: &[&Value], edit: &Edit) -> Vec<(String, Change)> {
    let full = |pod: &Value| {
        let (namespace, name) = name_of(pod);
        format!("{namespace}/{name}")
    };
    let running: BTreeMap<_, _> = items(pods)
        .iter()
        .filter(|pod| text(pod, "/metadata/annotations/kubernetes.io~1config.source") == "file")
        .map(|pod| (full(pod), pod))
        .collect();
    let mut changes = BTreeMap::new();
    for (_, pod) in &edit.pods {
        let change = match running.get(&pod.name.to_string()) {
            None => Change::Start,
            Some(old)
                if text(old, "/metadata/annotations/kubernetes.io~1config.hash") == pod.hash.as_str() =>
            {
                Change::None
            }
            Some(old) => Change::Restart(changed_fields(old, &as_served(pod))),
        };
        changes.insert(pod.name.to_string(), change);
    }
    for (path, reason) in &edit.refused {
        changes.insert(path.clone(), Change::Refused(reason.clone()));
    }
    // What a file of this edit gave before, and gives no more; a file that is refused keeps its own.
    for verdict in origins {
        let (origin, pod) = (text(verdict, "/origin"), text(verdict, "/pod"));
        let is_refused = edit.refused.iter().any(|(path, _)| path == origin);
        let beside = || {
            let dir = |path: &str| Path::new(path).parent().map(Path::to_owned);
            edit.is_whole && edit.origins.iter().any(|known| dir(known) == dir(origin))
        };
        if running.contains_key(pod) && !is_refused && (edit.origins.contains(origin) || beside()) {
            changes.entry(pod.to_owned()).or_insert(Change::End);
        }
    }
    changes.into_iter().collect()
}

/// A pod as the agent would list it.
fn as_served(pod: &Arc<Pod>) -> Value {
    let view = PodView { pod: pod.clone(), state: None, running: false, waits: None };
    let view = View { pods: BTreeMap::from([(pod.name.clone(), view)]), ..View::default() };
    let list = served::render(&view).and_then(|list| serde_json::from_slice::<Value>(&list));
    list.map(|mut list| list["items"][0].take()).unwrap_or_default()
}

/// The fields in which two versions differ.
fn changed_fields(old: &Value, new: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("spec", &old["spec"], &new["spec"], &mut found);
    compare("metadata.labels", &old["metadata"]["labels"], &new["metadata"]["labels"], &mut found);
    let own = |pod: &Value| {
        let mut annotations = pod["metadata"]["annotations"].clone();
        if let Some(map) = annotations.as_object_mut() {
            map.retain(|key, _| !key.starts_with("kubernetes.io/config."));
        }
        annotations
    };
    compare("metadata.annotations", &own(old), &own(new), &mut found);
    found
}

fn compare(path: &str, old: &Value, new: &Value, found: &mut Vec<String>) {
    match (old, new) {
        (old, new) if old == new => {}
        (Value::Object(one), Value::Object(other)) => {
            let keys: BTreeSet<_> = one.keys().chain(other.keys()).collect();
            for key in keys {
                compare(&format!("{path}.{key}"), &old[key], &new[key], found);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (at, (old, new)) in one.iter().zip(other).enumerate() {
                compare(&format!("{path}[{at}]"), old, new, found);
            }
        }
        _ => found.push(format!("{path}: {} -> {}", short(old), short(new))),
    }
}

fn short(value: &Value) -> String {
    let text = match value {
        Value::Null => "nothing".to_owned(),
        value => value.to_string(),
    };
    crate::text::excerpt::one_line(&text, MAX_VALUE)
}

fn row(name: &str, change: &Change) -> Vec<Cell> {
    let (word, tone, why) = match change {
        Change::Start => ("start", Tone::Good, "it is new".to_owned()),
        Change::End => ("end", Tone::Bad, "no manifest holds it any more".to_owned()),
        Change::None => ("none", Tone::Plain, "as it runs".to_owned()),
        Change::Refused(reason) => {
            ("none", Tone::Bad, format!("refused, the last good version stays: {reason}"))
        }
        Change::Restart(fields) if fields.is_empty() => {
            ("restart", Tone::Doubtful, "its manifest or the path of its file differs".to_owned())
        }
        Change::Restart(fields) => {
            let more = fields.len().saturating_sub(MAX_FIELDS);
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            let named = fields[..fields.len().min(MAX_FIELDS)].join(", ");
            ("restart", Tone::Doubtful, format!("{named}{more}"))
        }
    };
    vec![name.into(), Cell(word.to_owned(), tone), why.into()]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn manifest(name: &str, image: &str) -> Vec<u8> {
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: main, image: {image}}}]}}").into()
    }

    fn edit(files: &[(&str, Vec<u8>)], is_whole: bool) -> Edit {
        let inputs = files.iter().map(|(path, bytes)| ((*path).to_owned(), Ok(bytes.clone())));
        Edit::decode(inputs, "node1", is_whole)
    }

    #[test]
    fn an_edit_says_what_becomes_of_each_pod() {
        let before = edit(&[("/m/a.yaml", manifest("a", "x:1")), ("/m/b.yaml", manifest("b", "x:1"))], true);
        let pods = json!({"items": before.pods.iter().map(|(_, pod)| as_served(pod)).collect::<Vec<_>>()});
        let verdicts = ["a", "b"].map(|name| {
            json!({"source": "file", "origin": format!("/m/{name}.yaml"), "outcome": "accepted", "pod": format!("default/{name}-node1")})
        });
        let origins: Vec<_> = verdicts.iter().collect();
        let image =
            |fields: &[&str]| Change::Restart(fields.iter().map(|field| (*field).to_owned()).collect());
        let (same_a, same_b) = (("/m/a.yaml", manifest("a", "x:1")), ("/m/b.yaml", manifest("b", "x:1")));
        let new_image = image(&["spec.containers[0].image: \"x:1\" -> \"x:2\""]);
        type Files<'a> = &'a [(&'a str, Vec<u8>)];
        type Changes<'a> = &'a [(&'a str, Change)];
        let rows: [(Files<'_>, bool, Changes<'_>); 6] = [
            (
                &[same_a.clone(), same_b.clone()],
                true,
                &[("default/a-node1", Change::None), ("default/b-node1", Change::None)],
            ),
            (&[("/m/a.yaml", manifest("a", "x:2"))], false, &[("default/a-node1", new_image.clone())]),
            (
                &[("/m/a.yaml", manifest("a", "x:2"))],
                true,
                &[("default/a-node1", new_image), ("default/b-node1", Change::End)],
            ),
            (
                &[("/m/a.yaml", manifest("c", "x:1"))],
                false,
                &[("default/a-node1", Change::End), ("default/c-node1", Change::Start)],
            ),
            (&[("/n/a.yaml", manifest("a", "x:1"))], false, &[("default/a-node1", image(&[]))]),
            (
                &[same_a, ("/m/b.yaml", b"kind: Pod".to_vec())],
                true,
                &[("/m/b.yaml", Change::Refused(String::new())), ("default/a-node1", Change::None)],
            ),
        ];
        for (files, is_whole, expect) in rows {
            let mut found = changes(&pods, &origins, &edit(files, is_whole));
            found.iter_mut().for_each(|(_, change)| {
                if let Change::Refused(reason) = change {
                    assert!(!reason.is_empty());
                    reason.clear();
                }
            });
            let expect: Vec<_> =
                expect.iter().map(|(name, change)| ((*name).to_owned(), change.clone())).collect();
            assert_eq!(found, expect);
        }
    }
}
