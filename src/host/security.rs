//! What the kernel can hold containers to.

use std::fs;
use std::path::Path;

use crate::pod::security::admission::{KernelVersion, NodeSecurity};

/// Asks the kernel, once: to load or unload AppArmor or SELinux takes a boot.
pub(crate) fn node_security(unsafe_sysctls: Vec<String>, seccomp_default: bool) -> NodeSecurity {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    NodeSecurity {
        kernel: KernelVersion::parse(&read("/proc/sys/kernel/osrelease")),
        has_apparmor: Path::new("/sys/kernel/security/apparmor").exists()
            && read("/sys/module/apparmor/parameters/enabled").starts_with('Y'),
        has_selinux: Path::new("/sys/fs/selinux/enforce").exists(),
        masked_paths: thermal_paths(),
        unsafe_sysctls,
        seccomp_default,
    }
}

/// How often each core got too hot: kubelet masks it where there is such a thing, as it tells one pod of others.
fn thermal_paths() -> Vec<String> {
    let cores = fs::read_dir("/sys/devices/system/cpu").into_iter().flatten().flatten();
    let mut numbers: Vec<u32> = cores
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("cpu")?.parse().ok())
        .filter(|number| Path::new(&thermal_path(*number)).exists())
        .collect();
    numbers.sort_unstable();
    numbers.into_iter().map(thermal_path).collect()
}

fn thermal_path(core: u32) -> String {
    format!("/sys/devices/system/cpu/cpu{core}/thermal_throttle")
}
