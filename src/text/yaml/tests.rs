//! What texts mean, and which are refused.

mod json;
mod limits;

use serde_json::{Value, json};

use super::{parse_documents, resolve::resolve_plain};

fn one(text: &str) -> Value {
    let documents = parse_documents(text).unwrap();
    assert_eq!(documents.len(), 1, "{text}");
    documents.into_iter().next().unwrap().value
}

#[test]
fn plain_scalars_follow_yaml_1_1() {
    let table = [
        ("0644", json!(420)),
        ("-0644", json!(-420)),
        ("+0644", json!(420)),
        ("0o644", json!(420)),
        ("0O644", json!(420)),
        ("00", json!(0)),
        ("0899", json!(899)),
        ("0x1F", json!(31)),
        ("-0x1f", json!(-31)),
        ("0b101", json!(5)),
        ("-0b101", json!(-5)),
        ("1_000", json!(1000)),
        ("0_644", json!(420)),
        ("_1", json!("_1")),
        ("1", json!(1)),
        ("1.0", json!(1)),
        ("1.5", json!(1.5)),
        (".5", json!(0.5)),
        ("1e3", json!(1000)),
        ("18446744073709551615", json!(u64::MAX)),
        ("18446744073709551616", json!(18446744073709551616.0)),
        ("~", json!(null)),
        ("null", json!(null)),
        ("NULL", json!(null)),
        ("", json!(null)),
        ("yes", json!(true)),
        ("On", json!(true)),
        ("y", json!(true)),
        ("n", json!(false)),
        ("NO", json!(false)),
        ("off", json!(false)),
        ("yEs", json!("yEs")),
        ("true", json!(true)),
        ("False", json!(false)),
        ("1:30", json!("1:30")),
        ("127.0.0.1", json!("127.0.0.1")),
        ("2001-12-14", json!("2001-12-14")),
        ("1-2", json!("1-2")),
        ("0x", json!("0x")),
        ("0xZZ", json!("0xZZ")),
        ("-", json!([null])),
        ("500m", json!("500m")),
        ("8Mi", json!("8Mi")),
        ("1e", json!("1e")),
        ("infinity", json!("infinity")),
        ("nan", json!("nan")),
        ("a b", json!("a b")),
    ];
    for (text, want) in table {
        let want = json!({ "k": want });
        let text = if text == "-" { "k:\n  -".to_owned() } else { format!("k: {text}") };
        assert_eq!(one(&text), want, "{text}");
    }
}

