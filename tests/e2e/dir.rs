//! The directory never betrays a running pod: restarts, lost directories, editors, permissions.

mod corruption;
mod floods;
mod hangs;
mod mounts;
mod names;
mod paths;
mod trust;

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use crate::manifest::{self, journal, journalled};
use crate::rig::{Agent, ContainerState, Rig};

/// The rescan is out of reach: only what is seen at once is seen.
pub(crate) const NO_RESCAN: &str = "--file-check-frequency=1h";
const RESCAN: &str = "--file-check-frequency=1s";

/// How often a file was accepted.
fn accepted(agent: &Agent<'_>, file: &str) -> usize {
    verdicts(agent, file).iter().filter(|line| line.contains("manifest accepted")).count()
}

/// How often a file was refused.
fn refused(agent: &Agent<'_>, file: &str) -> usize {
    verdicts(agent, file).iter().filter(|line| line.contains("manifest refused")).count()
}

/// The lines about a file.
fn verdicts(agent: &Agent<'_>, file: &str) -> Vec<String> {
    agent.log_lines_with(&format!("/{file} "))
}

/// A pod is written last, and runs: what came before it has been looked at by then.
fn settle(rig: &Rig, name: &str) {
    rig.write_manifest(&format!("{name}.yaml"), &manifest::idle(name));
    rig.wait_running(&format!("{name}-node1"), "main");
}

/// The agent looks after a pod: a container of it that dies comes back.
pub(crate) fn assert_managed(rig: &Rig, pod: &str) {
    let first = rig.wait_running(pod, "main");
    rig.kill_process(first.pid);
    rig.wait(&format!("another container of {pod}"), || {
        let seen = rig.containers_of(pod);
        seen.iter().any(|seen| seen.state == ContainerState::Running && seen.id != first.id)
    });
}

fn shell(rig: &Rig, script: &str) {
    rig.output("sh", &["-e", "-c", script]);
}

#[test]
fn a_new_agent_runs_the_last_good_version_of_a_broken_file() {
    let rig = Rig::new();
    for name in ["broken", "goes", "edited"] {
        rig.write_manifest(&format!("{name}.yaml"), &journalled(&rig, name, "1"));
    }
    let agent = rig.start_agent(&[]);
    for name in ["broken", "goes", "edited"] {
        rig.wait(name, || journal(&rig, name) == ["start 1"]);
    }
    agent.kill9();
    fs::write(rig.manifest_dir().join("broken.yaml"), "apiVersion: v1\nkind: Pod\nmetadata: {na")
        .expect("break it");
    rig.remove_manifest("goes.yaml");
    rig.write_manifest("edited.yaml", &journalled(&rig, "edited", "2"));

    let agent = rig.start_agent(&[RESCAN]);
    rig.wait("the removed pod to go", || rig.containers_of("goes-node1").is_empty());
    rig.wait("the edited pod", || journal(&rig, "edited") == ["start 1", "asked 1", "end 1", "start 2"]);
    assert_eq!(refused(&agent, "broken.yaml"), 1);
    let verdict = &verdicts(&agent, "broken.yaml")[0];
    assert!(verdict.contains("the last good version runs on"), "{verdict}");
    assert_eq!(journal(&rig, "broken"), ["start 1"], "it was not touched");
    assert_managed(&rig, "broken-node1");

    // It can be removed for good, and is mended like any other.
    rig.write_manifest("broken.yaml", &journalled(&rig, "broken", "2"));
    rig.wait("the mended pod", || journal(&rig, "broken").last().is_some_and(|line| line == "start 2"));
}

#[test]
fn a_directory_that_is_missing_at_the_start_is_not_an_empty_one() {
    let rig = Rig::new();
    rig.write_manifest("pod.yaml", &manifest::idle("pod"));
    let agent = rig.start_agent(&[]);
    rig.wait_running("pod-node1", "main");
    agent.kill9();
    let before = rig.fingerprint();
    let aside = rig.dir().join("aside");
    fs::rename(rig.manifest_dir(), &aside).expect("move the directory away");

    let agent = rig.start_agent(&[NO_RESCAN]);
    agent.wait_for_log("cannot read the manifests");
    rig.wait("the pod to be listed", || rig.pod("pod-node1").is_some());
    assert_eq!(rig.fingerprint(), before);
    assert_managed(&rig, "pod-node1");

    // It is read when it is back, and watched again.
    let before = rig.fingerprint();
    fs::rename(&aside, rig.manifest_dir()).expect("move the directory back");
    agent.wait_for_log("reading the manifests again");
    settle(&rig, "later");
    rig.assert_untouched(&before);
    rig.remove_manifest("pod.yaml");
    rig.wait("the pod to end", || rig.containers_of("pod-node1").is_empty());
}

