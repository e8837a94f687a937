//! Holds the walls: what the design promises about every file, checked on every run.
//!
//! Each rule is a function of a file, or of all of them, with tables of what it takes and refuses beside it.

#[path = "tidy/layers.rs"]
mod layers;
#[path = "tidy/names.rs"]
mod names;
#[path = "tidy/paths.rs"]
mod paths;
#[path = "tidy/purity.rs"]
mod purity;
#[path = "tidy/rules.rs"]
mod rules;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/unit.rs"]
mod unit;

use std::fs;
use std::path::{Path, PathBuf};

use layers::Layers;
use source::File;

/// A rule: the faults of one file, each as `line: why`, or only `why` for the whole file.
type Rule = fn(file: &File) -> Vec<String>;

const RULES: &[(&str, Rule)] = &[
    ("no mod.rs", rules::no_mod_rs),
    ("module docs", rules::begins_with_docs),
    ("length", rules::is_not_too_long),
    ("trailing whitespace", rules::no_trailing_whitespace),
    ("ignored tests", rules::ignored_with_reason),
    ("serde_yaml", rules::serde_yaml_in_one_file),
    ("tokio", rules::tokio_where_it_must_be),
    ("panics", rules::no_panics),
    ("docs", rules::items_are_documented),
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

/// The Rust files under these directories.
fn load(directories: &[&str]) -> Vec<File> {
    let mut found = Vec::new();
    for directory in directories {
        rust_files(&root().join(directory), &mut found);
    }
    assert!(found.len() > 10, "the walk found only {found:?}");
    found.sort();
    let name = |path: &Path| path.strip_prefix(root()).unwrap_or(path).display().to_string();
    let mut files: Vec<File> = found.iter().map(|path| File::new(&name(path), &read(path))).collect();
    source::leave_out_test_modules(&mut files);
    files
}

/// All faults at once.
fn assert_none(faults: &[String]) {
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn every_file_keeps_every_rule() {
    let mut faults = Vec::new();
    for file in load(&["src", "tests"]) {
        if let Some(warning) = rules::asks_to_be_split(&file) {
            println!("warning: {}: {warning}", file.path);
        }
        for (name, rule) in RULES {
            faults.extend(rule(&file).into_iter().map(|fault| format!("{}:{fault} [{name}]", file.path)));
        }
    }
    assert_none(&faults);
}

/// No circle between rooms, no edge upwards: the order is the table under `# Layers` in `src/lib.rs`.
#[test]
fn rooms_use_only_what_is_below_them() {
    let files = load(&["src"]);
    assert_none(&Layers::parse(&read(&root().join("src/lib.rs"))).faults(&files));
}

#[test]
fn decisions_are_pure() {
    let files = load(&["src"]);
    assert_none(&purity::faults(&Layers::parse(&read(&root().join("src/lib.rs"))), &files));
}

/// One meaning, one name.
#[test]
fn a_type_has_a_name_of_its_own() {
    assert_none(&names::faults(&load(&["src"])));
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
