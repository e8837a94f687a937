//! `/metrics/cadvisor`: cgroups, networks and disks under cAdvisor's names and labels, as far as the kernel tells of them.
//!
//! What only cAdvisor's own counting finds (load averages, states of tasks, descriptors, sockets) is absent.

mod families;
mod machine;

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{
    CgroupReading, ContainerReading, DeviceIo, DiskUsage, FsSize, Interface, PodReading, Pressure, Reading,
};
use crate::status::metrics::as_f64;
use crate::status::metrics::exposition::{FamilyKind, Page};
use crate::status::stats::proc_files::Traffic;
use families::CGROUP_FAMILIES;

const MICROSECONDS: f64 = 1e6;
/// Disks: every family, and what of a device it shows.
const DEVICE_FAMILIES: [(&str, &str, fn(&DeviceIo) -> u64); 4] = [
    ("container_fs_reads_bytes_total", "Cumulative count of bytes read", |io| io.read_bytes),
    ("container_fs_reads_total", "Cumulative count of reads completed", |io| io.reads),
    ("container_fs_writes_bytes_total", "Cumulative count of bytes written", |io| io.written_bytes),
    ("container_fs_writes_total", "Cumulative count of writes completed", |io| io.writes),
];
const RECEIVED: [(&str, &str, fn(&Traffic) -> u64); 4] = [
    ("container_network_receive_bytes_total", "Cumulative count of bytes received", |t| t.bytes),
    (
        "container_network_receive_errors_total",
        "Cumulative count of errors encountered while receiving",
        |t| t.errors,
    ),
    (
        "container_network_receive_packets_dropped_total",
        "Cumulative count of packets dropped while receiving",
        |t| t.dropped,
    ),
    ("container_network_receive_packets_total", "Cumulative count of packets received", |t| t.packets),
];
const SENT: [(&str, &str, fn(&Traffic) -> u64); 4] = [
    ("container_network_transmit_bytes_total", "Cumulative count of bytes transmitted", |t| t.bytes),
    (
        "container_network_transmit_errors_total",
        "Cumulative count of errors encountered while transmitting",
        |t| t.errors,
    ),
    (
        "container_network_transmit_packets_dropped_total",
        "Cumulative count of packets dropped while transmitting",
        |t| t.dropped,
    ),
    ("container_network_transmit_packets_total", "Cumulative count of packets transmitted", |t| t.packets),
];

/// The labels that every series has.
#[derive(Debug, Clone, Copy, Default)]
struct Who<'a> {
    container: &'a str,
    id: &'a str,
    image: &'a str,
    name: &'a str,
    namespace: &'a str,
    pod: &'a str,
}

impl<'a> Who<'a> {
    fn of_cgroup(cgroup: &'a CgroupReading) -> Self {
        Self { id: &cgroup.path, ..Self::default() }
    }

    fn of_pod(pod: &'a PodReading, cgroup: &'a CgroupReading) -> Self {
        Self { namespace: &pod.name.namespace, pod: &pod.name.name, ..Self::of_cgroup(cgroup) }
    }

    fn of_container(pod: &'a PodReading, one: &'a ContainerReading) -> Self {
        Self { container: &one.name, image: &one.image, name: &one.id, ..Self::of_pod(pod, &one.usage) }
    }

    fn labels(&self) -> [(&'static str, &'a str); 6] {
        [
            ("container", self.container),
            ("id", self.id),
            ("image", self.image),
            ("name", self.name),
            ("namespace", self.namespace),
            ("pod", self.pod),
        ]
    }

    /// With one more.
    fn and(&self, key: &'static str, value: &'a str) -> [(&'static str, &'a str); 7] {
        let [a, b, c, d, e, f] = self.labels();
        [a, b, c, d, e, f, (key, value)]
    }
}

