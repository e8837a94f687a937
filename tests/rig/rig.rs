//! A machine of its own for each test: private namespaces, a private containerd, the real agent.
//!
//! [`Rig::new`] starts a first process in fresh pid, mount, network, ipc, uts and cgroup namespaces; containerd,
//! the agent and every container live inside. When the first process ends, the kernel ends all the others and
//! drops their mounts, links and network namespaces with them. It ends when the [`Rig`] is dropped, also by a
//! panic, and when the test process dies. What lies outside, a directory and a cgroup, carries the rig's name
//! and is removed on drop; what a killed test process left of it, the next one sweeps.
//!
//! The rig owns no knowledge of the agent beyond its flags. It observes through CRI with a client of its own.

#![allow(dead_code, reason = "each program that uses the rig uses another part of it")]

mod agent;
mod archive;
mod cgroups;
mod containerd;
mod cri;
mod http;
mod images;
mod machine;
mod needs;
mod registry;
mod wait;
pub(crate) mod web;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use rustix::process::Pid;

pub(crate) use agent::Agent;
#[allow(unused_imports, reason = "the demo and the benchmark do not need all of them")]
pub(crate) use archive::{BUSYBOX, PAUSE, PUBLIC_BUSYBOX};
#[allow(unused_imports, reason = "the end-to-end tests alone ask")]
pub(crate) use containerd::{has_image_sub_paths, has_image_volumes};
pub(crate) use cri::{Container, ContainerSeen, ContainerState, Sandbox, SandboxSeen};
pub(crate) use http::Reply;
pub(crate) use machine::Machine;
#[allow(unused_imports, reason = "the demo and the benchmark do not need it")]
pub(crate) use machine::inside_network;
#[allow(unused_imports, reason = "the demo and the benchmark pull nothing")]
pub(crate) use registry::{Access, GATED, Gate, PASSWORD, REGISTRY, Registry, USER};
pub(crate) use wait::wait_until;

/// The name that the agent is told the node has.
pub(crate) const NODE: &str = "node1";
/// The address of the node inside the rig's network.
pub(crate) const NODE_IP: &str = "192.0.2.10";
/// Where the agent serves `/pods` and `/metrics` inside the rig's network.
pub(crate) const READ_ONLY_PORT: u16 = 10255;
/// How long anything that the agent is asked for may take: generous, since tests share two cores.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// `target/debug` or its like: where the running program was built.
pub(crate) fn build_dir() -> PathBuf {
    images::build_dir()
}

/// The server that runs inside pods that are probed.
pub(crate) fn endpoint() -> PathBuf {
    let program = build_dir().join("examples/endpoint");
    assert!(program.exists(), "{} is missing: cargo build --example endpoint", program.display());
    program
}

/// One test's machine. See the module's documentation.
pub(crate) struct Rig {
    // Declared first, dropped first: nothing runs any more when the directory goes.
    containerd: Mutex<Option<containerd::Containerd>>,
    /// Logs of the agents that ran here, for the report of a failed wait.
    agent_logs: Mutex<Vec<PathBuf>>,
    machine: Machine,
}

impl Rig {
    /// A machine with containerd running and both images loaded.
    pub(crate) fn new() -> Self {
        let rig = Self::without_containerd();
        rig.start_containerd();
        rig
    }

    /// A machine whose containerd is not started yet; its images are loaded all the same.
    pub(crate) fn without_containerd() -> Self {
        let template = Self::template();
        Self::on(Machine::start(&template.pause_program), &template)
    }

    /// The same, with systemd as the first process, which containerd and the agent may have make their cgroups.
    pub(crate) fn with_systemd() -> Self {
        let rig = Self::on(Machine::start_with_systemd(), &Self::template());
        let socket = format!("/proc/{}/root/run/systemd/private", rig.machine.first_pid());
        assert!(wait_until(PATIENCE, || Path::new(&socket).exists()), "systemd does not listen");
        rig
    }

