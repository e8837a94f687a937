//! Pods that the node has no room for, or that want another node; and pods that make room for others.

use serde_json::Value;

use crate::manifest::{self, IDLE};
use crate::rig::{READ_ONLY_PORT, Rig};

/// A pod that requests a part of the node's memory, without using it.
fn sized(rig: &Rig, name: &str, percent: u64, spec: &str) -> String {
    let meminfo = rig.output("cat", &["/proc/meminfo"]);
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")).expect("a total");
    let kib: u64 = total.trim().trim_end_matches(" kB").parse().expect("a number");
    let text = manifest::pod(name, spec, IDLE);
    let memory = kib * percent / 100;
    text.replace(
        "    command:\n",
        &format!("    resources: {{requests: {{memory: {memory}Ki}}}}\n    command:\n"),
    )
}

fn status(rig: &Rig, pod: &str) -> Value {
    rig.pod(pod).unwrap_or_default()["status"].clone()
}

fn wait_for_reason(rig: &Rig, pod: &str, reason: &str) -> Value {
    rig.wait(&format!("{pod} to tell {reason}"), || status(rig, pod)["reason"] == reason);
    status(rig, pod)
}

/// The events of a pod as a whole, by their reason.
fn events(rig: &Rig, pod: &str) -> Vec<(String, String)> {
    let reply = rig.http_get(&format!("http://127.0.0.1:{READ_ONLY_PORT}/events"));
    let list: Value =
        serde_json::from_str(&reply.map(|reply| reply.body).unwrap_or_default()).unwrap_or_default();
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let own = items.iter().filter(|item| {
        item["involvedObject"]["name"] == pod && item["involvedObject"].get("fieldPath").is_none()
    });
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    own.map(|item| (text(&item["reason"]), text(&item["message"]))).collect()
}

#[test]
fn a_pod_that_does_not_fit_is_refused_and_starts_when_there_is_room() {
    let rig = Rig::new();
    rig.write_manifest("z.yaml", &sized(&rig, "z", 60, ""));
    let agent = rig.start_agent(&[]);
    let first = rig.wait_running("z-node1", "main");
    rig.write_manifest("a.yaml", &sized(&rig, "a", 60, ""));
    let refused = wait_for_reason(&rig, "a-node1", "OutOfmemory");
    assert_eq!(refused["phase"], "Pending", "{refused}");
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(
        message.starts_with("Pod was rejected: Node didn't have enough resource: memory, requested: "),
        "{message}"
    );
    let waiting = &refused["containerStatuses"][0]["state"]["waiting"];
    assert_eq!(waiting["reason"], "OutOfmemory", "{refused}");
    let told = events(&rig, "a-node1");
    assert!(told.len() == 1 && told[0].0 == "OutOfmemory" && !told[0].1.contains("rejected"), "{told:?}");

    // Whoever runs keeps its place over a restart of the agent, first in the alphabet or not.
    agent.kill9();
    let _agent = rig.start_agent(&[]);
    wait_for_reason(&rig, "a-node1", "OutOfmemory");
    rig.write_manifest("marker.yaml", &manifest::idle("marker"));
    rig.wait_running("marker-node1", "main");
    assert_eq!(rig.wait_running("z-node1", "main").id, first.id);
    assert!(rig.containers_of("a-node1").is_empty(), "{}", rig.report());

    // An edit that does not fit leaves the version before it alone.
    rig.write_manifest("z.yaml", &sized(&rig, "z", 120, ""));
    wait_for_reason(&rig, "z-node1", "OutOfmemory");
    assert_eq!(rig.wait_running("z-node1", "main").id, first.id);

    rig.remove_manifest("z.yaml");
    rig.wait_running("a-node1", "main");
    rig.wait("the reason to go", || status(&rig, "a-node1").get("reason").is_none());
}

#[test]
fn a_pod_for_another_node_or_one_too_many_is_refused() {
    let rig = Rig::new();
    rig.write_config("maxPods: 2\n");
    rig.write_manifest(
        "a.yaml",
        &manifest::pod("a", "nodeSelector: {rack: left, kubernetes.io/os: linux}", IDLE),
    );
    rig.write_manifest("b.yaml", &manifest::pod("b", "nodeSelector: {rack: right}", IDLE));
    let affinity = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: \
                    [{matchExpressions: [{key: rack, operator: NotIn, values: [left]}]}]}}}";
    rig.write_manifest("c.yaml", &manifest::pod("c", affinity, IDLE));
    let _agent = rig.start_agent(&["--node-labels=rack=left"]);
    rig.wait_running("a-node1", "main");
    for pod in ["b-node1", "c-node1"] {
        let refused = wait_for_reason(&rig, pod, "NodeAffinity");
        let message = "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
        assert_eq!(refused["message"], message, "{pod}");
    }
    // Refused ones take no place.
    rig.write_manifest("d.yaml", &manifest::idle("d"));
    rig.wait_running("d-node1", "main");
    rig.write_manifest("e.yaml", &manifest::idle("e"));
    wait_for_reason(&rig, "e-node1", "OutOfpods");
    rig.remove_manifest("a.yaml");
    rig.wait_running("e-node1", "main");
    assert!(rig.containers_of("b-node1").is_empty() && rig.containers_of("c-node1").is_empty());
}

#[test]
fn a_critical_pod_takes_the_place_of_another_which_comes_back() {
    let rig = Rig::new();
    rig.write_manifest("low.yaml", &sized(&rig, "low", 60, ""));
    rig.write_manifest("small.yaml", &sized(&rig, "small", 5, ""));
    let agent = rig.start_agent(&[]);
    let small = rig.wait_running("small-node1", "main");
    let before = rig.wait_running("low-node1", "main");
    rig.write_manifest("high.yaml", &sized(&rig, "high", 60, "priorityClassName: system-node-critical"));
    rig.wait_running("high-node1", "main");
    let ended = wait_for_reason(&rig, "low-node1", "Preempting");
    assert_eq!(
        (ended["phase"].as_str(), ended["message"].as_str()),
        (Some("Failed"), Some("Preempted in order to admit critical pod"))
    );
    let preempting = ("Preempting".to_owned(), "Preempted in order to admit critical pod".to_owned());
    assert_eq!(events(&rig, "low-node1"), [preempting]);
    assert_eq!(rig.wait_running("small-node1", "main").id, small.id);

    // A successor knows it.
    agent.kill9();
    let _agent = rig.start_agent(&[]);
    wait_for_reason(&rig, "low-node1", "Preempting");
    rig.write_manifest("marker.yaml", &manifest::idle("marker"));
    rig.wait_running("marker-node1", "main");
    assert!(rig.ready_sandboxes("default", "low-node1").is_empty(), "{}", rig.report());

    rig.remove_manifest("high.yaml");
    assert_ne!(rig.wait_running("low-node1", "main").id, before.id);
    rig.wait("the reason to go", || status(&rig, "low-node1").get("reason").is_none());
    assert_eq!(rig.wait_running("small-node1", "main").id, small.id);
}
