//! The files of the corpus.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the corpus is.
pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// Every manifest: `group/name.yaml`, and its bytes.
pub(crate) fn manifests() -> BTreeMap<String, Vec<u8>> {
    let root = directory().join("manifests");
    let mut found = BTreeMap::new();
    for group in fs::read_dir(&root).unwrap() {
        for file in fs::read_dir(group.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            found.insert(name, fs::read(&path).unwrap());
        }
    }
    found
}
