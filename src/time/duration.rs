//! Durations as Go writes them (`1m30s`, `100ms`, `0`). Pure.
//!
//! Signed nanoseconds, as in Go: whether a negative duration makes sense is for the field to say.

use std::time::Duration;

/// Units from the longest spelling to the shortest, so that `ms` is never read as `m`.
const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The nanoseconds of a Go duration, or `None` where Go would refuse the text.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (whole, fraction, after) = split_number(rest)?;
        let (unit, nanos) = UNITS.iter().find(|(unit, _)| after.starts_with(unit))?;
        let mut amount = whole.checked_mul(*nanos)?;
        let mut scale = *nanos;
        for digit in fraction.bytes() {
            scale /= 10;
            amount += i128::from(digit - b'0') * scale;
        }
        total = total.checked_add(amount)?;
        rest = &after[unit.len()..];
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// Splits `1.5h` into 1, `5` and `h`. At least one digit, before or after the point.
fn split_number(text: &str) -> Option<(i128, &str, &str)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, mut rest) = text.split_at(digits(text));
    let mut fraction = "";
    if let Some(after_point) = rest.strip_prefix('.') {
        (fraction, rest) = after_point.split_at(digits(after_point));
    }
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    Some((whole, fraction, rest))
}

/// A duration as Go writes it: `10s`, `1m20s`, `1h0m0.5s`.
pub(crate) fn format_duration(duration: Duration) -> String {
    let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
    if seconds == 0 && nanos > 0 {
        return format!("{duration:?}");
    }
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction = format!(".{nanos:09}");
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    match (hours, minutes) {
        (0, 0) => format!("{seconds}{fraction}s"),
        (0, _) => format!("{minutes}m{seconds}{fraction}s"),
        _ => format!("{hours}h{minutes}m{seconds}{fraction}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_go_reads() {
        const MS: i64 = 1_000_000;
        const S: i64 = 1_000 * MS;
        for (text, nanos) in [
            ("0", 0),
            ("0s", 0),
            ("20s", 20 * S),
            ("1m30s", 90 * S),
            ("1h0m0s", 3600 * S),
            ("4h0m0s", 4 * 3600 * S),
            ("100ms", 100 * MS),
            ("1.5s", 1500 * MS),
            (".5s", 500 * MS),
            ("1.s", S),
            ("5us", 5_000),
            ("5\u{b5}s", 5_000),
            ("7ns", 7),
            ("-1s", -S),
            ("+1s", S),
            ("-0", 0),
            ("30s1m", 90 * S),
        ] {
            assert_eq!(parse_duration(text), Some(nanos), "{text}");
        }
    }

    #[test]
    fn refuses_what_go_refuses() {
        for text in [
            "",
            "-",
            "20",
            "s",
            "1x",
            "1m30",
            " 1s",
            "1s ",
            ".s",
            "1 s",
            "--1s",
            "9999999999h",
            "1d",
            "\u{b5}",
        ] {
            assert_eq!(parse_duration(text), None, "{text:?}");
        }
    }

    #[test]
    fn written_as_go_writes_them() {
        let cases = [
            (0, "0s"),
            (500, "500ms"),
            (1_500, "1.5s"),
            (10_000, "10s"),
            (60_500, "1m0.5s"),
            (80_000, "1m20s"),
            (300_000, "5m0s"),
            (3_600_000, "1h0m0s"),
        ];
        for (millis, text) in cases {
            assert_eq!(format_duration(Duration::from_millis(millis)), text);
        }
    }
}
