//! What a setting's value may be. Pure.
//!
//! One vocabulary for the fields of the file and for the flags: `check` judges JSON, `text` (next door) turns a
//! flag's text into the same JSON, so that a value means the same wherever it was written.

use std::net::IpAddr;

use serde_json::Value;

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
    pub(crate) kind: Kind,
    /// Whether rkubelet acts on it.
    pub(crate) effect: Effect,
}

/// The kind of a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
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
    /// An IP address.
    Ip,
    /// A list of IP addresses.
    Ips,
    /// One IP address, or one per family.
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
    /// A list of objects with these fields, and how a flag's text becomes that list.
    Items(&'static [Field], fn(&str) -> Option<Vec<Value>>),
}

impl Kind {
    /// Whether the value is of this kind. Of objects, only that they are objects: the walk over their fields is
    /// the caller's, who knows the path. Empty text stands for "unset" wherever Go would take it so.
    pub(crate) fn check(&self, value: &Value) -> bool {
        let text = |accept: &dyn Fn(&str) -> bool| {
            value.as_str().is_some_and(|text| text.is_empty() || accept(text))
        };
        match *self {
            Kind::Bool => value.is_boolean(),
            Kind::Int(min, max) => is_int_between(value, min, max),
            Kind::Float => value.is_number(),
            Kind::String | Kind::Path => value.is_string(),
            Kind::Duration(min, max) => {
                value.as_str().and_then(parse_duration).is_some_and(|nanos| (min..=max).contains(&nanos))
            }
            Kind::DurationOrNanos => value.is_i64() || value.as_str().and_then(parse_duration).is_some(),
            Kind::Ip => text(&|text| text.parse::<IpAddr>().is_ok()),
            Kind::Ips => list(value, is_ip),
            Kind::NodeIps => list(value, is_ip) && is_one_per_family(value),
            Kind::Endpoint => text(&|text| normalize_endpoint(text).is_some()),
            Kind::Url => text(&is_http_url),
            Kind::Quantity => value == "" || is_quantity(value),
            Kind::OneOf(words) => text(&|text| words.contains(&text)),
            Kind::Strings => list(value, Value::is_string),
            Kind::Ints => list(value, |item| is_int_between(item, i32::MIN.into(), i32::MAX.into())),
            Kind::StringMap | Kind::Labels | Kind::Thresholds => map(value, Value::is_string),
            Kind::BoolMap => map(value, Value::is_boolean),
            Kind::QuantityMap => map(value, is_quantity),
            Kind::Headers => map(value, |item| list(item, Value::is_string)),
            Kind::Version => value.is_boolean() || value == "raw",
            Kind::Object(_) => value.is_object(),
            Kind::Items(..) => list(value, Value::is_object),
        }
    }

    /// `check`, and the fields of the objects of a list too: for a flag, whose value is refused as a whole.
    pub(crate) fn check_whole(&self, value: &Value) -> bool {
        let Kind::Items(fields, _) = *self else { return self.check(value) };
        list(value, |item| {
            fields.iter().all(|field| item.get(field.name).is_none_or(|inner| field.kind.check(inner)))
        })
    }

    /// What a value of this kind is, for an error: "... is not {expected}".
    pub(crate) fn expected(&self) -> String {
        let words = match *self {
            Kind::Bool => "true or false",
            Kind::Int(min, max) => return format!("an integer from {min} to {max}"),
            Kind::Float => "a number",
            Kind::String => "a text",
            Kind::Path => "a path",
            Kind::Duration(min, i64::MAX) if min < 0 => "a duration such as 1m30s",
            Kind::Duration(_, i64::MAX) => "a duration such as 1m30s, zero or longer",
            Kind::Duration(min, max) => {
                return format!("a duration from {}s to {}s", min / 1_000_000_000, max / 1_000_000_000);
            }
            Kind::DurationOrNanos => "a duration such as 5s, or a number of nanoseconds",
            Kind::Ip => "an IP address",
            Kind::Ips => "a list of IP addresses",
            Kind::NodeIps => "an IP address, or one IPv4 and one IPv6 address",
            Kind::Endpoint => "a UNIX socket such as unix:///run/containerd/containerd.sock",
            Kind::Url => "an http:// or https:// URL",
            Kind::Quantity => "a quantity such as 10Mi",
            Kind::OneOf(words) => return format!("one of {}", words.join(", ")),
            Kind::Strings => "a list of texts",
            Kind::Ints => "a list of integers",
            Kind::StringMap => "a map of texts (key=value as a flag)",
            Kind::Labels => "a map of labels (key=value as a flag)",
            Kind::BoolMap => "a map of true and false (key=true as a flag)",
            Kind::QuantityMap => "a map of quantities (key=10Mi as a flag)",
            Kind::Thresholds => "a map of thresholds (key<value as a flag)",
            Kind::Headers => "a map of lists of texts (key:value as a flag)",
            Kind::Version => "true, false or raw",
            Kind::Object(_) => "an object",
            Kind::Items(..) => "a list of objects",
        };
        words.to_owned()
    }

