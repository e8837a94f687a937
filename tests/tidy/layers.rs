//! The rooms of the crate and their order, read from the table in `src/lib.rs`, and who may use whom.
//!
//! The table is a total order, so that an edge which goes down only can never be part of a circle.

use std::collections::BTreeSet;

use super::paths::{module_of, paths};
use super::source::File;

/// Parts of one room that must not use each other.
const FORBIDDEN: &[(&str, &str)] = &[
    ("source::http", "source::dir"),
    ("source::dir", "source::http"),
    ("source::signature", "source::dir"),
    ("source::signature", "source::http"),
    ("source::trust", "source::dir"),
    ("source::trust", "source::http"),
    ("source::key", "source::dir"),
    ("source::key", "source::http"),
    ("source::claims", "source::dir"),
    ("source::claims", "source::http"),
];

/// Edges of [`FORBIDDEN`] that are still there, as file and module; each must go. One that has gone fails the test.
const KNOWN: &[(&str, &str)] = &[];

/// The table of the rooms.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    /// Highest first: a room may use those after it.
    pub(crate) rooms: Vec<String>,
    /// Modules of which all is pure: no async, no I/O, no clock, no logging.
    pub(crate) pure: Vec<String>,
    /// Modules inside of these that are not.
    pub(crate) impure: Vec<String>,
}

impl Layers {
    /// Reads the text block under `# Layers` in the documentation of the crate. A line is `layer: room, room`, and then
    /// perhaps `(pure)` or `(pure, but for room::module and room::module)`.
    pub(crate) fn parse(lib: &str) -> Self {
        let docs = lib.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
        let block = docs.skip_while(|line| *line != "# Layers").skip_while(|line| *line != "```text").skip(1);
        let mut layers = Self::default();
        for line in block.take_while(|line| *line != "```").filter(|line| !line.is_empty()) {
            let (_, rest) = line.split_once(':').unwrap_or_else(|| panic!("not `layer: room, room`: {line}"));
            let (rooms, note) = rest.split_once('(').unwrap_or((rest, ""));
            let rooms: Vec<String> = rooms.split(',').map(|room| room.trim().to_owned()).collect();
            if note.starts_with("pure") {
                layers.pure.extend(rooms.iter().cloned());
                let words = note.split([' ', ',', ')']).filter(|word| word.contains("::"));
                layers.impure.extend(words.map(str::to_owned));
            }
            layers.rooms.extend(rooms);
        }
        layers
    }

    fn height(&self, room: &str) -> Option<usize> {
        self.rooms.iter().rev().position(|other| other == room)
    }

    /// Rooms that the table has and `src/` has not, or the other way round.
    fn strangers(&self, files: &[File]) -> Vec<String> {
        let listed: BTreeSet<&String> = self.rooms.iter().collect();
        let modules: Vec<Vec<String>> = files.iter().map(|file| module_of(&file.path)).collect();
        let there: BTreeSet<&String> = modules.iter().filter_map(|module| module.first()).collect();
        let missing = there.difference(&listed);
        let gone = listed.difference(&there);
        let twice =
            (listed.len() < self.rooms.len()).then(|| "src/lib.rs: # Layers names a room twice".to_owned());
        missing
            .map(|room| format!("src/{room}.rs: not in the table under # Layers in src/lib.rs"))
            .chain(gone.map(|room| format!("src/lib.rs: # Layers names {room}, which is not in src/")))
            .chain(twice)
            .collect()
    }

    /// Everything that is wrong with the order of the rooms.
    pub(crate) fn faults(&self, files: &[File]) -> Vec<String> {
        self.faults_but(files, KNOWN)
    }

