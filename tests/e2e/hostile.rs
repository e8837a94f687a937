//! What containers and a failing machine do to the agent: it says so, harms nobody else, and goes on when it can.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::manifest::{self, IDLE};
use crate::rig::{ContainerState, NODE, Rig};

fn status(rig: &Rig, pod: &str) -> Value {
    rig.pod(pod).map_or(Value::Null, |pod| pod["status"].clone())
}

/// The fields of the first container.
fn main_status(rig: &Rig, pod: &str) -> Value {
    status(rig, pod)["containerStatuses"][0].clone()
}

/// The container `main` with more fields, each a line.
fn with_fields(text: &str, fields: &str) -> String {
    let fields: String = fields.lines().map(|line| format!("    {line}\n")).collect();
    text.replace("    command:\n", &format!("{fields}    command:\n"))
}

fn uid(rig: &Rig, pod: &str) -> String {
    rig.pod(pod).unwrap_or_default()["metadata"]["uid"].as_str().expect("a UID").to_owned()
}

#[test]
fn containers_forge_no_lines_of_the_log() {
    let rig = Rig::new();
    let forged = "2026-01-01T00:00:00.000000Z  INFO the pods keep running";
    let print = format!("printf 'no\\n{forged}\\n\\r\\033[2J\\342\\200\\250{forged}\\n'; exit 1");
    let probe = format!(
        "livenessProbe: {{exec: {{command: [sh, -c, {print:?}]}}, periodSeconds: 1, failureThreshold: 1}}\n\
         lifecycle: {{postStart: {{exec: {{command: [sh, -c, {print:?}]}}}}}}"
    );
    rig.write_manifest("hook.yaml", &with_fields(&manifest::idle("hook"), &probe));
    let probe = format!(
        "terminationMessagePolicy: FallbackToLogsOnError\n\
         livenessProbe: {{exec: {{command: [sh, -c, {print:?}]}}, periodSeconds: 1, failureThreshold: 1}}"
    );
    rig.write_manifest("probe.yaml", &with_fields(&manifest::script("probe", &print), &probe));
    rig.write_manifest("live.yaml", &with_fields(&manifest::idle("live"), &probe));
    let agent = rig.start_agent(&[]);
    rig.wait("the probe, the hook and the end to be told of", || {
        let log = agent.log();
        log.contains("failed liveness probe") && log.matches(forged).count() >= 2
    });
    for line in agent.log().lines() {
        assert!(!line.starts_with(forged), "a line of its own: {line:?}");
        assert!(line.chars().all(|c| !c.is_control() && c != '\u{2028}'), "{line:?}");
    }
}

#[test]
fn a_volume_as_deep_as_a_shell_can_make_it_goes_with_its_pod() {
    let rig = Rig::new();
    // A thousand levels at a time: no path is longer than the kernel takes.
    let script = format!(
        "cd /v; p=; for i in $(seq 1000); do p=${{p}}d/; done\n\
         mkdir old; for i in 1 2 3; do mkdir -p new/$p; mv old new/${{p}}old; mv new old; done\n\
         touch /v/done\n{IDLE}"
    );
    let text = manifest::pod("deep", "volumes: [{name: v, emptyDir: {}}]", &script);
    rig.write_manifest("deep.yaml", &with_fields(&text, "volumeMounts: [{name: v, mountPath: /v}]"));
    rig.write_manifest("other.yaml", &manifest::idle("other"));
    let agent = rig.start_agent_through(&["prlimit", "--nofile=1024"], &[]);
    rig.wait_running("deep-node1", "main");
    let other = rig.wait_running("other-node1", "main");
    rig.wait("the pod to be served", || rig.pod("deep-node1").is_some());
    let dir = rig.pod_dir(&uid(&rig, "deep-node1"));
    rig.wait("the directories", || dir.join("volumes/kubernetes.io~empty-dir/v/done").exists());
    rig.remove_manifest("deep.yaml");
    rig.wait("the pod to be gone with its directory", || rig.pod("deep-node1").is_none() && !dir.exists());
    assert_eq!(rig.wait_running("other-node1", "main").id, other.id);
    assert!(agent.pid().is_some());
}

