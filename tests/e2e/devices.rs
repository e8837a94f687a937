//! Devices of plugins: a plugin registers, a static pod has a device of it, loses it, and comes back.

mod plugin;

use std::path::PathBuf;

use serde_json::Value;

use crate::manifest::{self, IDLE};
use crate::rig::{NODE, Rig};
use plugin::{Plugin, RESOURCE, refusal};

/// A pod whose container has so many lamps.
fn pod(name: &str, spec: &str, lamps: usize, script: &str) -> String {
    let text = manifest::pod(name, spec, script);
    let more = format!(
        "    resources: {{limits: {{{RESOURCE}: {lamps}}}}}\n    env: [{{name: OWN, value: its own}}]\n    command:\n"
    );
    text.replace("    command:\n", &more)
}

fn plugin_dir(rig: &Rig) -> PathBuf {
    rig.root_dir().join("device-plugins")
}

fn wait_for_socket(rig: &Rig) {
    rig.wait("the socket of plugins", || plugin_dir(rig).join("kubelet.sock").exists());
}

/// A directory with a file, as a plugin mounts it.
fn gift(rig: &Rig) -> PathBuf {
    let dir = rig.dir().join("gift");
    std::fs::create_dir_all(&dir).expect("make a directory");
    std::fs::write(dir.join("note"), "from the plugin").expect("write a file");
    dir
}

fn served(rig: &Rig, pod: &str) -> Value {
    rig.pod(pod).unwrap_or_default()["status"].clone()
}

/// The health of the devices of a pod's container, as served: `d1 Healthy`.
fn health(rig: &Rig, pod: &str) -> Vec<String> {
    let status = &served(rig, pod)["containerStatuses"][0]["allocatedResourcesStatus"][0];
    let each = status["resources"].as_array().cloned().unwrap_or_default();
    let text = |of: &Value, field: &str| of[field].as_str().unwrap_or_default().to_owned();
    each.iter().map(|device| format!("{} {}", text(device, "resourceID"), text(device, "health"))).collect()
}

