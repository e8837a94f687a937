//! What follows the end of a container: policies and rules, back-off, completion, and what outlives the agent.

mod rules;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::manifest::{self, IDLE};
use crate::rig::{BUSYBOX, ContainerState, Rig, wait_until};

/// The pod `marker` is written last, and runs: what came before it has been looked at by then.
fn settle(rig: &Rig, marker: &str) {
    rig.write_manifest(&format!("{marker}.yaml"), &manifest::idle(marker));
    rig.wait_running(&format!("{marker}-node1"), "main");
}

fn status(rig: &Rig, pod: &str) -> Value {
    rig.pod(pod).map(|pod| pod["status"].clone()).unwrap_or_default()
}

fn wait_phase(rig: &Rig, pod: &str, phase: &str) {
    rig.wait(&format!("pod {pod} to be {phase}"), || status(rig, pod)["phase"] == phase);
}

fn record(rig: &Rig, pod: &str) -> PathBuf {
    rig.root_dir().join(format!("rkubelet/pods/default_{pod}.json"))
}

/// A pod whose containers share the directory `shared` with the test; each is (name, fields, script).
fn sharing(
    rig: &Rig,
    name: &str,
    spec: &str,
    init: &[(&str, &str, &str)],
    main: &[(&str, &str, &str)],
) -> String {
    let dir = shared(rig);
    fs::create_dir_all(&dir).expect("create the shared directory");
    let each = |containers: &[(&str, &str, &str)]| -> String {
        let one = |(name, fields, script): &(&str, &str, &str)| {
            format!(
                "  - name: {name}\n    image: {BUSYBOX}\n    command: [sh, -c, {script:?}]\n    \
                 volumeMounts: [{{name: shared, mountPath: /shared}}]\n{}",
                fields.lines().map(|line| format!("    {line}\n")).collect::<String>()
            )
        };
        containers.iter().map(one).collect()
    };
    let init = if init.is_empty() { String::new() } else { format!("  initContainers:\n{}", each(init)) };
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  terminationGracePeriodSeconds: 1\n  {spec}\n  \
         volumes: [{{name: shared, hostPath: {{path: {}}}}}]\n{init}  containers:\n{}",
        dir.display(),
        each(main)
    )
}

fn shared(rig: &Rig) -> PathBuf {
    rig.dir().join("shared")
}

