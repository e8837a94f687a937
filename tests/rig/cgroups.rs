//! The rig's cgroup: one directory per hierarchy, named after the rig, which the machine sees as its root.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::wait::wait_until;

const ROOT: &str = "/sys/fs/cgroup";

/// The cgroup directories of one rig, on v1 one per hierarchy, on v2 a single one.
pub(crate) struct Cgroups {
    name: String,
    hierarchies: Vec<PathBuf>,
}

impl Cgroups {
    /// Makes them.
    pub(crate) fn create(name: &str) -> Self {
        let hierarchies = hierarchies();
        assert!(!hierarchies.is_empty(), "no cgroup hierarchy is mounted below {ROOT}");
        let cgroups = Self { name: name.to_owned(), hierarchies };
        for dir in cgroups.dirs() {
            fs::create_dir(&dir).unwrap_or_else(|error| panic!("create {}: {error}", dir.display()));
            // A v1 cpuset takes no process before it has processors and memory.
            for file in ["cpuset.cpus", "cpuset.mems"] {
                let parent = dir.parent().expect("a rig's cgroup has a parent").join(file);
                if let (Ok(text), true) = (fs::read_to_string(parent), dir.join(file).exists()) {
                    // On v2 the parent's file is absent or empty, and inheritance is automatic.
                    let _ = fs::write(dir.join(file), text);
                }
            }
        }
        cgroups
    }

    /// Whether there is nothing but v2. A hybrid keeps its controllers in v1 hierarchies.
    fn is_unified(&self) -> bool {
        self.hierarchies == [Path::new(ROOT)]
    }

    fn dirs(&self) -> impl Iterator<Item = PathBuf> {
        self.hierarchies.iter().map(|hierarchy| hierarchy.join(&self.name))
    }

    /// The `cgroup.procs` files that a process of the machine joins. On v2 it is a leaf's, since a cgroup with
    /// processes cannot give controllers to its children.
    pub(crate) fn procs_files(&self) -> Vec<PathBuf> {
        let leaf = if self.is_unified() { "init/cgroup.procs" } else { "cgroup.procs" };
        self.dirs().map(|dir| dir.join(leaf)).collect()
    }

    /// The `cgroup.procs` files of the directories that become the machine's roots.
    pub(crate) fn root_procs_files(&self) -> Vec<PathBuf> {
        self.dirs().map(|dir| dir.join("cgroup.procs")).collect()
    }

    /// On v2, empties the root that the first processes were in, and gives its controllers to its children.
    pub(crate) fn delegate(&self) -> io::Result<()> {
        for dir in self.dirs().filter(|_| self.is_unified()) {
            let init = dir.join("init");
            fs::create_dir(&init)?;
            for pid in fs::read_to_string(dir.join("cgroup.procs"))?.lines() {
                fs::write(init.join("cgroup.procs"), pid)?;
            }
            for controller in fs::read_to_string(dir.join("cgroup.controllers"))?.split_whitespace() {
                fs::write(dir.join("cgroup.subtree_control"), format!("+{controller}"))?;
            }
        }
        Ok(())
    }

    /// The shell commands that put these directories in the place of the machine's `/sys/fs/cgroup`.
    pub(crate) fn mount_script(&self, staging: &Path) -> String {
        let staging = staging.display();
        let mut script = format!("mkdir -p {staging}\n");
        if self.is_unified() {
            script += &format!("mount --bind {ROOT}/{} {staging}\n", self.name);
        } else {
            script += &format!("mount -t tmpfs cgroup {staging}\n");
            for hierarchy in &self.hierarchies {
                let base = hierarchy.file_name().expect("a hierarchy's name").to_string_lossy();
                let source = hierarchy.join(&self.name);
                script +=
                    &format!("mkdir {staging}/{base}; mount --bind {} {staging}/{base}\n", source.display());
            }
            // `cpu -> cpu,cpuacct` and the like.
            script += &format!("find {ROOT} -maxdepth 1 -type l -exec cp -P '{{}}' {staging} ';'\n");
        }
        script + &format!("umount -R -l /sys\nmount -t sysfs sysfs /sys\nmount --move {staging} {ROOT}\n")
    }

    /// Removes them, now that their processes are dead or dying; what does not go is told.
    pub(crate) fn remove(&self) -> Result<(), String> {
        let mut left = Vec::new();
        for dir in self.dirs() {
            if !wait_until(Duration::from_secs(10), || remove_tree(&dir)) {
                left.push(dir.display().to_string());
            }
        }
        if left.is_empty() { Ok(()) } else { Err(format!("cgroups left behind: {}", left.join(" "))) }
    }
}

/// Every cgroup with a name that `is_dead` condemns goes; for the leftovers of killed test processes.
pub(crate) fn sweep(is_dead: impl Fn(&str) -> bool) {
    for hierarchy in hierarchies() {
        let Ok(entries) = fs::read_dir(hierarchy) else { continue };
        for entry in entries.flatten() {
            if is_dead(&entry.file_name().to_string_lossy()) {
                remove_tree(&entry.path());
            }
        }
    }
}

/// The mount points of the hierarchies: `/sys/fs/cgroup` on v2, its subdirectories on v1 and hybrid.
fn hierarchies() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("read /proc/self/mounts");
    let mut found: Vec<PathBuf> = mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            let (point, kind) = (words.next()?, words.next()?);
            let ours = Path::new(point).starts_with(ROOT) && kind.starts_with("cgroup");
            ours.then(|| PathBuf::from(point))
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

/// True when nothing is left; a cgroup with processes stays.
fn remove_tree(dir: &Path) -> bool {
    if let Ok(entries) = fs::read_dir(dir) {
        for entry in entries.flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                remove_tree(&entry.path());
            }
        }
    }
    match fs::remove_dir(dir) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}
