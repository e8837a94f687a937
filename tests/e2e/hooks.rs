//! Hooks: what a container does after its start and before its end, and who waits for it.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::manifest::{self, IDLE};
use crate::rig::web::Nginx;
use crate::rig::{BUSYBOX, ContainerState, Rig};

/// A directory that tests and pods share as /shared.
fn shared(rig: &Rig) -> PathBuf {
    let dir = rig.dir().join("shared");
    fs::create_dir_all(&dir).expect("create the shared directory");
    dir
}

/// A pod whose containers, given as YAML list items, share /shared; each ends with its command.
fn pod(rig: &Rig, name: &str, spec: &str, containers: &[(&str, &str, &str)]) -> String {
    let mut text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  volumes: [{{name: s, hostPath: {{path: {}}}}}]\n",
        shared(rig).display()
    );
    text.extend(spec.lines().map(|line| format!("  {line}\n")));
    text += "  containers:\n";
    for (name, lifecycle, script) in containers {
        let script = serde_json::to_string(script).expect("a string");
        text += &format!(
            "  - name: {name}\n    image: {BUSYBOX}\n    volumeMounts: [{{name: s, mountPath: /shared}}]\n    \
             ports: [{{name: web, containerPort: 8080}}]\n    lifecycle: {lifecycle}\n    command: [sh, -c, {script}]\n"
        );
    }
    text
}

fn read(rig: &Rig, file: &str) -> String {
    fs::read_to_string(shared(rig).join(file)).unwrap_or_default()
}

fn state(rig: &Rig, pod: &str, place: usize) -> serde_json::Value {
    rig.pod(pod)
        .map_or(serde_json::Value::Null, |pod| pod["status"]["containerStatuses"][place]["state"].clone())
}

#[test]
fn a_container_has_started_when_its_post_start_hook_is_done() {
    let rig = Rig::new();
    let hook = "{postStart: {exec: {command: [sh, -c, 'touch /shared/hooking; until [ -e /shared/go ]; do sleep 0.1; done']}}}";
    let second = "touch /shared/second; exec sleep 1000";
    rig.write_manifest("pod.yaml", &pod(&rig, "pod", "", &[("first", hook, IDLE), ("second", "{}", second)]));
    rig.write_manifest("other.yaml", &manifest::idle("other"));
    let _agent = rig.start_agent(&[]);
    rig.wait("the hook to run", || shared(&rig).join("hooking").exists());
    rig.wait_running("other-node1", "main");
    rig.wait("the pod's status", || state(&rig, "pod-node1", 0)["waiting"].is_object());
    let seen = rig.pod("pod-node1").expect("the pod");
    assert_eq!(seen["status"]["phase"], "Pending");
    let first = &seen["status"]["containerStatuses"][0];
    assert_eq!(
        (&first["state"]["waiting"]["reason"], &first["started"]),
        (&"ContainerCreating".into(), &false.into())
    );
    assert_eq!(rig.containers_of("pod-node1").len(), 1, "the second waits for the first");
    assert!(!shared(&rig).join("second").exists());

    fs::write(shared(&rig).join("go"), "").expect("let the hook end");
    rig.wait("the second container", || shared(&rig).join("second").exists());
    rig.wait("both to be shown", || {
        rig.pod("pod-node1").is_some_and(|pod| pod["status"]["phase"] == "Running")
    });
    assert!(state(&rig, "pod-node1", 0)["running"].is_object());
}

