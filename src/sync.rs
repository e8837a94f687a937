//! What should run, and who is told: the mux that merges the sources, the sync loop, and the view that it publishes.
//!
//! Pure: the agent turns the loop, sources, workers and the runtime's watch send it [`message::Event`]s.

pub(crate) mod admission;
pub(crate) mod handles;
pub(crate) mod message;
pub(crate) mod mux;
pub(crate) mod node_list;
pub(crate) mod published;
pub(crate) mod sync_loop;
pub(crate) mod view;
