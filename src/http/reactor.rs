//! The one tokio reactor of the process, which tonic and hyper need for sockets and timers.
//!
//! Invariant: a current-thread runtime on one thread named `tokio`, which lives as long as the process.
//! It must not run work of ours but for what moves bytes: the rest belongs to the smol executor.

use std::{future, io, thread};

use tokio::runtime::{Builder, Handle};

/// The way to the reactor. Named here, so that whoever only passes it on need not name tokio.
pub(crate) type Reactor = Handle;

/// Starts the thread and returns the handle under which channels are built.
///
/// # Errors
/// When the reactor or the thread cannot be made.
pub fn spawn_tokio_thread() -> io::Result<Handle> {
    // Nothing of ours blocks here: names are looked up in threads of their own.
    let runtime = Builder::new_current_thread().enable_io().enable_time().max_blocking_threads(1).build()?;
    let handle = runtime.handle().clone();
    thread::Builder::new()
        .name("tokio".to_owned())
        .spawn(move || runtime.block_on(future::pending::<()>()))?;
    Ok(handle)
}
