//! The rules for Rust files.

use super::source::{code, lines_with, production};

const LONG: usize = 400;
const TOO_LONG: usize = 700;

/// Where decisions are made: no async, no I/O, no clock, no logging.
const PURE_FILES: &[&str] = &[
    "src/backoff.rs",
    "src/duration.rs",
    "src/excerpt.rs",
    "src/events/ring.rs",
    "src/http/encoding.rs",
    "src/http/error.rs",
    "src/http/redirect.rs",
    "src/http/url.rs",
    "src/image.rs",
    "src/metrics/exposition.rs",
    "src/order.rs",
    "src/plan.rs",
    "src/pod.rs",
    "src/pod_config.rs",
    "src/pod_manager.rs",
    "src/probe/check.rs",
    "src/probe/news.rs",
    "src/probe/schedule.rs",
    "src/probe/target.rs",
    "src/record.rs",
    "src/runtime/http_get.rs",
    "src/server/metrics_page.rs",
    "src/server/pods.rs",
    "src/server/router.rs",
    "src/signature.rs",
    "src/source/dir/access.rs",
    "src/source/dir/files.rs",
    "src/source/dir/identity.rs",
    "src/source/http/judge.rs",
    "src/source/http/pace.rs",
    "src/source/http/reading.rs",
    "src/suggest.rs",
    "src/view.rs",
    "src/yaml.rs",
];
const PURE_DIRECTORIES: &[&str] =
    &["src/image/", "src/pod/", "src/plan/", "src/source/dir/files/", "src/view/", "src/yaml/"];
const PURE_NAMES: &[&str] = &["/select.rs", "/diff.rs", "/threshold.rs"];

/// Words that no pure room says.
const IMPURE: &[&str] = &[
    "smol",
    "tokio",
    "tonic",
    "tracing",
    "std::fs",
    "std::net",
    "async fn",
    "async move",
    "Instant::now",
    "SystemTime::now",
    "Timestamp::now",
    "Zoned::now",
];

/// Where tokio must be named: the clients, tonic's and hyper's.
const TOKIO_ROOMS: &[&str] = &["src/cri.rs", "src/cri/", "src/http.rs", "src/http/"];

fn in_src(path: &str) -> bool {
    path.starts_with("src/")
}

fn is_pure(path: &str) -> bool {
    PURE_FILES.contains(&path)
        || PURE_DIRECTORIES.iter().any(|directory| path.starts_with(directory))
        || in_src(path) && PURE_NAMES.iter().any(|name| path.ends_with(name))
        || path.starts_with("src/cri/convert")
}

fn at(lines: Vec<usize>, why: &str) -> Vec<String> {
    lines.into_iter().map(|line| format!("{line}: {why}")).collect()
}

pub(crate) fn no_mod_rs(path: &str, _: &str) -> Vec<String> {
    let found = path.ends_with("/mod.rs");
    found.then(|| " a module is foo.rs and foo/, not foo/mod.rs".to_owned()).into_iter().collect()
}

pub(crate) fn begins_with_docs(path: &str, text: &str) -> Vec<String> {
    let missing = in_src(path) && !text.starts_with("//! ");
    missing.then(|| "1: say what the module owns, in //!".to_owned()).into_iter().collect()
}

pub(crate) fn is_not_too_long(_: &str, text: &str) -> Vec<String> {
    let lines = text.lines().count();
    (lines > TOO_LONG).then(|| format!("{lines}: more than {TOO_LONG} lines")).into_iter().collect()
}

pub(crate) fn asks_to_be_split(_: &str, text: &str) -> Option<String> {
    let lines = text.lines().count();
    (lines > LONG).then(|| format!("{lines} lines ask to be split (more than {LONG})"))
}

pub(crate) fn no_trailing_whitespace(_: &str, text: &str) -> Vec<String> {
    let lines = text.split('\n').zip(1..).filter(|(line, _)| line.ends_with([' ', '\t', '\r']));
    at(lines.map(|(_, number)| number).collect(), "whitespace at the end of the line")
}

pub(crate) fn ignored_with_reason(_: &str, text: &str) -> Vec<String> {
    at(lines_with(&code(text), "#[ignore]"), "an ignored test says why: #[ignore = \"...\"]")
}

pub(crate) fn pure_rooms_are_pure(path: &str, text: &str) -> Vec<String> {
    if !is_pure(path) {
        return Vec::new();
    }
    let code = production(path, text);
    let words =
        IMPURE.iter().flat_map(|word| at(lines_with(&code, word), &format!("a pure room names {word}")));
    // The same, said as std::{fs, net}.
    let nested = code.match_indices("std::{").flat_map(|(start, opening)| {
        let list = code[start + opening.len()..].split(';').next().unwrap_or_default();
        let line = code[..start].lines().count().max(1);
        let found = ["fs", "net"].into_iter().filter(|module| !lines_with(list, module).is_empty());
        found.map(|module| format!("{line}: a pure room names std::{module}")).collect::<Vec<_>>()
    });
    words.chain(nested).collect()
}

pub(crate) fn serde_yaml_in_one_file(path: &str, text: &str) -> Vec<String> {
    if !in_src(path) || path == "src/yaml.rs" {
        return Vec::new();
    }
    at(lines_with(&code(text), "serde_yaml"), "YAML is read through crate::text::yaml alone")
}

pub(crate) fn tokio_where_it_must_be(path: &str, text: &str) -> Vec<String> {
    if !in_src(path) || TOKIO_ROOMS.iter().any(|room| path.starts_with(room)) {
        return Vec::new();
    }
    at(lines_with(&code(text), "tokio"), "the agent runs on smol; tokio belongs to src/cri and src/http")
}

