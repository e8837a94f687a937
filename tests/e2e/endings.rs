//! How pods end: signals, order, deadlines, an edit that shortens the grace, termination messages, and who is held up by none of it.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::manifest::{self, IDLE, journal, journalled};
use crate::rig::{BUSYBOX, ContainerState, Rig};

/// Takes no notice of SIGTERM.
const DEAF: &str = "trap '' TERM; echo deaf > /dev/termination-log; while :; do sleep 1; done";

fn with_grace(text: &str, seconds: u32) -> String {
    text.replace("terminationGracePeriodSeconds: 1\n", &format!("terminationGracePeriodSeconds: {seconds}\n"))
}

fn terminated(rig: &Rig, pod: &str) -> Value {
    let status = rig.pod(pod).map_or(Value::Null, |pod| pod["status"]["containerStatuses"][0].clone());
    let state = &status["state"]["terminated"];
    if state.is_object() { state.clone() } else { status["lastState"]["terminated"].clone() }
}

#[test]
fn a_second_shorter_wish_shortens_a_running_end() {
    let rig = Rig::new();
    let deaf =
        |version: u32, grace| with_grace(&manifest::script("deaf", &format!("{DEAF} # {version}")), grace);
    let sure = with_grace(&manifest::script("sure", DEAF), 300);
    rig.write_manifest("deaf.yaml", &deaf(1, 300));
    rig.write_manifest("sure.yaml", &sure);
    let agent = rig.start_agent(&[]);
    let first = rig.wait_running("deaf-node1", "main");
    rig.wait_running("sure-node1", "main");
    let asked = || agent.log_lines_with("stopping the container").len();

    rig.write_manifest("deaf.yaml", &deaf(2, 300));
    rig.wait("the end to begin", || asked() == 1);
    let shortened = Instant::now();
    rig.write_manifest("deaf.yaml", &deaf(3, 3));
    rig.wait("the new instance", || {
        let running = rig.containers_of("deaf-node1");
        running.iter().any(|seen| seen.id != first.id && seen.state == ContainerState::Running)
    });
    let took = shortened.elapsed();
    assert!(took >= Duration::from_secs(3), "it has 3 s from then on, not {took:?}");

    // The edit leaves the pod the grace it had; a removal after it gives the grace of the last manifest.
    rig.write_manifest("sure.yaml", &sure.replace(": 300", ": 2"));
    rig.wait("the other end to begin", || agent.log_lines_with("grace=300").len() == 2);
    rig.remove_manifest("sure.yaml");
    rig.wait("the removed pod to go", || rig.containers_of("sure-node1").is_empty());
}

#[test]
fn the_hook_of_a_shortened_end_runs_once() {
    let rig = Rig::new();
    let dir = rig.dir().join("shared");
    fs::create_dir(&dir).expect("create a directory to share");
    let text = |version: u32, grace: u32| {
        let spec = format!("volumes: [{{name: s, hostPath: {{path: {}}}}}]", dir.display());
        let text = manifest::pod("pod", &spec, &format!("{DEAF} # {version}"));
        let hook = "    volumeMounts: [{name: s, mountPath: /shared}]\n    \
                    lifecycle: {preStop: {exec: {command: [sh, -c, 'echo hook >> /shared/hooks; exec sleep 1000']}}}\n    command:";
        with_grace(&text.replace("    command:", hook), grace)
    };
    rig.write_manifest("pod.yaml", &text(1, 300));
    let _agent = rig.start_agent(&[]);
    let first = rig.wait_running("pod-node1", "main");
    rig.write_manifest("pod.yaml", &text(2, 300));
    let hooks = || fs::read_to_string(dir.join("hooks")).unwrap_or_default();
    rig.wait("the hook", || hooks() == "hook\n");
    rig.write_manifest("pod.yaml", &text(3, 2));
    rig.wait("the new instance", || {
        let seen = rig.containers_of("pod-node1");
        seen.iter().any(|seen| seen.id != first.id && seen.state == ContainerState::Running)
    });
    assert_eq!(hooks(), "hook\n");
}