#[test]
fn an_unmounted_directory_is_not_an_empty_one_but_an_emptied_one_is() {
    let rig = Rig::new();
    let source = rig.dir().join("volume");
    fs::create_dir(&source).expect("create what is mounted");
    let (volume, dir) = (source.display().to_string(), rig.manifest_dir().display().to_string());
    let write =
        |name: &str| fs::write(source.join(format!("{name}.yaml")), manifest::idle(name)).expect("write");
    let mount = || shell(&rig, &format!("mount --bind {volume} {dir}"));
    write("a");
    write("b");
    mount();
    let agent = rig.start_agent(&[RESCAN]);
    rig.wait_running("a-node1", "main");
    rig.wait_running("b-node1", "main");
    let before = rig.fingerprint();
    // While the agent looks on, and while it is away.
    shell(&rig, &format!("umount {dir}"));
    agent.wait_for_log("another directory, without a valid pod, is in its place");
    assert_eq!(rig.fingerprint(), before);
    agent.kill9();
    let agent = rig.start_agent(&[RESCAN]);
    agent.wait_for_log("another directory, without a valid pod, is in its place");
    rig.wait("the pods to be listed", || rig.pod("a-node1").is_some() && rig.pod("b-node1").is_some());
    assert_eq!(rig.fingerprint(), before);

    mount();
    agent.wait_for_log("reading the manifests again");
    write("c");
    rig.wait_running("c-node1", "main");
    rig.assert_untouched(&before);
    agent.kill9();
    for name in ["a", "b", "c"] {
        fs::remove_file(source.join(format!("{name}.yaml"))).expect("remove a manifest");
    }
    let _agent = rig.start_agent(&[RESCAN]);
    rig.wait("all pods to end", || rig.sandboxes().is_empty());
}

#[test]
fn the_incumbent_of_a_clash_stays_over_a_restart() {
    let rig = Rig::new();
    let ours = manifest::script("twice", "exec sleep 1000 # incumbent");
    rig.write_manifest("m.yaml", &ours);
    let agent = rig.start_agent(&[]);
    rig.wait_running("twice-node1", "main");
    rig.write_manifest("a.yaml", &manifest::script("twice", "exec sleep 1000 # rival"));
    rig.wait("a complaint", || refused(&agent, "a.yaml") == 1);
    let before = rig.fingerprint();
    agent.kill9();
    // Now it is the younger of the two.
    rig.write_manifest("m.yaml", &ours);
    let agent = rig.start_agent(&[]);
    rig.wait("a complaint of the new agent", || refused(&agent, "a.yaml") == 1);
    settle(&rig, "later");
    rig.assert_untouched(&before);
}

#[test]
fn a_damaged_record_costs_what_it_held_and_no_start() {
    let rig = Rig::new();
    rig.write_manifest("a.yaml", &manifest::idle("a"));
    rig.write_manifest("b.yaml", &manifest::idle("b"));
    let agent = rig.start_agent(&[]);
    rig.wait_running("a-node1", "main");
    rig.wait_running("b-node1", "main");
    agent.kill9();
    let records = rig.root_dir().join("rkubelet/files");
    let mode = fs::metadata(&records).expect("the records").permissions().mode() & 0o777;
    assert_eq!(mode, 0o700, "manifests may hold secrets");
    for entry in fs::read_dir(&records).expect("the records").flatten() {
        fs::write(entry.path(), "{\"torn").expect("damage a record");
    }
    let before = rig.fingerprint();
    let agent = rig.start_agent(&[]);
    settle(&rig, "later");
    rig.assert_untouched(&before);
    assert!(!agent.log_lines_with("lost what was kept").is_empty(), "{}", agent.log());
    agent.kill9();
    let agent = rig.start_agent(&[]);
    settle(&rig, "latest");
    assert_eq!(agent.log_lines_with("lost what was kept").len(), 0, "said once\n{}", agent.log());
    rig.assert_untouched(&before);
}

