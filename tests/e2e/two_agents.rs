//! One agent per root directory, and one per runtime: a second one says who is there, and touches nothing.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use crate::manifest;
use crate::rig::{Agent, NODE, Rig};

/// The second agent ends by itself, and names the first.
fn assert_refused(rig: &Rig, mut second: Agent<'_>, what: &str) {
    let started = Instant::now();
    let status = second.wait_for_end();
    let log = second.log();
    assert!(!status.success(), "{log}");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    let told =
        log.lines().any(|line| line.contains("another agent (rkubelet, process ") && line.contains(what));
    assert!(told, "{log}\n{}", rig.report());
}

/// Flags of an agent that has nothing in common with the first but what is given here.
fn other_flags(rig: &Rig, endpoint: &str, node: &str) -> Vec<String> {
    let empty = rig.dir().join("empty");
    fs::create_dir_all(&empty).expect("create a directory");
    vec![
        format!("--pod-manifest-path={}", empty.display()),
        format!("--container-runtime-endpoint={endpoint}"),
        format!("--root-dir={}", rig.dir().join("other-root").display()),
        format!("--hostname-override={node}"),
        "--healthz-port=0".to_owned(),
    ]
}

fn start_other<'rig>(rig: &'rig Rig, endpoint: &str, node: &str) -> Agent<'rig> {
    let flags = other_flags(rig, endpoint, node);
    rig.start_agent_with_flags(&flags.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn a_second_agent_on_the_same_root_directory_or_runtime_is_refused() {
    let rig = Rig::new();
    for name in ["a", "b"] {
        rig.write_manifest(&format!("{name}.yaml"), &manifest::idle(name));
    }
    let first = rig.start_agent(&[]);
    for name in ["a-node1", "b-node1"] {
        rig.wait_running(name, "main");
    }
    let before = rig.fingerprint();
    assert_refused(&rig, rig.start_agent(&[]), "the root directory ");
    assert_refused(&rig, start_other(&rig, &rig.endpoint(), NODE), "the runtime ");
    // The same runtime by other names.
    let socket = rig.endpoint().trim_start_matches("unix://").to_owned();
    let link = rig.dir().join("link.sock");
    symlink(&socket, &link).expect("link to the socket");
    let doubled = socket.replacen('/', "//", 2);
    for alias in [link.display().to_string(), format!("unix://{doubled}")] {
        assert_refused(&rig, start_other(&rig, &alias, NODE), "the runtime ");
    }
    rig.assert_untouched(&before);
    first.wait_healthy();

    // Whoever comes after a kill starts at once.
    first.kill9();
    let started = Instant::now();
    let successor = rig.start_agent(&[]);
    successor.wait_for_log("rkubelet is running");
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    rig.write_manifest("c.yaml", &manifest::idle("c"));
    rig.wait_running("c-node1", "main");
    rig.assert_untouched(&before);
}

#[test]
fn an_agent_of_another_node_name_on_the_same_runtime_is_refused_too() {
    let rig = Rig::new();
    rig.write_manifest("a.yaml", &manifest::idle("a"));
    let _first = rig.start_agent(&[]);
    rig.wait_running("a-node1", "main");
    let before = rig.fingerprint();
    // It would take the pods of the first for its own that nobody wants any more.
    assert_refused(&rig, start_other(&rig, &rig.endpoint(), "node2"), "the runtime ");
    rig.assert_untouched(&before);
}
