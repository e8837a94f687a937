//! A directory whose file system does not answer, as a hard NFS mount does when its server is gone.

use std::fs;
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process_group};

use super::RESCAN;
use crate::manifest;
use crate::rig::web::Server;
use crate::rig::{Agent, Rig, wait_until};
use crate::url::ADDRESS;

/// A FUSE file system over the manifest directory whose server answers nothing.
struct Hung(Child);

impl Hung {
    fn mount(rig: &Rig) -> Self {
        let script = format!(
            "exec 3<>/dev/fuse; \
             mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0,allow_other hung {}; \
             exec sleep 1000",
            rig.manifest_dir().display()
        );
        let mut command: Command = rig.command("sh");
        let child = command.args(["-e", "-c", &script]).spawn().expect("mount a file system that hangs");
        rig.wait("the mount", || rig.output("cat", &["/proc/self/mountinfo"]).contains("fuse hung"));
        Self(child)
    }

    /// Its server ends: what waits for it gets an error.
    fn end(mut self) {
        let group = Pid::from_child(&self.0);
        kill_process_group(group, Signal::KILL).expect("end the server");
        self.0.wait().expect("the server's end");
    }
}

fn threads(agent: &Agent<'_>) -> usize {
    let pid = agent.pid().expect("rkubelet runs").as_raw_nonzero();
    fs::read_dir(format!("/proc/{pid}/task")).expect("the agent's threads").count()
}

#[test]
fn a_directory_that_does_not_answer_holds_up_no_pod_from_the_url() {
    let rig = Rig::new();
    rig.write_manifest("file.yaml", &manifest::idle("file"));
    let hung = Hung::mount(&rig);
    let server = Server::start(&rig, ADDRESS);
    server.serve(manifest::idle("pod"));
    let url = format!("--manifest-url={}", server.url("/pods"));
    let agent = rig.start_agent(&[RESCAN, &url, "--http-check-frequency=1s"]);
    rig.wait_running("pod-node1", "main");
    assert_eq!(agent.log_lines_with("does not answer").len(), 1, "{}", agent.log());
    // It is tried on, by one thread.
    let before = threads(&agent);
    let grown = wait_until(std::time::Duration::from_secs(15), || threads(&agent) > before + 2);
    assert!(!grown, "threads pile up: {before}, then {}", threads(&agent));

    // Another file system takes its place, while the first one never answers.
    rig.output("umount", &["-l", &rig.manifest_dir().display().to_string()]);
    rig.wait_running("file-node1", "main");
    rig.remove_manifest("file.yaml");
    rig.wait("the pod to end", || rig.containers_of("file-node1").is_empty());
    hung.end();
    rig.wait_running("pod-node1", "main");
}

#[test]
fn a_directory_that_stops_answering_ends_nothing_and_is_read_when_it_answers() {
    let rig = Rig::new();
    rig.write_manifest("pod.yaml", &manifest::idle("pod"));
    let agent = rig.start_agent(&[RESCAN]);
    rig.wait_running("pod-node1", "main");
    let before = rig.fingerprint();
    let hung = Hung::mount(&rig);
    agent.wait_for_log("does not answer");
    agent.wait_healthy();
    rig.assert_untouched(&before);
    hung.end();
    rig.output("umount", &["-l", &rig.manifest_dir().display().to_string()]);
    agent.wait_for_log("reading the manifests again");
    rig.assert_untouched(&before);
    rig.remove_manifest("pod.yaml");
    rig.wait("the pod to end", || rig.sandboxes().is_empty());
}
