//! What is told of what pods use: beside what the kernel itself tells, and to a real Prometheus.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::manifest;
use crate::rig::{ContainerSeen, READ_ONLY_PORT, Rig};

const PAGES: [&str; 4] = ["/metrics", "/metrics/cadvisor", "/metrics/probes", "/metrics/resource"];
const MIB: u64 = 1 << 20;

fn page(rig: &Rig, path: &str) -> Option<String> {
    let reply = rig.http_get(&format!("http://127.0.0.1:{READ_ONLY_PORT}{path}"))?;
    (reply.status == 200).then_some(reply.body)
}

fn summary(rig: &Rig) -> Option<Value> {
    serde_json::from_str(&page(rig, "/stats/summary")?).ok()
}

fn pod_stats(summary: &Value, pod: &str) -> Option<Value> {
    summary["pods"].as_array()?.iter().find(|stats| stats["podRef"]["name"] == pod).cloned()
}

/// The number at a place of a pod's stats.
fn number(stats: &Value, pointer: &str) -> u64 {
    stats.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer} in {stats:#}"))
}

/// Uses memory, an emptyDir, its own layer, its log and some CPU, each as much as it says, and then sleeps.
fn known_user(name: &str) -> String {
    let script = "dd if=/dev/zero of=/memory/file bs=1M count=20 2>/dev/null\n\
                  dd if=/dev/zero of=/scratch/file bs=1M count=3 2>/dev/null\n\
                  dd if=/dev/zero of=/layer bs=1M count=2 2>/dev/null\n\
                  i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done\n\
                  dd if=/dev/zero bs=1000 count=200 2>/dev/null | tr '\\0' x; echo\n\
                  sync; touch /scratch/done\n\
                  exec sleep 100000";
    let volumes = "volumes: [{name: scratch, emptyDir: {}}, {name: memory, emptyDir: {medium: Memory}}]";
    manifest::pod(name, volumes, script).replace(
        "    command:\n",
        "    resources: {limits: {memory: 100Mi}}\n    volumeMounts: [{name: scratch, mountPath: /scratch}, \
         {name: memory, mountPath: /memory}]\n    command:\n",
    )
}

/// Where the cgroup of a process of the rig is, of the controller with this file.
fn cgroup_file(rig: &Rig, pid: u32, controller: &str, file: &str) -> PathBuf {
    let text = fs::read_to_string(format!("/proc/{}/root/proc/{pid}/cgroup", rig.machine().first_pid()))
        .expect("the cgroups of a container");
    let is_wanted =
        |line: &&str| line.split(':').nth(1).is_some_and(|all| all.split(',').any(|c| c == controller));
    let (line, root) = match text.lines().find(is_wanted) {
        Some(line) => (line, PathBuf::from("/sys/fs/cgroup").join(controller)),
        None => (text.lines().last().expect("cgroup v2"), PathBuf::from("/sys/fs/cgroup")),
    };
    let path = line.splitn(3, ':').nth(2).expect("a path");
    root.join(path.trim_start_matches('/')).join(file)
}

/// The nanoseconds of CPU of a container, as the kernel counts them.
fn cpu_of(rig: &Rig, container: &ContainerSeen) -> u64 {
    let read = |controller, file| fs::read_to_string(cgroup_file(rig, container.pid, controller, file));
    match read("cpuacct", "cpuacct.usage") {
        Ok(text) => text.trim().parse().expect("a number"),
        Err(_) => {
            let stat = read("cpu", "cpu.stat").expect("cpu.stat");
            let line = stat.lines().find_map(|line| line.strip_prefix("usage_usec ")).expect("usage");
            line.parse::<u64>().expect("a number") * 1000
        }
    }
}

