//! The names of cgroups, as kubelet gives them, for both drivers. Pure.

use super::PodUid;
use super::qos::QosClass;

/// Who makes cgroups, and how they are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupDriver {
    /// Directories in the cgroup file system.
    Cgroupfs,
    /// Slices and scopes of systemd.
    Systemd,
}

impl CgroupDriver {
    /// The name in `cgroupDriver`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            CgroupDriver::Cgroupfs => "cgroupfs",
            CgroupDriver::Systemd => "systemd",
        }
    }
}

/// The cgroup below which pods are placed, its parts from the root: `cgroupRoot`, then `kubepods`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CgroupRoot(Vec<String>);

impl CgroupRoot {
    /// From `cgroupRoot`: a path, also of slices (`/a.slice/a-b.slice`), or a slice alone.
    pub(crate) fn new(root: &str) -> Self {
        let mut named = Self::named(root);
        named.0.push("kubepods".to_owned());
        named
    }

    /// A cgroup of the system, written in the same way.
    pub(crate) fn named(root: &str) -> Self {
        let root = root.trim_end_matches('/');
        let last = root.rsplit('/').next().unwrap_or_default();
        let mut parts: Vec<String> = match last.strip_suffix(SLICE) {
            Some(slice) => slice.split('-').map(|part| part.replace('_', "-")).collect(),
            None => root.split('/').map(str::to_owned).collect(),
        };
        parts.retain(|part| !part.is_empty());
        Self(parts)
    }

    /// The cgroup itself: that of all pods, or of the system.
    pub(crate) fn pods(&self, driver: CgroupDriver) -> String {
        self.path(&[], driver)
    }

    /// The cgroup of the pods of a class.
    pub(crate) fn class(&self, class: QosClass, driver: CgroupDriver) -> String {
        self.path(class_part(class), driver)
    }

    /// The cgroup of a pod: what the runtime is told as the parent of its containers'.
    pub(crate) fn pod(&self, class: QosClass, uid: &PodUid, driver: CgroupDriver) -> String {
        let pod = format!("{POD}{uid}");
        let parts: Vec<_> = class_part(class).iter().copied().chain([pod.as_str()]).collect();
        self.path(&parts, driver)
    }

    fn path(&self, parts: &[&str], driver: CgroupDriver) -> String {
        let parts = self.0.iter().map(String::as_str).chain(parts.iter().copied());
        match driver {
            CgroupDriver::Cgroupfs => parts.map(|part| format!("/{part}")).collect(),
            CgroupDriver::Systemd => {
                // A slice lies in the slice that its name begins with.
                let (mut path, mut slice) = (String::new(), String::new());
                for part in parts {
                    let dash = if slice.is_empty() { "" } else { "-" };
                    slice = format!("{slice}{dash}{}", part.replace('-', "_"));
                    path += &format!("/{slice}{SLICE}");
                }
                path
            }
        }
    }
}

const SLICE: &str = ".slice";
const ROOT_SLICE: &str = "-.slice";
const POD: &str = "pod";

fn class_part(class: QosClass) -> &'static [&'static str] {
    match class {
        QosClass::Guaranteed => &[],
        QosClass::Burstable => &["burstable"],
        QosClass::BestEffort => &["besteffort"],
    }
}

/// The UID in the name of a pod's cgroup, with either driver.
pub(crate) fn uid_of(name: &str) -> Option<PodUid> {
    match name.strip_suffix(SLICE) {
        None => name.strip_prefix(POD).map(PodUid::from),
        Some(slice) => {
            let (_, last) = slice.rsplit_once('-')?;
            last.strip_prefix(POD).map(|uid| PodUid(uid.replace('_', "-")))
        }
    }
}

/// The slice of a path, and the slice that it lies in. None for the root, and for what is no slice.
pub(crate) fn slice_and_parent(path: &str) -> Option<(&str, &str)> {
    let (above, unit) = path.rsplit_once('/')?;
    let parent = above.rsplit('/').next().filter(|parent| !parent.is_empty()).unwrap_or(ROOT_SLICE);
    unit.ends_with(SLICE).then_some((unit, parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_both_drivers() {
        use CgroupDriver::{Cgroupfs, Systemd};
        use QosClass::{BestEffort, Burstable, Guaranteed};
        const UID: &str = "6a6c6f06-cce6-2ee2";
        let rows = [
            ("", Guaranteed, Cgroupfs, "/kubepods/pod6a6c6f06-cce6-2ee2"),
            ("/", Burstable, Cgroupfs, "/kubepods/burstable/pod6a6c6f06-cce6-2ee2"),
            ("", BestEffort, Cgroupfs, "/kubepods/besteffort/pod6a6c6f06-cce6-2ee2"),
            ("/a/b-c/", Guaranteed, Cgroupfs, "/a/b-c/kubepods/pod6a6c6f06-cce6-2ee2"),
            ("a", BestEffort, Cgroupfs, "/a/kubepods/besteffort/pod6a6c6f06-cce6-2ee2"),
            ("", Guaranteed, Systemd, "/kubepods.slice/kubepods-pod6a6c6f06_cce6_2ee2.slice"),
            (
                "/",
                Burstable,
                Systemd,
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod6a6c6f06_cce6_2ee2.slice",
            ),
            (
                "",
                BestEffort,
                Systemd,
                "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod6a6c6f06_cce6_2ee2.slice",
            ),
            (
                "/edge.slice",
                Guaranteed,
                Systemd,
                "/edge.slice/edge-kubepods.slice/edge-kubepods-pod6a6c6f06_cce6_2ee2.slice",
            ),
            (
                "/a.slice/a-b_c.slice",
                Guaranteed,
                Systemd,
                "/a.slice/a-b_c.slice/a-b_c-kubepods.slice/a-b_c-kubepods-pod6a6c6f06_cce6_2ee2.slice",
            ),
        ];
        for (root, class, driver, expect) in rows {
            let root = CgroupRoot::new(root);
            assert_eq!(root.pod(class, &PodUid::from(UID), driver), expect);
        }
        assert_eq!(CgroupRoot::new("/a").pods(Cgroupfs), "/a/kubepods");
        assert_eq!(CgroupRoot::named("/system.slice").pods(Systemd), "/system.slice");
        assert_eq!(CgroupRoot::named("/kube/daemons").pods(Cgroupfs), "/kube/daemons");
        assert_eq!(CgroupRoot::new("/a").pods(Systemd), "/a.slice/a-kubepods.slice");
        assert_eq!(CgroupRoot::new("").class(Burstable, Systemd), "/kubepods.slice/kubepods-burstable.slice");
        assert_eq!(CgroupRoot::new("").class(Guaranteed, Cgroupfs), "/kubepods");
        assert_eq!(uid_of("pod6a"), Some(PodUid::from("6a")));
        assert_eq!(uid_of("burstable"), None);
        assert_eq!(uid_of("kubepods-burstable-pod6a_b.slice"), Some(PodUid::from("6a-b")));
        assert_eq!(uid_of("kubepods-pod6a.slice"), Some(PodUid::from("6a")));
        assert_eq!(uid_of("kubepods-burstable.slice"), None);
        for (path, expect) in [
            ("/kubepods.slice", Some(("kubepods.slice", "-.slice"))),
            ("/a.slice/a-b.slice", Some(("a-b.slice", "a.slice"))),
            ("/kubepods", None),
            ("", None),
        ] {
            assert_eq!(slice_and_parent(path), expect, "{path}");
        }
    }
}
