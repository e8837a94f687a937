//! What the machine is.

use crate::status::metrics::as_f64;
use crate::status::metrics::exposition::{FamilyKind, Page};
use crate::status::stats::Machine;

/// Writes what the machine is.
pub(super) fn render(page: &mut Page, machine: &Machine) {
    page.family(
        "cadvisor_version_info",
        FamilyKind::Gauge,
        "A metric with a constant '1' value labeled by kernel version, OS version, docker version, cadvisor version & \
         cadvisor revision.",
    );
    let info = [
        ("cadvisorRevision", ""),
        ("cadvisorVersion", ""),
        ("dockerVersion", ""),
        ("kernelVersion", &*machine.kernel),
        ("osVersion", &*machine.os),
    ];
    page.sample(&info, 1.0);
    let labels = [
        ("boot_id", &*machine.boot_id),
        ("machine_id", &*machine.machine_id),
        ("system_uuid", &*machine.system_uuid),
    ];
    for (name, help, value) in [
        ("machine_cpu_cores", "Number of logical CPU cores.", machine.cores),
        ("machine_cpu_physical_cores", "Number of physical CPU cores.", machine.physical_cores),
        ("machine_cpu_sockets", "Number of CPU sockets.", machine.sockets),
        ("machine_memory_bytes", "Amount of memory installed on the machine.", machine.memory),
        ("machine_swap_bytes", "Amount of swap memory available on the machine.", machine.swap),
    ] {
        page.family(name, FamilyKind::Gauge, help);
        page.sample(&labels, as_f64(value));
    }
}
