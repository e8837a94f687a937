//! Tables of what requests and limits become.

use serde_json::{Value, json};

use super::*;

fn spec(value: Value) -> PodSpec {
    serde_json::from_value(value).unwrap()
}

fn node() -> NodeResources {
    let size = HugePageSize { bytes: 2 << 20, name: "2MB".to_owned() };
    NodeResources {
        memory_capacity: 8_000_000_000,
        huge_page_sizes: vec![size],
        pod_pids_limit: Some(100),
        ..NodeResources::default()
    }
}

#[test]
fn shares_and_quotas() {
    for (milli, expect) in
        [(0, 2), (1, 2), (2, 2), (3, 3), (100, 102), (250, 256), (1000, 1024), (300_000, 262_144)]
    {
        assert_eq!(shares(milli), expect, "{milli}m");
    }
    let rows = [
        (0, 100_000, 0),
        (1, 100_000, 1000),
        (10, 100_000, 1000),
        (11, 100_000, 1100),
        (500, 100_000, 50_000),
        (1500, 100_000, 150_000),
        (100, 5_000, 1000),
        (500, 10_000, 5_000),
    ];
    for (milli, period, expect) in rows {
        assert_eq!(quota(milli, period), expect, "{milli}m of {period}");
    }
}

#[test]
fn figures_of_a_container() {
    // Resources of the container, of the pod; shares, quota, memory limit.
    let rows = [
        (json!({}), json!(null), (2, 0, 0)),
        (json!({"requests": {"cpu": "100m", "memory": "100Mi"}}), json!(null), (102, 0, 0)),
        (json!({"limits": {"cpu": "500m", "memory": "64Mi"}}), json!(null), (512, 50_000, 64 << 20)),
        (json!({"requests": {"cpu": "0"}, "limits": {"cpu": "2"}}), json!(null), (2, 200_000, 0)),
        (json!({"requests": {"cpu": "100u"}, "limits": {"memory": "1500m"}}), json!(null), (2, 0, 2)),
        (json!({}), json!({"limits": {"cpu": "1", "memory": "1Gi"}}), (1024, 100_000, 1 << 30)),
        (
            json!({"limits": {"memory": "1Mi"}}),
            json!({"limits": {"cpu": "1", "memory": "1Gi"}}),
            (1024, 100_000, 1 << 20),
        ),
    ];
    for (own, whole, (cpu_shares, cpu_quota, memory_limit)) in rows {
        let spec = spec(json!({"containers": [{"name": "c", "resources": own}], "resources": whole}));
        let expect = Figures { cpu_shares, cpu_quota, cpu_period: 100_000, memory_limit };
        assert_eq!(container_figures(&spec, &spec.containers[0], &node()), expect, "{own} {whole}");
        let no_quota = NodeResources { quota_period: None, ..node() };
        let expect = Figures { cpu_quota: 0, cpu_period: 0, ..expect };
        assert_eq!(container_figures(&spec, &spec.containers[0], &no_quota), expect, "{own} {whole}");
    }
}

