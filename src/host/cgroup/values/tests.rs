//! What the files of a cgroup are given, by case.

use super::*;

fn figures(quota: Option<(i64, i64)>) -> PodFigures {
    PodFigures {
        cpu_shares: Some(512),
        cpu_quota: quota,
        memory_limit: Some(64 << 20),
        pids_limit: Some(50),
        huge_page_limits: vec![("2MB".into(), 0)],
    }
}

#[test]
fn shares_become_weights_as_kubelet_converts_them() {
    for (shares, expect) in
        [(0, 1), (2, 1), (10, 1), (102, 4), (512, 20), (1024, 39), (2048, 79), (262_144, 10_000)]
    {
        assert_eq!(weight(shares), expect, "{shares}");
    }
}

#[test]
fn properties_of_a_slice() {
    use Property::U64;
    let pids = U64("TasksMax", 50);
    let rows: [(_, bool, &[Property]); 5] = [
        (figures(None), true, &[U64("CPUWeight", 20), U64("MemoryMax", 64 << 20), pids.clone()]),
        (figures(None), false, &[U64("CPUShares", 512), U64("MemoryLimit", 64 << 20), pids.clone()]),
        // Half a CPU, and a period that only newer versions of systemd know.
        (
            PodFigures { pids_limit: Some(0), ..figures(Some((25_000, 50_000))) },
            true,
            &[
                U64("CPUWeight", 20),
                U64("MemoryMax", 64 << 20),
                U64("CPUQuotaPeriodUSec", 50_000),
                U64("CPUQuotaPerSecUSec", 500_000),
                U64("TasksMax", 1),
            ],
        ),
        // 12.3 % of a CPU are 13 % to systemd.
        (
            figures(Some((12_300, 100_000))),
            true,
            &[U64("CPUWeight", 20), U64("MemoryMax", 64 << 20), U64("CPUQuotaPerSecUSec", 130_000), pids],
        ),
        (PodFigures::default(), true, &[]),
    ];
    for (figures, unified, expect) in rows {
        assert_eq!(slice_values(&figures, unified), expect, "{figures:?}");
    }
    for (quota, expect) in
        [((12_300, 100_000), 13_000), ((50_000, 100_000), 50_000), ((1_000, 50_000), 1_000)]
    {
        let rounded = for_systemd(figures(Some(quota)));
        assert_eq!(rounded.cpu_quota, Some((expect, quota.1)), "{quota:?}");
    }
    let properties = slice_properties("kubepods-podx.slice", "kubepods.slice", true);
    assert_eq!(properties[1], Property::Units("Wants", vec!["kubepods.slice".into()]));
    assert!(properties.contains(&Property::Bool("IOAccounting", true)));
    assert!(slice_properties("a", "b", false).contains(&Property::Bool("BlockIOAccounting", true)));
}
