//! What is said of pods, from the JSON that the agent serves.

use serde_json::json;

use super::*;

fn at(second: i64) -> String {
    Timestamp::from_second(second).expect("a time").to_string()
}

fn pod(status: Value) -> Value {
    json!({
        "metadata": {"namespace": "default", "name": "web-node1", "uid": "u"},
        "spec": {"nodeName": "node1", "containers": [{"name": "main", "image": "registry/web:1"}]},
        "status": status,
    })
}

fn container(state: Value, last: Value, restarts: i64) -> Value {
    json!([{"name": "main", "state": state, "lastState": last, "restartCount": restarts, "ready": false, "started": true}])
}

fn exited(code: i64, reason: &str) -> Value {
    json!({"terminated": {"exitCode": code, "reason": reason, "startedAt": at(960), "finishedAt": at(970)}})
}

fn event(reason: &str, message: &str) -> Value {
    json!({"involvedObject": {"namespace": "default", "name": "web-node1", "uid": "u", "fieldPath": "spec.containers{main}"},
        "reason": reason, "message": message, "count": 2, "lastTimestamp": at(990)})
}

fn cause(pods: &[Value], verdicts: &[Value], events: &[Value]) -> Result<PodCause, NoPod> {
    let (pods, verdicts, events) =
        (json!({"items": pods}), json!({"items": verdicts}), json!({"items": events}));
    let now = Timestamp::from_second(1_000).expect("a time");
    find_cause(&Known { pods: &pods, verdicts: &verdicts, events: &events, now }, "web", None)
}

#[test]
fn the_cause_of_a_status() {
    let waiting = |reason: &str, message: &str| json!({"waiting": {"reason": reason, "message": message}});
    let running = json!({"running": {"startedAt": at(900)}});
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let unready =
        json!([{"type": "Ready", "status": "False", "message": "containers with unready status: [main]"}]);
    let rows = [
        (json!({"phase": "Succeeded"}), vec![], "web-node1 has completed", true),
        (
            json!({"phase": "Failed", "reason": "Evicted", "message": "too much disk"}),
            vec![],
            "was ended (Evicted): too much disk.",
            false,
        ),
        (
            json!({"phase": "Pending", "reason": "WaitingForPods", "message": "port 80 is held"}),
            vec![],
            "waits: port 80 is held.",
            false,
        ),
        (
            json!({"phase": "Pending", "reason": "CreatePodSandboxError", "message": "no network"}),
            vec![],
            "no sandbox could be made (CreatePodSandboxError): no network.",
            false,
        ),
        (json!({"phase": "Pending"}), vec![], "nobody has looked at it yet", false),
        (
            json!({"phase": "Running", "containerStatuses": container(waiting("CrashLoopBackOff", "back-off"), exited(3, "Error"), 5)}),
            vec![],
            "its container main ended after 10s with exit code 3 (an error of the program), 30s ago; it was restarted 5 times and waits",
            false,
        ),
        (
            json!({"phase": "Running", "containerStatuses": container(waiting("CrashLoopBackOff", ""), exited(137, "OOMKilled"), 1)}),
            vec![],
            "exit code 137 (out of memory: the kernel killed it)",
            false,
        ),
        (
            json!({"phase": "Pending", "containerStatuses": container(waiting("ImagePullBackOff", "no such host"), Value::Null, 0)}),
            vec![],
            "the image registry/web:1 of its container main cannot be pulled: no such host.",
            false,
        ),
        (
            json!({"phase": "Pending", "containerStatuses": container(waiting("ContainerCreating", ""), Value::Null, 0)}),
            vec![event("Pulling", "Pulling image")],
            "starts: the image registry/web:1 of its container main is being pulled since 10s.",
            false,
        ),
        (
            json!({"phase": "Pending", "containerStatuses": container(waiting("ContainerCreating", ""), Value::Null, 0)}),
            vec![event("Pulling", "Pulling image"), event("Pulled", "Pulled image")],
            "starts: its container main is being made.",
            false,
        ),
        (
            json!({"phase": "Pending", "containerStatuses": container(waiting("CreateContainerConfigError", "secret s not found"), Value::Null, 0)}),
            vec![],
            "waits (CreateContainerConfigError): secret s not found.",
            false,
        ),
        (
            json!({"phase": "Failed", "containerStatuses": container(exited(127, "Error"), Value::Null, 0)}),
            vec![],
            "with exit code 127 (its command was not found)",
            false,
        ),
        (
            json!({"phase": "Running", "conditions": unready, "containerStatuses": container(running.clone(), Value::Null, 0)}),
            vec![event("Unhealthy", "Readiness probe failed: 503")],
            "its container main is not ready: Readiness probe failed: 503.",
            false,
        ),
        (
            json!({"phase": "Running", "conditions": unready, "containerStatuses": container(running.clone(), Value::Null, 0)}),
            vec![],
            "its readiness probe has not succeeded.",
            false,
        ),
        (
            json!({"phase": "Running", "conditions": ready, "containerStatuses": container(running.clone(), exited(1, "Error"), 2)}),
            vec![],
            "runs and is ready; its container main was restarted 2 times, last since it ended after 10s with exit code 1",
            true,
        ),
        (
            json!({"phase": "Running", "conditions": ready, "containerStatuses": container(running, Value::Null, 0)}),
            vec![],
            "web-node1 runs and is ready.",
            true,
        ),
    ];
    for (status, events, expect, is_well) in rows {
        let cause = cause(&[pod(status)], &[], &events).expect("a cause");
        assert!(cause.sentence.contains(expect), "{}\nexpected {expect}", cause.sentence);
        assert!(cause.sentence.starts_with("web-node1 ") && !cause.sentence.contains('\n'));
        assert_eq!(cause.is_well, is_well, "{}", cause.sentence);
        for event in &events {
            let message = text(event, "/message");
            assert!(cause.evidence.iter().any(|line| line.contains(message) && line.contains("(x2)")));
        }
    }
}

