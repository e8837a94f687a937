//! Structure is counted, strings are not, and nothing is hidden.

use crate::text::yaml::{ParserValue as Value, parser_value};

use super::*;

fn nodes(value: &Value) -> usize {
    1 + match value {
        Value::Sequence(items) => items.iter().map(nodes).sum(),
        Value::Mapping(map) => map.iter().map(|(key, value)| nodes(key) + nodes(value)).sum(),
        Value::Tagged(tagged) => nodes(&tagged.value) - 1,
        _ => 0,
    }
}

/// Each key with its value, and each item, stands after a byte that is counted; so do a document's first and a
/// first item of a flow collection.
fn counts_enough(text: &str) {
    let Ok(counted) = count_structure(text) else { return };
    if let Some(value) = parser_value(text) {
        let (found, counted) = (nodes(&value), 2 * counted.nodes + 1);
        assert!(found <= counted, "{text:?}: {found} nodes, counted at most {counted}");
    }
}

#[test]
fn strings_and_comments_are_not_counted() {
    let table = [
        ("a: b, c [{ d", 1),
        ("a: 'b, c: '' [{'", 1),
        ("a: \"b, \\\" c: [{\"", 1),
        ("'a: [': 1", 1),
        ("a: # , [\n- b # [", 2),
        ("a:\n- |\n  [,\n  : x\n\n   y: {\n- b: >-\n    , [\n  c: 1", 5),
        ("a: |1\n  [\n b", 1),
        ("a: b\n  c, [\n\n  d\ne: 1", 2),
        ("a: [b, 'c, [', \"d, [\", e \"f, g' [] ]", 7),
        ("a: {b: c, \"d\":\"e, [\"} # [", 5),
        ("--- # [\na: !!str |\n  [\n...\n", 3),
        ("a: &x \"[\"\nb: *x", 2),
    ];
    for (text, want) in table {
        assert_eq!(count_structure(text).map(|count| count.nodes), Ok(want), "{text}");
        counts_enough(text);
    }
}

#[test]
fn what_looks_like_a_string_hides_nothing() {
    for text in [
        "a: x\n  [ \"\nb: [[1, 2], [3, 4], [5, 6], [7, 8]]\n",
        "a: \"x\n  b: |\n    \"\nc: [1, 2, 3, 4, 5, 6]",
        "a: it's [\nb: [1, 2, 3, 4, 5, 6]\nc: it's",
        "a: |\n x\n- [1, 2, 3, 4, 5, 6]",
        "a:\n  - |\n   x\n  - [1, 2, 3, 4, 5, 6]",
        "- - |\n   x\n  - [1, 2, 3, 4, 5, 6]",
        "[a \"b, [1, 2, 3, 4, 5], c\" ]",
        "? |\n  a\n: [1, 2, 3, 4, 5, 6]",
        "a: |\n\n     \n  x\n  [\nb: [1, 2, 3, 4, 5, 6, 7]",
        "a: x # '\nb: [1, 2, 3, 4, 5, 6]\nc: '",
        "&a b: |\n c\nd: [1, 2, 3, 4, 5, 6]",
    ] {
        counts_enough(text);
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(1000))]

    #[test]
    fn never_less_than_the_parser_finds(
        text in "([\\[\\]{},]|a|b:|'|\"|\\\\|#|1|it's| |\n|: |- |\n  |\n    |\n- |\na: |\n  b: | \\|\n| >2-\n|---\n|&a |!!str |\\? |\t|, |\r\n){0,40}"
    ) {
        counts_enough(&text);
    }
}
