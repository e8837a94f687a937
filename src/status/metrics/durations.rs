//! Durations, counted in buckets.

use std::time::Duration;

use super::exposition::Page;

/// The upper bounds of Prometheus' own choice, in seconds: those of most of kubelet's histograms.
pub(super) const DEFAULT_BUCKETS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// One histogram.
#[derive(Debug)]
pub(super) struct Durations {
    bounds: &'static [f64],
    /// Per bucket, not cumulated; what exceeds the last bound is only in `total`.
    buckets: Vec<u64>,
    total: u64,
    seconds: f64,
}

impl Default for Durations {
    fn default() -> Self {
        Self::new(DEFAULT_BUCKETS)
    }
}

impl Durations {
    /// Nothing yet, with these upper bounds.
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, buckets: vec![0; bounds.len()], total: 0, seconds: 0.0 }
    }

    /// Counts one.
    pub(super) fn observe(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        self.total += 1;
        self.seconds += seconds;
        let bucket = self.bounds.iter().zip(&mut self.buckets).find(|(bound, _)| seconds <= **bound);
        if let Some((_, count)) = bucket {
            *count += 1;
        }
    }

    /// How many there were.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Writes them as a sample of the open family.
    pub(super) fn render(&self, page: &mut Page, labels: &[(&str, &str)]) {
        let buckets = self.bounds.iter().copied().zip(self.buckets.iter().copied());
        page.histogram(labels, buckets, self.total, self.seconds);
    }
}