#[test]
fn a_termination_message_is_that_of_its_own_run() {
    let rig = Rig::new();
    rig.write_config("crashLoopBackOff: {maxContainerRestartPeriod: 2s}\n");
    // The first run leaves 8 MB of odd bytes, makes the file its own, and fails; the second says nothing and fails; the third runs.
    let script = "n=$(ls /v | wc -l); touch /v/$n\n\
                  if [ $n = 0 ]; then head -c 8000000 /dev/urandom > /dev/termination-log; \
                  printf 'the end of 0' >> /dev/termination-log; chmod 4000 /dev/termination-log; exit 1; fi\n\
                  [ $n = 1 ] && exit 2\n\
                  [ $n = 2 ] && { printf 'the end of 2' > /dev/termination-log; exit 3; }\n\
                  trap 'exit 0' TERM; printf 'not yet' > /dev/termination-log; while :; do sleep 1000 & wait $!; done";
    let text = manifest::pod("p", "volumes: [{name: v, emptyDir: {}}]", script);
    rig.write_manifest("p.yaml", &with_fields(&text, "volumeMounts: [{name: v, mountPath: /v}]"));
    let agent = rig.start_agent(&[]);
    let last = || main_status(&rig, "p-node1")["lastState"]["terminated"].clone();
    let mut messages = [Value::Null, Value::Null, Value::Null];
    rig.wait("three runs to end, and a fourth to run", || {
        for place in ["state", "lastState"] {
            let ended = main_status(&rig, "p-node1")[place]["terminated"].clone();
            if let Some(code) = ended["exitCode"].as_u64().filter(|code| (1..=3).contains(code)) {
                messages[usize::try_from(code).unwrap() - 1] = ended["message"].clone();
            }
        }
        let main = main_status(&rig, "p-node1");
        main["restartCount"] == 3 && !main["state"]["running"].is_null() && last()["exitCode"] == 3
    });
    let first = messages[0].as_str().unwrap_or_default();
    assert!(first.ends_with("the end of 0") && first.len() <= 4096, "{first:?}");
    assert_eq!(messages[1..], [Value::Null, "the end of 2".into()], "each its own");
    // The next agent reads it of the same file, and not of the one that runs.
    agent.kill9();
    let _agent = rig.start_agent(&[]);
    rig.wait("the next agent to look", || !main_status(&rig, "p-node1")["state"]["running"].is_null());
    assert_eq!(last()["message"], "the end of 2");
    let files = rig.pod_dir(&uid(&rig, "p-node1")).join("containers/main");
    assert_eq!(fs::read_dir(files).expect("the files of messages").count(), 2, "two take turns");
}

#[test]
fn a_probe_that_prints_without_end_costs_little_memory() {
    let rig = Rig::new();
    let probe = "readinessProbe: {exec: {command: [sh, -c, 'yes | head -c 12000000']}, periodSeconds: 1, timeoutSeconds: 20}";
    for pod in ["a", "b", "c"] {
        rig.write_manifest(&format!("{pod}.yaml"), &with_fields(&manifest::idle(pod), probe));
    }
    let agent = rig.start_agent(&[]);
    for pod in ["a-node1", "b-node1", "c-node1"] {
        rig.wait("the container to be ready", || main_status(&rig, pod)["ready"] == true);
    }
    let rss = agent.rss_kib();
    println!("resident {rss} KiB");
    assert!(rss < 150 << 10, "{rss} KiB");
}

#[test]
fn a_cgroup_that_refuses_to_go_holds_up_nobody_and_goes_later() {
    let rig = Rig::new();
    let cgroups = |name: &str| {
        let found = rig.output("find", &["/sys/fs/cgroup", "-type", "d", "-name", name]);
        found.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    rig.write_manifest("p.yaml", &manifest::idle("p"));
    let agent = rig.start_agent(&[]);
    rig.wait_running("p-node1", "main");
    rig.wait("the pod to be served", || rig.pod("p-node1").is_some());
    let (uid, name) = (uid(&rig, "p-node1"), format!("pod{}", uid(&rig, "p-node1")));
    let pids: Vec<_> = cgroups(&name).into_iter().filter(|dir| dir.contains("pids")).collect();
    let [dir] = &pids[..] else {
        eprintln!("not run: a cgroup of v1 is wanted, and there is {pids:?}");
        return;
    };
    let mut squatter = rig.command("sh");
    let mut squatter = squatter
        .args(["-c", &format!("echo $$ > {dir}/cgroup.procs; exec sleep 1000")])
        .spawn()
        .expect("sleep");
    rig.wait("the process to be in there", || {
        !rig.output("cat", &[&format!("{dir}/cgroup.procs")]).trim().is_empty()
    });
    rig.remove_manifest("p.yaml");
    rig.wait("the pod to be gone", || rig.pod("p-node1").is_none() && !rig.pod_dir(&uid).exists());
    assert_eq!(cgroups(&name), std::slice::from_ref(dir), "processes are nobody's to end");
    agent.terminate();
    let inside = rig.output("cat", &[&format!("{dir}/cgroup.procs")]);
    rig.kill_process(inside.trim().parse().expect("a pid"));
    squatter.wait().expect("reap the process");
    let _agent = rig.start_agent(&[]);
    rig.wait("housekeeping to find it", || cgroups(&name).is_empty());
    let left = rig.root_dir().join("rkubelet/cgroups");
    assert_eq!(fs::read_dir(left).map(|entries| entries.count()).unwrap_or_default(), 0);
}

#[test]
fn a_runtime_that_stands_still_is_waited_for() {
    let rig = Rig::new();
    rig.write_manifest("a.yaml", &manifest::idle("a"));
    rig.write_manifest("b.yaml", &manifest::idle("b"));
    let agent = rig.start_agent(&[]);
    let a = rig.wait_running("a-node1", "main");
    rig.wait_running("b-node1", "main");
    let containerd = rig.containerd_pid().expect("containerd runs");
    kill_process(containerd, Signal::STOP).expect("stop containerd");
    rig.write_manifest("c.yaml", &manifest::idle("c"));
    rig.remove_manifest("b.yaml");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(15) {
        assert!(rig.http_get("http://127.0.0.1:10248/healthz").is_some(), "it answers");
        assert!(rig.pod("a-node1").is_some());
    }
    // nsenter, which started it, halts with it.
    let parent =
        fs::read_to_string(format!("/proc/{}/status", containerd.as_raw_nonzero())).expect("its status");
    let parent = parent.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok());
    for pid in parent.and_then(Pid::from_raw).into_iter().chain([containerd]) {
        kill_process(pid, Signal::CONT).expect("let containerd go on");
    }
    let c = rig.wait_running("c-node1", "main");
    rig.wait("b to be gone", || rig.pod("b-node1").is_none() && rig.containers_of("b-node1").is_empty());
    assert_eq!(rig.wait_running("a-node1", "main").id, a.id);
    agent.kill9();
    let _agent = rig.start_agent(&[]);
    rig.wait("the next agent", || status(&rig, "c-node1")["phase"] == "Running");
    assert_eq!(rig.wait_running("c-node1", "main").id, c.id);
    assert_eq!(rig.ready_sandboxes("default", "c-node1").len(), 1);
}

