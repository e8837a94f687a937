//! Files of variables (`fileKeyRef`), in the form that Kubernetes 1.35 and later read. Pure.
//!
//! A line is empty, a comment that begins with `#`, or `NAME='value'`, with space around any of it. What is between the
//! quotes counts as it stands, line ends included, and cannot hold a quote.

/// The value of a key; none if it is not there. Of a key that is there twice the first counts.
///
/// # Errors
/// When the file has another form.
pub(crate) fn env_file_value(text: &str, key: &str) -> Result<Option<String>, String> {
    let mut found = None;
    let mut rest = text;
    let mut line = 1;
    loop {
        let trimmed = rest.trim_start();
        line += rest[..rest.len() - trimmed.len()].matches('\n').count();
        if trimmed.is_empty() {
            return Ok(found);
        }
        if trimmed.starts_with('#') {
            rest = trimmed.split_once('\n').map_or("", |(comment, _)| &trimmed[comment.len()..]);
            continue;
        }
        let fail = |reason: &str| format!("line {line}: {reason}");
        let first = trimmed.lines().next().unwrap_or_default();
        let Some((name, _)) = first.split_once('=') else { return Err(fail("not NAME=\'value\'")) };
        let after = trimmed[name.len() + 1..].trim_start_matches([' ', '\t']);
        let name = name.trim_end();
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_graphic() || c == ' ') {
            return Err(fail("not the name of a variable"));
        }
        let Some(inside) = after.strip_prefix('\'') else {
            return Err(fail("the value must be in single quotes"));
        };
        let Some((value, after)) = inside.split_once('\'') else {
            return Err(fail("the quote is not closed"));
        };
        line += value.matches('\n').count();
        let tail = after.lines().next().unwrap_or_default();
        if !tail.trim().is_empty() && !tail.trim_start().starts_with('#') {
            return Err(format!("line {line}: something follows the value"));
        }
        if found.is_none() && name == key {
            found = Some(value.to_owned());
        }
        rest = &after[tail.len()..];
    }
}

/// A value as it must be written to be left as it is when variables are expanded.
pub(crate) fn unexpanded(value: &str) -> String {
    value.replace('$', "$$")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let file = "# a comment = 'x'\n\nA='one'\n  B = 'two words'  # why\r\nC=''\nD='first\n# no comment\nlast'\nE='$(A) $$ \\n \"'\nA='again'";
        let rows = [
            ("A", Some("one")),
            ("B", Some("two words")),
            ("C", Some("")),
            ("D", Some("first\n# no comment\nlast")),
            ("E", Some("$(A) $$ \\n \"")),
            ("F", None),
            ("a comment", None),
        ];
        for (key, expect) in rows {
            assert_eq!(env_file_value(file, key).unwrap().as_deref(), expect, "{key}");
        }
        assert_eq!(env_file_value("", "A"), Ok(None));
    }

    #[test]
    fn other_forms_are_refused() {
        let rows = [
            ("A=one", "line 1: the value must be in single quotes"),
            ("A=\"one\"", "line 1: the value must be in single quotes"),
            ("\n\nA", "line 3: not NAME='value'"),
            ("='x'", "line 1: not the name of a variable"),
            ("A='x\ny", "line 1: the quote is not closed"),
            ("A='x'y", "line 1: something follows the value"),
            ("A='x\ny' 'z'", "line 2: something follows the value"),
            ("\u{fc}='x'", "line 1: not the name of a variable"),
        ];
        for (file, expect) in rows {
            assert_eq!(env_file_value(file, "A"), Err(expect.to_owned()), "{file:?}");
        }
    }

    #[test]
    fn what_stands_in_a_file_is_not_expanded() {
        let value = "$(A) $$ $";
        assert_eq!(crate::pod::env::expand(&unexpanded(value), |_| Some("x")), value);
    }
}
