//! What a plain scalar means in YAML 1.1, where the 1.2 parser took it for a string.

use serde_json::{Number, Value};

/// The largest size below which every integral float is written without an exponent in JSON.
const MAX_PLAIN_FLOAT: f64 = 1e21;

/// The value of a plain scalar, or `None` if it is a string in YAML 1.1 too.
///
/// Sexagesimal numbers and dates are strings, as Kubernetes has them.
pub(super) fn resolve_plain(scalar: &str) -> Option<Value> {
    match scalar {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => return Some(Value::Bool(true)),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => return Some(Value::Bool(false)),
        _ => {}
    }
    if !scalar.starts_with(|first: char| first == '+' || first == '-' || first.is_ascii_digit()) {
        return None;
    }
    let digits = scalar.replace('_', "");
    integer(&digits).or_else(|| float(&digits))
}

/// A float as JSON has it: integral ones lose their point. `None` for infinity and not-a-number.
pub(super) fn number_from_f64(value: f64) -> Option<Value> {
    if value.fract() == 0.0 && value.abs() < MAX_PLAIN_FLOAT {
        let text = format!("{value:.0}");
        if let Ok(integer) = text.parse::<i64>() {
            return Some(Value::from(integer));
        }
        if let Ok(integer) = text.parse::<u64>() {
            return Some(Value::from(integer));
        }
    }
    Number::from_f64(value).map(Value::Number)
}

/// An integer with an optional sign, in base 16 (`0x`), 8 (`0o` or a leading zero), 2 (`0b`) or 10.
fn integer(text: &str) -> Option<Value> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = rest.to_ascii_lowercase();
    let (radix, digits) = if let Some(digits) = lower.strip_prefix("0x") {
        (16, digits)
    } else if let Some(digits) = lower.strip_prefix("0o") {
        (8, digits)
    } else if let Some(digits) = lower.strip_prefix("0b") {
        (2, digits)
    } else if let Some(digits) = lower.strip_prefix('0').filter(|digits| !digits.is_empty()) {
        (8, digits)
    } else {
        (10, lower.as_str())
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    let size = i128::from_str_radix(digits, radix).ok()?;
    let value = if negative { -size } else { size };
    i64::try_from(value).map(Value::from).or_else(|_| u64::try_from(value).map(Value::from)).ok()
}

/// A decimal float; also the decimal digits that are no octal number, such as `0899`.
fn float(text: &str) -> Option<Value> {
    if !text.chars().all(|char| char.is_ascii_digit() || matches!(char, '.' | 'e' | 'E' | '+' | '-')) {
        return None;
    }
    text.parse::<f64>().ok().and_then(number_from_f64)
}
