//! Which runtime it is, and since when runtimes can do what CRI has no word for. Pure.

/// A runtime, as it names itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeVersion {
    /// Such as `containerd`.
    pub name: String,
    /// Such as `v2.1.0`, or `1.6.20~ds1`.
    pub version: String,
}

/// The first versions that can do something, by the name of the runtime.
pub(crate) struct FirstVersions {
    what: &'static str,
    versions: &'static [(&'static str, (u32, u32))],
}

/// Images as volumes.
pub(crate) static IMAGE_VOLUMES: FirstVersions =
    FirstVersions { what: "images as volumes", versions: &[("containerd", (2, 1)), ("cri-o", (1, 31))] };
/// Parts of them. Until then containerd mounts the whole image, and says nothing.
pub(crate) static IMAGE_SUB_PATHS: FirstVersions = FirstVersions {
    what: "parts (subPath) of images as volumes",
    versions: &[("containerd", (2, 2)), ("cri-o", (1, 33))],
};
/// Devices by the names of the Container Device Interface.
pub(crate) static CDI_DEVICES: FirstVersions =
    FirstVersions { what: "CDI devices", versions: &[("containerd", (2, 0)), ("cri-o", (1, 23))] };

impl RuntimeVersion {
    /// Why the runtime cannot do something; none if it can. One that is not known cannot: a container without what it
    /// asks for would be worse than none.
    pub(crate) fn lacks(&self, since: &FirstVersions) -> Option<String> {
        let first = since.versions.iter().find(|(name, _)| *name == self.name);
        if first.is_some_and(|(_, first)| self.numbers().is_some_and(|numbers| numbers >= *first)) {
            return None;
        }
        let known = since.versions.iter().map(|(name, (major, minor))| format!("{name} {major}.{minor}"));
        let known = known.collect::<Vec<_>>().join(" or ");
        Some(format!("{} need {known}; the container runtime is {} {}", since.what, self.name, self.version))
    }

    /// Major and minor.
    fn numbers(&self) -> Option<(u32, u32)> {
        let mut parts = self.version.strip_prefix('v').unwrap_or(&self.version).split(['.', '-', '~', '+']);
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_name_and_number() {
        let rows = [
            ("containerd", "v2.1.0", true),
            ("containerd", "v2.1.0-beta.1", true),
            ("containerd", "2.10.3", true),
            ("containerd", "v3.0.0", true),
            ("containerd", "v2.0.5", false),
            ("containerd", "1.6.20~ds1", false),
            ("containerd", "", false),
            ("containerd", "unknown", false),
            ("cri-o", "1.31.0", true),
            ("cri-o", "1.30.9", false),
            ("other", "9.9.9", false),
        ];
        for (name, version, can) in rows {
            let runtime = RuntimeVersion { name: name.into(), version: version.into() };
            assert_eq!(runtime.lacks(&IMAGE_VOLUMES).is_none(), can, "{name} {version}");
        }
        let old = RuntimeVersion { name: "containerd".into(), version: "1.6.20~ds1".into() };
        assert_eq!(
            old.lacks(&IMAGE_VOLUMES).unwrap(),
            "images as volumes need containerd 2.1 or cri-o 1.31; the container runtime is containerd 1.6.20~ds1"
        );
    }
}
