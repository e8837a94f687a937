//! Point 2: a manifest becomes a running pod, with what kubelet's users and log collectors expect around it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::manifest;
use crate::rig::{BUSYBOX, ContainerState, NODE_IP, Rig};

fn map<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

#[test]
fn a_pod_runs_with_kubelets_labels_annotations_ports_and_logs() {
    let rig = Rig::new();
    rig.write_manifest("web.yaml", manifest::WEB);
    let _agent = rig.start_agent(&[]);
    let container = rig.wait_running("web-node1", "web");
    let [sandbox] = &rig.sandboxes()[..] else { panic!("one sandbox: {:#?}", rig.sandboxes()) };

    assert_eq!((sandbox.namespace.as_str(), sandbox.pod.as_str()), ("default", "web-node1"));
    assert_eq!((sandbox.ready, sandbox.attempt), (true, 0));
    let uid = sandbox.uid.as_str();
    assert!(uid.len() == 32 && uid.chars().all(|c| c.is_ascii_hexdigit()), "a static pod's UID: {uid}");
    let common = map([
        ("io.kubernetes.pod.name", "web-node1"),
        ("io.kubernetes.pod.namespace", "default"),
        ("io.kubernetes.pod.uid", uid),
    ]);
    let mut labels = common.clone();
    labels.insert("app".to_owned(), "web".to_owned());
    assert_eq!(sandbox.labels, labels);
    assert_eq!(sandbox.annotations["kubernetes.io/config.source"], "file");
    assert_eq!(sandbox.annotations["note"], "hello");
    assert!(!sandbox.annotations["kubernetes.io/config.hash"].is_empty());
    let seen: jiff::Timestamp = sandbox.annotations["kubernetes.io/config.seen"].parse().expect("RFC 3339");
    assert!(seen <= jiff::Timestamp::now());

    assert_eq!((container.attempt, &container.sandbox_id), (0, &sandbox.id));
    let mut labels = common;
    labels.insert("io.kubernetes.container.name".to_owned(), "web".to_owned());
    assert_eq!(container.labels, labels);
    let mut annotations = container.annotations.clone();
    let hash = annotations.remove("io.kubernetes.container.hash").expect("the container's hash");
    assert!(!hash.is_empty());
    let boot_id = annotations.remove("rkubelet.dev/boot-id").expect("the boot of the machine");
    assert!(!boot_id.is_empty());
    let ports = annotations.remove("io.kubernetes.container.ports").expect("the container's ports");
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&ports).expect("JSON"),
        serde_json::json!([{"name": "http", "hostPort": 18080, "containerPort": 8080, "protocol": "TCP"}])
    );
    assert_eq!(
        annotations,
        map([
            ("io.kubernetes.container.restartCount", "0"),
            ("io.kubernetes.container.terminationMessagePath", "/dev/termination-log"),
            ("io.kubernetes.container.terminationMessagePolicy", "File"),
            ("io.kubernetes.pod.terminationGracePeriod", "1"),
        ])
    );

    for url in [format!("http://{}:8080/", sandbox.ip), format!("http://{NODE_IP}:18080/")] {
        let served = || rig.http_get(&url).is_some_and(|reply| reply.body == "web-node1 one-two\n");
        rig.wait(&format!("{url} to serve the hostname and the environment"), served);
    }

    let log = rig.pod_logs_dir().join(format!("default_web-node1_{uid}/web/0.log"));
    assert_eq!(container.log_path, log.display().to_string());
    rig.wait("the log's first line", || {
        fs::read_to_string(&log).is_ok_and(|text| text.ends_with(" stdout F started one one-two\n"))
    });
    let link = rig.container_links_dir().join(format!("web-node1_default_web-{}.log", container.id));
    rig.wait("the link to the log", || fs::read_link(&link).is_ok_and(|target| target == log));

    let mode = fs::metadata(rig.pod_dir(uid)).expect("the pod's directory").permissions().mode();
    assert_eq!(mode & 0o7777, 0o750, "the mode of the pod's directory");
}

#[test]
fn a_pod_on_the_host_network_has_the_nodes_address_and_name() {
    let rig = Rig::new();
    rig.write_manifest("etcd.yaml", manifest::HOST_NETWORK);
    let _agent = rig.start_agent(&[]);
    rig.wait_running("etcd-node1", "etcd");
    let [sandbox] = &rig.sandboxes()[..] else { panic!("one sandbox: {:#?}", rig.sandboxes()) };
    assert_eq!((sandbox.namespace.as_str(), sandbox.ip.as_str()), ("kube-system", ""));
    let served = || rig.http_get("http://127.0.0.1:12379/").is_some_and(|reply| reply.body == "node1\n");
    rig.wait("the server on the node's loopback to tell the node's name", served);
    assert!(rig.pod_logs_dir().join(format!("kube-system_etcd-node1_{}/etcd/0.log", sandbox.uid)).exists());
}

