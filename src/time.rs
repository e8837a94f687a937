//! Time: durations as Go writes them, and how long to wait after failures. Pure.

pub(crate) mod backoff;
pub(crate) mod duration;
