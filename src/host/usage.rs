//! Reads what cgroups, networks, disks and the machine use. Blocking. What it means is told by `status::stats`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::boot::boot_id;
use super::cgroup::mounts::Hierarchies;
use super::machine;
use crate::status::stats::cgroup_files::parse_usage;
use crate::status::stats::proc_files::{
    Interface, boot_time, cgroup_of, memory_field, parse_interfaces, parse_pressure, started_at, task_count,
};
use crate::status::stats::{CgroupUsage, Detail, FsSize, Machine, Pressure};

/// Files of cgroups and of `/proc` are longer only where a machine has hundreds of CPUs or devices.
const MAX_FILE: u64 = 1 << 20;

const NOT_BLOCKING: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// Reads cgroups.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CgroupReader<'a>(pub(crate) &'a Hierarchies);

impl CgroupReader<'_> {
    /// What a cgroup uses; nothing of one that is gone.
    pub(crate) fn usage(self, path: &str, detail: Detail) -> CgroupUsage {
        parse_usage(self.0.is_unified(), detail, &|controller, file| self.read(controller, path, file))
    }

    /// The names of the cgroups in one.
    pub(crate) fn children(self, path: &str) -> Vec<String> {
        let entries = self.dir("memory", path).and_then(|dir| fs::read_dir(dir).ok());
        let dirs = entries
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        dirs.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    /// A process of a cgroup.
    pub(crate) fn first_process(self, path: &str) -> Option<u32> {
        self.read("memory", path, "cgroup.procs")?.lines().next()?.parse().ok()
    }

    /// Since when a cgroup is there, as far as its files tell.
    pub(crate) fn made_at(self, path: &str) -> Option<Timestamp> {
        let file = self.dir("memory", path)?.join("cgroup.procs");
        Timestamp::from_second(fs::metadata(file).ok()?.mtime()).ok()
    }

    fn dir(self, controller: &str, path: &str) -> Option<PathBuf> {
        self.0.point_of(controller).map(|point| point.join(path.trim_start_matches('/')))
    }

    fn read(self, controller: &str, path: &str, file: &str) -> Option<String> {
        read_text(&self.dir(controller, path)?.join(file))
    }
}

fn read_text(path: &Path) -> Option<String> {
    let mut text = String::with_capacity(1024);
    File::open(path).ok()?.take(MAX_FILE).read_to_string(&mut text).ok()?;
    Some(text)
}

fn proc_text(file: &str) -> String {
    read_text(&Path::new("/proc").join(file)).unwrap_or_default()
}

/// The interfaces of a process's network; the agent's own is the node's.
pub(crate) fn interfaces(process: Option<u32>) -> Vec<Interface> {
    let process = process.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
    parse_interfaces(&proc_text(&format!("{process}/net/dev")))
}

/// What of the machine changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct MachineUsage {
    /// Bytes of memory that nobody uses.
    pub(crate) free: u64,
    /// Bytes of swap that nobody uses.
    pub(crate) free_swap: u64,
    /// Processes and threads.
    pub(crate) pids: Option<u64>,
    /// Waits for CPUs.
    pub(crate) cpu_pressure: Option<Pressure>,
    /// Waits for memory.
    pub(crate) memory_pressure: Option<Pressure>,
    /// Waits for disks.
    pub(crate) io_pressure: Option<Pressure>,
}

/// Reads what of the machine changes.
pub(crate) fn machine_usage() -> MachineUsage {
    let meminfo = proc_text("meminfo");
    let pressure = |of| parse_pressure(&proc_text(&format!("pressure/{of}")));
    MachineUsage {
        free: memory_field(&meminfo, "MemFree").unwrap_or(0),
        free_swap: memory_field(&meminfo, "SwapFree").unwrap_or(0),
        pids: task_count(&proc_text("loadavg")),
        cpu_pressure: pressure("cpu"),
        memory_pressure: pressure("memory"),
        io_pressure: pressure("io"),
    }
}

/// Reads what the machine is.
pub(crate) fn machine() -> Machine {
    let meminfo = proc_text("meminfo");
    let bytes = |name| memory_field(&meminfo, name).unwrap_or(0);
    let line = |path: &str| read_text(Path::new(path)).unwrap_or_default().trim().to_owned();
    let (physical_cores, sockets) = topology();
    let os = read_text(Path::new("/etc/os-release")).unwrap_or_default();
    let os = os.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or_default();
    Machine {
        booted_at: boot_time(&proc_text("stat")),
        boot_id: boot_id(),
        machine_id: line("/etc/machine-id"),
        system_uuid: line("/sys/class/dmi/id/product_uuid"),
        cores: machine::online_cpus().len() as u64,
        physical_cores,
        sockets,
        memory: bytes("MemTotal"),
        swap: bytes("SwapTotal"),
        huge_pages: bytes("Hugetlb"),
        kernel: line("/proc/sys/kernel/osrelease"),
        os: os.trim_matches('"').to_owned(),
        devices: devices(),
    }
}

