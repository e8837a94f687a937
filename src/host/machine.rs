//! What the machine has: CPUs, memory, disk, huge pages, process IDs, cgroups.

use std::fs;
use std::io;
use std::path::Path;

use super::cgroup::mounts::Hierarchies;
use super::files::{FileError, on};
use crate::pod::cpu_set::CpuSet;
use crate::pod::node_allocatable::{PID, ResourceAmounts};
use crate::pod::quantity::Amount;
use crate::pod::resource_field::NodeCapacity;
use crate::pod::resources::HugePageSize;

const HUGE_PAGES: &str = "/sys/kernel/mm/hugepages";

/// The machine's memory in bytes; 0 if the kernel does not say.
pub(crate) fn memory_capacity() -> i64 {
    parse_memory(&fs::read_to_string("/proc/meminfo").unwrap_or_default())
}

/// What the node has of each resource; disk is that of the file system of `root`, `pods` is configured.
pub(crate) fn node_capacity(root: &Path, pods: impl Fn(u64) -> Amount) -> ResourceAmounts {
    let (cores, memory) = (cores(), memory_bytes());
    let disk = disk_bytes(root).unwrap_or(0);
    let mut all = vec![
        ("cpu".to_owned(), Amount::whole(cores)),
        ("memory".to_owned(), Amount::bytes(memory)),
        ("ephemeral-storage".to_owned(), Amount::bytes(disk)),
        ("pods".to_owned(), pods(cores)),
    ];
    all.extend(pid_capacity().map(|pids| (PID.to_owned(), Amount::whole(pids))));
    for size in huge_page_sizes() {
        let bytes = u64::try_from(size.bytes).unwrap_or(0);
        let dir = format!("{HUGE_PAGES}/hugepages-{}kB", bytes / 1024);
        let count = number_in(&format!("{dir}/nr_hugepages")).unwrap_or(0);
        let name = format!("hugepages-{}", Amount::bytes(bytes));
        all.push((name, Amount::bytes(bytes.saturating_mul(count))));
    }
    all.into_iter().collect()
}

/// What the node has of that which containers can be told; disk is that of the file system of `root`.
pub(crate) fn read_capacity(root: &Path) -> Result<NodeCapacity, FileError> {
    let disk = disk_bytes(root).map_err(on("cannot examine", root))?;
    Ok(NodeCapacity {
        cpu: Amount::whole(cores()),
        memory: Amount::whole(memory_bytes()),
        ephemeral_storage: Amount::whole(disk),
    })
}

fn cores() -> u64 {
    u64::try_from(online_cpus().len()).unwrap_or(1)
}

fn memory_bytes() -> u64 {
    u64::try_from(memory_capacity()).unwrap_or(0)
}

fn disk_bytes(root: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(root)?;
    Ok(disk.f_blocks.saturating_mul(disk.f_frsize))
}

/// The CPUs that are online, by number.
pub(crate) fn online_cpus() -> CpuSet {
    let listed = fs::read_to_string("/sys/devices/system/cpu/online").ok();
    let cpus = listed.and_then(|text| CpuSet::parse(&text)).filter(|cpus| cpus.len() > 0);
    // Without it, as many as this process may use.
    cpus.unwrap_or_else(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        (0..u32::try_from(cores).unwrap_or(1)).collect()
    })
}

/// How many processes there can be.
pub(crate) fn pid_capacity() -> Option<u64> {
    let limits = ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"];
    limits.into_iter().filter_map(number_in).min()
}

fn number_in(file: &str) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The sizes of huge pages, the smallest first.
pub(crate) fn huge_page_sizes() -> Vec<HugePageSize> {
    let entries = fs::read_dir(HUGE_PAGES).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut sizes: Vec<_> = names.filter_map(|name| parse_huge_page_size(&name)).collect();
    sizes.sort_by_key(|size| size.bytes);
    sizes
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
    fn this_machine_has_something() {
        let found = node_capacity(Path::new("/"), |cores| Amount::whole(cores * 2));
        for name in ["cpu", "memory", "ephemeral-storage", "pods", "pid"] {
            assert!(!found[name].is_zero(), "{name}");
        }
        assert_eq!(found["pods"], found["cpu"] + found["cpu"]);
        let told = read_capacity(Path::new("/")).unwrap();
        for (name, amount) in
            [("cpu", told.cpu), ("memory", told.memory), ("ephemeral-storage", told.ephemeral_storage)]
        {
            assert_eq!(found[name], amount, "{name}");
        }
        assert!(read_capacity(Path::new("/nowhere")).is_err());
    }

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
