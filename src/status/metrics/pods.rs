//! Counts of what the agent does for pods, and of how long its parts take, under kubelet's names where it has one.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::durations::Durations;
use super::exposition::{FamilyKind, Page};
use super::{ContainerType, Metrics, as_f64};
use crate::pod::Source;

/// kubelet's bounds of `kubelet_pod_start_duration_seconds`.
const START_BUCKETS: &[f64] = &[
    0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0,
    480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
];

/// Why a worker looked at its pod: the label `operation_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WorkerPass {
    /// For the first time.
    Create,
    /// Since it was told something new.
    Update,
    /// Since something happened, or was due.
    Sync,
}

impl WorkerPass {
    fn as_str(self) -> &'static str {
        match self {
            WorkerPass::Create => "create",
            WorkerPass::Update => "update",
            WorkerPass::Sync => "sync",
        }
    }
}

/// The counts.
#[derive(Debug)]
pub(super) struct PodCounts {
    passes: BTreeMap<WorkerPass, Durations>,
    starts: Durations,
    relists: Durations,
    relist_intervals: Durations,
    relisted_at: Option<Timestamp>,
    turns: Durations,
    longest_turn: Duration,
    terminated: BTreeMap<(ContainerType, i32, String), u64>,
    rejections: BTreeMap<String, u64>,
    preemptions: u64,
    evictions: BTreeMap<&'static str, u64>,
    last_good: BTreeMap<Source, Timestamp>,
}

impl Default for PodCounts {
    fn default() -> Self {
        Self {
            passes: BTreeMap::new(),
            starts: Durations::new(START_BUCKETS),
            relists: Durations::default(),
            relist_intervals: Durations::default(),
            relisted_at: None,
            turns: Durations::default(),
            longest_turn: Duration::ZERO,
            terminated: BTreeMap::new(),
            rejections: BTreeMap::new(),
            preemptions: 0,
            evictions: BTreeMap::new(),
            last_good: BTreeMap::new(),
        }
    }
}

impl Metrics {
    /// Counts one look of a worker at its pod.
    pub(crate) fn observe_pass(&self, pass: WorkerPass, took: Duration) {
        self.lock().of_pods.passes.entry(pass).or_default().observe(took);
    }

    /// Counts a pod that has begun to run, this long after it was first seen.
    pub(crate) fn observe_pod_start(&self, took: Duration) {
        self.lock().of_pods.starts.observe(took);
    }

    /// Counts one list of the whole node, `since` the one before.
    pub(crate) fn observe_relist(&self, took: Duration, since: Option<Duration>, at: Timestamp) {
        let counts = &mut self.lock().of_pods;
        counts.relists.observe(took);
        since.into_iter().for_each(|since| counts.relist_intervals.observe(since));
        counts.relisted_at = Some(at);
    }

    /// Counts one turn of the sync loop.
    pub(crate) fn observe_turn(&self, took: Duration) {
        let counts = &mut self.lock().of_pods;
        counts.turns.observe(took);
        counts.longest_turn = counts.longest_turn.max(took);
    }

    /// Counts the end of a container; `reason` is the runtime's word.
    pub(crate) fn container_terminated(&self, kind: ContainerType, code: i32, reason: &str) {
        *self.lock().of_pods.terminated.entry((kind, code, reason.to_owned())).or_default() += 1;
    }

    /// Counts a pod that the node has no room for, or must not run.
    pub(crate) fn pod_rejected(&self, reason: &str) {
        *self.lock().of_pods.rejections.entry(reason.to_owned()).or_default() += 1;
    }

    /// Counts a pod that was ended for one of higher priority.
    pub(crate) fn pod_preempted(&self) {
        self.lock().of_pods.preemptions += 1;
    }

    /// Counts a pod that was ended for what it used; `signal` is kubelet's name of the limit.
    pub(crate) fn pod_evicted(&self, signal: &'static str) {
        *self.lock().of_pods.evictions.entry(signal).or_default() += 1;
    }

    /// Notes when a source was last read, whole.
    pub(crate) fn source_read(&self, source: Source, at: Timestamp) {
        self.lock().of_pods.last_good.insert(source, at);
    }
}

