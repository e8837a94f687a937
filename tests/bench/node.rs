//! A machine for one measurement: the rig, the measured pods, and an agent of any make.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};

use crate::contestant::Contestant;
use crate::process;
use crate::rig::{Agent, BUSYBOX, NODE, NODE_IP, READ_ONLY_PORT, Rig, build_dir, wait_until};

const STAMP_SOURCE: &str = include_str!("stamp.c");
/// How long a hundred pods may take on a slow machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// The machine.
pub(crate) struct Node {
    pub(crate) rig: Rig,
    /// Begins the names of the logs that it leaves.
    label: String,
}

impl Node {
    /// A machine with containerd, the program that pods run, and a configuration that fits every agent.
    pub(crate) fn new(label: &str) -> Self {
        let node = Self { rig: Rig::new(), label: label.to_owned() };
        fs::create_dir_all(node.out()).expect("create the directory of the stamps");
        fs::copy(stamp_program(), node.shared().join("stamp")).expect("copy stamp");
        node.keep_kernel_settings();
        // Where kubelet's cAdvisor looks for containerd, whatever the configuration says.
        let socket = node.rig.endpoint().trim_start_matches("unix://").to_owned();
        let link = format!("mkdir -p /run/containerd && ln -s {socket} /run/containerd/containerd.sock");
        node.rig.output("sh", &["-c", &link]);
        node.write_config();
        node
    }

    /// kubelet sets six values of the kernel at its start. The machine's own stay as they are: what kubelet sees
    /// is files that have the wanted values already.
    fn keep_kernel_settings(&self) {
        const WANTED: [(&str, &str); 6] = [
            ("vm/overcommit_memory", "1"),
            ("vm/panic_on_oom", "0"),
            ("kernel/panic", "10"),
            ("kernel/panic_on_oops", "1"),
            ("kernel/keys/root_maxkeys", "1000000"),
            ("kernel/keys/root_maxbytes", "25000000"),
        ];
        for (name, value) in WANTED {
            let file = self.rig.dir().join(name.replace('/', "."));
            fs::write(&file, format!("{value}\n")).expect("write a kernel setting");
            self.rig.output("mount", &["--bind", &file.display().to_string(), &format!("/proc/sys/{name}")]);
        }
    }

