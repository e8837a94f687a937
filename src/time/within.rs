//! A limit on how long something is waited for.

use std::time::Duration;

use futures_lite::future;
use smol::Timer;

/// The result, if it comes in time; what comes at the last moment counts.
pub(crate) async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    let late = async {
        Timer::after(limit).await;
        None
    };
    future::or(async { Some(work.await) }, late).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_counts_and_what_never_comes_is_given_up() {
        smol::block_on(async {
            assert_eq!(within(Duration::ZERO, async { 1 }).await, Some(1));
            assert_eq!(within(Duration::ZERO, future::pending::<u8>()).await, None);
            assert_eq!(within(Duration::MAX, async { 2 }).await, Some(2));
        });
    }
}
