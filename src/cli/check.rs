//! `rkubelet check`: the verdicts of the agent, without an agent.
//!
//! It decodes with the agent's own functions, so the two cannot disagree. It reads only the files that it is given, and
//! changes nothing.

pub(super) mod input;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use lexopt::{Arg, Parser};

use self::input::{Input, read};
use super::{CommandOutput, UsageError};
use crate::config::this_node_name;
use crate::pod::decode::file::{DecodedFile, decode_file};
use crate::pod::decode::list::{ItemPath, decode_contents};
use crate::pod::{Finding, Origin, Refusal, Source};
use crate::source::claims::{Claimed, Claims};
use crate::source::dir::why_skipped;
use crate::sync::mux::{PodConfig, Snapshot};
use crate::sync::view::{Outcome, Verdict, to_json};

const HELP: &str = "\
rkubelet check prints the agent's verdicts on manifests, and changes nothing.

Usage:
  rkubelet check [flags] FILE|DIRECTORY|-...

A directory stands for its files that end in .yaml, .yml, .json or .manifest; - is stdin.

Flags:
  -o, --output text|json   lines for people, or JSON for programs (default text)
      --strict             exit with code 2 if there are warnings
      --strict-manifests   refuse unknown and doubled fields, as the agent's flag of this name does
      --kubelet-strict-static-pods
                           refuse ConfigMaps, Secrets and pods that refer to them, as the agent's flag of this name does
      --url-contents       check as the contents of a URL: also lists of pods and several documents
      --node-name string   the node's name, which ends the pods' names (default: the hostname)
  -h, --help               this text

Exit codes: 0 all are accepted, 1 a manifest is refused, 2 there are warnings (with --strict), 64 bad usage.
";

const REFUSED: u8 = 1;
const WARNED: u8 = 2;

/// Checks what the arguments name.
pub(super) fn run(arguments: impl Iterator<Item = OsString>) -> Result<CommandOutput, UsageError> {
    let options = match parse(arguments)? {
        ParsedArguments::Help => return Ok(CommandOutput { text: HELP.into(), code: 0 }),
        ParsedArguments::Check(options) => options,
    };
    let node_name = this_node_name(&options.node_name);
    let settings = CheckSettings {
        source: options.source,
        node_name: &node_name,
        strict: options.refuse_unknown,
        kubelet_strict: options.kubelet_strict,
    };
    let mut verdicts = check(read(&options.paths), &settings, Timestamp::now());
    verdicts.extend(skipped(&options.paths, options.source));
    let text = match options.output {
        CheckFormat::Text => render(&verdicts).into_bytes(),
        // Strings and numbers: there is nothing in a verdict that JSON cannot hold.
        CheckFormat::Json => {
            to_json(&verdicts).map(|text| [text, b"\n".to_vec()].concat()).unwrap_or_default()
        }
    };
    Ok(CommandOutput { text, code: exit_code(&verdicts, options.warnings) })
}

#[derive(Debug, PartialEq, Eq)]
enum ParsedArguments {
    Help,
    Check(CheckOptions),
}

#[derive(Debug, PartialEq, Eq)]
struct CheckOptions {
    paths: Vec<PathBuf>,
    /// The source that the manifests are checked for.
    source: Source,
    output: CheckFormat,
    warnings: Warnings,
    refuse_unknown: bool,
    kubelet_strict: bool,
    node_name: String,
}

/// What manifests are checked for.
struct CheckSettings<'a> {
    source: Source,
    node_name: &'a str,
    /// Unknown and doubled fields are refused.
    strict: bool,
    /// ConfigMaps and Secrets, and references to them, are refused.
    kubelet_strict: bool,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self {
            paths: Vec::new(),
            source: Source::File,
            output: CheckFormat::default(),
            warnings: Warnings::default(),
            refuse_unknown: false,
            kubelet_strict: false,
            node_name: String::new(),
        }
    }
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum CheckFormat {
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

fn parse(arguments: impl Iterator<Item = OsString>) -> Result<ParsedArguments, UsageError> {
    let wrong = |error: lexopt::Error| UsageError::Argument { command: "check", reason: error.to_string() };
    let text = |value: OsString| value.to_string_lossy().into_owned();
    let mut options = CheckOptions::default();
    let mut parser = Parser::from_args(arguments);
    while let Some(argument) = parser.next().map_err(wrong)? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(ParsedArguments::Help),
            Arg::Short('o') | Arg::Long("output") => {
                options.output = match text(parser.value().map_err(wrong)?).as_str() {
                    "text" => CheckFormat::Text,
                    "json" => CheckFormat::Json,
                    other => return Err(UsageError::Output { word: other.to_owned() }),
                };
            }
            Arg::Long("strict") => options.warnings = Warnings::Fail,
            Arg::Long("strict-manifests") => options.refuse_unknown = true,
            Arg::Long("kubelet-strict-static-pods") => options.kubelet_strict = true,
            Arg::Long("url-contents") => options.source = Source::Http,
            Arg::Long("node-name") => options.node_name = text(parser.value().map_err(wrong)?),
            Arg::Value(path) => options.paths.push(path.into()),
            other => return Err(wrong(other.unexpected())),
        }
    }
    if options.paths.is_empty() {
        Err(UsageError::NothingToCheck)
    } else {
        Ok(ParsedArguments::Check(options))
    }
}

