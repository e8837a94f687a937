//! ConfigMaps and Secrets beside the pods: in volumes, in the environment, for registries; seen from inside the container.

mod changes;
mod kept;
mod secrecy;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::rig::web::Server;
use crate::rig::{Access, BUSYBOX, NODE, PASSWORD, READ_ONLY_PORT, REGISTRY, Registry, Rig, USER};
use crate::url;
use crate::volumes::pod;

/// What no log, verdict or status may hold.
const VALUE: &str = "hunter2-correct-horse";

fn config_map(name: &str, more: &str, data: &[(&str, &str)]) -> String {
    let data: String = data.iter().map(|(key, value)| format!("  {key}: {value:?}\n")).collect();
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n{more}data:\n{data}")
}

fn secret(name: &str, data: &[(&str, &str)]) -> String {
    config_map(name, "", data).replace("ConfigMap", "Secret").replace("\ndata:", "\nstringData:")
}

/// The lines that the newest container of a pod printed so far.
fn lines(rig: &Rig, pod: &str) -> Vec<String> {
    let newest = rig.wait_running(&format!("{pod}-{NODE}"), "main");
    let text = fs::read_to_string(&newest.log_path).unwrap_or_default();
    text.lines().filter_map(|line| Some(line.split_once(" stdout F ")?.1.to_owned())).collect()
}

/// The same, once it has said `done`.
fn said(rig: &Rig, pod: &str) -> Vec<String> {
    rig.wait(&format!("{pod} to have told"), || lines(rig, pod).iter().any(|line| line == "done"));
    lines(rig, pod)
}

fn served(rig: &Rig, path: &str) -> String {
    let reply = rig.http_get(&format!("http://127.0.0.1:{READ_ONLY_PORT}{path}"));
    reply.map(|reply| reply.body).unwrap_or_default()
}

/// Why the container of a pod waits: reason and message.
fn waiting(rig: &Rig, pod: &str) -> (String, String) {
    let pod = rig.pod(&format!("{pod}-{NODE}")).unwrap_or_default();
    let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
    let text = |field: &str| waiting[field].as_str().unwrap_or_default().to_owned();
    (text("reason"), text("message"))
}

fn uid(rig: &Rig, pod: &str) -> String {
    let pod = rig.pod(&format!("{pod}-{NODE}")).expect("the pod");
    pod["metadata"]["uid"].as_str().expect("a UID").to_owned()
}

/// Kills the container's process, and waits for the next one.
fn restart_container(rig: &Rig, pod: &str) {
    let name = format!("{pod}-{NODE}");
    let before = rig.wait_running(&name, "main");
    rig.kill_process(before.pid);
    rig.wait("the next container", || rig.wait_running(&name, "main").id != before.id);
}

const SPEC: &str = "\
volumes:
- {name: map, configMap: {name: settings, defaultMode: 0640}}
- {name: key, secret: {secretName: login, items: [{key: password, path: d/pass, mode: 0400}]}}
- {name: none, configMap: {name: nowhere, optional: true}}
- name: all
  projected:
    defaultMode: 0444
    sources:
    - configMap: {name: settings, items: [{key: color, path: color}]}
    - secret: {name: login}
    - secret: {name: nowhere, optional: true}
    - downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}";

const CONTAINER: &str = "\
envFrom:
- {configMapRef: {name: settings}}
- {prefix: LOGIN_, secretRef: {name: login}}
- {secretRef: {name: nowhere, optional: true}}
env:
- {name: COLOR, valueFrom: {configMapKeyRef: {name: settings, key: color}}}
- {name: PASS, valueFrom: {secretKeyRef: {name: login, key: password}}}
- {name: NONE, valueFrom: {secretKeyRef: {name: nowhere, key: x, optional: true}}}
- {name: BOTH, value: $(COLOR)-$(LOGIN_user)}
volumeMounts:
- {name: map, mountPath: /map}
- {name: key, mountPath: /key}
- {name: none, mountPath: /none}
- {name: all, mountPath: /all}
- {name: map, mountPath: /one, subPath: color}";

const SCRIPT: &str = "\
ls /map | tr '\\n' ' '; echo
cat /map/color; echo
stat -L -c %a /map/color
cat /key/d/pass; echo
stat -L -c %a /key/d/pass
ls /none | wc -l
ls /all | tr '\\n' ' '; echo
cat /all/name; echo
stat -L -c %a /all/password
cat /one; echo
echo env $color $LOGIN_user $COLOR $PASS ${NONE-unset} $BOTH
grep -c ' /key tmpfs' /proc/mounts
touch /map/x 2>/dev/null || echo read-only";

#[test]
fn volumes_and_environment_come_from_objects_beside_the_pod() {
    let rig = Rig::new();
    let agent = rig.start_agent(&[]);
    // The secret has a file of its own, the map one with the pod.
    rig.write_manifest("login.yaml", &secret("login", &[("user", "root"), ("password", VALUE)]));
    let map = config_map("settings", "", &[("color", "blue"), ("size", "7")]);
    let pod = pod("all", "", SPEC, CONTAINER, SCRIPT);
    rig.write_manifest("all.yaml", &format!("{map}---\n{pod}"));
    let env = format!("env blue root blue {VALUE} unset blue-root");
    let name = format!("all-{NODE}");
    let want = [
        "color size ",
        "blue",
        "640",
        VALUE,
        "400",
        "0",
        "color name password user ",
        name.as_str(),
        "444",
        "blue",
        env.as_str(),
        "1",
        "read-only",
        "done",
    ];
    assert_eq!(said(&rig, "all"), want, "{}", agent.log());
    let verdicts = served(&rig, "/verdicts");
    for object in ["ConfigMap default/settings", "Secret default/login"] {
        assert!(verdicts.contains(object), "{verdicts}");
    }
    rig.remove_manifest("all.yaml");
    rig.wait("the pod's directory to be gone", || {
        fs::read_dir(rig.root_dir().join("pods")).map_or(0, Iterator::count) == 0
    });
}

