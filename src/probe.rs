//! Probes as decisions: which there are, what each does, when the next run is due, and what results mean. Pure: the task
//! that runs them is `worker::prober`.

pub(crate) mod check;
pub(crate) mod schedule;
pub(crate) mod target;
pub(crate) mod threshold;

/// Commands of probes that run at the same time. A hundred that hang leave room for others.
pub(crate) const EXEC_WIDTH: usize = 128;
