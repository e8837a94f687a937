//! The examples in `manifests/` run, all at once, as the demo shows them.

use std::fs;
use std::path::Path;

use crate::rig::Rig;

#[test]
fn every_example_runs() {
    let rig = Rig::new();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests");
    let mut count = 0;
    for entry in fs::read_dir(&examples).expect("list manifests/").flatten() {
        let text = fs::read_to_string(entry.path()).expect("read an example");
        rig.write_manifest(&entry.file_name().to_string_lossy(), &text);
        count += 1;
    }
    assert!(count >= 5, "{count} examples");
    let agent = rig.start_agent(&[]);
    rig.wait("every example to run", || {
        let Some(pods) = rig.pods() else { return false };
        let pods = pods["items"].as_array().expect("a list of pods");
        let ran = |pod: &serde_json::Value| {
            pod["status"]["phase"] == "Running" || pod["status"]["phase"] == "Succeeded"
        };
        pods.len() == count && pods.iter().all(ran)
    });
    for name in fs::read_dir(&examples).expect("list manifests/").flatten() {
        let path = rig.manifest_dir().join(name.file_name()).display().to_string();
        let lines = agent.log_lines_with(&path);
        let complaints: Vec<_> =
            lines.iter().filter(|line| line.contains("WARN") || line.contains("ERROR")).collect();
        assert!(complaints.is_empty(), "an example earns no warning: {complaints:#?}");
    }
}
