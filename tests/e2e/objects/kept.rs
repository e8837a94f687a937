//! What an instance of a pod once had is on disk before anybody can forget it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::{VALUE, config_map, restart_container, said, secret, uid};
use crate::rig::{NODE, Rig};
use crate::volumes::pod;

#[test]
fn an_object_is_kept_before_anybody_forgets_it() {
    let rig = Rig::new();
    let agent = rig.start_agent(&[]);
    rig.write_manifest("login.yaml", &secret("login", &[("password", VALUE)]));
    rig.write_manifest("map.yaml", &config_map("map", "", &[("a", "1")]));
    let from = "envFrom: [{secretRef: {name: login}}, {configMapRef: {name: map}}]";
    rig.write_manifest("user.yaml", &pod("user", "", "", from, "echo $password $a"));
    assert_eq!(said(&rig, "user"), [format!("{VALUE} 1"), "done".to_owned()]);
    let dir = rig.pod_dir(&uid(&rig, "user"));
    let kept = dir.join("rkubelet/objects/kept.json");
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o750);
    // A newer version is kept as soon as it is there.
    rig.write_manifest("map.yaml", &config_map("map", "", &[("a", "2")]));
    let before = fs::read(&kept).unwrap();
    rig.wait("the newer version", || fs::read(&kept).unwrap() != before);

    // The agent is killed when its source has forgotten the object, and nobody else has heard of that yet.
    agent.kill9();
    let last_good = fs::read_dir(rig.root_dir().join("rkubelet/files")).unwrap();
    let of_objects = |path: &std::path::PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        ["login.yaml", "map.yaml"].iter().any(|file| text.contains(file)) && text.contains("kind:")
    };
    let forgotten: Vec<_> = last_good.map(|entry| entry.unwrap().path()).filter(of_objects).collect();
    assert_eq!(forgotten.len(), 2, "{forgotten:?}");
    forgotten.iter().for_each(|file| fs::remove_file(file).unwrap());
    ["login.yaml", "map.yaml"].iter().for_each(|file| rig.remove_manifest(file));
    let agent = rig.start_agent(&[]);
    agent.wait_healthy();
    rig.wait("the pod", || rig.pod(&format!("user-{NODE}")).is_some());
    restart_container(&rig, "user");
    assert_eq!(said(&rig, "user"), [format!("{VALUE} 2"), "done".to_owned()]);
    rig.remove_manifest("user.yaml");
    rig.wait("the pod's directory to be gone", || !dir.exists());
}
