//! A flag's text becomes the JSON that the file would hold. Pure.
//!
//! This only converts; `ValueKind::check` checks the value afterwards, as it checks the file's.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::kind::ValueKind;

/// The text as JSON, or `None` if it cannot have this kind's shape.
pub(crate) fn parse_text(kind: ValueKind, text: &str) -> Option<Value> {
    Some(match kind {
        ValueKind::Bool => parse_bool(text)?.into(),
        ValueKind::Int(..) => parse_int(text)?.into(),
        ValueKind::Float => json!(text.parse::<f64>().ok().filter(|number| number.is_finite())?),
        ValueKind::Version => parse_bool(text).map_or_else(|| text.into(), Value::from),
        ValueKind::String
        | ValueKind::Path
        | ValueKind::Duration(..)
        | ValueKind::DurationOrNanos
        | ValueKind::BindAddress
        | ValueKind::Endpoint
        | ValueKind::Url
        | ValueKind::Quantity
        | ValueKind::OneOf(_) => text.into(),
        ValueKind::Strings | ValueKind::NodeIps => parts(text).map(Value::from).collect(),
        ValueKind::Ints => parts(text).map(|part| parse_int(part).map(Value::from)).collect::<Option<_>>()?,
        ValueKind::StringMap | ValueKind::QuantityMap => pairs(text, '=', |value| Some(value.into()))?,
        ValueKind::Thresholds => pairs(text, '<', |value| Some(value.into()))?,
        ValueKind::BoolMap => pairs(text, '=', |value| parse_bool(value).map(Value::from))?,
        ValueKind::Labels => parts(text)
            .map(|part| part.split_once('=').unwrap_or((part, "")))
            .map(|(key, value)| (key.trim().to_owned(), Value::from(value.trim())))
            .collect::<Map<_, _>>()
            .into(),
        ValueKind::Headers => {
            let mut headers = Map::new();
            for part in parts(text) {
                let (key, value) = part.split_once(':')?;
                let (key, value) = (key.trim().to_owned(), json!([value.trim()]));
                merge_item(headers.entry(key).or_insert_with(|| json!([])), value);
            }
            headers.into()
        }
        ValueKind::Items(items) => (items.parse)(text)?.into(),
        ValueKind::Object(_) => return None,
    })
}

/// Combines the values of a repeated flag: lists grow, maps are merged, the last scalar counts.
pub(crate) fn combine(kind: ValueKind, earlier: &mut Value, later: Value) {
    match kind {
        ValueKind::Strings | ValueKind::Ints | ValueKind::Items(..) => merge_item(earlier, later),
        ValueKind::StringMap
        | ValueKind::QuantityMap
        | ValueKind::Labels
        | ValueKind::BoolMap
        | ValueKind::Thresholds
        | ValueKind::Headers => {
            let (Some(map), Value::Object(more)) = (earlier.as_object_mut(), later) else { return };
            for (key, value) in more {
                match map.get_mut(&key) {
                    Some(known) => merge_item(known, value),
                    None => drop(map.insert(key, value)),
                }
            }
        }
        _ => *earlier = later,
    }
}

/// Appends a list to a list; anything else is replaced.
fn merge_item(known: &mut Value, value: Value) {
    match (known, value) {
        (Value::Array(known), Value::Array(more)) => known.extend(more),
        (known, value) => *known = value,
    }
}

