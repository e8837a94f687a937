//! How the end of a container is told: one line in the log, and events that name the right field of the manifest.

use crate::manifest;
use crate::resources::eater;
use crate::rig::{Agent, BUSYBOX, READ_ONLY_PORT, Rig};

/// The lines about the end of containers of a pod.
fn ends(agent: &Agent<'_>, pod: &str) -> Vec<String> {
    let mut lines = agent.log_lines_with(pod);
    lines.retain(|line| line.contains("container has ended") || line.contains("was killed after"));
    lines
}

#[test]
fn the_end_of_a_container_is_one_line() {
    let rig = Rig::new();
    rig.write_manifest("fails.yaml", &manifest::pod("fails", "restartPolicy: Never", "sleep 2; exit 7"));
    rig.write_manifest("done.yaml", &manifest::pod("done", "restartPolicy: Never", "exit 0"));
    rig.write_manifest("hungry.yaml", &eater("hungry"));
    let agent = rig.start_agent(&[]);
    for (pod, level, words) in [
        ("fails-node1", "INFO", &["exit_code=7", "reason=\"Error\"", "after="][..]),
        ("done-node1", "INFO", &["exit_code=0", "reason=\"Completed\"", "after="]),
        ("hungry-node1", "WARN", &["exit code 137", "reason=\"OOMKilled\"", "killed after", "out of memory"]),
    ] {
        rig.wait(&format!("the end of {pod}"), || !ends(&agent, pod).is_empty());
        rig.wait("its phase", || {
            let phase = rig.pod(pod).map(|pod| pod["status"]["phase"].clone()).unwrap_or_default();
            phase == "Succeeded" || phase == "Failed"
        });
        let told = ends(&agent, pod);
        let [line] = &told[..] else { panic!("one line: {told:?}") };
        let named = words.iter().chain(&[level, "container=\"main\""]).all(|word| line.contains(word));
        assert!(named, "{line}");
        if pod == "fails-node1" {
            // The runtime's two clocks may differ by milliseconds, and a busy machine takes its time.
            let ran = line.split("after=\"").nth(1).and_then(|rest| rest.split('s').next());
            let seconds: f64 = ran.and_then(|ran| ran.parse().ok()).expect("seconds");
            assert!((1.9..30.0).contains(&seconds), "{line}");
        }
    }
    // An agent that comes later does not tell it again.
    agent.terminate();
    let agent = rig.start_agent(&[]);
    rig.write_manifest("marker.yaml", &manifest::idle("marker"));
    rig.wait_running("marker-node1", "main");
    assert_eq!(ends(&agent, "fails-node1").len(), 0, "{}", agent.log());
}

#[test]
fn a_container_that_ends_at_once_has_its_line_too() {
    let rig = Rig::new();
    let pods = ["a", "b", "c", "d", "e"];
    for name in pods {
        let text = manifest::pod(name, "restartPolicy: Never", "exit 0");
        let (head, _) = text.split_once("    command:").expect("a command");
        rig.write_manifest(&format!("{name}.yaml"), &format!("{head}    command: [/bin/true]\n"));
    }
    let agent = rig.start_agent(&[]);
    for name in pods {
        let pod = format!("{name}-node1");
        rig.wait("its phase", || rig.pod(&pod).is_some_and(|pod| pod["status"]["phase"] == "Succeeded"));
        assert_eq!(ends(&agent, &pod).len(), 1, "{}", agent.log());
    }
}

#[test]
fn events_name_the_field_of_the_container() {
    let rig = Rig::new();
    let probe = "livenessProbe: {exec: {command: [/bin/false]}, periodSeconds: 1, failureThreshold: 1}";
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: pod}}\nspec:\n  terminationGracePeriodSeconds: 1\n  \
         initContainers:\n  - {{name: side, image: {BUSYBOX}, restartPolicy: Always, command: [sleep, '1000'], {probe}}}\n  \
         containers:\n  - {{name: main, image: {BUSYBOX}, command: [sleep, '1000'], {probe}}}\n"
    );
    rig.write_manifest("pod.yaml", &text);
    let _agent = rig.start_agent(&[]);
    let events = || -> Vec<(String, String)> {
        let reply = rig.http_get(&format!("http://127.0.0.1:{READ_ONLY_PORT}/events"));
        let list: serde_json::Value =
            reply.and_then(|reply| serde_json::from_str(&reply.body).ok()).unwrap_or_default();
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        items
            .iter()
            .map(|event| (text(&event["reason"]), text(&event["involvedObject"]["fieldPath"])))
            .collect()
    };
    for reason in ["Unhealthy", "Killing"] {
        for path in ["spec.initContainers{side}", "spec.containers{main}"] {
            rig.wait(&format!("{reason} of {path}"), || {
                events().contains(&(reason.to_owned(), path.to_owned()))
            });
        }
    }
    // Events of the node and of the pod as a whole have none.
    let paths = events().into_iter().map(|(_, path)| path).filter(|path| !path.is_empty());
    let paths: std::collections::BTreeSet<_> = paths.collect();
    assert_eq!(paths.len(), 2, "{paths:?}");
}
