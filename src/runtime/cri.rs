//! CRI: the client that calls the runtime, and the pure translation of pods into its messages.
//!
//! - [`endpoint`]: where the runtime listens (pure).
//! - [`error`]: what a failure means (pure).
//! - [`client`]: the calls, each with a deadline.
//! - `cgroup_driver`: the runtime's cgroup driver (pure).
//! - `codec`: how messages are read and written.
//! - [`convert`]: pods as CRI messages (pure).
//! - `handlers`: the names of the runtime's handlers (pure).
//! - [`events`]: the runtime's event stream, hints that a container ended.
//! - [`proto`]: the generated messages.

mod cgroup_driver;
pub mod client;
mod codec;
mod containerd_config;
pub mod convert;
pub mod endpoint;
pub mod error;
pub mod events;
mod handlers;
pub mod proto;
pub(crate) mod version;

pub use client::{CallObserver, CriClient, Timeouts};
pub use endpoint::Endpoint;
pub use error::{CriError, ErrorClass};
pub use events::{ExitFeed, RuntimeExits};
