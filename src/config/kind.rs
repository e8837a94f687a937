//! What a setting's value may be. Pure.
//!
//! The same kinds for the fields of the file and for the flags: `check` checks JSON, and `text` converts a flag's text
//! into the same JSON, so that a value means the same wherever it was written.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::Value;

use crate::pod::quantity::Amount;
use crate::runtime::cri::Endpoint;
use crate::time::duration::parse_duration;

/// Whether rkubelet acts on a setting yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// rkubelet acts on it.
    Honoured,
    /// Checked and accepted, for compatibility; it changes nothing yet.
    Accepted,
}

/// One field of an object in the configuration file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    /// The name, as written in the file.
    pub(crate) name: &'static str,
    /// What its value may be.
    pub(crate) kind: ValueKind,
    /// Whether rkubelet acts on it.
    pub(crate) effect: Effect,
}

/// The kind of a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ValueKind {
    /// true or false.
    Bool,
    /// An integer between two bounds, both included.
    Int(i64, i64),
    /// A number.
    Float,
    /// Any text.
    String,
    /// A path; a relative one starts at the file's directory, or for a flag at the working directory.
    Path,
    /// A Go duration whose nanoseconds are between two bounds, both included.
    Duration(i64, i64),
    /// A Go duration, or a number of nanoseconds.
    DurationOrNanos,
    /// An IP address to listen on, or `localhost`.
    BindAddress,
    /// One IP address, or one per family. As in kubelet, what is no address is left out.
    NodeIps,
    /// The UNIX socket of a runtime.
    Endpoint,
    /// An http or https URL.
    Url,
    /// A Kubernetes quantity.
    Quantity,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A list of texts.
    Strings,
    /// A list of integers.
    Ints,
    /// Texts by key; as a flag, `k=v,k=v`.
    StringMap,
    /// Node labels; as a flag, `k=v` or `k`.
    Labels,
    /// Booleans by key; as a flag, `k=true`. Flags are merged with the file here, key by key.
    BoolMap,
    /// Quantities by key.
    QuantityMap,
    /// Texts by key; as a flag, `k<v,k<v`.
    Thresholds,
    /// Lists of texts by key; as a flag, `k:v,k:v`.
    Headers,
    /// A boolean, or `raw`.
    Version,
    /// An object with these fields.
    Object(&'static [Field]),
    /// A list of objects.
    Items(&'static ItemsKind),
}

/// The kind of a list of objects.
#[derive(Debug)]
pub(crate) struct ItemsKind {
    /// The fields of an object.
    pub(crate) fields: &'static [Field],
    /// How a flag's text becomes the list.
    pub(crate) parse: fn(&str) -> Option<Vec<Value>>,
    /// What such a list is, for an error: "... is not {expected}".
    pub(crate) expected: &'static str,
}

impl ValueKind {
    /// Whether the value is of this kind. Fields of objects are checked by the caller, which knows their paths. An empty
    /// text means "unset" where it does so for kubelet.
    pub(crate) fn check(&self, value: &Value) -> bool {
        let text = |accept: &dyn Fn(&str) -> bool| {
            value.as_str().is_some_and(|text| text.is_empty() || accept(text))
        };
        match *self {
            ValueKind::Bool => value.is_boolean(),
            ValueKind::Int(min, max) => is_int_between(value, min, max),
            ValueKind::Float => value.is_number(),
            ValueKind::String | ValueKind::Path => value.is_string(),
            ValueKind::Duration(min, max) => {
                value.as_str().and_then(parse_duration).is_some_and(|nanos| (min..=max).contains(&nanos))
            }
            ValueKind::DurationOrNanos => value.is_i64() || value.as_str().and_then(parse_duration).is_some(),
            ValueKind::BindAddress => text(&|text| parse_bind_address(text).is_some()),
            ValueKind::NodeIps => list(value, Value::is_string) && is_one_per_family(value),
            ValueKind::Endpoint => text(&|text| text.parse::<Endpoint>().is_ok()),
            ValueKind::Url => text(&is_http_url),
            ValueKind::Quantity => value == "" || is_quantity(value),
            ValueKind::OneOf(words) => text(&|text| words.contains(&text)),
            ValueKind::Strings => list(value, Value::is_string),
            ValueKind::Ints => list(value, |item| is_int_between(item, i32::MIN.into(), i32::MAX.into())),
            ValueKind::StringMap | ValueKind::Labels | ValueKind::Thresholds => map(value, Value::is_string),
            ValueKind::BoolMap => map(value, Value::is_boolean),
            ValueKind::QuantityMap => map(value, is_quantity),
            ValueKind::Headers => map(value, |item| list(item, Value::is_string)),
            ValueKind::Version => value.is_boolean() || value == "raw",
            ValueKind::Object(_) => value.is_object(),
            ValueKind::Items(..) => list(value, Value::is_object),
        }
    }

    /// `check`, and the fields of the objects of a list too: for a flag, whose value is refused as a whole.
    pub(crate) fn check_whole(&self, value: &Value) -> bool {
        let ValueKind::Items(items) = *self else { return self.check(value) };
        list(value, |item| {
            items.fields.iter().all(|field| item.get(field.name).is_none_or(|inner| field.kind.check(inner)))
        })
    }

    /// Whether the value is Go's zero value, or as empty as that: for most fields it means the default.
    pub(crate) fn is_zero(&self, value: &Value) -> bool {
        match (self, value) {
            (_, Value::Null | Value::Bool(false)) => true,
            (_, Value::Number(number)) => number.as_f64() == Some(0.0),
            (ValueKind::Duration(..) | ValueKind::DurationOrNanos, Value::String(text)) => {
                parse_duration(text) == Some(0)
            }
            (ValueKind::Quantity, Value::String(text)) => {
                text.is_empty() || Amount::parse(text).is_ok_and(Amount::is_zero)
            }
            (_, Value::String(text)) => text.is_empty(),
            (_, Value::Array(items)) => items.is_empty(),
            (_, Value::Object(map)) => map.is_empty(),
            _ => false,
        }
    }

    /// What a value of this kind is, for an error: "... is not {expected}".
    pub(crate) fn expected(&self) -> String {
        let words = match *self {
            ValueKind::Bool => "true or false",
            ValueKind::Int(min, max) => return format!("an integer from {min} to {max}"),
            ValueKind::Float => "a number",
            ValueKind::String => "a text",
            ValueKind::Path => "a path",
            ValueKind::Duration(min, i64::MAX) if min < 0 => "a duration such as 1m30s",
            ValueKind::Duration(0, i64::MAX) => "a duration such as 1m30s, zero or longer",
            ValueKind::Duration(min, i64::MAX) => return format!("a duration of {} or longer", span(min)),
            ValueKind::Duration(min, max) => {
                return format!("a duration from {} to {}", span(min), span(max));
            }
            ValueKind::DurationOrNanos => "a duration such as 5s, or a number of nanoseconds",
            ValueKind::BindAddress => "an IP address or localhost",
            ValueKind::NodeIps => "an IP address, or one IPv4 and one IPv6 address",
            ValueKind::Endpoint => "a UNIX socket such as unix:///run/containerd/containerd.sock",
            ValueKind::Url => "an http:// or https:// URL",
            ValueKind::Quantity => "a quantity such as 10Mi",
            ValueKind::OneOf(words) => return format!("one of {}", words.join(", ")),
            ValueKind::Strings => "a list of texts",
            ValueKind::Ints => "a list of integers",
            ValueKind::StringMap => {
                "a map of texts: key: \"value\" with quotes in a file, key=value as a flag"
            }
            ValueKind::Labels => "a map of labels (key=value as a flag)",
            ValueKind::BoolMap => "a map of true and false (key=true as a flag)",
            ValueKind::QuantityMap => "a map of quantities (key=10Mi as a flag)",
            ValueKind::Thresholds => {
                "a map of thresholds: memory.available: \"100Mi\" with quotes in a file, memory.available<100Mi as a flag"
            }
            ValueKind::Headers => "a map of lists of texts (key:value as a flag)",
            ValueKind::Version => "true, false or raw",
            ValueKind::Object(_) => "an object",
            ValueKind::Items(items) => items.expected,
        };
        words.to_owned()
    }

    /// The placeholder of the value in the list of flags.
    pub(crate) fn word(&self) -> &'static str {
        match *self {
            ValueKind::Bool | ValueKind::Version => "",
            ValueKind::Int(..) => "int",
            ValueKind::Float => "number",
            ValueKind::String | ValueKind::OneOf(_) | ValueKind::Object(_) => "string",
            ValueKind::Path => "path",
            ValueKind::Duration(..) | ValueKind::DurationOrNanos => "duration",
            ValueKind::BindAddress => "ip",
            ValueKind::NodeIps => "ips",
            ValueKind::Endpoint => "socket",
            ValueKind::Url => "url",
            ValueKind::Quantity => "quantity",
            ValueKind::Strings | ValueKind::Ints | ValueKind::Items(..) => "list",
            ValueKind::StringMap | ValueKind::Labels | ValueKind::BoolMap | ValueKind::QuantityMap => {
                "k=v,..."
            }
            ValueKind::Thresholds => "k<v,...",
            ValueKind::Headers => "k:v,...",
        }
    }
}

