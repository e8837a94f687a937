//! The systemd unit, as systemd itself reads it: no complaint, and no more exposure than the documentation says.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use std::fs;
use std::path::Path;
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs systemd-analyze on the unit, with a program that is there; returns all that it printed.
fn analyze(arguments: &[&str]) -> (bool, String) {
    let dir = tempfile::tempdir().expect("create a directory");
    let unit = dir.path().join("rkubelet.service");
    let text = fs::read_to_string(root().join("systemd/rkubelet.service")).expect("read the unit");
    let text = text.replace("/usr/local/bin/rkubelet", env!("CARGO_BIN_EXE_rkubelet"));
    fs::write(&unit, text).expect("write the unit");
    let output = Command::new("systemd-analyze")
        .args(arguments)
        .arg(&unit)
        .env("SYSTEMD_COLORS", "0")
        .env("LC_ALL", "C.UTF-8")
        .output()
        .unwrap_or_else(|error| panic!("systemd-analyze: {error}: run `make deps`, or install systemd"));
    let printed = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&printed).into_owned())
}

#[test]
fn systemd_has_no_complaint() {
    let (success, printed) = analyze(&["verify", "--man=no"]);
    // Other units of the machine may be at fault; each line names its unit.
    let complaints: Vec<_> = printed.lines().filter(|line| line.contains("rkubelet")).collect();
    assert!(success && complaints.is_empty(), "{printed}");
}

#[test]
fn the_exposure_is_what_the_documentation_says() {
    let documentation = fs::read_to_string(root().join("docs/systemd.md")).expect("read docs/systemd.md");
    let documented = documentation.split("exposure of **").nth(1).and_then(|rest| rest.split("**").next());
    let documented: f64 = documented.and_then(|figure| figure.parse().ok()).expect("the figure");
    let (_, printed) = analyze(&["security", "--offline=true", "--no-pager"]);
    let overall = printed.lines().find(|line| line.contains("Overall exposure level")).unwrap_or_default();
    let figure = overall.split_whitespace().find_map(|word| word.parse::<f64>().ok());
    let figure = figure.unwrap_or_else(|| panic!("no figure: {printed}"));
    assert!(figure <= documented, "{figure} is more than the documented {documented}:\n{printed}");
}