#[test]
fn a_pod_that_hangs_in_its_end_holds_up_no_other() {
    let rig = Rig::new();
    rig.write_manifest("deaf.yaml", &with_grace(&manifest::script("deaf", DEAF), 60));
    let agent = rig.start_agent(&[]);
    let deaf = rig.wait_running("deaf-node1", "main");
    rig.remove_manifest("deaf.yaml");
    agent.wait_for_log("stopping the container");
    for number in 0..10 {
        rig.write_manifest(&format!("{number}.yaml"), &manifest::idle(&format!("p{number}")));
    }
    for number in 0..10 {
        rig.wait_running(&format!("p{number}-node1"), "main");
        rig.remove_manifest(&format!("{number}.yaml"));
    }
    rig.wait("ten pods to have come and gone", || rig.sandboxes().len() == 1);
    let still = rig.containers_of("deaf-node1");
    assert_eq!(
        (still.len(), still[0].state, &still[0].id),
        (1, ContainerState::Running, &deaf.id),
        "within its 60 s"
    );
}

#[test]
fn an_edit_that_is_taken_back_while_the_pod_ends_begins_it_anew() {
    let rig = Rig::new();
    // Of a pod that may run once only, an end by us must not pass for its own.
    let once = |instance: &str| {
        journalled(&rig, "pod", instance).replace("spec:\n", "spec:\n  restartPolicy: Never\n")
    };
    rig.write_manifest("pod.yaml", &once("1"));
    let _agent = rig.start_agent(&[]);
    rig.wait("instance 1", || journal(&rig, "pod") == ["start 1"]);
    rig.write_manifest("pod.yaml", &once("2"));
    rig.wait("the request", || journal(&rig, "pod").contains(&"asked 1".to_owned()));
    rig.write_manifest("pod.yaml", &once("1"));
    rig.wait("another instance", || journal(&rig, "pod").len() > 3);
    assert_eq!(journal(&rig, "pod"), ["start 1", "asked 1", "end 1", "start 1"]);
}

#[test]
fn the_stop_signal_is_the_one_that_was_asked_for() {
    let rig = Rig::new();
    let script = "trap 'echo usr1 > /dev/termination-log; exit 0' USR1; trap 'echo term > /dev/termination-log; exit 1' TERM\n\
                  while :; do sleep 1000 & wait $!; done";
    let text =
        manifest::pod("pod", "os: {name: linux}\nrestartPolicy: Never\nactiveDeadlineSeconds: 5", script);
    let text = text.replace("    command:", "    lifecycle: {stopSignal: SIGUSR1}\n    command:");
    rig.write_manifest("pod.yaml", &with_grace(&text, 60));
    let deaf = manifest::pod(
        "deaf",
        "os: {name: linux}\nrestartPolicy: Never\nactiveDeadlineSeconds: 5",
        "trap '' USR1; exec sleep 1000",
    );
    let deaf = deaf.replace("    command:", "    lifecycle: {stopSignal: SIGUSR1}\n    command:");
    rig.write_manifest("deaf.yaml", &with_grace(&deaf, 3));
    let began = Instant::now();
    let _agent = rig.start_agent(&[]);
    rig.wait("the end by a signal of its own", || terminated(&rig, "pod-node1")["message"] == "usr1\n");
    assert_eq!(terminated(&rig, "pod-node1")["exitCode"], 0);
    assert!(began.elapsed() < Duration::from_secs(30), "it was awaited, not timed: {:?}", began.elapsed());
    rig.wait("the end of the deaf one", || terminated(&rig, "deaf-node1")["exitCode"] == 137);
    let at = |time: &Value| time.as_str().expect("a time").parse::<jiff::Timestamp>().expect("RFC 3339");
    let began = at(&rig.pod("deaf-node1").expect("the pod")["status"]["startTime"]);
    let lived = at(&terminated(&rig, "deaf-node1")["finishedAt"]).duration_since(began).as_secs();
    assert!(lived >= 7, "5 s, and 3 s of grace, but for fractions: {lived}");
}