#[test]
fn a_failing_post_start_hook_kills_its_container_which_is_restarted() {
    let rig = Rig::new();
    let hook = "{postStart: {exec: {command: [sh, -c, 'echo no cheese >&2; exit 3']}}, \
                preStop: {exec: {command: [sh, -c, 'echo stopped >> /shared/stops']}}}";
    rig.write_manifest("pod.yaml", &pod(&rig, "pod", "", &[("main", hook, IDLE)]));
    let tcp = "{postStart: {tcpSocket: {port: 80}}}";
    rig.write_manifest("tcp.yaml", &pod(&rig, "tcp", "restartPolicy: Never", &[("main", tcp, IDLE)]));
    let agent = rig.start_agent(&[]);
    rig.wait("a second try, and the wait for a third", || {
        let tries = rig.containers_of("pod-node1");
        tries.len() == 2 && tries.iter().all(|seen| seen.state == ContainerState::Exited)
    });
    rig.wait("the back-off", || state(&rig, "pod-node1", 0)["waiting"]["reason"] == "CrashLoopBackOff");
    agent.wait_for_log("FailedPostStartHook");
    agent.wait_for_log("Exec lifecycle hook ([sh -c echo no cheese >&2; exit 3]) for Container");
    agent.wait_for_log("exited with 3");
    assert_eq!(read(&rig, "stops"), "stopped\nstopped\n", "what is killed has its preStop hook run");
    agent.wait_for_log("Cannot run handler: invalid handler: tcpSocket");
    rig.wait("the pod that may not be restarted", || {
        rig.pod("tcp-node1")
            .is_some_and(|pod| ["Failed", "Succeeded"].iter().any(|end| pod["status"]["phase"] == *end))
    });
    assert_eq!(rig.containers_of("tcp-node1").len(), 1);
}

#[test]
fn a_post_start_hook_that_hangs_does_not_hold_up_an_edit_or_a_removal() {
    let rig = Rig::new();
    let hanging =
        "{postStart: {exec: {command: [sh, -c, 'echo hooking >> /shared/hooks; exec sleep 1000']}}}";
    let hooks = |count| rig.wait(&format!("{count} hooks"), || read(&rig, "hooks").lines().count() == count);
    rig.write_manifest("pod.yaml", &pod(&rig, "pod", "", &[("main", hanging, IDLE)]));
    let _agent = rig.start_agent(&[]);
    hooks(1);
    let edited = format!("{IDLE} # edited");
    rig.write_manifest("pod.yaml", &pod(&rig, "pod", "", &[("main", hanging, &edited)]));
    hooks(2);
    rig.remove_manifest("pod.yaml");
    rig.wait("the pod to go", || rig.containers_of("pod-node1").is_empty() && rig.sandboxes().is_empty());
}

#[test]
fn an_agent_that_was_killed_during_a_post_start_hook_does_not_run_it_again() {
    let rig = Rig::new();
    let hanging =
        "{postStart: {exec: {command: [sh, -c, 'echo hooking >> /shared/hooks; exec sleep 1000']}}}";
    rig.write_manifest("pod.yaml", &pod(&rig, "pod", "", &[("main", hanging, IDLE)]));
    let agent = rig.start_agent(&[]);
    rig.wait("the hook", || read(&rig, "hooks") == "hooking\n");
    let first = rig.wait_running("pod-node1", "main");
    agent.kill9();
    let _agent = rig.start_agent(&[]);
    rig.wait("the container to count as started", || state(&rig, "pod-node1", 0)["running"].is_object());
    assert_eq!(rig.wait_running("pod-node1", "main").id, first.id);
    assert_eq!(read(&rig, "hooks"), "hooking\n");
}

/// Notes the signal, and ends.
const NOTES: &str = "trap 'echo asked >> /shared/told; exit 0' TERM; while :; do sleep 1000 & wait $!; done";

#[test]
fn a_pre_stop_hook_outlives_its_manifest_and_the_agent_that_read_it() {
    let rig = Rig::new();
    let hook = "{preStop: {exec: {command: [sh, -c, 'echo hook >> /shared/told; sleep 1; echo done >> /shared/told']}}}";
    rig.write_manifest("pod.yaml", &pod(&rig, "pod", "", &[("main", hook, NOTES)]));
    let agent = rig.start_agent(&[]);
    let container = rig.wait_running("pod-node1", "main");
    assert_eq!(
        container.annotations["io.kubernetes.container.preStopHandler"],
        r#"{"exec":{"command":["sh","-c","echo hook >> /shared/told; sleep 1; echo done >> /shared/told"]}}"#
    );
    agent.kill9();
    rig.remove_manifest("pod.yaml");
    let _agent = rig.start_agent(&[]);
    rig.wait("the pod to go", || rig.sandboxes().is_empty());
    assert_eq!(read(&rig, "told"), "hook\ndone\nasked\n");
}

