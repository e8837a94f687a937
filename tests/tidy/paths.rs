//! The paths that code names: `a::b::C` in place, and each leaf of a `use` tree, with `self` and `super` resolved.

/// A path in the code of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NamedPath {
    /// The line, from 1, of its last segment.
    pub(crate) line: usize,
    /// Its segments; what is relative to a module begins with `crate`. A glob ends with `*`.
    pub(crate) segments: Vec<String>,
}

impl NamedPath {
    /// Whether it names this module or something in it: `source::http` or `std::fs`.
    pub(crate) fn is_in(&self, module: &str) -> bool {
        let mut own = self.segments.iter().map(String::as_str);
        module.split("::").all(|segment| own.next() == Some(segment))
    }
}

/// The module that a file under `src/` is, as segments: `["source", "http"]` for `src/source/http.rs`.
pub(crate) fn module_of(path: &str) -> Vec<String> {
    let path = path.strip_prefix("src/").unwrap_or(path);
    let path = path.strip_suffix(".rs").unwrap_or(path);
    path.split('/').filter(|part| !["lib", "main"].contains(part)).map(str::to_owned).collect()
}

/// Every path that the code of a file names, given with its comments and literals blanked out.
pub(crate) fn paths(file: &str, code: &str) -> Vec<NamedPath> {
    let tokens = tokens(code);
    let mut reader = Reader { tokens: &tokens, at: 0, module: module_of(file), found: Vec::new() };
    reader.read();
    reader.found
}

/// A word, `::`, or any other character, and its line.
type Token<'a> = (&'a str, usize);

fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    for (line, number) in code.lines().zip(1..) {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = match first {
                c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                ':' if rest.starts_with("::") => 2,
                c => c.len_utf8(),
            };
            found.push((&rest[..length], number));
            rest = rest[length..].trim_start();
        }
    }
    found
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

struct Reader<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
    /// The module that is being read: the file's, or one that is written inside of it.
    module: Vec<String>,
    found: Vec<NamedPath>,
}

impl<'a> Reader<'a> {
    fn word(&self, ahead: usize) -> &'a str {
        self.tokens.get(self.at + ahead).map_or("", |(word, _)| word)
    }

    fn read(&mut self) {
        // How many braces are open, and at how many of them a module was opened.
        let (mut depth, mut modules) = (0_usize, Vec::new());
        while self.at < self.tokens.len() {
            match self.word(0) {
                "use" if self.word(1) != "<" => {
                    self.at += 1;
                    self.read_tree(&[]);
                }
                "mod" if self.word(2) == "{" => {
                    self.module.push(self.word(1).to_owned());
                    modules.push(depth);
                    (self.at, depth) = (self.at + 3, depth + 1);
                }
                "{" => (self.at, depth) = (self.at + 1, depth + 1),
                "}" => {
                    (self.at, depth) = (self.at + 1, depth.saturating_sub(1));
                    if modules.last() == Some(&depth) {
                        modules.pop();
                        self.module.pop();
                    }
                }
                word if word.starts_with(is_word) => {
                    let path = self.read_segments();
                    self.add(path);
                }
                _ => self.at += 1,
            }
        }
    }

    /// `a::b::c`, as far as it goes.
    fn read_segments(&mut self) -> Vec<String> {
        let mut segments = vec![self.word(0).to_owned()];
        self.at += 1;
        while self.word(0) == "::" && self.word(1).starts_with(is_word) {
            segments.push(self.word(1).to_owned());
            self.at += 2;
        }
        segments
    }

    /// What follows `use`, or stands between the braces of a tree: `a::{self, b as c, d::*}`.
    fn read_tree(&mut self, before: &[String]) {
        let mut path = before.to_vec();
        if self.word(0) == "::" {
            self.at += 1;
        }
        if self.word(0).starts_with(is_word) {
            path.extend(self.read_segments());
            self.at += usize::from(self.word(0) == "::");
        }
        match self.word(0) {
            "{" => {
                self.at += 1;
                while !["}", ""].contains(&self.word(0)) {
                    self.read_tree(&path);
                    self.at += usize::from(self.word(0) == ",");
                }
                self.at += 1;
                return;
            }
            "*" => {
                path.push("*".to_owned());
                self.at += 1;
            }
            "as" => self.at += 2,
            // Not a tree at all: never stay in one place.
            _ if path.len() == before.len() => self.at += 1,
            _ => {}
        }
        if path.len() > before.len() {
            self.add(path);
        }
    }

    fn add(&mut self, path: Vec<String>) {
        let line = self.tokens[self.at.min(self.tokens.len()) - 1].1;
        let mut segments = path.as_slice();
        let mut base = None;
        while let [first @ ("self" | "super"), rest @ ..] =
            &segments.iter().map(String::as_str).collect::<Vec<_>>()[..]
        {
            let base = base.get_or_insert_with(|| self.module.clone());
            if *first == "super" {
                base.pop();
            }
            segments = &segments[segments.len() - rest.len()..];
        }
        let mut whole: Vec<String> =
            base.map_or_else(Vec::new, |base| [vec!["crate".to_owned()], base].concat());
        whole.extend_from_slice(segments);
        // `a::{self}` is `a`.
        if whole.len() > 1 && whole.last().is_some_and(|last| last == "self") {
            whole.pop();
        }
        self.found.push(NamedPath { line, segments: whole });
    }
}

#[test]
fn good_and_bad() {
    for (file, code, expected) in [
        ("src/a.rs", "use std::fs;", &["1 std::fs"][..]),
        (
            "src/a.rs",
            "use std::{fs, net::{IpAddr, self}};",
            &["1 std::fs", "1 std::net::IpAddr", "1 std::net"],
        ),
        ("src/a.rs", "use crate::{\n    b::C,\n    d,\n};", &["2 crate::b::C", "3 crate::d"]),
        ("src/a.rs", "pub(crate) use b::{c as d, e::*};\nx::y();", &["1 b::c", "1 b::e::*", "2 x::y"]),
        ("src/a/b.rs", "use super::c::D;\nuse self::e;", &["1 crate::a::c::D", "2 crate::a::b::e"]),
        ("src/a/b.rs", "super::super::c::d()", &["1 crate::c::d"]),
        (
            "src/a/b.rs",
            "mod c { use super::d; fn f() { super::super::g() } } use super::h;",
            &["1 crate::a::b::d", "1 crate::a::g", "1 crate::a::h"],
        ),
        ("src/a.rs", "fn f() -> impl A + use<'a> { ::std::env::var }", &["1 std::env::var"]),
        (
            "src/a.rs",
            "Vec::<crate::b::C>::new(); <D as crate::e::F>::g()",
            &["1 crate::b::C", "1 crate::e::F"],
        ),
        ("src/a.rs", "use {b::c, ::d::e};", &["1 b::c", "1 d::e"]),
        ("src/lib.rs", "self::a::b", &["1 crate::a::b"]),
    ] {
        let found: Vec<String> = paths(file, code)
            .into_iter()
            .filter(|path| path.segments.len() > 1)
            .map(|path| format!("{} {}", path.line, path.segments.join("::")))
            .collect();
        assert_eq!(found, expected, "{code}");
    }
    let path = NamedPath { line: 1, segments: ["std", "net", "IpAddr"].map(str::to_owned).into() };
    assert!(
        path.is_in("std::net")
            && path.is_in("std")
            && !path.is_in("std::net::IpAddr::V4")
            && !path.is_in("net")
    );
}