/// What the agent would not read of the directories that are named.
fn skipped(paths: &[PathBuf], source: Source) -> Vec<Verdict> {
    let directories = paths.iter().filter(|path| path.is_dir());
    let entries = directories.filter_map(|path| fs::read_dir(path).ok()).flatten().flatten();
    let mut verdicts: Vec<_> = entries
        .filter_map(|entry| {
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let reason = why_skipped(&entry.file_name().to_string_lossy(), is_dir)?.to_owned();
            let origin = entry.path().display().to_string();
            Some(Verdict { source, origin, document: 1, item: None, outcome: Outcome::Skipped { reason } })
        })
        .collect();
    verdicts.sort_by(|one, other| one.origin.cmp(&other.origin));
    verdicts.dedup_by(|one, other| one.origin == other.origin);
    verdicts
}

/// What stands in one place of an input, or why it is refused. A file's parts are taken together.
struct CheckedPart {
    origin: String,
    path: ItemPath,
    decoded: Result<DecodedFile, Refusal>,
}

/// The parts of an input, split as its source splits it.
fn parts(bytes: Result<Vec<u8>, String>, origin: &Origin<'_>) -> Vec<CheckedPart> {
    let part = |path, decoded| CheckedPart { origin: origin.path.to_owned(), path, decoded };
    let whole = |decoded| vec![part(ItemPath { document: None, item: None }, decoded)];
    let bytes = match bytes {
        Err(reason) => return whole(Err(Finding::whole(reason).into())),
        Ok(bytes) if origin.source == Source::File => return whole(decode_file(&bytes, origin)),
        Ok(bytes) => bytes,
    };
    let contents = match decode_contents(&bytes, origin) {
        Err(refusal) => return whole(Err(refusal)),
        Ok(contents) => contents,
    };
    let pods = contents.pods.into_iter().map(|item| {
        let pod = item.decoded.map(|decoded| Some((item.path, decoded)));
        part(item.path, pod.map(|pod| DecodedFile { pod, objects: Vec::new() }))
    });
    let objects = contents.objects.into_iter().map(|item| {
        let objects = item.decoded.map(|decoded| vec![(item.path, decoded)]);
        part(item.path, objects.map(|objects| DecodedFile { pod: None, objects }))
    });
    let mut all: Vec<_> = pods.chain(objects).collect();
    all.sort_by_key(|part| part.path);
    all
}

fn check(inputs: Vec<Input>, settings: &CheckSettings<'_>, seen: Timestamp) -> Vec<Verdict> {
    let &CheckSettings { source, node_name, strict, kubelet_strict } = settings;
    let parts = inputs.into_iter().flat_map(|(path, bytes)| {
        let origin = Origin { node_name, source, path: &path, seen, strict, kubelet_strict };
        parts(bytes, &origin)
    });
    let mut claims = Claims::default();
    let (mut pods, mut objects) = (Vec::new(), Vec::new());
    let mut verdicts = Vec::new();
    for CheckedPart { origin, path, decoded } in parts {
        let name = format!("{origin} {path}").trim_end().to_owned();
        let verdict = |at: ItemPath, outcome| {
            let (document, item) = (at.document.unwrap_or(1), at.item);
            Verdict { source, origin: origin.clone(), document, item, outcome }
        };
        let decoded = match decoded {
            Err(refusal) => {
                verdicts.push(verdict(path, Outcome::Refused(refusal)));
                continue;
            }
            Ok(decoded) => decoded,
        };
        let subjects = decoded.subjects();
        let pod = decoded.pod.map(|(_, decoded)| Arc::new(decoded.pod));
        let own: Vec<_> = decoded.objects.into_iter().map(|(_, decoded)| Arc::new(decoded.object)).collect();
        if let Err(finding) = claims.claim_or_refuse(Claimed { pod: pod.as_deref(), objects: &own }, &name) {
            let warnings = subjects.into_iter().flat_map(|(.., warnings)| warnings).collect();
            verdicts.push(verdict(path, Outcome::Refused(Refusal::from(finding).with_warnings(warnings))));
            continue;
        }
        for (at, subject, warnings) in subjects {
            verdicts.push(verdict(at, Outcome::Accepted { subject, warnings }));
        }
        pods.extend(pod);
        objects.extend(own);
    }
    // Cycles of pods that wait for each other are found when all pods are known.
    let mut mux = PodConfig::new([source]);
    mux.apply(Snapshot {
        source,
        pods,
        objects,
        complete: true,
        untrusted_signatures: BTreeMap::new(),
        verdicts,
    });
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
            Outcome::Accepted { subject, .. }
            | Outcome::Unchanged { subject, .. }
            | Outcome::Shadowed { subject, .. } => {
                line(origin, outcome.word(), &Finding::whole(subject.to_string()));
            }
            Outcome::Skipped { reason } => line(origin, outcome.word(), &Finding::whole(reason.as_str())),
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