#[test]
fn quoted_and_tagged_scalars_stay_strings() {
    let table = [
        (r#"k: "0644""#, "0644"),
        ("k: '0644'", "0644"),
        ("k: 'yes'", "yes"),
        ("k: \"yes\"", "yes"),
        ("k: ''", ""),
        ("k: \"\"", ""),
        ("k: '~'", "~"),
        ("k: \"1_\\x30\"", "1_0"),
        ("k: !!str 0644", "0644"),
        ("k: !!str yes", "yes"),
        ("k: &a !!str yes", "yes"),
        ("k: !!str &a yes", "yes"),
        ("x: [1,2,3]\nk: \t!!str \t&a  yes", "yes"),
        ("k: |-\n  0644", "0644"),
        ("k: >-\n  yes", "yes"),
        ("k: 1\n  2", "1 2"),
        ("{\"k\":\"0644\"}", "0644"),
        ("é: [\"ü\"]\nk: 'no'", "no"),
        ("\u{feff}k: 'no'", "no"),
        ("'x': 0644\nk: \"on\"", "on"),
    ];
    for (text, want) in table {
        assert_eq!(one(text)["k"], json!(want), "{text}");
    }
}

#[test]
fn plain_scalars_are_seen_as_plain_everywhere() {
    let table = [
        ("0644", json!(420)),
        ("[0644, yes]", json!([420, true])),
        ("{\"a\":0644}", json!({"a": 420})),
        ("{'a': 0644}", json!({"a": 420})),
        ("- 'x'\n- 0644", json!(["x", 420])),
        ("é: 'ü'\nk: 0644", json!({"é": "ü", "k": 420})),
        ("\u{feff}k: 0644", json!({"k": 420})),
        ("a: &m 0644\nb: *m", json!({"a": 420, "b": 420})),
        ("a: &m '0644'\nb: *m", json!({"a": "0644", "b": "0644"})),
        ("a: !!str 1\nb: 0644", json!({"a": "1", "b": 420})),
        ("a: !!int 0x10", json!({"a": 16})),
        ("a !b: 0644", json!({"a !b": 420})),
        ("'a !b': 0644", json!({"a !b": 420})),
        ("{\"a !b\":0644}", json!({"a !b": 420})),
        ("[a !b, 0644]", json!(["a !b", 420])),
        ("[\"a !b\",0644]", json!(["a !b", 420])),
        ("k: 0644 # 'octal'", json!({"k": 420})),
        ("[ !!str 1,0644,  !!str 2, &a 0644]", json!(["1", 420, "2", 420])),
        ("- !!str 1\n- 0644", json!(["1", 420])),
    ];
    for (text, want) in table {
        assert_eq!(one(text), want, "{text}");
    }
}

#[test]
fn keys_are_always_strings() {
    let text = "0644: a\n'0644': b\nyes: c\n1.0: d\ntrue: e\n'<<': f\n5: g";
    let want = json!({"420": "a", "0644": "b", "true": "e", "1": "d", "<<": "f", "5": "g"});
    assert_eq!(one(text), want);
    assert!(parse_documents("? [a]\n: b").is_err());
    assert!(parse_documents("~: b").is_err());
}

#[test]
fn merge_keys() {
    let base = "base: &b {a: 1, c: 2}\nmore: &m {c: 3, d: 4}\n";
    let table = [
        ("k: {<<: *b, a: 9}", json!({"a": 9, "c": 2})),
        ("k: {a: 9, <<: *b}", json!({"a": 9, "c": 2})),
        ("k: {<<: [*b, *m]}", json!({"a": 1, "c": 2, "d": 4})),
    ];
    for (text, want) in table {
        assert_eq!(one(&format!("{base}{text}"))["k"], want, "{text}");
    }
    assert!(parse_documents("<<: 5").is_err());
    assert!(parse_documents("<<: [5]").is_err());
}

#[test]
fn documents_and_emptiness() {
    let values = |text: &str| -> Vec<Value> {
        parse_documents(text).unwrap().into_iter().map(|document| document.value).collect()
    };
    assert_eq!(values(""), Vec::<Value>::new());
    assert_eq!(values("# nothing\n"), Vec::<Value>::new());
    assert_eq!(values("---\n---\n# nothing\n"), Vec::<Value>::new());
    assert_eq!(values("---\na: 1\n---\n# nothing\n---\nb: 2\n...\n"), [json!({"a": 1}), json!({"b": 2})]);
    assert_eq!(values("{\n\t\"a\": [1, 2.5, null, \"x\\n\"]\n}"), [json!({"a": [1, 2.5, null, "x\n"]})]);
}

#[test]
fn duplicate_keys_are_noted_and_the_last_wins() {
    let text = "a: 1\nb: {c: [{d: 1, d: 2, d: 3}]}\na: 2";
    let document = parse_documents(text).unwrap().remove(0);
    assert_eq!(document.value, json!({"a": 2, "b": {"c": [{"d": 3}]}}));
    assert_eq!(document.duplicate_keys, ["b.c[0].d", "a"]);
}

#[test]
fn errors_are_one_line_and_say_where() {
    let table = [
        ("a: [1, 2", "line 2 column 1"),
        ("a: 1\nb:\n\t- c", "line 3"),
        ("a: *nowhere", "line 1 column 4"),
        ("a:\n  b: .inf", "a.b: JSON has no infinity and no not-a-number at line 2 column 6"),
        ("a: .nan", "line 1"),
        ("a: !custom x", "the tag !custom is not supported"),
        ("a: !custom {b: c}", "the tag !custom is not supported"),
        ("a: !!binary aGk=", "the tag !!binary is not supported"),
        ("a: 'x", "line"),
        ("a: b: c", "line 1 column 5"),
    ];
    for (text, want) in table {
        let error = parse_documents(text).unwrap_err().to_string();
        assert!(error.contains(want), "{text}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn depth_is_limited() {
    for (open, close) in [("[", "]"), ("{a: ", "}"), ("- ", ""), ("? ", "")] {
        let text = open.repeat(100_000);
        assert!(parse_documents(&text).is_err(), "{open}");
        let closed = format!("{}{}", open.repeat(1000), close.repeat(1000));
        assert!(parse_documents(&closed).is_err(), "{open}");
    }
    assert!(parse_documents(&format!("{}{}", "[".repeat(100), "]".repeat(100))).is_ok());
}

#[test]
fn the_number_of_nodes_is_limited() {
    for (before, each, after) in [
        ("[", "1,", "]"),
        ("[", "{},", "]"),
        ("{", "a,", "}"),
        ("{", "\"a\":1,", "}"),
        ("", "- 1\n", ""),
        ("", "-\n", ""),
        ("", "-\u{2028}", ""),
        ("", "a: 1\n", ""),
        ("", "? a\n", ""),
        ("a: &a 1\nb: [", "*a,", "]"),
    ] {
        let text = |times| format!("{before}{}{after}", each.repeat(times));
        let error = parse_documents(&text(500_001)).unwrap_err().message;
        assert_eq!(error, "too many keys and values, more than 500000", "{each}");
        if each != "-\u{2028}" {
            assert!(parse_documents(&text(10_000)).is_ok(), "{each}");
        }
    }
    let script = format!("a: |\n{}", "  echo a-b\n".repeat(500_000));
    assert!(parse_documents(&script).is_ok(), "lines of a text are no nodes");
    // What aliases bring in counts each time.
    let aliases = format!("a: &a [{}1]\nb: [{}*a]", "1,".repeat(1_000), "*a,".repeat(1_000));
    let error = parse_documents(&aliases).unwrap_err().to_string();
    assert!(error.contains("too many keys and values"), "{error}");
}

#[test]
fn alias_bombs_are_refused() {
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..10 {
        let items = vec![format!("*a{}", level - 1); 10].join(", ");
        laughs.push_str(&format!("a{level}: &a{level} [{items}]\n"));
    }
    assert!(parse_documents(&laughs).is_err());

    let mut large = format!("a: &a {}\nb:\n", "x".repeat(1 << 20));
    large.push_str(&"- *a\n".repeat(10_000));
    let error = parse_documents(&large).unwrap_err().to_string();
    assert!(error.contains("aliases make the document too large"), "{error}");

    // Looking back at what stands before a scalar is paid for each time.
    let far = format!("a: &a [{}x]\nb: [{}*a]", " ".repeat(1 << 18), "*a, ".repeat(50_000));
    let error = parse_documents(&far).unwrap_err().to_string();
    assert!(error.contains("aliases make the document too large"), "{error}");

    assert!(parse_documents("a: &a [*a]").is_err());
}

#[test]
fn strings_are_not_numbers() {
    for text in ["+", "-", "--1", "+-1", "0b2", "1.2.3", "1e+", "0x-1", "00x1"] {
        assert_eq!(resolve_plain(text), None, "{text}");
    }
}

proptest::proptest! {
    /// Neither our reader nor the parser may panic: a panic ends the agent.
    #[test]
    fn no_text_panics(text in "([\\[\\]{}:,&*!|>'\"%@`#?~<\\-=\n \tab0.é\u{feff}]|: |- |\n  |--- |&a |\\*a |<<: |!!str |!x ){0,60}") {
        let _ = parse_documents(&text);
    }
}
