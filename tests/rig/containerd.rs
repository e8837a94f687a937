//! A containerd of the rig's own: its configuration, its start and its end.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::cri::Observer;
use super::machine::Machine;
use super::wait::wait_until;
use super::{PAUSE, needs};

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
    let config = CONFIG
        .replace("{dir}", &dir.display().to_string())
        .replace("{plugins}", needs::cni_plugins())
        .replace("{pause}", PAUSE);
    fs::write(dir.join("containerd.toml"), config).expect("write containerd's configuration");
}

// The plugins that are off only cost start-up time, but for `opt`, which would make /opt/containerd.
const CONFIG: &str = r#"
version = 2
root = "{dir}/containerd-root"
state = "{dir}/containerd-state"
disabled_plugins = [
  "io.containerd.internal.v1.opt", "io.containerd.internal.v1.restart", "io.containerd.internal.v1.tracing",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp",
]
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
