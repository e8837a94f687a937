//! The corpus of configurations: with which of them rkubelet starts, compared with a real kubelet.
//!
//! `verdicts.txt` has what kubelet did with each (`make config-corpus` asks it again), and `differences.txt` where
//! rkubelet does otherwise, with the reason.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "kubelet/cases.rs"]
mod cases;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::process::Command;

use cases::{Case, Place, cases, lines};
use rkubelet::testing::check_command_line;

/// What kubelet did with each case.
fn verdicts() -> BTreeMap<String, bool> {
    let verdict = |line: String| match line.split_once(' ') {
        Some(("starts", name)) => (name.to_owned(), true),
        Some(("refuses", name)) => (name.to_owned(), false),
        _ => panic!("verdicts.txt: {line}"),
    };
    lines("verdicts.txt").into_iter().map(verdict).collect()
}

/// The cases that differ, with the reason.
fn differences() -> BTreeMap<String, String> {
    let pair = |line: String| {
        let (name, reason) = line.split_once(" | ").unwrap_or_else(|| panic!("differences.txt: {line}"));
        (name.to_owned(), reason.to_owned())
    };
    lines("differences.txt").into_iter().map(pair).collect()
}

/// Every case with its command line; the files stay as long as the directory.
fn command_lines(directory: &tempfile::TempDir) -> Vec<(String, Vec<String>)> {
    let command_line = |(number, (name, case)): (usize, (String, Case))| {
        let directory = directory.path().join(number.to_string());
        fs::create_dir(&directory).unwrap();
        let endpoint = "unix:///run/containerd/containerd.sock".to_owned();
        (name, case.arguments(&Place { directory, endpoint }))
    };
    cases().into_iter().enumerate().map(command_line).collect()
}

fn check(arguments: &[String]) -> Result<Vec<String>, String> {
    check_command_line(arguments.iter().map(OsString::from))
}

#[test]
fn rkubelet_starts_where_kubelet_does_but_for_listed_differences() {
    let (verdicts, differences) = (verdicts(), differences());
    let directory = tempfile::tempdir().unwrap();
    let all = command_lines(&directory);
    assert!(all.len() >= 600, "only {} cases", all.len());
    let mut faults = Vec::new();
    for (name, arguments) in &all {
        let Some(starts) = verdicts.get(name) else {
            faults.push(format!("{name}: kubelet was not asked; run make config-corpus"));
            continue;
        };
        let ours = check(arguments);
        match (*starts == ours.is_ok(), differences.contains_key(name)) {
            (false, false) if *starts => faults.push(format!("{name}: kubelet starts, we say {ours:?}")),
            (false, false) => faults.push(format!("{name}: kubelet refuses, we start")),
            (true, true) => faults.push(format!("{name}: is listed as a difference, and is none")),
            _ => {}
        }
    }
    let is_case = |name: &String| all.iter().any(|(known, _)| known == name);
    let gone = differences.keys().chain(verdicts.keys()).filter(|name| !is_case(name));
    faults.extend(gone.map(|name| format!("{name}: is listed, but is no case")));
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn what_is_refused_ends_the_program_with_64_and_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let mut refused = 0;
    for (name, arguments) in command_lines(&directory) {
        let Err(reason) = check(&arguments) else { continue };
        let output = Command::new(env!("CARGO_BIN_EXE_rkubelet")).args(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(64), "{name}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), format!("rkubelet: {reason}\n"), "{name}");
        assert!(!reason.contains('\n'), "{name}: {reason}");
        refused += 1;
    }
    assert!(refused > 100, "only {refused} are refused");
}