    fn template() -> images::Template {
        needs::check();
        images::template()
    }

    fn on(machine: Machine, template: &images::Template) -> Self {
        let rig = Self { containerd: Mutex::new(None), agent_logs: Mutex::default(), machine };
        containerd::install(rig.dir(), &template.containerd_root);
        for dir in [rig.manifest_dir(), rig.root_dir(), rig.pod_logs_dir()] {
            fs::create_dir_all(&dir).unwrap_or_else(|error| panic!("create {}: {error}", dir.display()));
        }
        rig.write_config("");
        rig
    }

    /// The directory that holds everything of this rig.
    pub(crate) fn dir(&self) -> &Path {
        self.machine.dir()
    }

    /// The machine: its namespaces, cgroups and processes.
    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The directory that the agent watches.
    pub(crate) fn manifest_dir(&self) -> PathBuf {
        self.dir().join("manifests")
    }

    /// The agent's `--root-dir`.
    pub(crate) fn root_dir(&self) -> PathBuf {
        self.dir().join("kubelet")
    }

    /// The directory of a pod under the agent's root.
    pub(crate) fn pod_dir(&self, uid: &str) -> PathBuf {
        self.root_dir().join("pods").join(uid)
    }

    /// The agent's `podLogsDir`.
    pub(crate) fn pod_logs_dir(&self) -> PathBuf {
        self.dir().join("log/pods")
    }

    /// Where the agent keeps the links to the newest logs, named for log collectors.
    pub(crate) fn container_links_dir(&self) -> PathBuf {
        self.dir().join("log/containers")
    }

    /// Where the rig's containerd, from 2.x on, looks for descriptions of CDI devices.
    pub(crate) fn cdi_dir(&self) -> PathBuf {
        self.dir().join("cdi")
    }

    /// The file that the agent gets as `--config`.
    pub(crate) fn config_path(&self) -> PathBuf {
        self.dir().join("config.yaml")
    }

    /// The agent's `--socket-path`.
    pub(crate) fn socket_path(&self) -> PathBuf {
        self.dir().join("agent.sock")
    }

    /// The value of `--container-runtime-endpoint`.
    pub(crate) fn endpoint(&self) -> String {
        containerd::endpoint(self.dir())
    }

