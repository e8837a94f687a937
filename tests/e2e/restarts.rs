//! What follows the end of a container: policies and rules, back-off, completion, and what outlives the agent.

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

/// The times between the starts that a [`crash`] has written.
fn gaps(rig: &Rig, file: &str) -> Vec<f64> {
    let starts: Vec<f64> = lines(rig, file).iter().map(|line| line.parse().expect("seconds")).collect();
    starts.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn containers_restart_by_their_own_policies_and_rules() {
    let rig = Rig::new();
    let rules = "restartPolicy: Never\nrestartPolicyRules:\n- {action: Restart, exitCodes: {operator: In, values: [42]}}";
    // The first time 42, then 7.
    let twice = "if [ -e /shared/seen ]; then exit 7; fi; touch /shared/seen; exit 42";
    let text = sharing(&rig, "rules", "restartPolicy: Always", &[], &[("main", rules, twice)]);
    rig.write_manifest("rules.yaml", &text);
    let setup = "if [ -e /shared/tried ]; then exit 0; fi; touch /shared/tried; exit 1";
    let init = [("setup", "restartPolicy: OnFailure", setup)];
    let main = [("once", "", "exit 0"), ("always", "restartPolicy: Always", IDLE)];
    rig.write_manifest("own.yaml", &sharing(&rig, "own", "restartPolicy: Never", &init, &main));
    let agent = rig.start_agent(&[]);

    wait_phase(&rig, "rules-node1", "Failed");
    let main = &status(&rig, "rules-node1")["containerStatuses"][0];
    assert_eq!((&main["restartCount"], &main["state"]["terminated"]["exitCode"]), (&1.into(), &7.into()));
    assert_eq!(main["lastState"]["terminated"]["exitCode"], 42);

    let first = rig.wait_running("own-node1", "always");
    assert_eq!(status(&rig, "own-node1")["initContainerStatuses"][0]["restartCount"], 1);
    rig.kill_process(first.pid);
    rig.wait("the container that always restarts", || {
        let running = |seen: &crate::rig::ContainerSeen| seen.state == ContainerState::Running;
        rig.containers_of("own-node1").iter().any(|seen| running(seen) && seen.attempt == 1)
    });
    let once = rig.containers_of("own-node1").into_iter().filter(|seen| seen.name == "once");
    assert_eq!(once.map(|seen| seen.attempt).collect::<Vec<_>>(), [0]);
    wait_phase(&rig, "own-node1", "Running");
    assert_eq!(agent.log_lines_with("not honoured yet").len(), 0, "{}", agent.log());
}

#[test]
fn a_rule_restarts_all_containers_in_the_same_sandbox() {
    let rig = Rig::new();
    let note = |what: &str| format!("echo {what} >> /shared/order");
    let rules = "restartPolicy: Never\nrestartPolicyRules:\n- {action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}";
    // Asks for all to start over once its neighbour is there, once.
    let main = "until [ -e /shared/side ]; do sleep 0.1; done; rm /shared/side\n\
                if [ -e /shared/seen ]; then exec sleep 1000; fi; touch /shared/seen; exit 42";
    let side = format!(
        "trap 'echo asked >> /shared/order' TERM; {}; touch /shared/side; sleep 1000 & wait",
        note("side")
    );
    let text = sharing(
        &rig,
        "all",
        "restartPolicy: Never",
        &[("setup", "", &note("setup"))],
        &[("main", rules, main), ("side", "", &side)],
    );
    rig.write_manifest("all.yaml", &text);
    let agent = rig.start_agent(&[]);
    let restarting = || {
        let pod = rig.pod("all-node1").unwrap_or_default();
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.into_iter().find(|one| one["type"] == "AllContainersRestarting");
        found.map(|found| found["status"] == "True")
    };
    rig.wait("the condition to hold", || restarting() == Some(true));
    rig.wait("the second round", || lines(&rig, "order").len() == 5);
    assert_eq!(
        lines(&rig, "order"),
        ["setup", "side", "asked", "setup", "side"],
        "all of them, from the first"
    );
    let mains = rig.wait_running("all-node1", "main");
    assert_eq!((mains.attempt, rig.wait_running("all-node1", "side").attempt), (1, 1));
    assert_eq!(rig.sandboxes().len(), 1, "{}", rig.report());

    let before = rig.fingerprint();
    agent.kill9();
    let _agent = rig.start_agent(&[]);
    settle(&rig, "marker");
    rig.assert_untouched(&before);
    wait_phase(&rig, "all-node1", "Running");
    assert_eq!(restarting(), Some(false));
}

#[test]
fn a_crash_loop_waits_longer_each_time_up_to_the_cap_of_the_node_or_of_its_pod() {
    let rig = Rig::new();
    rig.write_config("crashLoopBackOff: {maxContainerRestartPeriod: 4s}\n");
    let loops = |name: &str, cap: Option<&str>| {
        let text = sharing(&rig, name, "restartPolicy: Always", &[], &[("main", "", &crash(name, 1))]);
        let annotated =
            |cap| format!("{{name: {name}, annotations: {{rkubelet.dev/max-restart-backoff: {cap:?}}}}}");
        match cap {
            Some(cap) => {
                text.replace(&format!("{{name: {name}}}\nspec"), &format!("{}\nspec", annotated(cap)))
            }
            None => text,
        }
    };
    rig.write_manifest("node.yaml", &loops("node", None));
    rig.write_manifest("pod.yaml", &loops("pod", Some("2s")));
    rig.write_manifest("above.yaml", &loops("above", Some("1h")));
    rig.write_manifest("bad.yaml", &loops("bad", Some("soon")));
    let agent = rig.start_agent(&[]);
    agent.wait_for_log("a pod can only lower the node's cap");
    agent.wait_for_log("metadata.annotations[rkubelet.dev/max-restart-backoff]");
    rig.wait("three restarts under the node's cap", || gaps(&rig, "node").len() >= 3);
    rig.wait("three restarts under the pod's cap", || gaps(&rig, "pod").len() >= 3);
    for (file, cap) in [("node", 4.0), ("pod", 2.0)] {
        let gaps = gaps(&rig, file);
        assert!(gaps[0] < cap, "{file}: the first restart does not wait: {gaps:?}");
        assert!(gaps[1..3].iter().all(|gap| *gap >= cap), "{file}: {gaps:?}");
    }
    let mut message = String::new();
    rig.wait("the reason", || {
        let waiting = status(&rig, "pod-node1")["containerStatuses"][0]["state"]["waiting"].clone();
        message = waiting["message"].as_str().unwrap_or_default().to_owned();
        waiting["reason"] == "CrashLoopBackOff"
    });
    let expect = "back-off 2s restarting failed container=main pod=pod-node1_default(";
    assert!(message.starts_with(expect), "{message}");
    assert!(rig.containers_of("bad-node1").is_empty());
}

#[test]
fn back_off_outlives_the_agent_and_ends_with_an_edit() {
    let rig = Rig::new();
    let text =
        |code| sharing(&rig, "loop", "restartPolicy: Always", &[], &[("main", "", &crash("loop", code))]);
    rig.write_manifest("loop.yaml", &text(1));
    let agent = rig.start_agent(&[]);
    rig.wait("the first restart", || gaps(&rig, "loop").len() == 1);
    let crashed = || {
        let main = status(&rig, "loop-node1")["containerStatuses"][0].clone();
        main["state"]["waiting"]["reason"] == "CrashLoopBackOff" && main["restartCount"] == 1
    };
    rig.wait("the back-off", crashed);
    agent.kill9();
    let _agent = rig.start_agent(&[]);
    rig.wait("the second restart", || gaps(&rig, "loop").len() == 2);
    assert!(gaps(&rig, "loop")[1] >= 10.0, "it waits on: {:?}", gaps(&rig, "loop"));
    rig.wait("the back-off", || status(&rig, "loop-node1")["containerStatuses"][0]["restartCount"] == 2);

    rig.write_manifest("loop.yaml", &text(2));
    rig.wait("the edited pod and its first restart", || gaps(&rig, "loop").len() >= 4);
    let gaps = gaps(&rig, "loop");
    assert!(gaps[2] < 20.0 && gaps[3] < 10.0, "neither waits: {gaps:?}");
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

    // A removal and a return are a new wish, and so is an edit.
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
