//! `rkubelet check`: the verdicts that the agent would come to, without an agent.
//!
//! It decodes with the agent's own functions, so the two cannot disagree. It reads the files that it is given and
//! nothing else, and changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use lexopt::{Arg, Parser};

use super::{Answer, UsageError};
use crate::config::this_node_name;
use crate::pod::decode::list::{ItemPath, decode_list};
use crate::pod::decode::{Decoded, MAX_MANIFEST};
use crate::pod::{Finding, Origin, Refusal, Source, decode_manifest};
use crate::source::dir::{is_manifest_name, read_regular};
use crate::sync::mux::{PodConfig, Snapshot};
use crate::sync::view::{Outcome, Verdict, to_json};

const HELP: &str = "\
rkubelet check says what the agent would make of manifests, and changes nothing.

Usage:
  rkubelet check [flags] FILE|DIRECTORY|-...

A directory stands for its files that end in .yaml, .yml or .json; - is stdin.

Flags:
  -o, --output text|json   lines for people, or JSON for programs (default text)
      --strict             warnings too are reason for complaint: exit code 2
      --strict-manifests   refuse unknown and doubled fields, as the agent's flag of this name does
      --url-contents       judge as the contents of a URL: also lists of pods and several documents
      --node-name string   the node's name, which ends the pods' names (default: the hostname)
  -h, --help               this text

Exit codes: 0 all is well, 1 a manifest is refused, 2 there are warnings (with --strict), 64 bad usage.
";

const REFUSED: u8 = 1;
const WARNED: u8 = 2;

/// Judges what the arguments name.
pub(super) fn run(arguments: impl Iterator<Item = OsString>) -> Result<Answer, UsageError> {
    let options = match parse(arguments)? {
        Asked::Help => return Ok(Answer { text: HELP.into(), code: 0 }),
        Asked::Check(options) => options,
    };
    let node_name = this_node_name(&options.node_name);
    let (inputs, source) = (read(&options.paths), options.source);
    let verdicts = judge(inputs, source, &node_name, options.refuse_unknown, Timestamp::now());
    let text = match options.output {
        Output::Text => render(&verdicts).into_bytes(),
        // Strings and numbers: there is nothing in a verdict that JSON cannot hold.
        Output::Json => to_json(&verdicts).map(|text| [text, b"\n".to_vec()].concat()).unwrap_or_default(),
    };
    Ok(Answer { text, code: exit_code(&verdicts, options.warnings) })
}

#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Help,
    Check(Options),
}

#[derive(Debug, PartialEq, Eq)]
struct Options {
    paths: Vec<PathBuf>,
    /// Where the agent would find what is judged.
    source: Source,
    output: Output,
    warnings: Warnings,
    refuse_unknown: bool,
    node_name: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            paths: Vec::new(),
            source: Source::File,
            output: Output::default(),
            warnings: Warnings::default(),
            refuse_unknown: false,
            node_name: String::new(),
        }
    }
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Output {
    #[default]
    Text,
    Json,
}

/// What warnings do to the exit code.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Warnings {
    #[default]
    Pass,
    Fail,
}

fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Asked, UsageError> {
    let wrong = |error: lexopt::Error| UsageError::Argument { command: "check", reason: error.to_string() };
    let text = |value: OsString| value.to_string_lossy().into_owned();
    let mut options = Options::default();
    let mut parser = Parser::from_args(arguments);
    while let Some(argument) = parser.next().map_err(wrong)? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Asked::Help),
            Arg::Short('o') | Arg::Long("output") => {
                options.output = match text(parser.value().map_err(wrong)?).as_str() {
                    "text" => Output::Text,
                    "json" => Output::Json,
                    other => return Err(UsageError::Output { word: other.to_owned() }),
                };
            }
            Arg::Long("strict") => options.warnings = Warnings::Fail,
            Arg::Long("strict-manifests") => options.refuse_unknown = true,
            Arg::Long("url-contents") => options.source = Source::Http,
            Arg::Long("node-name") => options.node_name = text(parser.value().map_err(wrong)?),
            Arg::Value(path) => options.paths.push(path.into()),
            other => return Err(wrong(other.unexpected())),
        }
    }
    if options.paths.is_empty() { Err(UsageError::NothingToCheck) } else { Ok(Asked::Check(options)) }
}

/// Something to be judged: its name, and its bytes or why it has none.
type Input = (String, Result<Vec<u8>, String>);

fn read(paths: &[PathBuf]) -> Vec<Input> {
    let mut seen = BTreeSet::new();
    let mut inputs = Vec::new();
    for path in paths {
        if path == Path::new("-") {
            inputs.push(("-".to_owned(), read_whole(io::stdin())));
            continue;
        }
        let listed = match list(path) {
            Ok(listed) => listed,
            Err(error) => {
                inputs.push((path.display().to_string(), Err(cannot_be_read(&error))));
                continue;
            }
        };
        let (files, read): (_, fn(&Path) -> _) = match listed {
            Listed::Itself => (vec![path.clone()], read_named),
            Listed::Directory(files) => (files, read_found),
        };
        for file in files {
            if seen.insert(entry_of(&file)) {
                inputs.push((file.display().to_string(), read(&file)));
            }
        }
    }
    inputs
}

/// What a path stands for.
enum Listed {
    Itself,
    Directory(Vec<PathBuf>),
}

fn list(path: &Path) -> io::Result<Listed> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(Listed::Itself);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if is_manifest_name(&entry.file_name().to_string_lossy()) {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(Listed::Directory(files))
}

