//! Images: names, policies, pulls and their turns, back-off, credentials. Against a real registry.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::Value;

use crate::manifest::{self, IDLE};
use crate::rig::{Access, Agent, BUSYBOX, GATED, Gate, PASSWORD, REGISTRY, Registry, Rig, USER};

/// An idle pod of this image; `more` are fields of the container.
fn pod_of(name: &str, image: &str, more: &str) -> String {
    let image = format!("image: {image}\n    {more}");
    manifest::script(name, IDLE).replace(&format!("image: {BUSYBOX}"), &image)
}

/// Why the containers of a pod wait, by the agent's account: reason and message.
fn waiting(rig: &Rig, pod: &str) -> (String, String) {
    let pod = rig.pod(&format!("{pod}-node1")).unwrap_or_default();
    let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
    let text = |field: &str| waiting[field].as_str().unwrap_or_default().to_owned();
    (text("reason"), text("message"))
}

/// Waits until a pod waits for this reason, and returns the message.
fn wait_for_reason(rig: &Rig, pod: &str, reason: &str) -> String {
    let mut message = String::new();
    rig.wait(&format!("{pod} to show {reason}"), || {
        let seen = waiting(rig, pod);
        message = seen.1;
        seen.0 == reason
    });
    message
}

/// How many pulls an agent began.
fn pulls(agent: &Agent<'_>) -> usize {
    agent.log_lines_with("pulling image").len()
}

/// Puts docker's config.json into the agent's root directory.
fn write_config_json(rig: &Rig, password: &str, mode: u32) {
    let path = rig.root_dir().join("config.json");
    let entry = serde_json::json!({"auths": {REGISTRY: {"username": USER, "password": password}}});
    fs::write(&path, entry.to_string()).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
}

/// What an agent kept on disk of a pod's failed pulls.
fn recorded(rig: &Rig, pod: &str) -> Option<Value> {
    let uid = rig.pod(&format!("{pod}-node1"))?["metadata"]["uid"].as_str()?.to_owned();
    let text = fs::read_to_string(rig.pod_dir(&uid).join("rkubelet/pulls/main.json")).ok()?;
    serde_json::from_str(&text).ok()
}

#[test]
fn images_are_pulled_by_tag_by_digest_and_by_neither() {
    let rig = Rig::new();
    let registry = Registry::start(&rig, Access::Open);
    let tagged = registry.push("tagged:1");
    registry.push("pinned:1");
    let pinned = format!("{REGISTRY}/pinned@{}", rig.busybox_digest());
    registry.push("newest:latest");
    let newest = format!("{REGISTRY}/newest");
    let agent = rig.start_agent(&[]);
    for (name, image, policy) in [
        ("tagged", &tagged, "IfNotPresent"),
        ("pinned", &pinned, "IfNotPresent"),
        ("newest", &newest, "Always"),
    ] {
        rig.write_manifest(&format!("{name}.yaml"), &pod_of(name, image, ""));
        rig.wait_running(&format!("{name}-node1"), "main");
        let spec = &rig.pod(&format!("{name}-node1")).unwrap()["spec"]["containers"][0];
        assert_eq!((&spec["image"], &spec["imagePullPolicy"]), (&image.as_str().into(), &policy.into()));
    }
    assert_eq!(pulls(&agent), 3, "{}", agent.log());

    // What is there is not pulled again, unless always.
    rig.write_manifest("again.yaml", &pod_of("again", &tagged, ""));
    rig.wait_running("again-node1", "main");
    assert_eq!(pulls(&agent), 3, "{}", agent.log());
    rig.write_manifest("always.yaml", &pod_of("always", &tagged, "imagePullPolicy: Always"));
    rig.wait_running("always-node1", "main");
    assert_eq!(pulls(&agent), 4, "{}", agent.log());
}

#[test]
fn a_name_that_is_none_and_an_image_that_may_not_be_pulled_hold_up_no_sibling() {
    let rig = Rig::new();
    let agent = rig.start_agent(&[]);
    let second = |name: &str, rest: &str| {
        let sibling = format!("  - {{name: sibling, image: {BUSYBOX}, command: [sleep, '1000']}}\n");
        format!("{}{sibling}", pod_of(name, rest, ""))
    };
    rig.write_manifest("invalid.yaml", &second("invalid", "No/Such:1"));
    rig.write_manifest("never.yaml", &second("never", "r.example/never:1\n    imagePullPolicy: Never"));
    for pod in ["invalid", "never"] {
        rig.wait_running(&format!("{pod}-node1"), "sibling");
    }
    assert_eq!(
        wait_for_reason(&rig, "invalid", "InvalidImageName"),
        "Failed to apply default image tag \"No/Such:1\": couldn't parse image name \"No/Such:1\": \
         invalid reference format: repository name (Such) must be lowercase"
    );
    assert_eq!(
        wait_for_reason(&rig, "never", "ErrImageNeverPull"),
        "Container image \"r.example/never:1\" is not present with pull policy of Never"
    );
    rig.import_as("r.example/never:1");
    rig.wait_running("never-node1", "main");
    assert_eq!(pulls(&agent), 0, "{}", agent.log());
}

