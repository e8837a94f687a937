//! Time: the clock as it is passed around, durations as Go writes them, and how long to wait after failures. Pure, but for
//! [`within`], which races a timer.

pub(crate) mod backoff;
pub(crate) mod clock;
pub(crate) mod duration;
pub(crate) mod since;
pub(crate) mod within;
