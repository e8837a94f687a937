//! What the runtime mounts and makes itself, `image` volumes and CDI devices: for real where it can, else the reason.

use std::fs;

use crate::rig::{Access, BUSYBOX, NODE, Registry, Rig, has_image_sub_paths, has_image_volumes};
use crate::volumes::{pod, said, wait_clean};

/// Waits until a container of a pod waits for this reason, with a message that has this text.
fn wait_waiting(rig: &Rig, name: &str, reason: &str, message: &str) {
    rig.wait(&format!("{name} to wait for {message:?}"), || {
        let pod = rig.pod(&format!("{name}-{NODE}")).unwrap_or_default();
        let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
        waiting["reason"] == reason && waiting["message"].as_str().is_some_and(|text| text.contains(message))
    });
}

#[test]
fn an_image_is_a_volume() {
    let rig = Rig::new();
    let mount = "volumeMounts:\n- {name: v, mountPath: /image}";
    let spec = |image: &str, policy: &str| {
        format!("volumes: [{{name: v, image: {{reference: '{image}', pullPolicy: {policy}}}}}]")
    };
    let script = "\
ls /image/bin/busybox
touch /image/x 2>/dev/null || echo read-only
grep ' /image ' /proc/mounts | cut -d' ' -f3";
    rig.write_manifest("local.yaml", &pod("local", "", &spec(BUSYBOX, "Never"), mount, script));
    let _agent = rig.start_agent(&[]);
    if !has_image_volumes() {
        wait_waiting(&rig, "local", "CreateContainerConfigError", "images as volumes need containerd 2.1");
        assert!(rig.containers_of(&format!("local-{NODE}")).is_empty(), "no container without its volume");
        return;
    }
    let expect = ["/image/bin/busybox", "read-only", "overlay", "done"];
    assert_eq!(said(&rig, "local"), expect);
    // Pulled like the image of a container, with the same reasons.
    let registry = Registry::start(&rig, Access::Open);
    let (image, absent) = (registry.push("data:1"), registry.push("other:1").replace("other:1", "absent:1"));
    rig.write_manifest("pulled.yaml", &pod("pulled", "", &spec(&image, "IfNotPresent"), mount, script));
    assert_eq!(said(&rig, "pulled"), expect);
    rig.write_manifest("absent.yaml", &pod("absent", "", &spec(&absent, "IfNotPresent"), mount, script));
    wait_waiting(&rig, "absent", "ImagePullBackOff", "absent:1");
    let never = spec(&absent, "Never");
    rig.write_manifest("never.yaml", &pod("never", "", &never, mount, script));
    wait_waiting(&rig, "never", "ErrImageNeverPull", "absent:1");
    // A part of it: containerd 2.1 would mount the whole image instead.
    let part = mount.replace("/image}", "/image, subPath: bin}");
    let script = "ls /image/busybox";
    rig.write_manifest("part.yaml", &pod("part", "", &spec(BUSYBOX, "Never"), &part, script));
    if has_image_sub_paths() {
        assert_eq!(said(&rig, "part"), ["/image/busybox", "done"]);
    } else {
        let message = "parts (subPath) of images as volumes need containerd 2.2";
        wait_waiting(&rig, "part", "CreateContainerConfigError", message);
    }
    for name in ["local", "pulled", "absent", "never", "part"] {
        rig.remove_manifest(&format!("{name}.yaml"));
    }
    wait_clean(&rig);
}

#[test]
fn a_cdi_device_is_in_the_container() {
    let rig = Rig::new();
    fs::create_dir(rig.cdi_dir()).expect("a directory for descriptions of devices");
    let device = r#"{"cdiVersion": "0.6.0", "kind": "rkubelet.dev/test", "devices": [{"name": "one", "containerEdits": {
        "env": ["FROM_CDI=one"], "deviceNodes": [{"path": "/dev/test-one", "hostPath": "/dev/full"}]}}]}"#;
    fs::write(rig.cdi_dir().join("test.json"), device).expect("describe a device");
    let named = |name: &str| format!("annotations: {{cdi.k8s.io/test: rkubelet.dev/test={name}}}");
    let script = "echo $FROM_CDI; echo x > /dev/test-one 2>/dev/null || echo the device is full";
    let plain = "enableServiceLinks: false";
    rig.write_manifest("one.yaml", &pod("one", &named("one"), plain, "tty: false", script));
    let _agent = rig.start_agent(&[]);
    if !has_image_volumes() {
        let message = "rkubelet.dev/test=one: CDI devices need containerd 2.0";
        wait_waiting(&rig, "one", "CreateContainerConfigError", message);
        return;
    }
    assert_eq!(said(&rig, "one"), ["one", "the device is full", "done"]);
    rig.write_manifest("two.yaml", &pod("two", &named("two"), plain, "tty: false", script));
    wait_waiting(&rig, "two", "CreateContainerError", "rkubelet.dev/test=two");
    for name in ["one", "two"] {
        rig.remove_manifest(&format!("{name}.yaml"));
    }
    wait_clean(&rig);
}