    /// One word for the list of flags.
    pub(crate) fn word(&self) -> &'static str {
        match *self {
            Kind::Bool | Kind::Version => "",
            Kind::Int(..) => "int",
            Kind::Float => "number",
            Kind::String | Kind::OneOf(_) | Kind::Object(_) => "string",
            Kind::Path => "path",
            Kind::Duration(..) | Kind::DurationOrNanos => "duration",
            Kind::Ip => "ip",
            Kind::Ips | Kind::NodeIps => "ips",
            Kind::Endpoint => "socket",
            Kind::Url => "url",
            Kind::Quantity => "quantity",
            Kind::Strings | Kind::Ints | Kind::Items(..) => "list",
            Kind::StringMap | Kind::Labels | Kind::BoolMap | Kind::QuantityMap => "k=v,...",
            Kind::Thresholds => "k<v,...",
            Kind::Headers => "k:v,...",
        }
    }
}

/// The endpoint as a `unix://` URL. A bare absolute path is taken too, as kubelet does.
pub(crate) fn normalize_endpoint(text: &str) -> Option<String> {
    let path = text.strip_prefix("unix://").or_else(|| text.strip_prefix("unix:")).unwrap_or(text);
    path.starts_with('/').then(|| format!("unix://{path}"))
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

fn is_ip(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.parse::<IpAddr>().is_ok())
}

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

/// Digits with at most one point, then a suffix: none, SI, binary, or an exponent.
fn is_quantity(value: &Value) -> bool {
    let Some(text) = value.as_str() else { return value.is_number() };
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let exponent = || suffix.strip_prefix(['e', 'E']).is_some_and(|digits| digits.parse::<i16>().is_ok());
    number.bytes().any(|byte| byte.is_ascii_digit())
        && number.matches('.').count() <= 1
        && (matches!(suffix, "" | "n" | "u" | "m" | "k" | "M" | "G" | "T" | "P" | "E")
            || matches!(suffix, "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei")
            || exponent())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Kind, is_quantity, normalize_endpoint};

    #[test]
    fn kinds_judge_values() {
        let any = Kind::Duration(i64::MIN, i64::MAX);
        let span = Kind::Duration(0, i64::MAX);
        for (kind, good, bad) in [
            (Kind::Bool, json!(true), json!("true")),
            (Kind::Int(0, 65535), json!(65535), json!(65536)),
            (Kind::Int(0, 10), json!(0), json!(-1)),
            (Kind::Int(0, 10), json!(1), json!(1.5)),
            (Kind::Int(0, 10), json!(1), json!("1")),
            (Kind::Float, json!(0.9), json!("0.9")),
            (Kind::String, json!(""), json!(5)),
            (any, json!("-1s"), json!(10)),
            (span, json!("0"), json!("-1s")),
            (span, json!("1m"), json!("")),
            (Kind::DurationOrNanos, json!(5), json!(true)),
            (Kind::DurationOrNanos, json!("5s"), json!("5")),
            (Kind::Ip, json!("::1"), json!("localhost")),
            (Kind::Ips, json!(["10.0.0.1"]), json!(["x"])),
            (Kind::NodeIps, json!(["10.0.0.1", "::1"]), json!(["10.0.0.1", "10.0.0.2"])),
            (Kind::NodeIps, json!(["::"]), json!(["10.0.0.1", "::1", "::2"])),
            (Kind::Endpoint, json!("unix:///run/x.sock"), json!("tcp://127.0.0.1:1")),
            (Kind::Url, json!("https://host/pods"), json!("ftp://host")),
            (Kind::Url, json!("http://host"), json!("http:///x")),
            (Kind::Url, json!("HTTPS://user:pass@host/"), json!("https://user:pass@ho st/")),
            (Kind::OneOf(&["a", "b"]), json!("b"), json!("c")),
            (Kind::Strings, json!([]), json!([1])),
            (Kind::Ints, json!([29]), json!(["29"])),
            (Kind::StringMap, json!({"a": "b"}), json!({"a": 1})),
            (Kind::BoolMap, json!({"a": false}), json!({"a": "false"})),
            (Kind::Headers, json!({"a": ["b"]}), json!({"a": "b"})),
            (Kind::QuantityMap, json!({"memory": "1Gi"}), json!({"memory": "lots"})),
        ] {
            assert!(kind.check(&good), "{kind:?} takes {good}");
            assert!(!kind.check(&bad), "{kind:?} refuses {bad}");
            assert!(!kind.check(&json!(null)), "{kind:?} refuses null: absence is the caller's affair");
        }
    }

    #[test]
    fn quantities_have_a_grammar() {
        for good in
            [json!("0"), json!("10Mi"), json!("1.5G"), json!("100m"), json!("1e3"), json!("-1"), json!(512)]
        {
            assert!(is_quantity(&good), "{good}");
        }
        for bad in [json!(""), json!("Mi"), json!("1MiB"), json!("1.2.3"), json!("e3"), json!(true)] {
            assert!(!is_quantity(&bad), "{bad}");
        }
    }

    #[test]
    fn endpoints_become_urls() {
        for (text, url) in [
            ("unix:///run/a.sock", Some("unix:///run/a.sock")),
            ("unix:/run/a.sock", Some("unix:///run/a.sock")),
            ("/run/a.sock", Some("unix:///run/a.sock")),
            ("run/a.sock", None),
            ("unix://run/a.sock", None),
            ("tcp://1.2.3.4:5", None),
        ] {
            assert_eq!(normalize_endpoint(text).as_deref(), url, "{text}");
        }
    }
}
