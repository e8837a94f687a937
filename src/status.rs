//! What others may know of pods: their status, their events, and metrics.

pub(crate) mod events;
pub(crate) mod metrics;
pub(crate) mod pod_status;