#[test]
fn editors_and_copies_give_exactly_the_updates_that_the_contents_call_for() {
    let rig = Rig::new();
    let dir = rig.manifest_dir();
    let file = dir.join("pod.yaml");
    fs::create_dir(dir.join("sub")).expect("create a subdirectory");
    fs::write(dir.join("sub/hidden.yaml"), manifest::idle("hidden")).expect("write");
    rig.write_manifest("pod.yaml", &journalled(&rig, "pod", "1"));
    let agent = rig.start_agent(&[NO_RESCAN]);
    rig.wait("the pod", || journal(&rig, "pod") == ["start 1"]);
    let path = file.display().to_string();
    let staged = rig.dir().join("staged").display().to_string();
    // Each changes the instance from one number to the next.
    let edits = [
        ("sed -i", format!("sed -i 's/ 1 >>/ 2 >>/g' {path}")),
        (
            "vim: a backup, a new file, the backup removed",
            format!(
                "cd {}; touch 4913; rm 4913; touch .pod.yaml.swp; mv pod.yaml pod.yaml~; \
                 sed 's/ 2 >>/ 3 >>/g' pod.yaml~ > pod.yaml; chmod 644 pod.yaml; rm pod.yaml~ .pod.yaml.swp",
                dir.display()
            ),
        ),
        (
            "a slow copy in chunks",
            format!(
                "sed 's/ 3 >>/ 4 >>/g' {path} > {staged}; exec 3< {staged} 4> {path}; \
                 for _ in 1 2 3; do head -c 200 <&3 >&4; sleep 0.4; done; cat <&3 >&4"
            ),
        ),
        ("mv", format!("sed 's/ 4 >>/ 5 >>/g' {path} > {staged}; mv {staged} {path}")),
        ("cp", format!("sed 's/ 5 >>/ 6 >>/g' {path} > {staged}; cp {staged} {path}")),
        ("rm and cp", format!("sed 's/ 6 >>/ 7 >>/g' {path} > {staged}; rm {path}; cp {staged} {path}")),
    ];
    for (number, (name, script)) in (2..).zip(&edits) {
        shell(&rig, script);
        rig.wait(name, || journal(&rig, "pod").last() == Some(&format!("start {number}")));
        assert_eq!(accepted(&agent, "pod.yaml"), number, "{name}: one update\n{}", agent.log());
    }
    rig.wait("earlier instances to go", || rig.sandboxes().len() == 1 && rig.containers().len() == 1);
    let before = rig.fingerprint();
    // None of these says anything new.
    let idle = [
        format!("touch {path}"),
        format!("chmod 600 {path}; chmod 644 {path}"),
        format!("cp {path} {staged}; cp {staged} {path}"),
        format!("cp {path} {staged}; mv {staged} {path}"),
        format!("cp {path} {path}.bak; cp {path} {path}~; rm {path}.bak"),
        format!("ln {path} {}/other.txt; rm {}/other.txt", dir.display(), dir.display()),
    ];
    idle.iter().for_each(|script| shell(&rig, script));
    settle(&rig, "later");
    assert_eq!(accepted(&agent, "pod.yaml"), edits.len() + 1, "{}", agent.log());
    assert_eq!(refused(&agent, "pod.yaml"), 0, "no half of a file was read\n{}", agent.log());
    rig.assert_untouched(&before);
    let skipped = agent.log_lines_with("/sub reason=");
    assert_eq!(skipped.len(), 1, "said once\n{}", agent.log());
    assert!(rig.containers_of("hidden-node1").is_empty());
}

