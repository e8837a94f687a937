//! Who fits where, and who makes room.

use serde_json::{Value, json};

use super::preemption::{Candidate, select_victims};
use super::*;
use crate::pod::PodName;
use crate::pod::qos::QosClass;
use crate::pod::testing::pod;

fn requests(all: &[(&str, i64)]) -> Requests {
    all.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect()
}

fn pod_of(spec: Value) -> Pod {
    let mut pod = pod("a", "1");
    pod.spec = serde_json::from_value(spec).unwrap();
    pod
}

fn node() -> NodeLimits {
    let labels = [("rack", "a"), ("slot", "7"), ("kubernetes.io/os", "linux")];
    NodeLimits {
        name: "node1".into(),
        labels: labels.map(|(label, value)| (label.to_owned(), value.to_owned())).into(),
        ..NodeLimits::default()
    }
}

#[test]
fn requests_are_those_of_the_pod_as_the_scheduler_counts_them() {
    let resources = |cpu: &str| json!({"requests": {"cpu": cpu, "memory": "1Mi", "example.com/gpu": "2"}});
    let spec = json!({
        "initContainers": [{"name": "i", "resources": resources("2")}],
        "containers": [{"name": "a", "resources": resources("500m")}, {"name": "b", "resources": resources("1")}],
    });
    let expect = [("pods", 1), ("cpu", 2000), ("memory", 2 << 20), ("example.com/gpu", 4)];
    assert_eq!(Requests::of(&pod_of(spec)), requests(&expect));
    assert_eq!(Requests::of(&pod_of(json!({"containers": [{"name": "a"}]}))), requests(&[("pods", 1)]));
}

#[test]
fn what_is_short_is_named_as_kubelet_names_it() {
    let allocatable = requests(&[("pods", 2), ("cpu", 2000), ("memory", 100), ("ephemeral-storage", 50)]);
    let used = requests(&[("pods", 1), ("cpu", 1500), ("memory", 40)]);
    let rows: [(&[(&str, i64)], &[&str]); 9] = [
        (&[("pods", 1)], &[]),
        (&[("pods", 1), ("cpu", 500), ("memory", 60), ("ephemeral-storage", 50)], &[]),
        (&[("pods", 2)], &["OutOfpods"]),
        (&[("pods", 1), ("cpu", 501)], &["OutOfcpu"]),
        (&[("pods", 1), ("memory", 61), ("cpu", 501)], &["OutOfcpu", "OutOfmemory"]),
        (&[("ephemeral-storage", 51)], &["OutOfephemeral-storage"]),
        (&[("example.com/gpu", 1)], &["OutOfexample.com/gpu"]),
        (&[("example.com/gpu", 0)], &[]),
        (&[("hugepages-2Mi", 1), ("memory", 61)], &["OutOfmemory", "OutOfhugepages-2Mi"]),
    ];
    for (wanted, expect) in rows {
        let found = find_shortages(&requests(wanted), &used, &allocatable);
        let reasons: Vec<_> = found.iter().map(|shortage| shortage.refusal().reason).collect();
        assert_eq!(reasons, expect, "{wanted:?}");
    }
    let short = &find_shortages(&requests(&[("cpu", 600)]), &used, &allocatable)[0];
    let message = "Node didn't have enough resource: cpu, requested: 600, used: 1500, capacity: 2000";
    assert_eq!((short.refusal().message.as_str(), short.missing()), (message, 100));
    // A node that has shrunk below what is used.
    let used = requests(&[("memory", 150)]);
    assert_eq!(find_shortages(&requests(&[("memory", 1)]), &used, &allocatable)[0].missing(), 51);
}

