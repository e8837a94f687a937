//! Which cgroup hierarchies are mounted, from the text of mountinfo. Pure.

use std::path::{Path, PathBuf};

/// The cgroup hierarchies of the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Hierarchies {
    /// Where each is mounted, with its v1 controllers.
    all: Vec<(PathBuf, Vec<String>)>,
    /// Whether there is nothing but v2.
    unified: bool,
}

impl Hierarchies {
    /// Reads `/proc/self/mountinfo`. On a hybrid the controllers are those of v1.
    pub(crate) fn parse(mountinfo: &str) -> Self {
        let (mut v1, mut v2) = (Vec::new(), Vec::new());
        for line in mountinfo.lines() {
            let Some((before, after)) = line.split_once(" - ") else { continue };
            let Some(point) = before.split(' ').nth(4).map(PathBuf::from) else { continue };
            let mut after = after.split(' ');
            match (after.next(), after.nth(1)) {
                (Some("cgroup"), Some(options)) => {
                    v1.push((point, options.split(',').map(str::to_owned).collect()));
                }
                (Some("cgroup2"), _) => v2.push((point, Vec::new())),
                _ => {}
            }
        }
        let unified = v1.is_empty() && !v2.is_empty();
        // Of mounts of the same, the shortest path is the usual one.
        let mut all = v1;
        all.extend(v2);
        all.sort_by_key(|(point, _): &(PathBuf, _)| (point.as_os_str().len(), point.clone()));
        if unified {
            all.truncate(1);
        }
        Self { all, unified }
    }

    /// Whether there is nothing but v2.
    pub(crate) fn is_unified(&self) -> bool {
        self.unified
    }

    /// Where they are mounted.
    pub(crate) fn points(&self) -> impl Iterator<Item = &Path> {
        self.all.iter().map(|(point, _)| point.as_path())
    }

    /// Where a controller is found.
    pub(crate) fn point_of(&self, controller: &str) -> Option<&Path> {
        let has = |controllers: &[String]| self.unified || controllers.iter().any(|c| c == controller);
        self.all.iter().find(|(_, controllers)| has(controllers)).map(|(point, _)| point.as_path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
30 23 0:26 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw,nsdelegate
32 30 0:28 / /sys/fs/cgroup/systemd rw shared:11 - cgroup cgroup rw,xattr,name=systemd
33 30 0:29 /rig /sys/fs/cgroup/cpu,cpuacct rw shared:12 - cgroup cgroup rw,cpu,cpuacct
34 30 0:30 / /var/lib/other/memory rw shared:13 - cgroup cgroup rw,memory
35 30 0:30 / /sys/fs/cgroup/memory rw shared:13 - cgroup cgroup rw,memory
";
    const UNIFIED: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn controllers_are_found_where_they_are_mounted() {
        let rows = [
            (HYBRID, "cpu", Some("/sys/fs/cgroup/cpu,cpuacct")),
            (HYBRID, "memory", Some("/sys/fs/cgroup/memory")),
            (HYBRID, "pids", None),
            (UNIFIED, "pids", Some("/sys/fs/cgroup")),
            ("", "cpu", None),
        ];
        for (text, controller, expect) in rows {
            let found = Hierarchies::parse(text);
            assert_eq!(found.point_of(controller), expect.map(Path::new), "{controller}");
            assert_eq!(found.is_unified(), text == UNIFIED);
        }
        assert_eq!(Hierarchies::parse(HYBRID).points().count(), 5);
        assert_eq!(Hierarchies::parse("nonsense\n - \n").points().count(), 0);
    }
}