/// Go's spellings of a boolean.
fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Go's spellings of an integer: decimal, 0x, 0o or 0, 0b.
fn parse_int(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    if !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    i64::from_str_radix(&format!("{sign}{digits}"), radix).ok()
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

fn pairs(text: &str, separator: char, parse: impl Fn(&str) -> Option<Value>) -> Option<Value> {
    let pair = |part: &str| {
        let (key, value) = part.split_once(separator)?;
        Some((key.trim().to_owned(), parse(value.trim())?))
    };
    Some(parts(text).map(pair).collect::<Option<Map<_, _>>>()?.into())
}

/// No flag writes this list.
pub(crate) fn no_text(_: &str) -> Option<Vec<Value>> {
    None
}

/// `key=value:Effect` or `key:Effect`, separated by commas; no key twice with the same effect.
pub(crate) fn parse_taints(text: &str) -> Option<Vec<Value>> {
    let mut seen = BTreeSet::new();
    let mut taints = Vec::new();
    for part in parts(text) {
        let (pair, effect) = part.rsplit_once(':')?;
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if key.is_empty() || effect.is_empty() || !seen.insert((key, effect)) {
            return None;
        }
        taints.push(json!({ "key": key, "value": value, "effect": effect }));
    }
    Some(taints)
}

/// `0:memory=1Gi,hugepages-1M=2Gi`: a NUMA node and what is reserved on it.
pub(crate) fn parse_reserved_memory(text: &str) -> Option<Vec<Value>> {
    let reservation = |part: &str| {
        let (node, limits) = part.split_once(':')?;
        Some(
            json!({ "numaNode": parse_int(node.trim())?, "limits": parse_text(ValueKind::QuantityMap, limits)? }),
        )
    };
    text.split(';').filter(|part| !part.trim().is_empty()).map(reservation).collect()
}

/// `pattern=level`, separated by commas.
pub(crate) fn parse_vmodule(text: &str) -> Option<Vec<Value>> {
    let item = |part: &str| {
        let (pattern, level) = part.split_once('=')?;
        Some(json!({ "filePattern": pattern, "verbosity": parse_int(level)? }))
    };
    parts(text).map(item).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        combine, parse_bool, parse_int, parse_reserved_memory, parse_taints, parse_text, parse_vmodule,
    };
    use crate::config::kind::ValueKind;

    #[test]
    fn booleans_are_go_booleans() {
        for text in ["1", "t", "T", "true", "TRUE", "True"] {
            assert_eq!(parse_bool(text), Some(true), "{text}");
        }
        for text in ["0", "f", "F", "false", "FALSE", "False"] {
            assert_eq!(parse_bool(text), Some(false), "{text}");
        }
        for text in ["", "yes", "no", "on", "tRUE", " true"] {
            assert_eq!(parse_bool(text), None, "{text}");
        }
    }

    #[test]
    fn integers_are_go_integers() {
        for (text, int) in
            [("0", 0), ("-999", -999), ("+5", 5), ("0x10", 16), ("010", 8), ("0o17", 15), ("0b11", 3)]
        {
            assert_eq!(parse_int(text), Some(int), "{text}");
        }
        for text in ["", "-", "1.0", "ten", "09", "--1", "+-1", "0x", "99999999999999999999"] {
            assert_eq!(parse_int(text), None, "{text}");
        }
    }

    #[test]
    fn collections_are_read_and_combined() {
        for (kind, first, second, whole) in [
            (ValueKind::Strings, "a,b", "c", json!(["a", "b", "c"])),
            (ValueKind::NodeIps, "10.0.0.1", "10.0.0.2", json!(["10.0.0.2"])),
            (ValueKind::StringMap, "a=1,b=x=y", "a=2", json!({"a": "2", "b": "x=y"})),
            (ValueKind::Labels, "a=1,b", "c=", json!({"a": "1", "b": "", "c": ""})),
            (ValueKind::BoolMap, "A=true", "B=false", json!({"A": true, "B": false})),
            (
                ValueKind::Thresholds,
                "memory.available<1Gi",
                "x<5%",
                json!({"memory.available": "1Gi", "x": "5%"}),
            ),
            (
                ValueKind::Headers,
                "a:hello,b:again",
                "b:beautiful",
                json!({"a": ["hello"], "b": ["again", "beautiful"]}),
            ),
            (ValueKind::String, "a", "b", json!("b")),
        ] {
            let mut value = parse_text(kind, first).unwrap();
            combine(kind, &mut value, parse_text(kind, second).unwrap());
            assert_eq!(value, whole, "{kind:?}");
        }
        for (kind, text) in [
            (ValueKind::StringMap, "a"),
            (ValueKind::BoolMap, "a=maybe"),
            (ValueKind::Thresholds, "a=b"),
            (ValueKind::Headers, "novalue"),
        ] {
            assert_eq!(parse_text(kind, text), None, "{kind:?} {text}");
        }
    }

    #[test]
    fn lists_of_objects_have_a_text_form() {
        assert_eq!(
            parse_taints("a=b:NoSchedule,c:NoExecute"),
            Some(vec![
                json!({"key": "a", "value": "b", "effect": "NoSchedule"}),
                json!({"key": "c", "value": "", "effect": "NoExecute"}),
            ])
        );
        for text in ["nothing", "a:", ":NoSchedule", "a:NoSchedule,a=b:NoSchedule"] {
            assert_eq!(parse_taints(text), None, "{text}");
        }
        assert_eq!(
            parse_reserved_memory("0:memory=1Gi,hugepages-1M=2Gi"),
            Some(vec![json!({"numaNode": 0, "limits": {"memory": "1Gi", "hugepages-1M": "2Gi"}})])
        );
        assert_eq!(parse_reserved_memory("x:memory=1Gi"), None);
        assert_eq!(parse_vmodule("f*=4"), Some(vec![json!({"filePattern": "f*", "verbosity": 4})]));
    }
}
