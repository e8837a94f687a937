//! Rust source as far as the rules must understand it: what is code, and what is code only of tests.

/// A Rust file of the repository.
#[derive(Debug, Clone)]
pub(crate) struct File {
    /// From the root of the repository.
    pub(crate) path: String,
    /// What it holds.
    pub(crate) text: String,
    /// [`production`]; nothing if the file is a test's.
    pub(crate) production: String,
}

impl File {
    /// A file by itself: whether it is a test's is known from its path alone.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned(), production: production(path, text) }
    }
}

/// Blanks the production code of files whose module is declared under `#[cfg(test)]`, whatever their name.
pub(crate) fn leave_out_test_modules(files: &mut [File]) {
    let test_modules: Vec<String> =
        files.iter().flat_map(|file| test_modules(&file.path, &file.text)).collect();
    let is_test = |path: &str| {
        test_modules.iter().any(|module| {
            path.strip_prefix(module.as_str()).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        })
    };
    files.iter_mut().filter(|file| is_test(&file.path)).for_each(|file| file.production.clear());
}

/// The modules in files of their own that a file declares under `#[cfg(test)]`, as paths without `.rs`.
fn test_modules(path: &str, text: &str) -> Vec<String> {
    let code = code(text);
    let directory = path.strip_suffix(".rs").unwrap_or(path);
    let directory = directory.strip_suffix("/lib").or(directory.strip_suffix("/main")).unwrap_or(directory);
    let items = code.match_indices(TEST_ONLY).map(|(start, mark)| {
        let from = start + mark.len();
        &code[from..item_end(&code, from)]
    });
    items
        .filter_map(|item| {
            let name = item.trim().strip_suffix(';')?.split_once("mod ")?.1;
            Some(format!("{directory}/{name}"))
        })
        .collect()
}

const TEST_ONLY: &str = "#[cfg(test)]";

