//! emptyDirs in memory: how large, and which pages.

use std::collections::BTreeSet;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::Container;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::VolumeError;
use crate::host::files::read_text;
use crate::pod::quantity::Amount;
use crate::pod::resource_field::NodeCapacity;
use crate::pod::{ContainerRef, Pod, is_sidecar};

const HUGE_PAGES: &str = "hugepages-";

/// A file system of huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HugePages {
    /// The size of one, in bytes.
    page: u64,
    /// How much they may come to, in bytes.
    limit: Option<u64>,
}

impl HugePages {
    /// The options of the mount.
    pub(super) fn options(&self) -> String {
        let limit = self.limit.map(|limit| format!(",size={limit}")).unwrap_or_default();
        format!("pagesize={}{limit}", self.page)
    }
}

fn bytes(amount: Amount) -> u64 {
    amount.divided_up(Amount::whole(1))
}

fn limit_of(limit: Option<&Quantity>) -> Option<Amount> {
    limit.and_then(|limit| Amount::parse(&limit.0).ok()).filter(|limit| !limit.is_zero())
}

/// The size of an emptyDir in memory: the least of its limit, the memory of the pod and that of the node.
pub(super) fn memory_size(pod: &Pod, limit: Option<&Quantity>, node: &NodeCapacity) -> u64 {
    let sizes = [limit_of(limit), pod_memory(pod), Some(node.memory)];
    sizes.into_iter().flatten().min().map_or(0, bytes)
}

/// The memory that all containers of a pod may use, if each has a limit.
fn pod_memory(pod: &Pod) -> Option<Amount> {
    let own = pod.spec.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    if let Some(limit) = limit_of(own.and_then(|limits| limits.get("memory"))) {
        return Some(limit);
    }
    let limit = |container: &Container| {
        let limits = container.resources.as_ref()?.limits.as_ref()?;
        limit_of(limits.get("memory"))
    };
    let (mut together, mut alone) = (Amount::whole(0), Amount::whole(0));
    for (which, container) in pod.containers() {
        let limit = limit(container)?;
        // Init containers run one after the other; sidecars stay.
        match which {
            ContainerRef::Init(_) if !is_sidecar(container) => alone = alone.max(limit),
            _ => together = together + limit,
        }
    }
    Some(together.max(alone))
}

/// The pages of an emptyDir: those that its medium names, or else the only ones that the containers ask for.
///
/// # Errors
/// Says why it is not clear which.
pub(super) fn plan_huge_pages(
    pod: &Pod,
    medium: &str,
    limit: Option<&Quantity>,
) -> Result<HugePages, String> {
    let size = match medium.strip_prefix("HugePages-") {
        Some(size) => size.to_owned(),
        None => {
            let resources = pod.containers().filter_map(|(_, container)| container.resources.as_ref());
            let names =
                resources.flat_map(|r| r.requests.iter().chain(&r.limits)).flat_map(|list| list.keys());
            let sizes: BTreeSet<&str> = names.filter_map(|name| name.strip_prefix(HUGE_PAGES)).collect();
            match sizes.into_iter().collect::<Vec<_>>().as_slice() {
                [size] => (*size).to_owned(),
                [] => return Err("medium HugePages: no container asks for hugepages-SIZE".to_owned()),
                _ => return Err("medium HugePages: containers ask for several sizes of pages".to_owned()),
            }
        }
    };
    let page = Amount::parse(&size).map(bytes).ok().filter(|page| *page >= 1024);
    let page = page.ok_or_else(|| format!("medium {medium}: {size:?} is not a size of pages"))?;
    Ok(HugePages { page, limit: limit_of(limit).map(bytes) })
}

/// Whether the node has such pages at all. Blocking.
///
/// # Errors
/// When it has none.
pub(super) fn check_huge_pages(pages: &HugePages) -> Result<(), VolumeError> {
    let kib = pages.page / 1024;
    let count = PathBuf::from(format!("/sys/kernel/mm/hugepages/hugepages-{kib}kB/nr_hugepages"));
    match read_text(&count).ok().and_then(|text| text.trim().parse::<u64>().ok()) {
        Some(1..) => Ok(()),
        _ => Err(VolumeError::HugePages(format!("the node has no huge pages of {kib} KiB"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pod::testing::pod_with;

    fn pod_of(main: Value, other: Value) -> Pod {
        let mut pod = pod_with("p", "u", "Always", &["main", "other"]);
        for (container, resources) in pod.spec.containers.iter_mut().zip([main, other]) {
            container.resources = Some(serde_json::from_value(resources).unwrap());
        }
        pod
    }

    #[test]
    fn the_least_limit_counts() {
        let node = NodeCapacity {
            cpu: Amount::whole(1),
            memory: Amount::whole(1000),
            ephemeral_storage: Amount::whole(1),
        };
        let memory = |limit: &str| json!({"limits": {"memory": limit}});
        let rows = [
            (memory("100"), memory("200"), None, 300),
            (memory("100"), memory("200"), Some("50"), 50),
            (memory("100"), memory("200"), Some("0"), 300),
            (memory("100"), memory("200"), Some("5000"), 300),
            (memory("100"), json!({}), None, 1000),
            (memory("100"), json!({}), Some("1Ki"), 1000),
            (memory("100"), json!({}), Some("999500m"), 1000),
            (memory("100"), json!({}), Some("0.5k"), 500),
        ];
        for (main, other, limit, expect) in rows {
            let limit = limit.map(|limit| Quantity(limit.to_owned()));
            assert_eq!(memory_size(&pod_of(main, other), limit.as_ref(), &node), expect, "{limit:?}");
        }
        let mut pod = pod_of(memory("100"), memory("200"));
        let init = json!([{"name": "i", "resources": memory("700")}, {"name": "s", "restartPolicy": "Always", "resources": memory("300")}]);
        pod.spec.init_containers = Some(serde_json::from_value(init).unwrap());
        assert_eq!(memory_size(&pod, None, &node), 700);
        pod.spec.resources = Some(serde_json::from_value(memory("10")).unwrap());
        assert_eq!(memory_size(&pod, None, &node), 10);
    }

    #[test]
    fn which_pages() {
        let asks = |name: &str| json!({"limits": {name: "4Mi"}});
        let rows = [
            ("HugePages-2Mi", json!({}), None, Ok("pagesize=2097152")),
            ("HugePages-1Gi", json!({}), Some("2Gi"), Ok("pagesize=1073741824,size=2147483648")),
            ("HugePages", asks("hugepages-2Mi"), None, Ok("pagesize=2097152")),
            ("HugePages", json!({}), None, Err("medium HugePages: no container asks for hugepages-SIZE")),
            ("HugePages-x", json!({}), None, Err("medium HugePages-x: \"x\" is not a size of pages")),
            (
                "HugePages",
                json!({"limits": {"hugepages-2Mi": "4Mi", "hugepages-1Gi": "1Gi"}}),
                None,
                Err("medium HugePages: containers ask for several sizes of pages"),
            ),
        ];
        for (medium, resources, limit, expect) in rows {
            let limit = limit.map(|limit: &str| Quantity(limit.to_owned()));
            let pages = plan_huge_pages(&pod_of(resources, json!({})), medium, limit.as_ref());
            let options = pages.map(|pages| pages.options());
            assert_eq!(options.as_deref().map_err(String::as_str), expect, "{medium}");
        }
        let none = HugePages { page: 3072, limit: None };
        assert_eq!(check_huge_pages(&none).unwrap_err().to_string(), "the node has no huge pages of 3 KiB");
    }
}