#[test]
fn a_pre_stop_hook_counts_against_the_grace_period_and_its_failure_is_only_told() {
    let rig = Rig::new();
    // Hangs for longer than its pod has; the process obeys the signal, which comes in time all the same.
    let hanging = "{preStop: {exec: {command: [sh, -c, 'echo hook >> /shared/told; exec sleep 1000']}}}";
    let spec = "terminationGracePeriodSeconds: 3";
    rig.write_manifest("hangs.yaml", &pod(&rig, "hangs", spec, &[("main", hanging, NOTES)]));
    let failing = "{preStop: {exec: {command: ['false']}}}";
    rig.write_manifest("fails.yaml", &pod(&rig, "fails", spec, &[("main", failing, IDLE)]));
    let dead = "{preStop: {exec: {command: [sh, -c, 'echo never >> /shared/never']}}}";
    rig.write_manifest("dead.yaml", &pod(&rig, "dead", "restartPolicy: Never", &[("main", dead, "exit 0")]));
    let agent = rig.start_agent(&[]);
    rig.wait_running("hangs-node1", "main");
    rig.wait_running("fails-node1", "main");
    rig.wait("the end of the third", || {
        rig.pod("dead-node1").is_some_and(|pod| pod["status"]["phase"] == "Succeeded")
    });
    let removed = Instant::now();
    for file in ["hangs.yaml", "fails.yaml", "dead.yaml"] {
        rig.remove_manifest(file);
    }
    rig.wait("the one that fails to go", || rig.containers_of("fails-node1").is_empty());
    rig.wait("the others to go", || rig.sandboxes().is_empty());
    let took = removed.elapsed();
    assert!(took >= Duration::from_secs(3) && took < Duration::from_secs(20), "3 s of grace took {took:?}");
    assert_eq!(read(&rig, "told"), "hook\nasked\n");
    for pod in ["hangs-node1", "fails-node1"] {
        let told = agent.log_lines_with("FailedPreStopHook");
        assert_eq!(told.iter().filter(|line| line.contains(pod)).count(), 1, "{told:?}");
    }
    assert_eq!(read(&rig, "never"), "", "what is dead is not asked");
}

