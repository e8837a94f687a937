//! Texts in JSON.

use serde_json::{Value, json};

use super::one;
use crate::text::yaml::{Position, find_positions, parse_documents};

#[test]
fn json_is_read_as_json() {
    let table: [(&str, &str, Value); 10] = [
        ("a surrogate pair", r#"{"k":"\ud83d\ude80"}"#, json!("\u{1f680}")),
        ("escaped control characters", r#"{"k":"\u0000\u0001\u001b\u007f"}"#, json!("\0\u{1}\u{1b}\u{7f}")),
        (
            "control characters that need no escape",
            "{\"k\":\"\u{7f}\u{80}\u{9f}\"}",
            json!("\u{7f}\u{80}\u{9f}"),
        ),
        ("what breaks lines in YAML", "{\"k\":\"a \u{85} \u{2028} b\"}", json!("a \u{85} \u{2028} b")),
        ("tabs between tokens", "{\t\"k\"\t:\t1\t}", json!(1)),
        ("a key of 2000 characters", &format!("{{\"{}\":0,\"k\":1}}", "x".repeat(2000)), json!(1)),
        ("white space and a byte order mark first", "\u{feff} \n\t{\"k\":1}", json!(1)),
        (
            "numbers",
            r#"{"k":[1.0,1e3,-0,1.5,18446744073709551616]}"#,
            json!([1, 1000, 0, 1.5, 18446744073709551616.0]),
        ),
        ("words that are no strings in YAML 1.1", r#"{"k":["yes","0644","~"]}"#, json!(["yes", "0644", "~"])),
        ("the sign that merges in YAML", r#"{"k":{"<<":{"a":1}}}"#, json!({"<<": {"a": 1}})),
    ];
    for (name, text, want) in table {
        assert_eq!(one(text)["k"], want, "{name}");
    }
}

#[test]
fn yaml_that_begins_like_json_is_read_as_yaml() {
    let table = [
        ("{k: 0644}", json!(420)),
        ("{\"k\": 0644}", json!(420)),
        ("{\"k\": [1, 2,],}", json!([1, 2])),
        ("{\"k\": 1} # a comment", json!(1)),
        ("{\"k\": \"a\n b\"}", json!("a b")),
        ("{\"k\": *a, \"x\": 1}", Value::Null),
    ];
    for (text, want) in table {
        match parse_documents(text) {
            Ok(documents) => assert_eq!(documents[0].value["k"], want, "{text}"),
            Err(_) => assert_eq!(want, Value::Null, "{text}"),
        }
    }
}

#[test]
fn documents_of_json_are_numbered() {
    let text = "{\"a\":\"\\ud83d\\ude80\"}\n---\n\n--- \r\n{\"b\":\n\"\\ud83d\\ude80\"}\n---\n";
    let documents = parse_documents(text).unwrap();
    let values: Vec<_> = documents.into_iter().map(|document| (document.number, document.value)).collect();
    assert_eq!(values, [(1, json!({"a": "\u{1f680}"})), (3, json!({"b": "\u{1f680}"}))]);
    assert_eq!(find_positions(text, &[(3, "b")]), [Some(Position { line: 5, column: 2 })]);
    let mixed = parse_documents("{\"a\": 1}\n---\nb: 0644\n").unwrap();
    assert_eq!(mixed[1].value, json!({"b": 420}));
}

#[test]
fn fields_of_json_have_positions() {
    let text = "{\"a\":\"\\ud83d\\ude80\",\n \"b\":{\"\\u0063\":1,\"é\":[\"x\",\n\t{\"d\":1}]}}";
    let table = [
        ("a", Some((1, 2))),
        ("b", Some((2, 2))),
        ("b.c", Some((2, 2))),
        ("b.é", Some((2, 18))),
        ("b.é[0]", Some((2, 23))),
        ("b.é[1].d", Some((3, 3))),
    ];
    for (field, want) in table {
        let found = find_positions(text, &[(1, field)]);
        assert_eq!(found[0].map(|at| (at.line, at.column)), want, "{field}");
    }
}

#[test]
fn duplicate_keys_of_json_are_noted() {
    let document =
        parse_documents(r#"{"a":"\ud83d\ude80","b":{"c":[{"d":1,"d":2}]},"a":2}"#).unwrap().remove(0);
    assert_eq!(document.value, json!({"a": 2, "b": {"c": [{"d": 2}]}}));
    assert_eq!(document.duplicate_keys, ["b.c[0].d", "a"]);
}

#[test]
fn errors_in_json_are_one_line_and_say_where() {
    let table = [
        ("{\"a\": \"\\ud83d\\ude80\",\n \"b\": }", "expected value at line 2 column 7"),
        ("{\"é\": \"ü\" \"b\"}", "expected `,` or `}` at line 1 column 11"),
        ("{\"a\": 1\n", "EOF while parsing an object at line 2 column 1"),
        ("{\"a\": \"\\ud83d\"}", "line 1 column 14"),
        ("{\"a\": 1}\n---\n{\"b\" 1}\n", "expected `:` at line 3 column 6"),
        ("{a: [1, 2", "line 2 column 1"),
    ];
    for (text, want) in table {
        let error = parse_documents(text).unwrap_err().to_string();
        assert!(error.contains(want) && !error.contains('\n'), "{text}: {error}");
    }
}
