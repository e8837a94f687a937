//! A sandbox that dies again and again is made anew, and each time later.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::manifest;
use crate::rig::{BUSYBOX, GATED, Gate, Rig, wait_until};

#[test]
fn sandboxes_that_die_at_once_are_made_at_growing_intervals() {
    let rig = Rig::new();
    let _gate = Gate::closed(&rig);
    rig.write_manifest("pod.yaml", &manifest::idle("pod").replace(BUSYBOX, &format!("{GATED}/app:1")));
    let _agent = rig.start_agent(&[]);
    // When each was made; while its image is pulled, its process is killed.
    let mut made: BTreeMap<u32, i64> = BTreeMap::new();
    let in_time = wait_until(Duration::from_secs(60), || {
        for sandbox in rig.ready_sandboxes("default", "pod-node1") {
            if sandbox.pid != 0 && made.insert(sandbox.attempt, sandbox.created_at).is_none() {
                rig.kill_process(sandbox.pid);
            }
        }
        made.len() >= 5
    });
    assert!(in_time, "{made:?}\n{}", rig.report());
    let times: Vec<i64> = made.values().copied().collect();
    let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e9).collect();
    println!("seconds between sandboxes: {gaps:?}");
    assert_eq!(made.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3, 4], "none went unseen");
    assert!(gaps[1] >= 1.0 && gaps[2] >= 2.0 && gaps[3] >= 4.0, "{gaps:?}");
}