/// The address to listen on. `localhost` needs no resolver.
pub(crate) fn parse_bind_address(text: &str) -> Option<IpAddr> {
    if text == "localhost" { Some(Ipv4Addr::LOCALHOST.into()) } else { text.parse().ok() }
}

/// A bound of a duration, in the largest unit that needs no fraction.
fn span(nanos: i64) -> String {
    match nanos {
        _ if nanos % 1_000_000_000 == 0 => format!("{}s", nanos / 1_000_000_000),
        _ => format!("{}ms", nanos / 1_000_000),
    }
}

fn is_int_between(value: &Value, min: i64, max: i64) -> bool {
    value.as_i64().is_some_and(|int| (min..=max).contains(&int))
}

/// Null stands for an absent item, in maps as in objects.
fn map(value: &Value, accept: impl Fn(&Value) -> bool) -> bool {
    value.as_object().is_some_and(|map| map.values().all(|item| item.is_null() || accept(item)))
}

fn list(value: &Value, accept: impl Fn(&Value) -> bool) -> bool {
    value.as_array().is_some_and(|list| list.iter().all(accept))
}

/// What is no address does not count, as in kubelet.
fn is_one_per_family(value: &Value) -> bool {
    let ips: Vec<IpAddr> =
        value.as_array().into_iter().flatten().filter_map(|ip| ip.as_str()?.parse().ok()).collect();
    match ips.as_slice() {
        [] | [_] => true,
        [first, second] => first.is_ipv4() != second.is_ipv4(),
        _ => false,
    }
}