#[test]
fn a_password_comes_from_config_json_which_is_read_at_each_pull() {
    let rig = Rig::new();
    let registry = Registry::start(&rig, Access::Password);
    let image = registry.push("secret:1");
    write_config_json(&rig, "wrong", 0o644);
    let agent = rig.start_agent(&["-v=10"]);
    rig.write_manifest("secret.yaml", &pod_of("secret", &image, ""));
    let failed = wait_for_reason(&rig, "secret", "ErrImagePull");
    assert!(failed.contains("failed to pull and unpack image"), "{failed}");
    let waits = wait_for_reason(&rig, "secret", "ImagePullBackOff");
    assert_eq!(waits, format!("Back-off pulling image \"{image}\": ErrImagePull: {failed}"));
    assert_eq!(
        agent.log_lines_with("every user of this machine can read the file").len(),
        1,
        "{}",
        agent.log()
    );

    write_config_json(&rig, PASSWORD, 0o600);
    rig.wait_running("secret-node1", "main");
    assert_eq!(recorded(&rig, "secret"), None, "what succeeded is forgotten");
    for secret in [PASSWORD, "\"wrong\""] {
        assert!(!agent.log().contains(secret), "{}", agent.log());
    }
}

#[test]
fn a_password_comes_from_a_plugin_and_one_that_fails_is_named() {
    let rig = Rig::new();
    let registry = Registry::start(&rig, Access::Password);
    let (good, bad) = (registry.push("good/app:1"), registry.push("bad/app:1"));
    let bin = rig.dir().join("plugins");
    fs::create_dir(&bin).unwrap();
    let version = "credentialprovider.kubelet.k8s.io/v1";
    let answer = serde_json::json!({
        "kind": "CredentialProviderResponse", "apiVersion": version, "cacheKeyType": "Image",
        "auth": {REGISTRY: {"username": USER, "password": "PASSWORD"}},
    });
    let answer = answer.to_string().replace("PASSWORD", "'$SECRET'");
    let scripts =
        [("good", format!("cat > {}/request; echo '{answer}'", bin.display())), ("bad", "exit 7".into())];
    let mut config =
        "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n".to_owned();
    for (name, script) in scripts {
        fs::write(bin.join(name), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        config += &format!(
            "- {{name: {name}, apiVersion: {version}, matchImages: ['{REGISTRY}/{name}'], defaultCacheDuration: 1m, \
             env: [{{name: SECRET, value: {PASSWORD}}}]}}\n"
        );
    }
    fs::write(rig.dir().join("plugins.yaml"), config).unwrap();
    let flags = [
        format!("--image-credential-provider-config={}", rig.dir().join("plugins.yaml").display()),
        format!("--image-credential-provider-bin-dir={}", bin.display()),
        "-v=10".to_owned(),
    ];
    let agent = rig.start_agent(&flags.each_ref().map(String::as_str));
    rig.write_manifest("good.yaml", &pod_of("good", &good, ""));
    rig.write_manifest("bad.yaml", &pod_of("bad", &bad, ""));
    rig.wait_running("good-node1", "main");
    let request: Value = serde_json::from_slice(&fs::read(bin.join("request")).unwrap()).unwrap();
    let expect = serde_json::json!({
        "kind": "CredentialProviderRequest", "apiVersion": version, "image": format!("{REGISTRY}/good/app"),
    });
    assert_eq!(request, expect);
    let message = wait_for_reason(&rig, "bad", "ErrImagePull");
    assert!(message.ends_with(" (credential provider bad: exit status: 7)"), "{message}");
    assert!(!agent.log().contains(PASSWORD), "{}", agent.log());
}

#[test]
fn a_registry_that_comes_back_is_asked_again() {
    let rig = Rig::new();
    let registry = Registry::start(&rig, Access::Open);
    let image = registry.push("app:1");
    drop(registry);
    let _agent = rig.start_agent(&[]);
    rig.write_manifest("app.yaml", &pod_of("app", &image, ""));
    let message = wait_for_reason(&rig, "app", "ErrImagePull");
    assert!(message.contains("connection refused"), "{message}");
    let _registry = Registry::start(&rig, Access::Open);
    rig.wait_running("app-node1", "main");
}

#[test]
fn an_image_that_is_imported_by_hand_is_used_while_its_pull_waits() {
    let rig = Rig::new();
    let agent = rig.start_agent(&[]);
    let image = format!("{REGISTRY}/by-hand:1");
    rig.write_manifest("hand.yaml", &pod_of("hand", &image, ""));
    rig.wait("a second failure, after which it waits for 20 s", || {
        recorded(&rig, "hand").is_some_and(|record| record["count"] == 2)
    });
    rig.import_as(&image);
    rig.wait_running("hand-node1", "main");
    assert_eq!(pulls(&agent), 2, "nobody pulled it: {}", agent.log());
}

#[test]
fn a_restart_of_the_agent_keeps_the_wait_and_an_edit_ends_it() {
    let rig = Rig::new();
    let agent = rig.start_agent(&[]);
    let image = format!("{REGISTRY}/nowhere:1");
    rig.write_manifest("app.yaml", &pod_of("app", &image, ""));
    rig.wait("a second failure, after which it waits for 20 s", || {
        recorded(&rig, "app").is_some_and(|record| record["count"] == 2)
    });
    agent.kill9();
    let agent = rig.start_agent(&[]);
    rig.wait("what is known to be shown", || waiting(&rig, "app").1.contains("connection refused"));
    assert_eq!(pulls(&agent), 0, "it waits on: {}", agent.log());
    rig.write_manifest("app.yaml", &pod_of("app", &image, "stdin: true"));
    rig.wait("a first failure of the new instance", || {
        recorded(&rig, "app").is_some_and(|record| record["count"] == 1)
    });
}

#[test]
fn the_present_image_is_used_without_a_registry_if_so_wished_and_not_after_a_refusal() {
    let rig = Rig::new();
    let image = format!("{REGISTRY}/always:1");
    rig.import_as(&image);
    let always = |name: &str| pod_of(name, &image, "imagePullPolicy: Always");
    rig.write_manifest("a.yaml", &always("a"));
    let agent = rig.start_agent(&[]);
    wait_for_reason(&rig, "a", "ErrImagePull");
    agent.kill9();
    let agent = rig.start_agent(&["--image-pull-fallback"]);
    rig.wait_running("a-node1", "main");
    agent.wait_for_log("using the image that is present");

    let _registry = Registry::start(&rig, Access::Password);
    rig.write_manifest("b.yaml", &always("b"));
    let message = wait_for_reason(&rig, "b", "ErrImagePull");
    // "401 Unauthorized", or "authorization failed", by the version of containerd.
    assert!(message.to_lowercase().contains("authoriz"), "{message}");
}

#[test]
fn one_image_at_a_time_and_whoever_has_his_image_waits_for_nobody() {
    let rig = Rig::new();
    let registry = Registry::start(&rig, Access::Open);
    for name in ["a:1", "b:1"] {
        registry.push(name);
    }
    let gate = Gate::closed(&rig);
    let agent = rig.start_agent(&[]);
    rig.write_manifest("a.yaml", &pod_of("a", &format!("{GATED}/a:1"), ""));
    assert!(gate.is_asked_for(1, Duration::from_secs(30)), "{}", rig.report());
    rig.write_manifest("b.yaml", &pod_of("b", &format!("{GATED}/b:1"), ""));
    rig.write_manifest("same.yaml", &pod_of("same", &format!("{GATED}/a:1"), ""));
    rig.write_manifest("present.yaml", &manifest::idle("present"));
    rig.wait_running("present-node1", "main");
    rig.wait("the sandboxes of those who wait", || {
        ["b-node1", "same-node1"].iter().all(|pod| rig.ready_sandboxes("default", pod).len() == 1)
    });
    // What must not happen sends no event.
    assert!(!gate.is_asked_for(2, Duration::from_secs(3)), "{:?}", gate.asked());
    gate.open();
    for pod in ["a-node1", "b-node1", "same-node1"] {
        rig.wait_running(pod, "main");
    }
    assert_eq!(pulls(&agent), 2, "who wants the same image gets it from one pull: {}", agent.log());
}

#[test]
fn several_images_at_a_time_and_an_edit_interrupts_a_pull() {
    let rig = Rig::new();
    let _registry = Registry::start(&rig, Access::Open);
    let gate = Gate::closed(&rig);
    rig.write_config("maxParallelImagePulls: 2\n");
    let _agent = rig.start_agent(&[]);
    let gated = |name: &str| pod_of(name, &format!("{GATED}/{name}:1"), "");
    rig.write_manifest("a.yaml", &gated("a"));
    rig.write_manifest("b.yaml", &gated("b"));
    assert!(gate.is_asked_for(2, Duration::from_secs(30)), "{:?}\n{}", gate.asked(), rig.report());
    rig.write_manifest("c.yaml", &gated("c"));
    rig.wait("the sandbox of the one who waits", || rig.ready_sandboxes("default", "c-node1").len() == 1);
    assert!(!gate.is_asked_for(3, Duration::from_secs(2)), "{:?}", gate.asked());

    // The edit need not wait for the pull, and the turn is the next one's.
    rig.write_manifest("a.yaml", &manifest::idle("a"));
    rig.wait_running("a-node1", "main");
    assert!(gate.is_asked_for(3, Duration::from_secs(30)), "{:?}\n{}", gate.asked(), rig.report());
}

#[test]
fn an_image_is_pulled_once_while_there_is_no_sandbox_yet() {
    let rig = Rig::new();
    let registry = Registry::start(&rig, Access::Open);
    let image = registry.push("early:1");
    let agent = rig.start_agent(&["-v=4"]);
    let pod = pod_of("early", &image, "imagePullPolicy: Always");
    // A sandbox that cannot be made, for as long as need be.
    rig.write_manifest("early.yaml", &pod.replace("spec:\n", "spec:\n  runtimeClassName: kata\n"));
    rig.wait("the image to come", || rig.ctr(&["images", "ls", "-q"]).contains(&image));
    rig.wait("the sandbox to be tried again", || agent.log_lines_with("CreateSandbox").len() > 1);
    assert_eq!(pulls(&agent), 1, "{}", agent.log());
    assert!(rig.sandboxes().is_empty());
    let (reason, message) = waiting(&rig, "early");
    assert_eq!(reason, "ContainerCreating");
    assert!(message.contains("the container runtime has no such handler"), "{message}");
}

#[test]
fn a_pull_that_takes_too_long_has_failed() {
    let rig = Rig::new();
    let _gate = Gate::closed(&rig);
    let _agent = rig.start_agent(&["--image-pull-deadline=2s"]);
    rig.write_manifest("slow.yaml", &pod_of("slow", &format!("{GATED}/slow:1"), ""));
    let message = wait_for_reason(&rig, "slow", "ErrImagePull");
    assert_eq!(message, "rpc error: code = DeadlineExceeded desc = no answer within 2s");
}

#[test]
fn while_an_image_is_pulled_its_neighbours_are_probed_and_restarted() {
    let rig = Rig::new();
    let registry = Registry::start(&rig, Access::Open);
    registry.push("late:1");
    let gate = Gate::closed(&rig);
    let _agent = rig.start_agent(&[]);
    let probed = "readinessProbe: {exec: {command: ['true']}, periodSeconds: 1}\n    ";
    let text = manifest::script("pod", IDLE).replace("    command:", &format!("    {probed}command:"));
    let late = format!("  - {{name: late, image: '{GATED}/late:1', command: [sleep, '1000']}}\n");
    rig.write_manifest("pod.yaml", &(text + &late));
    assert!(gate.is_asked_for(1, Duration::from_secs(30)), "{}", rig.report());
    let status_of = |name: &str| {
        let pod = rig.pod("pod-node1").unwrap_or_default();
        let all = pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|one| one["name"] == name).unwrap_or_default()
    };
    rig.wait("the one that is there to be ready", || status_of("main")["ready"] == true);
    let first = rig.wait_running("pod-node1", "main");
    rig.kill_process(first.pid);
    rig.wait("it to be restarted", || status_of("main")["restartCount"] == 1);
    rig.wait("it to be ready again", || status_of("main")["ready"] == true);
    assert_eq!(status_of("late")["state"]["waiting"]["reason"], "ContainerCreating");
    assert!(
        !gate.is_asked_for(2, Duration::ZERO),
        "one pull, whatever happens meanwhile: {:?}",
        gate.asked()
    );
    gate.open();
    rig.wait_running("pod-node1", "late");
}
