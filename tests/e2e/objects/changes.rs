//! Objects that change, go, break or are immutable, and the pods that have them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{VALUE, config_map, lines, restart_container, said, secret, served, uid, waiting};
use crate::rig::{NODE, Rig, wait_until};
use crate::volumes::pod;

#[test]
fn a_thousand_changes_are_never_seen_half() {
    let rig = Rig::new();
    let _agent = rig.start_agent(&[]);
    let both = |n: u32| config_map("settings", "", &[("a", &n.to_string()), ("b", &n.to_string())]);
    rig.write_manifest("settings.yaml", &both(0));
    let volume = "volumes: [{name: v, configMap: {name: settings}}]";
    let mount = "volumeMounts: [{name: v, mountPath: /v}, {name: v, mountPath: /fixed, subPath: a}]";
    let script = "\
echo done
last=
while [ \"$last\" != 1000 ]; do
  (cd -P /v/..data && x=$(cat a) && y=$(cat b) && [ \"$x\" = \"$y\" ]) || echo mixed
  now=$(cat /v/a) || echo missing
  [ \"$now\" = \"$last\" ] || echo saw $now
  last=$now
done
echo fixed $(cat /fixed)
echo end";
    rig.write_manifest("reader.yaml", &pod("reader", "", volume, mount, script));
    let id = rig.wait_running(&format!("reader-{NODE}"), "main").id;
    rig.wait("the first value", || lines(&rig, "reader").iter().any(|line| line == "saw 0"));
    for n in 1..=1000 {
        rig.write_manifest("settings.yaml", &both(n));
        #[allow(clippy::disallowed_methods, reason = "the pace of the changes: nothing is waited for")]
        std::thread::sleep(Duration::from_millis(10));
    }
    let written = Instant::now();
    rig.wait("the last value", || lines(&rig, "reader").iter().any(|line| line == "end"));
    let took = written.elapsed();
    let said = lines(&rig, "reader");
    assert!(took < Duration::from_secs(1), "the last change came after {took:?}");
    let seen = said.iter().filter(|line| line.starts_with("saw ")).count();
    assert!(seen > 20, "only {seen} of 1000 changes were seen");
    assert!(!said.iter().any(|line| line == "mixed" || line == "missing"), "{said:?}");
    assert!(said.iter().any(|line| line == "fixed 0"), "a subPath does not change: {said:?}");
    assert_eq!(rig.wait_running(&format!("reader-{NODE}"), "main").id, id, "nothing was restarted");
    let volume = rig.pod_dir(&uid(&rig, "reader")).join("volumes/kubernetes.io~configmap/v");
    // Mounted in the rig's namespace: looked at from there.
    let volume = volume.display().to_string();
    rig.wait("the old files to be gone", || rig.output("ls", &["-A", &volume]).lines().count() == 4);
}

#[test]
fn a_pod_that_asks_for_it_is_replaced_when_an_object_changes() {
    let rig = Rig::new();
    let agent = rig.start_agent(&[]);
    rig.write_manifest("login.yaml", &secret("login", &[("password", "first")]));
    let from = "envFrom: [{secretRef: {name: login}}]";
    let asks = "annotations: {rkubelet.dev/restart-on-change: \"true\"}";
    rig.write_manifest("asks.yaml", &pod("asks", asks, "", from, "echo $password"));
    rig.write_manifest("stays.yaml", &pod("stays", "", "", from, "echo $password"));
    assert_eq!(said(&rig, "asks"), ["first", "done"]);
    assert_eq!(said(&rig, "stays"), ["first", "done"]);
    let stays = rig.wait_running(&format!("stays-{NODE}"), "main").id;
    rig.write_manifest("login.yaml", &secret("login", &[("password", "second")]));
    rig.wait("the second instance", || said(&rig, "asks") == ["second", "done"]);
    assert_eq!(rig.wait_running(&format!("stays-{NODE}"), "main").id, stays);
    // Also what changes while no agent runs; what is gone replaces nobody.
    agent.kill9();
    rig.write_manifest("login.yaml", &secret("login", &[("password", "third")]));
    let agent = rig.start_agent(&[]);
    rig.wait("the third instance", || said(&rig, "asks") == ["third", "done"]);
    let third = rig.wait_running(&format!("asks-{NODE}"), "main").id;
    rig.remove_manifest("login.yaml");
    agent.wait_for_log("manifest is gone");
    rig.write_manifest("other.yaml", &config_map("other", "", &[]).replace("data:\n", "data: {}\n"));
    rig.wait("another object", || served(&rig, "/verdicts").contains("ConfigMap default/other"));
    assert_eq!(rig.wait_running(&format!("asks-{NODE}"), "main").id, third);
}

#[test]
fn what_a_pod_has_it_keeps_when_the_object_is_gone_or_broken() {
    let rig = Rig::new();
    let agent = rig.start_agent(&[]);
    rig.write_manifest("login.yaml", &secret("login", &[("password", VALUE)]));
    rig.write_manifest("map.yaml", &config_map("map", "", &[("a", "1")]));
    let volumes = "volumes: [{name: v, secret: {secretName: login}}, {name: m, configMap: {name: map}}]";
    let from = "envFrom: [{secretRef: {name: login}}, {configMapRef: {name: map}}]\n\
                volumeMounts: [{name: v, mountPath: /v}, {name: m, mountPath: /m}]";
    rig.write_manifest(
        "user.yaml",
        &pod("user", "", volumes, from, "echo $password $a; cat /v/password /m/a; echo"),
    );
    let want = [format!("{VALUE} 1"), format!("{VALUE}1"), "done".to_owned()];
    assert_eq!(said(&rig, "user"), want);
    // Broken: the last good version counts, also for the next agent.
    rig.write_manifest(
        "map.yaml",
        "kind: ConfigMap\napiVersion: v1\nmetadata: {name: map}\ndata: {../a: x}\n",
    );
    agent.wait_for_log("is not a key");
    rig.remove_manifest("login.yaml");
    agent.wait_for_log("manifest is gone");
    restart_container(&rig, "user");
    assert_eq!(said(&rig, "user"), want, "with the agent that has seen it");
    let kept = rig.pod_dir(&uid(&rig, "user")).join("rkubelet/objects/kept.json");
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    agent.kill9();
    let agent = rig.start_agent(&[]);
    agent.wait_healthy();
    rig.wait("the pod", || rig.pod(&format!("user-{NODE}")).is_some());
    restart_container(&rig, "user");
    assert_eq!(said(&rig, "user"), want, "with another agent");
    // Removed while no agent runs.
    agent.kill9();
    rig.remove_manifest("map.yaml");
    let agent = rig.start_agent(&[]);
    agent.wait_for_log("manifest is gone");
    restart_container(&rig, "user");
    assert_eq!(said(&rig, "user"), want, "removed while no agent ran");
    // A new instance is another matter.
    rig.remove_manifest("user.yaml");
    rig.wait("the pod to be gone", || rig.pod(&format!("user-{NODE}")).is_none());
    assert!(!kept.exists());
    rig.write_manifest("user.yaml", &pod("user", "", volumes, from, "echo $password"));
    rig.wait("the new instance to wait", || waiting(&rig, "user").1.contains("not found"));
}

#[test]
fn an_immutable_object_does_not_change_and_kubelets_refusal_can_be_had() {
    let rig = Rig::new();
    let agent = rig.start_agent(&[]);
    let fixed = |value: &str| config_map("fixed", "immutable: true\n", &[("a", value)]);
    rig.write_manifest("fixed.yaml", &fixed("1"));
    let from = "envFrom: [{configMapRef: {name: fixed}}]";
    rig.write_manifest("user.yaml", &pod("user", "", "", from, "echo $a"));
    assert_eq!(said(&rig, "user"), ["1", "done"]);
    rig.write_manifest("fixed.yaml", &fixed("2"));
    rig.wait("the refusal", || served(&rig, "/verdicts").contains("ConfigMap default/fixed is immutable"));
    restart_container(&rig, "user");
    assert_eq!(said(&rig, "user"), ["1", "done"]);
    rig.remove_manifest("fixed.yaml");
    agent.wait_for_log("manifest is gone");
    rig.write_manifest("fixed.yaml", &fixed("2"));
    rig.wait("the new one", || {
        !served(&rig, "/verdicts").contains("is immutable")
            && served(&rig, "/verdicts").contains("ConfigMap default/fixed")
    });
    agent.kill9();
    let other = Rig::new();
    let _agent = other.start_agent(&["--kubelet-strict-static-pods"]);
    other.write_manifest("fixed.yaml", &fixed("1"));
    other.write_manifest("user.yaml", &pod("user", "", "", from, "echo $a"));
    other.wait("both refusals", || served(&other, "/verdicts").matches("\"refused\"").count() == 2);
    let verdicts: Value = serde_json::from_str(&served(&other, "/verdicts")).unwrap();
    assert!(verdicts.to_string().contains("static pods may not reference configmaps"), "{verdicts}");
    assert!(wait_until(Duration::from_secs(1), || false) || other.sandboxes().is_empty());
}
