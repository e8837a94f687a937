//! One meaning, one name: no two types of the crate are called the same, so that a reader need not ask which is meant.

use std::collections::BTreeMap;

use super::source::File;

/// Types whose name another type has already. Associated types and those inside of functions or tests do not count.
pub(crate) fn faults(files: &[File]) -> Vec<String> {
    let mut first: BTreeMap<&str, String> = BTreeMap::new();
    let mut faults = Vec::new();
    for file in files {
        for (line, number) in file.production.lines().zip(1..) {
            let Some(name) = declared_type(line) else { continue };
            let place = format!("{}:{number}", file.path);
            match first.get(name) {
                None => _ = first.insert(name, place),
                Some(other) => faults.push(format!("{place}: {name} is the name of another type at {other}")),
            }
        }
    }
    faults
}

/// The type that a line declares at the top of a module.
fn declared_type(line: &str) -> Option<&str> {
    let item = match line.strip_prefix("pub") {
        Some(rest) => {
            rest.strip_prefix('(').map_or(Some(rest), |rest| rest.split_once(')').map(|(_, rest)| rest))?
        }
        None => line,
    };
    let (kind, rest) = item.trim_start().split_once(' ')?;
    let is_at_the_top = !line.starts_with(' ');
    let is_type = ["struct", "enum", "union", "trait", "type"].contains(&kind);
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (is_at_the_top && is_type && !name.is_empty()).then_some(name)
}

#[test]
fn good_and_bad() {
    for (first, second, expected) in [
        ("struct A;", "struct B;", 0),
        ("pub(crate) struct A<T>(T);", "pub(in crate::x) enum A {}", 1),
        ("pub trait A {}", "type A = u8;", 1),
        ("struct A;", "struct A;\nunion A {}", 2),
        ("impl X for Y {\n    type A = u8;\n}", "enum A {}", 0),
        ("fn f() {\n    struct A;\n}", "struct A;", 0),
        ("struct A;", "#[cfg(test)]\nmod tests {\n    struct A;\n}\n#[cfg(test)]\nstruct A;", 0),
        ("struct A;", "// struct A;\nlet structure = A;\npublic struct A;", 0),
    ] {
        let found = faults(&[File::new("src/a.rs", first), File::new("src/b.rs", second)]);
        assert_eq!(found.len(), expected, "{first} {second}: {found:?}");
    }
}