/// What else is wrong with it is told when it is taken apart, without its password.
fn is_http_url(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let rest = lower.strip_prefix("http://").or_else(|| lower.strip_prefix("https://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/') && !rest.contains(char::is_whitespace))
}

fn is_quantity(value: &Value) -> bool {
    value.as_str().map_or(value.is_number(), |text| Amount::parse(text).is_ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::ValueKind;

    #[test]
    fn kinds_check_values() {
        let any = ValueKind::Duration(i64::MIN, i64::MAX);
        let span = ValueKind::Duration(0, i64::MAX);
        for (kind, good, bad) in [
            (ValueKind::Bool, json!(true), json!("true")),
            (ValueKind::Int(0, 65535), json!(65535), json!(65536)),
            (ValueKind::Int(0, 10), json!(0), json!(-1)),
            (ValueKind::Int(0, 10), json!(1), json!(1.5)),
            (ValueKind::Int(0, 10), json!(1), json!("1")),
            (ValueKind::Float, json!(0.9), json!("0.9")),
            (ValueKind::String, json!(""), json!(5)),
            (any, json!("-1s"), json!(10)),
            (span, json!("0"), json!("-1s")),
            (span, json!("1m"), json!("")),
            (ValueKind::DurationOrNanos, json!(5), json!(true)),
            (ValueKind::DurationOrNanos, json!("5s"), json!("5")),
            (ValueKind::BindAddress, json!("::1"), json!("edge")),
            (ValueKind::BindAddress, json!("localhost"), json!("127.0.0.1:80")),
            (ValueKind::NodeIps, json!(["10.0.0.1", "::1"]), json!(["10.0.0.1", "10.0.0.2"])),
            (ValueKind::NodeIps, json!(["::"]), json!(["10.0.0.1", "::1", "::2"])),
            (ValueKind::Endpoint, json!("unix:///run/x.sock"), json!("tcp://127.0.0.1:1")),
            (ValueKind::Endpoint, json!("/run/x.sock"), json!("unix:///run/")),
            (ValueKind::Url, json!("https://host/pods"), json!("ftp://host")),
            (ValueKind::Url, json!("http://host"), json!("http:///x")),
            (ValueKind::Url, json!("HTTPS://user:pass@host/"), json!("https://user:pass@ho st/")),
            (ValueKind::OneOf(&["a", "b"]), json!("b"), json!("c")),
            (ValueKind::Strings, json!([]), json!([1])),
            (ValueKind::Ints, json!([29]), json!(["29"])),
            (ValueKind::StringMap, json!({"a": "b"}), json!({"a": 1})),
            (ValueKind::BoolMap, json!({"a": false}), json!({"a": "false"})),
            (ValueKind::Headers, json!({"a": ["b"]}), json!({"a": "b"})),
            (ValueKind::QuantityMap, json!({"memory": "1Gi"}), json!({"memory": "lots"})),
        ] {
            assert!(kind.check(&good), "{kind:?} takes {good}");
            assert!(!kind.check(&bad), "{kind:?} refuses {bad}");
            assert!(!kind.check(&json!(null)), "{kind:?} refuses null, which the caller removes");
        }
    }

    #[test]
    fn zero_is_what_go_takes_for_unset() {
        for (kind, zero, other) in [
            (ValueKind::Bool, json!(false), json!(true)),
            (ValueKind::Int(0, 10), json!(0), json!(1)),
            (ValueKind::String, json!(""), json!("0")),
            (ValueKind::Duration(0, i64::MAX), json!("0s"), json!("1s")),
            (ValueKind::DurationOrNanos, json!(0), json!(5)),
            (ValueKind::Quantity, json!("0"), json!("1Mi")),
            (ValueKind::Strings, json!([]), json!([""])),
            (ValueKind::StringMap, json!({}), json!({"a": ""})),
        ] {
            assert!(kind.is_zero(&zero), "{kind:?} {zero}");
            assert!(!kind.is_zero(&other), "{kind:?} {other}");
        }
    }

    #[test]
    fn expectations_name_the_bounds() {
        for (kind, words) in [
            (ValueKind::Duration(1_000_000, 1_000_000_000), "a duration from 1ms to 1s"),
            (ValueKind::Duration(3_000_000_000, i64::MAX), "a duration of 3s or longer"),
            (ValueKind::Duration(0, i64::MAX), "a duration such as 1m30s, zero or longer"),
        ] {
            assert_eq!(kind.expected(), words);
        }
    }
}
