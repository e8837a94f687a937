//! The clock, passed to whoever waits or dates something, so that a simulation can give its own.

use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

use jiff::Timestamp;

/// A wait that ends by itself.
pub(crate) type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What time it is.
pub(crate) trait Clock: Debug + Send + Sync {
    /// The time of day. Somebody may set it, forwards or back: it dates things, and nothing waits by it.
    fn now(&self) -> Timestamp;

    /// The time since a fixed moment in the past, on a clock that nobody sets: what waits are counted on.
    fn uptime(&self) -> Duration;

    /// Ends after this long.
    fn sleep(&self, duration: Duration) -> Sleep;
}
