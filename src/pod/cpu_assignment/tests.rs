//! Who gets which CPUs.

use serde_json::{Value, json};

use super::*;
use crate::pod::testing::pod;

/// So many packages with so many cores of two threads; the second threads have the higher numbers.
fn machine(sockets: u32, cores: u32) -> Topology {
    let all = sockets * cores;
    let place = |core: u32| Place { socket: core / cores, node: core / cores, first_thread: core };
    Topology((0..2 * all).map(|cpu| (cpu, place(cpu % all))).collect())
}

fn set(text: &str) -> CpuSet {
    CpuSet::parse(text).unwrap()
}

#[test]
fn whole_packages_then_whole_cores_then_threads() {
    let two = machine(2, 4);
    let rows = [
        ("0-15", 0, Some("")),
        ("0-15", 1, Some("0")),
        ("0-15", 2, Some("0,8")),
        ("0-15", 3, Some("0-1,8")),
        ("0-15", 8, Some("0-3,8-11")),
        ("0-15", 10, Some("0-4,8-12")),
        ("0-15", 16, Some("0-15")),
        ("0-15", 17, None),
        // A package of which something is taken cannot be had whole.
        ("1-15", 8, Some("4-7,12-15")),
        // The package with the fewest left first, and there the core that is broken already.
        ("1-15", 2, Some("1,9")),
        ("1-15", 1, Some("8")),
        ("1-15", 3, Some("1,8-9")),
        ("4-6,12", 1, Some("5")),
        ("4-6,12", 2, Some("4,12")),
    ];
    for (available, count, expect) in rows {
        let taken = two.take(&set(available), count).map(|taken| taken.to_string());
        assert_eq!(taken.as_deref(), expect, "{count} of {available}");
    }
    // Without threads.
    let plain = Topology((0..4).map(|cpu| (cpu, Place { socket: 0, node: 0, first_thread: cpu })).collect());
    assert_eq!(plain.take(&set("1-3"), 2), Some(set("1-2")));
}

fn pod_of(hash: &str, containers: Value, init: Value) -> Pod {
    let mut pod = pod("a", hash);
    pod.spec = serde_json::from_value(json!({"containers": containers, "initContainers": init})).unwrap();
    pod
}

fn container(name: &str, cpu: &str) -> Value {
    let amounts = json!({"cpu": cpu, "memory": "1Mi"});
    json!({"name": name, "resources": {"requests": amounts, "limits": amounts}})
}

#[test]
fn only_whole_cpus_of_guaranteed_pods_are_exclusive() {
    let burstable = json!({"name": "c", "resources": {"requests": {"cpu": "2"}}});
    for (containers, expect) in [
        (json!([container("c", "2")]), 2),
        (json!([container("c", "2000m")]), 2),
        (json!([container("c", "1500m")]), 0),
        (json!([container("c", "500m")]), 0),
        (json!([burstable]), 0),
        (json!([{"name": "c"}]), 0),
        (json!([container("c", "1"), {"name": "other"}]), 0),
        (json!([container("c", "1"), container("other", "100m")]), 1),
    ] {
        let pod = pod_of("1", containers.clone(), json!([]));
        assert_eq!(exclusive_cpus(&pod, &pod.spec.containers[0]), expect, "{containers}");
    }
}

#[test]
fn given_taken_back_and_checked() {
    let (machine, reserved) = (machine(1, 4), set("0,4"));
    let mut state = Assignments { shared: machine.all(), ..Assignments::default() };
    assert_eq!(state.find_fault(&machine, &reserved), None);
    let first = pod_of("1", json!([container("main", "2"), container("part", "500m")]), json!([]));
    assert_eq!(state.assign(&first, &machine, &reserved), Ok(true));
    assert_eq!(state.assign(&first, &machine, &reserved), Ok(false), "once");
    assert_eq!((state.of("1", "main"), state.of("1", "part")), (&set("1,5"), &set("0,2-4,6-7")));
    // What an init container has, those that run after it may have; a sidecar keeps its own.
    let mut sidecar = container("side", "1");
    sidecar["restartPolicy"] = json!("Always");
    let second = pod_of("2", json!([container("main", "2")]), json!([container("first", "2"), sidecar]));
    assert_eq!(state.assign(&second, &machine, &reserved), Ok(true));
    let own = &state.own["2"];
    assert_eq!(own["first"], set("2,6"));
    assert!(own["side"].is_apart_from(&own["main"]), "{own:?}");
    assert_eq!(state.find_fault(&machine, &reserved), None);
    let third = pod_of("3", json!([container("main", "4")]), json!([]));
    let before = state.clone();
    let error = state.assign(&third, &machine, &reserved).unwrap_err().to_string();
    let available = before.shared.minus(&reserved).len();
    assert_eq!(
        error,
        format!("not enough cpus available to satisfy request: requested=4, available={available}")
    );
    assert_eq!(state, before, "all or nothing");
    assert!(state.retain(|uid| uid.as_str() == "2") && !state.retain(|uid| uid.as_str() == "2"));
    assert!(state.retain(|_| false));
    assert_eq!(state, Assignments { shared: machine.all(), ..Assignments::default() });

    let own = BTreeMap::from([("1".to_owned(), before.own["1"].clone())]);
    let shared = |text: &str| Assignments { shared: set(text), own: own.clone() };
    assert!(shared("0,4").find_fault(&machine, &reserved).unwrap().contains("the machine has the CPUs 0-7"));
    assert!(shared("0-7").find_fault(&machine, &reserved).unwrap().contains("overlaps"));
    assert!(shared("4").find_fault(&machine, &reserved).unwrap().contains("reserved"));
}