    fn faults_but(&self, files: &[File], known: &[(&str, &str)]) -> Vec<String> {
        let mut faults = self.strangers(files);
        let mut met = BTreeSet::new();
        for file in files {
            let own = module_of(&file.path);
            let Some(room) = own.first() else { continue };
            for path in paths(&file.path, &file.production) {
                let [root, target, ..] = &path.segments[..] else { continue };
                if root != "crate" {
                    continue;
                }
                let mut fault = |why| faults.push(format!("{}:{}: {why}", file.path, path.line));
                match (self.height(room), self.height(target)) {
                    (Some(from), Some(to)) if from < to => {
                        fault(format!(
                            "{room} uses {target}, which stands above it under # Layers in src/lib.rs"
                        ));
                    }
                    (_, None) => {
                        fault(format!("crate::{target} is no room: name it by the room that owns it"))
                    }
                    _ => {}
                }
                for (from, to) in FORBIDDEN {
                    let leaves = own.join("::") == *from || own.join("::").starts_with(&format!("{from}::"));
                    if !leaves || !path.is_in(&format!("crate::{to}")) {
                        continue;
                    }
                    match known.iter().find(|(known, module)| *known == file.path && module == to) {
                        Some(edge) => _ = met.insert(edge),
                        None => fault(format!("{from} must not use {to}")),
                    }
                }
            }
        }
        let stale = known.iter().filter(|edge| !met.contains(edge));
        faults
            .extend(stale.map(|(file, to)| {
                format!("{file}: no longer uses {to}: remove it from KNOWN in tests/tidy")
            }));
        faults
    }
}

#[cfg(test)]
fn table() -> Layers {
    Layers::parse(
        "//! A map.\n//!\n//! # Layers\n//!\n//! Highest first.\n//!\n//! ```text\n//! tasks: worker, source\n\
         //! decisions: status, plan (pure, but for status::events and status::metrics)\n//! nouns: pod (pure)\n//! ```\n\
         //!\n//! ```text\n//! not: this\n//! ```\nmod pod;\n",
    )
}

#[test]
fn the_table_is_read() {
    let layers = table();
    assert_eq!(layers.rooms, ["worker", "source", "status", "plan", "pod"]);
    assert_eq!(layers.pure, ["status", "plan", "pod"]);
    assert_eq!(layers.impure, ["status::events", "status::metrics"]);
}

#[test]
fn good_and_bad() {
    let layers = table();
    let rooms =
        ["worker", "source", "status", "plan", "pod"].map(|room| File::new(&format!("src/{room}.rs"), ""));
    for (path, text, expected) in [
        ("src/worker/a.rs", "use crate::{plan::Plan, pod};\nuse super::b;\nstd::fs::read(x)", 0),
        ("src/worker.rs", "use crate::source::X;", 0),
        ("src/source.rs", "use crate::worker::X;", 1),
        ("src/plan/a.rs", "use crate::{\n    pod::Pod,\n    worker::X,\n};", 1),
        ("src/plan/a.rs", "fn f() { super::super::worker::x() }", 1),
        ("src/plan/a.rs", "fn f() { crate::status::x(); crate::worker::y() }", 2),
        ("src/plan/a.rs", "// crate::worker\nlet a = \"crate::worker::b\";", 0),
        ("src/plan/a.rs", "#[cfg(test)]\nmod tests { use crate::worker::X; }", 0),
        ("src/plan/a.rs", "use crate::testing::X;", 1),
        ("src/plan/a.rs", "use crate::*;", 1),
        ("src/lib.rs", "pub use crate::worker::X;", 0),
        ("src/stranger.rs", "", 1),
        ("src/source/http/a.rs", "use crate::source::dir::X;", 1),
        ("src/source/http.rs", "use super::dir::X;", 1),
        ("src/source/dir/a.rs", "use super::super::http;", 1),
        ("src/source/httpd.rs", "use super::dir::X;", 0),
    ] {
        let mut files = rooms.to_vec();
        files.retain(|file| file.path != path);
        files.push(File::new(path, text));
        let found = layers.faults_but(&files, &[]);
        assert_eq!(found.len(), expected, "{path}: {text}: {found:?}");
    }
    assert_eq!(layers.faults_but(&rooms[1..], &[]).len(), 1, "worker is in the table alone");

    let known = [("src/source/http.rs", "source::dir")];
    let mut files = rooms.to_vec();
    assert_eq!(layers.faults_but(&files, &known).len(), 1, "an edge that has gone must leave the list");
    files.push(File::new("src/source/http.rs", "use super::dir::X;"));
    assert_eq!(layers.faults_but(&files, &known), [""; 0]);
}
