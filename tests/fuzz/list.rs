//! Fuzzes the decoding of lists and of several documents.

#![no_main]

use rkubelet::testing::decode_list;
use rkubelet::testing::{Origin, Source};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let seen = jiff::Timestamp::UNIX_EPOCH;
    let path = "http://127.0.0.1/";
    let origin =
        Origin { node_name: "node1", source: Source::Http, path, seen, strict: false, kubelet_strict: false };
    let _ = decode_list(data, &origin);
});
