//! The rig: it runs what it should, and leaves nothing behind.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
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
    let rig = Rig::new();
    run_web(&rig);
    let traces = Traces::of(&rig);
    traces.assert_present();
    drop(rig);
    traces.assert_gone();
}

#[test]
fn leaves_nothing_behind_after_a_panic() {
    let rig = Rig::new();
    run_web(&rig);
    let traces = Traces::of(&rig);
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
    let traces = Traces::new(name.to_owned(), first.parse().expect("a pid"));
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

/// Other programs make links, network namespaces, mounts and files while a rig runs: a test must not mind. Here the host
/// itself is a pair of namespaces, so that nothing of theirs is left behind either.
#[test]
fn others_may_change_the_host_meanwhile() {
    let script = "mount -t tmpfs tmpfs /run; mount -t tmpfs tmpfs /var/lib; mkdir -p /run/containerd
        (n=0; while sleep 0.05; do
            n=$((n+1)); touch /run/other$n
            ip link add other$n type veth peer name peer$n; ip netns add other$n
            mkdir /run/containerd/other$n /var/lib/other$n; mount -t tmpfs tmpfs /run/containerd/other$n
        done) > /dev/null &
        others=$!; status=0; \"$@\" || status=$?
        kill $others; test -e /run/other10 && exit $status";
    let output = Command::new("unshare")
        .args(["--net", "--mount", "sh", "-e", "-c", script, "sh"])
        .arg(std::env::current_exe().expect("the path of this program"))
        .args(["--exact", "--test-threads=1", "rig_itself::leaves_nothing_behind"])
        .arg("rig_itself::a_killed_test_process_leaves_nothing_behind")
        .output()
        .expect("run this program again");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("2 passed"), "{output:#?}");
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

/// What one rig shows of itself outside. Other rigs and other programs come and go meanwhile, so it looks only for what
/// carries a name, an id or an address of this rig.
struct Traces {
    name: String,
    namespaces: BTreeSet<String>,
    /// Keeps the namespaces' numbers from being given to the next rig, whose processes would look like ours.
    _pins: Vec<File>,
    /// What containerd and CNI have made under an id in directories that the rig hides: there only, if it does.
    hidden: Vec<PathBuf>,
    /// The hardware addresses of its links, which are random.
    addresses: BTreeSet<String>,
}

impl Traces {
    fn of(rig: &Rig) -> Self {
        let name = rig.dir().file_name().expect("the rig's name").to_string_lossy().into_owned();
        Self::new(name, rig.machine().first_pid())
    }

    fn new(name: String, first_pid: u32) -> Self {
        let pin = |kind| File::open(format!("/proc/{first_pid}/ns/{kind}")).expect("open a namespace");
        let pins = NAMESPACES.map(pin).into();
        let namespaces = namespaces(first_pid);
        assert_eq!(namespaces.len(), NAMESPACES.len());
        assert!(namespaces.is_disjoint(&namespaces_of_this_process()), "a namespace is shared with the host");
        let inside = |args: &[&str]| {
            let mut command = Command::new("nsenter");
            output(command.arg(format!("--target={first_pid}")).args(["--net", "--mount", "--"]).args(args))
        };
        let found = inside(&["find", "/run", "/var/lib", "/var/log"]);
        let hidden = found.lines().map(PathBuf::from).filter(|path| has_id(path)).collect();
        let addresses = addresses(&inside(&["ip", "-o", "link"]));
        Self { name, namespaces, _pins: pins, hidden, addresses }
    }

    fn assert_present(&self) {
        // The first process, containerd, two shims' worth of sandbox and container, and what they run.
        assert!(self.processes().len() >= 5, "{:?}", self.processes());
        assert!(!self.cgroups().is_empty());
        assert!(std::env::temp_dir().join(&self.name).exists());
        // The sandbox's network namespace, and what runc and CNI keep of sandbox and container.
        assert!(self.hidden.iter().any(|path| path.starts_with("/run/netns")), "{:?}", self.hidden);
        assert!(self.hidden.len() >= 5, "{:?}", self.hidden);
        // The bridge, the sandbox's link on it, and both ends of the uplink.
        assert!(self.addresses.len() >= 4, "{:?}", self.addresses);
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
        let there: Vec<&PathBuf> =
            self.hidden.iter().filter(|path| path.symlink_metadata().is_ok()).collect();
        assert!(there.is_empty(), "on the host: {there:?}");
        let links = output(Command::new("ip").args(["-o", "link"]));
        assert!(addresses(&links).is_disjoint(&self.addresses), "links of the rig are on the host:\n{links}");
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

/// Whether a file's name holds an id that nobody else has: a container's, or a UUID.
fn has_id(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_digit = |c: char| c.is_ascii_hexdigit() || c == '-';
    name.split(|c| !is_digit(c)).any(|part| part.len() >= 32)
}

/// The addresses of Ethernet links, as `ip -o link` prints them.
fn addresses(links: &str) -> BTreeSet<String> {
    let address = |line: &str| line.split_once("link/ether ")?.1.split(' ').next().map(str::to_owned);
    links.lines().filter_map(address).collect()
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("run {command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
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
