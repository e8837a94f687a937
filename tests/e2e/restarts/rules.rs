//! Policies and rules of containers, and how long a crash loop waits.

use super::{crash, lines, settle, sharing, status, wait_phase};
use crate::manifest::IDLE;
use crate::rig::{ContainerState, Rig};

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
