//! The rig: it runs what it should, and leaves nothing behind.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};

use crate::rig::{BUSYBOX, Container, ContainerState, Machine, NODE_IP, PATIENCE, Rig, Sandbox, wait_until};

const WEB: Sandbox<'_> = Sandbox { name: "web", host_port: Some((18080, 8080)) };

/// A sandbox on the pod network with a web server in it, run without the agent.
fn run_web(rig: &Rig) {
    let command = &["sh", "-c", "echo hello > /www/index.html; exec httpd -f -p 8080 -h /www"];
    let sandbox = rig.run_sandbox(&WEB);
    rig.run_container(&sandbox, &WEB, &Container { name: "httpd", image: BUSYBOX, command });
}

#[test]
fn runs_a_container_and_reaches_it() {
    let rig = Rig::new();
    run_web(&rig);
    let [sandbox] = &rig.sandboxes()[..] else { panic!("one sandbox: {:#?}", rig.sandboxes()) };
    assert!(sandbox.ready && sandbox.pid > 1 && sandbox.created_at > 0, "{sandbox:#?}");
    let [container] = &rig.containers()[..] else { panic!("one container: {:#?}", rig.containers()) };
    assert_eq!(container.state, ContainerState::Running);
    assert_eq!(container.sandbox_id, sandbox.id);
    for url in [
        format!("http://{}:8080/", sandbox.ip),
        format!("http://{NODE_IP}:18080/"),
        "http://127.0.0.1:18080/".into(),
    ] {
        rig.wait(&url, || rig.http_get(&url).is_some_and(|reply| reply.body == "hello\n"));
    }

    rig.kill_process(container.pid);
    rig.wait("the runtime to see the death", || rig.containers()[0].state == ContainerState::Exited);
    assert_eq!(rig.containers()[0].exit_code, 137);
}

#[test]
fn containers_outlive_containerd() {
    let rig = Rig::new();
    run_web(&rig);
    let before = rig.fingerprint();
    rig.stop_containerd();
    rig.start_containerd();
    assert_eq!(rig.fingerprint(), before);
}

#[test]
fn leaves_nothing_behind() {
    let host_before = host();
    let rig = Rig::new();
    run_web(&rig);
    let traces = Traces::of(&rig, host_before);
    traces.assert_present();
    drop(rig);
    traces.assert_gone();
}

#[test]
fn leaves_nothing_behind_after_a_panic() {
    let host_before = host();
    let rig = Rig::new();
    run_web(&rig);
    let traces = Traces::of(&rig, host_before);
    traces.assert_present();
    let outcome = catch_unwind(AssertUnwindSafe(move || {
        let _rig = rig;
        // Not panic!, whose message would look like a failed test in the output.
        std::panic::resume_unwind(Box::new("a failed test"));
    }));
    assert!(outcome.is_err());
    traces.assert_gone();
}