/// The text with comments and the insides of literals blanked out; lines and columns stay.
pub(crate) fn code(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = token_end(&chars, at);
        if end == at {
            out.push(chars[at]);
            at += 1;
        } else {
            out.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    out
}

/// Where the comment or literal that begins at `at` ends; `at` itself if none begins there.
fn token_end(chars: &[char], at: usize) -> usize {
    let rest = &chars[at..];
    match rest {
        ['/', '/', ..] => at + rest.iter().position(|c| *c == '\n').unwrap_or(rest.len()),
        ['/', '*', ..] => {
            let (mut depth, mut n) = (1, 2);
            while depth > 0 && n < rest.len() {
                match rest[n..] {
                    ['/', '*', ..] => (depth, n) = (depth + 1, n + 2),
                    ['*', '/', ..] => (depth, n) = (depth - 1, n + 2),
                    _ => n += 1,
                }
            }
            at + n
        }
        ['r', '"' | '#', ..] if !follows_word(chars, at) => raw_string_end(chars, at),
        ['"', ..] => quoted_end(chars, at, '"'),
        // A character, not a lifetime.
        ['\'', '\\', ..] | ['\'', _, '\'', ..] => quoted_end(chars, at, '\''),
        _ => at,
    }
}

fn follows_word(chars: &[char], at: usize) -> bool {
    // The b of br"" is part of the literal's prefix.
    at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_') && chars[at - 1] != 'b'
}

fn raw_string_end(chars: &[char], at: usize) -> usize {
    let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
    let open = at + 1 + hashes;
    if chars.get(open) != Some(&'"') {
        // A raw identifier.
        return at;
    }
    let close: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    chars[open + 1..]
        .windows(close.len())
        .position(|window| window == close)
        .map_or(chars.len(), |n| open + 1 + n + close.len())
}

fn quoted_end(chars: &[char], at: usize, quote: char) -> usize {
    let mut n = at + 1;
    while n < chars.len() && chars[n] != quote {
        n += if chars[n] == '\\' { 2 } else { 1 };
    }
    (n + 1).min(chars.len())
}

/// [`code`] without the items under `#[cfg(test)]`; lines stay.
pub(crate) fn production(path: &str, text: &str) -> String {
    if path.starts_with("tests/") || path.ends_with("/tests.rs") || path.contains("/tests/") {
        return String::new();
    }
    let mut left = code(text);
    while let Some(start) = left.find(TEST_ONLY) {
        let end = item_end(&left, start + TEST_ONLY.len());
        let blank: String = left[start..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        left.replace_range(start..end, &blank);
    }
    left
}

/// Where the item ends that begins at or after `from`: at its closing brace, or at a semicolon before any.
fn item_end(code: &str, from: usize) -> usize {
    let (mut braces, mut others) = (0_usize, 0_usize);
    for (n, c) in code[from..].char_indices() {
        match c {
            '{' => braces += 1,
            '}' => braces = braces.saturating_sub(1),
            '(' | '[' => others += 1,
            ')' | ']' => others = others.saturating_sub(1),
            _ => {}
        }
        if (c == '}' || c == ';') && braces == 0 && others == 0 {
            return from + n + 1;
        }
    }
    code.len()
}

/// The lines, from 1, that hold `word` with no letter, digit or `_` at either side.
pub(crate) fn lines_with(code: &str, word: &str) -> Vec<usize> {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let holds = |line: &str| {
        line.match_indices(word).any(|(at, _)| {
            let before = line[..at].chars().next_back().is_some_and(part) && word.starts_with(part);
            let after = line[at + word.len()..].chars().next().is_some_and(part) && word.ends_with(part);
            !before && !after
        })
    };
    code.lines().zip(1..).filter(|(line, _)| holds(line)).map(|(_, number)| number).collect()
}

#[test]
fn comments_and_literals_are_not_code() {
    for (text, expected) in [
        ("a // b\nc", "a c"),
        ("a /* b /* c */ d */ e", "a e"),
        ("x(\"a \\\" b\") y", "x( ) y"),
        ("r#\"a \" b\"# c", "c"),
        ("br\"a\" c", "b c"),
        ("'{' 'a '\\'' b", "'a b"),
        ("r#type", "r#type"),
        ("for\"x\"", "for"),
        ("\"open", ""),
    ] {
        let code = code(text);
        assert_eq!(code.split_whitespace().collect::<Vec<_>>().join(" "), expected, "{text:?}");
        assert_eq!(code.len(), text.len(), "columns of {text:?}");
        assert_eq!(code.lines().count(), text.lines().count(), "lines of {text:?}");
    }
}

#[test]
fn tests_are_not_production() {
    for (text, kept, gone) in [
        (
            "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { let c = '}'; } }\nfn d() {}",
            &["a", "d"][..],
            &["b", "c"][..],
        ),
        ("#[cfg(test)]\nfn b(x: [u8; 3]) {}\nfn a() {}", &["a"], &["b"]),
        ("#[cfg(test)]\nmod b;\nmod a;", &["a"], &["b"]),
        ("#[cfg(test)]\nconst b: [u8; 2] = [1, 2];\nmod a;", &["a"], &["b"]),
        ("// #[cfg(test)]\nmod a {}", &["a"], &[]),
    ] {
        let left = production("src/x.rs", text);
        assert_eq!(left.lines().count(), text.lines().count());
        for word in kept {
            assert!(!lines_with(&left, word).is_empty(), "{word} of {text:?} is gone: {left:?}");
        }
        for word in gone {
            assert!(lines_with(&left, word).is_empty(), "{word} of {text:?} is kept: {left:?}");
        }
    }
    assert_eq!(production("src/pod/tests.rs", "fn a() {}"), "");
}

#[test]
fn test_modules_are_found() {
    let mut files = [
        File::new("src/pod.rs", "mod a;\n#[cfg(test)]\npub(crate) mod testing;\n#[cfg(test)]\nuse b::c;\n"),
        File::new("src/pod/a.rs", "fn a() {}"),
        File::new("src/pod/testing.rs", "fn b() {}"),
        File::new("src/pod/testing/more.rs", "fn c() {}"),
        File::new("src/pod/testing_ground.rs", "fn d() {}"),
        File::new("src/testing.rs", "fn e() {}"),
        File::new("src/lib.rs", "#[cfg(test)]\nmod testing;"),
    ];
    leave_out_test_modules(&mut files);
    let left: Vec<&str> =
        files.iter().filter(|file| file.production.contains("fn")).map(|file| &*file.path).collect();
    assert_eq!(left, ["src/pod/a.rs", "src/pod/testing_ground.rs"]);
}

#[test]
fn words() {
    for (text, word, expected) in [
        ("use smol::x;\nsmolder\nosmol\n_smol", "smol", &[1][..]),
        ("a.unwrap()\nb.unwrap_or()", ".unwrap()", &[1]),
        ("SystemTime::now()\nMySystemTime::nowhere", "SystemTime::now", &[1]),
    ] {
        assert_eq!(lines_with(text, word), expected, "{word} in {text:?}");
    }
}
