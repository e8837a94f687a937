//! The clock of the machine.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use smol::Timer;

use crate::time::clock::{Clock, Sleep};

/// The clock of the machine, counting since it was made.
#[derive(Debug)]
pub(crate) struct SystemClock(Instant);

impl SystemClock {
    /// A clock that counts from now.
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn uptime(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        Box::pin(async move {
            Timer::after(duration).await;
        })
    }
}
