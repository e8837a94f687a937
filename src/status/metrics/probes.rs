//! Counts of probes, under kubelet's names.
//!
//! Invariant: a series goes with its pod, so that memory does not grow with time.

use std::collections::BTreeMap;
use std::time::Duration;

use super::durations::Durations;
use super::exposition::{FamilyKind, Page};
use super::{Metrics, as_f64};
use crate::pod::{PodName, PodUid};
use crate::probe::EXEC_WIDTH;
use crate::probe::schedule::ProbeResult;

const RESULTS: [&str; 3] = ["successful", "failed", "unknown"];

/// What tells the counts of one probe from those of another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProbeSeries {
    /// The pod.
    pub pod: PodName,
    /// Its instance.
    pub uid: PodUid,
    /// The container's name.
    pub container: String,
    /// The label `probe_type`.
    pub kind: &'static str,
}

/// The runs of one probe.
#[derive(Debug, Default)]
pub(super) struct ProbeCounts {
    /// By result, in the order of [`RESULTS`].
    results: [u64; RESULTS.len()],
    durations: Durations,
}

/// A command of a probe that runs; counted until it is dropped.
#[derive(Debug)]
pub(crate) struct RunningExec<'a>(&'a Metrics);

impl Drop for RunningExec<'_> {
    fn drop(&mut self) {
        let mut counts = self.0.lock();
        counts.exec_probes = counts.exec_probes.saturating_sub(1);
    }
}

impl Metrics {
    /// Counts one run of a probe. As with kubelet, failures are not timed.
    pub(crate) fn observe_probe(&self, series: ProbeSeries, result: ProbeResult, took: Duration) {
        let mut counts = self.lock();
        let probe = counts.probes.entry(series).or_default();
        let place = match result {
            ProbeResult::Success | ProbeResult::Warning => 0,
            ProbeResult::Failure => 1,
            ProbeResult::Unknown => 2,
        };
        probe.results[place] += 1;
        if result != ProbeResult::Failure {
            probe.durations.observe(took);
        }
    }

    /// Forgets the probes of a pod but for those of this instance.
    pub(crate) fn keep_probes(&self, pod: &PodName, uid: Option<&PodUid>) {
        self.lock().probes.retain(|series, _| series.pod != *pod || Some(&series.uid) == uid);
    }

    /// Counts a command of a probe for as long as it runs.
    pub(crate) fn exec_probe(&self) -> RunningExec<'_> {
        self.lock().exec_probes += 1;
        RunningExec(self)
    }
}

/// Writes the counts.
pub(super) fn render(page: &mut Page, probes: &BTreeMap<ProbeSeries, ProbeCounts>) {
    page.family("prober_probe_total", FamilyKind::Counter, "Probes of containers by result.");
    for (series, counts) in probes {
        let counted = RESULTS.iter().zip(counts.results).filter(|(_, count)| *count > 0);
        for (result, count) in counted {
            let labels = [
                ("container", series.container.as_str()),
                ("namespace", &series.pod.namespace),
                ("pod", &series.pod.name),
                ("pod_uid", series.uid.as_str()),
                ("probe_type", series.kind),
                ("result", result),
            ];
            page.sample(&labels, as_f64(count));
        }
    }
    page.family("prober_probe_duration_seconds", FamilyKind::Histogram, "Duration in seconds of probes.");
    // Without the UID, as kubelet's: of a pod there is one instance at a time.
    for (series, counts) in probes.iter().filter(|(_, counts)| counts.durations.total() > 0) {
        let labels = [
            ("container", series.container.as_str()),
            ("namespace", &series.pod.namespace),
            ("pod", &series.pod.name),
            ("probe_type", series.kind),
        ];
        counts.durations.render(page, &labels);
    }
}

/// Writes how many commands of probes run.
pub(super) fn render_running(page: &mut Page, execs: u64) {
    page.family("rkubelet_exec_probes", FamilyKind::Gauge, "Commands of probes that run.");
    page.sample(&[], as_f64(execs));
    page.family(
        "rkubelet_exec_probes_limit",
        FamilyKind::Gauge,
        "Commands of probes that may run at the same time.",
    );
    page.sample(&[], as_f64(EXEC_WIDTH as u64));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::metrics::exposition;

    #[test]
    fn probes_are_counted_for_as_long_as_their_pod_is_there() {
        let metrics = Metrics::new("n");
        let series = |pod: &str, uid: &str| ProbeSeries {
            pod: PodName::new("default", pod),
            uid: PodUid::from(uid),
            container: "main".into(),
            kind: "Liveness",
        };
        for (result, took) in [
            (ProbeResult::Success, 7),
            (ProbeResult::Warning, 30),
            (ProbeResult::Failure, 1000),
            (ProbeResult::Unknown, 20_000),
        ] {
            metrics.observe_probe(series("a", "u"), result, Duration::from_millis(took));
        }
        metrics.observe_probe(series("b", "v"), ProbeResult::Failure, Duration::ZERO);
        let running = metrics.exec_probe();
        let rendered = || {
            let mut page = Page::default();
            metrics.render_probes(&mut page);
            render_running(&mut page, metrics.lock().exec_probes);
            page.into_text()
        };
        let text = rendered();
        exposition::check(&text).unwrap();
        let labels = |result| {
            format!(
                "container=\"main\",namespace=\"default\",pod=\"a\",pod_uid=\"u\",probe_type=\"Liveness\",result=\"{result}\""
            )
        };
        let place = "container=\"main\",namespace=\"default\",pod=\"a\",probe_type=\"Liveness\"";
        for line in [
            format!("prober_probe_total{{{}}} 2", labels("successful")),
            format!("prober_probe_total{{{}}} 1", labels("failed")),
            format!("prober_probe_total{{{}}} 1", labels("unknown")),
            format!("prober_probe_duration_seconds_bucket{{{place},le=\"0.005\"}} 0"),
            format!("prober_probe_duration_seconds_bucket{{{place},le=\"0.01\"}} 1"),
            format!("prober_probe_duration_seconds_bucket{{{place},le=\"10\"}} 2"),
            format!("prober_probe_duration_seconds_count{{{place}}} 3"),
            "rkubelet_exec_probes 1".to_owned(),
            format!("rkubelet_exec_probes_limit {EXEC_WIDTH}"),
        ] {
            assert!(text.lines().any(|got| got == line), "no line {line}\n{text}");
        }
        drop(running);
        metrics.keep_probes(&PodName::new("default", "a"), Some(&PodUid::from("next")));
        let text = rendered();
        assert!(!text.contains("pod=\"a\"") && text.contains("pod=\"b\""), "{text}");
        assert!(text.contains("\nrkubelet_exec_probes 0\n"), "{text}");
    }
}