/// The page; of a reading that failed it tells only that.
pub(crate) fn render(reading: Option<&Reading>) -> String {
    let mut page = Page::default();
    if let Some(reading) = reading {
        machine::render(&mut page, &reading.node.machine);
        render_cgroups(&mut page, reading);
        render_disks(&mut page, reading);
        render_network(&mut page, reading);
        render_containers(&mut page, reading);
    }
    let failed = if reading.is_some() { 0.0 } else { 1.0 };
    for (name, help) in [
        ("container_scrape_error", "1 if there was an error while getting container metrics, 0 otherwise"),
        ("machine_scrape_error", "1 if there was an error while getting machine metrics, 0 otherwise."),
    ] {
        page.family(name, FamilyKind::Gauge, help);
        page.sample(&[], failed);
    }
    page.into_text()
}

/// Every cgroup once, with its labels.
fn cgroups(reading: &Reading) -> Vec<(Who<'_>, &CgroupReading)> {
    let node = &reading.node;
    let above = [&node.all].into_iter().chain(&node.groups).map(|one| (Who::of_cgroup(one), one));
    let mut all: Vec<_> = above.collect();
    for pod in &reading.pods {
        all.extend(pod.all.as_ref().map(|cgroup| (Who::of_pod(pod, cgroup), cgroup)));
        all.extend(
            pod.sandbox.as_ref().map(|sandbox| {
                (Who { name: &sandbox.id, ..Who::of_pod(pod, &sandbox.usage) }, &sandbox.usage)
            }),
        );
        all.extend(pod.containers.iter().map(|one| (Who::of_container(pod, one), &one.usage)));
    }
    // Two of one path would be the same series twice: of cgroups above pods, and of what has no cgroup of its own.
    let mut seen = BTreeMap::new();
    all.retain(|(who, _)| seen.insert((who.id, who.name), ()).is_none());
    all
}

fn render_cgroups(page: &mut Page, reading: &Reading) {
    let all = cgroups(reading);
    for (name, kind, help, figure) in CGROUP_FAMILIES {
        page.family(name, *kind, help);
        for (who, cgroup) in &all {
            if let Some(value) = figure(&cgroup.usage) {
                page.sample_at(&who.labels(), value, reading.at);
            }
        }
    }
    page.family(
        "container_cpu_usage_seconds_total",
        FamilyKind::Counter,
        "Cumulative cpu time consumed in seconds.",
    );
    for (who, cgroup) in &all {
        if let Some(cpu) = &cgroup.usage.cpu {
            page.sample_at(&who.and("cpu", "total"), as_f64(cpu.total) / 1e9, reading.at);
        }
    }
    page.family(
        "container_memory_failures_total",
        FamilyKind::Counter,
        "Cumulative count of memory allocation failures.",
    );
    for (who, cgroup) in &all {
        let Some(memory) = &cgroup.usage.memory else { continue };
        for (kind, count) in [("pgfault", memory.page_faults), ("pgmajfault", memory.major_page_faults)] {
            let [a, b, c, d, e, f, g] = who.and("scope", "hierarchy");
            page.sample_at(&[a, ("failure_type", kind), b, c, d, e, f, g], as_f64(count), reading.at);
        }
    }
    render_pressure(page, &all, reading.at);
}

