//! JSON as YAML for people. Pure.
//!
//! Invariant: whoever reads it as YAML 1.1 or 1.2 gets the same values: a string that could be anything else is quoted as JSON
//! quotes it.

use serde_json::Value;

/// Words that YAML 1.1 takes for something other than a string.
const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

/// The value as a document.
pub(crate) fn write_yaml(value: &Value) -> String {
    let mut text = String::new();
    write(value, 0, &mut text);
    text.trim_start().to_owned()
}

/// Writes what follows a key or a dash, with its line break.
fn write(value: &Value, depth: usize, text: &mut String) {
    let indent = |text: &mut String| text.push_str(&"  ".repeat(depth));
    match value {
        Value::Object(map) if !map.is_empty() => {
            text.push('\n');
            for (key, value) in map {
                indent(text);
                text.push_str(&scalar(key));
                text.push(':');
                write(value, depth + 1, text);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            text.push('\n');
            for value in list {
                indent(text);
                text.push('-');
                let mut item = String::new();
                write(value, depth + 1, &mut item);
                // The first line of a map or list stands beside its dash.
                let first = item.trim_start();
                text.push(' ');
                text.push_str(first);
            }
        }
        Value::String(string) => {
            text.push(' ');
            text.push_str(&scalar(string));
            text.push('\n');
        }
        other => {
            text.push_str(&format!(" {other}\n"));
        }
    }
}

fn scalar(string: &str) -> String {
    let is_plain = string.starts_with(|c: char| c.is_ascii_alphabetic())
        && string.chars().all(|c| c.is_ascii_alphanumeric() || "._/-".contains(c))
        && !WORDS.contains(&string.to_ascii_lowercase().as_str());
    if is_plain { string.to_owned() } else { Value::from(string).to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::text::yaml::parse_documents;

    #[test]
    fn what_is_written_is_read_as_the_same() {
        for value in [
            json!({"kind": "Pod", "metadata": {"name": "a", "labels": {}, "annotations": {"a.b/c": "x: y"}}}),
            json!({"list": [1, "two", [3, [4]], {"a": 1, "b": [{"c": null}]}, [], {}], "float": 1.5, "no": "no", "on": true}),
            json!({"text": "two\nlines\t\"quoted\" # no comment", "octal": "0644", "date": "2026-11-18", "empty": "", "ä": "ö \u{1f600}"}),
            json!([{"name": "a"}, "b"]),
            json!("text"),
        ] {
            let text = write_yaml(&value);
            let read = parse_documents(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert_eq!(read[0].value, value, "{text}");
        }
        assert_eq!(write_yaml(&json!({"items": [{"a": 1, "b": "x"}]})), "items:\n  - a: 1\n    b: x\n");
    }
}
