//! Waiting for what others do: the one place where a test sleeps.

use std::time::{Duration, Instant};

/// How often a condition is looked at: what is awaited here sends no event to the test.
const POLL: Duration = Duration::from_millis(20);

/// Polls until the condition holds; false when the time is over.
pub(crate) fn wait_until(patience: Duration, condition: impl FnMut() -> bool) -> bool {
    wait_until_every(POLL, patience, condition)
}

/// The same, with another pause between two looks: where a look costs the other side much.
pub(crate) fn wait_until_every(
    pause: Duration,
    patience: Duration,
    mut condition: impl FnMut() -> bool,
) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        #[allow(clippy::disallowed_methods, reason = "a test's thread may sleep between two looks")]
        std::thread::sleep(pause);
    }
}
