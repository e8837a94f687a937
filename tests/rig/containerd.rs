//! A containerd of the rig's own: its configuration, its start and its end.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::cri::Observer;
use super::machine::Machine;
use super::wait::wait_until;
use super::{PAUSE, needs};

/// Names a directory with another containerd, its shim and `ctr`, in place of the distribution's.
const DIRECTORY: &str = "RKUBELET_CONTAINERD";

/// Where programs are looked for.
pub(crate) fn search_path() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let chosen = std::env::var_os(DIRECTORY).map(PathBuf::from);
    std::env::join_paths(chosen.into_iter().chain(std::env::split_paths(&path))).expect("a search path")
}

/// What `containerd --version` says.
pub(crate) fn version() -> String {
    let mut command = Command::new("sh");
    command.args(["-c", "exec containerd --version"]).env("PATH", search_path());
    let output = command.output().expect("run containerd --version");
    assert!(output.status.success(), "containerd --version: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether it mounts images as volumes and knows CDI devices: containerd 2.1 and newer, of which the tests know 2.x.
pub(crate) fn has_image_volumes() -> bool {
    !is_first_major(&version())
}

/// Whether it mounts parts of images: containerd 2.2 and newer.
pub(crate) fn has_image_sub_paths() -> bool {
    let version = version();
    let word = version.split_whitespace().nth(2).unwrap_or_default().trim_start_matches('v').to_owned();
    has_image_volumes() && !["2.0", "2.1"].iter().any(|old| word.starts_with(&format!("{old}.")))
}

/// Whether this is containerd 1.x: `containerd github.com/containerd/containerd 1.6.20~ds1 ...`, with a `v` or without.
fn is_first_major(version: &str) -> bool {
    version.split_whitespace().nth(2).is_some_and(|word| word.trim_start_matches('v').starts_with("1."))
}

/// A running containerd.
pub(crate) struct Containerd {
    child: Child,
}

impl Containerd {
    /// Starts it, and waits until CRI answers.
    pub(crate) fn start(machine: &Machine) -> Self {
        let dir = machine.dir();
        let log = File::options().create(true).append(true).open(log(dir)).expect("open containerd's log");
        let mut command = machine.command("containerd");
        command.arg("--config").arg(dir.join("containerd.toml"));
        command.stdout(log.try_clone().expect("duplicate a file handle")).stderr(log);
        let containerd = Self { child: command.spawn().expect("run containerd") };
        let observer = Observer::new(&endpoint(dir));
        if !wait_until(Duration::from_secs(20), || observer.answers()) {
            let log = fs::read_to_string(self::log(dir)).unwrap_or_default();
            panic!("containerd's CRI service does not answer:\n{log}");
        }
        containerd
    }

    /// Its pid outside the rig.
    pub(crate) fn pid(&self) -> Option<Pid> {
        Machine::pid_behind(&self.child)
    }

    /// Ends it at once.
    pub(crate) fn kill(self) {
        self.signal(Signal::KILL);
    }

    /// Lets it end in order.
    pub(crate) fn end(self) {
        self.signal(Signal::TERM);
    }

    fn signal(mut self, signal: Signal) {
        let pid = Machine::pid_behind(&self.child).expect("containerd runs");
        kill_process(pid, signal).expect("signal containerd");
        self.child.wait().expect("wait for containerd");
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        // Not the child, which is nsenter: its orphan would be the host's init's, which reaps at leisure, and the
        // machine cannot end before.
        if let Some(pid) = Machine::pid_behind(&self.child) {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// The socket of the rig's containerd.
pub(crate) fn socket(dir: &Path) -> PathBuf {
    dir.join("containerd.sock")
}

/// The socket as an endpoint.
pub(crate) fn endpoint(dir: &Path) -> String {
    format!("unix://{}", socket(dir).display())
}

/// The directory that outlives containerd's restarts.
pub(crate) fn root(dir: &Path) -> PathBuf {
    dir.join("containerd-root")
}

fn log(dir: &Path) -> PathBuf {
    dir.join("containerd.log")
}

/// What containerd complained about.
pub(crate) fn warnings(dir: &Path) -> String {
    let log = fs::read_to_string(log(dir)).unwrap_or_default();
    let lines = log.lines().filter(|line| !line.contains("level=info"));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Writes the configurations of containerd and CNI, and lays the template's root down.
pub(crate) fn install(dir: &Path, template_root: &Path) {
    let copied = Command::new("cp").arg("-a").arg(template_root).arg(root(dir)).status().expect("run cp");
    assert!(copied.success(), "copy {}: {copied}", template_root.display());
    let cni = dir.join("cni");
    fs::create_dir_all(&cni).expect("create the CNI directory");
    fs::write(cni.join("10-rig.conflist"), CNI).expect("write the CNI configuration");
    let config = if is_first_major(&version()) { CONFIG_2 } else { CONFIG_3 };
    let config = config
        .replace("{off}", OFF)
        .replace("{dir}", &dir.display().to_string())
        .replace("{plugins}", needs::cni_plugins())
        .replace("{pause}", PAUSE);
    fs::write(dir.join("containerd.toml"), config).expect("write containerd's configuration");
}

// They only cost start-up time, but for `opt`, which would make /opt/containerd, and `nri`, which would make a socket.
const OFF: &str = r#"
disabled_plugins = [
  "io.containerd.internal.v1.opt", "io.containerd.internal.v1.restart", "io.containerd.internal.v1.tracing",
  "io.containerd.nri.v1.nri",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp",
]
"#;

/// For containerd 1.x.
const CONFIG_2: &str = r#"
version = 2
root = "{dir}/containerd-root"
state = "{dir}/containerd-state"
{off}
[grpc]
  address = "{dir}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  # Without CAP_SYS_RESOURCE runc cannot lower oom_score_adj, and no sandbox would start.
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{plugins}"
  conf_dir = "{dir}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "overlayfs"
"#;

/// For containerd 2.x, which reads the former too, but not all of it.
const CONFIG_3: &str = r#"
version = 3
root = "{dir}/containerd-root"
state = "{dir}/containerd-state"
{off}
[grpc]
  address = "{dir}/containerd.sock"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{pause}"
[plugins."io.containerd.cri.v1.runtime"]
  # Without CAP_SYS_RESOURCE runc cannot lower oom_score_adj, and no sandbox would start.
  restrict_oom_score_adj = true
  cdi_spec_dirs = ["{dir}/cdi"]
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["{plugins}"]
  conf_dir = "{dir}/cni"
[plugins."io.containerd.grpc.v1.cri"]
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
"#;

const CNI: &str = r#"{
  "cniVersion": "0.4.0",
  "name": "rig",
  "plugins": [
    {
      "type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
      "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
"#;
