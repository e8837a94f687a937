//! What others may know of pods: their state and status, their events, and metrics.

pub(crate) mod events;
pub(crate) mod metrics;
pub(crate) mod pod_state;
pub(crate) mod pod_status;
pub(crate) mod stats;

use std::sync::Arc;

use events::Recorder;
use metrics::Metrics;

/// Metrics and events. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Telemetry {
    /// What is counted.
    pub(crate) metrics: Arc<Metrics>,
    /// What happened to pods.
    pub(crate) events: Recorder,
}
