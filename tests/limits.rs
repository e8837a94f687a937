//! What hard texts cost: time that grows with their size alone, and memory that a small machine has.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use std::time::{Duration, Instant};

use rkubelet::testing::decode_list;
use rkubelet::testing::parse_documents;
use rkubelet::testing::{Origin, Source};

/// Generous for a debug build on a busy machine; what grows with the square of the size takes many minutes.
const PATIENCE: Duration = Duration::from_secs(30);

fn timed(what: &str, run: impl FnOnce()) {
    let began = Instant::now();
    run();
    assert!(began.elapsed() < PATIENCE, "{what}: {:?}", began.elapsed());
}

#[test]
fn long_lines_take_no_longer_than_many_lines() {
    for item in ["x,", "yes, ", "'x',", "&a x,"] {
        let text = format!("args: [{}x]", item.repeat(100_000));
        timed(item, || {
            let documents = parse_documents(&text).unwrap();
            assert_eq!(documents[0].value["args"].as_array().map(Vec::len), Some(100_001));
        });
    }
}

#[test]
fn findings_in_many_documents_are_found_in_one_search() {
    let seen = jiff::Timestamp::UNIX_EPOCH;
    let origin = Origin {
        node_name: "n",
        source: Source::Http,
        path: "url",
        seen,
        strict: false,
        kubelet_strict: false,
    };
    let pod =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, image: i, x: 1}]}\n";
    for (text, count) in [(format!("---\n{pod}").repeat(1_000), 1_000), ("---\n1\n".repeat(4_000), 4_000)] {
        timed("documents", || {
            let items = decode_list(text.as_bytes(), &origin).unwrap();
            assert_eq!(items.len(), count);
        });
    }
}
