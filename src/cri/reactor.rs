//! The one tokio reactor of the process, which tonic needs for sockets and timers.
//!
//! Invariant: a current-thread runtime on one thread named `tokio`, which lives as long as the process.
//! It must not run work of ours: that belongs to the smol executor.

use std::{future, io, thread};

use tokio::runtime::{Builder, Handle};

/// Starts the thread and returns the handle under which channels are built.
///
/// # Errors
/// When the reactor or the thread cannot be made.
pub fn spawn_tokio_thread() -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let handle = runtime.handle().clone();
    thread::Builder::new()
        .name("tokio".to_owned())
        .spawn(move || runtime.block_on(future::pending::<()>()))?;
    Ok(handle)
}
