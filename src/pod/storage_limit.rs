//! How much of the node's disk a pod may use: `emptyDir.sizeLimit` and limits of `ephemeral-storage`. Pure.
//!
//! kubelet evicts whoever uses more, static pods excepted; here a limit that a manifest names counts for all but critical pods.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};

use super::priority::priority;
use super::quantity::Amount;
use super::{ContainerRef, containers_of, is_sidecar};

const STORAGE: &str = "ephemeral-storage";
/// From this priority on nothing is ended to free a disk.
const CRITICAL: i32 = 2_000_000_000;

/// The limits of one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StorageLimits {
    /// By volume.
    pub(crate) volumes: BTreeMap<String, StorageLimit>,
    /// By container.
    pub(crate) containers: BTreeMap<String, StorageLimit>,
    /// For all containers, their logs and all volumes on disk.
    pub(crate) pod: Option<StorageLimit>,
    /// The pod is critical: what it uses is told, and it goes on.
    pub(crate) only_told: bool,
}

/// A limit, as the manifest has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StorageLimit {
    bytes: u64,
    written: String,
}

/// What a pod uses, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StorageUsage {
    /// emptyDirs on disk.
    pub(crate) volumes: BTreeMap<String, u64>,
    /// The writable layers of containers, and their logs.
    pub(crate) containers: BTreeMap<String, u64>,
}

impl StorageLimit {
    fn parse(written: &str) -> Option<Self> {
        let amount = Amount::parse(written).ok().filter(|amount| !amount.is_zero())?;
        Some(Self { bytes: amount.divided_up(Amount::whole(1)), written: written.to_owned() })
    }

    fn add(self, other: Self) -> Self {
        let bytes = self.bytes.saturating_add(other.bytes);
        Self { bytes, written: binary(bytes) }
    }

    fn larger(self, other: Self) -> Self {
        if other.bytes > self.bytes { other } else { self }
    }
}

/// Bytes with the largest unit that they are a multiple of.
fn binary(bytes: u64) -> String {
    let units = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];
    let (mut number, mut unit) = (bytes, 0);
    while unit + 1 < units.len() && number != 0 && number.is_multiple_of(1024) {
        (number, unit) = (number / 1024, unit + 1);
    }
    format!("{number}{}", units[unit])
}

/// The limits of a pod; none if it has none, so that nobody need measure it.
pub(crate) fn storage_limits(spec: &PodSpec) -> Option<StorageLimits> {
    let on_disk = |medium: Option<&str>| medium.unwrap_or_default().is_empty();
    let volumes: BTreeMap<_, _> = spec
        .volumes
        .iter()
        .flatten()
        .filter_map(|volume| {
            let source = volume.empty_dir.as_ref().filter(|source| on_disk(source.medium.as_deref()))?;
            Some((volume.name.clone(), StorageLimit::parse(&source.size_limit.as_ref()?.0)?))
        })
        .collect();
    let limit = |container: &Container| {
        StorageLimit::parse(&container.resources.as_ref()?.limits.as_ref()?.get(STORAGE)?.0)
    };
    let (mut containers, mut together, mut alone) =
        (BTreeMap::new(), None::<StorageLimit>, None::<StorageLimit>);
    for (which, container) in containers_of(spec) {
        let Some(limit) = limit(container) else { continue };
        containers.insert(container.name.clone(), limit.clone());
        // Init containers run one after the other; sidecars stay.
        if matches!(which, ContainerRef::Init(_)) && !is_sidecar(container) {
            alone = Some(alone.map_or(limit.clone(), |most| most.larger(limit)));
        } else {
            together = Some(together.map_or(limit.clone(), |sum| sum.add(limit)));
        }
    }
    let pod = match (together, alone) {
        (Some(sum), Some(most)) => Some(sum.larger(most)),
        (sum, most) => sum.or(most),
    };
    let only_told = priority(spec) >= CRITICAL;
    let limits = StorageLimits { volumes, containers, pod, only_told };
    (!limits.volumes.is_empty() || limits.pod.is_some()).then_some(limits)
}

/// Which limit is exceeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exceeded {
    /// kubelet's name of the signal.
    pub(crate) signal: &'static str,
    /// kubelet's sentence.
    pub(crate) message: String,
}

