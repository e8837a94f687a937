//! Kubernetes quantities: `500m`, `1.5Gi`, `1e3`. Exact to a billionth, never a float.

use std::fmt;

const NANO: i128 = 1_000_000_000;
/// No quantity is larger than this; larger ones count as this one.
const MAX_NANOS: i128 = i64::MAX as i128 * NANO;
const DECIMAL: [(&str, u32); 10] =
    [("n", 0), ("u", 3), ("m", 6), ("", 9), ("k", 12), ("M", 15), ("G", 18), ("T", 21), ("P", 24), ("E", 27)];
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The value of a quantity, and the family of suffixes that it was written with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Amount {
    nanos: i128,
    notation: Notation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notation {
    Binary,
    Decimal,
    Exponent,
}

/// A text that is not a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a quantity such as 500m, 2, 1.5 or 64Mi")]
pub(crate) struct QuantityError;

impl Amount {
    /// Nothing.
    pub(crate) const ZERO: Self = Self { nanos: 0, notation: Notation::Decimal };

    /// The amount as a whole number, rounded up.
    pub(crate) fn value(self) -> i64 {
        self.in_units(NANO)
    }

    /// The amount in thousandths, rounded up.
    pub(crate) fn milli_value(self) -> i64 {
        self.in_units(NANO / 1000)
    }

    fn in_units(self, unit: i128) -> i64 {
        let up = i128::from(self.nanos > 0 && self.nanos % unit != 0);
        i64::try_from(self.nanos / unit + up).unwrap_or(i64::MAX)
    }

    /// Reads a quantity. What is finer than a billionth is rounded away from zero.
    pub(crate) fn parse(text: &str) -> Result<Self, QuantityError> {
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = rest.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(QuantityError);
        }
        let (notation, power, factor) = suffix_of(suffix)?;
        let nanos = scale(whole, fraction, power, factor);
        Ok(Self { nanos: if negative { -nanos } else { nanos }, notation })
    }

    /// Whether it is zero.
    pub(crate) fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether it is below zero.
    pub(crate) fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Whether it has no fraction.
    pub(crate) fn is_whole(self) -> bool {
        self.nanos % NANO == 0
    }

    /// The same amount, rounded up to thousandths, as resources are.
    pub(crate) fn rounded_to_milli(self) -> Self {
        let milli = NANO / 1000;
        let up = i128::from(self.nanos > 0 && self.nanos % milli != 0);
        Self { nanos: (self.nanos / milli + up) * milli, ..self }
    }

    /// So many whole ones.
    pub(crate) fn whole(number: u64) -> Self {
        Self { nanos: (i128::from(number) * NANO).min(MAX_NANOS), notation: Notation::Decimal }
    }

    /// So many bytes: written with binary suffixes, as Kubernetes writes them.
    pub(crate) fn bytes(number: u64) -> Self {
        Self { notation: Notation::Binary, ..Self::whole(number) }
    }

    /// What is left without another amount, zero at least.
    pub(crate) fn less(self, other: Self) -> Self {
        Self { nanos: (self.nanos - other.nanos).max(0), ..self }
    }

    /// This part of it, 0.1 for a tenth, rounded down to a whole number.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "as kubelet does: thresholds are coarse"
    )]
    pub(crate) fn part(self, part: f64) -> Self {
        let whole = (self.value() as f64 * part) as i128;
        Self { nanos: whole.saturating_mul(NANO).clamp(0, MAX_NANOS), ..self }
    }

    /// How many of these it takes to hold it: rounded up. Nothing holds none.
    pub(crate) fn divided_up(self, by: Self) -> u64 {
        if by.nanos <= 0 || self.nanos <= 0 {
            return 0;
        }
        let up = i128::from(self.nanos % by.nanos != 0);
        u64::try_from(self.nanos / by.nanos + up).unwrap_or(u64::MAX)
    }
}

/// The sum is written as the first of the two, unless that is zero.
impl std::ops::Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let notation = if self.is_zero() { other.notation } else { self.notation };
        Self { nanos: (self.nanos + other.nanos).min(MAX_NANOS), notation }
    }
}

impl PartialEq for Amount {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Amount {}

impl PartialOrd for Amount {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Amount {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

/// The canonical form: no fraction, the largest suffix that fits.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        if self.notation == Notation::Binary && self.is_whole() && self.nanos.abs() >= 1024 * NANO {
            let mut number = self.nanos / NANO;
            let mut suffix = "";
            for next in BINARY {
                if number % 1024 != 0 {
                    break;
                }
                number /= 1024;
                suffix = next;
            }
            return write!(f, "{number}{suffix}");
        }
        let mut number = self.nanos;
        let mut step = 0;
        while step + 1 < DECIMAL.len() && number % 1000 == 0 {
            number /= 1000;
            step += 1;
        }
        let (suffix, power) = DECIMAL[step];
        match (self.notation, power) {
            (Notation::Exponent, 9) => write!(f, "{number}"),
            (Notation::Exponent, _) => write!(f, "{number}e{}", i64::from(power) - 9),
            _ => write!(f, "{number}{suffix}"),
        }
    }
}

/// The notation, the power of ten of a unit in billionths, and a factor beside it.
fn suffix_of(suffix: &str) -> Result<(Notation, i64, i128), QuantityError> {
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Ok((Notation::Decimal, i64::from(*power), 1));
    }
    let mut factor = 1;
    for name in BINARY {
        factor *= 1024;
        if name == suffix {
            return Ok((Notation::Binary, 9, factor));
        }
    }
    let exponent = suffix.strip_prefix(['e', 'E']).ok_or(QuantityError)?;
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if digits.is_empty() || digits.len() > 9 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(QuantityError);
    }
    let exponent: i64 = exponent.parse().map_err(|_| QuantityError)?;
    Ok((Notation::Exponent, exponent + 9, 1))
}

