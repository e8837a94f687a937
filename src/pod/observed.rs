//! What the runtime was seen to hold for one pod name: all its instances, running and dead.
//!
//! Pure data. `runtime::observe` fills it; `plan` and `pod::status` read it.

use std::time::Duration;

use jiff::Timestamp;

use crate::pod::hook::Hook;
use crate::pod::{ConfigHash, ContainerId, Pod, PodUid, SandboxId};

/// Everything that the runtime holds for one pod name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Observed {
    /// Sandboxes of every instance.
    pub sandboxes: Vec<Sandbox>,
    /// Containers of every instance.
    pub containers: Vec<Container>,
}

/// One sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sandbox {
    /// The runtime's id.
    pub id: SandboxId,
    /// The instance that it belongs to.
    pub uid: PodUid,
    /// The annotation `kubernetes.io/config.hash`, if it has one.
    pub hash: Option<ConfigHash>,
    /// Counts the sandboxes of one UID.
    pub attempt: u32,
    /// When the runtime made it.
    pub created_at: Timestamp,
    /// It is up, with its network.
    pub ready: bool,
    /// The pod's addresses; empty with the host's network.
    pub ips: Vec<String>,
}

/// One container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Container {
    /// The runtime's id.
    pub id: ContainerId,
    /// The sandbox that it is in.
    pub sandbox: SandboxId,
    /// The instance that it belongs to.
    pub uid: PodUid,
    /// The container's name in the pod.
    pub name: String,
    /// Counts the containers of one name in one UID.
    pub attempt: u32,
    /// The annotation `io.kubernetes.container.hash`.
    pub hash: String,
    /// How many crashes in a row came before this container, from our own annotation.
    pub crashes: u32,
    /// How often all containers of the pod were restarted before it, from our own annotation.
    pub round: u32,
    /// Its place among the sidecars' init containers, from our own annotation; none for any other container.
    pub sidecar: Option<u32>,
    /// The grace period that it was created with, in seconds.
    pub grace: Option<i64>,
    /// What to do before it is stopped.
    pub pre_stop: Option<Hook>,
    /// The signal that asks it to end, where the runtime does not see to that.
    pub stop_signal: Option<u32>,
    /// It was made before the machine last booted.
    pub earlier_boot: bool,
    /// The image as the manifest names it.
    pub image: String,
    /// The image as the runtime resolved it.
    pub image_ref: String,
    /// When the runtime made it.
    pub created_at: Timestamp,
    /// What it does now.
    pub state: ContainerState,
}

/// What a container does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ContainerState {
    /// Made, never started: what a crash between two calls leaves behind.
    Created,
    /// Runs.
    Running {
        /// Since when.
        started_at: Timestamp,
    },
    /// Ended.
    Exited(Exit),
    /// The runtime lost track of it.
    Unknown,
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exit {
    /// When it began, if it ever did.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Timestamp,
    /// Its exit code.
    pub code: i32,
    /// The runtime's word for it: `Completed`, `Error`, `OOMKilled`, ...
    pub reason: String,
    /// The runtime's sentence for it, and the container's termination message.
    pub message: String,
}

impl Sandbox {
    /// It was made for this version of this instance. One that carries no hash is not told from it.
    pub(crate) fn is_of(&self, pod: &Pod) -> bool {
        self.uid == pod.uid && self.hash.as_ref().is_none_or(|hash| *hash == pod.hash)
    }
}

impl Exit {
    /// How long the container ran.
    pub(crate) fn ran_for(&self) -> Duration {
        let ran = self.started_at.map(|started| self.finished_at.duration_since(started));
        ran.and_then(|ran| Duration::try_from(ran).ok()).unwrap_or_default()
    }
}

impl Container {
    /// It may still be doing something.
    pub(crate) fn is_alive(&self) -> bool {
        matches!(self.state, ContainerState::Running { .. } | ContainerState::Unknown)
    }

    /// How it ended, if it did.
    pub(crate) fn exit(&self) -> Option<&Exit> {
        match &self.state {
            ContainerState::Exited(exit) => Some(exit),
            _ => None,
        }
    }
}

impl Observed {
    /// Nothing is left of the pod name.
    pub(crate) fn is_empty(&self) -> bool {
        self.sandboxes.is_empty() && self.containers.is_empty()
    }

    /// The containers of this version of an instance. With a fixed `metadata.uid` those of an earlier version have the
    /// same UID; their sandbox tells them apart.
    pub(crate) fn own<'a>(&'a self, pod: &Pod) -> impl Iterator<Item = &'a Container> {
        let is_others = |id: &SandboxId| self.sandboxes.iter().any(|s| s.id == *id && !s.is_of(pod));
        self.containers.iter().filter(move |c| c.uid == pod.uid && !is_others(&c.sandbox))
    }

    /// Those of one name, newest first.
    pub(crate) fn containers_of<'a>(&'a self, pod: &Pod, name: &str) -> Vec<&'a Container> {
        let mut found: Vec<_> = self.own(pod).filter(|c| c.name == name).collect();
        found.sort_by_key(|c| std::cmp::Reverse((c.attempt, c.created_at)));
        found
    }

    /// The next attempt at a container. It counts every version of the UID: their names and logs are in the same places.
    pub(crate) fn next_attempt(&self, uid: &PodUid, name: &str) -> u32 {
        let of_name = self.containers.iter().filter(|c| c.uid == *uid && c.name == name);
        of_name.map(|c| c.attempt.saturating_add(1)).max().unwrap_or_default()
    }

    /// When an instance began: with its first sandbox.
    pub(crate) fn began(&self, pod: &Pod) -> Option<Timestamp> {
        self.sandboxes.iter().filter(|s| s.is_of(pod)).map(|s| s.created_at).min()
    }

    /// The newest sandbox of an instance.
    pub(crate) fn newest_sandbox(&self, uid: &PodUid) -> Option<&Sandbox> {
        self.sandboxes.iter().filter(|s| s.uid == *uid).max_by_key(|s| (s.attempt, s.created_at))
    }
}

/// The addresses of a pod: one per family at most, the node's own family first.
pub(crate) fn pod_ips(pod: &Pod, sandbox: Option<&Sandbox>, node_ips: &[String]) -> Vec<String> {
    if pod.spec.host_network == Some(true) {
        return node_ips.to_vec();
    }
    let all =
        sandbox.filter(|sandbox| sandbox.ready).map(|sandbox| sandbox.ips.as_slice()).unwrap_or_default();
    let is_v6 = |ip: &String| ip.contains(':');
    let v6_first = node_ips.first().is_some_and(is_v6);
    let of_family = |v6: bool| all.iter().find(|ip| is_v6(ip) == v6).cloned();
    [v6_first, !v6_first].into_iter().filter_map(of_family).collect()
}
