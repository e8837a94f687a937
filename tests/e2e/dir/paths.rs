//! What the path leads to: links, mounts, a single file.

use std::fs;
use std::os::unix::fs::symlink;

use super::{NO_RESCAN, RESCAN, accepted, assert_managed, refused, settle, shell};
use crate::manifest::{self, journal, journalled};
use crate::rig::Rig;

#[test]
fn links_are_followed_and_their_switch_is_seen_at_once() {
    let rig = Rig::new();
    let at = |path: &str| rig.dir().join(path);
    for release in ["releases/1", "releases/2", "elsewhere"] {
        fs::create_dir_all(at(release)).expect("create a release");
    }
    fs::write(at("releases/1/pod.yaml"), journalled(&rig, "pod", "1")).expect("write");
    fs::write(at("releases/2/pod.yaml"), journalled(&rig, "pod", "2")).expect("write");
    fs::write(at("elsewhere/linked"), journalled(&rig, "linked", "1")).expect("write");
    for release in ["releases/1", "releases/2"] {
        symlink("../../elsewhere/linked", at(release).join("linked.yaml")).expect("link a file");
    }
    symlink("releases/1", at("current")).expect("link the directory");
    let path = format!("--pod-manifest-path={}", at("current").display());
    let agent = rig.start_agent(&[NO_RESCAN, &path]);
    rig.wait("both pods", || journal(&rig, "pod") == ["start 1"] && journal(&rig, "linked") == ["start 1"]);

    // As an atomic deployment does it, then as `ln -sfn` does it, which leaves a gap.
    shell(&rig, &format!("cd {}; ln -s releases/2 new; mv -T new current", rig.dir().display()));
    rig.wait("release 2", || journal(&rig, "pod").last().is_some_and(|line| line == "start 2"));
    shell(&rig, &format!("ln -sfn releases/1 {}", at("current").display()));
    rig.wait("release 1 again", || journal(&rig, "pod").len() == 7);
    assert_eq!(
        journal(&rig, "pod"),
        ["start 1", "asked 1", "end 1", "start 2", "asked 2", "end 2", "start 1"]
    );
    assert_eq!(
        journal(&rig, "linked"),
        ["start 1"],
        "the same file through another directory is the same pod"
    );

    // The target of a linked file, in place and by a rename.
    fs::write(at("elsewhere/linked"), journalled(&rig, "linked", "2")).expect("edit the target");
    rig.wait("edit 2", || journal(&rig, "linked").last().is_some_and(|line| line == "start 2"));
    fs::write(at("elsewhere/new"), journalled(&rig, "linked", "3")).expect("write beside the target");
    fs::rename(at("elsewhere/new"), at("elsewhere/linked")).expect("replace the target");
    rig.wait("edit 3", || journal(&rig, "linked").last().is_some_and(|line| line == "start 3"));
    assert_eq!(accepted(&agent, "linked.yaml"), 3, "{}", agent.log());
    // A link that leads nowhere is no evidence.
    fs::rename(at("elsewhere"), at("away")).expect("take the target away");
    rig.wait("a complaint", || refused(&agent, "linked.yaml") == 1);
    assert!(journal(&rig, "linked").last().is_some_and(|line| line == "start 3"));
}

