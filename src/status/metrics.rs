//! Counts of what the agent did: a small registry, written by effects and read by `/metrics`.
//!
//! Owns the counters that only grow. What can be read from the view or from `/proc` is not counted here, but
//! read when asked for. Invariant: every label has a bounded set of values, so memory does not grow with
//! time. Must not: block for longer than a few additions, fail, or decide anything.

mod durations;
pub(crate) mod exposition;
mod pods;
mod probes;
pub(crate) mod process;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::pod::Source;
use durations::Durations;
use exposition::{FamilyKind, Page};
use pods::PodCounts;
pub(crate) use pods::WorkerPass;
use probes::ProbeCounts;
pub(crate) use probes::ProbeSeries;

/// The upper bounds, in seconds, of the buckets of `kubelet_runtime_operations_duration_seconds`: kubelet's
/// own, 0.005 times powers of 2.5.
const OPERATION_BUCKETS: &[f64] = &[
    0.005,
    0.0125,
    0.03125,
    0.078125,
    0.1953125,
    0.48828125,
    1.220703125,
    3.0517578125,
    7.62939453125,
    19.073486328125,
    47.6837158203125,
    119.20928955078125,
    298.0232238769531,
    745.0580596923828,
];

/// What kind of container was started: the label `container_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ContainerType {
    /// An ordinary container.
    Container,
    /// An init container, sidecars included.
    InitContainer,
}

impl ContainerType {
    /// The label's value, as kubelet writes it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            ContainerType::Container => "container",
            ContainerType::InitContainer => "init_container",
        }
    }
}

/// The registry. One per agent, shared as `Arc<Metrics>`.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    node: String,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    operations: BTreeMap<&'static str, Operation>,
    pods: Attempts,
    containers: BTreeMap<ContainerType, u64>,
    container_errors: BTreeMap<(&'static str, ContainerType), u64>,
    refusals: BTreeMap<Source, u64>,
    probes: BTreeMap<ProbeSeries, ProbeCounts>,
    exec_probes: u64,
    of_pods: PodCounts,
}

#[derive(Debug, Default)]
struct Attempts {
    tried: u64,
    failed: u64,
}

#[derive(Debug)]
struct Operation {
    failed: u64,
    durations: Durations,
}

impl Default for Operation {
    fn default() -> Self {
        Self { failed: 0, durations: Durations::new(OPERATION_BUCKETS) }
    }
}

impl Metrics {
    /// An empty registry of the node of this name.
    pub(crate) fn new(node: impl Into<String>) -> Self {
        Self { node: node.into(), counts: Mutex::default() }
    }

    /// Counts one call of the container runtime. `op` is kubelet's name of it, such as `run_podsandbox`.
    pub(crate) fn observe_operation(&self, op: &'static str, took: Duration, failed: bool) {
        let mut counts = self.lock();
        let operation = counts.operations.entry(op).or_default();
        operation.failed += u64::from(failed);
        operation.durations.observe(took);
    }

    /// Counts the start of a pod: one per sandbox that was asked for.
    pub(crate) fn pod_started(&self) {
        self.lock().pods.tried += 1;
    }

    /// Counts a pod whose sandbox did not come up; beside [`Metrics::pod_started`], not instead of it.
    pub(crate) fn pod_start_failed(&self) {
        self.lock().pods.failed += 1;
    }

    /// Counts the start of a container.
    pub(crate) fn container_started(&self, kind: ContainerType) {
        *self.lock().containers.entry(kind).or_default() += 1;
    }

    /// Counts a container that did not start; `code` is the waiting reason, such as `ErrImagePull`.
    pub(crate) fn container_start_failed(&self, kind: ContainerType, code: &'static str) {
        *self.lock().container_errors.entry((code, kind)).or_default() += 1;
    }

    /// Counts a document that was refused, once per new reason.
    pub(crate) fn manifest_refused(&self, source: Source) {
        *self.lock().refusals.entry(source).or_default() += 1;
    }

    /// Writes every counter.
    pub(crate) fn render(&self, page: &mut Page) {
        page.family("kubelet_node_name", FamilyKind::Gauge, "The node's name. The count is always 1.");
        page.sample(&[("node", &self.node)], 1.0);
        let counts = self.lock();
        render_operations(page, &counts.operations);
        page.family("rkubelet_manifest_refusals_total", FamilyKind::Counter, "Documents refused, by source.");
        // The local sources begin at zero, so that the first refusal is seen as one.
        for source in [Source::File, Source::Http] {
            page.sample(&[("source", source.as_str())], as_f64(*counts.refusals.get(&source).unwrap_or(&0)));
        }
        page.family("kubelet_started_pods_total", FamilyKind::Counter, "Pods started.");
        page.sample(&[], as_f64(counts.pods.tried));
        page.family("kubelet_started_pods_errors_total", FamilyKind::Counter, "Errors when starting pods.");
        page.sample(&[], as_f64(counts.pods.failed));
        page.family("kubelet_started_containers_total", FamilyKind::Counter, "Containers started.");
        for (kind, count) in &counts.containers {
            page.sample(&[("container_type", kind.as_str())], as_f64(*count));
        }
        page.family(
            "kubelet_started_containers_errors_total",
            FamilyKind::Counter,
            "Errors when starting containers.",
        );
        for ((code, kind), count) in &counts.container_errors {
            page.sample(&[("code", code), ("container_type", kind.as_str())], as_f64(*count));
        }
        pods::render(page, &counts.of_pods);
        probes::render_running(page, counts.exec_probes);
    }

