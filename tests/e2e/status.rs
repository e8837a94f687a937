//! The status of pods in `/pods`: what happened to them, and nothing that the agent's own comings and goings add.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::manifest;
use crate::rig::{BUSYBOX, ContainerState, NODE_IP, READ_ONLY_PORT, Rig};

fn status_of(rig: &Rig, pod: &str) -> Value {
    rig.pod(pod).map(|pod| pod["status"].clone()).unwrap_or_default()
}

fn condition(status: &Value, kind: &str) -> Value {
    let all = status["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

fn wait_for_phase(rig: &Rig, pod: &str, phase: &str) -> Value {
    rig.wait(&format!("{pod} to be {phase}"), || status_of(rig, pod)["phase"] == phase);
    status_of(rig, pod)
}

/// A pod whose init containers run these scripts.
fn with_init(name: &str, policy: &str, init: &[(&str, &str)], script: &str) -> String {
    let init = init.iter().map(|(name, field)| format!("- {{name: {name}, image: {BUSYBOX}, {field}}}\n"));
    let spec = format!("restartPolicy: {policy}\ninitContainers:\n{}", init.collect::<String>());
    manifest::pod(name, &spec, script)
}

/// Fails the first time that it is run, and then idles.
fn second_time_lucky(rig: &Rig, name: &str) -> String {
    let dir = rig.dir().join(name);
    let spec =
        format!("volumes: [{{name: made, hostPath: {{path: {}, type: DirectoryOrCreate}}}}]", dir.display());
    let script = format!("[ -e /made/tried ] || {{ touch /made/tried; exit 3; }}\n{}", manifest::IDLE);
    let text = manifest::pod(name, &spec, &script);
    text.replace("    command:\n", "    volumeMounts: [{name: made, mountPath: /made}]\n    command:\n")
}

/// A status without what only a living agent can know: the address that a completed pod had, and the moments between
/// the first look at the manifest and the first sandbox, which all are `start`.
fn lasting(rig: &Rig, pod: &str) -> Value {
    let mut status = status_of(rig, pod);
    let fields = status.as_object_mut().expect("a status");
    if fields["phase"] == "Succeeded" || fields["phase"] == "Failed" {
        fields.remove("podIP");
        fields.remove("podIPs");
    }
    let made = rig.sandboxes().into_iter().filter(|seen| seen.pod == pod).map(|seen| seen.created_at).min();
    let made = jiff::Timestamp::from_nanosecond(made.expect("a sandbox").into()).expect("a time");
    let mark = |time: &mut Value| {
        let at: jiff::Timestamp = time.as_str().expect("a time").parse().expect("a time");
        if at <= made {
            *time = json!("start");
        }
    };
    mark(&mut fields["startTime"]);
    for condition in fields["conditions"].as_array_mut().expect("conditions") {
        mark(&mut condition["lastTransitionTime"]);
    }
    status
}

#[test]
fn a_restart_of_the_agent_changes_no_status() {
    let rig = Rig::new();
    rig.write_manifest("web.yaml", manifest::WEB);
    rig.write_manifest("lucky.yaml", &second_time_lucky(&rig, "lucky"));
    rig.write_manifest("done.yaml", &manifest::pod("done", "restartPolicy: Never", "sleep 2"));
    rig.write_manifest("failed.yaml", &manifest::pod("failed", "restartPolicy: Never", "sleep 2; exit 7"));
    let init =
        [("setup", "command: [sleep, '1']"), ("proxy", "restartPolicy: Always, command: [sleep, '1000']")];
    rig.write_manifest("staged.yaml", &with_init("staged", "Always", &init, manifest::IDLE));
    let init = [("setup", "command: [sh, -c, 'exit 5']")];
    rig.write_manifest("stuck.yaml", &with_init("stuck", "Never", &init, manifest::IDLE));
    let rows = [
        ("web-node1", "Running", "True"),
        ("lucky-node1", "Running", "True"),
        ("staged-node1", "Running", "True"),
        ("done-node1", "Succeeded", "False"),
        ("failed-node1", "Failed", "False"),
        ("stuck-node1", "Failed", "False"),
    ];
    let settled = || {
        rows.iter().all(|(pod, phase, ready)| {
            let status = status_of(&rig, pod);
            // A pod that is done gives its sandbox back.
            let ended = *phase == "Running" || rig.ready_sandboxes("default", pod).is_empty();
            let told = condition(&status, "PodReadyToStartContainers")["status"] == "True";
            status["phase"] == *phase
                && condition(&status, "Ready")["status"] == *ready
                && ended
                && told == (*phase == "Running")
        })
    };
    let agent = rig.start_agent(&[]);
    rig.wait("every pod to be where it will stay", settled);
    let before = rows.map(|(pod, ..)| (pod, lasting(&rig, pod)));
    let (_, lucky) = &before[1];
    let container = &lucky["containerStatuses"][0];
    assert_eq!(container["restartCount"], 1, "{container:#}");
    assert_eq!(container["lastState"]["terminated"]["exitCode"], 3, "{container:#}");
    let unchanged = || {
        rig.wait("the next agent to have looked", settled);
        for (pod, status) in &before {
            assert_eq!(&lasting(&rig, pod), status, "{pod}");
        }
    };
    agent.kill9();
    let agent = rig.start_agent(&[]);
    unchanged();
    agent.terminate();
    let _agent = rig.start_agent(&[]);
    unchanged();
}

#[test]
fn ready_since_the_last_container_started_and_not_since_it_was_looked_at() {
    let rig = Rig::new();
    rig.write_manifest("web.yaml", manifest::WEB);
    let _agent = rig.start_agent(&[]);
    let seconds = |nanos: i64| {
        let time = jiff::Timestamp::from_nanosecond(nanos.into()).expect("a time");
        json!(jiff::Timestamp::from_second(time.as_second()).expect("a time").to_string())
    };
    let ready_as_started = |started_at: i64| {
        let ready = condition(&status_of(&rig, "web-node1"), "Ready");
        ready["status"] == "True" && ready["lastTransitionTime"] == seconds(started_at)
    };
    let first = rig.wait_running("web-node1", "web");
    rig.wait("Ready with the container's start", || ready_as_started(first.started_at));
    rig.kill_process(first.pid);
    rig.wait("its successor", || rig.wait_running("web-node1", "web").id != first.id);
    let second = rig.wait_running("web-node1", "web");
    rig.wait("Ready with the successor's start", || ready_as_started(second.started_at));
}

#[test]
fn crash_loops_failed_inits_and_lost_containers_tell_what_happened() {
    let rig = Rig::new();
    rig.write_manifest("crash.yaml", &manifest::script("crash", "exit 3"));
    let init = [("setup", "command: [sh, -c, 'exit 5']"), ("more", "command: ['true']")];
    rig.write_manifest("stuck.yaml", &with_init("stuck", "Never", &init, manifest::IDLE));
    rig.write_manifest("lost.yaml", &manifest::idle("lost"));
    let agent = rig.start_agent(&[]);

    let crash = || status_of(&rig, "crash-node1");
    let container = || crash()["containerStatuses"][0].clone();
    rig.wait("a crash loop", || container()["state"]["waiting"]["reason"] == "CrashLoopBackOff");
    let (status, looping) = (crash(), container());
    assert_eq!((&status["phase"], &looping["ready"]), (&json!("Running"), &json!(false)), "{status:#}");
    let last = &looping["lastState"]["terminated"];
    assert_eq!((&last["exitCode"], &last["reason"]), (&json!(3), &json!("Error")), "{looping:#}");
    let ready = condition(&status, "Ready");
    assert_eq!(ready["reason"], "ContainersNotReady");
    assert_eq!(ready["message"], "containers with unready status: [main]");

    let status = wait_for_phase(&rig, "stuck-node1", "Failed");
    assert_eq!(condition(&status, "Ready")["reason"], "PodFailed");
    let initialized = condition(&status, "Initialized");
    assert_eq!(initialized["reason"], "ContainersNotInitialized");
    assert_eq!(initialized["message"], "containers with incomplete status: [setup more]");
    let setup = &status["initContainerStatuses"][0]["state"]["terminated"];
    assert_eq!((&setup["exitCode"], &setup["reason"]), (&json!(5), &json!("Error")), "{status:#}");
    let main = &status["containerStatuses"][0]["state"]["waiting"];
    assert_eq!(main["reason"], "PodInitializing", "{status:#}");

    // Somebody removes a container while nobody looks.
    let first = rig.wait_running("lost-node1", "main");
    wait_for_phase(&rig, "lost-node1", "Running");
    agent.while_halted(|| rig.remove_container(&first.id));
    let container = || status_of(&rig, "lost-node1")["containerStatuses"][0].clone();
    rig.wait("its successor", || {
        container()["state"].get("running").is_some() && container()["restartCount"] == 1
    });
    let last = &container()["lastState"]["terminated"];
    let expect = (&json!(137), &json!("ContainerStatusUnknown"));
    assert_eq!((&last["exitCode"], &last["reason"]), expect, "{last:#}");
}

#[test]
fn a_pod_that_ends_is_shown_until_it_is_gone() {
    let rig = Rig::new();
    let spec = "terminationGracePeriodSeconds: 3";
    let text = manifest::pod("slow", "", "trap '' TERM; while :; do sleep 1; done");
    rig.write_manifest("slow.yaml", &text.replace("terminationGracePeriodSeconds: 1", spec));
    let _agent = rig.start_agent(&[]);
    let container = rig.wait_running("slow-node1", "main");
    let before = wait_for_phase(&rig, "slow-node1", "Running");
    rig.remove_manifest("slow.yaml");
    let shown = || rig.pods().expect("/pods")["items"].as_array().expect("items").len();
    let alive = || {
        rig.containers().iter().any(|seen| seen.id == container.id && seen.state == ContainerState::Running)
    };
    rig.wait("the container to end", || {
        let status = status_of(&rig, "slow-node1");
        let running = alive();
        assert!(!running || status == before, "it runs, and is shown as {status:#}");
        !running
    });
    rig.wait("the pod to be gone", || shown() == 0);
}

#[test]
fn the_nodes_address_is_known_without_being_given() {
    let rig = Rig::new();
    rig.write_manifest("host.yaml", manifest::HOST_NETWORK);
    let text = manifest::script("web", &format!("echo host $HOST_IP\n{}", manifest::IDLE));
    let env = "    env: [{name: HOST_IP, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}]\n    command:\n";
    rig.write_manifest("web.yaml", &text.replace("    command:\n", env));
    let agent = rig.start_agent(&[]);
    let main = rig.wait_running("web-node1", "main");
    let status = wait_for_phase(&rig, "web-node1", "Running");
    assert_eq!((&status["hostIP"], &status["hostIPs"]), (&json!(NODE_IP), &json!([{"ip": NODE_IP}])));
    rig.wait("the container to tell it", || {
        std::fs::read_to_string(&main.log_path).is_ok_and(|log| log.contains(&format!(" host {NODE_IP}\n")))
    });
    let status = wait_for_phase(&rig, "etcd-node1", "Running");
    assert_eq!((&status["podIP"], &status["podIPs"]), (&json!(NODE_IP), &json!([{"ip": NODE_IP}])));

    agent.terminate();
    let _agent = rig.start_agent(&["--node-ip=192.0.2.77"]);
    rig.wait("what is given to count", || status_of(&rig, "web-node1")["hostIP"] == "192.0.2.77");
}

#[test]
fn what_is_served_is_a_pod_list_of_kubernetes() {
    let rig = Rig::new();
    rig.write_manifest("web.yaml", manifest::WEB);
    rig.write_manifest("done.yaml", &manifest::pod("done", "restartPolicy: Never", "exit 0"));
    rig.write_manifest(
        "absent.yaml",
        &manifest::idle("absent").replace(BUSYBOX, "localhost/rkubelet/none:1"),
    );
    let init = [("setup", "command: ['true']"), ("proxy", "restartPolicy: Always, command: [sleep, '1000']")];
    rig.write_manifest("staged.yaml", &with_init("staged", "Always", &init, manifest::IDLE));
    let _agent = rig.start_agent(&[]);
    for (pod, phase) in
        [("web", "Running"), ("done", "Succeeded"), ("absent", "Pending"), ("staged", "Running")]
    {
        wait_for_phase(&rig, &format!("{pod}-node1"), phase);
    }
    let body = rig.http_get(&format!("http://127.0.0.1:{READ_ONLY_PORT}/pods")).expect("/pods").body;
    let list: k8s_openapi::List<Pod> = serde_json::from_str(&body).expect("a PodList");
    assert_eq!(list.items.len(), 4);
    // What was decoded is all there was: nothing is served under a name that Kubernetes does not know.
    let (served, decoded): (Value, Value) =
        (serde_json::from_str(&body).expect("JSON"), serde_json::to_value(&list).expect("JSON"));
    for (served, decoded) in
        served["items"].as_array().expect("items").iter().zip(decoded["items"].as_array().expect("items"))
    {
        for part in ["metadata", "spec", "status"] {
            assert_eq!(without_empty(&served[part]), without_empty(&decoded[part]), "{part}");
        }
    }
}

/// Without what Go writes for a time or a struct that is not set.
fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let each = fields.iter().map(|(name, value)| (name.clone(), without_empty(value)));
            let filled =
                each.filter(|(_, value)| !value.is_null() && *value != json!({}) && *value != json!([]));
            Value::Object(filled.collect())
        }
        Value::Array(items) => items.iter().map(without_empty).collect(),
        other => other.clone(),
    }
}
