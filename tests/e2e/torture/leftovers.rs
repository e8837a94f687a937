//! What pods leave behind on a machine, wherever it may lie.

use std::fs;
use std::time::Instant;

use super::REST;
use crate::rig::{Rig, wait_until};

/// What a machine without pods does not have.
fn leftovers(rig: &Rig) -> Vec<String> {
    let mut left: Vec<String> = Vec::new();
    left.extend(rig.sandboxes().into_iter().map(|seen| format!("sandbox {} of {}", seen.id, seen.pod)));
    left.extend(rig.containers().into_iter().map(|seen| format!("container {} of {}", seen.id, seen.pod())));
    for dir in [rig.root_dir().join("pods"), rig.pod_logs_dir(), rig.container_links_dir()] {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        left.extend(entries.map(|entry| entry.path().display().to_string()));
    }
    let socket = rig.endpoint().trim_start_matches("unix://").to_owned();
    // Whatever CRI does not tell: containerd's own containers and tasks, networks, addresses, mounts, and shims that
    // hold a process.
    let rest = rig.output(
        "sh",
        &[
            "-c",
            &format!(
                "for kind in containers tasks; do ctr --address {socket} -n k8s.io $kind ls -q | sed \"s/^/$kind /\"; done
                 ls /run/netns 2>/dev/null | sed 's/^/netns /'
                 ls /var/lib/cni/networks/rig 2>/dev/null | grep '^[0-9]' | sed 's/^/address /'
                 grep -e {0}/containerd-state -e {0}/kubelet -e /run/netns/ /proc/mounts | sed 's/^/mount /'
                 for shim in $(grep -l containerd-shim /proc/[0-9]*/comm 2>/dev/null); do
                   held=$(cat ${{shim%comm}}task/*/children 2>/dev/null)
                   [ -n \"$held\" ] && echo shim $shim holds $held
                 done
                 true",
                rig.dir().display()
            ),
        ],
    );
    left.extend(rest.lines().map(str::to_owned));
    let Shims { empty, lost } = empty_shims(rig);
    if empty > lost {
        left.push(format!("{empty} empty shims, {lost} of them lost by containerd"));
    }
    left
}

/// Waits until nothing is left of any pod.
pub(super) fn wait_for_nothing(rig: &Rig) {
    let begun = Instant::now();
    let mut left = Vec::new();
    wait_until(REST, || {
        left = leftovers(rig);
        left.is_empty()
    });
    assert!(left.is_empty(), "{left:#?}\n{}", rig.report());
    eprintln!("all gone after {:?}, but for {} empty shims", begun.elapsed(), empty_shims(rig).empty);
}

/// Shims, once nothing is held by any.
struct Shims {
    empty: usize,
    /// containerd 1.6 leaves one behind when its caller vanishes while the shim starts; it says so in its log, and knows
    /// no more of it.
    lost: usize,
}

fn empty_shims(rig: &Rig) -> Shims {
    let shims =
        rig.output("sh", &["-c", "cat /proc/[0-9]*/comm 2>/dev/null | grep -c containerd-shim; true"]);
    let log = fs::read_to_string(rig.dir().join("containerd.log")).expect("containerd's log");
    let lost = log.lines().filter(|line| line.contains("failed to start shim")).count();
    Shims { empty: shims.trim().parse().expect("a number"), lost }
}
