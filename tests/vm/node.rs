//! What the node says and shows: the agent's list of pods, the processes, the containers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::machine::Machine;

/// Where manifests go.
pub(crate) const MANIFESTS: &str = "/etc/kubernetes/manifests";
/// The most processes of a pod.
pub(crate) const PIDS: u32 = 300;
/// Waits until the agent has answered once on its port.
const ANSWERS: &str = "curl -sf --max-time 5 http://127.0.0.1:10255/pods > /dev/null";

/// The node as every scenario but the first finds it: the agent is installed, its port for pods is open, pods run.
pub(crate) fn ensure(machine: &mut Machine) {
    if !machine.holds("test -e /etc/systemd/system/rkubelet.service") {
        super::install::install(machine);
    }
    open_port(machine);
    wait_for_agent(machine);
    // A scenario that runs alone, or after one that failed, has some pods as well.
    if manifests(machine).is_empty() {
        machine
            .sh(&format!("cd /opt/rkubelet/manifests; cp hello.yaml job.yaml web.yaml {MANIFESTS}/; sync"));
        let names = manifests(machine);
        wait_at_rest(machine, &names);
    }
}

/// Has the agent serve its list of pods, and limit the processes of a pod to [`PIDS`].
pub(crate) fn open_port(machine: &mut Machine) {
    if !machine.holds("grep -q read-only-port /etc/default/rkubelet") {
        machine.sh(&format!(
            "sed -i 's/^RKUBELET_ARGS=\"/&--read-only-port=10255 --pod-max-pids={PIDS} /' /etc/default/rkubelet\n\
             sync /etc/default/rkubelet\nsystemctl restart rkubelet"
        ));
    }
}

/// Waits until the agent answers.
pub(crate) fn wait_for_agent(machine: &mut Machine) {
    machine.wait("the agent's list of pods", |machine| machine.holds(ANSWERS));
}

/// The agent's list of pods, by namespace and name; `None` if it does not answer.
pub(crate) fn pods(machine: &mut Machine) -> Option<BTreeMap<String, Value>> {
    let answer = machine.answer("curl -sf --max-time 20 http://127.0.0.1:10255/pods");
    if answer.code != 0 {
        return None;
    }
    let list: Value = serde_json::from_str(&answer.text).expect("/pods is JSON");
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let name = |pod: &Value| {
        pod["metadata"]["name"].as_str().unwrap_or_default().trim_end_matches("-node1").to_owned()
    };
    Some(items.into_iter().map(|pod| (name(&pod), pod)).collect())
}

/// Whether a pod is as it should be in the end: completed if it runs once, else every container ready.
pub(crate) fn at_rest(pod: &Value) -> bool {
    let statuses = pod["status"]["containerStatuses"].as_array();
    let runs_once = ["Never", "OnFailure"].iter().any(|policy| pod["spec"]["restartPolicy"] == *policy);
    let ready =
        statuses.is_some_and(|all| !all.is_empty() && all.iter().all(|status| status["ready"] == true));
    if runs_once { pod["status"]["phase"] == "Succeeded" } else { ready }
}

/// How many sandboxes and containers run when these pods are as they should be in the end: nothing of one that is completed.
fn expected_tasks(pods: &BTreeMap<String, Value>) -> usize {
    let lists = |pod: &Value| {
        ["initContainerStatuses", "containerStatuses"]
            .map(|list| pod["status"][list].as_array().cloned().unwrap_or_default())
            .concat()
    };
    let running =
        |pod: &Value| lists(pod).iter().filter(|status| status["state"]["running"].is_object()).count();
    pods.values().filter(|pod| !is_over(pod)).map(|pod| 1 + running(pod)).sum()
}

/// Whether a pod is completed, or has failed for good.
fn is_over(pod: &Value) -> bool {
    pod["status"]["phase"] == "Succeeded" || pod["status"]["phase"] == "Failed"
}