impl StorageLimits {
    /// Why a pod is to be ended, if it uses too much: kubelet's sentences, in kubelet's order.
    pub(crate) fn exceeded(&self, usage: &StorageUsage) -> Option<Exceeded> {
        let over = |limit: &StorageLimit, used: Option<&u64>| used.is_some_and(|used| *used > limit.bytes);
        let volume = self.volumes.iter().find(|(name, limit)| over(limit, usage.volumes.get(*name)));
        if let Some((name, limit)) = volume {
            let written = &limit.written;
            let message = format!("Usage of EmptyDir volume {name:?} exceeds the limit {written:?}. ");
            return Some(Exceeded { signal: "emptydirfs.limit", message });
        }
        let total = usage
            .volumes
            .values()
            .chain(usage.containers.values())
            .fold(0_u64, |sum, used| sum.saturating_add(*used));
        if let Some(limit) = self.pod.as_ref().filter(|limit| over(limit, Some(&total))) {
            let limit = &limit.written;
            let message =
                format!("Pod ephemeral local storage usage exceeds the total limit of containers {limit}. ");
            return Some(Exceeded { signal: "ephemeralpodfs.limit", message });
        }
        let container = self.containers.iter().find(|(name, limit)| over(limit, usage.containers.get(*name)));
        container.map(|(name, limit)| {
            let written = &limit.written;
            let message =
                format!("Container {name} exceeded its local ephemeral storage limit {written:?}. ");
            Exceeded { signal: "ephemeralcontainerfs.limit", message }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn limits(spec: Value) -> Option<StorageLimits> {
        storage_limits(&serde_json::from_value(spec).unwrap())
    }

    fn used(volumes: &[(&str, u64)], containers: &[(&str, u64)]) -> StorageUsage {
        let map =
            |list: &[(&str, u64)]| list.iter().map(|(name, used)| ((*name).to_owned(), *used)).collect();
        StorageUsage { volumes: map(volumes), containers: map(containers) }
    }

    #[test]
    fn what_has_no_limit_is_not_measured() {
        let rows = [
            json!({"containers": [{"name": "a"}]}),
            json!({"containers": [{"name": "a"}], "volumes": [{"name": "v", "emptyDir": {}}]}),
            json!({"containers": [{"name": "a"}], "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "0"}}]}),
            // Memory holds it to its size.
            json!({"containers": [{"name": "a"}], "volumes": [{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]}),
            json!({"containers": [{"name": "a", "resources": {"requests": {"ephemeral-storage": "1Mi"}}}]}),
        ];
        for spec in rows {
            assert_eq!(limits(spec.clone()), None, "{spec}");
        }
    }

    #[test]
    fn who_uses_too_much_is_named() {
        let container = |name: &str, limit: &str| json!({"name": name, "resources": {"limits": {"ephemeral-storage": limit}}});
        let spec = json!({
            "containers": [container("a", "1Ki"), container("b", "3Ki"), {"name": "c"}],
            "initContainers": [container("i", "2Ki")],
            "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1500"}}, {"name": "w", "emptyDir": {}}],
        });
        let found = limits(spec).unwrap();
        let rows = [
            (used(&[("v", 1500)], &[("a", 1024)]), None),
            (used(&[("v", 1501)], &[]), Some("Usage of EmptyDir volume \"v\" exceeds the limit \"1500\". ")),
            (used(&[("w", 4096)], &[]), None),
            (
                used(&[("w", 4000)], &[("c", 97)]),
                Some("Pod ephemeral local storage usage exceeds the total limit of containers 4Ki. "),
            ),
            (
                used(&[], &[("a", 1025)]),
                Some("Container a exceeded its local ephemeral storage limit \"1Ki\". "),
            ),
            (
                used(&[], &[("i", 2049)]),
                Some("Container i exceeded its local ephemeral storage limit \"2Ki\". "),
            ),
            (used(&[], &[("unknown", 4096)]), None),
        ];
        for (usage, expect) in rows {
            assert_eq!(found.exceeded(&usage).as_ref().map(|e| &*e.message), expect, "{usage:?}");
        }
        assert!(!found.only_told);
    }

    #[test]
    fn sums_and_the_largest_alone() {
        let container = |name: &str, limit: &str, policy: Value| json!({"name": name, "restartPolicy": policy, "resources": {"limits": {"ephemeral-storage": limit}}});
        let none = Value::Null;
        let rows = [
            (json!({"containers": [container("a", "1G", none.clone())]}), "1G"),
            (
                json!({"containers": [container("a", "1Mi", none.clone()), container("b", "1Mi", none.clone())]}),
                "2Mi",
            ),
            (
                json!({"containers": [container("a", "1Mi", none.clone())], "initContainers": [container("i", "9Mi", none.clone())]}),
                "9Mi",
            ),
            (
                json!({"containers": [container("a", "1Mi", none.clone())], "initContainers": [container("s", "9Mi", json!("Always"))]}),
                "10Mi",
            ),
        ];
        for (spec, expect) in rows {
            assert_eq!(limits(spec.clone()).unwrap().pod.unwrap().written, expect, "{spec}");
        }
        let critical =
            json!({"containers": [container("a", "1G", none)], "priorityClassName": "system-node-critical"});
        assert!(limits(critical).unwrap().only_told);
    }
}
