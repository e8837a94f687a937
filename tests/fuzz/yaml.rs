//! Fuzzes the reader of YAML, and the search for positions in what it read.

#![no_main]

use rkubelet::testing::{find_positions, parse_documents};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(documents) = parse_documents(text)
    {
        let fixed = ["", "metadata.name", "spec.containers[0].image"];
        let fields: Vec<(usize, &str)> = documents
            .iter()
            .flat_map(|document| {
                let paths = document.duplicate_keys.iter().map(String::as_str).chain(fixed);
                paths.map(|path| (document.number, path))
            })
            .collect();
        let positions = find_positions(text, &fields);
        assert_eq!(positions.len(), fields.len());
        let lines = text.split(['\n', '\r']).count();
        assert!(positions.iter().flatten().all(|position| (1..=lines).contains(&position.line)));
    }
});