/// Whoever names a pipe means it.
fn read_named(file: &Path) -> Result<Vec<u8>, String> {
    File::open(file).map_err(|error| cannot_be_read(&error)).and_then(read_whole)
}

/// As the agent reads it: a FIFO in the directory must not hang.
fn read_found(file: &Path) -> Result<Vec<u8>, String> {
    read_regular(file, MAX_MANIFEST).map(|(bytes, _)| bytes).map_err(|error| cannot_be_read(&error))
}

/// The directory's entry that a path means: a file that is named twice, or named beside its directory, is one file.
/// A link to it is another, as it is for the agent.
fn entry_of(file: &Path) -> PathBuf {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (fs::canonicalize(parent), file.file_name()) {
        (Ok(parent), Some(name)) => parent.join(name),
        _ => file.to_owned(),
    }
}

fn read_whole(from: impl Read) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    // One byte more than is allowed tells that it is too much.
    from.take(MAX_MANIFEST as u64 + 1).read_to_end(&mut bytes).map_err(|error| cannot_be_read(&error))?;
    Ok(bytes)
}

fn cannot_be_read(error: &io::Error) -> String {
    format!("cannot be read: {error}")
}

/// What one item of an input comes to: the pod, or why it is none.
struct Part {
    origin: String,
    path: ItemPath,
    decoded: Result<Decoded, Refusal>,
}

/// Takes an input apart as its source does.
fn parts(bytes: Result<Vec<u8>, String>, origin: &Origin<'_>) -> Vec<Part> {
    let part = |path, decoded| Part { origin: origin.path.to_owned(), path, decoded };
    let whole = |decoded| vec![part(ItemPath { document: None, item: None }, decoded)];
    match bytes {
        Err(reason) => whole(Err(Finding::whole(reason).into())),
        Ok(bytes) if origin.source == Source::File => whole(decode_manifest(&bytes, origin)),
        Ok(bytes) => match decode_list(&bytes, origin) {
            Err(refusal) => whole(Err(refusal)),
            Ok(items) => items.into_iter().map(|item| part(item.path, item.decoded)).collect(),
        },
    }
}

fn judge(inputs: Vec<Input>, source: Source, node_name: &str, strict: bool, seen: Timestamp) -> Vec<Verdict> {
    let parts = inputs.into_iter().flat_map(|(path, bytes)| {
        let origin = Origin { node_name, source, path: &path, seen, strict };
        parts(bytes, &origin)
    });
    let mut names = BTreeMap::new();
    let mut uids = BTreeMap::new();
    let mut pods = Vec::new();
    let mut verdicts = Vec::new();
    for Part { origin, path, decoded } in parts {
        let name = format!("{origin} {path}").trim_end().to_owned();
        let outcome = match decoded {
            Err(refusal) => Outcome::Refused(refusal),
            Ok(decoded) => {
                let (pod, uid) = (decoded.pod.name.clone(), decoded.pod.uid.clone());
                let clash = |field, what: String, first: &String| {
                    let reason = format!("{what} is already defined by {first}");
                    let refusal = Refusal::from(Finding::new(field, reason));
                    Outcome::Refused(refusal.with_warnings(decoded.warnings.clone()))
                };
                match (names.get(&pod), uids.get(&uid)) {
                    (Some(first), _) => clash("metadata.name", format!("pod {pod}"), first),
                    (None, Some(first)) => clash("metadata.uid", format!("UID {uid}"), first),
                    (None, None) => {
                        names.insert(pod.clone(), name.clone());
                        uids.insert(uid, name);
                        pods.push(Arc::new(decoded.pod));
                        Outcome::Accepted { pod, warnings: decoded.warnings }
                    }
                }
            }
        };
        let (document, item) = (path.document.unwrap_or(1), path.item);
        verdicts.push(Verdict { source, origin, document, item, outcome });
    }
    // Pods that wait for each other in a circle show only when all are there.
    let mut mux = PodConfig::new([source]);
    mux.apply(Snapshot { source, pods, complete: true, verdicts });
    mux.verdicts()
}

/// A line for each verdict, each problem and each warning, as compilers write them.
fn render(verdicts: &[Verdict]) -> String {
    let mut text = String::new();
    let mut line = |origin: &str, what: &str, finding: &Finding| {
        let place = finding.position.map(|at| format!(":{}:{}", at.line, at.column)).unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{origin}{place}: {what}: {finding}");
    };
    for Verdict { origin, outcome, .. } in verdicts {
        match outcome {
            Outcome::Refused(refusal) => {
                refusal.problems().for_each(|finding| line(origin, outcome.word(), finding));
            }
            Outcome::Accepted { pod, .. }
            | Outcome::Unchanged { pod, .. }
            | Outcome::Shadowed { pod, .. } => {
                line(origin, outcome.word(), &Finding::whole(pod.to_string()));
            }
        }
        outcome.warnings().iter().for_each(|finding| line(origin, "warning", finding));
    }
    text
}

fn exit_code(verdicts: &[Verdict], warnings: Warnings) -> u8 {
    let refused = verdicts.iter().any(|verdict| matches!(verdict.outcome, Outcome::Refused(_)));
    let warned = verdicts.iter().any(|verdict| !verdict.outcome.warnings().is_empty());
    match (refused, warned, warnings) {
        (true, ..) => REFUSED,
        (false, true, Warnings::Fail) => WARNED,
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
