//! Names that are as long as Kubernetes allows, and longer than a file system takes; and where links to logs are.

use std::fs;
use std::time::Duration;

use crate::manifest;
use crate::rig::{Rig, wait_until};

/// A name that is so long with the node's name behind it.
fn name(length: usize) -> String {
    let own = length - "-node1".len();
    "n".repeat(own)
}

fn full(name: &str) -> String {
    format!("{name}-node1")
}

fn links(rig: &Rig) -> Vec<String> {
    let entries = fs::read_dir(rig.container_links_dir()).expect("the links").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Whether some link leads to a log.
fn is_linked(rig: &Rig, log: &str) -> bool {
    let dir = rig.container_links_dir();
    let leads = |link: &String| fs::read_link(dir.join(link)).is_ok_and(|to| to.display().to_string() == log);
    links(rig).iter().any(leads)
}

/// A pod whose link must be cut; its first container dies, and then the pod goes.
fn link_is_cut(container: &str) {
    let rig = Rig::new();
    let name = name(200);
    let text = manifest::idle(&name).replace("name: main", &format!("name: {container}"));
    rig.write_manifest("pod.yaml", &text);
    let agent = rig.start_agent(&[]);
    let main = rig.wait_running(&full(&name), container);
    let [link] = &links(&rig)[..] else { panic!("one link: {:?}", links(&rig)) };
    assert_eq!(link.len(), 255, "{link}");
    let start = format!("{}_default_{container}-", full(&name));
    assert!(link.starts_with(start.get(..250).unwrap_or(&start)) && link.ends_with(".log"), "{link}");
    assert!(is_linked(&rig, &main.log_path), "{}", rig.report());
    assert!(agent.log_lines_with("cannot link the log").is_empty(), "{}", agent.log());
    // A restart has a log of its own, and a link to it.
    rig.kill_process(main.pid);
    let mut newest = String::new();
    rig.wait("the restart", || {
        let all = rig.containers_of(&full(&name));
        let next = all.into_iter().find(|seen| seen.attempt == 1 && seen.pid != 0);
        next.map(|next| newest = next.log_path).is_some()
    });
    rig.wait("a link to the new log", || is_linked(&rig, &newest));
    rig.remove_manifest("pod.yaml");
    rig.wait("everything to go", || rig.sandboxes().is_empty() && links(&rig).is_empty());
}

#[test]
fn a_link_that_would_be_too_long_is_cut_and_goes_with_its_pod() {
    link_is_cut("main");
}

#[test]
fn so_is_one_that_is_cut_before_the_id() {
    link_is_cut(&"c".repeat(63));
}

#[test]
fn a_pod_whose_directories_cannot_be_says_so_and_can_be_removed() {
    let rig = Rig::new();
    let names = [name(230), name(253)];
    for (place, name) in names.iter().enumerate() {
        rig.write_manifest(&format!("{place}.yaml"), &manifest::idle(name));
    }
    let agent = rig.start_agent(&[]);
    for name in &names {
        let status = || rig.pod(&full(name)).map(|pod| pod["status"].clone()).unwrap_or_default();
        rig.wait("the reason", || status().to_string().contains("File name too long"));
        assert_eq!(status()["phase"], "Pending", "{}", status());
    }
    rig.write_manifest("other.yaml", &manifest::idle("other"));
    rig.wait_running("other-node1", "main");
    // It is remembered, and forgotten, though the agent is another.
    agent.kill9();
    let _agent = rig.start_agent(&[]);
    rig.wait("the agent", || rig.pod(&full(&names[1])).is_some());
    for place in 0..names.len() {
        rig.remove_manifest(&format!("{place}.yaml"));
    }
    let gone = || names.iter().all(|name| rig.pods().is_some() && rig.pod(&full(name)).is_none());
    assert!(wait_until(Duration::from_secs(20), gone), "{}", rig.report());
    let checkpoints = fs::read_dir(rig.root_dir().join("rkubelet/pods")).into_iter().flatten().count();
    assert_eq!(checkpoints, 1, "only that of the other pod is left");
}

#[test]
fn links_are_where_collectors_look_wherever_the_logs_are() {
    let rig = Rig::new();
    let logs = rig.dir().join("elsewhere/deep");
    let config = fs::read_to_string(rig.config_path()).expect("read the configuration");
    let moved = config.replace(&rig.pod_logs_dir().display().to_string(), &logs.display().to_string());
    fs::write(rig.config_path(), moved).expect("write the configuration");
    rig.write_manifest("pod.yaml", &manifest::idle("pod"));
    let _agent = rig.start_agent(&[]);
    let main = rig.wait_running("pod-node1", "main");
    assert!(main.log_path.starts_with(&logs.display().to_string()), "{}", main.log_path);
    rig.wait("the link", || is_linked(&rig, &main.log_path));
    rig.remove_manifest("pod.yaml");
    rig.wait("everything to go", || rig.sandboxes().is_empty() && links(&rig).is_empty());
}
