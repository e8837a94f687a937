//! `/metrics/resource`: CPU, memory and swap, under kubelet's names; what autoscalers read.

use super::{CgroupReading, MemoryUsage, Reading};
use crate::status::metrics::as_f64;
use crate::status::metrics::exposition::{FamilyKind, Page};

const NANOSECONDS: f64 = 1e9;

/// A figure of a cgroup.
type Figure = fn(&CgroupReading) -> Option<f64>;

/// The page; of a reading that failed it tells only that.
pub(crate) fn render(reading: Option<&Reading>) -> String {
    let mut page = Page::default();
    if let Some(reading) = reading {
        render_containers(&mut page, reading);
        render_nodes_and_pods(&mut page, reading);
    }
    let failed = if reading.is_some() { 0.0 } else { 1.0 };
    page.family(
        "resource_scrape_error",
        FamilyKind::Gauge,
        "1 if there was an error while getting container metrics, 0 otherwise",
    );
    page.sample(&[], failed);
    page.family(
        "scrape_error",
        FamilyKind::Gauge,
        "1 if there was an error while getting container metrics, 0 otherwise",
    );
    page.sample(&[], failed);
    page.into_text()
}

fn render_containers(page: &mut Page, reading: &Reading) {
    let rows: [(&'static str, FamilyKind, &str, Figure); 4] = [
        (
            "container_cpu_usage_seconds_total",
            FamilyKind::Counter,
            "Cumulative cpu time consumed by the container in core-seconds",
            cpu,
        ),
        (
            "container_memory_working_set_bytes",
            FamilyKind::Gauge,
            "Current working set of the container in bytes",
            working_set,
        ),
        (
            "container_swap_limit_bytes",
            FamilyKind::Gauge,
            "Current amount of the container swap limit in bytes",
            swap_limit,
        ),
        (
            "container_swap_usage_bytes",
            FamilyKind::Gauge,
            "Current amount of the container swap usage in bytes",
            swap,
        ),
    ];
    let containers = || reading.pods.iter().flat_map(|pod| pod.containers.iter().map(move |one| (pod, one)));
    for (name, kind, help, figure) in rows {
        page.family(name, kind, help);
        for (pod, container) in containers() {
            if let Some(value) = figure(&container.usage) {
                let labels = [
                    ("container", &*container.name),
                    ("namespace", &*pod.name.namespace),
                    ("pod", &*pod.name.name),
                ];
                page.sample_at(&labels, value, reading.at);
            }
        }
    }
    page.family(
        "container_start_time_seconds",
        FamilyKind::Gauge,
        "Start time of the container since unix epoch in seconds",
    );
    for (pod, container) in containers() {
        let labels =
            [("container", &*container.name), ("namespace", &*pod.name.namespace), ("pod", &*pod.name.name)];
        page.sample(&labels, container.started_at.as_duration().as_secs_f64());
    }
}

fn render_nodes_and_pods(page: &mut Page, reading: &Reading) {
    let rows: [(&'static str, &'static str, FamilyKind, &str, Figure); 3] = [
        (
            "node_cpu_usage_seconds_total",
            "pod_cpu_usage_seconds_total",
            FamilyKind::Counter,
            "Cumulative cpu time consumed in core-seconds",
            cpu,
        ),
        (
            "node_memory_working_set_bytes",
            "pod_memory_working_set_bytes",
            FamilyKind::Gauge,
            "Current working set in bytes",
            working_set,
        ),
        (
            "node_swap_usage_bytes",
            "pod_swap_usage_bytes",
            FamilyKind::Gauge,
            "Current swap usage in bytes",
            swap,
        ),
    ];
    for (of_node, of_pod, kind, help, figure) in rows {
        page.family(of_node, kind, help);
        if let Some(value) = figure(&reading.node.all) {
            page.sample_at(&[], value, reading.at);
        }
        page.family(of_pod, kind, help);
        for pod in &reading.pods {
            if let Some(value) = pod.all.as_ref().and_then(figure) {
                let labels = [("namespace", &*pod.name.namespace), ("pod", &*pod.name.name)];
                page.sample_at(&labels, value, reading.at);
            }
        }
    }
}

fn cpu(of: &CgroupReading) -> Option<f64> {
    of.usage.cpu.as_ref().map(|cpu| as_f64(cpu.total) / NANOSECONDS)
}

fn working_set(of: &CgroupReading) -> Option<f64> {
    of.usage.memory.as_ref().map(|memory| as_f64(memory.working_set()))
}

fn swap(of: &CgroupReading) -> Option<f64> {
    of.usage.memory.as_ref().and_then(|memory: &MemoryUsage| memory.swap).map(as_f64)
}

fn swap_limit(of: &CgroupReading) -> Option<f64> {
    of.usage.memory.as_ref().and_then(|memory| memory.swap_limit).map(as_f64)
}
