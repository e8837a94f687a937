//! Which boot of the machine this is.

use std::fs;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The kernel's name for the time since the machine booted; empty if it has none.
pub(crate) fn boot_id() -> String {
    fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned()
}
