//! What the node has: cores, memory, disk. Blocking.

use std::path::Path;

use crate::pod::quantity::Amount;
use crate::pod::resource_field::NodeCapacity;

use super::files::{FileError, on};
use super::machine::memory_capacity;

/// Reads what the node has; disk is that of the file system of `root`.
pub(crate) fn read_capacity(root: &Path) -> Result<NodeCapacity, FileError> {
    let memory = u64::try_from(memory_capacity()).unwrap_or_default();
    let disk = rustix::fs::statvfs(root).map_err(|error| on("cannot examine", root)(error.into()))?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(NodeCapacity {
        cpu: Amount::whole(u64::try_from(cores).unwrap_or(1)),
        memory: Amount::whole(memory),
        ephemeral_storage: Amount::whole(disk.f_blocks.saturating_mul(disk.f_frsize)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_something() {
        let found = read_capacity(Path::new("/")).unwrap();
        assert!(!found.cpu.is_zero() && !found.memory.is_zero() && !found.ephemeral_storage.is_zero());
    }
}
