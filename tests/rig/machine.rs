//! The namespaces of a rig, its first process, its directory, and the way in.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};

use rustix::process::Pid;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::cgroups::{self, Cgroups};
use super::{NODE, NODE_IP, containerd};

const PREFIX: &str = "rkubelet-rig-";
/// Whether directories outlive their machines: see [`Machine::keep_directories`].
static KEEPS_DIRECTORIES: AtomicBool = AtomicBool::new(false);

/// A set of namespaces with a first process: see [the rig](super).
pub(crate) struct Machine {
    dir: PathBuf,
    cgroups: Cgroups,
    /// Holds the pipe on which the first process waits.
    unshare: Child,
    /// The first process, by its pid outside.
    first_pid: u32,
}

impl Machine {
    /// Starts a machine whose first process is the pause program.
    pub(crate) fn start(pause_program: &Path) -> Self {
        Self::start_with(&format!("exec {} --stdin > /dev/null", pause_program.display()), "exec \"$@\"")
    }

    /// Starts a machine whose first process is a systemd that starts nothing of its own.
    pub(crate) fn start_with_systemd() -> Self {
        // systemd ends with nobody's standard input: who started it waits for that, and kills it.
        Self::start_with(SYSTEMD, "exec 3<&0; \"$@\" < /dev/null & cat <&3 > /dev/null; kill -KILL $!; wait")
    }

    /// Starts a machine whose first process ends up as `first`, and which is started by `launch`.
    fn start_with(first: &str, launch: &str) -> Self {
        static SWEEP: Once = Once::new();
        SWEEP.call_once(Self::sweep);
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(&name);
        for hidden in ["/run", "/var/lib", "/var/log"] {
            assert!(!dir.starts_with(hidden), "TMPDIR may not lie below {hidden}: the rig hides it");
        }
        fs::create_dir(&dir).unwrap_or_else(|error| panic!("create {}: {error}", dir.display()));
        let cgroups = Cgroups::create(&name);

        let script = init_script(&cgroups, &dir, first);
        let mut unshare = Command::new("sh")
            .args(["-e", "-c", &format!("{}{launch}", join_script(&cgroups.root_procs_files())), "sh"])
            .args(["unshare", "--net", "--mount", "--pid", "--ipc", "--uts", "--cgroup"])
            .args(["--fork", "--kill-child", "sh", "-e", "-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C is for the test process alone; what it started ends with it.
            .process_group(0)
            .spawn()
            .expect("run unshare");
        let mut lines = BufReader::new(unshare.stdout.take().expect("a pipe from unshare")).lines();
        let mut line = || lines.next().and_then(Result::ok).unwrap_or_default();
        let first_pid = line().parse().unwrap_or(0);
        let machine = Self { dir, cgroups, unshare, first_pid };
        assert_eq!(line(), "ready", "the rig's namespaces could not be set up; see above");
        machine.cgroups.delegate().expect("delegate cgroup controllers to the rig");
        machine
    }

    /// The machine's directory, the same path inside and outside.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The pid of the first process, as seen outside.
    pub(crate) fn first_pid(&self) -> u32 {
        self.first_pid
    }

    /// A command that runs inside all the namespaces and in the machine's cgroup.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-e", "-c", &format!("{}exec \"$@\"", join_script(&self.cgroups.procs_files())), "sh"])
            .args(["nsenter", &format!("--target={}", self.first_pid)])
            .args(["--net", "--mount", "--pid", "--ipc", "--uts", "--cgroup", "--", program])
            .current_dir("/")
            .env("PATH", containerd::search_path())
            .process_group(0)
            .stdin(Stdio::null());
        command
    }

    /// The pid outside of the program that a child made by [`Machine::command`] runs.
    pub(crate) fn pid_behind(child: &Child) -> Option<Pid> {
        // nsenter forks to enter the pid namespace.
        fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let status = fs::read_to_string(entry.path().join("status")).ok()?;
            let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim();
            if parent == child.id().to_string() { Pid::from_raw(pid) } else { None }
        })
    }

    /// Leaves the directories of machines that end, until [`Machine::remove_directories`]: for minutes after files were
    /// removed, ext4 takes longer to make new ones, which whoever is measured next would pay for.
    pub(crate) fn keep_directories() {
        KEEPS_DIRECTORIES.store(true, Ordering::Relaxed);
    }

    /// Removes the directories that were kept.
    pub(crate) fn remove_directories() {
        let own = format!("{PREFIX}{}-", std::process::id());
        for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&own) {
                fs::remove_dir_all(entry.path()).expect("remove the directory of a machine");
            }
        }
    }

    /// Removes what test processes that were killed left behind.
    pub(crate) fn sweep() {
        cgroups::sweep(is_dead);
        let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
        for entry in entries.flatten() {
            if is_dead(&entry.file_name().to_string_lossy()) {
                // Another test process may sweep too, and be faster.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // The end of its standard input ends the first process, and the kernel ends the others with it. Where
        // the set-up failed half-way there may be none: then unshare goes, and takes its child along.
        drop(self.unshare.stdin.take());
        if self.first_pid == 0 {
            let _ = self.unshare.kill();
        }
        let _ = self.unshare.wait();
        let mut left = self.cgroups.remove().err();
        if !KEEPS_DIRECTORIES.load(Ordering::Relaxed)
            && let Err(error) = fs::remove_dir_all(&self.dir)
        {
            left.get_or_insert_default().push_str(&format!("; {}: {error}", self.dir.display()));
        }
        if let Some(left) = left {
            assert!(std::thread::panicking(), "{left}");
            eprintln!("{left}");
        }
    }
}

/// Does something on a thread that is in the network of a process.
pub(crate) fn inside_network<T: Send + 'static>(
    pid: u32,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    thread::spawn(move || {
        let namespace = File::open(format!("/proc/{pid}/ns/net")).expect("open the rig's network namespace");
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("enter the rig's network namespace");
        work()
    })
}

