//! How deep and how large a text may be.

use super::one;
use crate::text::yaml::parse_documents;

#[test]
fn brackets_in_strings_do_not_nest() {
    let line = "printf '\\033[1m%s' \"$x\"";
    let script = |indent: &str| format!("{indent}{line}\n").repeat(1_100);
    let quoted = |quote: char| format!("{quote}{}{quote}", "[{".repeat(1_100));
    let table = [
        ("a block scalar", format!("a:\n- b: |\n{}  c: 1\n", script("    "))),
        ("a folded one, with a comment and an indentation", format!("a: !!str >2- # [\n{}", script("   "))),
        ("one in a list", format!("a:\n- |\n{}- b\n", script("  "))),
        ("one of a JSON string", format!("{{\"a\": \"{}\"}}", "[{".repeat(1_100))),
        ("double quotes", format!("a: {}\nb: 1", quoted('"'))),
        ("single quotes", format!("a: {}\nb: 1", quoted('\''))),
        ("quotes in a flow mapping", format!("a: {{b: {}, c: 1}}", quoted('"'))),
        ("quotes over several lines", format!("a: \"{}\"\nb: 1", "x [{\n  ".repeat(1_100))),
        ("plain scalars", format!("a:\n{}", format!("- {line}\n").repeat(1_100))),
        ("a plain scalar over several lines", format!("a: x\n{}b: 1\n", script("  "))),
        ("comments", format!("{}a: 1 # {}\n", "# [[\n".repeat(1_100), "[".repeat(1_100))),
        ("every line ends in CRLF", format!("a: |\n{}b: 1\n", script("  ")).replace('\n', "\r\n")),
    ];
    for (name, text) in table {
        assert_eq!(parse_documents(&text).map(|documents| documents.len()), Ok(1), "{name}");
    }
}

#[test]
fn separators_in_strings_are_no_nodes() {
    let commas = "a, b: c - d ".repeat(200_000);
    for text in [
        format!("a: \"{commas}\""),
        format!("a: '{commas}'"),
        format!("a: |\n  {commas}"),
        format!("{{\"a\": \"{commas}\"}}"),
        format!("# {commas}\na: 1"),
    ] {
        assert!(one(&text).is_object());
    }
}

#[test]
fn what_is_accepted_is_not_too_deep_for_others() {
    let nested = |depth: usize| {
        let (lists, objects) = ("[".repeat(depth - 1), "{\"a\":".repeat(depth - 1));
        [
            format!("a: {lists}{}", "]".repeat(depth - 1)),
            format!("{objects}[]{}", "}".repeat(depth - 1)),
            format!("{}a", "- ".repeat(depth)),
        ]
    };
    for text in nested(100) {
        assert!(parse_documents(&text).is_ok(), "{text}");
    }
    for text in nested(101).into_iter().chain(nested(127)) {
        let error = parse_documents(&text).unwrap_err().to_string();
        assert!(error.contains("nested more than 100 levels deep"), "{error}");
    }
}

#[test]
fn five_thousand_ordinary_pods_are_not_too_many() {
    let pod = "\
- apiVersion: v1
  kind: Pod
  metadata: {name: pod-0001, namespace: default, labels: {app: web, tier: front}}
  spec:
    hostNetwork: true
    containers:
    - name: main
      image: registry.example/team/web:1.0
      command: [\"/bin/sh\", \"-c\", \"sleep 1, 2, 3\"]
      env: [{name: A, value: b}, {name: C, value: d}]
      ports: [{containerPort: 80, protocol: TCP}]
      volumeMounts: [{name: data, mountPath: /data}]
    volumes: [{name: data, emptyDir: {}}]
";
    let list = format!("apiVersion: v1\nkind: List\nitems:\n{}", pod.repeat(5_000));
    assert!(list.len() > 2_000_000);
    let value = one(&list);
    assert_eq!(value["items"].as_array().map(Vec::len), Some(5_000));
    assert_eq!(one(&value.to_string()), value);
}