#[test]
fn containers_share_volumes_with_each_other_and_with_the_node() {
    let rig = Rig::new();
    let given = rig.dir().join("given");
    fs::create_dir(&given).expect("create a directory to mount");
    fs::write(given.join("word"), "hello").expect("write a file to mount");
    let text = format!(
        r#"
apiVersion: v1
kind: Pod
metadata: {{name: volumes}}
spec:
  terminationGracePeriodSeconds: 1
  volumes:
  - {{name: scratch, emptyDir: {{}}}}
  - {{name: given, hostPath: {{path: {given}, type: Directory}}}}
  - {{name: made, hostPath: {{path: {given}/made/deep, type: DirectoryOrCreate}}}}
  containers:
  - name: a
    image: {BUSYBOX}
    command: [sh, -c, 'echo refused > /given/word; cat /given/word > part; mv part state; exec sleep 1000']
    workingDir: /scratch
    volumeMounts: [{{name: scratch, mountPath: /scratch}}, {{name: given, mountPath: /given, readOnly: true}}]
  - name: b
    image: {BUSYBOX}
    command: [sh, -c]
    args: ['until [ -e /scratch/state ]; do sleep 0.1; done; echo "$(cat /scratch/state) world" > /made/result; exec sleep 1000']
    volumeMounts: [{{name: scratch, mountPath: /scratch}}, {{name: made, mountPath: /made}}]
"#,
        given = given.display()
    );
    rig.write_manifest("volumes.yml", &text);
    let _agent = rig.start_agent(&[]);
    let a = rig.wait_running("volumes-node1", "a");
    let result = given.join("made/deep/result");
    rig.wait("the word to be passed on", || {
        fs::read_to_string(&result).is_ok_and(|text| text == "hello world\n")
    });
    assert_eq!(
        fs::read_to_string(given.join("word")).expect("the word"),
        "hello",
        "it was mounted read-only"
    );
    let uid = &a.labels["io.kubernetes.pod.uid"];
    let scratch = rig.pod_dir(uid).join("volumes/kubernetes.io~empty-dir/scratch");
    assert_eq!(fs::read_to_string(scratch.join("state")).expect("the emptyDir"), "hello");
}

#[test]
fn every_spelling_of_a_manifest_file_is_read_and_nothing_else() {
    let rig = Rig::new();
    let json = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "json"},
        "spec": {"containers": [{"name": "main", "image": BUSYBOX, "command": ["sleep", "1000"]}]},
    });
    rig.write_manifest("a.json", &json.to_string());
    rig.write_manifest("b.yml", &manifest::idle("yml"));
    for ignored in ["c.yaml.bak", ".d.yaml", "e.yaml~", "f.txt", ".g.yaml.swp"] {
        rig.write_manifest(ignored, &manifest::idle("ignored"));
    }
    let _agent = rig.start_agent(&[]);
    rig.wait_running("json-node1", "main");
    rig.wait_running("yml-node1", "main");
    rig.write_manifest("z.yaml", &manifest::idle("last"));
    rig.wait_running("last-node1", "main");
    let pods: Vec<String> = rig.sandboxes().into_iter().map(|seen| seen.pod).collect();
    assert!(!pods.contains(&"ignored-node1".to_owned()), "{pods:?}");
}

#[test]
fn a_container_that_dies_is_restarted() {
    let rig = Rig::new();
    rig.write_manifest("web.yaml", manifest::WEB);
    let _agent = rig.start_agent(&[]);
    let first = rig.wait_running("web-node1", "web");
    rig.kill_process(first.pid);
    rig.wait("another instance", || rig.wait_running("web-node1", "web").id != first.id);
    let second = rig.wait_running("web-node1", "web");
    assert_eq!((second.attempt, &second.sandbox_id), (1, &first.sandbox_id));
    assert_eq!(second.annotations["io.kubernetes.container.restartCount"], "1");
    assert!(second.log_path.ends_with("/web/1.log"), "{}", second.log_path);
    let link = rig.container_links_dir().join(format!("web-node1_default_web-{}.log", second.id));
    rig.wait("the link to the new log", || {
        fs::read_link(&link).is_ok_and(|target| target.ends_with("web/1.log"))
    });
}

#[test]
fn a_sandbox_that_dies_is_replaced() {
    let rig = Rig::new();
    rig.write_manifest("web.yaml", manifest::WEB);
    let _agent = rig.start_agent(&[]);
    let first = rig.wait_running("web-node1", "web");
    let old = rig.ready_sandboxes("default", "web-node1").remove(0);
    rig.kill_process(old.pid);
    rig.wait("a container in another sandbox", || {
        let running = |seen: &crate::rig::ContainerSeen| {
            seen.state == ContainerState::Running && seen.sandbox_id != first.sandbox_id
        };
        rig.containers_of("web-node1").iter().any(running)
    });
    let [new] = &rig.ready_sandboxes("default", "web-node1")[..] else { panic!("one ready sandbox") };
    assert_eq!((new.uid.as_str(), new.attempt), (old.uid.as_str(), 1));
    let body = || rig.http_get(&format!("http://{NODE_IP}:18080/")).map(|reply| reply.body);
    rig.wait("the host port to lead to the new sandbox", || body().as_deref() == Some("web-node1 one-two\n"));
}

