//! Hooks and stop signals.

use serde_json::{Value, json};

use super::{findings, good};

fn found(lifecycle: Value, spec: Value) -> Vec<String> {
    let mut pod = good();
    pod["spec"]["containers"][0]["lifecycle"] = lifecycle;
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    findings(pod)
}

#[test]
fn hooks_have_one_action_with_sane_values() {
    let exec = || json!({"exec": {"command": ["a"]}});
    let get = |more: Value| {
        let mut get = json!({"port": 80});
        get.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"preStop": {"httpGet": get}})
    };
    let sleep = |seconds: i64| json!({"preStop": {"sleep": {"seconds": seconds}}});
    let rows = [
        (json!({"postStart": exec(), "preStop": exec()}), ""),
        (json!({"preStop": {}}), "preStop: must have an action"),
        (json!({"postStart": {"exec": {}}}), "postStart.exec.command: must not be empty"),
        (json!({"preStop": {"exec": {"command": ["a"]}, "sleep": {"seconds": 1}}}), "preStop: may have one"),
        (get(json!({"httpHeaders": [{"name": "X-A", "value": "b"}]})), ""),
        (get(json!({"port": "web"})), ""),
        (get(json!({"port": 0})), "preStop.httpGet.port: 0 is not a port"),
        (get(json!({"scheme": "FTP"})), "preStop.httpGet.scheme: \"FTP\" is not one of"),
        (get(json!({"scheme": "HTTPS"})), ""),
        (
            get(json!({"httpHeaders": [{"name": "X A", "value": "b"}]})),
            "preStop.httpGet.httpHeaders: \"X A\"",
        ),
        (json!({"preStop": {"tcpSocket": {"port": 80}}}), ""),
        (json!({"preStop": {"tcpSocket": {"port": -1}}}), "preStop.tcpSocket.port: -1 is not a port"),
        (sleep(0), ""),
        (sleep(9), ""),
        (sleep(10), "preStop.sleep: must be non-negative and less than terminationGracePeriodSeconds (9)"),
        (sleep(-1), "preStop.sleep: must be non-negative"),
    ];
    for (lifecycle, want) in rows {
        let got = found(lifecycle.clone(), json!({"terminationGracePeriodSeconds": 9}));
        let want = format!("spec.containers[0].lifecycle.{want}");
        let fine = want.ends_with('.') && got.is_empty() || got.len() == 1 && got[0].starts_with(&want);
        assert!(fine, "{lifecycle}\nwant {want}\ngot {got:#?}");
    }
}

#[test]
fn a_stop_signal_needs_a_system_and_a_name() {
    let field = "spec.containers[0].lifecycle.stopSignal";
    let with = |signal: &str, spec: Value| found(json!({"stopSignal": signal}), spec);
    let linux = || json!({"os": {"name": "linux"}});
    assert_eq!(with("SIGUSR1", linux()), [""; 0]);
    assert_eq!(
        with("SIGUSR1", json!({})),
        [format!("{field}: may not be set for containers with empty `spec.os.name`")]
    );
    let wrong = with("USR1", linux());
    assert!(wrong.len() == 1 && wrong[0].starts_with(&format!("{field}: \"USR1\" is not")), "{wrong:?}");
}

#[test]
fn init_containers_have_none_unless_they_stay() {
    let init = |policy: Option<&str>| {
        let lifecycle = json!({"preStop": {"exec": {"command": ["a"]}}});
        let mut container = json!({"name": "i", "image": "i:1", "lifecycle": lifecycle});
        if let Some(policy) = policy {
            container["restartPolicy"] = json!(policy);
        }
        let mut pod = good();
        pod["spec"]["initContainers"] = json!([container]);
        findings(pod)
    };
    assert_eq!(init(Some("Always")), [""; 0]);
    let refused =
        ["spec.initContainers[0].lifecycle: may not be set for init containers without restartPolicy=Always"];
    assert_eq!(init(None), refused);
}
