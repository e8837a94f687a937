//! Requests and limits, as the kernel shows them; and a container that takes more memory than it may.

use serde_json::Value;

use crate::manifest::{self, IDLE};
use crate::rig::{ContainerState, NODE, Rig};

/// A pod of one container with these resources.
fn pod(name: &str, spec: &str, resources: &str, script: &str) -> String {
    let text = manifest::pod(name, spec, script);
    text.replace("    command:\n", &format!("    resources: {resources}\n    command:\n"))
}

/// A pod that takes more memory than it may, and is not started again.
pub(crate) fn eater(name: &str) -> String {
    let grab = "x=a; while :; do x=$x$x; done";
    pod(name, "restartPolicy: Never", "{limits: {memory: 16Mi}}", grab)
}

/// A file of the machine's cgroups, as those inside see it; v1 by controller.
fn cgroup_file(rig: &Rig, controller: &str, path: &str) -> String {
    rig.output("cat", &[&format!("/sys/fs/cgroup/{controller}{path}")]).trim().to_owned()
}

fn uid(rig: &Rig, pod: &str) -> String {
    let pod = rig.pod(pod).unwrap_or_default();
    pod["metadata"]["uid"].as_str().expect("a UID").to_owned()
}

/// The directories of pods in a hierarchy.
fn pod_cgroups(rig: &Rig) -> Vec<String> {
    let found = rig.output("find", &["/sys/fs/cgroup", "-type", "d", "-name", "pod*"]);
    found.lines().map(str::to_owned).collect()
}

fn is_v1(rig: &Rig) -> bool {
    let v1 = rig.output("ls", &["/sys/fs/cgroup"]).split_whitespace().any(|name| name == "memory");
    if !v1 {
        eprintln!("not run: the files of cgroup v1 are read, and this machine has v2");
    }
    v1
}

#[test]
fn limits_reach_the_kernel_and_go_with_the_pod() {
    let rig = Rig::new();
    if !is_v1(&rig) {
        return;
    }
    rig.write_config("podPidsLimit: 500\ncgroupRoot: /edge\n");
    let config = rig.config_path();
    rig.write_manifest("same.yaml", &pod("same", "", "{limits: {cpu: 500m, memory: 64Mi}}", IDLE));
    rig.write_manifest("some.yaml", &pod("some", "", "{requests: {cpu: 250m, memory: 16Mi}}", IDLE));
    rig.write_manifest("best.yaml", &manifest::idle("best"));
    let agent = rig.start_agent(&[&format!("--config={}", config.display())]);
    let rows = [
        ("same", "", "512", "50000", "67108864"),
        ("some", "/burstable", "256", "-1", ""),
        ("best", "/besteffort", "2", "-1", ""),
    ];
    let mut seen = Vec::new();
    for (name, class, shares, quota, memory) in rows {
        let name = format!("{name}-{NODE}");
        let container = rig.wait_running(&name, "main");
        rig.wait("the pod to be served", || rig.pod(&name).is_some());
        let pod = format!("/edge/kubepods{class}/pod{}", uid(&rig, &name));
        for dir in [pod.clone(), format!("{pod}/{}", container.id)] {
            assert_eq!(cgroup_file(&rig, "cpu", &format!("{dir}/cpu.shares")), shares, "{name} {dir}");
            assert_eq!(cgroup_file(&rig, "cpu", &format!("{dir}/cpu.cfs_quota_us")), quota, "{name} {dir}");
            let limit = cgroup_file(&rig, "memory", &format!("{dir}/memory.limit_in_bytes"));
            assert!(
                if memory.is_empty() { limit.len() > 15 } else { limit == memory },
                "{name} {dir}: {limit}"
            );
        }
        assert_eq!(cgroup_file(&rig, "pids", &format!("{pod}/pids.max")), "500", "{name}");
        seen.push(pod);
    }
    assert_eq!(cgroup_file(&rig, "cpu", "/edge/kubepods/burstable/cpu.shares"), "256");
    assert_eq!(cgroup_file(&rig, "cpu", "/edge/kubepods/besteffort/cpu.shares"), "2");

    // The rig's containerd may not lower it; BestEffort's is the highest there is.
    let best = rig.wait_running(&format!("best-{NODE}"), "main");
    let adj = rig.output("cat", &[&format!("/proc/{}/oom_score_adj", best.pid)]);
    assert_eq!(adj.trim(), "1000");

    // One goes while the agent looks on, one while it is away.
    let is_left = |pod: &str| pod_cgroups(&rig).iter().any(|dir| dir.ends_with(pod));
    rig.remove_manifest("same.yaml");
    rig.wait("the pod's cgroups to go", || !is_left(&seen[0]));
    assert!(is_left(&seen[1]) && is_left(&seen[2]));
    agent.kill9();
    rig.remove_manifest("some.yaml");
    let _agent = rig.start_agent(&[&format!("--config={}", config.display())]);
    rig.wait("the other pod's cgroups to go", || !is_left(&seen[1]));
    assert_eq!(rig.wait_running(&format!("best-{NODE}"), "main").id, best.id);
    assert!(is_left(&seen[2]));
    rig.remove_manifest("best.yaml");
    rig.wait("all cgroups of pods to go", || pod_cgroups(&rig).is_empty());
}

