//! The corpus: manifests of many styles, good and bad, and what becomes of each.
//!
//! `expected.txt` has our verdict on each, `server.json` what a real API server said (`make corpus` asks it again),
//! and `differences.txt` where the two differ, with the reason. Fields that rkubelet does not support yet are not a
//! matter of validity: a manifest that is refused only for them counts as accepted.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "corpus/manifests.rs"]
mod manifests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use manifests::{directory, manifests};
use rkubelet::testing::{Decoded, Finding, Origin, Refusal, Source, decode_manifest};
use serde_json::Value;

const NOT_SUPPORTED: &str = "not supported yet";

fn decode(path: &str, bytes: &[u8], strict: bool) -> Result<Decoded, Refusal> {
    let seen = jiff::Timestamp::UNIX_EPOCH;
    decode_manifest(
        bytes,
        &Origin { node_name: "n", source: Source::File, path, seen, strict, kubelet_strict: false },
    )
}

/// What makes a manifest invalid, as opposed to not supported. Strict, as the server was asked to be.
fn problems(path: &str, bytes: &[u8]) -> Vec<Finding> {
    let refusal = decode(path, bytes, true).err();
    let findings = refusal.iter().flat_map(Refusal::problems);
    findings.filter(|finding| finding.reason != NOT_SUPPORTED).cloned().collect()
}

/// A list of manifests, one per line, each with something after a space.
fn list(name: &str) -> BTreeMap<String, String> {
    let text = fs::read_to_string(directory().join(name)).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let pairs = lines.map(|line| line.split_once(' ').unwrap_or_else(|| panic!("{name}: {line}")));
    pairs.map(|(path, rest)| (path.to_owned(), rest.to_owned())).collect()
}

#[test]
fn every_manifest_has_the_verdict_that_is_expected_of_it() {
    let expected = list("expected.txt");
    let manifests = manifests();
    assert!(manifests.len() >= 200, "only {} manifests", manifests.len());
    let faults: Vec<_> = manifests
        .iter()
        .filter_map(|(path, bytes)| {
            let got = match problems(path, bytes).first() {
                None => "accepted".to_owned(),
                Some(first) => format!("refused {}", first.field).trim_end().to_owned(),
            };
            let want = expected.get(path).map(String::as_str).unwrap_or("nothing");
            (got != want).then(|| format!("{path}: {got}, expected {want}"))
        })
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let gone: Vec<_> = expected.keys().filter(|path| !manifests.contains_key(*path)).collect();
    assert!(gone.is_empty(), "expected, but not there: {gone:?}");
}

#[test]
fn the_server_says_the_same_but_for_listed_differences() {
    let text = fs::read_to_string(directory().join("server.json")).unwrap();
    let server: Value = serde_json::from_str(&text).unwrap();
    let differences = list("differences.txt");
    let mut faults = Vec::new();
    for (path, bytes) in &manifests() {
        let said = &server["verdicts"][path];
        let Some(accepted) = said["accepted"].as_bool() else {
            faults.push(format!("{path}: the server was not asked; run make corpus"));
            continue;
        };
        let ours = problems(path, bytes);
        // Refused for lack of support only: whether it is valid cannot be told from that.
        let open = ours.is_empty() && decode(path, bytes, true).is_err();
        let differs =
            !open && (accepted != ours.is_empty() || !accepted && !same_field(&ours, &said["fields"]));
        match (differs, differences.contains_key(path)) {
            (true, false) => faults.push(format!("{path}: we say {ours:?}, the server says {said}")),
            (false, true) => faults.push(format!("{path}: is listed as a difference, and is none")),
            _ => {}
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let unknown: Vec<_> = differences.keys().filter(|path| server["verdicts"][path].is_null()).collect();
    assert!(unknown.is_empty(), "differences of manifests that are not there: {unknown:?}");
}

/// Whether one of our problems is with a field that the server names, or one above or below it. The server leaves
/// out some indices. It names no fields where it could not decode.
fn same_field(ours: &[Finding], theirs: &Value) -> bool {
    let plain = |field: &str| {
        let parts = field.split('[').map(|part| part.split_once(']').map_or(part, |(_, rest)| rest));
        format!("{}.", parts.collect::<String>())
    };
    let theirs: Vec<_> =
        theirs.as_array().unwrap().iter().map(|field| plain(field.as_str().unwrap())).collect();
    let near = |field: &String| {
        theirs.iter().any(|other| other.starts_with(field.as_str()) || field.starts_with(other.as_str()))
    };
    theirs.is_empty() || ours.iter().any(|finding| near(&plain(&finding.field)))
}

#[test]
fn every_remark_is_one_line_and_has_a_place() {
    for (path, bytes) in &manifests() {
        let findings = match decode(path, bytes, false) {
            Ok(decoded) => decoded.warnings,
            Err(refusal) => refusal.problems().cloned().collect(),
        };
        for finding in findings {
            assert!(!finding.to_string().contains('\n'), "{path}: {finding}");
            // The end of a text that breaks off is on the line after its last.
            let last = bytes.split(|byte| *byte == b'\n').count() + 1;
            match finding.position {
                Some(place) => assert!(place.line <= last && place.column > 0, "{path}: {finding:?}"),
                None => assert!(finding.field.is_empty(), "{path}: {finding:?}"),
            }
        }
    }
}

#[test]
fn unknown_fields_are_answered_with_what_was_meant() {
    let suggestions: BTreeSet<(String, String)> = manifests()
        .iter()
        .filter(|(path, _)| path.starts_with("unknown-fields/"))
        .filter_map(|(path, bytes)| Some((path, decode(path, bytes, false).ok()?)))
        .flat_map(|(path, decoded)| {
            let name = path.trim_start_matches("unknown-fields/").trim_end_matches(".yaml").to_owned();
            decoded.warnings.into_iter().filter_map(move |warning| {
                let meant =
                    warning.reason.strip_prefix("unknown field, did you mean \"")?.strip_suffix("\"?")?;
                Some((name.clone(), meant.to_owned()))
            })
        })
        .collect();
    let want = [
        ("at-the-top", "spec"),
        ("doubled-hostpath-spelling", "hostPath"),
        ("in-a-container", "imagePullPolicy"),
        ("in-a-volume", "emptyDir"),
        ("in-env", "valueFrom"),
        ("in-metadata", "labels"),
        ("in-resources", "limits"),
        ("in-spec", "containers"),
        ("in-spec-by-case", "hostNetwork"),
        ("init-container-singular", "initContainers"),
    ];
    let want = want.into_iter().map(|(name, meant)| (name.to_owned(), meant.to_owned())).collect();
    assert_eq!(suggestions, want);
}
