//! End-to-end tests: the real executable on a real containerd, each test on a machine of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells why on stderr"
)]

#[path = "../rig/rig.rs"]
mod rig;

mod adopt;
mod bad_input;
mod config;
mod edit;
mod examples;
mod manifest;
mod rig_itself;
mod run;
mod runtime_outage;
mod safety;
mod server;
