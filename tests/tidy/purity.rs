//! The walls around decisions: pure code knows no async, no I/O, no clock, no chance and no log.

use std::collections::BTreeSet;

use super::layers::Layers;
use super::paths::{NamedPath, module_of, paths};
use super::source::{File, lines_with};

/// Pure modules of rooms that are not pure as a whole, with everything inside of them.
const PURE_MODULES: &[&str] = &[
    "http::encoding",
    "http::error",
    "http::redirect",
    "runtime::cri::convert",
    "runtime::handlers::http_get",
    "server::metrics_page",
    "server::pods",
    "server::router",
    "source::claims",
    "source::dir::files",
    "source::dir::identity",
    "source::dir::timing",
    "source::http::judge",
    "source::http::pace",
    "source::http::reading",
    "source::signature",
    "source::trust::role",
    "status::events::ring",
    "status::metrics::exposition",
    "worker::probe_event",
];

/// What pure code says all the same, as file, path and reason. One that is not needed any more fails the test.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("src/http/encoding.rs", "std::io", "gzip is read from memory"),
    ("src/http/error.rs", "std::io", "an error keeps its source"),
    ("src/http/error.rs", "hyper", "an error keeps its source"),
    (
        "src/sync/message.rs",
        "async_channel",
        "an event carries the channel for its answer; the loop never waits on it",
    ),
];

/// Modules and crates that do things, rather than say what is.
const IMPURE: &[&str] = &[
    "std::env",
    "std::fs",
    "std::io",
    "std::net",
    "std::os",
    "std::process",
    "std::thread",
    "core::net",
    "async_channel",
    "async_signal",
    "blocking",
    "fastrand",
    "futures_lite",
    "hyper",
    "hyper_util",
    "notify",
    "rustix",
    "smol",
    "tokio",
    "tokio_rustls",
    "tonic",
    "tracing",
];

/// Plain types inside of [`IMPURE`].
const PLAIN: &[&str] = &[
    "std::net::AddrParseError",
    "std::net::IpAddr",
    "std::net::Ipv4Addr",
    "std::net::Ipv6Addr",
    "std::net::SocketAddr",
    "core::net::AddrParseError",
    "core::net::IpAddr",
    "core::net::Ipv4Addr",
    "core::net::Ipv6Addr",
    "core::net::SocketAddr",
    "hyper::StatusCode",
    "hyper::header",
    "hyper::http",
];

/// Calls that read a clock, by the ends of their paths.
const CLOCKS: &[[&str; 2]] =
    &[["Instant", "now"], ["SystemTime", "now"], ["Timestamp", "now"], ["Zoned", "now"]];

/// Words that no pure code says.
const WORDS: &[&str] = &[
    "async",
    ".await",
    ".elapsed()",
    ".exists(",
    ".canonicalize(",
    "print!",
    "println!",
    "eprint!",
    "eprintln!",
];

/// What of a path no pure code may name.
fn impurity(path: &NamedPath) -> Option<String> {
    if PLAIN.iter().any(|plain| path.is_in(plain)) {
        return None;
    }
    let [.., owner, name] = &path.segments[..] else {
        // `use std as other` hides what follows.
        return (path.segments == ["std"] || path.segments == ["core"]).then(|| path.segments.concat());
    };
    if CLOCKS.contains(&[owner, name]) {
        return Some(format!("{owner}::{name}"));
    }
    IMPURE.iter().find(|module| path.is_in(module)).map(|module| (*module).to_owned())
}

/// Where a file is not pure, as lines and words.
fn impurities(file: &File) -> BTreeSet<(usize, String)> {
    let named = paths(&file.path, &file.production);
    let paths = named.iter().filter_map(|path| Some((path.line, impurity(path)?)));
    let words = WORDS.iter().flat_map(|word| {
        let lines = lines_with(&file.production, word);
        lines.into_iter().map(|line| (line, (*word).to_owned()))
    });
    paths.chain(words).collect()
}

/// Whether a module is one of these, or inside of one.
fn is_within(module: &str, modules: &[impl AsRef<str>]) -> bool {
    modules
        .iter()
        .map(AsRef::as_ref)
        .any(|other| module.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with("::")))
}

/// Everything that is wrong with the walls.
pub(crate) fn faults(layers: &Layers, files: &[File]) -> Vec<String> {
    faults_of(layers, PURE_MODULES, EXCEPTIONS, files)
}