#[test]
fn the_atomic_writers_links_give_one_update_per_change() {
    let rig = Rig::new();
    let dir = rig.manifest_dir();
    let publish = |number: u32, files: &[(&str, String)]| {
        let data = dir.join(format!("..{number}"));
        fs::create_dir(&data).expect("create the data directory");
        for (file, text) in files {
            fs::write(data.join(file), text).expect("write a file");
        }
        symlink(format!("..{number}"), dir.join("..data_tmp")).expect("link the data");
        fs::rename(dir.join("..data_tmp"), dir.join("..data")).expect("switch");
        for (file, _) in files {
            let _ = symlink(format!("..data/{file}"), dir.join(file));
        }
    };
    publish(1, &[("a.yaml", journalled(&rig, "a", "1")), ("b.yaml", journalled(&rig, "b", "1"))]);
    let agent = rig.start_agent(&[NO_RESCAN]);
    rig.wait("both pods", || journal(&rig, "a") == ["start 1"] && journal(&rig, "b") == ["start 1"]);
    for number in 2..5 {
        let text = number.to_string();
        publish(number, &[("a.yaml", journalled(&rig, "a", &text)), ("b.yaml", journalled(&rig, "b", "1"))]);
        fs::remove_dir_all(dir.join(format!("..{}", number - 1))).expect("remove the old data");
        rig.wait("the edit", || journal(&rig, "a").last() == Some(&format!("start {number}")));
    }
    settle(&rig, "later");
    assert_eq!((accepted(&agent, "a.yaml"), accepted(&agent, "b.yaml")), (4, 1), "{}", agent.log());
    assert_eq!(journal(&rig, "b"), ["start 1"]);
    assert_eq!(agent.log_lines_with("manifest is gone").len(), 0);
    assert_eq!(agent.log_lines_with("file skipped").len(), 0, "the data is not a subdirectory");
}

#[test]
fn a_mount_over_the_directory_is_another_directory() {
    let rig = Rig::new();
    let other = rig.dir().join("other");
    fs::create_dir(&other).expect("create the other directory");
    for name in ["stays", "goes"] {
        rig.write_manifest(&format!("{name}.yaml"), &journalled(&rig, name, "1"));
    }
    let _agent = rig.start_agent(&[RESCAN]);
    rig.wait("both pods", || journal(&rig, "stays") == ["start 1"] && journal(&rig, "goes") == ["start 1"]);
    fs::write(other.join("stays.yaml"), journalled(&rig, "stays", "1")).expect("write");
    fs::write(other.join("comes.yaml"), journalled(&rig, "comes", "1")).expect("write");
    shell(&rig, &format!("mount --bind {} {}", other.display(), rig.manifest_dir().display()));
    rig.wait("the new pod", || journal(&rig, "comes") == ["start 1"]);
    rig.wait("the other to go", || rig.containers_of("goes-node1").is_empty());
    // The new one is watched.
    fs::write(other.join("later.yaml"), manifest::idle("later")).expect("write");
    rig.wait_running("later-node1", "main");
    shell(&rig, &format!("umount {}", rig.manifest_dir().display()));
    rig.wait("what lay below", || journal(&rig, "goes") == ["start 1", "asked 1", "end 1", "start 1"]);
    assert_eq!(journal(&rig, "stays"), ["start 1"]);
}

#[test]
fn a_single_file_is_a_source_too() {
    let rig = Rig::new();
    let file = rig.dir().join("single.yaml");
    let path = format!("--pod-manifest-path={}", file.display());
    fs::write(&file, journalled(&rig, "pod", "1")).expect("write");
    fs::write(rig.dir().join("beside.yaml"), manifest::idle("beside")).expect("write");
    let agent = rig.start_agent(&[NO_RESCAN, &path]);
    rig.wait("the pod", || journal(&rig, "pod") == ["start 1"]);
    fs::write(rig.dir().join("new"), journalled(&rig, "pod", "2")).expect("write");
    fs::rename(rig.dir().join("new"), &file).expect("replace it");
    rig.wait("the edit", || journal(&rig, "pod").last().is_some_and(|line| line == "start 2"));
    agent.kill9();
    fs::write(&file, "!").expect("break it");
    let agent = rig.start_agent(&[NO_RESCAN, &path]);
    rig.wait("a complaint", || refused(&agent, "single.yaml") == 1);
    assert_managed(&rig, "pod-node1");
    fs::remove_file(&file).expect("remove it");
    rig.wait("the pod to end", || rig.sandboxes().is_empty());
    fs::write(&file, manifest::idle("again")).expect("write it again");
    rig.wait_running("again-node1", "main");
    assert!(rig.containers_of("beside-node1").is_empty());
}
