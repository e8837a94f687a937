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

mod admission;
mod adopt;
mod bad_input;
mod boots;
mod check;
mod claims;
mod clocks;
mod commands;
mod config;
mod devices;
mod dir;
mod disk_writes;
mod edit;
mod endings;
mod ends;
mod examples;
mod full_disk;
mod hooks;
mod hostile;
mod images;
mod logs;
mod long_names;
mod lookup;
mod manifest;
mod network;
mod objects;
mod odd_bytes;
mod order;
mod pod_wide;
mod ports;
mod ports_streams;
mod probes;
mod resources;
mod restarts;
mod rig_itself;
mod run;
mod runtime_outage;
mod runtime_volumes;
mod safety;
mod sandbox_loop;
mod security;
mod server;
mod service_manager;
mod signed;
mod stats;
mod status;
mod succession;
mod systemd_cgroups;
mod torture;
mod two_agents;
mod upgrade;
mod url;
mod url_evidence;
mod url_hostile;
mod url_proxy;
mod url_signed;
mod url_tls;
mod volume_kinds;
mod volume_manifests;
mod volumes;
mod watch_files;