/// A test process that is killed runs no destructor: the kernel ends the machine, the next run sweeps the rest.
#[test]
fn a_killed_test_process_leaves_nothing_behind() {
    let host_before = host();
    let mut victim = Command::new(std::env::current_exe().expect("the path of this program"))
        .args(["--exact", "rig_itself::helper_that_waits_to_be_killed", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("run this program again");
    let lines = BufReader::new(victim.stdout.take().expect("a pipe")).lines();
    let words = lines.map_while(Result::ok).find_map(|line| Some(line.split_once("RIG ")?.1.to_owned()));
    let words = words.expect("the helper tells its rig");
    let (name, first) = words.split_once(' ').expect("a name and a pid");
    let traces = Traces::new(name.to_owned(), first.parse().expect("a pid"), host_before);
    traces.assert_present();

    victim.kill().expect("kill the helper");
    victim.wait().expect("wait for the helper");
    assert!(wait_until(PATIENCE, || traces.processes().is_empty()), "{:?}", traces.processes());
    assert!(wait_until(PATIENCE, || {
        Machine::sweep();
        traces.cgroups().is_empty()
    }));
    traces.assert_gone();
}

#[test]
#[ignore = "run by a_killed_test_process_leaves_nothing_behind, as a process of its own"]
fn helper_that_waits_to_be_killed() {
    let rig = Rig::new();
    run_web(&rig);
    let name = rig.dir().file_name().expect("the rig's name").display();
    println!("RIG {name} {}", rig.machine().first_pid());
    let _ = std::io::stdin().read(&mut [0]);
}

/// What one rig shows of itself outside. Other rigs come and go meanwhile, so counting all would not do.
struct Traces {
    name: String,
    namespaces: BTreeSet<String>,
    /// Keeps the namespaces' numbers from being given to the next rig, whose processes would look like ours.
    _pins: Vec<File>,
    host_before: BTreeSet<String>,
}

impl Traces {
    fn of(rig: &Rig, host_before: BTreeSet<String>) -> Self {
        let name = rig.dir().file_name().expect("the rig's name").to_string_lossy().into_owned();
        Self::new(name, rig.machine().first_pid(), host_before)
    }

    fn new(name: String, first_pid: u32, host_before: BTreeSet<String>) -> Self {
        let pin = |kind| File::open(format!("/proc/{first_pid}/ns/{kind}")).expect("open a namespace");
        let pins = NAMESPACES.map(pin).into();
        let namespaces = namespaces(first_pid);
        assert_eq!(namespaces.len(), NAMESPACES.len());
        assert!(namespaces.is_disjoint(&namespaces_of_this_process()), "a namespace is shared with the host");
        Self { name, namespaces, _pins: pins, host_before }
    }

    fn assert_present(&self) {
        // The first process, containerd, two shims' worth of sandbox and container, and what they run.
        assert!(self.processes().len() >= 5, "{:?}", self.processes());
        assert!(!self.cgroups().is_empty());
        assert!(std::env::temp_dir().join(&self.name).exists());
        self.assert_host_untouched();
    }

    fn assert_gone(&self) {
        assert_eq!(self.processes(), Vec::<String>::new(), "processes");
        assert_eq!(self.cgroups(), Vec::<String>::new(), "cgroups");
        assert!(!std::env::temp_dir().join(&self.name).exists(), "directory");
        self.assert_host_untouched();
    }

    /// A network namespace, a mount and a link live no longer than the processes in them, unless they are
    /// pinned outside: by a mount, or by being on the host in the first place.
    fn assert_host_untouched(&self) {
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("read the host's mounts");
        assert!(!mounts.contains(&self.name), "mounts:\n{mounts}");
        assert_eq!(host(), self.host_before, "the host's links, network namespaces or directories changed");
    }

    /// Processes in any of the rig's namespaces, or in its cgroup.
    fn processes(&self) -> Vec<String> {
        let pids = fs::read_dir("/proc").expect("list processes").flatten();
        pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|&pid: &u32| {
                let cgroup = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
                let in_cgroup = cgroup.lines().any(|line| line.split('/').any(|part| part == self.name));
                in_cgroup || !self.namespaces.is_disjoint(&namespaces(pid))
            })
            .map(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default())
            .collect()
    }

    fn cgroups(&self) -> Vec<String> {
        let mut found = Vec::new();
        let hierarchies = fs::read_dir("/sys/fs/cgroup").expect("list cgroup hierarchies").flatten();
        for dir in hierarchies.map(|entry| entry.path()).chain(["/sys/fs/cgroup".into()]) {
            let dir = dir.join(&self.name);
            if dir.exists() {
                found.push(dir.display().to_string());
            }
        }
        found
    }
}

/// What containerd, CNI and the agent make where nobody keeps them from it.
fn host() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for dir in ["/sys/class/net", "/run/netns", "/run/containerd", "/opt", "/etc/cni", "/var/lib", "/var/log"]
    {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        found.extend(entries.map(|entry| entry.path().display().to_string()));
    }
    found
}

/// Those by which a process is known. Not `mnt` and `net`: a pin would keep the mounts and links whose end is
/// to be seen.
const NAMESPACES: [&str; 4] = ["cgroup", "ipc", "pid", "uts"];

fn namespaces(pid: u32) -> BTreeSet<String> {
    NAMESPACES
        .iter()
        .filter_map(|kind| fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok())
        .map(|link| link.to_string_lossy().into_owned())
        .collect()
}

fn namespaces_of_this_process() -> BTreeSet<String> {
    namespaces(std::process::id())
}
