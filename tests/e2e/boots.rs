//! A boot is no crash: what ended because the machine went down starts at once, however often that happens.

use std::fs;
use std::time::{Duration, Instant};

use crate::manifest;
use crate::rig::{ContainerSeen, ContainerState, Rig, wait_until};

/// Gives the machine a boot id, as a boot does.
fn set_boot_id(rig: &Rig, number: u32) {
    // In place: the file is mounted over the kernel's.
    fs::write(rig.dir().join("boot_id"), format!("00000000-0000-4000-8000-{number:012}\n"))
        .expect("write the boot id");
}

/// Puts a boot id of the test's own in the place of the kernel's.
fn own_boot_id(rig: &Rig) {
    set_boot_id(rig, 0);
    let file = rig.dir().join("boot_id");
    rig.output("mount", &["--bind", &file.display().to_string(), "/proc/sys/kernel/random/boot_id"]);
}

/// Cuts the power: every process ends at once, and what lies in memory is lost. Then the machine boots.
fn power_cut(rig: &Rig, number: u32) {
    rig.stop_containerd();
    let state = rig.dir().join("containerd-state").display().to_string();
    // Everything but the machine's first process and this shell. The network of a pod goes with its namespace.
    let script = "case $(tr '\\0' ' ' < /proc/1/cmdline) in *pause*--stdin*) ;; *) echo 'not in the rig'; exit 1 ;; esac\n\
         for process in /proc/[0-9]*; do pid=${process#/proc/}\n\
         [ $pid = 1 ] || [ $pid = $$ ] || kill -9 $pid 2>/dev/null || :; done\n\
         umount -l /run/netns/* 2>/dev/null || :\n\
         awk -v state=\"$1\" 'index($5, state) == 1 { print $5 }' /proc/self/mountinfo | sort -r | \
           while read -r mount; do umount -l \"$mount\"; done\n\
         rm -rf /run/netns /run/rkubelet \"$1\"";
    rig.output("sh", &["-e", "-c", script, "sh", &state]);
    set_boot_id(rig, number);
    rig.start_containerd();
}

fn crashes(container: &ContainerSeen) -> u32 {
    container.annotations.get("rkubelet.dev/crashes").map_or(0, |count| count.parse().expect("a number"))
}

#[test]
fn power_cuts_in_a_row_delay_no_pod_and_crashes_still_count() {
    let rig = Rig::new();
    own_boot_id(&rig);
    rig.write_manifest("pod.yaml", &manifest::idle("pod"));
    let mut agent = rig.start_agent(&[]);
    let mut running = rig.wait_running("pod-node1", "main");
    for boot in 1..=3 {
        agent.kill9();
        power_cut(&rig, boot);
        let gone = rig.containers_of("pod-node1").iter().all(|seen| seen.state != ContainerState::Running);
        assert!(gone, "the power was cut: {}", rig.report());
        let started = Instant::now();
        agent = rig.start_agent(&[]);
        running = rig.wait_running("pod-node1", "main");
        assert!(started.elapsed() < Duration::from_secs(9), "boot {boot}: {:?}", started.elapsed());
        assert_eq!(crashes(&running), 0, "boot {boot}: {}", rig.report());
    }
    // The first crash of this boot is followed by a restart at once, the second by a wait.
    rig.kill_process(running.pid);
    rig.wait("the restart", || {
        let all = rig.containers_of("pod-node1");
        let next =
            all.into_iter().find(|seen| seen.state == ContainerState::Running && seen.id != running.id);
        next.map(|next| running = next).is_some()
    });
    assert_eq!(crashes(&running), 1, "{}", rig.report());
    rig.kill_process(running.pid);
    let id = running.id.clone();
    let restarted = || {
        let all = rig.containers_of("pod-node1");
        all.iter().any(|seen| seen.state == ContainerState::Running && seen.id != id)
    };
    assert!(!wait_until(Duration::from_secs(5), restarted), "it waits: {}", rig.report());
    rig.wait("the end of the back-off", restarted);
    let second = rig.wait_running("pod-node1", "main");
    assert_eq!(crashes(&second), 2, "{}", rig.report());
}
