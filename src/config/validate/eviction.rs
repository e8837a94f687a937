//! Eviction: thresholds, grace periods and minimum reclaims, by signal. Pure.

use super::Checks;
use crate::pod::quantity::Amount;
use crate::text::suggest::nearest;
use crate::time::duration::parse_duration;

const SIGNALS: [&str; 9] = [
    "allocatableMemory.available",
    "containerfs.available",
    "containerfs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "pid.available",
];

/// Checks the fields that begin with `eviction`.
pub(super) fn check(checks: &mut Checks<'_>) {
    for (field, check_value) in [
        ("evictionHard", threshold as fn(&str) -> Result<(), &'static str>),
        ("evictionSoft", threshold),
        ("evictionSoftGracePeriod", grace_period),
        ("evictionMinimumReclaim", minimum_reclaim),
    ] {
        for (signal, value) in checks.pairs(field) {
            if let Some(reason) = unknown_signal(signal) {
                checks.refuse(field, reason);
            } else if let Err(reason) = check_value(value) {
                checks.refuse(field, format!("{signal}: {value:?} {reason}"));
            }
        }
    }
    for (signal, value) in checks.pairs("evictionSoft") {
        let is_off = value == "0%" || value == "100%";
        if !is_off && !checks.pairs("evictionSoftGracePeriod").any(|(known, _)| known == signal) {
            let other = super::name("evictionSoftGracePeriod");
            checks.refuse("evictionSoft", format!("{signal} needs a grace period in {other}"));
        }
    }
}

fn unknown_signal(signal: &str) -> Option<String> {
    if SIGNALS.contains(&signal) {
        return None;
    }
    let hint =
        nearest(signal, SIGNALS.into_iter()).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
    Some(format!("{signal:?} is not an eviction signal{hint}"))
}

fn threshold(value: &str) -> Result<(), &'static str> {
    match percentage(value) {
        Some(Some(percent)) if (0.0..=100.0).contains(&percent) => Ok(()),
        Some(_) => Err("is not a percentage from 0% to 100%"),
        None => match Amount::parse(value) {
            Ok(amount) if !amount.is_zero() && !amount.is_negative() => Ok(()),
            _ => Err("is not a quantity such as 100Mi, greater than zero, or a percentage such as 5%"),
        },
    }
}

fn grace_period(value: &str) -> Result<(), &'static str> {
    match parse_duration(value) {
        Some(0..) => Ok(()),
        _ => Err("is not a duration such as 1m30s, zero or longer"),
    }
}

fn minimum_reclaim(value: &str) -> Result<(), &'static str> {
    match percentage(value) {
        Some(Some(percent)) if percent > 0.0 => Ok(()),
        Some(_) => Err("is not a percentage greater than zero"),
        None => match Amount::parse(value) {
            Ok(amount) if !amount.is_negative() => Ok(()),
            _ => Err("is not a quantity such as 100Mi, or a percentage such as 5%"),
        },
    }
}

/// The number before `%`, if the text ends so; inside, none if that is no number.
fn percentage(value: &str) -> Option<Option<f32>> {
    let number = value.ends_with('%').then(|| value.trim_end_matches('%'))?;
    Some(number.parse().ok())
}