/// Waits until all of these pods, and no others, are as they should be in the end, and what ran of others is gone.
pub(crate) fn wait_at_rest(machine: &mut Machine, names: &BTreeSet<String>) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let what = format!("{names:?} to run or to be completed");
    machine.wait(&what, |machine| {
        let Some(pods) = pods(machine) else { return false };
        let there = pods.keys().cloned().collect::<BTreeSet<_>>() == *names && pods.values().all(at_rest);
        found = pods;
        there && tasks(machine).len() == expected_tasks(&found)
    });
    found
}

/// Every container that runs, sandboxes included, with its process. Read from the shims' files: asking containerd would
/// take a second of the machine's time.
pub(crate) fn tasks(machine: &mut Machine) -> BTreeMap<String, u32> {
    let text = machine.sh(
        "cd /run/containerd/io.containerd.runtime.v2.task/k8s.io 2>/dev/null || exit 0\n\
         for dir in *; do pid=$(< $dir/init.pid) && [ -n \"$pid\" ] && [ -e /proc/$pid ] && echo $dir $pid; done 2>/dev/null; true",
    );
    let task =
        |line: &str| line.split_once(' ').and_then(|(id, pid)| Some((id.to_owned(), pid.parse().ok()?)));
    text.lines().filter_map(task).collect()
}

/// The counts of restarts of every container.
pub(crate) fn restarts(pods: &BTreeMap<String, Value>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for (pod, value) in pods {
        for status in value["status"]["containerStatuses"].as_array().into_iter().flatten() {
            let name = status["name"].as_str().unwrap_or_default();
            counts.insert(format!("{pod}/{name}"), status["restartCount"].as_u64().unwrap_or(0));
        }
    }
    counts
}

/// The process of a container of a pod.
pub(crate) fn process(machine: &mut Machine, pod: &Value, container: usize) -> u32 {
    let id = pod["status"]["containerStatuses"][container]["containerID"].as_str().unwrap_or_default();
    let id = id.trim_start_matches("containerd://").to_owned();
    let tasks = tasks(machine);
    *tasks.get(&id).unwrap_or_else(|| panic!("no process of {id} in {tasks:?}"))
}

/// Puts a manifest into the directory.
pub(crate) fn put(machine: &mut Machine, file: &str, manifest: &str) {
    machine.write(&format!("{MANIFESTS}/{file}.yaml"), manifest);
}

/// Takes a manifest out of the directory.
pub(crate) fn take_away(machine: &mut Machine, file: &str) {
    machine.sh(&format!("rm {MANIFESTS}/{file}.yaml; sync {MANIFESTS}"));
}

/// The names of the pods in the directory, which are those of their files.
pub(crate) fn manifests(machine: &mut Machine) -> BTreeSet<String> {
    let text = machine.sh(&format!("ls {MANIFESTS}"));
    text.lines().filter_map(|line| line.strip_suffix(".yaml")).map(str::to_owned).collect()
}

/// A pod with one container that waits for its end; its process can be told from others by `marker`.
pub(crate) fn idle(name: &str, marker: &str, more: &str) -> String {
    pod(name, marker, "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done", more, "")
}

/// A pod with one container that runs a script.
pub(crate) fn pod(name: &str, marker: &str, script: &str, container: &str, spec: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\nspec:\n  terminationGracePeriodSeconds: 1\n{spec}  \
         containers:\n  - name: main\n    image: localhost/rkubelet/busybox:1\n    imagePullPolicy: Never\n    \
         command: [sh, -c, \"{script}\", \"marker:{marker}\"]\n{container}"
    )
}

/// How many processes have each marker.
pub(crate) fn markers(machine: &mut Machine) -> BTreeMap<String, usize> {
    let text = machine.sh("ps -eo args= | sed -n 's/^sh -c .* marker:\\([^ ]*\\)$/\\1/p'");
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        *counts.entry(line.to_owned()).or_default() += 1;
    }
    counts
}

/// The agent's lines in the journal of this boot.
pub(crate) fn journal(machine: &mut Machine) -> String {
    machine.sh("journalctl -b -u rkubelet --no-pager -o cat")
}