#[test]
fn sidecars_end_after_the_containers_in_reverse_order_with_what_is_left_of_the_grace() {
    let rig = Rig::new();
    let dir = rig.dir().join("shared");
    fs::create_dir(&dir).expect("create a directory to share");
    let container = |name: &str, more: &str, on_term: &str| {
        format!(
            "  - name: {name}\n    image: {BUSYBOX}\n    {more}\n    volumeMounts: [{{name: s, mountPath: /shared}}]\n    \
             command: [sh, -c, \"trap '{on_term}' TERM; touch /shared/up-{name}; while :; do sleep 0.2; done\"]\n"
        )
    };
    let note = |name: &str| format!("echo {name} >> /shared/ends; exit 0");
    let hook = "lifecycle: {preStop: {exec: {command: [sh, -c, 'echo hook >> /shared/ends']}}}\n    restartPolicy: Always";
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: pod}}\nspec:\n  terminationGracePeriodSeconds: 4\n  \
         volumes: [{{name: s, hostPath: {{path: {}}}}}]\n  initContainers:\n{}{}  containers:\n{}",
        dir.display(),
        container("one", hook, &note("one")),
        container("two", "restartPolicy: Always", &note("two")),
        // Ends a second after it was asked to.
        container("main", "tty: false", "sleep 1; echo main >> /shared/ends; exit 0"),
    );
    rig.write_manifest("pod.yaml", &text);
    // The same with a container that does not listen: its sidecars still get their two seconds.
    let deaf =
        text.replace("name: pod", "name: deaf").replace("sleep 1; echo main >> /shared/ends; exit 0", ":");
    let deaf = deaf.replace("/shared/ends", "/shared/deaf-ends").replace("/shared/up-", "/shared/deaf-up-");
    rig.write_manifest("deaf.yaml", &deaf);
    let _agent = rig.start_agent(&[]);
    let read = |file: &str| fs::read_to_string(dir.join(file)).unwrap_or_default();
    rig.wait("both pods", || dir.join("up-main").exists() && dir.join("deaf-up-main").exists());
    let removed = Instant::now();
    rig.remove_manifest("pod.yaml");
    rig.remove_manifest("deaf.yaml");
    rig.wait("the pods to go", || rig.sandboxes().is_empty());
    assert_eq!(read("ends"), "hook\nmain\ntwo\none\n");
    let ends = read("deaf-ends");
    let mut lines: Vec<_> = ends.lines().collect();
    assert_eq!(lines.remove(0), "hook", "{ends}");
    lines.sort_unstable();
    assert_eq!(lines, ["one", "two"], "asked, though their turn did not come: {ends}");
    assert!(removed.elapsed() < Duration::from_secs(25), "4 s of grace took {:?}", removed.elapsed());
}

#[test]
fn a_deadline_ends_a_pod_for_good() {
    let rig = Rig::new();
    let text = |script: &str| manifest::pod("pod", "activeDeadlineSeconds: 4", script);
    rig.write_manifest("pod.yaml", &text(IDLE));
    rig.write_manifest(
        "quick.yaml",
        &manifest::pod("quick", "restartPolicy: Never\nactiveDeadlineSeconds: 4", "exit 0"),
    );
    let agent = rig.start_agent(&[]);
    rig.wait_running("pod-node1", "main");
    let failed = || {
        let pod = rig.pod("pod-node1")?;
        let status = &pod["status"];
        (status["phase"] == "Failed").then(|| (status["reason"].clone(), status["message"].clone()))
    };
    rig.wait("the deadline", || failed().is_some());
    let expect =
        ("DeadlineExceeded".into(), "Pod was active on the node longer than the specified deadline".into());
    assert_eq!(failed(), Some(expect));
    assert!(rig.ready_sandboxes("default", "pod-node1").is_empty());
    let before = rig.fingerprint();
    agent.kill9();
    let _agent = rig.start_agent(&[]);
    rig.wait("the next agent to say the same", || failed().is_some());
    rig.wait("the pod that was done in time", || {
        rig.pod("quick-node1").is_some_and(|pod| pod["status"]["phase"] == "Succeeded")
    });
    rig.assert_untouched(&before);
    // An edit is a new pod.
    rig.write_manifest("pod.yaml", &text(&format!("{IDLE} # edited")));
    rig.wait_running("pod-node1", "main");
}