#[test]
fn the_cause_of_a_manifest() {
    let refused = json!({"source": "file", "origin": "/m/web.yaml", "outcome": "refused",
        "problems": [{"field": "spec.containers", "reason": "is required", "line": 5}]});
    let shadowed = json!({"source": "http", "origin": "http://x/", "outcome": "shadowed", "pod": "default/web-node1",
        "by": {"source": "file", "origin": "/m/web.yaml"}});
    let skipped = json!({"source": "file", "origin": "/m/web.yaml.bak", "outcome": "skipped", "reason": "it ends in .bak"});
    for (verdict, expect) in [
        (&refused, "web does not run: its manifest is refused: /m/web.yaml:5: spec.containers: is required"),
        (&shadowed, "web does not run: its name in http://x/ is taken by /m/web.yaml"),
        (&skipped, "web does not run: /m/web.yaml.bak is not read: it ends in .bak"),
    ] {
        let cause = cause(&[], std::slice::from_ref(verdict), &[]).expect("a cause");
        assert_eq!((cause.sentence.as_str(), cause.is_well), (expect, false));
    }
    let other = json!({"origin": "/m/website.yaml", "outcome": "refused", "problems": []});
    assert!(cause(&[], &[other], &[]).is_err());
    let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": container(json!({"running": {}}), Value::Null, 0)});
    let newer = cause(&[pod(ready)], &[refused], &[]).expect("a cause");
    assert!(
        newer.sentence.contains(
            "runs and is ready; it is an older version, since its manifest is refused: /m/web.yaml:5"
        )
    );
    assert!(newer.is_well);
}

#[test]
fn messages_of_others_stay_on_their_line() {
    let status = json!({"phase": "Failed", "reason": "Evicted", "message": format!("a\nb\u{1b}[2J{}", "x".repeat(5_000))});
    let cause = cause(&[pod(status)], &[], &[]).expect("a cause");
    assert!(cause.sentence.len() < 500 && !cause.sentence.contains(['\n', '\u{1b}']), "{}", cause.sentence);
}
