//! Where a pod's things lie: kubelet's layout under the root and the log directory.

use std::path::{Path, PathBuf};

use crate::pod::{ContainerId, PodName, PodUid};

/// No file system takes a longer name.
const MAX_FILE_NAME: usize = 255;
const LOG_SUFFIX: &str = ".log";

/// The directories of this node.
#[derive(Debug, Clone)]
pub(crate) struct Dirs {
    root: PathBuf,
    pod_logs: PathBuf,
}

impl Dirs {
    /// From `--root-dir` and `podLogsDir`.
    pub(crate) fn new(root: PathBuf, pod_logs: PathBuf) -> Self {
        Self { root, pod_logs }
    }

    /// The node's own seccomp profiles.
    pub(crate) fn seccomp(&self) -> PathBuf {
        self.root.join("seccomp")
    }

    /// The root of them.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// All pods' directories.
    pub(crate) fn pods(&self) -> PathBuf {
        self.root.join("pods")
    }

    /// The directory of one instance.
    pub(crate) fn pod(&self, uid: &PodUid) -> PathBuf {
        self.pods().join(uid.as_str())
    }

    /// The volumes of one instance.
    pub(crate) fn volumes(&self, uid: &PodUid) -> PathBuf {
        self.pod(uid).join("volumes")
    }

    /// The directory of a volume, by the name of kubelet's plugin for its kind.
    pub(crate) fn volume(&self, uid: &PodUid, plugin: &str, volume: &str) -> PathBuf {
        self.volumes(uid).join(plugin).join(volume)
    }

    /// The file by which kubelet knows that an emptyDir was made.
    pub(crate) fn ready_file(&self, uid: &PodUid, volume: &str) -> PathBuf {
        self.pod(uid).join("plugins/kubernetes.io~empty-dir").join(volume).join("ready")
    }

    /// The parts of volumes that containers of one instance mount.
    pub(crate) fn sub_paths(&self, uid: &PodUid) -> PathBuf {
        self.pod(uid).join("volume-subpaths")
    }

    /// Where a container's mount of a part of a volume is bound; `index` is its place among the container's mounts.
    pub(crate) fn sub_path(&self, uid: &PodUid, volume: &str, container: &str, index: usize) -> PathBuf {
        self.sub_paths(uid).join(volume).join(container).join(index.to_string())
    }

    /// The pod's /etc/hosts.
    pub(crate) fn etc_hosts(&self, uid: &PodUid) -> PathBuf {
        self.pod(uid).join("etc-hosts")
    }

    /// Where a container leaves its termination message. kubelet's last part is any eight digits; ours are two files that take turns, so
    /// that a restart makes and removes none, and what the container before has left can still be read.
    pub(crate) fn termination_message(&self, uid: &PodUid, container: &str, attempt: u32) -> PathBuf {
        self.pod(uid).join("containers").join(container).join(format!("{:08x}", attempt % 2))
    }

    /// All pods' logs.
    pub(crate) fn pod_logs(&self) -> &Path {
        &self.pod_logs
    }

    /// The logs of one instance.
    pub(crate) fn logs(&self, name: &PodName, uid: &PodUid) -> PathBuf {
        self.pod_logs.join(format!("{}_{}_{uid}", name.namespace, name.name))
    }

    /// The log of one container.
    pub(crate) fn log(&self, name: &PodName, uid: &PodUid, container: &str, attempt: u32) -> PathBuf {
        self.logs(name, uid).join(container).join(format!("{attempt}.log"))
    }

    /// The links that log collectors follow; wherever the logs are, the links are where kubelet has them.
    pub(crate) fn log_links(&self) -> &'static Path {
        Path::new("/var/log/containers")
    }

    /// The link to the log of one container.
    pub(crate) fn log_link(&self, name: &PodName, container: &str, id: &ContainerId) -> PathBuf {
        let mut link = format!("{}_{}_{container}-{id}", name.name, name.namespace);
        // As kubelet cuts it; names are ASCII.
        link.truncate(MAX_FILE_NAME - LOG_SUFFIX.len());
        self.log_links().join(link + LOG_SUFFIX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_kubelet_lays_them_out() {
        let dirs = Dirs::new("/var/lib/kubelet".into(), "/var/log/pods".into());
        let (name, uid) = (PodName::new("default", "simple-node1"), PodUid::from("UID"));
        assert_eq!(
            dirs.log(&name, &uid, "web", 0),
            Path::new("/var/log/pods/default_simple-node1_UID/web/0.log")
        );
        assert_eq!(
            dirs.log_link(&name, "web", &ContainerId::from("ID")),
            Path::new("/var/log/containers/simple-node1_default_web-ID.log")
        );
        let long = dirs.log_link(&PodName::new("default", "n".repeat(250)), "web", &ContainerId::from("ID"));
        assert_eq!(long.file_name().unwrap().len(), 255, "{long:?}");
        assert!(long.to_str().unwrap().ends_with("n_.log"), "{long:?}");
        assert_eq!(
            dirs.termination_message(&uid, "web", 31),
            Path::new("/var/lib/kubelet/pods/UID/containers/web/00000001")
        );
        assert_eq!(
            dirs.volume(&uid, "kubernetes.io~empty-dir", "scratch"),
            Path::new("/var/lib/kubelet/pods/UID/volumes/kubernetes.io~empty-dir/scratch")
        );
        assert_eq!(
            dirs.sub_path(&uid, "data", "web", 2),
            Path::new("/var/lib/kubelet/pods/UID/volume-subpaths/data/web/2")
        );
    }
}