/// Writes the counts.
pub(super) fn render(page: &mut Page, counts: &PodCounts) {
    let histograms: [(&'static str, &str, &Durations); 4] = [
        (
            "kubelet_pod_start_duration_seconds",
            "Duration in seconds from seeing a pod for the first time to the pod starting to run.",
            &counts.starts,
        ),
        ("kubelet_pleg_relist_duration_seconds", "Duration in seconds for relisting pods.", &counts.relists),
        (
            "kubelet_pleg_relist_interval_seconds",
            "Interval in seconds between relists.",
            &counts.relist_intervals,
        ),
        (
            "rkubelet_sync_loop_duration_seconds",
            "Duration in seconds of turns of the sync loop.",
            &counts.turns,
        ),
    ];
    for (name, help, durations) in histograms {
        page.family(name, FamilyKind::Histogram, help);
        durations.render(page, &[]);
    }
    page.family(
        "kubelet_pod_worker_duration_seconds",
        FamilyKind::Histogram,
        "Duration in seconds of a worker's look at its pod, by why it looked: create, update or sync.",
    );
    for (pass, durations) in &counts.passes {
        durations.render(page, &[("operation_type", pass.as_str())]);
    }
    if let Some(at) = counts.relisted_at {
        page.family(
            "kubelet_pleg_last_seen_seconds",
            FamilyKind::Gauge,
            "When the node was last listed, in seconds since 1970.",
        );
        page.sample(&[], at.as_duration().as_secs_f64());
    }
    page.family(
        "rkubelet_sync_loop_longest_seconds",
        FamilyKind::Gauge,
        "The longest turn of the sync loop so far, in seconds.",
    );
    page.sample(&[], counts.longest_turn.as_secs_f64());
    page.family("kubelet_terminated_containers_total", FamilyKind::Counter, "Containers that have ended.");
    for ((kind, code, reason), count) in &counts.terminated {
        let code = code.to_string();
        page.sample(
            &[("container_type", kind.as_str()), ("exit_code", &code), ("reason", reason)],
            as_f64(*count),
        );
    }
    page.family(
        "kubelet_admission_rejections_total",
        FamilyKind::Counter,
        "Pods that were not admitted, by reason.",
    );
    for (reason, count) in &counts.rejections {
        page.sample(&[("reason", reason)], as_f64(*count));
    }
    page.family("kubelet_evictions", FamilyKind::Counter, "Pods that were evicted, by signal.");
    for (signal, count) in &counts.evictions {
        page.sample(&[("eviction_signal", signal)], as_f64(*count));
    }
    page.family(
        "rkubelet_preempted_pods_total",
        FamilyKind::Counter,
        "Pods that were ended for one of higher priority.",
    );
    page.sample(&[], as_f64(counts.preemptions));
    page.family(
        "rkubelet_source_last_good_timestamp_seconds",
        FamilyKind::Gauge,
        "When a source was last read whole, in seconds since 1970.",
    );
    for (source, at) in &counts.last_good {
        page.sample(&[("source", source.as_str())], at.as_duration().as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::metrics::exposition;
    use crate::status::metrics::tests::rendered;

    #[test]
    fn what_happens_to_pods_is_counted() {
        let metrics = Metrics::new("n");
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        metrics.observe_pass(WorkerPass::Create, Duration::from_millis(7));
        metrics.observe_pass(WorkerPass::Sync, Duration::from_secs(20));
        metrics.observe_pod_start(Duration::from_millis(700));
        metrics.observe_relist(Duration::from_millis(3), None, at(1));
        metrics.observe_relist(Duration::from_millis(3), Some(Duration::from_secs(4)), at(5));
        metrics.observe_turn(Duration::from_millis(2));
        metrics.observe_turn(Duration::from_millis(1));
        metrics.container_terminated(ContainerType::Container, 137, "OOMKilled");
        metrics.pod_rejected("OutOfcpu");
        metrics.pod_preempted();
        metrics.pod_evicted("emptydirfs.limit");
        metrics.source_read(Source::File, at(9));
        metrics.source_read(Source::File, at(10));
        let text = rendered(&metrics);
        exposition::check(&text).unwrap();
        for line in [
            r#"kubelet_pod_worker_duration_seconds_bucket{operation_type="create",le="0.005"} 0"#,
            r#"kubelet_pod_worker_duration_seconds_bucket{operation_type="create",le="0.01"} 1"#,
            r#"kubelet_pod_worker_duration_seconds_bucket{operation_type="sync",le="10"} 0"#,
            r#"kubelet_pod_worker_duration_seconds_bucket{operation_type="sync",le="+Inf"} 1"#,
            r#"kubelet_pod_start_duration_seconds_bucket{le="0.5"} 0"#,
            r#"kubelet_pod_start_duration_seconds_bucket{le="1"} 1"#,
            "kubelet_pleg_relist_duration_seconds_count 2",
            "kubelet_pleg_relist_interval_seconds_sum 4",
            "kubelet_pleg_last_seen_seconds 5",
            "rkubelet_sync_loop_duration_seconds_count 2",
            "rkubelet_sync_loop_longest_seconds 0.002",
            r#"kubelet_terminated_containers_total{container_type="container",exit_code="137",reason="OOMKilled"} 1"#,
            r#"kubelet_admission_rejections_total{reason="OutOfcpu"} 1"#,
            "rkubelet_preempted_pods_total 1",
            r#"kubelet_evictions{eviction_signal="emptydirfs.limit"} 1"#,
            r#"rkubelet_source_last_good_timestamp_seconds{source="file"} 10"#,
        ] {
            assert!(text.lines().any(|got| got == line), "no line {line}\n{text}");
        }
    }
}