/// Cores and sockets, by the kernel's numbers of them.
fn topology() -> (u64, u64) {
    let of = |cpu: u32, file: &str| {
        read_text(Path::new(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/{file}"))).unwrap_or_default()
    };
    let cpus = machine::online_cpus();
    let socket = |cpu: u32| of(cpu, "physical_package_id");
    let cores: std::collections::BTreeSet<_> =
        cpus.0.iter().map(|cpu| (socket(*cpu), of(*cpu, "core_id"))).collect();
    let sockets: std::collections::BTreeSet<_> = cores.iter().map(|(socket, _)| socket).collect();
    (cores.len() as u64, sockets.len() as u64)
}

fn devices() -> BTreeMap<String, String> {
    let text = proc_text("partitions");
    let device = |line: &str| {
        let mut words = line.split_whitespace();
        let (major, minor, name) = (words.next()?, words.next()?, words.nth(1)?);
        major
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| (format!("{major}:{minor}"), format!("/dev/{name}")))
    };
    text.lines().filter_map(device).collect()
}

/// What the file system of a path has.
pub(crate) fn fs_size(path: &Path) -> Option<FsSize> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(FsSize {
        capacity: found.f_blocks.saturating_mul(found.f_frsize),
        available: found.f_bavail.saturating_mul(found.f_frsize),
        free: found.f_bfree.saturating_mul(found.f_frsize),
        inodes: found.f_files,
        inodes_free: found.f_ffree,
    })
}

/// A process that has a cgroup of its own.
#[derive(Debug, Clone)]
pub(crate) struct Daemon {
    /// The cgroup.
    pub(crate) cgroup: String,
    /// When it was started.
    pub(crate) started_at: Option<Timestamp>,
}

/// The agent; none if it shares the root with everybody.
pub(crate) fn own_daemon(hierarchies: &Hierarchies) -> Option<Daemon> {
    daemon("self", hierarchies)
}

/// Who listens on a socket; none if it is the service manager, or shares the root with everybody.
pub(crate) fn daemon_of(socket: &Path, hierarchies: &Hierarchies) -> Option<Daemon> {
    // One that does not accept connections must not hold us.
    let stream = socket_with(AddressFamily::UNIX, SocketType::STREAM, NOT_BLOCKING, None).ok()?;
    connect(&stream, &SocketAddrUnix::new(socket).ok()?).ok()?;
    let pid = socket_peercred(&stream).ok()?.pid.as_raw_nonzero().get();
    if pid == 1 { None } else { daemon(&pid.to_string(), hierarchies) }
}

fn daemon(process: &str, hierarchies: &Hierarchies) -> Option<Daemon> {
    let text = proc_text(&format!("{process}/cgroup"));
    let cgroup = cgroup_of(&text, hierarchies.is_unified()).filter(|path| *path != "/")?.to_owned();
    let started_at = started_at(&proc_text(&format!("{process}/stat")), &proc_text("stat"));
    Some(Daemon { cgroup, started_at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_of_the_unified_hierarchy_is_read_from_its_files() {
        let root = tempfile::tempdir().unwrap();
        let line = format!("30 23 0:26 / {} rw - cgroup2 cgroup2 rw", root.path().display());
        let hierarchies = Hierarchies::parse(&line);
        let pod = root.path().join("kubepods/pod1");
        fs::create_dir_all(pod.join("child")).unwrap();
        for (file, text) in [
            ("cpu.stat", "usage_usec 5\nuser_usec 3\nsystem_usec 2\n"),
            ("memory.current", "4096\n"),
            ("memory.stat", "anon 10\ninactive_file 96\n"),
            ("memory.max", "max\n"),
            ("cgroup.procs", "42\n43\n"),
        ] {
            fs::write(pod.join(file), text).unwrap();
        }
        let reader = CgroupReader(&hierarchies);
        let usage = reader.usage("/kubepods/pod1", Detail::Full);
        assert_eq!(usage.cpu.unwrap().total, 5000);
        assert_eq!(usage.memory.unwrap().working_set(), 4000);
        assert_eq!(usage.processes, Some(2));
        assert_eq!(reader.first_process("/kubepods/pod1"), Some(42));
        assert_eq!(reader.children("/kubepods/pod1"), ["child"]);
        assert_eq!(reader.children("/gone"), [""; 0]);
        assert_eq!(reader.usage("/gone", Detail::Full), CgroupUsage::default());
        assert!(reader.made_at("/kubepods/pod1").is_some());
    }

    #[test]
    fn this_machine_has_something() {
        let machine = machine();
        assert!(machine.cores > 0 && machine.memory > 0 && machine.booted_at.is_some(), "{machine:?}");
        assert!((1..=machine.cores).contains(&machine.physical_cores), "{machine:?}");
        let usage = machine_usage();
        assert!(usage.free > 0 && usage.pids.is_some(), "{usage:?}");
        let size = fs_size(Path::new("/")).unwrap();
        assert!(size.capacity > size.free && size.free >= size.available, "{size:?}");
        assert_eq!(fs_size(Path::new("/none")), None);
        assert_eq!(interfaces(Some(u32::MAX)), []);
    }
}
