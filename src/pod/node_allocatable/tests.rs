//! What is left of a node for its pods, by case.

use super::*;

fn amounts(list: &[(&str, &str)]) -> ResourceAmounts {
    list.iter().map(|(name, text)| ((*name).to_owned(), Amount::parse(text).unwrap())).collect()
}

fn texts(list: &ResourceAmounts) -> String {
    list.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(" ")
}

const NODE: &[(&str, &str)] = &[
    ("cpu", "4"),
    ("ephemeral-storage", "10000"),
    ("hugepages-2Mi", "0"),
    ("memory", "8Gi"),
    ("pid", "32768"),
    ("pods", "110"),
];

#[test]
fn reservations_and_thresholds_are_taken_off() {
    let (none, quantity) = (None, |text| Some(Threshold::Quantity(Amount::parse(text).unwrap())));
    let rows: [(&[_], &[_], &[_], _, _, &str, &str); 7] = [
        (
            NODE,
            &[],
            &[],
            none,
            none,
            "cpu=4 ephemeral-storage=10k hugepages-2Mi=0 memory=8Gi pods=110",
            "cpu=4 ephemeral-storage=10k hugepages-2Mi=0 memory=8Gi pid=32768 pods=110",
        ),
        // kubelet's default thresholds: they are no limit of the cgroup.
        (
            NODE,
            &[],
            &[],
            quantity("100Mi"),
            Some(Threshold::Part(0.1)),
            "cpu=4 ephemeral-storage=9k hugepages-2Mi=0 memory=8092Mi pods=110",
            "cpu=4 ephemeral-storage=10k hugepages-2Mi=0 memory=8Gi pid=32768 pods=110",
        ),
        (
            NODE,
            &[("cpu", "500m"), ("memory", "1Gi"), ("pid", "1000"), ("ephemeral-storage", "1k")],
            &[("cpu", "1"), ("memory", "512Mi"), ("pid", "768")],
            quantity("1Gi"),
            none,
            "cpu=2500m ephemeral-storage=9k hugepages-2Mi=0 memory=5632Mi pods=110",
            "cpu=2500m ephemeral-storage=9k hugepages-2Mi=0 memory=6656Mi pid=31k pods=110",
        ),
        // A percentage is of the capacity, in kubelet's single precision.
        (&[("memory", "1000000")], &[], &[], Some(Threshold::Part(0.05)), none, "memory=950k", "memory=1M"),
        // Huge pages are memory that others cannot use; the cgroup keeps its limit.
        (
            &[("hugepages-1Gi", "2Gi"), ("hugepages-2Mi", "512Mi"), ("memory", "8Gi")],
            &[],
            &[],
            none,
            none,
            "hugepages-1Gi=2Gi hugepages-2Mi=512Mi memory=5632Mi",
            "hugepages-1Gi=2Gi hugepages-2Mi=512Mi memory=8Gi",
        ),
        // Nothing is negative.
        (
            &[("cpu", "1"), ("hugepages-2Mi", "1Gi"), ("memory", "1Gi")],
            &[("cpu", "2"), ("memory", "1Gi")],
            &[("memory", "1Gi")],
            none,
            none,
            "cpu=0 hugepages-2Mi=1Gi memory=0",
            "cpu=0 hugepages-2Mi=1Gi memory=0",
        ),
        // What the node does not have cannot be reserved.
        (&[("cpu", "1")], &[("memory", "1Gi")], &[], quantity("1Gi"), none, "cpu=1", "cpu=1"),
    ];
    for (capacity, kube, system, memory_threshold, disk_threshold, requestable, limit) in rows {
        let reserved =
            Reservations { kube: amounts(kube), system: amounts(system), memory_threshold, disk_threshold };
        let capacity = amounts(capacity);
        assert_eq!(texts(&allocatable(&capacity, &reserved)), requestable, "{reserved:?}");
        assert_eq!(texts(&enforced(&capacity, &reserved)), limit, "{reserved:?}");
    }
}

#[test]
fn reserved_cpus_count_instead_of_amounts() {
    let written = Reservations {
        kube: amounts(&[("cpu", "500m"), ("memory", "1Gi")]),
        system: amounts(&[("cpu", "1")]),
        ..Reservations::default()
    };
    for (count, cpu) in [(0, "2500m"), (1, "3"), (3, "1"), (5, "0")] {
        let reserved = written.clone().with_reserved_cpus(count);
        assert_eq!(allocatable(&amounts(NODE), &reserved)["cpu"].to_string(), cpu, "{count}");
        assert_eq!(allocatable(&amounts(NODE), &reserved)["memory"].to_string(), "7Gi", "{count}");
    }
}

#[test]
fn more_reserved_than_there_is() {
    let reserved = Reservations {
        kube: amounts(&[("cpu", "3"), ("memory", "8Gi")]),
        system: amounts(&[("cpu", "1")]),
        memory_threshold: Some(Threshold::Part(0.5)),
        ..Reservations::default()
    };
    let found = find_excess(&amounts(NODE), &reserved);
    assert_eq!(found, ["12Gi of memory are reserved, and the node has 8Gi"]);
}

#[test]
fn how_many_pods() {
    for (max, per_core, cores, expect) in
        [(110, 0, 4, "110"), (110, 10, 4, "40"), (20, 10, 4, "20"), (0, 0, 4, "0")]
    {
        assert_eq!(pods_capacity(max, per_core, cores).to_string(), expect);
    }
}