#[test]
fn the_summary_tells_what_the_kernel_tells() {
    let rig = Rig::new();
    rig.write_manifest("known.yaml", &known_user("known"));
    rig.write_manifest("host.yaml", manifest::HOST_NETWORK);
    let _agent = rig.start_agent(&[]);
    let container = rig.wait_running("known-node1", "main");
    rig.wait_running("etcd-node1", "etcd");
    let uid = rig.ready_sandboxes("default", "known-node1").remove(0).uid;
    let done = rig.pod_dir(&uid).join("volumes/kubernetes.io~empty-dir/scratch/done");
    rig.wait("the container to have used what it uses", || done.exists());

    let before = cpu_of(&rig, &container);
    let mut stats = Value::Null;
    // The runtime measures layers now and then.
    rig.wait("stats with the layer of the container", || {
        let Some(read) = summary(&rig) else { return false };
        stats = pod_stats(&read, "known-node1").unwrap_or_default();
        stats.pointer("/containers/0/rootfs/usedBytes").and_then(Value::as_u64) >= Some(2 * MIB)
            && pod_stats(&read, "etcd-node1").is_some()
    });
    let after = cpu_of(&rig, &container);
    let cpu = number(&stats, "/containers/0/cpu/usageCoreNanoSeconds");
    assert!((before..=after).contains(&cpu), "{before} {cpu} {after}");
    assert!(number(&stats, "/cpu/usageCoreNanoSeconds") >= cpu);
    // It sleeps: a rate, and a small one.
    assert!(number(&stats, "/containers/0/cpu/usageNanoCores") < 500_000_000);
    let working_set = number(&stats, "/containers/0/memory/workingSetBytes");
    assert!((20 * MIB..100 * MIB).contains(&working_set), "{working_set}");
    let available = number(&stats, "/containers/0/memory/availableBytes");
    assert_eq!(available + working_set, 100 * MIB, "the limit");
    assert!(number(&stats, "/memory/usageBytes") >= working_set, "the pod holds its container");
    let layer = number(&stats, "/containers/0/rootfs/usedBytes");
    assert!((2 * MIB..3 * MIB).contains(&layer), "{layer}");
    let log = number(&stats, "/containers/0/logs/usedBytes");
    assert!((200_000..400_000).contains(&log), "{log}");
    assert_eq!(number(&stats, "/containers/0/logs/inodesUsed"), 1);
    assert_eq!(number(&stats, "/process_stats/process_count"), 1);
    let volume = |name: &str| {
        let all = stats["volume"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|volume| volume["name"] == name).unwrap_or_default()
    };
    let (scratch, memory) = (volume("scratch"), volume("memory"));
    let in_scratch = number(&scratch, "/usedBytes");
    assert!((3 * MIB..4 * MIB).contains(&in_scratch), "{in_scratch}");
    assert_eq!(number(&scratch, "/inodesUsed"), 3, "the directory and two files");
    assert!((20 * MIB..21 * MIB).contains(&number(&memory, "/usedBytes")), "{memory:#}");
    let ephemeral = number(&stats, "/ephemeral-storage/usedBytes");
    let hosts = ephemeral - layer - log - in_scratch;
    assert!(hosts > 0 && hosts < 100_000, "/etc/hosts, and nothing that is in memory: {hosts}");
    assert_eq!(stats["network"]["name"], "eth0", "{stats:#}");
    assert_eq!(stats["network"]["interfaces"].as_array().map(Vec::len), Some(1), "{stats:#}");
    assert_eq!(stats["podRef"]["uid"], uid);

    let whole = summary(&rig).expect("a summary");
    let node = &whole["node"];
    assert_eq!(node["nodeName"], "node1");
    assert!(number(node, "/memory/workingSetBytes") > working_set);
    assert!(number(node, "/memory/availableBytes") > 0);
    assert!(number(node, "/fs/capacityBytes") > number(node, "/fs/usedBytes"));
    assert!(number(node, "/runtime/imageFs/usedBytes") > 0, "images take something");
    assert!(number(node, "/rlimit/curproc") > 1);
    let system: Vec<_> =
        node["systemContainers"].as_array().into_iter().flatten().map(|one| &one["name"]).collect();
    assert!(system.contains(&&"pods".into()), "{node:#}");
    // A pod on the node's network shows the node's.
    let host = pod_stats(&whole, "etcd-node1").expect("the other pod");
    assert_eq!(
        host["network"]["interfaces"].as_array().map(Vec::len),
        node["network"]["interfaces"].as_array().map(Vec::len)
    );
    let only: Value =
        serde_json::from_str(&page(&rig, "/stats/summary?only_cpu_and_memory=true").expect("a page"))
            .expect("JSON");
    assert!(only["node"].get("fs").is_none() && only["pods"][0].get("volume").is_none(), "{only:#}");
}

