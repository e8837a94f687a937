//! What is written into the files of a cgroup, on v1 and v2. Pure.

use crate::host::systemd::Property;
use crate::pod::resources::PodFigures;

/// systemd keeps quotas in hundredths of a CPU.
const SYSTEMD_QUOTA_STEP: u64 = 10_000;
const SECOND: u64 = 1_000_000;
/// systemd's own, which every version of it has.
const DEFAULT_PERIOD: i64 = 100_000;

/// The controllers that pods need.
const CONTROLLERS: [&str; 6] = ["cpu", "cpuset", "hugetlb", "io", "memory", "pids"];

/// One file of a cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) controller: &'static str,
    pub(super) file: String,
    pub(super) text: String,
    /// Whether it is left out where the kernel has no such file.
    pub(super) may_be_missing: bool,
}

fn value(controller: &'static str, file: impl Into<String>, text: impl ToString) -> Value {
    Value { controller, file: file.into(), text: text.to_string(), may_be_missing: false }
}

/// CPU shares, on v2 as a weight.
fn shares_value(shares: i64, unified: bool) -> Value {
    let shares = shares.clamp(2, 262_144);
    if unified { value("cpu", "cpu.weight", weight(shares)) } else { value("cpu", "cpu.shares", shares) }
}

/// What systemd is told of a slice beside its values, as libcontainer tells it.
pub(super) fn slice_properties(unit: &str, parent: &str, unified: bool) -> Vec<Property> {
    let io = if unified { "IOAccounting" } else { "BlockIOAccounting" };
    let mut properties = vec![
        Property::Text("Description", format!("rkubelet: pods in {unit}")),
        Property::Units("Wants", vec![parent.to_owned()]),
    ];
    let yes = ["MemoryAccounting", "CPUAccounting", io, "TasksAccounting"];
    properties.extend(yes.map(|name| Property::Bool(name, true)));
    properties.push(Property::Bool("DefaultDependencies", false));
    properties
}

/// The values of a slice as systemd's properties. What systemd has no property for (huge pages) is in the files alone.
pub(super) fn slice_values(figures: &PodFigures, unified: bool) -> Vec<Property> {
    let number = |value: i64| u64::try_from(value).unwrap_or(u64::MAX);
    let mut properties = Vec::new();
    let mut add = |name, value: Option<u64>| properties.extend(value.map(|value| Property::U64(name, value)));
    if unified {
        add("CPUWeight", figures.cpu_shares.map(|shares| number(weight(shares))));
        add("MemoryMax", figures.memory_limit.map(number));
    } else {
        add("CPUShares", figures.cpu_shares.map(number));
        add("MemoryLimit", figures.memory_limit.map(number));
    }
    if let Some((quota, period)) = figures.cpu_quota {
        add("CPUQuotaPeriodUSec", Some(number(period)).filter(|_| period != DEFAULT_PERIOD));
        add("CPUQuotaPerSecUSec", Some(quota_per_second(quota, period)));
    }
    // systemd takes no zero.
    add("TasksMax", figures.pids_limit.map(|limit| number(limit).max(1)));
    properties
}

/// The figures with a quota that systemd can keep: it rounds, and would undo what the files say.
pub(super) fn for_systemd(mut figures: PodFigures) -> PodFigures {
    if let Some((quota, period)) = &mut figures.cpu_quota {
        let per_second = quota_per_second(*quota, *period);
        let exact = per_second.saturating_mul(u64::try_from(*period).unwrap_or(0)) / SECOND;
        *quota = i64::try_from(exact).unwrap_or(*quota);
    }
    figures
}

fn quota_per_second(quota: i64, period: i64) -> u64 {
    let (quota, period) = (u64::try_from(quota).unwrap_or(0), u64::try_from(period).unwrap_or(0).max(1));
    (quota.saturating_mul(SECOND) / period).next_multiple_of(SYSTEMD_QUOTA_STEP)
}

/// The weight on v2 for shares, as kubelet converts them.
pub(super) fn weight(shares: i64) -> i64 {
    1 + (shares.clamp(2, 262_144) - 2) * 9999 / 262_142
}

/// About the shares of which a weight was made.
pub(super) fn shares_for(weight: i64) -> i64 {
    2 + (weight - 1) * 262_142 / 9999
}

/// All that the cgroup of a pod is given.
pub(super) fn pod_values(figures: &PodFigures, unified: bool) -> Vec<Value> {
    let mut values: Vec<_> =
        figures.cpu_shares.map(|shares| shares_value(shares, unified)).into_iter().collect();
    match figures.cpu_quota {
        Some((quota, period)) if unified => values.push(value("cpu", "cpu.max", format!("{quota} {period}"))),
        Some((quota, period)) => {
            values.push(value("cpu", "cpu.cfs_period_us", period));
            values.push(value("cpu", "cpu.cfs_quota_us", quota));
        }
        None => {}
    }
    let memory = if unified { "memory.max" } else { "memory.limit_in_bytes" };
    values.extend(figures.memory_limit.map(|limit| value("memory", memory, limit)));
    values.extend(figures.pids_limit.map(|limit| value("pids", "pids.max", limit)));
    let suffix = if unified { "max" } else { "limit_in_bytes" };
    values.extend(figures.huge_page_limits.iter().map(|(size, limit)| Value {
        may_be_missing: *limit == 0,
        ..value("hugetlb", format!("hugetlb.{size}.{suffix}"), limit)
    }));
    values
}

/// The controllers that a cgroup has and does not pass on, of those that pods need.
pub(super) fn missing_controllers(has: &str, passes: &str) -> Vec<&'static str> {
    let among = |list: &str, name: &str| list.split_whitespace().any(|word| word == name);
    CONTROLLERS.into_iter().filter(|name| among(has, name) && !among(passes, name)).collect()
}

#[cfg(test)]
mod tests;
