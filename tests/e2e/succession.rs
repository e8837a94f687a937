//! One instance of a name after the other: whatever happens to the files, the last edit wins and nothing overlaps.
//! Each reading of a journal sees to the latter.

use std::fs;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::manifest::{self, journal, journalled};
use crate::rig::{ContainerState, Rig};

fn last(rig: &Rig, pod: &str) -> String {
    journal(rig, pod).last().cloned().unwrap_or_default()
}

/// A pod that does not restart: an instance that is ended for another must not count as failed.
fn once(rig: &Rig, pod: &str, instance: &str) -> String {
    journalled(rig, pod, instance).replace("spec:\n", "spec:\n  restartPolicy: Never\n")
}

#[test]
fn an_edit_that_is_taken_back_while_the_old_instance_ends_runs_afresh() {
    let rig = Rig::new();
    rig.write_manifest("pod.yaml", &once(&rig, "pod", "1"));
    let _agent = rig.start_agent(&[]);
    rig.wait("instance 1", || journal(&rig, "pod") == ["start 1"]);
    rig.write_manifest("pod.yaml", &once(&rig, "pod", "2"));
    rig.wait("the request to end", || journal(&rig, "pod").contains(&"asked 1".to_owned()));
    rig.write_manifest("pod.yaml", &once(&rig, "pod", "1"));
    rig.wait("instance 1 again", || journal(&rig, "pod").len() > 3 && last(&rig, "pod") == "start 1");
    assert_eq!(rig.wait_running("pod-node1", "main").attempt, 0, "it did not fail: it was ended");
}

#[test]
fn edits_while_the_old_instance_ends_lead_to_the_last_one_alone() {
    let rig = Rig::new();
    rig.write_manifest("pod.yaml", &once(&rig, "pod", "1"));
    let _agent = rig.start_agent(&[]);
    rig.wait("instance 1", || journal(&rig, "pod") == ["start 1"]);
    rig.write_manifest("pod.yaml", &once(&rig, "pod", "2"));
    rig.wait("the request to end", || journal(&rig, "pod").contains(&"asked 1".to_owned()));
    for instance in ["3", "4", "5"] {
        rig.write_manifest("pod.yaml", &once(&rig, "pod", instance));
    }
    rig.wait("instance 5", || last(&rig, "pod") == "start 5");
    let started = journal(&rig, "pod").iter().filter(|line| line.starts_with("start")).count();
    assert!(started <= 3, "hardly anything starts in vain: {:?}", journal(&rig, "pod"));
}

#[test]
fn a_renamed_file_is_its_pods_successor() {
    let rig = Rig::new();
    rig.write_manifest("a.yaml", &once(&rig, "pod", "1"));
    let _agent = rig.start_agent(&[]);
    rig.wait("the pod", || journal(&rig, "pod") == ["start 1"]);
    fs::rename(rig.manifest_dir().join("a.yaml"), rig.manifest_dir().join("b.yaml"))
        .expect("rename the file");
    rig.wait("its successor", || journal(&rig, "pod").len() == 4);
    assert_eq!(journal(&rig, "pod"), ["start 1", "asked 1", "end 1", "start 1"]);
    assert_eq!(rig.wait_running("pod-node1", "main").attempt, 0);
}

/// Two pods in two files, exchanged by `swap`; both have successors, and each name runs once.
fn swapped(swap: impl Fn(&Rig)) {
    let rig = Rig::new();
    for (file, pod) in [("a.yaml", "one"), ("b.yaml", "two")] {
        rig.write_manifest(file, &once(&rig, pod, file));
    }
    let _agent = rig.start_agent(&["--file-check-frequency=2s"]);
    for pod in ["one", "two"] {
        rig.wait(pod, || journal(&rig, pod).len() == 1);
    }
    swap(&rig);
    for pod in ["one", "two"] {
        rig.wait(pod, || journal(&rig, pod).len() == 4);
        assert_eq!(rig.wait_running(&format!("{pod}-node1"), "main").attempt, 0);
    }
    rig.wait("the leavings of the old ones to go", || rig.sandboxes().len() == 2);
}

#[test]
fn two_files_that_swap_their_names_have_successors() {
    swapped(|rig| {
        let path = |file: &str| rig.manifest_dir().join(file);
        fs::rename(path("a.yaml"), rig.dir().join("aside")).expect("move a file aside");
        fs::rename(path("b.yaml"), path("a.yaml")).expect("rename the other");
        fs::rename(rig.dir().join("aside"), path("b.yaml")).expect("put it in its place");
    });
}

#[test]
fn two_files_that_swap_their_contents_at_once_have_successors() {
    swapped(|rig| {
        let path = |file: &str| rig.manifest_dir().join(file);
        renameat_with(CWD, path("a.yaml"), CWD, path("b.yaml"), RenameFlags::EXCHANGE)
            .expect("exchange two files");
    });
}

#[test]
fn two_files_whose_contents_are_written_over_each_other_have_successors() {
    swapped(|rig| {
        let text = |file: &str| fs::read_to_string(rig.manifest_dir().join(file)).expect("read a manifest");
        let (a, b) = (text("a.yaml"), text("b.yaml"));
        rig.write_manifest("a.yaml", &b);
        rig.write_manifest("b.yaml", &a);
    });
}

#[test]
fn an_edited_pod_that_obeys_is_there_again_soon() {
    let rig = Rig::new();
    let text = |instance: u32| manifest::script("pod", &format!("{} # {instance}", manifest::IDLE));
    rig.write_manifest("pod.yaml", &text(0));
    let _agent = rig.start_agent(&[]);
    let mut running = rig.wait_running("pod-node1", "main");
    let mut took = Vec::new();
    for instance in 1..=5 {
        let edited = Instant::now();
        rig.write_manifest("pod.yaml", &text(instance));
        rig.wait("the new process", || {
            let all = rig.containers_of("pod-node1");
            let new = all.into_iter().find(|c| c.state == ContainerState::Running && c.id != running.id);
            new.map(|new| running = new).is_some()
        });
        took.push(edited.elapsed());
    }
    println!("edit to new process: {took:?}");
    took.sort();
    assert!(took[2] < Duration::from_secs(5), "{took:?}");
}