    /// Writes the counters of probes: the page `/metrics/probes`.
    pub(crate) fn render_probes(&self, page: &mut Page) {
        probes::render(page, &self.lock().probes);
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        // A poisoned lock still guards whole numbers: each change is one addition.
        self.counts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn render_operations(page: &mut Page, operations: &BTreeMap<&'static str, Operation>) {
    page.family(
        "kubelet_runtime_operations_total",
        FamilyKind::Counter,
        "Runtime operations by operation type.",
    );
    for (name, operation) in operations {
        page.sample(&[("operation_type", name)], as_f64(operation.durations.total()));
    }
    page.family(
        "kubelet_runtime_operations_errors_total",
        FamilyKind::Counter,
        "Runtime operation errors by operation type.",
    );
    for (name, operation) in operations.iter().filter(|(_, operation)| operation.failed > 0) {
        page.sample(&[("operation_type", name)], as_f64(operation.failed));
    }
    page.family(
        "kubelet_runtime_operations_duration_seconds",
        FamilyKind::Histogram,
        "Duration in seconds of runtime operations by operation type.",
    );
    for (name, operation) in operations {
        operation.durations.render(page, &[("operation_type", name)]);
    }
}

/// Prometheus counts in floats; ours are exact up to 2^53.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn rendered(metrics: &Metrics) -> String {
        let mut page = Page::default();
        metrics.render(&mut page);
        page.into_text()
    }

    #[test]
    fn buckets_are_kubelets() {
        for (n, bound) in OPERATION_BUCKETS.iter().enumerate() {
            let exact = 0.005 * 2.5_f64.powi(i32::try_from(n).unwrap());
            assert!((bound - exact).abs() / exact < 1e-9, "bucket {n}: {bound} is not {exact}");
        }
    }

    #[test]
    fn counts_are_rendered() {
        let metrics = Metrics::new("n\"1");
        metrics.observe_operation("run_podsandbox", Duration::from_millis(5), false);
        metrics.observe_operation("run_podsandbox", Duration::from_millis(200), true);
        metrics.observe_operation("run_podsandbox", Duration::from_secs(10_000), true);
        metrics.observe_operation("version", Duration::ZERO, false);
        metrics.pod_started();
        metrics.pod_started();
        metrics.pod_start_failed();
        metrics.container_started(ContainerType::InitContainer);
        metrics.container_start_failed(ContainerType::Container, "ErrImagePull");
        let text = rendered(&metrics);
        exposition::check(&text).unwrap();
        for line in [
            r#"kubelet_node_name{node="n\"1"} 1"#,
            r#"kubelet_runtime_operations_total{operation_type="run_podsandbox"} 3"#,
            r#"kubelet_runtime_operations_errors_total{operation_type="run_podsandbox"} 2"#,
            r#"kubelet_runtime_operations_duration_seconds_bucket{operation_type="run_podsandbox",le="0.005"} 1"#,
            r#"kubelet_runtime_operations_duration_seconds_bucket{operation_type="run_podsandbox",le="0.1953125"} 1"#,
            r#"kubelet_runtime_operations_duration_seconds_bucket{operation_type="run_podsandbox",le="0.48828125"} 2"#,
            r#"kubelet_runtime_operations_duration_seconds_bucket{operation_type="run_podsandbox",le="+Inf"} 3"#,
            r#"kubelet_runtime_operations_duration_seconds_sum{operation_type="run_podsandbox"} 10000.205"#,
            r#"kubelet_runtime_operations_duration_seconds_count{operation_type="run_podsandbox"} 3"#,
            "kubelet_started_pods_total 2",
            "kubelet_started_pods_errors_total 1",
            r#"kubelet_started_containers_total{container_type="init_container"} 1"#,
            r#"kubelet_started_containers_errors_total{code="ErrImagePull",container_type="container"} 1"#,
        ] {
            assert!(text.lines().any(|got| got == line), "no line {line}\n{text}");
        }
        assert!(!text.contains(r#"errors_total{operation_type="version"}"#), "no error, no series");
    }

    #[test]
    fn an_empty_registry_is_valid() {
        exposition::check(&rendered(&Metrics::default())).unwrap();
    }
}
