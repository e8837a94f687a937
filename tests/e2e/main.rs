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
mod check;
mod config;
mod dir;
mod edit;
mod endings;
mod examples;
mod hooks;
mod images;
mod lookup;
mod manifest;
mod order;
mod pod_wide;
mod probes;
mod restarts;
mod rig_itself;
mod run;
mod runtime_outage;
mod safety;
mod server;
mod signed;
mod status;
mod succession;
mod torture;
mod upgrade;
mod url;
mod url_evidence;
mod url_hostile;
mod url_proxy;
mod url_signed;
mod url_tls;