    fn write_config(&self) {
        let rig = &self.rig;
        let text = format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\n\
             kind: KubeletConfiguration\n\
             staticPodPath: {manifests}\n\
             containerRuntimeEndpoint: {endpoint}\n\
             podLogsDir: {logs}\n\
             readOnlyPort: {READ_ONLY_PORT}\n\
             authentication: {{anonymous: {{enabled: true}}, webhook: {{enabled: false}}}}\n\
             authorization: {{mode: AlwaysAllow}}\n\
             cgroupDriver: cgroupfs\n\
             failSwapOn: false\n\
             failCgroupV1: false\n\
             maxPods: 1000\n\
             # Lowering it takes CAP_SYS_RESOURCE, which not every machine gives to root.\n\
             oomScoreAdj: 0\n\
             volumePluginDir: {dir}/volume-plugins\n",
            manifests = rig.manifest_dir().display(),
            endpoint = rig.endpoint(),
            logs = rig.pod_logs_dir().display(),
            dir = rig.dir().display(),
        );
        fs::write(rig.config_path(), text).expect("write the agents' configuration");
    }

    /// Starts an agent with kubelet's own flags.
    pub(crate) fn start(&self, contestant: &Contestant) -> Agent<'_> {
        let rig = &self.rig;
        let flags = [
            format!("--config={}", rig.config_path().display()),
            format!("--root-dir={}", rig.root_dir().display()),
            format!("--hostname-override={NODE}"),
            // Else kubelet looks its own name up whenever it describes the node, and nobody answers here.
            format!("--node-ip={NODE_IP}"),
        ];
        let (stamp, file) = (self.stamp().display().to_string(), self.agent_stamps().display().to_string());
        rig.start_program(&[&stamp, "--exec", &file], &contestant.program, &flags)
    }

    fn agent_stamps(&self) -> PathBuf {
        self.shared().join("agent")
    }

    /// When the newest agent started; it has.
    pub(crate) fn agent_started(&self) -> f64 {
        stamps_in(&self.agent_stamps()).last().copied().expect("the stamp of an agent that ran")
    }

    /// Waits until the agent says that it is well; returns when that was, by the boot clock.
    pub(crate) fn wait_healthy(&self) -> Result<f64, String> {
        let begin = now();
        while now() - begin < PATIENCE.as_secs_f64() {
            let reply = self.rig.http_get("http://127.0.0.1:10248/healthz");
            if reply.is_some_and(|reply| reply.status == 200 && reply.body == "ok") {
                return Ok(now());
            }
            pause(Duration::from_millis(1));
        }
        Err("the agent does not become healthy".to_owned())
    }

    /// What the pods share with the one who measures.
    pub(crate) fn shared(&self) -> PathBuf {
        self.rig.dir().join("bench")
    }

    fn out(&self) -> PathBuf {
        self.shared().join("out")
    }

    /// The program of `stamp.c`.
    pub(crate) fn stamp(&self) -> PathBuf {
        self.shared().join("stamp")
    }

    /// The manifest of a measured pod. It differs from edition to edition.
    pub(crate) fn manifest(&self, name: &str, edition: usize) -> String {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  terminationGracePeriodSeconds: 1\n  \
             containers:\n  - name: main\n    image: {BUSYBOX}\n    imagePullPolicy: IfNotPresent\n    \
             command: [/bench/stamp, /bench/out/{name}]\n    \
             env: [{{name: EDITION, value: \"{edition}\"}}]\n    \
             volumeMounts: [{{name: bench, mountPath: /bench}}]\n  \
             volumes: [{{name: bench, hostPath: {{path: {}}}}}]\n",
            self.shared().display()
        )
    }

    /// The manifest of a measured pod with ten probes of one second: five containers are asked over TCP whether they
    /// live, and over HTTP whether they are ready.
    pub(crate) fn probed_manifest(&self, name: &str) -> String {
        let probes = "    livenessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1, failureThreshold: 100}\n    \
                      readinessProbe: {httpGet: {port: 8080, path: /passwd}, periodSeconds: 1}\n";
        let other = |name: &str, command: &str| {
            format!("  - name: {name}\n    image: {BUSYBOX}\n    command: [{command}]\n{probes}")
        };
        let idle = "sleep, '100000'";
        let others = [("web", "httpd, -f, -p, '8080', -h, /etc"), ("a", idle), ("b", idle), ("c", idle)];
        let others: String = others.iter().map(|(name, command)| other(name, command)).collect();
        self.manifest(name, 0).replacen("  volumes:", &format!("{probes}{others}  volumes:"), 1)
    }

    /// How many pods the stats tell of; none if there is no answer.
    pub(crate) fn pods_in_summary(&self) -> Option<usize> {
        let reply = self.rig.http_get(&format!("http://127.0.0.1:{READ_ONLY_PORT}/stats/summary"))?;
        let summary: serde_json::Value = serde_json::from_str(&reply.body).ok()?;
        summary["pods"].as_array().map(Vec::len)
    }

    /// How many pods say that they are ready.
    pub(crate) fn count_ready(&self) -> usize {
        let is_ready = |pod: &serde_json::Value| {
            let conditions = pod["status"]["conditions"].as_array();
            conditions
                .is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
        };
        let pods = self.rig.pods();
        let pods = pods.as_ref().and_then(|pods| pods["items"].as_array());
        pods.map_or(0, |pods| pods.iter().filter(|pod| is_ready(pod)).count())
    }

    /// Gives the agent a pod, or a new edition of it.
    pub(crate) fn write(&self, name: &str, edition: usize) {
        self.rig.write_manifest(&format!("{name}.yaml"), &self.manifest(name, edition));
    }

    /// Takes a pod away.
    pub(crate) fn remove(&self, name: &str) {
        self.rig.remove_manifest(&format!("{name}.yaml"));
    }

    /// When the processes of a pod started, by the boot clock, in seconds.
    pub(crate) fn stamps(&self, name: &str) -> Vec<f64> {
        stamps_in(&self.out().join(name))
    }

    /// Waits until a pod's process has started so often; returns when it did so last.
    pub(crate) fn wait_stamps(&self, name: &str, count: usize) -> Result<f64, String> {
        let done = wait_until(PATIENCE, || self.stamps(name).len() >= count);
        let stamps = self.stamps(name);
        let last = stamps.last().copied().filter(|_| done);
        last.ok_or_else(|| format!("pod {name} has started {} times, not {count}", stamps.len()))
    }

    /// Waits until all of these pods run; returns when the last process started.
    pub(crate) fn wait_all(&self, names: &[String]) -> Result<f64, String> {
        let count = || fs::read_dir(self.out()).map_or(0, Iterator::count);
        // The directory first: it is cheaper to look at than a hundred files.
        if !wait_until(PATIENCE, || count() >= names.len()) {
            return Err(format!("{} of {} pods run", count(), names.len()));
        }
        names.iter().map(|name| self.wait_stamps(name, 1)).try_fold(0.0, |last, at| Ok(at?.max(last)))
    }

    /// Kills the process of a pod.
    pub(crate) fn kill(&self, name: &str) -> Result<(), String> {
        let words = ["/bench/stamp".to_owned(), format!("/bench/out/{name}")];
        let pid = process::find(&[&words[0], &words[1]]).ok_or_else(|| format!("pod {name} does not run"))?;
        kill_process(pid, Signal::KILL).map_err(|error| format!("kill pod {name}: {error}"))
    }
}

impl Drop for Node {
    /// Keeps the logs of the last agents, for whoever wonders about a figure.
    fn drop(&mut self) {
        let logs = build_dir().with_file_name("bench").join("logs");
        let _ = fs::create_dir_all(&logs);
        for entry in fs::read_dir(self.rig.dir()).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".log") {
                let _ = fs::copy(entry.path(), logs.join(format!("{}-{name}", self.label)));
            }
        }
    }
}

/// Names of measured pods.
pub(crate) fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("bench-{number:03}")).collect()
}

fn stamps_in(file: &Path) -> Vec<f64> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| line.parse::<f64>().ok()).map(|ns| ns / 1e9).collect()
}

/// The boot clock, in seconds.
pub(crate) fn now() -> f64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Lets time pass.
pub(crate) fn pause(time: Duration) {
    #[allow(clippy::disallowed_methods, reason = "who measures rest must rest")]
    std::thread::sleep(time);
}

/// The program of `stamp.c`, compiled once per run of the benchmark.
fn stamp_program() -> &'static Path {
    static PROGRAM: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    PROGRAM.get_or_init(|| {
        let dir = build_dir().join("stamp");
        fs::create_dir_all(&dir).expect("create a directory for stamp");
        let (source, program) = (dir.join("stamp.c"), dir.join("stamp"));
        fs::write(&source, STAMP_SOURCE).expect("write stamp.c");
        let mut compile = Command::new("cc");
        compile.args(["-static", "-Os", "-s", "-Wall", "-o"]).arg(&program).arg(&source);
        let status = compile.status().expect("run cc");
        assert!(status.success(), "stamp.c does not compile: {status}");
        program
    })
}
