//! The manifests of `tests/fixtures/volumes`: together they have every field of volumes, environment, DNS and host names that
//! is honoured, and each says in an annotation what its container tells, or what it waits with.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::rig::{BUSYBOX, NODE, Rig};
use crate::volumes::{said, wait_clean};

/// Name and text of each.
fn manifests() -> Vec<(String, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/volumes");
    let mut found: Vec<_> = fs::read_dir(dir)
        .expect("the manifests")
        .map(|entry| {
            let path = entry.expect("a manifest").path();
            let name = path.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
            let text = fs::read_to_string(&path).expect("a manifest");
            (name, text.replace("IMAGE", BUSYBOX).replace("NODE", NODE))
        })
        .collect();
    found.sort();
    found
}

/// The paths of all fields, as `docs/pod-fields.md` writes them, and those of everything above them.
fn fields(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    found.insert(path.replace("spec.initContainers", "spec.containers"));
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let dot = if path.is_empty() { "" } else { "." };
                fields(value, &format!("{path}{dot}{key}"), found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| fields(item, &format!("{path}[]"), found)),
        _ => {}
    }
}

fn parse(text: &str) -> Value {
    let mut documents = rkubelet::testing::parse_documents(text).expect("YAML");
    documents.remove(0).value
}

#[test]
fn every_field_that_is_honoured_stands_in_a_manifest() {
    let all = manifests();
    assert!(all.len() >= 30, "{}", all.len());
    let mut written = BTreeSet::new();
    all.iter().for_each(|(_, text)| fields(&parse(text), "", &mut written));
    let document = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/pod-fields.md"));
    let document = document.expect("the document");
    let honoured = document.split("## Honoured").nth(1).and_then(|rest| rest.split("\n## ").next());
    let about = |row: &&str| {
        let prefixes = [
            "spec.volumes",
            "spec.containers[].env",
            "spec.containers[].volumeMounts",
            "spec.dns",
            "spec.host",
            "spec.subdomain",
        ];
        let others = ["spec.hostNetwork", "spec.hostPID", "spec.hostIPC", "spec.hostUsers"];
        prefixes.iter().any(|prefix| row.starts_with(prefix)) && !others.contains(row)
    };
    let rows =
        honoured.expect("a list").lines().filter_map(|line| line.strip_prefix("- `")?.strip_suffix('`'));
    // Local objects have tests of their own.
    let elsewhere = |row: &&str| ["configMap", "secret", "envFrom"].iter().any(|word| row.contains(word));
    let rows: Vec<_> = rows.filter(about).filter(|row| !elsewhere(row)).collect();
    assert!(rows.len() >= 20, "{rows:?}");
    let missing: Vec<_> = rows.iter().filter(|row| !written.contains(**row)).collect();
    assert!(missing.is_empty(), "in no manifest: {missing:?}");
    // And what stands below those rows.
    for field in [
        "spec.volumes[].emptyDir.medium",
        "spec.volumes[].emptyDir.sizeLimit",
        "spec.volumes[].hostPath.type",
        "spec.volumes[].downwardAPI.defaultMode",
        "spec.volumes[].downwardAPI.items[].mode",
        "spec.volumes[].downwardAPI.items[].resourceFieldRef.divisor",
        "spec.volumes[].projected.defaultMode",
        "spec.volumes[].image.pullPolicy",
        "spec.volumes[].nfs.readOnly",
        "spec.securityContext.fsGroupChangePolicy",
        "spec.containers[].env[].valueFrom.fileKeyRef.optional",
        "spec.dnsConfig.nameservers",
        "spec.dnsConfig.searches",
        "spec.dnsConfig.options[].value",
    ] {
        assert!(written.contains(field), "{field}");
    }
}

#[test]
fn every_manifest_does_what_it_says() {
    let rig = Rig::new();
    for (name, text) in manifests() {
        rig.write_manifest(&format!("{name}.yaml"), &text);
    }
    let _agent = rig.start_agent(&[]);
    for (name, text) in manifests() {
        let manifest = parse(&text);
        let annotations = &manifest["metadata"]["annotations"];
        match (annotations["test/says"].as_str(), annotations["test/waits"].as_str()) {
            (Some(expect), None) => {
                let expect = format!("{expect}done");
                assert_eq!(said(&rig, &name).join("\n"), expect, "{name}");
            }
            (None, Some(reason)) => rig.wait(&format!("{name} to wait"), || {
                let pod = rig.pod(&format!("{name}-{NODE}"));
                pod.is_some_and(|pod| pod["status"].to_string().contains(reason.trim()))
            }),
            _ => panic!("{name} says nothing of what it does"),
        }
    }
    for (name, _) in manifests() {
        rig.remove_manifest(&format!("{name}.yaml"));
    }
    wait_clean(&rig);
}
