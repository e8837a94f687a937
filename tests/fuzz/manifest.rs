//! Fuzzes the decoding of manifests in YAML.

#![no_main]
#![allow(clippy::panic, reason = "a fuzz target fails by panicking")]

mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::manifest(data));