#[test]
fn directories_of_pods_that_cannot_be_written_are_waited_for() {
    let rig = Rig::new();
    // The agent holds files above it open: those cannot be made read-only.
    let pods = rig.root_dir().join("pods").display().to_string();
    fs::create_dir(&pods).expect("make the directory of pods");
    rig.output("mount", &["--bind", &pods, &pods]);
    rig.write_config("crashLoopBackOff: {maxContainerRestartPeriod: 1s}\n");
    rig.write_manifest("a.yaml", &manifest::idle("a"));
    rig.write_manifest("looping.yaml", &manifest::script("looping", "sleep 1; exit 1"));
    let agent = rig.start_agent(&[]);
    rig.wait_running("a-node1", "main");
    let restarts = || main_status(&rig, "looping-node1")["restartCount"].as_u64().unwrap_or_default();
    rig.wait("each of the two files for messages to be there", || restarts() >= 2);
    rig.output("mount", &["-o", "remount,bind,ro", &pods]);
    let before = restarts();
    rig.wait("restarts that need nothing new on disk", || restarts() > before + 1);
    rig.write_manifest("b.yaml", &manifest::idle("b"));
    rig.wait("b to say why it does not start", || {
        let status = status(&rig, "b-node1").to_string();
        status.contains("Read-only file system")
    });
    rig.remove_manifest("a.yaml");
    rig.wait("the container of a to end", || {
        rig.containers_of("a-node1").iter().all(|c| c.state != ContainerState::Running)
    });
    rig.output("mount", &["-o", "remount,bind,rw", &pods]);
    rig.wait_running("b-node1", "main");
    rig.wait("a to be gone", || rig.pod("a-node1").is_none());
    assert!(agent.pid().is_some());
}

#[test]
fn few_open_files_slow_it_down_and_break_nothing() {
    let rig = Rig::new();
    let pods: Vec<_> = (0..10).map(|n| format!("p{n}")).collect();
    for pod in &pods {
        rig.write_manifest(&format!("{pod}.yaml"), &manifest::idle(pod));
    }
    let agent = rig.start_agent_through(&["prlimit", "--nofile=40"], &[]);
    let ids: Vec<_> = pods.iter().map(|pod| rig.wait_running(&format!("{pod}-{NODE}"), "main").id).collect();
    agent.wait_healthy();
    // None is left for a while.
    let pid = agent.pid().expect("rkubelet runs").as_raw_nonzero().to_string();
    rig.remove_manifest("p0.yaml");
    let limit = |limit: &str| {
        let set = std::process::Command::new("prlimit")
            .args(["--pid", &pid, &format!("--nofile={limit}")])
            .status();
        assert!(set.expect("run prlimit").success());
    };
    rig.wait("the pod to go", || rig.containers_of("p0-node1").is_empty());
    limit("8:40");
    rig.remove_manifest("p1.yaml");
    rig.write_manifest("late.yaml", &manifest::idle("late"));
    let begun = Instant::now();
    rig.wait("a while to pass", || begun.elapsed() > Duration::from_secs(8));
    assert!(agent.pid().is_some(), "{}", agent.log());
    limit("40:40");
    rig.wait_running("late-node1", "main");
    rig.wait("the other pod to go", || rig.containers_of("p1-node1").is_empty());
    for (pod, id) in pods.iter().zip(&ids).skip(2) {
        assert_eq!(rig.wait_running(&format!("{pod}-{NODE}"), "main").id, *id);
    }
    agent.wait_healthy();
}
