//! One pass over the kernel's files. Blocking.

use std::path::Path;

use jiff::Timestamp;

use super::select::MeasuredPod;
use crate::host::cgroup::Cgroups;
use crate::host::usage::{self, CgroupReader, Daemon, MachineUsage};
use crate::status::stats::{
    CgroupReading, ContainerReading, Detail, Interface, Machine, NodeReading, PodReading, Reading,
    SandboxReading, SystemContainer, as_node,
};

/// What is read, and how much of it.
#[derive(Debug)]
pub(super) struct Pass<'a> {
    pub(super) cgroups: &'a Cgroups,
    pub(super) machine: &'a Machine,
    pub(super) detail: Detail,
    /// Where the runtime listens.
    pub(super) socket: &'a Path,
    /// When the agent was started.
    pub(super) started_at: Timestamp,
}

impl Pass<'_> {
    /// Reads it all.
    pub(super) fn read(&self, pods: &[MeasuredPod]) -> Reading {
        let at = Timestamp::now();
        let node = self.node();
        let pods = pods.iter().map(|pod| self.pod(pod, &node.network)).collect();
        Reading { at, node, pods }
    }

    fn reader(&self) -> CgroupReader<'_> {
        CgroupReader(&self.cgroups.hierarchies)
    }

    fn cgroup(&self, path: String) -> CgroupReading {
        let usage = self.reader().usage(&path, self.detail);
        CgroupReading { path, usage, nano_cores: None }
    }

    fn node(&self) -> NodeReading {
        let now = usage::machine_usage();
        let mut all = self.cgroup("/".to_owned());
        let MachineUsage { free, free_swap, pids, .. } = now;
        as_node(&mut all.usage, self.machine, free, free_swap);
        if self.detail >= Detail::Summary {
            all.usage.io_pressure = now.io_pressure;
            if let Some(cpu) = &mut all.usage.cpu {
                cpu.pressure = now.cpu_pressure;
            }
            if let Some(memory) = &mut all.usage.memory {
                memory.pressure = now.memory_pressure;
            }
        }
        let above = self.cgroups.paths_above();
        let pods = above.first().map(|path| SystemContainer {
            name: "pods",
            started_at: self.reader().made_at(path),
            usage: self.cgroup(path.clone()),
        });
        let groups = if self.detail == Detail::Full { above } else { Vec::new() };
        let is_whole = self.detail >= Detail::Summary;
        NodeReading {
            name: String::new(),
            machine: self.machine.clone(),
            all,
            groups: groups.into_iter().map(|path| self.cgroup(path)).collect(),
            system: if is_whole { self.daemons().chain(pods).collect() } else { Vec::new() },
            network: if is_whole { usage::interfaces(None) } else { Vec::new() },
            fs: None,
            image_fs: None,
            max_pids: crate::host::machine::pid_capacity(),
            pids,
        }
    }

    /// The agent and the runtime, where they have cgroups of their own.
    fn daemons(&self) -> impl Iterator<Item = SystemContainer> {
        let hierarchies = &self.cgroups.hierarchies;
        let agent = usage::own_daemon(hierarchies)
            .map(|agent| ("kubelet", Daemon { started_at: Some(self.started_at), ..agent }));
        let runtime = usage::daemon_of(self.socket, hierarchies).map(|runtime| ("runtime", runtime));
        let both = agent.into_iter().chain(runtime).map(|(name, daemon)| SystemContainer {
            name,
            started_at: daemon.started_at,
            usage: self.cgroup(daemon.cgroup),
        });
        // One outside of what is mounted here cannot be read.
        both.filter(|one| one.usage.usage.cpu.is_some())
    }

    fn pod(&self, measured: &MeasuredPod, of_node: &[Interface]) -> PodReading {
        let path = self.cgroups.path_of(&measured.pod);
        let children = path.as_ref().map(|path| self.reader().children(path)).unwrap_or_default();
        let child = |name: &str| path.as_ref().map(|path| format!("{path}/{name}")).unwrap_or_default();
        let mut containers = Vec::new();
        for container in &measured.containers {
            let own = children.iter().find(|name| cgroup_id(name) == Some(container.id.as_str()));
            let usage = own.map(|name| self.cgroup(child(name))).unwrap_or_default();
            containers.push(ContainerReading {
                name: container.name.clone(),
                id: container.id.0.clone(),
                image: container.image.clone(),
                started_at: container.started_at,
                usage,
                layer: None,
                logs: None,
            });
        }
        let is_other = |id: &str| !measured.containers.iter().any(|container| container.id.as_str() == id);
        let mut others = children.iter().filter_map(|name| {
            let id = cgroup_id(name).filter(|id| is_other(id))?;
            Some((id, child(name), self.reader().first_process(&child(name))?))
        });
        let sandbox = if self.detail >= Detail::Summary { others.next() } else { None };
        let is_on_node = measured.pod.spec.host_network == Some(true);
        let network = match (is_on_node, self.detail) {
            (_, Detail::Usage) => Vec::new(),
            (true, _) => of_node.to_vec(),
            (false, _) => {
                let own = || containers.iter().find_map(|one| self.reader().first_process(&one.usage.path));
                let process = sandbox.as_ref().map(|(.., process)| *process).or_else(own);
                process.map(|process| usage::interfaces(Some(process))).unwrap_or_default()
            }
        };
        let is_full = self.detail == Detail::Full;
        PodReading {
            name: measured.pod.name.clone(),
            uid: measured.pod.uid.clone(),
            started_at: measured.started_at,
            all: path.map(|path| self.cgroup(path)),
            sandbox: sandbox
                .filter(|_| is_full)
                .map(|(id, path, _)| SandboxReading { id: id.to_owned(), usage: self.cgroup(path) }),
            network,
            containers,
            volumes: Vec::new(),
            etc_hosts: None,
        }
    }
}

/// The runtime's id in the name of a cgroup, with either driver; none of what only watches over a container.
fn cgroup_id(name: &str) -> Option<&str> {
    let name = name.strip_suffix(".scope").unwrap_or(name);
    (!name.contains("conmon")).then(|| name.rsplit(['-', ':']).next().unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_in_names_of_cgroups() {
        for (name, id) in [
            ("0123abc", Some("0123abc")),
            ("cri-containerd-0123abc.scope", Some("0123abc")),
            ("crio-0123abc.scope", Some("0123abc")),
            ("crio-0123abc", Some("0123abc")),
            ("crio-conmon-0123abc.scope", None),
        ] {
            assert_eq!(cgroup_id(name), id, "{name}");
        }
    }
}
