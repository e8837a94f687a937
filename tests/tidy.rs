//! Holds the walls: what the design promises about every file, checked on every run.
//!
//! Each rule is a function of a path and a text, with tables of what it takes and refuses beside it.

#[path = "tidy/rules.rs"]
mod rules;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/unit.rs"]
mod unit;

use std::fs;
use std::path::{Path, PathBuf};

/// A rule: the faults of one file, each as `line: why`, or only `why` for the whole file.
type Rule = fn(path: &str, text: &str) -> Vec<String>;

const RULES: &[(&str, Rule)] = &[
    ("no mod.rs", rules::no_mod_rs),
    ("module docs", rules::begins_with_docs),
    ("length", rules::is_not_too_long),
    ("trailing whitespace", rules::no_trailing_whitespace),
    ("ignored tests", rules::ignored_with_reason),
    ("pure rooms", rules::pure_rooms_are_pure),
    ("serde_yaml", rules::serde_yaml_in_one_file),
    ("tokio", rules::tokio_where_it_must_be),
    ("panics", rules::no_panics),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file under `directory`, as paths from the root.
fn rust_files(directory: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    for entry in entries {
        let path = entry.unwrap_or_else(|error| panic!("{}: {error}", directory.display())).path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_file_keeps_every_rule() {
    let mut files = Vec::new();
    for directory in ["src", "tests"] {
        rust_files(&root().join(directory), &mut files);
    }
    assert!(files.len() > 10, "the walk found only {files:?}");
    files.sort();
    let mut faults = Vec::new();
    for file in &files {
        let text = read(file);
        let path = file.strip_prefix(root()).unwrap().to_str().unwrap();
        if let Some(warning) = rules::asks_to_be_split(path, &text) {
            println!("warning: {path}: {warning}");
        }
        for (name, rule) in RULES {
            faults.extend(rule(path, &text).into_iter().map(|fault| format!("{path}:{fault} [{name}]")));
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn the_unit_keeps_its_promises() {
    let faults = unit::faults(&read(&root().join("systemd/rkubelet.service")));
    assert!(faults.is_empty(), "systemd/rkubelet.service:\n{}", faults.join("\n"));
}

#[test]
fn the_licence_is_whole() {
    let licence = read(&root().join("LICENSE"));
    assert!(licence.contains("Apache License") && licence.contains("END OF TERMS AND CONDITIONS"));
}