/// What promtool finds wrong with a page; it does not like all names that kubelet has given.
fn lint(rig: &Rig, text: &str) -> Vec<String> {
    let mut command = rig.command("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("promtool");
    child.stdin.take().expect("its input").write_all(text.as_bytes()).expect("write to promtool");
    let output = child.wait_with_output().expect("promtool");
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    // 3 is for names and the like; what cannot be read at all is 1.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    said.lines().map(str::to_owned).collect()
}

/// A Prometheus of the rig's, ended with the test.
struct Prometheus(Child);

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const PROMETHEUS: &str = "127.0.0.1:19090";

fn start_prometheus(rig: &Rig) -> Prometheus {
    let dir = rig.dir().join("prometheus");
    fs::create_dir_all(&dir).expect("a directory");
    let jobs = PAGES.iter().map(|page| {
        format!(
            "- {{job_name: '{page}', metrics_path: '{page}', static_configs: [{{targets: ['127.0.0.1:{READ_ONLY_PORT}']}}]}}\n"
        )
    });
    let config = format!("global: {{scrape_interval: 2s}}\nscrape_configs:\n{}", jobs.collect::<String>());
    let file = dir.join("prometheus.yml");
    fs::write(&file, config).expect("a configuration");
    let log = fs::File::create(dir.join("log")).expect("a log");
    let mut command = rig.command("prometheus");
    command
        .arg(format!("--config.file={}", file.display()))
        .arg(format!("--storage.tsdb.path={}", dir.join("data").display()))
        .arg(format!("--web.listen-address={PROMETHEUS}"))
        .stdout(Stdio::null())
        .stderr(log);
    Prometheus(command.spawn().expect("prometheus"))
}

fn ask_prometheus(rig: &Rig, path: &str) -> Value {
    let reply = rig.http_get(&format!("http://{PROMETHEUS}/api/v1/{path}"));
    reply.and_then(|reply| serde_json::from_str(&reply.body).ok()).unwrap_or_default()
}

#[test]
fn prometheus_reads_every_page() {
    let rig = Rig::new();
    let probe = "    livenessProbe: {exec: {command: ['true']}, periodSeconds: 1}\n    command:\n";
    rig.write_manifest("p.yaml", &manifest::idle("p").replace("    command:\n", probe));
    let _agent = rig.start_agent(&[]);
    let container = rig.wait_running("p-node1", "main");
    rig.wait("the pages to show the pod", || {
        let shows = |path, text: &str| page(&rig, path).is_some_and(|page| page.contains(text));
        shows("/metrics/probes", "pod=\"p-node1\"")
            && shows("/metrics/resource", "pod=\"p-node1\"")
            && shows("/metrics/cadvisor", &format!("name=\"{}\"", container.id))
    });
    for path in PAGES {
        let text = page(&rig, path).expect("a page");
        let of_ours: Vec<_> =
            lint(&rig, &text).into_iter().filter(|line| line.contains("rkubelet_")).collect();
        assert!(of_ours.is_empty(), "{path}: {of_ours:?}");
    }

    let _prometheus = start_prometheus(&rig);
    rig.wait("Prometheus to have read every page", || {
        let targets = ask_prometheus(&rig, "targets");
        let targets = targets["data"]["activeTargets"].as_array().cloned().unwrap_or_default();
        let failed: Vec<_> = targets.iter().filter(|target| target["health"] == "down").collect();
        assert!(failed.is_empty(), "{failed:#?}");
        targets.len() == PAGES.len() && targets.iter().all(|target| target["health"] == "up")
    });
    let value = |query: &str| {
        let answer = ask_prometheus(&rig, &format!("query?query={query}"));
        let value = answer.pointer("/data/result/0/value/1").and_then(Value::as_str).map(str::to_owned);
        value.and_then(|value| value.parse::<f64>().ok())
    };
    for (query, least) in [
        (
            "container_memory_working_set_bytes%7Bjob%3D%22%2Fmetrics%2Fresource%22%2Cpod%3D%22p-node1%22%7D",
            1.0,
        ),
        (
            "container_cpu_usage_seconds_total%7Bjob%3D%22%2Fmetrics%2Fcadvisor%22%2Ccontainer%3D%22main%22%7D",
            1e-6,
        ),
        ("prober_probe_total%7Bresult%3D%22successful%22%7D", 1.0),
        ("kubelet_pod_start_duration_seconds_count", 1.0),
        ("kubelet_pleg_relist_duration_seconds_count", 1.0),
        ("rkubelet_source_last_good_timestamp_seconds%7Bsource%3D%22file%22%7D", 1.0),
        ("machine_memory_bytes", 1.0),
    ] {
        rig.wait(query, || value(query).is_some_and(|value| value >= least));
    }
}

#[test]
fn running_pods_are_told_on_the_socket() {
    let rig = Rig::new();
    rig.write_manifest("web.yaml", manifest::WEB);
    rig.write_manifest("crash.yaml", &manifest::script("crash", "exit 3"));
    let _agent = rig.start_agent(&[]);
    let container = rig.wait_running("web-node1", "web");
    let list = || -> Option<Value> {
        let text = super::ports::ask_socket(&rig, "/runningpods/")?;
        serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()
    };
    let item = |name: &str| {
        let items = list().map(|list| list["items"].as_array().cloned().unwrap_or_default());
        items.unwrap_or_default().into_iter().find(|item| item["metadata"]["name"] == name)
    };
    rig.wait("the web pod to be told", || {
        item("web-node1").is_some_and(|item| item["spec"]["containers"][0]["name"] == "web")
    });
    rig.wait("a pod of which nothing runs", || {
        item("crash-node1").is_some_and(|item| item["spec"]["containers"].is_null())
    });
    let web = item("web-node1").expect("the web pod");
    assert!(web["spec"]["containers"][0]["image"].as_str().is_some_and(|image| !image.is_empty()), "{web:#}");
    assert_eq!(rig.containers_of("web-node1").last().map(|seen| seen.id.clone()), Some(container.id));
    assert!(
        rig.http_get(&format!("http://127.0.0.1:{READ_ONLY_PORT}/runningpods/"))
            .is_some_and(|reply| reply.status == 405)
    );
}
