//! The example manifests are pods that rkubelet takes without a word.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use rkubelet::testing::{Origin, Source, decode_manifest};

#[test]
fn every_example_is_decoded_without_a_warning() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests");
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let origin = Origin {
            node_name: "node1",
            source: Source::File,
            path: path.to_str().unwrap(),
            seen: jiff::Timestamp::UNIX_EPOCH,
            strict: true,
        };
        let decoded = decode_manifest(&fs::read(&path).unwrap(), &origin);
        let decoded = decoded.unwrap_or_else(|refusal| panic!("{}: {refusal}", path.display()));
        assert_eq!(decoded.warnings, [], "{}", path.display());
        assert!(decoded.pod.spec.termination_grace_period_seconds <= Some(5), "{}", path.display());
        names.push(decoded.pod.name.name);
    }
    names.sort();
    let want = ["hello", "host-agent", "job", "log-forwarder", "pair", "shop", "store", "web"]
        .map(|n| format!("{n}-node1"));
    assert_eq!(names, want);
}