#[test]
fn selectors_and_affinity_against_the_nodes_labels() {
    let affinity = |terms: Value| {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": terms,
        }}}})
    };
    let expression = |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
    let one = |key: &str, operator: &str, values: &[&str]| {
        affinity(json!([{"matchExpressions": [expression(key, operator, values)]}]))
    };
    let rows = [
        (json!({}), true),
        (json!({"nodeSelector": {"rack": "a"}}), true),
        (json!({"nodeSelector": {"rack": "b"}}), false),
        (json!({"nodeSelector": {"rack": "a", "disk": "ssd"}}), false),
        (one("rack", "In", &["b", "a"]), true),
        (one("rack", "In", &["b"]), false),
        (one("disk", "In", &["ssd"]), false),
        (one("rack", "NotIn", &["a"]), false),
        (one("disk", "NotIn", &["ssd"]), true),
        (one("rack", "Exists", &[]), true),
        (one("disk", "Exists", &[]), false),
        (one("disk", "DoesNotExist", &[]), true),
        (one("slot", "Gt", &["6"]), true),
        (one("slot", "Gt", &["7"]), false),
        (one("slot", "Lt", &["8"]), true),
        (one("rack", "Lt", &["8"]), false),
        (one("rack", "Like", &["a"]), false),
        (affinity(json!([])), false),
        (affinity(json!([{}])), false),
        (affinity(json!([{}, {"matchExpressions": [expression("rack", "Exists", &[])]}])), true),
        (affinity(json!([{"matchFields": [expression("metadata.name", "In", &["node1"])]}])), true),
        (affinity(json!([{"matchFields": [expression("metadata.name", "In", &["node2"])]}])), false),
        (affinity(json!([{"matchFields": [expression("metadata.uid", "Exists", &[])]}])), false),
    ];
    for (mut spec, fits) in rows {
        spec["containers"] = json!([]);
        let found = find_mismatch(&pod_of(spec.clone()), &node());
        assert_eq!(found.map(|waiting| waiting.reason), (!fits).then(|| "NodeAffinity".to_owned()), "{spec}");
    }
}

#[test]
fn the_reason_is_the_first_one_that_kubelet_finds() {
    let sysctl = json!({"sysctls": [{"name": "kernel.msgmax", "value": "1"}]});
    let apparmor = json!({"appArmorProfile": {"type": "RuntimeDefault"}});
    let elsewhere = json!({"rack": "b"});
    let rows = [
        (json!({"containers": []}), None, None),
        (json!({"containers": []}), Some("windows"), Some("PodOSSelectorNodeLabelDoesNotMatch")),
        (json!({"containers": []}), Some("linux"), None),
        (json!({"containers": [], "securityContext": sysctl}), Some("windows"), Some("SysctlForbidden")),
        (json!({"containers": [], "securityContext": apparmor}), None, Some("AppArmor")),
        (
            json!({"containers": [], "securityContext": apparmor, "nodeSelector": elsewhere}),
            None,
            Some("NodeAffinity"),
        ),
    ];
    for (spec, os, expect) in rows {
        let mut pod = pod_of(spec.clone());
        pod.metadata.labels = os.map(|os| [(OS_LABEL.to_owned(), os.to_owned())].into());
        let found = find_mismatch(&pod, &node());
        assert_eq!(found.map(|waiting| waiting.reason).as_deref(), expect, "{spec} {os:?}");
    }
}

#[test]
fn the_fewest_and_least_important_make_room() {
    use QosClass::{BestEffort, Burstable, Guaranteed};
    let candidate = |name: &str, class, memory, cpu| Candidate {
        name: PodName::new("default", name),
        class,
        requests: requests(&[("pods", 1), ("memory", memory), ("cpu", cpu)]),
    };
    let all = [
        candidate("best", BestEffort, 0, 0),
        candidate("some", Burstable, 100, 100),
        candidate("more", Burstable, 300, 300),
        candidate("same", Guaranteed, 200, 200),
        candidate("most", Guaranteed, 500, 500),
    ];
    let rows: [(&[(&str, i64)], Option<&[&str]>); 10] = [
        (&[], Some(&[])),
        // The nearest of the class that suffices.
        (&[("memory", 100)], Some(&["some"])),
        (&[("memory", 200)], Some(&["more"])),
        (&[("memory", 350)], Some(&["more", "some"])),
        (&[("memory", 400)], Some(&["more", "some"])),
        // A Guaranteed one only where all others are not enough, and then instead of them.
        (&[("memory", 600)], Some(&["more", "some", "same"])),
        (&[("memory", 1000)], Some(&["more", "most", "same"])),
        (&[("memory", 1101)], None),
        (&[("pods", 1)], Some(&["best"])),
        (&[("pods", 2), ("cpu", 300)], Some(&["best", "more"])),
    ];
    for (missing, expect) in rows {
        let shortage = |(resource, requested): &(&str, i64)| Shortage {
            resource: (*resource).to_owned(),
            requested: *requested,
            used: 0,
            capacity: 0,
        };
        let missing: Vec<_> = missing.iter().map(shortage).collect();
        let victims = select_victims(&all, &missing);
        let names = victims.map(|all| all.into_iter().map(|name| name.name).collect::<Vec<_>>());
        let expect = expect.map(|names| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(names, expect, "{missing:?}");
    }
}