fn faults_of(
    layers: &Layers,
    pure_modules: &[&str],
    exceptions: &[(&str, &str, &str)],
    files: &[File],
) -> Vec<String> {
    let mut faults = Vec::new();
    let (mut needed, mut needed_modules) = (BTreeSet::new(), BTreeSet::new());
    for file in files.iter().filter(|file| file.path.starts_with("src/")) {
        let module = module_of(&file.path).join("::");
        let found = impurities(file);
        let is_excepted = is_within(&module, &layers.impure);
        if is_within(&module, pure_modules) || is_within(&module, &layers.pure) && !is_excepted {
            for (line, word) in found {
                match exceptions.iter().find(|(path, what, _)| *path == file.path && *what == word) {
                    Some(exception) => _ = needed.insert(exception),
                    None => faults.push(format!("{}:{line}: pure code names {word}", file.path)),
                }
            }
        } else if is_excepted && !found.is_empty() {
            let excepted = layers.impure.iter().filter(|other| is_within(&module, &[other]));
            needed_modules.extend(excepted.cloned());
        }
    }
    let modules: Vec<String> = files.iter().map(|file| module_of(&file.path).join("::")).collect();
    let gone = pure_modules.iter().filter(|pure| !modules.iter().any(|module| module == *pure));
    let covered =
        pure_modules.iter().filter(|pure| is_within(pure, &layers.pure) && !is_within(pure, &layers.impure));
    let stale = exceptions.iter().filter(|exception| !needed.contains(exception));
    let clean = layers.impure.iter().filter(|module| !needed_modules.contains(*module));
    faults.extend(gone.map(|pure| format!("tests/tidy: PURE_MODULES names {pure}, which is gone")));
    faults.extend(
        covered.map(|pure| format!("tests/tidy: {pure} is in a pure room: PURE_MODULES need not name it")),
    );
    faults.extend(
        stale.map(|(path, word, _)| format!("tests/tidy: {path} need not be excepted for {word} any more")),
    );
    faults.extend(clean.map(|module| format!("src/lib.rs: # Layers calls {module} impure, which it is not")));
    faults
}

#[cfg(test)]
fn table() -> Layers {
    let pure = ["pod", "status"].map(str::to_owned).into();
    Layers { pure, impure: vec!["status::events".to_owned()], ..Layers::default() }
}

#[cfg(test)]
fn found(path: &str, text: &str) -> Vec<String> {
    let clock = File::new("src/status/events.rs", "Instant::now()");
    let pure = ["src/status/events/ring.rs", "src/gc/select.rs"].map(|path| File::new(path, ""));
    let mut files: Vec<File> = pure.into_iter().chain([clock]).filter(|file| file.path != path).collect();
    files.push(File::new(path, text));
    faults_of(&table(), &["status::events::ring", "gc::select"], &[], &files)
}

#[test]
fn pure_code_is_pure() {
    for bad in [
        "use smol::Timer;",
        "use tokio::time;",
        "tonic::Status::ok(x)",
        "tracing::info!(\"x\")",
        "use tracing::info;",
        "use rustix::fs;",
        "use async_channel::Sender;",
        "use std::fs;",
        "use std::{collections::BTreeMap, fs};",
        "use std::{\n    net::TcpStream,\n};",
        "use std::{\n    net::{IpAddr, UdpSocket},\n};",
        "use std::net;",
        "use std::net::*;",
        "use core::net;",
        "use std::io::Read;",
        "std::process::Command::new(x)",
        "std::thread::current()",
        "::std::env::var(x)",
        "use std as s;",
        "std::net::TcpStream::connect(x)",
        "async fn a() {}",
        "let a = async { 1 };",
        "Instant::now()",
        "let clock = Instant::now;",
        "std::time::SystemTime::now()",
        "jiff::Timestamp::now()",
        "started.elapsed()",
        "println!(\"x\")",
        "fastrand::f64()",
    ] {
        for path in
            ["src/pod.rs", "src/pod/a/b.rs", "src/status.rs", "src/status/events/ring.rs", "src/gc/select.rs"]
        {
            assert_eq!(found(path, bad).len(), 1, "{path}: {bad}: {:?}", found(path, bad));
        }
        for path in ["src/server.rs", "src/status/events.rs", "src/podman.rs", "src/gc.rs", "tests/pod.rs"] {
            let found = found(path, &format!("{bad} Instant::now()"));
            assert_eq!(found, [""; 0], "{path}: {bad}");
        }
    }
    for good in [
        "//! No tokio, no std::fs, no Instant::now.",
        "fn a(now: Timestamp) -> Instant { now }\nwait.elapsed(now);",
        "use std::{collections::BTreeMap, fmt};\nfn fs() {}",
        "use core::net::IpAddr;",
        "use std::net::{Ipv4Addr, SocketAddr};\nlet a = std::net::Ipv4Addr::LOCALHOST;",
        "use hyper::http::Uri;",
        "let words = \"tokio smol\";",
        "#[cfg(test)]\nmod tests { use std::fs; }",
    ] {
        assert_eq!(found("src/pod/a.rs", good), [""; 0], "{good}");
    }
}

#[test]
fn exceptions_are_needed() {
    let layers = Layers { pure: vec!["pod".to_owned()], ..Layers::default() };
    let exceptions = [("src/pod/a.rs", "std::fs", "a reason")];
    let faults = |pure, text| faults_of(&layers, pure, &exceptions, &[File::new("src/pod/a.rs", text)]);
    assert_eq!(faults(&[], "use std::fs;"), [""; 0]);
    assert_eq!(faults(&[], "").len(), 1, "the exception is not needed");
    assert_eq!(faults(&[], "use std::fs;\nuse std::env;").len(), 1, "another word is not excepted");
    assert_eq!(faults(&["gone"], "use std::fs;").len(), 1, "a pure module that is gone");
    assert_eq!(faults(&["pod::a"], "use std::fs;").len(), 1, "a pure module of a pure room");
    let clean = File::new("src/status/events.rs", "");
    assert_eq!(faults_of(&table(), &[], &[], &[clean]).len(), 1, "nothing impure is in status::events");
}