fn checkpoint(rig: &Rig) -> Value {
    let text =
        std::fs::read_to_string(plugin_dir(rig).join("kubelet_internal_checkpoint")).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// A file inside a container, as root on the node sees it.
fn inside(rig: &Rig, pid: u32, path: &str) -> String {
    rig.output("cat", &[&format!("/proc/{pid}/root{path}")])
}

#[test]
fn a_static_pod_has_a_device_loses_it_and_comes_back() {
    let rig = Rig::new();
    let name = format!("lit-{NODE}");
    // No plugin: no room.
    rig.write_manifest("lit.yaml", &pod("lit", "", 1, IDLE));
    let agent = rig.start_agent(&[]);
    rig.wait("the pod to be refused", || served(&rig, &name)["reason"] == "OutOfexample.com/lamp");
    assert_eq!(rig.containers_of(&name).len(), 0);
    wait_for_socket(&rig);
    let why = refusal(&plugin_dir(&rig), "v1alpha", RESOURCE);
    assert!(why.contains("v1alpha") && why.contains("v1beta1"), "{why}");
    let why = refusal(&plugin_dir(&rig), "v1beta1", "kubernetes.io/lamp");
    assert_eq!(why, "the ResourceName \"kubernetes.io/lamp\" is invalid");

    // It is tried again when the plugin registers; what the plugin answers is in the container.
    let devices = [("d1", true), ("d2", true), ("d3", false)];
    let plugin = Plugin::start(&plugin_dir(&rig), &gift(&rig), &devices);
    let lit = rig.wait_running(&name, "main");
    assert_eq!(plugin.calls(), ["prefer 1 of d1 d2", "allocate d2", "start d2"]);
    let env = inside(&rig, lit.pid, "/proc/1/environ").replace('\0', "\n");
    let env: Vec<_> =
        env.lines().filter(|line| line.starts_with("LAMP") || line.starts_with("OWN")).collect();
    assert_eq!(env.join(","), "LAMP=d2,OWN=its own");
    assert_eq!(inside(&rig, lit.pid, "/gift/note"), "from the plugin");
    let enter = format!("--target={}", lit.pid);
    let zero =
        rig.output("nsenter", &[&enter, "--mount", "--root", "sh", "-c", "head -c 3 /dev/lamp | wc -c"]);
    assert_eq!(zero.trim(), "3");
    rig.wait("the device to be shown", || health(&rig, &name) == ["d2 Healthy"]);
    let entry = &checkpoint(&rig)["Data"]["PodDeviceEntries"][0];
    assert_eq!(
        (entry["ResourceName"].as_str(), &entry["DeviceIDs"]["-1"][0]),
        (Some(RESOURCE), &"d2".into())
    );

    // Another has what is left, and a third finds none.
    rig.write_manifest("second.yaml", &pod("second", "", 1, IDLE));
    rig.wait_running(&format!("second-{NODE}"), "main");
    assert_eq!(plugin.calls()[3..], ["prefer 1 of d1", "allocate d1", "start d1"]);
    let third = format!("third-{NODE}");
    rig.write_manifest("third.yaml", &pod("third", "", 1, IDLE));
    rig.wait("the third to be refused", || served(&rig, &third)["reason"] == "OutOfexample.com/lamp");
    // The devices of one that is gone are free for it.
    rig.remove_manifest("second.yaml");
    rig.wait_running(&third, "main");
    assert_eq!(plugin.calls()[6..], ["prefer 1 of d1", "allocate d1", "start d1"]);

    // Its health is shown; the pod goes on, also while the plugin is gone.
    plugin.tell(&[("d1", true), ("d2", false), ("d3", false)]);
    rig.wait("the device to be ill", || health(&rig, &name) == ["d2 Unhealthy"]);
    plugin.tell(&devices);
    rig.wait("the device to be well", || health(&rig, &name) == ["d2 Healthy"]);
    drop(plugin);
    agent.wait_for_log("a device plugin is gone");

    // Killed, with no plugin: a successor leaves the containers alone, and knows who has what.
    agent.kill9();
    let before = checkpoint(&rig);
    let agent = rig.start_agent(&[]);
    agent.wait_healthy();
    wait_for_socket(&rig);
    rig.wait("the devices to be known", || health(&rig, &name) == ["d2 Healthy"]);
    assert_eq!(rig.wait_running(&name, "main").id, lit.id);
    assert_eq!(checkpoint(&rig)["Data"]["PodDeviceEntries"], before["Data"]["PodDeviceEntries"]);

    // A container that is replaced has the same device, though no plugin is there to be asked.
    rig.kill_process(lit.pid);
    rig.wait("a new container", || {
        rig.containers_of(&name).iter().any(|seen| seen.id != lit.id && seen.pid != 0)
    });
    let again = rig.wait_running(&name, "main");
    assert!(inside(&rig, again.pid, "/proc/1/environ").contains("LAMP=d2"));

    // The plugin comes back: nobody else gets what is taken.
    let plugin = Plugin::start(&plugin_dir(&rig), &gift(&rig), &devices);
    rig.write_manifest("late.yaml", &pod("late", "", 1, IDLE));
    let late = format!("late-{NODE}");
    rig.wait("the last to be refused", || served(&rig, &late)["reason"] == "OutOfexample.com/lamp");
    plugin.tell(&[("d1", true), ("d2", true), ("d3", true)]);
    rig.wait_running(&late, "main");
    assert_eq!(plugin.calls(), ["prefer 1 of d3", "allocate d3", "start d3"]);
    for file in ["lit.yaml", "third.yaml", "late.yaml"] {
        rig.remove_manifest(file);
    }
    rig.wait("all devices to be free", || checkpoint(&rig)["Data"]["PodDeviceEntries"].is_null());
}

#[test]
fn init_containers_and_pods_that_are_over_give_their_devices_back() {
    let rig = Rig::new();
    let _agent = rig.start_agent(&[]);
    wait_for_socket(&rig);
    let plugin = Plugin::start(&plugin_dir(&rig), &gift(&rig), &[("d1", true)]);
    // Its init container has the device first.
    let init = format!(
        "restartPolicy: Never\ninitContainers: [{{name: first, image: {}, command: [sh, -c, 'test \"$LAMP\" = d1'], resources: {{limits: {{{RESOURCE}: 1}}}}}}]",
        crate::rig::BUSYBOX
    );
    rig.write_manifest("once.yaml", &pod("once", &init, 1, "test \"$LAMP\" = d1"));
    let name = format!("once-{NODE}");
    rig.wait("the pod to end", || served(&rig, &name)["phase"] == "Succeeded");
    assert_eq!(plugin.calls(), ["prefer 1 of d1", "allocate d1", "allocate d1", "start d1", "start d1"]);
    // Its object stays, and its device is free.
    rig.write_manifest("next.yaml", &pod("next", "", 1, IDLE));
    rig.wait_running(&format!("next-{NODE}"), "main");
}
