//! Files of the node whose change restarts or signals the containers that mount them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::rig::{BUSYBOX, NODE, Rig};

/// A pod that tells what is in its file at its start and at every SIGHUP.
fn pod(name: &str, dir: &Path, file: &str, on_change: &str, policy: &str) -> String {
    let dir = dir.display();
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  annotations:\n    rkubelet.dev/watch-files: {dir}/{file}\n    \
         rkubelet.dev/on-change: {on_change}\nspec:\n  restartPolicy: {policy}\n  terminationGracePeriodSeconds: 2\n  \
         volumes: [{{name: h, hostPath: {{path: {dir}}}}}]\n  containers:\n  - name: main\n    image: {BUSYBOX}\n    \
         volumeMounts: [{{name: h, mountPath: /h}}]\n    command:\n    - sh\n    - -c\n    - |\n      \
         trap 'echo hup $(cat /h/{file})' HUP\n      trap 'exit 0' TERM\n      echo start $(cat /h/{file})\n      \
         while :; do sleep 1000 & wait $!; done\n  - name: other\n    image: {BUSYBOX}\n    command: [sleep, '1000']\n"
    )
}

/// What all containers `main` of a pod have said.
fn said(rig: &Rig, name: &str) -> Vec<String> {
    let mut found: Vec<_> = rig.containers_of(&format!("{name}-{NODE}"));
    found.retain(|container| container.log_path.contains("/main/"));
    found.sort_by(|a, b| a.log_path.cmp(&b.log_path));
    let text = found.iter().map(|container| fs::read_to_string(&container.log_path).unwrap_or_default());
    let lines = text.collect::<String>();
    lines.lines().filter_map(|line| Some(line.split_once(" stdout F ")?.1.to_owned())).collect()
}

fn replace(dir: &Path, file: &str, text: &str) {
    fs::write(dir.join("new"), text).expect("write a file");
    fs::rename(dir.join("new"), dir.join(file)).expect("rename a file");
}

#[test]
fn a_renewed_file_restarts_or_signals_whoever_mounts_it() {
    let rig = Rig::new();
    let dir = rig.dir().join("ssl");
    fs::create_dir_all(dir.join("archive/1")).expect("create a directory");
    fs::create_dir_all(dir.join("archive/2")).expect("create a directory");
    fs::write(dir.join("a.crt"), "one").expect("write a file");
    for n in ["1", "2"] {
        fs::write(dir.join("archive").join(n).join("b.crt"), n).expect("write a file");
    }
    symlink("archive/1", dir.join("live")).expect("create a link");
    rig.write_manifest("restart.yaml", &pod("restart", &dir, "a.crt", "restart", "Always"));
    rig.write_manifest("never.yaml", &pod("never", &dir, "a.crt", "restart", "Never"));
    rig.write_manifest("signal.yaml", &pod("signal", &dir, "a.crt", "signal:HUP", "Always"));
    rig.write_manifest("link.yaml", &pod("link", &dir, "live/b.crt", "signal:HUP", "Always"));
    let _agent = rig.start_agent(&[]);
    let wait = |name: &str, expect: &[&str]| {
        rig.wait(&format!("{name} to say {expect:?}"), || said(&rig, name) == expect);
    };
    for name in ["restart", "never", "signal"] {
        wait(name, &["start one"]);
        rig.wait_running(&format!("{name}-{NODE}"), "other");
    }
    wait("link", &["start 1"]);
    let other = rig.wait_running(&format!("restart-{NODE}"), "other").id;
    // Until the agent has seen the pods run, their files may be as they like.
    rig.wait("the status of all", || {
        ["restart", "never", "signal", "link"].iter().all(|name| {
            rig.pod(&format!("{name}-{NODE}")).is_some_and(|pod| pod["status"]["phase"] == "Running")
        })
    });

    // Renamed over, as certificates are renewed.
    replace(&dir, "a.crt", "two");
    wait("signal", &["start one", "hup two"]);
    wait("never", &["start one", "start two"]);
    wait("restart", &["start one", "start two"]);
    assert_eq!(rig.wait_running(&format!("restart-{NODE}"), "other").id, other, "it mounts nothing");
    assert_eq!(said(&rig, "link"), ["start 1"]);

    // Gone and back, written anew with what it was, and noise beside it: nothing has changed.
    fs::remove_file(dir.join("a.crt")).expect("remove a file");
    fs::write(dir.join("noise"), "x").expect("write a file");
    replace(&dir, "a.crt", "two");
    // A link that is turned elsewhere.
    symlink("archive/2", dir.join("live.new")).expect("create a link");
    fs::rename(dir.join("live.new"), dir.join("live")).expect("turn a link");
    wait("link", &["start 1", "hup 2"]);
    assert_eq!(said(&rig, "signal"), ["start one", "hup two"]);
    assert_eq!(said(&rig, "restart"), ["start one", "start two"]);

    // Written in place.
    fs::write(dir.join("a.crt"), "three").expect("write a file");
    wait("signal", &["start one", "hup two", "hup three"]);
    // Only the last dead container of a name is kept.
    rig.wait("the third start", || said(&rig, "never").last().is_some_and(|line| line == "start three"));
    let events = rig.pod(&format!("restart-{NODE}")).expect("a pod");
    assert!(events["status"]["containerStatuses"].to_string().contains("\"restartCount\":"), "{events}");
}