#[test]
fn last_words_are_kept_and_shown() {
    let rig = Rig::new();
    let never = |name: &str, more: &str, script: &str| {
        let text = manifest::pod(name, "restartPolicy: Never", script);
        rig.write_manifest(
            &format!("{name}.yaml"),
            &text.replace("    command:", &format!("    {more}\n    command:")),
        );
    };
    never("file", "terminationMessagePath: /tmp/words", "echo farewell > /tmp/words; exit 3");
    let logs = "terminationMessagePolicy: FallbackToLogsOnError";
    never("logs", logs, "for n in $(seq 100); do echo line $n; done; exit 1");
    never("both", logs, "echo in the log; echo in the file > /dev/termination-log; exit 1");
    never("well", logs, "echo all is well");
    never(
        "long",
        "tty: false",
        "dd if=/dev/zero of=/dev/termination-log bs=1M count=64 2> /dev/null; printf end >> /dev/termination-log; exit 1",
    );
    never("odd", "tty: false", r"printf 'a\377b' > /dev/termination-log; exit 1");
    let agent = rig.start_agent(&[]);
    let words = |pod: &str| {
        let pod = format!("{pod}-node1");
        rig.wait(&format!("the end of {pod}"), || terminated(&rig, &pod).is_object());
        terminated(&rig, &pod)["message"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(words("file"), "farewell\n");
    let lines = words("logs");
    assert!(lines.starts_with("line 21\n") && lines.ends_with("line 100\n"), "{lines}");
    assert_eq!(words("both"), "in the file\n");
    assert_eq!(words("well"), "");
    assert_eq!(words("odd"), "a\u{fffd}b");
    let long = words("long");
    assert!(long.len() == 4096 && long.ends_with("\0end"), "{} bytes", long.len());
    assert!(agent.rss_kib() < 64 << 10, "{} KiB", agent.rss_kib());

    let [file] = &rig.containers_of("file-node1")[..] else { panic!("one container") };
    let dir = rig.pod_dir(&file.labels["io.kubernetes.pod.uid"]).join("containers/main");
    let kept: Vec<_> = fs::read_dir(&dir).expect("its directory").flatten().collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].file_name().len(), 8, "as kubelet names it");
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(kept[0].metadata().expect("its mode").permissions().mode() & 0o7777, 0o666);
    rig.remove_manifest("file.yaml");
    rig.wait("its directory to go", || !dir.exists());
}

#[test]
fn old_last_words_go_with_their_container_and_new_agents_read_what_is_left() {
    let rig = Rig::new();
    rig.write_manifest("pod.yaml", &manifest::script("pod", "echo so long > /dev/termination-log; exit 1"));
    rig.write_config("crashLoopBackOff: {maxContainerRestartPeriod: 1s}\n");
    let agent = rig.start_agent(&[]);
    rig.wait("a few tries", || rig.containers_of("pod-node1").iter().any(|seen| seen.attempt >= 3));
    let dir = || {
        let uid = rig
            .containers_of("pod-node1")
            .first()
            .map(|seen| seen.labels["io.kubernetes.pod.uid"].clone())?;
        Some(rig.pod_dir(&uid).join("containers/main"))
    };
    let dir = dir().expect("a container");
    rig.wait("as many words as containers", || {
        let files = fs::read_dir(&dir).map_or(0, |files| files.flatten().count());
        files == rig.containers_of("pod-node1").len()
    });
    agent.kill9();
    let _agent = rig.start_agent(&[]);
    rig.wait("the termination message of before", || terminated(&rig, "pod-node1")["message"] == "so long\n");
}