#[test]
fn hooks_ask_over_http_and_pause() {
    let rig = Rig::new();
    // Notes each request's head, and answers; a status that is no success is an answer all the same.
    let serve = "trap 'echo term >> /shared/asked; exit 0' TERM\n\
                 cat > /tmp/answer <<'END'\n#!/bin/sh\n\
                 while read -r line && [ \"$line\" != \"$(printf '\\r')\" ]; do echo \"$line\" >> /shared/asked; done\n\
                 printf 'HTTP/1.1 500 No\\r\\nContent-Length: 0\\r\\n\\r\\n'\nEND\n\
                 chmod +x /tmp/answer; nc -ll -p 8080 -e /tmp/answer & wait $!";
    let get = "{preStop: {httpGet: {port: web, path: /bye?a=b, httpHeaders: [{name: X-Who, value: me}]}}}";
    rig.write_manifest("web.yaml", &pod(&rig, "web", "", &[("main", get, serve)]));
    let pause = "{postStart: {sleep: {seconds: 1}}, preStop: {sleep: {seconds: 2}}}";
    rig.write_manifest("pause.yaml", &pod(&rig, "pause", "", &[("main", pause, NOTES)]));
    let agent = rig.start_agent(&[]);
    let ip = {
        rig.wait_running("web-node1", "main");
        rig.ready_sandboxes("default", "web-node1").remove(0).ip
    };
    rig.wait("the server", || rig.http_get(&format!("http://{ip}:8080/up")).is_some());
    rig.wait("the pause after the start", || state(&rig, "pause-node1", 0)["running"].is_object());
    fs::remove_file(shared(&rig).join("asked")).expect("forget what the test asked");

    rig.remove_manifest("web.yaml");
    rig.wait("the server to go", || rig.containers_of("web-node1").is_empty());
    let asked = read(&rig, "asked").replace('\r', "");
    let lines: Vec<_> = asked.lines().collect();
    assert_eq!(lines.first(), Some(&"GET /bye?a=b HTTP/1.1"), "{asked}");
    for header in [format!("Host: {ip}:8080"), "User-Agent: kube-lifecycle/1.36".into(), "X-Who: me".into()] {
        assert!(lines.contains(&header.as_str()), "{header} in {asked}");
    }
    assert_eq!(lines.last(), Some(&"term"), "the signal comes after the request: {asked}");

    let removed = Instant::now();
    rig.remove_manifest("pause.yaml");
    rig.wait("the signal after the pause", || read(&rig, "told") == "asked\n");
    assert!(removed.elapsed() >= Duration::from_secs(2), "after {:?}", removed.elapsed());
    assert_eq!(agent.log_lines_with("FailedPreStopHook"), [""; 0]);
}

#[test]
fn hooks_ask_over_https_whatever_the_certificate_and_in_plain_text_where_there_is_no_tls() {
    let rig = Rig::new();
    let tls = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tls");
    // A server that wants TLS answers 400 to what comes without.
    let nginx = Nginx::start(
        &rig,
        &format!(
            "listen 8443 ssl; listen 8444;\nssl_certificate {tls}/server.pem;\n\
             ssl_certificate_key {tls}/server.key;\nlocation / {{ return 200; }}"
        ),
    );
    let get = |port: u16, path: &str| {
        format!("{{httpGet: {{host: 127.0.0.1, port: {port}, scheme: HTTPS, path: {path}}}}}")
    };
    let hooks = format!("{{postStart: {}, preStop: {}}}", get(8443, "/hello"), get(8444, "/bye"));
    rig.write_manifest("pod.yaml", &pod(&rig, "pod", "", &[("main", &hooks, IDLE)]));
    let agent = rig.start_agent(&[]);
    rig.wait("the start to be over", || state(&rig, "pod-node1", 0)["running"].is_object());
    assert_eq!(nginx.log(), ["GET /hello 200 0"]);
    assert_eq!(agent.log_lines_with("LifecycleHTTPFallback"), [""; 0]);

    rig.remove_manifest("pod.yaml");
    rig.wait("the pod to go", || rig.sandboxes().is_empty());
    assert_eq!(nginx.log().last().map(String::as_str), Some("GET /bye 200 0"), "{:?}", nginx.log());
    assert_eq!(agent.log_lines_with("LifecycleHTTPFallback").len(), 1);
    assert_eq!(agent.log_lines_with("FailedPreStopHook"), [""; 0]);
}

#[test]
fn what_cannot_be_a_hook_is_refused_with_its_field() {
    let rig = Rig::new();
    let ftp = "{preStop: {httpGet: {port: 21, scheme: FTP}}}";
    rig.write_manifest("ftp.yaml", &pod(&rig, "ftp", "", &[("main", ftp, IDLE)]));
    let none = "{postStart: {}}";
    rig.write_manifest("none.yaml", &pod(&rig, "none", "", &[("main", none, IDLE)]));
    let agent = rig.start_agent(&[]);
    for (field, reason) in [
        ("preStop.httpGet.scheme", r#"\"FTP\" is not one of"#),
        ("postStart", "must have an action (exec, httpGet, tcpSocket, ...)"),
    ] {
        agent.wait_for_log(&format!("field=\"spec.containers[0].lifecycle.{field}\" reason=\"{reason}"));
    }
}