#[test]
fn a_container_over_its_limit_is_oom_killed() {
    let rig = Rig::new();
    rig.write_manifest("eater.yaml", &eater("eater"));
    let agent = rig.start_agent(&[]);
    let name = format!("eater-{NODE}");
    let terminated = || -> Value {
        let pod = rig.pod(&name).unwrap_or_default();
        pod["status"]["containerStatuses"][0]["state"]["terminated"].clone()
    };
    rig.wait("the container to be OOMKilled", || terminated()["reason"] == "OOMKilled");
    assert_eq!(terminated()["exitCode"], 137);
    agent.wait_for_log("out of memory; its limit is 16Mi");
    let events = rig.http_get("http://127.0.0.1:10255/events").expect("the events").body;
    assert!(events.contains("\"OOMKilled\"") && events.contains("its limit is 16Mi"), "{events}");
    assert!(rig.containers_of(&name).iter().all(|seen| seen.state != ContainerState::Running));
}

/// The CPUs that a container's main process may run on.
fn allowed_cpus(rig: &Rig, pid: u32) -> String {
    let status = rig.output("cat", &[&format!("/proc/{pid}/status")]);
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.unwrap_or_default().trim().to_owned()
}

#[test]
fn a_guaranteed_pod_has_cpus_of_its_own_and_the_others_share_the_rest() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores < 2 {
        eprintln!("not run: one CPU is reserved, and there is no other");
        return;
    }
    let rig = Rig::new();
    rig.write_config("cpuManagerPolicy: static\nreservedSystemCPUs: '0'\n");
    let flag = format!("--config={}", rig.config_path().display());
    rig.write_manifest("shared.yaml", &manifest::idle("shared"));
    let agent = rig.start_agent(&[&flag]);
    let shared = rig.wait_running(&format!("shared-{NODE}"), "main");
    let all = allowed_cpus(&rig, shared.pid);
    assert_eq!(all, format!("0-{}", cores - 1), "all of them");

    let whole = pod("whole", "", "{limits: {cpu: '1', memory: 32Mi}}", IDLE);
    rig.write_manifest("whole.yaml", &whole);
    let whole_name = format!("whole-{NODE}");
    let own = rig.wait_running(&whole_name, "main");
    assert_eq!(allowed_cpus(&rig, own.pid), "1");
    let rest = if cores == 2 { "0".to_owned() } else { format!("0,2-{}", cores - 1).replace("2-2", "2") };
    rig.wait("the others to share the rest", || allowed_cpus(&rig, shared.pid) == rest);
    let state = || std::fs::read_to_string(rig.root_dir().join("cpu_manager_state")).unwrap_or_default();
    let uid = uid(&rig, &whole_name);
    let told: Value = serde_json::from_str(&state()).expect("the state");
    assert_eq!(
        (told["policyName"].as_str(), told["defaultCpuSet"].as_str()),
        (Some("static"), Some(rest.as_str()))
    );
    assert_eq!(told["entries"][&uid]["main"], "1");

    // One that comes while another has them, and one that asks for a part.
    rig.write_manifest(
        "part.yaml",
        &pod("part", "", "{requests: {cpu: 0}, limits: {cpu: 100m, memory: 32Mi}}", IDLE),
    );
    let part = rig.wait_running(&format!("part-{NODE}"), "main");
    assert_eq!(allowed_cpus(&rig, part.pid), rest);

    // A successor leaves all of it alone, and gives it back when the pod is gone.
    agent.kill9();
    let before = state();
    let _agent = rig.start_agent(&[&flag]);
    rig.write_manifest("late.yaml", &manifest::idle("late"));
    let late = rig.wait_running(&format!("late-{NODE}"), "main");
    assert_eq!(allowed_cpus(&rig, late.pid), rest);
    assert_eq!((state(), allowed_cpus(&rig, own.pid)), (before, "1".to_owned()));
    rig.remove_manifest("whole.yaml");
    for pid in [shared.pid, part.pid, late.pid] {
        rig.wait("the CPU to be shared again", || allowed_cpus(&rig, pid) == all);
    }
    assert!(!state().contains(&uid), "{}", state());
}
