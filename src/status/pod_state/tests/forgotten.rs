//! What the runtime has forgotten: what was shown before fills the gap.

use super::*;

/// The status after what was seen first is no longer there; `then` is what the runtime holds now.
fn after(first: Vec<Container>, then: Vec<Container>, waiting: &[(String, Waiting)]) -> Value {
    let pod = pod_with("p", "u", "Always", &["main"]);
    let before = state(&pod, first, &[]);
    let observed = Observed { sandboxes: vec![sandbox(0, true, &["10.88.0.4"])], containers: then };
    let plan = Plan { waiting: waiting.iter().cloned().collect(), ..Plan::default() };
    let status = pod_status(&pod, &observed, &plan, &Verdicts::default(), Some(&before), &[], at(200));
    shown(&status, 0)
}

fn unknown(message: &str) -> Value {
    json!({"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": message}})
}

#[test]
fn a_container_that_ran_and_is_gone_ended_somehow() {
    let lost = unknown(
        "The container could not be located when the pod was deleted.  The container used to be Running",
    );
    let found = after(vec![container("main", 2, running())], vec![], &[]);
    assert_eq!(found["state"], json!({"waiting": {"reason": "ContainerCreating"}}));
    assert_eq!((&found["lastState"], &found["restartCount"]), (&lost, &json!(3)));
    assert_eq!((&found["ready"], &found["started"]), (&json!(false), &json!(false)));
}

#[test]
fn the_loss_is_counted_once_and_the_successor_counts_on() {
    let pod = pod_with("p", "u", "Always", &["main"]);
    let mut previous = state(&pod, vec![container("main", 2, running())], &[]);
    let successor = Container { id: ContainerId::from("new"), ..container("main", 0, runs_since(150)) };
    for then in [vec![], vec![], vec![successor]] {
        let observed = Observed { sandboxes: vec![sandbox(0, true, &[])], containers: then };
        let (plan, probes) = (Plan::default(), Verdicts::default());
        previous = pod_state(&pod, &observed, &plan, &probes, Some(&previous), &[], at(200));
        let now = served(&pod, &previous);
        let found = shown(&now, 0);
        assert_eq!(found["restartCount"], 3, "{observed:?}");
        assert_eq!(found["lastState"]["terminated"]["reason"], "ContainerStatusUnknown", "{observed:?}");
        assert_eq!(now.phase.as_deref(), Some("Running"), "it has run, so the pod is not pending");
    }
}

#[test]
fn an_end_that_was_seen_stays() {
    let ended = json!({"terminated": {
        "containerID": "containerd://main-1", "exitCode": 3, "reason": "Error",
        "startedAt": "1970-01-01T00:01:51Z", "finishedAt": "1970-01-01T00:01:52Z",
    }});
    let first = || vec![container("main", 1, exited(3))];
    let found = after(first(), vec![], &[]);
    assert_eq!((&found["state"], &found["restartCount"]), (&ended, &json!(1)));
    assert_eq!(found["containerID"], "containerd://main-1");
    assert_eq!(found["image"], "docker.io/library/image:1");

    let found = after(first(), vec![], &[waits("main", "CrashLoopBackOff")]);
    assert_eq!(found["state"]["waiting"]["reason"], "CrashLoopBackOff");
    assert_eq!(found["lastState"], ended);

    let found = after(first(), vec![container("main", 2, running())], &[]);
    assert_eq!((&found["lastState"], &found["restartCount"]), (&ended, &json!(2)), "its successor runs");
}

#[test]
fn a_container_that_the_runtime_lost_track_of() {
    let lost = || vec![container("main", 1, ContainerState::Unknown)];
    let found = after(vec![container("main", 1, running())], lost(), &[]);
    let ended = unknown("The container could not be located when the pod was terminated");
    assert_eq!((&found["state"], &found["restartCount"]), (&ended, &json!(1)));
    // An earlier end is not this one's.
    let found = after(vec![container("main", 0, exited(1))], lost(), &[]);
    assert_eq!(found["state"], json!({"waiting": {"reason": "ContainerCreating"}}));
    assert_eq!(found["lastState"]["terminated"]["exitCode"], 1);
}

#[test]
fn init_containers_that_are_gone_were_done_once_the_pod_has_begun() {
    let mut pod = pod_with("p", "u", "Always", &["main"]);
    let mut init = pod_with("p", "u", "Always", &["setup", "proxy"]).spec.containers;
    init[1].restart_policy = Some("Always".into());
    pod.spec.init_containers = Some(init);
    let status = status(&pod, vec![container("main", 0, running())], &[]);
    let init = status.init_container_statuses.as_ref().unwrap();
    let done = serde_json::to_value(&init[0]).unwrap();
    assert_eq!(done["state"]["terminated"]["exitCode"], 0);
    assert_eq!(done["state"]["terminated"]["reason"], "Completed");
    assert_eq!((init[0].ready, init[1].ready), (true, false), "a sidecar should run");
    let waiting = init[1].state.as_ref().unwrap().waiting.as_ref().unwrap();
    assert_eq!(waiting.reason.as_deref(), Some("PodInitializing"));
}