fn render_pressure(page: &mut Page, all: &[(Who<'_>, &CgroupReading)], at: Timestamp) {
    type Of = fn(&CgroupReading) -> Option<Pressure>;
    let rows: [(&'static str, &'static str, &str, Of); 3] = [
        (
            "container_pressure_cpu_stalled_seconds_total",
            "container_pressure_cpu_waiting_seconds_total",
            "CPU",
            |of| of.usage.cpu.as_ref()?.pressure,
        ),
        (
            "container_pressure_io_stalled_seconds_total",
            "container_pressure_io_waiting_seconds_total",
            "IO",
            |of| of.usage.io_pressure,
        ),
        (
            "container_pressure_memory_stalled_seconds_total",
            "container_pressure_memory_waiting_seconds_total",
            "memory",
            |of| of.usage.memory.as_ref()?.pressure,
        ),
    ];
    for (stalled, waiting, what, pressure) in rows {
        let help = format!(
            "Total time duration no tasks in the container could make progress due to {what} congestion."
        );
        page.family(stalled, FamilyKind::Counter, &help);
        for (who, of) in all {
            if let Some(pressure) = pressure(of) {
                page.sample_at(&who.labels(), as_f64(pressure.full.total) / MICROSECONDS, at);
            }
        }
        let help =
            format!("Total time duration tasks in the container have waited due to {what} congestion.");
        page.family(waiting, FamilyKind::Counter, &help);
        for (who, of) in all {
            if let Some(pressure) = pressure(of) {
                page.sample_at(&who.labels(), as_f64(pressure.some.total) / MICROSECONDS, at);
            }
        }
    }
}

fn render_disks(page: &mut Page, reading: &Reading) {
    let devices = &reading.node.machine.devices;
    let all = cgroups(reading);
    for (name, help, count) in DEVICE_FAMILIES {
        page.family(name, FamilyKind::Counter, help);
        for (who, cgroup) in &all {
            for io in &cgroup.usage.io {
                let device = devices.get(&io.device).unwrap_or(&io.device);
                page.sample_at(&who.and("device", device), as_f64(count(io)), reading.at);
            }
        }
    }
    // The device is not known: a file system need not have one.
    type Figure = fn(&FsSize, &DiskUsage) -> Option<u64>;
    let rows: [(&'static str, &str, Figure); 4] = [
        ("container_fs_inodes_free", "Number of available Inodes", |size, _| Some(size.inodes_free)),
        ("container_fs_inodes_total", "Number of Inodes", |size, _| Some(size.inodes)),
        (
            "container_fs_limit_bytes",
            "Number of bytes that can be consumed by the container on this filesystem.",
            |size, _| Some(size.capacity),
        ),
        (
            "container_fs_usage_bytes",
            "Number of bytes that are consumed by the container on this filesystem.",
            |_, used| used.bytes,
        ),
    ];
    for (name, help, figure) in rows {
        page.family(name, FamilyKind::Gauge, help);
        let node = &reading.node;
        let whole = node.fs.map(|fs| (Who::of_cgroup(&node.all), fs.size, fs.used));
        let layers = reading.pods.iter().flat_map(|pod| {
            pod.containers
                .iter()
                .filter_map(move |one| Some((Who::of_container(pod, one), node.image_fs?.size, one.layer?)))
        });
        for (who, size, used) in whole.into_iter().chain(layers) {
            if let Some(value) = figure(&size, &used) {
                page.sample_at(&who.and("device", ""), as_f64(value), reading.at);
            }
        }
    }
}

fn render_network(page: &mut Page, reading: &Reading) {
    let node = &reading.node;
    let mut all = vec![(Who::of_cgroup(&node.all), &node.network[..])];
    for pod in &reading.pods {
        let holder = match (&pod.sandbox, &pod.all) {
            (Some(sandbox), _) => Who { name: &sandbox.id, ..Who::of_pod(pod, &sandbox.usage) },
            (None, Some(all)) => Who::of_pod(pod, all),
            (None, None) => continue,
        };
        all.push((holder, &pod.network[..]));
    }
    let mut render = |name, help, count: &dyn Fn(&Interface) -> u64| {
        page.family(name, FamilyKind::Counter, help);
        for (who, interfaces) in &all {
            for interface in *interfaces {
                page.sample_at(&who.and("interface", &interface.name), as_f64(count(interface)), reading.at);
            }
        }
    };
    for (name, help, count) in RECEIVED {
        render(name, help, &|interface| count(&interface.received));
    }
    for (name, help, count) in SENT {
        render(name, help, &|interface| count(&interface.sent));
    }
}

fn render_containers(page: &mut Page, reading: &Reading) {
    page.family("container_last_seen", FamilyKind::Gauge, "Last time a container was seen by the exporter");
    for (who, _) in cgroups(reading) {
        page.sample_at(&who.labels(), reading.at.as_duration().as_secs_f64().floor(), reading.at);
    }
    page.family(
        "container_start_time_seconds",
        FamilyKind::Gauge,
        "Start time of the container since unix epoch in seconds.",
    );
    for pod in &reading.pods {
        for one in &pod.containers {
            let since = one.started_at.as_duration().as_secs_f64();
            page.sample(&Who::of_container(pod, one).labels(), since);
        }
    }
}
