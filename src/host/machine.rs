//! What the machine has: memory, sizes of huge pages, cgroups.

use std::fs;
use std::path::Path;

use super::cgroup::mounts::Hierarchies;
use crate::pod::resources::HugePageSize;

/// The machine's memory in bytes; 0 if the kernel does not say.
pub(crate) fn memory_capacity() -> i64 {
    parse_memory(&fs::read_to_string("/proc/meminfo").unwrap_or_default())
}

/// The sizes of huge pages, the smallest first.
pub(crate) fn huge_page_sizes() -> Vec<HugePageSize> {
    let entries = fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut sizes: Vec<_> = names.filter_map(|name| parse_huge_page_size(&name)).collect();
    sizes.sort_by_key(|size| size.bytes);
    sizes
}

/// How many bytes of huge pages there are, by the name of the resource: `hugepages-2Mi`.
pub(crate) fn huge_page_capacity() -> Vec<(String, i64)> {
    let entries = fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
    let each = entries.filter_map(|entry| {
        let count = fs::read_to_string(entry.path().join("nr_hugepages")).unwrap_or_default();
        let size = parse_huge_page_size(entry.file_name().to_str()?)?;
        // Kubernetes writes Mi where cgroups write MB.
        let name = format!("hugepages-{}i", size.name.trim_end_matches('B'));
        Some((name, size.bytes.saturating_mul(count.trim().parse().unwrap_or(0))))
    });
    each.collect()
}

/// The cgroup hierarchies that are mounted.
pub(crate) fn cgroup_hierarchies() -> Hierarchies {
    Hierarchies::parse(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
}

/// Whether cgroups can limit swap.
pub(crate) fn has_swap_controller(hierarchies: &Hierarchies) -> bool {
    let Some(memory) = hierarchies.point_of("memory") else { return false };
    if !hierarchies.is_unified() {
        return memory.join("memory.memsw.limit_in_bytes").exists();
    }
    // The root has no such file; the agent's own cgroup has.
    let cgroups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = cgroups.lines().find_map(|line| line.strip_prefix("0::/")).map(Path::new);
    own.is_some_and(|own| memory.join(own).join("memory.swap.max").exists())
}

fn parse_memory(meminfo: &str) -> i64 {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|text| text.trim().trim_end_matches("kB").trim().parse::<i64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

/// From the name of a directory such as `hugepages-2048kB`.
fn parse_huge_page_size(name: &str) -> Option<HugePageSize> {
    let kib: i64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
    let units = [(1 << 20, "GB"), (1 << 10, "MB"), (1, "KB")];
    let (unit, suffix) = units.into_iter().find(|(unit, _)| kib % unit == 0)?;
    Some(HugePageSize { bytes: kib.checked_mul(1024)?, name: format!("{}{suffix}", kib / unit) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_from_the_kernels_words() {
        assert_eq!(parse_memory("MemFree: 1 kB\nMemTotal:       2048 kB\n"), 2 << 20);
        assert_eq!(parse_memory(""), 0);
        for (name, expect) in [
            ("hugepages-2048kB", Some((2 << 20, "2MB"))),
            ("hugepages-1048576kB", Some((1 << 30, "1GB"))),
            ("hugepages-64kB", Some((64 << 10, "64KB"))),
            ("other", None),
        ] {
            let found = parse_huge_page_size(name);
            assert_eq!(found.map(|size| (size.bytes, size.name)), expect.map(|(b, n)| (b, n.to_owned())));
        }
    }
}