    /// Writes the agent's configuration file: what every test needs, then `more` fields.
    pub(crate) fn write_config(&self, more: &str) {
        let text = format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
             podLogsDir: {}\nreadOnlyPort: {READ_ONLY_PORT}\n{more}",
            self.pod_logs_dir().display()
        );
        fs::write(self.config_path(), text).expect("write the agent's configuration");
    }

    /// Puts a manifest into the watched directory, whole or not at all.
    pub(crate) fn write_manifest(&self, file: &str, text: &str) {
        let whole = self.dir().join(format!("{file}.new"));
        fs::write(&whole, text).expect("write a manifest");
        fs::rename(&whole, self.manifest_dir().join(file)).expect("move a manifest into place");
    }

    /// Takes a manifest out of the watched directory.
    pub(crate) fn remove_manifest(&self, file: &str) {
        fs::remove_file(self.manifest_dir().join(file)).expect("remove a manifest");
    }

    /// Starts the agent with the flags that every test needs, and then `extra`.
    pub(crate) fn start_agent(&self, extra: &[&str]) -> Agent<'_> {
        Agent::start(self, &[], &self.agent_flags(), extra)
    }

    /// The same, through a command that changes what the agent may do.
    pub(crate) fn start_agent_through(&self, launcher: &[&str], extra: &[&str]) -> Agent<'_> {
        Agent::start(self, launcher, &self.agent_flags(), extra)
    }

    /// Starts the agent with these flags only.
    pub(crate) fn start_agent_with_flags(&self, flags: &[&str]) -> Agent<'_> {
        Agent::start(self, &[], &[], flags)
    }

    /// Starts any program as the agent, through a launcher or none, with these flags only.
    pub(crate) fn start_program(&self, launcher: &[&str], program: &Path, flags: &[String]) -> Agent<'_> {
        Agent::start_program(self, launcher, program, flags)
    }

    fn agent_flags(&self) -> Vec<String> {
        let path = |path: PathBuf| path.display().to_string();
        vec![
            format!("--pod-manifest-path={}", path(self.manifest_dir())),
            format!("--container-runtime-endpoint={}", self.endpoint()),
            format!("--root-dir={}", path(self.root_dir())),
            format!("--hostname-override={NODE}"),
            format!("--config={}", path(self.config_path())),
            format!("--socket-path={}", path(self.socket_path())),
        ]
    }

    /// Starts containerd and waits until its CRI service answers.
    pub(crate) fn start_containerd(&self) {
        let mut containerd = self.containerd.lock().expect("the containerd slot");
        assert!(containerd.is_none(), "containerd runs already");
        *containerd = Some(containerd::Containerd::start(&self.machine));
    }

    /// The pid of containerd, outside.
    pub(crate) fn containerd_pid(&self) -> Option<Pid> {
        self.containerd.lock().expect("the containerd slot").as_ref().and_then(containerd::Containerd::pid)
    }

    /// Kills containerd; the containers and their shims run on.
    pub(crate) fn stop_containerd(&self) {
        let containerd = self.containerd.lock().expect("the containerd slot").take();
        containerd.expect("containerd runs").kill();
    }

    /// Lets containerd end in order, as an upgrade of its package does.
    pub(crate) fn end_containerd(&self) {
        let containerd = self.containerd.lock().expect("the containerd slot").take();
        containerd.expect("containerd runs").end();
    }

    /// Every sandbox that containerd knows, oldest first.
    pub(crate) fn sandboxes(&self) -> Vec<SandboxSeen> {
        cri::Observer::new(&self.endpoint()).sandboxes()
    }

    /// Every container that containerd knows, oldest first.
    pub(crate) fn containers(&self) -> Vec<ContainerSeen> {
        cri::Observer::new(&self.endpoint()).containers()
    }

    /// The sandboxes of one pod that are ready, oldest first.
    pub(crate) fn ready_sandboxes(&self, namespace: &str, pod: &str) -> Vec<SandboxSeen> {
        let mut sandboxes = self.sandboxes();
        sandboxes.retain(|seen| seen.ready && seen.namespace == namespace && seen.pod == pod);
        sandboxes
    }

    /// The containers of one pod in namespace `default`, by whatever state, oldest first.
    pub(crate) fn containers_of(&self, pod: &str) -> Vec<ContainerSeen> {
        let mut containers = self.containers();
        containers.retain(|seen| seen.pod() == pod);
        containers
    }

    /// Waits until exactly one container of that name in that pod runs, and returns it.
    pub(crate) fn wait_running(&self, pod: &str, container: &str) -> ContainerSeen {
        let mut found = None;
        self.wait(&format!("container {container} of pod {pod} to run"), || {
            let mut running = self.containers_of(pod);
            running.retain(|seen| seen.name == container && seen.state == ContainerState::Running);
            assert!(running.len() < 2, "two instances run at once: {running:#?}");
            found = running.pop();
            found.is_some()
        });
        found.expect("the wait ended with a container")
    }

    /// The ids of all sandboxes and containers with their states: what must not change when nothing is asked for.
    pub(crate) fn fingerprint(&self) -> BTreeMap<String, String> {
        let sandboxes = self.sandboxes().into_iter().map(|seen| (seen.id, format!("ready: {}", seen.ready)));
        let containers = self.containers().into_iter().map(|seen| (seen.id, format!("{:?}", seen.state)));
        sandboxes.chain(containers).collect()
    }

    /// Runs a sandbox without the agent, and returns its id.
    pub(crate) fn run_sandbox(&self, sandbox: &Sandbox<'_>) -> String {
        cri::Observer::new(&self.endpoint()).run_sandbox(sandbox)
    }

    /// Runs a container without the agent, and returns its id.
    pub(crate) fn run_container(
        &self,
        sandbox_id: &str,
        sandbox: &Sandbox<'_>,
        container: &Container<'_>,
    ) -> String {
        cri::Observer::new(&self.endpoint()).run_container(sandbox_id, sandbox, container)
    }

    /// Removes a container, running or not, without the agent.
    pub(crate) fn remove_container(&self, id: &str) {
        cri::Observer::new(&self.endpoint()).remove_container(id);
    }

    /// Removes every sandbox of a pod without the agent, and what was in them.
    pub(crate) fn prune(&self, pod: &str) {
        let all = self.sandboxes();
        let own = all.iter().filter(|seen| seen.pod == pod);
        own.for_each(|seen| cri::Observer::new(&self.endpoint()).remove_sandbox(&seen.id));
    }

    /// Ends a process of the rig by its pid in there, at once.
    pub(crate) fn kill_process(&self, pid: u32) {
        let mut kill = self.machine.command("sh");
        let status = kill.args(["-c", &format!("kill -9 {pid}")]).status().expect("run kill");
        assert!(status.success(), "kill process {pid}: {status}");
    }

    /// A command that runs inside the rig: its network, mounts and processes.
    pub(crate) fn command(&self, program: &str) -> Command {
        self.machine.command(program)
    }

    /// Everything of an earlier fingerprint is as it was; more may have come.
    pub(crate) fn assert_untouched(&self, before: &BTreeMap<String, String>) {
        let after = self.fingerprint();
        for (id, state) in before {
            assert_eq!(after.get(id), Some(state), "{id}\n{}", self.report());
        }
    }

    /// Runs a command inside the rig, and returns what it printed; fails the test if it fails.
    pub(crate) fn output(&self, program: &str, args: &[&str]) -> String {
        let output = self.command(program).args(args).output().expect("run a command inside the rig");
        assert!(output.status.success(), "{program} {args:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// GET from inside the rig's network; `None` if nobody answers.
    pub(crate) fn http_get(&self, url: &str) -> Option<Reply> {
        http::get(self.machine.first_pid(), url)
    }

    /// The agent's PodList from the read-only port, if it answers.
    pub(crate) fn pods(&self) -> Option<serde_json::Value> {
        let reply = self.http_get(&format!("http://127.0.0.1:{READ_ONLY_PORT}/pods"))?;
        (reply.status == 200).then(|| serde_json::from_str(&reply.body).expect("/pods is JSON"))
    }

    /// One pod of the agent's PodList, by its full name in namespace `default`.
    pub(crate) fn pod(&self, name: &str) -> Option<serde_json::Value> {
        let pods = self.pods()?;
        pods["items"].as_array()?.iter().find(|pod| pod["metadata"]["name"] == name).cloned()
    }

    /// Waits for a condition; a failure tells the state of everything.
    pub(crate) fn wait(&self, what: &str, condition: impl FnMut() -> bool) {
        if !wait_until(PATIENCE, condition) {
            panic!("waited {PATIENCE:?} in vain for {what}\n{}", self.report());
        }
    }

    /// What a reader of a failed test wants to know.
    pub(crate) fn report(&self) -> String {
        let mut report = String::new();
        for log in self.agent_logs.lock().expect("the list of logs").iter() {
            let text = fs::read_to_string(log).unwrap_or_default();
            report += &format!("--- {}\n{text}", log.display());
        }
        if self.containerd.lock().expect("the containerd slot").is_some() {
            report += &format!("--- sandboxes\n{:#?}\n", self.sandboxes());
            report += &format!("--- containers\n{:#?}\n", self.containers());
            report += &format!("--- containerd\n{}", containerd::warnings(self.dir()));
        }
        report
    }
}