#[test]
fn the_restart_policy_decides_what_happens_after_an_exit() {
    let rig = Rig::new();
    for (name, policy, code) in [
        ("never-0", "Never", 0),
        ("never-3", "Never", 3),
        ("failure-0", "OnFailure", 0),
        ("failure-3", "OnFailure", 3),
    ] {
        let text = manifest::pod(name, &format!("restartPolicy: {policy}"), &format!("exit {code}"));
        rig.write_manifest(&format!("{name}.yaml"), &text);
    }
    rig.write_manifest("always.yaml", &manifest::pod("always-0", "restartPolicy: Always", "exit 0"));
    let _agent = rig.start_agent(&[]);
    for restarted in ["failure-3-node1", "always-0-node1"] {
        rig.wait(&format!("{restarted} to be restarted"), || {
            rig.containers_of(restarted).iter().any(|seen| seen.attempt >= 1)
        });
    }
    for (name, phase) in [("never-0", "Succeeded"), ("never-3", "Failed"), ("failure-0", "Succeeded")] {
        let pod = format!("{name}-node1");
        rig.wait(&format!("{pod} to be {phase}"), || {
            rig.pod(&pod).is_some_and(|pod| pod["status"]["phase"] == phase)
        });
        let attempts: Vec<u32> = rig.containers_of(&pod).iter().map(|seen| seen.attempt).collect();
        assert_eq!(attempts, [0], "{pod}");
    }
}

#[test]
fn init_containers_run_in_order_and_sidecars_beside_the_pod() {
    let rig = Rig::new();
    let made = rig.dir().join("made");
    let text = format!(
        r#"
apiVersion: v1
kind: Pod
metadata: {{name: stages}}
spec:
  restartPolicy: OnFailure
  terminationGracePeriodSeconds: 1
  volumes:
  - {{name: scratch, emptyDir: {{}}}}
  - {{name: made, hostPath: {{path: {made}, type: DirectoryOrCreate}}}}
  initContainers:
  - name: first
    image: {BUSYBOX}
    # Fails once, and is run again.
    command: [sh, -c, 'echo -n x >> /scratch/tries; [ "$(cat /scratch/tries)" = xx ]']
    volumeMounts: [{{name: scratch, mountPath: /scratch}}]
  - name: proxy
    image: {BUSYBOX}
    restartPolicy: Always
    command: [sh, -c, 'trap "exit 0" TERM; touch /scratch/proxy; sleep 1000 & wait']
    volumeMounts: [{{name: scratch, mountPath: /scratch}}]
  - name: last
    image: {BUSYBOX}
    command: [sh, -c, 'until [ -e /scratch/proxy ]; do sleep 0.1; done']
    volumeMounts: [{{name: scratch, mountPath: /scratch}}]
  containers:
  - name: main
    image: {BUSYBOX}
    command: [sh, -c, 'touch /made/here; until [ -e /made/go ]; do sleep 0.1; done']
    volumeMounts: [{{name: made, mountPath: /made}}]
"#,
        made = made.display()
    );
    rig.write_manifest("stages.yaml", &text);
    let _agent = rig.start_agent(&[]);
    rig.wait("the container to run", || made.join("here").exists());
    let seen = rig.containers_of("stages-node1");
    let of = |name: &str, attempt| {
        seen.iter()
            .find(|c| c.name == name && c.attempt == attempt)
            .unwrap_or_else(|| panic!("no {name} {attempt}"))
    };
    assert_eq!((of("first", 0).exit_code, of("first", 1).exit_code, of("last", 0).exit_code), (1, 0, 0));
    assert!(of("first", 1).finished_at <= of("proxy", 0).started_at);
    assert!(of("proxy", 0).started_at <= of("last", 0).started_at);
    assert!(of("last", 0).finished_at <= of("main", 0).started_at);
    assert_eq!(of("proxy", 0).state, ContainerState::Running);

    // A sidecar that dies comes back; the container beside it is left alone.
    rig.kill_process(of("proxy", 0).pid);
    let proxies = || rig.containers_of("stages-node1").into_iter().filter(|c| c.name == "proxy");
    rig.wait("the sidecar's successor", || {
        proxies().any(|c| c.attempt == 1 && c.state == ContainerState::Running)
    });
    assert_eq!(rig.wait_running("stages-node1", "main").id, of("main", 0).id);

    // A pod that is done does not live on for its sidecar.
    fs::write(made.join("go"), "").expect("let the container end");
    rig.wait("the pod to be done", || rig.ready_sandboxes("default", "stages-node1").is_empty());
    assert!(proxies().all(|c| c.state == ContainerState::Exited));
    rig.wait("the phase", || {
        rig.pod("stages-node1").is_some_and(|pod| pod["status"]["phase"] == "Succeeded")
    });
}
