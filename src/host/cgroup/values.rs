//! What is written into the files of a cgroup, on v1 and v2. Pure.

use crate::pod::resources::PodFigures;

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
pub(super) fn shares_value(shares: i64, unified: bool) -> Value {
    let shares = shares.clamp(2, 262_144);
    if unified {
        value("cpu", "cpu.weight", 1 + (shares - 2) * 9999 / 262_142)
    } else {
        value("cpu", "cpu.shares", shares)
    }
}

/// All that the cgroup of a pod is given.
pub(super) fn pod_values(figures: &PodFigures, unified: bool) -> Vec<Value> {
    let mut values = vec![shares_value(figures.cpu_shares, unified)];
    match figures.cpu_quota {
        Some((quota, period)) if unified => values.push(value("cpu", "cpu.max", format!("{quota} {period}"))),
        Some((quota, period)) => {
            values.push(value("cpu", "cpu.cfs_period_us", period));
            values.push(value("cpu", "cpu.cfs_quota_us", quota));
        }
        None => {}
    }
    // Without a limit the cgroup is made all the same, so that the memory of a pod can be read.
    let memory = if unified { "memory.max" } else { "memory.limit_in_bytes" };
    let no_limit = if unified { "max" } else { "-1" };
    let text = figures.memory_limit.map_or(no_limit.to_owned(), |limit| limit.to_string());
    values.push(Value { may_be_missing: figures.memory_limit.is_none(), ..value("memory", memory, text) });
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