fn lines(rig: &Rig, file: &str) -> Vec<String> {
    let text = fs::read_to_string(shared(rig).join(file)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Writes when it starts, in seconds since the boot, and ends with this code.
fn crash(file: &str, code: i32) -> String {
    format!("cut -d' ' -f1 /proc/uptime >> /shared/{file}; exit {code}")
}

#[test]
fn a_container_that_is_killed_is_restarted_at_once() {
    let rig = Rig::new();
    rig.write_manifest("pod.yaml", &manifest::idle("pod"));
    let _agent = rig.start_agent(&[]);
    let first = rig.wait_running("pod-node1", "main");
    rig.kill_process(first.pid);
    let mut second = None;
    rig.wait("its successor", || {
        let all = rig.containers_of("pod-node1");
        second = all.into_iter().find(|c| c.attempt == 1 && c.state == ContainerState::Running);
        second.is_some()
    });
    let all = rig.containers_of("pod-node1");
    let ended = all.iter().find(|seen| seen.id == first.id).expect("the first one is kept").finished_at;
    let gap = second.expect("the wait ended with it").started_at - ended;
    assert!(gap < 5_000_000_000, "it waited {gap} ns");
}

#[test]
fn what_completed_stays_completed_though_the_runtime_forgot_it() {
    let rig = Rig::new();
    let pods = [
        ("done", "Never", 0, "Succeeded"),
        ("failed", "Never", 3, "Failed"),
        ("late", "OnFailure", 0, "Succeeded"),
    ];
    let text = |name: &str, policy: &str, code: i32| {
        let script = format!("echo run >> /shared/{name}; exit {code}");
        sharing(&rig, name, &format!("restartPolicy: {policy}"), &[], &[("main", "", &script)])
    };
    for (name, policy, code, _) in pods {
        rig.write_manifest(&format!("{name}.yaml"), &text(name, policy, code));
    }
    let node = |name: &str| format!("{name}-node1");
    let agent = rig.start_agent(&[]);
    for (name, _, _, phase) in pods {
        wait_phase(&rig, &node(name), phase);
        rig.wait("its sandbox to be stopped", || rig.ready_sandboxes("default", &node(name)).is_empty());
    }
    settle(&rig, "marker-1");
    let before = pods.map(|(name, ..)| status(&rig, &node(name)));

    // While the agent runs, while it is away, and the whole runtime's memory of them.
    rig.prune(&node("done"));
    settle(&rig, "marker-2");
    agent.kill9();
    for (name, ..) in pods {
        rig.prune(&node(name));
    }
    let agent = rig.start_agent(&[]);
    settle(&rig, "marker-3");
    agent.terminate();
    let _agent = rig.start_agent(&[]);
    settle(&rig, "marker-4");
    for ((name, ..), before) in pods.iter().zip(before) {
        assert_eq!(status(&rig, &node(name)), before, "{name} shows how it ended");
        assert_eq!(lines(&rig, name), ["run"], "{name} ran once");
        assert!(rig.sandboxes().iter().all(|seen| seen.pod != node(name)), "{}", rig.report());
    }

    // A removal and a return make a new instance, and so does an edit.
    rig.remove_manifest("done.yaml");
    rig.wait("it to be forgotten", || !record(&rig, "done-node1").exists());
    rig.write_manifest("done.yaml", &text("done", "Never", 0));
    rig.write_manifest("failed.yaml", &text("failed", "Never", 4));
    for name in ["done", "failed"] {
        rig.wait(name, || lines(&rig, name) == ["run", "run"]);
    }
}

#[test]
fn what_ran_once_when_the_power_went_has_failed() {
    let rig = Rig::new();
    rig.write_manifest("once.yaml", &manifest::pod("once", "restartPolicy: Never", IDLE));
    let agent = rig.start_agent(&[]);
    let first = rig.wait_running("once-node1", "main");
    let sandbox = rig.ready_sandboxes("default", "once-node1").remove(0);
    agent.kill9();
    rig.kill_process(first.pid);
    rig.kill_process(sandbox.pid);
    rig.wait("containerd to notice", || rig.ready_sandboxes("default", "once-node1").is_empty());
    let _agent = rig.start_agent(&[]);
    wait_phase(&rig, "once-node1", "Failed");
    settle(&rig, "marker");
    assert_eq!(rig.containers_of("once-node1").len(), 1, "{}", rig.report());
}

#[test]
fn an_end_that_the_agent_did_not_survive_is_finished_and_the_pod_runs_again() {
    let rig = Rig::new();
    let slow = "trap 'sleep 3; exit 1' TERM; sleep 1000 & wait";
    let text = manifest::pod("once", "restartPolicy: Never", slow);
    let text = text.replace("terminationGracePeriodSeconds: 1", "terminationGracePeriodSeconds: 20");
    rig.write_manifest("once.yaml", &text);
    let agent = rig.start_agent(&[]);
    let first = rig.wait_running("once-node1", "main");
    rig.remove_manifest("once.yaml");
    agent.wait_for_log("stopping the container");
    agent.kill9();
    rig.write_manifest("once.yaml", &text);
    let _agent = rig.start_agent(&[]);
    rig.wait("another container", || {
        let all = rig.containers_of("once-node1");
        all.iter().any(|seen| seen.state == ContainerState::Running && seen.id != first.id)
    });
    assert_eq!(rig.wait_running("once-node1", "main").attempt, 0, "it did not fail: it was ended");
    wait_phase(&rig, "once-node1", "Running");
}

#[test]
fn nothing_flaps_over_restarts_of_the_agent() {
    let rig = Rig::new();
    rig.write_manifest("pod.yaml", &manifest::idle("pod"));
    let mut agent = rig.start_agent(&[]);
    let first = rig.wait_running("pod-node1", "main");
    rig.kill_process(first.pid);
    let ready = |status: &Value| {
        let all = status["conditions"].as_array().cloned().unwrap_or_default();
        all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
    };
    rig.wait("the restarted container", || {
        let status = status(&rig, "pod-node1");
        ready(&status) && status["containerStatuses"][0]["restartCount"] == 1
    });
    let before = status(&rig, "pod-node1");
    assert_eq!(before["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 137);
    for round in 0..8 {
        if round % 2 == 0 {
            agent.kill9();
        } else {
            agent.terminate();
        }
        agent = rig.start_agent(&[]);
        // From the first answer on, and again when the agent has looked at everything.
        let marker = format!("marker-{round}");
        rig.write_manifest(&format!("{marker}.yaml"), &manifest::idle(&marker));
        let mut answers = 0;
        rig.wait("the agent to have looked", || {
            if let Some(pod) = rig.pod("pod-node1") {
                assert_eq!(pod["status"], before, "round {round}, answer {answers}");
                answers += 1;
            }
            status(&rig, &format!("{marker}-node1"))["phase"] == "Running"
        });
        assert!(answers > 0, "{}", rig.report());
        rig.remove_manifest(&format!("{marker}.yaml"));
    }
}

#[test]
fn a_damaged_record_costs_what_it_held_and_those_of_lost_pods_go() {
    let rig = Rig::new();
    for name in ["runs", "gone"] {
        rig.write_manifest(&format!("{name}.yaml"), &manifest::pod(name, "restartPolicy: OnFailure", IDLE));
    }
    let agent = rig.start_agent(&[]);
    for pod in ["runs-node1", "gone-node1"] {
        rig.wait_running(pod, "main");
        wait_phase(&rig, pod, "Running");
        rig.wait("its record", || {
            fs::read_to_string(record(&rig, pod)).is_ok_and(|text| text.contains("Running"))
        });
    }
    let before = rig.fingerprint();
    agent.terminate();
    let text = fs::read(record(&rig, "runs-node1")).expect("the record");
    fs::write(record(&rig, "runs-node1"), &text[..text.len() / 2]).expect("tear it");
    fs::write(record(&rig, "stranger"), "{}").expect("write the record of a pod that is nowhere");
    rig.remove_manifest("gone.yaml");

    let agent = rig.start_agent(&[]);
    rig.wait("the lost ones to go", || {
        !record(&rig, "gone-node1").exists() && !record(&rig, "stranger").exists()
    });
    rig.wait("a whole record", || {
        fs::read(record(&rig, "runs-node1")).is_ok_and(|now| now.len() > text.len() / 2)
    });
    assert_eq!(agent.log_lines_with("the checkpoint of a pod is lost").len(), 1, "{}", agent.log());
    let after = rig.fingerprint();
    let runs = rig.wait_running("runs-node1", "main");
    assert_eq!(before.get(&runs.id), after.get(&runs.id), "the pod runs on");
    assert!(wait_until(Duration::from_secs(30), || rig.sandboxes().len() == 1), "{}", rig.report());
}
