//! The rules for Rust files.

use super::source::{File, code, lines_with};

const LONG: usize = 400;
const TOO_LONG: usize = 700;

/// Where tokio must be named: the clients, tonic's and hyper's, hyper's server, and the way from one to the other.
const TOKIO_ROOMS: &[&str] = &[
    "src/runtime/cri.rs",
    "src/runtime/cri/",
    "src/http.rs",
    "src/http/",
    "src/server/transport.rs",
    "src/server/transport/",
    "src/server/tunnel.rs",
];

fn in_src(file: &File) -> bool {
    file.path.starts_with("src/")
}

fn at(lines: Vec<usize>, why: &str) -> Vec<String> {
    lines.into_iter().map(|line| format!("{line}: {why}")).collect()
}

pub(crate) fn no_mod_rs(file: &File) -> Vec<String> {
    let found = file.path.ends_with("/mod.rs");
    found.then(|| " a module is foo.rs and foo/, not foo/mod.rs".to_owned()).into_iter().collect()
}

pub(crate) fn begins_with_docs(file: &File) -> Vec<String> {
    let missing = in_src(file) && !file.text.starts_with("//! ");
    missing.then(|| "1: say what the module owns, in //!".to_owned()).into_iter().collect()
}

pub(crate) fn is_not_too_long(file: &File) -> Vec<String> {
    let lines = file.text.lines().count();
    (lines > TOO_LONG).then(|| format!("{lines}: more than {TOO_LONG} lines")).into_iter().collect()
}

pub(crate) fn asks_to_be_split(file: &File) -> Option<String> {
    let lines = file.text.lines().count();
    (lines > LONG).then(|| format!("{lines} lines ask to be split (more than {LONG})"))
}

pub(crate) fn no_trailing_whitespace(file: &File) -> Vec<String> {
    let lines = file.text.split('\n').zip(1..).filter(|(line, _)| line.ends_with([' ', '\t', '\r']));
    at(lines.map(|(_, number)| number).collect(), "whitespace at the end of the line")
}

pub(crate) fn ignored_with_reason(file: &File) -> Vec<String> {
    at(lines_with(&code(&file.text), "#[ignore]"), "an ignored test says why: #[ignore = \"...\"]")
}

pub(crate) fn serde_yaml_in_one_file(file: &File) -> Vec<String> {
    if !in_src(file) || file.path == "src/text/yaml.rs" {
        return Vec::new();
    }
    at(lines_with(&code(&file.text), "serde_yaml"), "YAML is read through crate::text::yaml alone")
}

pub(crate) fn tokio_where_it_must_be(file: &File) -> Vec<String> {
    if !in_src(file) || TOKIO_ROOMS.iter().any(|room| file.path.starts_with(room)) {
        return Vec::new();
    }
    at(
        lines_with(&code(&file.text), "tokio"),
        "the agent runs on smol; tokio belongs to src/runtime/cri, src/http and src/server/transport",
    )
}

pub(crate) fn no_panics(file: &File) -> Vec<String> {
    [".unwrap()", ".expect(", ".unwrap_err()", ".expect_err(", "todo!", "unimplemented!", "dbg!", "panic!"]
        .into_iter()
        .flat_map(|call| at(lines_with(&file.production, call), &format!("{call} outside tests")))
        .collect()
}

/// What must be documented, after `pub` and the words between them.
const ITEMS: &[&str] = &["fn", "struct", "enum", "union", "trait", "const", "static", "type", "mod"];

/// Every item that another module can name says what it is. A module in a file of its own does so in there.
pub(crate) fn items_are_documented(file: &File) -> Vec<String> {
    let lines: Vec<&str> = file.text.lines().collect();
    let undocumented = file.production.lines().enumerate().filter_map(|(at, line)| {
        let item = public_item(line)?;
        let is_elsewhere = item == "mod" && line.trim_end().ends_with(';');
        (!is_elsewhere && !has_docs(&lines[..at])).then(|| format!("{}: a public {item} without ///", at + 1))
    });
    if in_src(file) { undocumented.collect() } else { Vec::new() }
}

/// Which kind of item, if any, this line makes public, be it only to the crate or to the module above.
fn public_item(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let rest = if rest.starts_with('(') { rest.split_once(')')?.1 } else { rest };
    let mut words = rest.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    if !rest.starts_with(' ') {
        return None;
    }
    let first = words.find(|word| !["async", "unsafe", "extern"].contains(word))?;
    // `const fn` is a function; a field's name may be a word of the list only as `r#type`.
    let first = if first == "const" { words.find(|word| *word == "fn").unwrap_or(first) } else { first };
    ITEMS.iter().find(|item| **item == first).copied()
}

