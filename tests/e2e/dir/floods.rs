//! Many files, many changes, more events than the kernel keeps.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{NO_RESCAN, accepted, refused};
use crate::manifest::{self, journal, journalled};
use crate::rig::{Rig, wait_until};

#[test]
fn a_thousand_files_at_once_are_a_thousand_pods_and_outlive_the_agent() {
    // The source is what is tested: the pods wait for a runtime.
    let rig = Rig::without_containerd();
    let listed = || {
        let pods = rig.pods().unwrap_or_default();
        pods["items"].as_array().map_or(0, Vec::len)
    };
    let agent = rig.start_agent(&[NO_RESCAN]);
    agent.wait_healthy();
    for number in 0..1000 {
        rig.write_manifest(&format!("p{number}.yaml"), &manifest::idle(&format!("p{number}")));
    }
    rig.wait("a thousand pods", || listed() == 1000);
    assert_eq!(agent.log_lines_with("manifest accepted").len(), 1000);
    agent.kill9();
    let aside = rig.dir().join("aside");
    fs::rename(rig.manifest_dir(), &aside).expect("move the directory away");
    let agent = rig.start_agent(&[NO_RESCAN]);
    rig.wait("a thousand pods without their directory", || listed() == 1000);
    fs::rename(&aside, rig.manifest_dir()).expect("move the directory back");
    agent.wait_for_log("reading the manifests again");
    for number in 0..999 {
        rig.remove_manifest(&format!("p{number}.yaml"));
    }
    // Without a runtime nobody can tell that they have ended: their end is wished for.
    rig.wait("all but one to go", || agent.log_lines_with("manifest is gone").len() == 999);
    let kept = || fs::read_dir(rig.root_dir().join("rkubelet/files")).expect("the records").count();
    rig.wait("their records to go", || kept() == 2);
}

#[test]
fn a_hundred_changes_a_second_restart_nothing_in_vain() {
    let rig = Rig::new();
    rig.write_manifest("same.yaml", &manifest::idle("same"));
    rig.write_manifest("busy.yaml", &journalled(&rig, "busy", "0"));
    let agent = rig.start_agent(&[NO_RESCAN]);
    let same = rig.wait_running("same-node1", "main");
    rig.wait("the busy pod", || journal(&rig, "busy") == ["start 0"]);
    for number in 1..=300 {
        rig.write_manifest("same.yaml", &manifest::idle("same"));
        rig.write_manifest("busy.yaml", &journalled(&rig, "busy", &number.to_string()));
        // A hundred a second: this is the load that is tested.
        wait_until(Duration::from_millis(10), || false);
    }
    rig.wait("the last version", || journal(&rig, "busy").last().is_some_and(|line| line == "start 300"));
    assert_eq!(accepted(&agent, "same.yaml"), 1, "{}", agent.log());
    assert_eq!(rig.wait_running("same-node1", "main").id, same.id);
    assert!(accepted(&agent, "busy.yaml") > 1);
    assert_eq!(refused(&agent, "busy.yaml"), 0);
}

#[test]
fn files_that_are_rewritten_one_after_the_other_keep_their_pods() {
    // The source is what is tested: the pods wait for a runtime.
    let rig = Rig::without_containerd();
    let names: Vec<String> = (0..20).map(|number| format!("p{number}")).collect();
    for name in names.iter().map(String::as_str).chain(["goes"]) {
        rig.write_manifest(&format!("{name}.yaml"), &manifest::idle(name));
    }
    let agent = rig.start_agent(&[NO_RESCAN]);
    rig.wait("all to be accepted", || agent.log_lines_with("manifest accepted").len() == 21);
    // Where the machine was slow, the agent may be right to think one gone.
    let mut long_away = vec!["goes"];
    for _ in 0..10 {
        for name in &names {
            let away = Instant::now();
            rig.remove_manifest(&format!("{name}.yaml"));
            // As long as a tool takes that removes a file and writes it anew.
            wait_until(Duration::from_millis(8), || false);
            fs::write(rig.manifest_dir().join(format!("{name}.yaml")), manifest::idle(name))
                .expect("write it anew");
            if away.elapsed() >= Duration::from_millis(150) {
                long_away.push(name);
            }
        }
    }
    // It is removed last: the others have been judged by then.
    rig.remove_manifest("goes.yaml");
    let gone = || agent.log_lines_with("manifest is gone");
    let is_of = |line: &str, name: &str| line.contains(&format!("/{name}.yaml"));
    rig.wait("the removed one to go", || gone().iter().any(|line| is_of(line, "goes")));
    let in_vain = |line: &String| !long_away.iter().any(|name| is_of(line, name));
    assert_eq!(gone().into_iter().filter(in_vain).collect::<Vec<_>>(), [""; 0], "away {long_away:?}");
}

#[test]
fn nothing_is_lost_when_inotifys_queue_overflows() {
    let rig = Rig::new();
    for name in ["stays", "goes", "edited"] {
        rig.write_manifest(&format!("{name}.yaml"), &journalled(&rig, name, "1"));
    }
    let agent = rig.start_agent(&[NO_RESCAN]);
    for name in ["stays", "goes", "edited"] {
        rig.wait(name, || journal(&rig, name) == ["start 1"]);
    }
    let frozen = agent.freeze();
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").expect("the limit");
    let limit: u32 = limit.trim().parse().expect("a number");
    // Each gives several events, and none equals the one before.
    for number in 0..limit {
        let file = rig.manifest_dir().join(format!("noise-{}", number % 2));
        fs::write(file, "noise").expect("make noise");
    }
    rig.remove_manifest("goes.yaml");
    rig.write_manifest("edited.yaml", &journalled(&rig, "edited", "2"));
    rig.write_manifest("comes.yaml", &journalled(&rig, "comes", "1"));
    drop(frozen);
    rig.wait("the new pod", || journal(&rig, "comes") == ["start 1"]);
    rig.wait("the edited pod", || journal(&rig, "edited") == ["start 1", "asked 1", "end 1", "start 2"]);
    rig.wait("the removed pod to go", || rig.containers_of("goes-node1").is_empty());
    assert_eq!(journal(&rig, "stays"), ["start 1"]);
    assert!(!agent.log_lines_with("events of the manifests were lost").is_empty(), "{}", agent.log());
    let pid = agent.pid().expect("the agent runs").as_raw_nonzero().get();
    // One for the manifests, one for the logs.
    assert_eq!(inotify_instances(pid), 2);
}

fn inotify_instances(pid: i32) -> usize {
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).expect("the agent's files").flatten();
    fds.filter(|fd| fs::read_link(fd.path()).is_ok_and(|to| to == Path::new("anon_inode:inotify"))).count()
}