/// `whole.fraction` × `factor` × 10^`power`, rounded up, no more than the maximum.
fn scale(whole: &str, fraction: &str, power: i64, factor: i128) -> i128 {
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return 0;
    }
    let mut power = power.saturating_sub(i64::try_from(fraction.len()).unwrap_or(i64::MAX));
    let trimmed = digits.trim_end_matches('0');
    power = power.saturating_add(i64::try_from(digits.len() - trimmed.len()).unwrap_or(0));
    // More digits than these are finer than a billionth or larger than the maximum: only their being there counts.
    let kept = &trimmed[..trimmed.len().min(28)];
    let dropped = trimmed.len() - kept.len();
    power = power.saturating_add(i64::try_from(dropped).unwrap_or(i64::MAX));
    let Some(number) = kept.parse::<i128>().ok().and_then(|number| number.checked_mul(factor)) else {
        return MAX_NANOS;
    };
    let ten = |power: i64| u32::try_from(power).ok().and_then(|power| 10_i128.checked_pow(power));
    if power >= 0 {
        let exact = ten(power).and_then(|ten| number.checked_mul(ten));
        return exact.unwrap_or(MAX_NANOS).saturating_add(i128::from(dropped > 0)).min(MAX_NANOS);
    }
    let Some(divisor) = ten(-power) else { return 1 };
    let up = i128::from(number % divisor != 0 || dropped > 0);
    (number / divisor + up).min(MAX_NANOS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_canonical_forms() {
        let table = [
            ("0", 0, "0"),
            ("1", 1000, "1"),
            ("1.5", 1500, "1500m"),
            ("500m", 500, "500m"),
            ("0.5", 500, "500m"),
            (".5", 500, "500m"),
            ("5.", 5000, "5"),
            ("+2", 2000, "2"),
            ("-2", -2000, "-2"),
            ("1000m", 1000, "1"),
            ("100000", 100_000_000, "100k"),
            ("64Mi", 67_108_864_000, "64Mi"),
            ("1024Mi", 1_073_741_824_000, "1Gi"),
            ("1.5Gi", 1_610_612_736_000, "1536Mi"),
            ("1Ki", 1_024_000, "1Ki"),
            ("0.5Ki", 512_000, "512"),
            ("1e3", 1_000_000, "1e3"),
            ("1E3", 1_000_000, "1e3"),
            ("1e-3", 1, "1e-3"),
            ("12e2", 1_200_000, "1200"),
            ("1E", 1_000_000_000_000_000_000_000, "1E"),
            ("100u", 1, "100u"),
            ("0.1m", 1, "100u"),
            ("1n", 1, "1n"),
            ("0.1n", 1, "1n"),
            ("000128k", 128_000_000, "128k"),
        ];
        for (text, milli, canonical) in table {
            let amount = Amount::parse(text).unwrap();
            assert_eq!(amount.rounded_to_milli().nanos, milli * NANO / 1000, "{text}");
            assert_eq!(amount.to_string(), canonical, "{text}");
            assert_eq!(Amount::parse(canonical), Ok(amount), "{text}");
        }
        assert_eq!(Amount::parse("0.1m").unwrap().rounded_to_milli().to_string(), "1m");
    }

    #[test]
    fn too_large_is_the_maximum() {
        for text in
            ["99999999999999999999", "100E", "1e999999999", "9999999999999999999999999999999999999999Ei"]
        {
            assert_eq!(Amount::parse(text).unwrap().nanos, MAX_NANOS, "{text}");
        }
        assert_eq!(Amount::parse("1e-999999999").unwrap().to_string(), "1e-9");
    }

    #[test]
    fn division_rounds_up() {
        let rows = [
            ("1500m", "1", 2),
            ("1500m", "1m", 1500),
            ("64Mi", "1Mi", 64),
            ("64Mi", "1M", 68),
            ("64Mi", "1", 67_108_864),
            ("1", "1Gi", 1),
            ("0", "1", 0),
            ("-5", "1", 0),
            ("5", "0", 0),
            ("1n", "1", 1),
        ];
        for (amount, by, expect) in rows {
            let amount = Amount::parse(amount).unwrap();
            assert_eq!(amount.divided_up(Amount::parse(by).unwrap()), expect, "{amount} by {by}");
        }
        assert_eq!(Amount::whole(1_024).to_string(), "1024");
        assert_eq!(Amount::whole(u64::MAX).nanos, MAX_NANOS);
    }

    #[test]
    fn not_quantities() {
        for text in [
            "", ".", "-", "m", "Mi", "1 Mi", " 1", "1mm", "1KI", "1ki", "1K", "1e", "1e1.5", "1.2.3", "--1",
            "0x10", "1_0", "١",
        ] {
            assert_eq!(Amount::parse(text), Err(QuantityError), "{text}");
        }
    }

    #[test]
    fn order() {
        let amount = |text| Amount::parse(text).unwrap();
        assert!(amount("1") > amount("999m"));
        assert!(amount("1Ki") > amount("1k"));
        assert_eq!(amount("1Gi"), amount("1024Mi"));
        assert!(amount("-1").is_negative() && amount("0").is_zero() && !amount("1.5").is_whole());
    }
}