/// `container` keeps it from changing settings of the kernel.
const SYSTEMD: &str = "\
    mkdir -p /run/systemd/system /run/lock\n\
    printf '[Unit]\\nDefaultDependencies=no\\n' > /run/systemd/system/nothing.target\n\
    exec env -i PATH=$PATH container=rig /lib/systemd/systemd --system --unit=nothing.target \
        --show-status=0 --log-target=null > /dev/null 2>&1";

/// Runs as the first process: prints its pid outside, makes the machine private, and becomes `first`.
fn init_script(cgroups: &Cgroups, dir: &Path, first: &str) -> String {
    format!(
        "read -r pid rest < /proc/self/stat; echo $pid\n\
         mount --make-rprivate /\n\
         {}\
         mount -t proc proc /proc\n\
         for hidden in /run /var/lib /var/log; do mount -t tmpfs -o mode=755 tmpfs $hidden; done\n\
         mkdir -p /var/log/containers {links}; mount --bind {links} /var/log/containers\n\
         ip link set lo up\n\
         ip link add eth0 type veth peer name uplink\n\
         ip addr add {NODE_IP}/24 dev eth0\n\
         ip link set eth0 up; ip link set uplink up\n\
         ip route add default via 192.0.2.1\n\
         echo {NODE} > /proc/sys/kernel/hostname\n\
         echo ready\n\
         {first}\n",
        cgroups.mount_script(&dir.join("cgroup")),
        links = dir.join("log/containers").display(),
    )
}

/// Shell commands by which the shell joins cgroups.
fn join_script(procs_files: &[PathBuf]) -> String {
    procs_files.iter().map(|file| format!("echo $$ > {}; ", file.display())).collect()
}

/// Whether this is the name of a rig whose test process is gone.
fn is_dead(name: &str) -> bool {
    let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
    pid.and_then(|pid| pid.parse::<u32>().ok())
        .is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}
