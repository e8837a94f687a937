//! The example manifests are pods that rkubelet takes without a word.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use rkubelet::testing::{Origin, Source, decode_list};

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
            kubelet_strict: false,
        };
        let mut items = decode_list(&fs::read(&path).unwrap(), &origin).unwrap();
        assert_eq!(items.len(), 1, "{}: one pod", path.display());
        let decoded = items.remove(0).decoded;
        let decoded = decoded.unwrap_or_else(|refusal| panic!("{}: {refusal}", path.display()));
        assert_eq!(decoded.warnings, [], "{}", path.display());
        assert!(decoded.pod.spec.termination_grace_period_seconds <= Some(5), "{}", path.display());
        names.push(decoded.pod.name.name);
    }
    names.sort();
    let want = ["hello", "host-agent", "job", "log-forwarder", "pair", "settings", "shop", "store", "web"]
        .map(|n| format!("{n}-node1"));
    assert_eq!(names, want);
}