#[test]
fn who_is_killed_first() {
    let memory = |request: &str| json!({"requests": {"memory": request}});
    let full = json!({"requests": {"cpu": "1", "memory": "1G"}, "limits": {"cpu": "1", "memory": "1G"}});
    // The container in question is the first of the containers, or the init container.
    let rows = [
        (json!({"containers": [{"name": "c"}]}), 1000),
        (json!({"containers": [{"name": "c", "resources": full}]}), -997),
        (json!({"containers": [{"name": "c"}], "priorityClassName": "system-node-critical"}), -997),
        (json!({"containers": [{"name": "c"}], "priorityClassName": "system-cluster-critical"}), 1000),
        (json!({"containers": [{"name": "c", "resources": memory("800M")}]}), 900),
        (json!({"containers": [{"name": "c", "resources": memory("1")}]}), 999),
        (json!({"containers": [{"name": "c", "resources": memory("7999M")}]}), 3),
        (json!({"containers": [{"name": "c", "resources": memory("80G")}]}), 3),
        (json!({"containers": [{"name": "c"}, {"name": "d", "resources": full}]}), 999),
        // A sidecar is killed no sooner than the least of what it serves; another init container may be.
        (
            json!({"containers": [{"name": "c", "resources": memory("800M")}, {"name": "d", "resources": full}],
                "initContainers": [{"name": "i", "restartPolicy": "Always"}]}),
            900,
        ),
        (
            json!({"containers": [{"name": "c", "resources": memory("800M")}],
                "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": memory("1600M")}]}),
            800,
        ),
        (
            json!({"containers": [{"name": "c", "resources": memory("800M")}], "initContainers": [{"name": "i"}]}),
            999,
        ),
        // The figures of these, as of those below, are what kubelet 1.36.4 itself computes.
        (json!({"containers": [{"name": "c", "resources": memory("123456789")}]}), 985),
        (json!({"containers": [{"name": "c", "resources": memory("1")}]}), 999),
        (json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}), 999),
        (json!({"containers": [{"name": "c", "resources": memory("7999M")}]}), 3),
        (json!({"containers": [{"name": "c", "resources": memory("9G")}]}), 3),
        (
            json!({"priorityClassName": "system-cluster-critical",
                "containers": [{"name": "c", "resources": memory("800M")}]}),
            900,
        ),
        (
            json!({"containers": [{"name": "c", "resources": memory("800M")}, {"name": "d", "resources": memory("400M")}],
                "initContainers": [{"name": "i", "restartPolicy": "Always"}]}),
            950,
        ),
        (
            json!({"containers": [{"name": "c", "resources": memory("800M")}, {"name": "d", "resources": memory("400M")}],
                "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": memory("100M")}],
                "resources": memory("2401M")}),
            905,
        ),
        // What the pod requests beyond is divided.
        (
            json!({"containers": [{"name": "c", "resources": memory("800M")}, {"name": "d"}],
                "resources": memory("2400M")}),
            800,
        ),
        // An init container counts too, and needs its own before the others begin.
        (
            json!({"containers": [{"name": "c", "resources": memory("800M")}],
                "initContainers": [{"name": "i", "resources": memory("1600M")}], "resources": memory("2400M")}),
            750,
        ),
    ];
    for (value, expect) in rows {
        let spec = spec(value.clone());
        let of = spec.init_containers.iter().flatten().next().unwrap_or(&spec.containers[0]);
        assert_eq!(oom_score_adj(&spec, of, 8_000_000_000), expect, "{value}");
    }
    let burstable = spec(json!({"containers": [{"name": "c", "resources": memory("1")}]}));
    assert_eq!(oom_score_adj(&burstable, &burstable.containers[0], 0), 3, "the kernel did not say");
}

#[test]
fn figures_of_a_pod() {
    let limited =
        json!({"limits": {"cpu": "500m", "memory": "64Mi"}, "requests": {"cpu": "250m", "memory": "64Mi"}});
    let same =
        json!({"limits": {"cpu": "500m", "memory": "64Mi"}, "requests": {"cpu": "500m", "memory": "64Mi"}});
    let huge = json!({"limits": {"cpu": "1", "hugepages-2Mi": "4Mi"}, "requests": {"cpu": "1", "hugepages-2Mi": "4Mi"}});
    // Shares, quota, memory, huge pages.
    let rows = [
        (json!({"containers": [{"name": "c"}]}), (2, None, None, 0)),
        (json!({"containers": [{"name": "c", "resources": same}]}), (512, Some(50_000), Some(64 << 20), 0)),
        (
            json!({"containers": [{"name": "c", "resources": limited}, {"name": "d", "resources": limited}]}),
            (512, Some(100_000), Some(128 << 20), 0),
        ),
        (json!({"containers": [{"name": "c", "resources": limited}, {"name": "d"}]}), (256, None, None, 0)),
        (
            json!({"containers": [{"name": "c", "resources": limited}], "initContainers": [{"name": "i"}]}),
            (256, None, None, 0),
        ),
        (
            json!({"containers": [{"name": "c", "resources": limited}], "overhead": {"cpu": "250m", "memory": "1Mi"}}),
            (512, Some(75_000), Some(65 << 20), 0),
        ),
        (
            json!({"containers": [{"name": "c"}], "resources": {"limits": {"memory": "1Gi"}, "requests": {"memory": "1Gi"}}}),
            (2, None, Some(1 << 30), 0),
        ),
        (json!({"containers": [{"name": "c", "resources": huge}]}), (1024, Some(100_000), None, 4 << 20)),
    ];
    for (value, (cpu_shares, quota, memory_limit, pages)) in rows {
        let expect = PodFigures {
            cpu_shares: Some(cpu_shares),
            cpu_quota: quota.map(|quota| (quota, 100_000)),
            memory_limit,
            pids_limit: Some(100),
            huge_page_limits: vec![("2MB".to_owned(), pages)],
        };
        assert_eq!(pod_figures(&spec(value.clone()), &node()), expect, "{value}");
    }
}