#[test]
fn a_pod_waits_for_what_is_missing_and_goes_on_when_it_appears() {
    let rig = Rig::new();
    let _agent = rig.start_agent(&[]);
    let volume = "volumes: [{name: v, configMap: {name: settings}}]";
    let mount = "volumeMounts: [{name: v, mountPath: /v}]";
    rig.write_manifest("volume.yaml", &pod("volume", "", volume, mount, "cat /v/a; echo"));
    let from = "env: [{name: PASS, valueFrom: {secretKeyRef: {name: login, key: password}}}]";
    rig.write_manifest("env.yaml", &pod("env", "", "", from, "echo $PASS"));
    let dir = rig.manifest_dir().display().to_string();
    rig.wait("the volume's reason", || waiting(&rig, "volume").0 == "ContainerCreating");
    let message = waiting(&rig, "volume").1;
    let want = "FailedMount: MountVolume.SetUp failed for volume \"v\": configmap \"settings\" not found in namespace \"default\"";
    assert!(message.starts_with(want) && message.contains(&dir), "{message}");
    rig.wait("the variable's reason", || waiting(&rig, "env").0 == "CreateContainerConfigError");
    let message = waiting(&rig, "env").1;
    assert!(message.starts_with("secret \"login\" not found") && message.contains(&dir), "{message}");
    let events: Value = serde_json::from_str(&served(&rig, "/events")).expect("events");
    let of = |reason: &str| {
        let is = |event: &&Value| event["reason"] == reason;
        events["items"].as_array().expect("items").iter().find(is).unwrap_or_else(|| panic!("{events}"))
    };
    assert_eq!(of("FailedMount")["involvedObject"]["fieldPath"], Value::Null, "the pod's, as kubelet has it");
    assert_eq!(of("Failed")["involvedObject"]["fieldPath"], "spec.containers{main}");

    rig.write_manifest("settings.yaml", &config_map("settings", "", &[("a", "1")]));
    assert_eq!(said(&rig, "volume"), ["1", "done"]);
    rig.write_manifest("login.yaml", &secret("login", &[("user", "root")]));
    rig.wait("the missing key to be named", || {
        waiting(&rig, "env").1.contains("couldn't find key \"password\"")
    });
    rig.write_manifest("login.yaml", &secret("login", &[("password", VALUE)]));
    assert_eq!(said(&rig, "env"), [VALUE, "done"]);
}

#[test]
fn the_list_of_a_url_holds_objects_too() {
    let rig = Rig::new();
    let server = Server::start(&rig, url::ADDRESS);
    let from = "envFrom: [{configMapRef: {name: settings}}, {secretRef: {name: login}}]";
    let user = pod("user", "", "", from, "echo $a $password");
    let map = config_map("settings", "", &[("a", "1")]);
    let (first, other) = (secret("login", &[("password", VALUE)]), secret("login", &[("password", "other")]));
    server.serve(format!("{user}---\n{map}---\n{first}"));
    let agent = url::start(&rig, &server.url("/pods"), &[]);
    assert_eq!(said(&rig, "user"), [format!("1 {VALUE}"), "done".to_owned()]);
    let kept = rig.root_dir().join("rkubelet/url/pods.json");
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    // The directory has precedence.
    rig.write_manifest("login.yaml", &other);
    rig.wait("the shadow", || served(&rig, "/verdicts").contains("\"shadowed\""));
    restart_container(&rig, "user");
    assert_eq!(said(&rig, "user"), ["1 other", "done"]);
    rig.remove_manifest("login.yaml");
    rig.wait("no shadow", || !served(&rig, "/verdicts").contains("\"shadowed\""));
    // A start without the server.
    agent.kill9();
    drop(server);
    let agent = url::start(&rig, &format!("http://{}/pods", url::ADDRESS), &[]);
    agent.wait_for_log(url::FAILED);
    restart_container(&rig, "user");
    assert_eq!(said(&rig, "user"), [format!("1 {VALUE}"), "done".to_owned()]);
    assert!(!agent.log().contains(VALUE), "{}", agent.log());
}

#[test]
fn a_private_image_is_pulled_with_the_secret_of_the_pod() {
    let rig = Rig::new();
    let registry = Registry::start(&rig, Access::Password);
    let image = registry.push("private:1");
    let agent = rig.start_agent(&["-v=10"]);
    let text = pod("private", "", "imagePullSecrets: [{name: registry}]", "", "echo pulled");
    rig.write_manifest("private.yaml", &text.replace(BUSYBOX, &image));
    rig.wait("the failure", || {
        waiting(&rig, "private").1.contains("imagePullSecrets: secret \"registry\" not found")
    });
    let entry =
        serde_json::json!({"auths": {REGISTRY: {"username": USER, "password": PASSWORD}}}).to_string();
    let secret = serde_json::json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "registry"},
        "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": entry},
    });
    rig.write_manifest("registry.json", &secret.to_string());
    assert_eq!(said(&rig, "private"), ["pulled", "done"]);
    assert!(!agent.log().contains(PASSWORD), "{}", agent.log());
}
