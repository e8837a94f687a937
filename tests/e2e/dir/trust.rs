//! Nobody but root decides what lies at the manifests' path: not above it, and not by links.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::{RESCAN, assert_managed};
use crate::manifest;
use crate::rig::Rig;

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("change the mode");
}

/// Runs a script as a user without any right of root's.
fn as_user(rig: &Rig, script: &str) {
    let user = ["--reuid=1234", "--regid=1234", "--clear-groups", "--inh-caps=-all"];
    let shell = ["sh", "-e", "-c", script];
    rig.output("setpriv", &[&user[..], &shell[..]].concat());
}

#[test]
fn a_user_who_swaps_the_directory_runs_nothing() {
    let rig = Rig::new();
    let (open, image) = (rig.dir().join("open"), rig.dir().join("image"));
    let dir = open.join("manifests");
    fs::create_dir_all(&dir).expect("create the directory");
    fs::create_dir(&image).expect("create what root owns elsewhere");
    fs::write(dir.join("pod.yaml"), manifest::idle("pod")).expect("write");
    fs::write(image.join("hostile.yaml"), manifest::idle("hostile")).expect("write");
    let path = format!("--pod-manifest-path={}", dir.display());
    let agent = rig.start_agent(&[RESCAN, &path]);
    rig.wait_running("pod-node1", "main");

    // Whoever can write the parent can put another directory in this place.
    chmod(&open, 0o777);
    let swap =
        format!("mv {dir} {dir}.old; ln -s {image} {dir}", dir = dir.display(), image = image.display());
    as_user(&rig, &swap);
    agent.wait_for_log(&format!("{} (mode 0777, owner 0) can be written by group or others", open.display()));
    assert_managed(&rig, "pod-node1");
    assert!(rig.containers_of("hostile-node1").is_empty());

    // With a sticky bit nobody can move what is root's, but somebody may be first with a link.
    agent.kill9();
    chmod(&open, 0o1777);
    let agent = rig.start_agent(&[RESCAN, &path]);
    agent.wait_for_log(&format!("{} (mode 1777, owner 0) can be written by group or others", open.display()));
    chmod(&open, 0o755);
    agent.wait_for_log(&format!("{} (mode 0777, owner 1234) is not root's", dir.display()));
    assert_managed(&rig, "pod-node1");
    chmod(&open, 0o1777);
    fs::remove_file(&dir).expect("remove the link");
    fs::rename(open.join("manifests.old"), &dir).expect("put the directory back");
    agent.wait_for_log("reading the manifests again");
    assert!(rig.containers_of("hostile-node1").is_empty());
    fs::remove_file(dir.join("pod.yaml")).expect("remove the manifest");
    rig.wait("the pod to end", || rig.sandboxes().is_empty());
}

#[test]
fn every_directory_on_a_links_way_counts() {
    let rig = Rig::new();
    let way = rig.dir().join("way");
    fs::create_dir_all(way.join("inner")).expect("create the directories");
    fs::write(way.join("inner/target"), manifest::idle("linked")).expect("write");
    symlink(way.join("inner/target"), rig.manifest_dir().join("linked.yaml")).expect("link");
    chmod(&way, 0o777);
    let agent = rig.start_agent(&[RESCAN]);
    agent.wait_for_log(&format!("{} (mode 0777, owner 0) can be written by group or others", way.display()));
    super::settle(&rig, "later");
    assert!(rig.containers_of("linked-node1").is_empty());
    chmod(&way, 0o755);
    rig.wait_running("linked-node1", "main");
}