#[test]
fn a_file_that_is_written_over_and_over_is_never_read_by_halves() {
    let rig = Rig::new();
    let dir = rig.manifest_dir();
    rig.write_manifest("pod.yaml", &manifest::idle("pod"));
    let agent = rig.start_agent(&[NO_RESCAN]);
    rig.wait_running("pod-node1", "main");
    let before = rig.fingerprint();
    let (pod, staged) = (dir.join("pod.yaml"), rig.dir().join("staged"));
    fs::copy(&pod, &staged).expect("copy");
    // Closed, which is a reason to read it, and cut short and begun anew so soon after that the reading may come in between.
    shell(
        &rig,
        &format!(
            "for turn in $(seq 120); do \
               : >> {pod}; step=0; while [ $step -lt $((turn % 40)) ]; do step=$((step + 1)); done; \
               exec 4> {pod}; \
               if [ $((turn % 2)) = 0 ]; then sleep 0.01; cat {staged} >&4; \
               else echo 'apiVersion: v1' >&4; sleep 0.01; tail -n +2 {staged} >&4; fi; \
               exec 4>&-; sleep 0.06; \
             done",
            pod = pod.display(),
            staged = staged.display(),
        ),
    );
    settle(&rig, "later");
    assert_eq!(refused(&agent, "pod.yaml"), 0, "half of a file was read\n{}", agent.log());
    assert_eq!(accepted(&agent, "pod.yaml"), 1, "nothing was new\n{}", agent.log());
    rig.assert_untouched(&before);
}

#[test]
fn what_others_can_write_is_refused_unless_allowed() {
    let rig = Rig::new();
    let file = rig.manifest_dir().join("pod.yaml");
    let chmod = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("change the mode");
    };
    rig.write_manifest("pod.yaml", &journalled(&rig, "pod", "1"));
    let agent = rig.start_agent(&[NO_RESCAN]);
    rig.wait("the pod", || journal(&rig, "pod") == ["start 1"]);
    let audit = verdicts(&agent, "pod.yaml");
    let sha256 = rig.output("sha256sum", &[&file.display().to_string()]);
    let sha256 = sha256.split(' ').next().expect("a digest");
    for word in [&format!("sha256={sha256:?}"), "owner=0", "mode=0644", "pod=default/pod-node1"] {
        assert!(audit[0].contains(word), "no {word} in {}", audit[0]);
    }

    // A file that group can write, then one that is somebody's: an edit of it does not count.
    chmod(&file, 0o664);
    rig.wait("a complaint about the mode", || refused(&agent, "pod.yaml") == 1);
    let edit = journalled(&rig, "pod", "2");
    fs::File::options()
        .write(true)
        .truncate(true)
        .open(&file)
        .expect("open")
        .write_all(edit.as_bytes())
        .expect("edit");
    chown(&file, Some(1234), None).expect("give it away");
    chmod(&file, 0o644);
    rig.wait("a complaint about the owner", || refused(&agent, "pod.yaml") > 1);
    let lines = verdicts(&agent, "pod.yaml");
    assert!(lines[1].contains("mode 0664, owner 0) can be written by group or others"), "{}", lines[1]);
    let last = lines.last().expect("a line");
    assert!(last.contains("mode 0644, owner 1234) is not root's"), "{last}");
    assert!(
        last.contains(&format!("{}", file.display())) && last.contains("the last good version runs on"),
        "{last}"
    );
    assert_eq!(journal(&rig, "pod"), ["start 1"]);
    chown(&file, Some(0), None).expect("take it back");
    rig.wait("the edit", || journal(&rig, "pod").last().is_some_and(|line| line == "start 2"));

    // The directory: nothing in it counts while others could have put it there.
    chmod(&rig.manifest_dir(), 0o1777);
    agent.wait_for_log("mode 1777, owner 0) can be written by group or others");
    rig.write_manifest("late.yaml", &manifest::idle("late"));
    rig.remove_manifest("pod.yaml");
    agent.kill9();
    let agent = rig.start_agent(&[NO_RESCAN]);
    agent.wait_for_log("mode 1777, owner 0) can be written by group or others");
    assert_managed(&rig, "pod-node1");
    assert!(rig.containers_of("late-node1").is_empty());
    agent.kill9();
    let _agent = rig.start_agent(&[NO_RESCAN, "--allow-unsafe-manifest-permissions"]);
    rig.wait_running("late-node1", "main");
    rig.wait("the removed pod to end", || rig.containers_of("pod-node1").is_empty());
}
