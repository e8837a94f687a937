//! Point 3: an edited manifest replaces its pod, a removed one ends it, and neither leaves anything behind.

use std::fs;
use std::time::{Duration, Instant};

use crate::manifest::{self, journal, journalled};
use crate::rig::{ContainerState, NODE_IP, Rig};

#[test]
fn the_new_instance_starts_when_the_old_one_is_gone() {
    let rig = Rig::new();
    rig.write_manifest("pod.yaml", &journalled(&rig, "pod", "1"));
    let _agent = rig.start_agent(&[]);
    let old = rig.wait_running("pod-node1", "main");
    rig.wait("instance 1", || journal(&rig, "pod") == ["start 1"]);

    rig.write_manifest("pod.yaml", &journalled(&rig, "pod", "2"));
    let mut ended = None;
    rig.wait("instance 2", || {
        let seen = rig.containers_of("pod-node1");
        let running = seen.iter().filter(|seen| seen.state == ContainerState::Running);
        assert!(running.count() < 2, "two instances at once: {seen:#?}");
        let gone = seen.iter().find(|seen| seen.id == old.id && seen.state == ContainerState::Exited);
        ended = gone.map(|seen| seen.finished_at).or(ended);
        journal(&rig, "pod").contains(&"start 2".to_owned())
    });
    assert_eq!(journal(&rig, "pod"), ["start 1", "asked 1", "end 1", "start 2"]);
    let new = rig.wait_running("pod-node1", "main");
    assert_ne!(old.labels["io.kubernetes.pod.uid"], new.labels["io.kubernetes.pod.uid"]);
    if let Some(ended) = ended {
        assert!(ended <= new.started_at, "the old one ended before the new one started");
        let gap = Duration::from_nanos(u64::try_from(new.started_at - ended).expect("no overlap"));
        assert!(
            gap < Duration::from_secs(5),
            "the new one starts the moment the old one is gone, not {gap:?} later"
        );
    }
    let old_uid = &old.labels["io.kubernetes.pod.uid"];
    rig.wait("the old instance's leavings to go", || {
        rig.sandboxes().iter().all(|seen| seen.uid != *old_uid)
            && !rig.pod_dir(old_uid).exists()
            && !rig.pod_logs_dir().join(format!("default_pod-node1_{old_uid}")).exists()
    });
}

#[test]
fn an_instance_that_ignores_the_request_is_killed_after_its_grace() {
    let rig = Rig::new();
    // A first process without a handler for SIGTERM does not see it.
    rig.write_manifest("deaf.yaml", &manifest::script("deaf", "exec sleep 1000 # 1"));
    let _agent = rig.start_agent(&[]);
    let old = rig.wait_running("deaf-node1", "main");
    let edited = Instant::now();
    rig.write_manifest("deaf.yaml", &manifest::script("deaf", "exec sleep 1000 # 2"));
    rig.wait("the new instance", || {
        let seen = rig.containers_of("deaf-node1");
        seen.iter().any(|seen| seen.state == ContainerState::Running && seen.id != old.id)
    });
    let took = edited.elapsed();
    assert!(took >= Duration::from_secs(1), "the grace period was cut: {took:?}");
    assert!(took < Duration::from_secs(8), "a grace period of 1 s took {took:?}");
}

#[test]
fn the_newest_of_many_edits_wins() {
    let rig = Rig::new();
    rig.write_manifest("pod.yaml", &journalled(&rig, "pod", "0"));
    let _agent = rig.start_agent(&[]);
    rig.wait("instance 0", || journal(&rig, "pod") == ["start 0"]);
    for instance in 1..10 {
        rig.write_manifest("pod.yaml", &journalled(&rig, "pod", &instance.to_string()));
    }
    rig.wait("instance 9", || journal(&rig, "pod").contains(&"start 9".to_owned()));
    let mut open = None;
    for line in journal(&rig, "pod") {
        match line.split_once(' ').expect("a word and an instance") {
            ("start", instance) => {
                assert_eq!(open, None, "instances overlap: {:?}", journal(&rig, "pod"));
                open = Some(instance.to_owned());
            }
            ("end", _) => open = None,
            _ => {}
        }
    }
    assert_eq!(journal(&rig, "pod").last().map(String::as_str), Some("start 9"));
}

#[test]
fn a_file_that_is_written_again_unchanged_restarts_nothing() {
    let rig = Rig::new();
    rig.write_manifest("a.yaml", &manifest::idle("a"));
    let _agent = rig.start_agent(&[]);
    rig.wait_running("a-node1", "main");
    let before = rig.fingerprint();
    rig.write_manifest("a.yaml", &manifest::idle("a"));
    // When a later file's pod runs, the earlier write has been seen.
    rig.write_manifest("b.yaml", &manifest::idle("b"));
    rig.wait_running("b-node1", "main");
    rig.assert_untouched(&before);
}

#[test]
fn a_removed_file_takes_its_pod_and_everything_of_it_along() {
    let rig = Rig::new();
    rig.write_manifest("web.yaml", manifest::WEB);
    rig.write_manifest("stays.yaml", &manifest::idle("stays"));
    let _agent = rig.start_agent(&[]);
    let web = rig.wait_running("web-node1", "web");
    let stays = rig.wait_running("stays-node1", "main");
    let uid = &web.labels["io.kubernetes.pod.uid"];
    assert!(rig.pod_dir(uid).exists());

    rig.remove_manifest("web.yaml");
    rig.wait("sandbox, containers, directory, logs and links to go", || {
        let links = fs::read_dir(rig.container_links_dir()).expect("the links").flatten();
        let links = links.filter(|link| link.file_name().to_string_lossy().starts_with("web-node1_"));
        rig.sandboxes().iter().all(|seen| seen.pod != "web-node1")
            && rig.containers_of("web-node1").is_empty()
            && !rig.pod_dir(uid).exists()
            && !rig.pod_logs_dir().join(format!("default_web-node1_{uid}")).exists()
            && links.count() == 0
    });
    assert!(rig.http_get(&format!("http://{NODE_IP}:18080/")).is_none(), "the host port is free again");
    assert_eq!(rig.wait_running("stays-node1", "main").id, stays.id);
    rig.wait("the pod to leave the list", || rig.pods().is_some() && rig.pod("web-node1").is_none());
}

#[test]
fn a_file_that_is_removed_and_comes_back_is_a_pod_again() {
    let rig = Rig::new();
    rig.write_manifest("pod.yaml", &journalled(&rig, "pod", "1"));
    let _agent = rig.start_agent(&[]);
    rig.wait("the first instance", || journal(&rig, "pod") == ["start 1"]);
    rig.remove_manifest("pod.yaml");
    rig.wait("the request to end", || journal(&rig, "pod").contains(&"asked 1".to_owned()));
    rig.write_manifest("pod.yaml", &journalled(&rig, "pod", "1"));
    rig.wait("the second instance", || journal(&rig, "pod").len() == 4);
    assert_eq!(journal(&rig, "pod"), ["start 1", "asked 1", "end 1", "start 1"]);
}
