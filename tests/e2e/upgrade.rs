//! An upgrade from rkubelet 0.1, whose checkpoints held Kubernetes' status: what was remembered stays.

use std::fs;

use serde_json::Value;

use crate::manifest::{self, IDLE};
use crate::rig::Rig;

fn status(rig: &Rig, pod: &str) -> Value {
    rig.pod(pod).map(|pod| pod["status"].clone()).unwrap_or_default()
}

/// Rewrites the checkpoint of a pod as rkubelet 0.1 wrote it: with the status that was served.
fn write_old_form(rig: &Rig, pod: &str, served: &Value) {
    let path = rig.root_dir().join(format!("rkubelet/pods/default_{pod}.json"));
    let mut checkpoint: Value =
        serde_json::from_slice(&fs::read(&path).expect("read a checkpoint")).expect("a checkpoint is JSON");
    let instance = checkpoint["instance"].as_object_mut().expect("it has an instance");
    instance.remove("state").expect("the instance has a state");
    instance.insert("status".to_owned(), served.clone());
    fs::write(&path, checkpoint.to_string()).expect("write a checkpoint");
}

#[test]
fn what_the_version_before_remembered_stays() {
    let rig = Rig::new();
    rig.write_manifest("done.yaml", &manifest::pod("done", "restartPolicy: Never", "exit 0"));
    let probe = "    readinessProbe: {exec: {command: ['true']}, periodSeconds: 1}\n    command:";
    rig.write_manifest("probed.yaml", &manifest::pod("probed", "", IDLE).replace("    command:", probe));
    let agent = rig.start_agent(&[]);
    let is_ready = || status(&rig, "probed-node1")["containerStatuses"][0]["ready"] == true;
    rig.wait("the probe to succeed", is_ready);
    rig.kill_process(rig.wait_running("probed-node1", "main").pid);
    rig.wait("a restart", || {
        status(&rig, "probed-node1")["containerStatuses"][0]["restartCount"] == 1 && is_ready()
    });
    rig.wait("pod done to be done", || status(&rig, "done-node1")["phase"] == "Succeeded");
    rig.wait("its sandbox to be stopped", || rig.ready_sandboxes("default", "done-node1").is_empty());
    rig.write_manifest("marker.yaml", &manifest::idle("marker-1"));
    rig.wait_running("marker-1-node1", "main");
    let before = ["done-node1", "probed-node1"].map(|pod| (pod, status(&rig, pod)));
    agent.kill9();

    for (pod, served) in &before {
        write_old_form(&rig, pod, served);
    }
    rig.prune("done-node1");
    let agent = rig.start_agent(&[]);
    rig.write_manifest("marker.yaml", &manifest::idle("marker-2"));
    rig.wait_running("marker-2-node1", "main");
    rig.wait("the probe to succeed", is_ready);
    for (pod, served) in &before {
        assert_eq!(status(&rig, pod), *served, "{pod}\n{}", rig.report());
    }
    assert!(rig.sandboxes().iter().all(|seen| seen.pod != "done-node1"), "{}", rig.report());
    assert_eq!(agent.log_lines_with("checkpoint of a pod is lost"), [""; 0]);
}
