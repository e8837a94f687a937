//! What the node has: cores, memory, disk. Blocking.

use std::path::Path;

use crate::pod::quantity::Amount;
use crate::pod::resource_field::NodeCapacity;

use super::files::{FileError, on, read_text};

const MEMINFO: &str = "/proc/meminfo";

/// Reads what the node has; disk is that of the file system of `root`.
pub(crate) fn read_capacity(root: &Path) -> Result<NodeCapacity, FileError> {
    let memory = total_memory(&read_text(Path::new(MEMINFO))?);
    let disk = rustix::fs::statvfs(root).map_err(|error| on("cannot examine", root)(error.into()))?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(NodeCapacity {
        cpu: Amount::whole(u64::try_from(cores).unwrap_or(1)),
        memory: Amount::whole(memory),
        ephemeral_storage: Amount::whole(disk.f_blocks.saturating_mul(disk.f_frsize)),
    })
}

/// The total of a meminfo file, in bytes.
fn total_memory(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_something() {
        let found = read_capacity(Path::new("/")).unwrap();
        assert!(!found.cpu.is_zero() && !found.memory.is_zero() && !found.ephemeral_storage.is_zero());
        assert_eq!(total_memory("MemTotal:       2048 kB\nMemFree: 1 kB\n"), 2_097_152);
        assert_eq!(total_memory("nothing"), 0);
    }
}