/// Whether documentation ends these lines, but for attributes.
fn has_docs(before: &[&str]) -> bool {
    let mut in_attribute = false;
    for line in before.iter().rev().map(|line| line.trim()) {
        // A macro passes on the documentation that it is given.
        if line.starts_with("///")
            || line.starts_with("$(#[")
            || line.starts_with("#[doc")
            || line.ends_with("*/")
        {
            return true;
        }
        in_attribute = !line.starts_with("#[") && (in_attribute || line.ends_with(']'));
        if !in_attribute && !line.starts_with("#[") {
            return false;
        }
    }
    false
}

#[test]
fn good_and_bad() {
    type Rule = fn(&File) -> Vec<String>;
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
        (serde_yaml_in_one_file, "src/text/yaml.rs", "use serde_yaml::Value;", 0),
        (serde_yaml_in_one_file, "src/pod/a.rs", "// not serde_yaml\nlet a = \"serde_yaml\";", 0),
        (tokio_where_it_must_be, "src/server.rs", "tokio::spawn(x)", 1),
        (tokio_where_it_must_be, "src/server.rs", "use tokio as t;", 1),
        (tokio_where_it_must_be, "src/runtime/cri/client.rs", "use tokio::time;", 0),
        (tokio_where_it_must_be, "src/http.rs", "use tokio::time;", 0),
        (tokio_where_it_must_be, "src/server/transport/slots.rs", "use tokio::time;", 0),
        (tokio_where_it_must_be, "src/server/handlers.rs", "use tokio::time;", 1),
        (tokio_where_it_must_be, "src/source/http.rs", "use tokio::time;", 1),
        (tokio_where_it_must_be, "src/runtime/crier.rs", "use tokio::time;", 1),
        (no_panics, "src/a.rs", "a.unwrap();\nb.expect(\"x\");\ntodo!();\npanic!()", 4),
        (no_panics, "src/a.rs", "a.unwrap_or(1); a.expected(2); // .unwrap()\nlet b = \".unwrap()\";", 0),
        (no_panics, "src/a.rs", "#[cfg(test)]\nmod tests { fn a() { b.unwrap() } }", 0),
        (no_panics, "src/a.rs", "#[cfg(test)]\nmod tests {}\nfn a() { b.unwrap() }", 1),
        (no_panics, "src/a/tests.rs", "a.unwrap()", 0),
        (no_panics, "tests/a.rs", "a.unwrap()", 0),
        (
            items_are_documented,
            "src/a.rs",
            "pub(crate) fn a() {}\n\npub(super) struct B;\npub const C: u8 = 1;",
            3,
        ),
        (items_are_documented, "src/a.rs", "// a\npub(in crate::b) enum A {}\npub async fn b() {}", 2),
        (items_are_documented, "src/a.rs", "#[derive(\n    Debug,\n)]\npub(crate) struct A;", 1),
        (items_are_documented, "src/a.rs", "fn a() -> [u8] {\n    b[0]\n}\npub(crate) const fn c() {}", 1),
        (items_are_documented, "src/a.rs", "/// A.\npub(crate) fn a() {}\nfn b() {}\nstruct C;", 0),
        (
            items_are_documented,
            "src/a.rs",
            "/// A.\n#[derive(\n    Debug,\n)]\n#[serde]\npub(crate) struct A;",
            0,
        ),
        (
            items_are_documented,
            "src/a.rs",
            "struct A {\n    pub(crate) b: u8,\n    pub(crate) r#type: u8,\n}",
            0,
        ),
        (items_are_documented, "src/a.rs", "$(#[$doc])*\n#[derive(Debug)]\npub(crate) struct $name;", 0),
        (items_are_documented, "src/a.rs", "pub(crate) mod a;\npub(crate) use b::C;\npublic fn d() {}", 0),
        (items_are_documented, "src/a.rs", "pub(crate) mod a {}", 1),
        (items_are_documented, "src/a.rs", "#[cfg(test)]\npub(crate) fn a() {}", 0),
        (items_are_documented, "tests/a.rs", "pub(crate) fn a() {}", 0),
    ];
    for (rule, path, text, faults) in table {
        let found = rule(&File::new(path, text));
        assert_eq!(found.len(), *faults, "{path}: {:.80?}: {found:?}", text);
    }
}

#[test]
fn lengths() {
    assert_eq!(asks_to_be_split(&File::new("src/a.rs", &"x\n".repeat(LONG))), None);
    assert!(asks_to_be_split(&File::new("src/a.rs", &"x\n".repeat(LONG + 1))).is_some());
}
