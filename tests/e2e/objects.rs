//! ConfigMaps and Secrets beside the pods: in volumes, in the environment, for registries; seen from inside the container.

mod kept;
mod secrecy;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::manifest::IDLE;
use crate::rig::web::Server;
use crate::rig::{
    Access, BUSYBOX, NODE, PASSWORD, READ_ONLY_PORT, REGISTRY, Registry, Rig, USER, wait_until,
};
use crate::url;

/// What no log, verdict or status may hold.
const VALUE: &str = "hunter2-correct-horse";

fn config_map(name: &str, more: &str, data: &[(&str, &str)]) -> String {
    let data: String = data.iter().map(|(key, value)| format!("  {key}: {value:?}\n")).collect();
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n{more}data:\n{data}")
}

fn secret(name: &str, data: &[(&str, &str)]) -> String {
    config_map(name, "", data).replace("ConfigMap", "Secret").replace("\ndata:", "\nstringData:")
}

/// A pod whose container `main` runs a script; the fields of pod and container are lines of YAML.
fn pod(name: &str, metadata: &str, spec: &str, container: &str, script: &str) -> String {
    let indented =
        |text: &str, by: &str| text.lines().map(|line| format!("{by}{line}\n")).collect::<String>();
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n{}spec:\n  terminationGracePeriodSeconds: 1\n{}  \
         containers:\n  - name: main\n    image: {BUSYBOX}\n{}    command:\n    - sh\n    - -c\n    - |\n{}",
        indented(metadata, "  "),
        indented(spec, "  "),
        indented(container, "    "),
        indented(&format!("{script}\necho done\n{IDLE}"), "        "),
    )
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