pub(crate) fn no_panics(path: &str, text: &str) -> Vec<String> {
    let code = if in_src(path) { production(path, text) } else { String::new() };
    [".unwrap()", ".expect(", ".unwrap_err()", ".expect_err(", "todo!", "unimplemented!", "dbg!", "panic!"]
        .into_iter()
        .flat_map(|call| at(lines_with(&code, call), &format!("{call} outside tests")))
        .collect()
}

#[test]
fn good_and_bad() {
    type Rule = fn(&str, &str) -> Vec<String>;
    let long = "//! x\n".repeat(TOO_LONG + 1);
    let table: &[(Rule, &str, &str, usize)] = &[
        (no_mod_rs, "src/pod/mod.rs", "", 1),
        (no_mod_rs, "src/pod.rs", "", 0),
        (no_mod_rs, "src/mod_rs.rs", "", 0),
        (begins_with_docs, "src/a.rs", "use x;", 1),
        (begins_with_docs, "src/a.rs", "\n//! Late.", 1),
        (begins_with_docs, "src/a.rs", "//! Docs.", 0),
        (begins_with_docs, "tests/a.rs", "use x;", 0),
        (is_not_too_long, "src/a.rs", &long, 1),
        (is_not_too_long, "src/a.rs", &long[..6 * TOO_LONG], 0),
        (no_trailing_whitespace, "src/a.rs", "a \nb\t\nc\r\nd", 3),
        (no_trailing_whitespace, "src/a.rs", "a\n\nb\n", 0),
        (ignored_with_reason, "tests/a.rs", "#[test]\n#[ignore]\nfn a() {}", 1),
        (ignored_with_reason, "tests/a.rs", "#[ignore = \"needs a kernel of 6.1\"]\n// #[ignore]", 0),
        (serde_yaml_in_one_file, "src/pod/a.rs", "use serde_yaml::Value;", 1),
        (serde_yaml_in_one_file, "src/yaml.rs", "use serde_yaml::Value;", 0),
        (serde_yaml_in_one_file, "src/pod/a.rs", "// not serde_yaml\nlet a = \"serde_yaml\";", 0),
        (tokio_where_it_must_be, "src/server.rs", "tokio::spawn(x)", 1),
        (tokio_where_it_must_be, "src/server.rs", "use tokio as t;", 1),
        (tokio_where_it_must_be, "src/cri/client.rs", "use tokio::time;", 0),
        (tokio_where_it_must_be, "src/http.rs", "use tokio::time;", 0),
        (tokio_where_it_must_be, "src/source/http.rs", "use tokio::time;", 1),
        (tokio_where_it_must_be, "src/crier.rs", "use tokio::time;", 1),
        (no_panics, "src/a.rs", "a.unwrap();\nb.expect(\"x\");\ntodo!();\npanic!()", 4),
        (no_panics, "src/a.rs", "a.unwrap_or(1); a.expected(2); // .unwrap()\nlet b = \".unwrap()\";", 0),
        (no_panics, "src/a.rs", "#[cfg(test)]\nmod tests { fn a() { b.unwrap() } }", 0),
        (no_panics, "src/a.rs", "#[cfg(test)]\nmod tests {}\nfn a() { b.unwrap() }", 1),
        (no_panics, "src/a/tests.rs", "a.unwrap()", 0),
        (no_panics, "tests/a.rs", "a.unwrap()", 0),
    ];
    for (rule, path, text, faults) in table {
        let found = rule(path, text);
        assert_eq!(found.len(), *faults, "{path}: {:.80?}: {found:?}", text);
    }
}

#[test]
fn pure_rooms() {
    for bad in [
        "use smol::Timer;",
        "use tokio::time;",
        "tonic::Status::ok(x)",
        "tracing::info!(\"x\")",
        "use std::fs;",
        "use std::{collections::BTreeMap, fs};",
        "use std::{\n    net::IpAddr,\n};",
        "std::net::TcpStream::connect(x)",
        "async fn a() {}",
        "Instant::now()",
        "std::time::SystemTime::now()",
        "jiff::Timestamp::now()",
    ] {
        for path in [
            "src/pod.rs",
            "src/pod/a/b.rs",
            "src/pod_config.rs",
            "src/pod_manager.rs",
            "src/plan/init.rs",
            "src/backoff.rs",
            "src/duration.rs",
            "src/events/ring.rs",
            "src/image.rs",
            "src/image/name.rs",
            "src/yaml.rs",
            "src/gc/select.rs",
            "src/pleg/diff.rs",
            "src/eviction/threshold.rs",
            "src/cri/convert.rs",
            "src/cri/convert/mounts.rs",
        ] {
            assert_eq!(pure_rooms_are_pure(path, bad).len(), 1, "{path}: {bad}");
        }
        for path in [
            "src/server.rs",
            "src/pod_worker/run.rs",
            "src/runtime/image/turn.rs",
            "src/cri/client.rs",
            "tests/select.rs",
        ] {
            assert_eq!(pure_rooms_are_pure(path, bad), [""; 0], "{path}: {bad}");
        }
    }
    for good in [
        "//! No tokio, no std::fs, no Instant::now.",
        "fn a(now: Timestamp) -> Instant { now }",
        "use std::{collections::BTreeMap, fmt};\nfn fs() {}",
        "use core::net::IpAddr;",
        "let words = \"tokio smol\";",
        "#[cfg(test)]\nmod tests { use std::fs; }",
    ] {
        assert_eq!(pure_rooms_are_pure("src/pod/a.rs", good), [""; 0], "{good}");
    }
}

#[test]
fn lengths() {
    assert_eq!(asks_to_be_split("src/a.rs", &"x\n".repeat(LONG)), None);
    assert!(asks_to_be_split("src/a.rs", &"x\n".repeat(LONG + 1)).is_some());
}
