//! What beside the recorded messages becomes of requests and limits: cgroup v2, swap, quotas that are off.

use serde_json::{Value, json};

use super::super::{add_container_resources, add_sandbox_resources};
use super::{Prepared, container_config, decoded, json as messages, sandbox_config};
use crate::pod::dns::Dns;
use crate::pod::resources::{HugePageSize, NodeResources};

/// The node of the recording.
pub(super) fn recording_node() -> NodeResources {
    let size = |bytes, name: &str| HugePageSize { bytes, name: name.to_owned() };
    NodeResources {
        memory_capacity: 24 << 30,
        huge_page_sizes: vec![size(2 << 20, "2MB"), size(1 << 30, "1GB")],
        swap_controller: true,
        ..NodeResources::default()
    }
}

fn resources_of(resources: Value, overhead: Value, node: &NodeResources) -> (Value, Value, Value) {
    let manifest = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}], "overhead": overhead},
    });
    let pod = decoded(&manifest.to_string());
    let mut sandbox = sandbox_config(&pod, 0, "", Dns::default(), String::new());
    add_sandbox_resources(&mut sandbox, &pod, node, "/parent".to_owned());
    let mut container = container_config(&pod, &pod.spec.containers[0], Prepared::default());
    add_container_resources(&mut container, &pod, &pod.spec.containers[0], node);
    let (sandbox, container) = (messages::sandbox(&sandbox), messages::container(&container));
    assert_eq!(sandbox["linux"]["cgroup_parent"], "/parent");
    (
        sandbox["linux"]["resources"].clone(),
        sandbox["linux"]["overhead"].clone(),
        container["linux"]["resources"].clone(),
    )
}

#[test]
fn on_v2_swap_is_off_and_all_processes_are_killed_together() {
    let v2 = NodeResources {
        unified: true,
        single_process_oom_kill: false,
        huge_page_sizes: Vec::new(),
        ..recording_node()
    };
    let limits =
        json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}});
    let (sandbox, overhead, container) =
        resources_of(limits.clone(), json!({"cpu": "250m", "memory": "64Mi"}), &v2);
    let group = json!({"memory.oom.group": "1"});
    assert_eq!(
        sandbox,
        json!({"cpu_period": 100_000, "cpu_quota": 200_000, "cpu_shares": 512,
            "memory_limit_in_bytes": 1 << 30, "unified": group})
    );
    assert_eq!(
        overhead,
        json!({"cpu_period": 100_000, "cpu_quota": 25_000, "cpu_shares": 256,
            "memory_limit_in_bytes": 64 << 20, "unified": group})
    );
    assert_eq!(
        container,
        json!({"cpu_period": 100_000, "cpu_quota": 200_000, "cpu_shares": 512, "memory_limit_in_bytes": 1 << 30,
            "oom_score_adj": 959, "unified": {"memory.oom.group": "1", "memory.swap.max": "0"}})
    );

    // No quota, no control of swap, one process at a time.
    let plain =
        NodeResources { quota_period: None, swap_controller: false, single_process_oom_kill: true, ..v2 };
    let (sandbox, overhead, container) = resources_of(limits, json!(null), &plain);
    assert_eq!(sandbox, json!({"cpu_shares": 512, "memory_limit_in_bytes": 1 << 30}));
    assert_eq!(overhead, json!({}));
    assert_eq!(container, json!({"cpu_shares": 512, "memory_limit_in_bytes": 1 << 30, "oom_score_adj": 959}));
}

#[test]
fn huge_pages_are_limited_by_size() {
    let limits = json!({"limits": {"cpu": "1", "hugepages-2Mi": "4Mi"}});
    let (_, _, container) = resources_of(limits, json!(null), &recording_node());
    assert_eq!(
        container["hugepage_limits"],
        json!([{"page_size": "2MB", "limit": 4 << 20}, {"page_size": "1GB"}])
    );
}
