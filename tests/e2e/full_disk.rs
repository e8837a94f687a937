//! A full disk: what could not be written is written when there is space again, and nothing else has to happen for it.

use std::fs;

use crate::manifest;
use crate::rig::Rig;

#[test]
fn a_checkpoint_is_written_when_there_is_space_again() {
    let rig = Rig::new();
    let root = rig.root_dir().display().to_string();
    rig.output("mount", &["-t", "tmpfs", "-o", "size=256k,mode=755", "tmpfs", &root]);
    let shared = rig.dir().join("shared");
    fs::create_dir(&shared).expect("create a directory to share");
    let spec =
        format!("restartPolicy: Never\nvolumes: [{{name: s, hostPath: {{path: {}}}}}]", shared.display());
    let script = "echo run >> /shared/runs; until [ -e /shared/go ]; do sleep 0.1; done";
    let text = manifest::pod("job", &spec, script);
    let text =
        text.replace("    command:", "    volumeMounts: [{name: s, mountPath: /shared}]\n    command:");
    rig.write_manifest("job.yaml", &text);
    let agent = rig.start_agent(&[]);
    rig.wait_running("job-node1", "main");
    // The directory is the machine's own: outside of it nothing is mounted there.
    let checkpoint = || rig.output("cat", &[&format!("{root}/rkubelet/pods/default_job-node1.json")]);
    rig.wait("the first checkpoint", || {
        let listed = rig.output("sh", &["-c", &format!("ls {root}/rkubelet/pods 2>/dev/null || :")]);
        listed.contains("default_job-node1.json") && checkpoint().contains("Running")
    });
    rig.output("sh", &["-c", &format!("cat /dev/zero > {root}/fill 2>/dev/null || :")]);
    fs::write(shared.join("go"), "").expect("let the job end");
    agent.wait_for_log("No space left on device");
    assert!(!checkpoint().contains("Succeeded"), "{}", checkpoint());
    rig.output("rm", &[&format!("{root}/fill")]);
    rig.wait("the checkpoint", || checkpoint().contains("Succeeded"));

    // It is believed when the runtime has forgotten the job.
    agent.kill9();
    rig.prune("job-node1");
    let _agent = rig.start_agent(&[]);
    rig.write_manifest("marker.yaml", &manifest::idle("marker"));
    rig.wait_running("marker-node1", "main");
    let phase = || rig.pod("job-node1").map(|pod| pod["status"]["phase"].clone());
    rig.wait("the job to be completed", || phase() == Some("Succeeded".into()));
    assert_eq!(fs::read_to_string(shared.join("runs")).expect("the runs"), "run\n");
}
