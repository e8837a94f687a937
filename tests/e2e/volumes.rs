//! Volumes, seen from inside the container and on the node's mounts.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::manifest::IDLE;
use crate::rig::{Agent, BUSYBOX, NODE, Rig, wait_until};

/// A pod whose container `main` runs a script; the fields of pod and container are lines of YAML.
pub(crate) fn pod(name: &str, metadata: &str, spec: &str, container: &str, script: &str) -> String {
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

/// What the container printed, line by line, once it has said `done`.
pub(crate) fn said(rig: &Rig, pod: &str) -> Vec<String> {
    let log = rig.wait_running(&format!("{pod}-{NODE}"), "main").log_path;
    let lines = || -> Vec<String> {
        let text = fs::read_to_string(&log).unwrap_or_default();
        text.lines().filter_map(|line| Some(line.split_once(" stdout F ")?.1.to_owned())).collect()
    };
    rig.wait(&format!("{pod} to have told"), || lines().iter().any(|line| line == "done"));
    lines()
}

/// What is mounted under the agent's root directory, as `PATH TYPE`.
pub(crate) fn mounts(rig: &Rig) -> Vec<String> {
    let root = rig.root_dir().display().to_string();
    let lines = rig.output("cat", &["/proc/mounts"]);
    let fields = lines.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some(format!("{} {}", fields.next()?, fields.next()?))
    });
    fields.filter(|mount| mount.starts_with(&root)).collect()
}

/// Waits until nothing of any pod is left on the node.
pub(crate) fn wait_clean(rig: &Rig) {
    rig.wait("the pods' directories to be gone", || {
        fs::read_dir(rig.root_dir().join("pods")).map_or(0, Iterator::count) == 0
    });
    assert_eq!(mounts(rig), Vec::<String>::new());
}

/// The directory of the only pod.
pub(crate) fn only_pod_dir(rig: &Rig) -> PathBuf {
    let mut dirs: Vec<_> = fs::read_dir(rig.root_dir().join("pods"))
        .expect("pods")
        .map(|entry| entry.expect("a pod").path())
        .collect();
    assert_eq!(dirs.len(), 1, "{dirs:?}");
    dirs.remove(0)
}

/// Kills an agent, which may have been started this very moment.
fn kill(rig: &Rig, agent: Agent<'_>) {
    rig.wait("the agent's process", || agent.pid().is_some());
    agent.kill9();
}

/// One volume of each kind.
const SPEC: &str = "\
volumes:
- {name: fast, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
- {name: plain}
- name: info
  downwardAPI:
    defaultMode: 0640
    items:
    - {path: labels, fieldRef: {fieldPath: metadata.labels}}
    - {path: d/name, mode: 0400, fieldRef: {fieldPath: metadata.name}}
    - {path: memory, resourceFieldRef: {containerName: main, resource: limits.memory, divisor: 1Mi}}
- name: all
  projected:
    sources:
    - downwardAPI: {items: [{path: space, fieldRef: {fieldPath: metadata.namespace}}]}";

const CONTAINER: &str = "\
resources: {limits: {memory: 64Mi}}
env:
- {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
- {name: MEMORY, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Ki}}}
volumeMounts:
- {name: fast, mountPath: /fast}
- {name: plain, mountPath: /plain}
- {name: info, mountPath: /info}
- {name: all, mountPath: /all}
- {name: plain, mountPath: /part, subPath: made/by/agent}
- {name: plain, mountPath: /own, subPathExpr: of-$(POD)}
- {name: info, mountPath: /labels, subPath: labels}";

const SCRIPT: &str = "\
grep ' /fast ' /proc/mounts | cut -d' ' -f3
dd if=/dev/zero of=/fast/fill bs=64k count=32 2>/dev/null || echo full at $(stat -c %s /fast/fill)
rm -f /fast/fill; stat -c %a /fast
echo x > /plain/x && stat -c %a /plain
cat /info/labels; echo
cat /info/d/name; echo
cat /info/memory; echo
stat -L -c '%a' /info/labels /info/d/name
readlink /info/labels; readlink /info/d
touch /info/new 2>/dev/null || echo read-only
cat /all/space; echo
echo here > /part/file; cat /plain/made/by/agent/file
echo mine > /own/file; cat /plain/of-$POD/file
cat /labels; echo
echo $MEMORY";

#[test]
fn each_kind_is_what_it_says_and_leaves_nothing() {
    let rig = Rig::new();
    rig.write_manifest("v.yaml", &pod("v", "labels: {app: web, tier: '2'}", SPEC, CONTAINER, SCRIPT));
    let _agent = rig.start_agent(&[]);
    let expect = format!(
        "tmpfs\nfull at 1048576\n1777\n777\napp=\"web\"\ntier=\"2\"\nv-{NODE}\n64\n640\n400\n..data/labels\n..data/d\n\
         read-only\ndefault\nhere\nmine\napp=\"web\"\ntier=\"2\"\n65536\ndone"
    );
    assert_eq!(said(&rig, "v").join("\n"), expect, "{}", rig.report());

    // Where kubelet has them.
    let dir = only_pod_dir(&rig).display().to_string();
    let expect = [
        "volume-subpaths/info/main/6 tmpfs",
        "volumes/kubernetes.io~downward-api/info tmpfs",
        "volumes/kubernetes.io~empty-dir/fast tmpfs",
        "volumes/kubernetes.io~projected/all tmpfs",
    ];
    let on_node = |rig: &Rig| {
        let mut found = mounts(rig);
        // The file system of the plain volume is that of the machine.
        found.retain(|mount| !mount.contains("/volume-subpaths/plain/"));
        found.sort();
        found
    };
    assert_eq!(on_node(&rig), expect.map(|mount| format!("{dir}/{mount}")));
    assert_eq!(mounts(&rig).len(), expect.len() + 2, "{:?}", mounts(&rig));
    rig.remove_manifest("v.yaml");
    wait_clean(&rig);
}

#[test]
fn a_device_is_for_those_who_mount_it_as_one() {
    let rig = Rig::new();
    let script = "if (exec 3<>/dev/fuse) 2>/dev/null; then echo opened; else echo denied; fi";
    for (name, kind) in [("device", "CharDevice"), ("path", "")] {
        let spec = format!("volumes: [{{name: d, hostPath: {{path: /dev/fuse, type: \"{kind}\"}}}}]");
        let container = "volumeMounts: [{name: d, mountPath: /dev/fuse}]";
        rig.write_manifest(&format!("{name}.yaml"), &pod(name, "", &spec, container, script));
    }
    let _agent = rig.start_agent(&[]);
    assert_eq!(said(&rig, "device"), ["opened", "done"]);
    assert_eq!(said(&rig, "path"), ["denied", "done"]);
}

#[test]
fn what_cannot_be_mounted_says_why() {
    let rig = Rig::new();
    let mount = |more: &str| format!("volumeMounts: [{{name: v, mountPath: /v, {more}}}]");
    let huge = "volumes: [{name: v, emptyDir: {medium: HugePages-3Mi}}]";
    let plain = "volumes: [{name: v}]";
    let rows = [
        ("huge", huge, mount("readOnly: false"), "FailedMount", "no huge pages of 3072 KiB"),
        (
            "recursive",
            plain,
            mount("readOnly: true, recursiveReadOnly: Enabled"),
            "CreateContainerConfigError",
            "recursiveReadOnly Enabled is not supported by the container runtime",
        ),
        (
            "unset",
            plain,
            mount("subPathExpr: $(NOBODY)"),
            "CreateContainerConfigError",
            "missing value for \"NOBODY\"",
        ),
    ];
    for (name, spec, container, ..) in &rows {
        rig.write_manifest(&format!("{name}.yaml"), &pod(name, "", spec, container, "echo ran"));
    }
    let possible = mount("readOnly: true, recursiveReadOnly: IfPossible");
    rig.write_manifest(
        "possible.yaml",
        &pod("possible", "", plain, &possible, "touch /v/x || echo read-only"),
    );
    let _agent = rig.start_agent(&[]);
    for (name, _, _, reason, message) in &rows {
        rig.wait(&format!("the status of {name}"), || {
            let text =
                rig.pod(&format!("{name}-{NODE}")).map(|pod| pod["status"].to_string()).unwrap_or_default();
            let message = serde_json::Value::from(*message).to_string();
            text.contains(reason) && text.contains(message.trim_matches('"'))
        });
    }
    assert_eq!(said(&rig, "possible"), ["read-only", "done"]);
}

#[test]
fn a_group_has_its_volumes() {
    let rig = Rig::new();
    let host = rig.dir().join("host");
    fs::create_dir(&host).expect("create a directory to share");
    let spec = format!(
        "securityContext: {{fsGroup: 4242}}\n{SPEC}\n- {{name: host, hostPath: {{path: {}}}}}",
        host.display()
    );
    let container = "volumeMounts: [{name: fast, mountPath: /fast}, {name: plain, mountPath: /plain}, \
                     {name: info, mountPath: /info}, {name: host, mountPath: /host}]";
    let script = "stat -c '%g %a' /fast /plain /info\nstat -L -c '%g %a' /info/labels /info/d/name /info/d\nstat -c %g /host";
    rig.write_manifest("g.yaml", &pod("g", "", &spec, container, script));
    let _agent = rig.start_agent(&[]);
    let expect = ["4242 3777", "4242 2777", "4242 3777", "4242 640", "4242 440", "4242 2755", "0", "done"];
    assert_eq!(said(&rig, "g"), expect);
}

#[test]
fn a_mount_that_is_not_ours_stays_and_holds_up_nobody() {
    let rig = Rig::new();
    rig.write_manifest("v.yaml", &pod("v", "", SPEC, CONTAINER, "echo one"));
    let agent = rig.start_agent(&[]);
    said(&rig, "v");
    let old = only_pod_dir(&rig);
    let precious = rig.dir().join("precious");
    fs::create_dir(&precious).expect("create what is not ours");
    fs::write(precious.join("file"), "x").expect("write what is not ours");
    let inner = old.join("volumes/kubernetes.io~empty-dir/fast/inner").display().to_string();
    rig.output("mkdir", &[&inner]);
    rig.output("mount", &["--bind", &precious.display().to_string(), &inner]);
    // The next instance does not wait for the last one's directory.
    rig.write_manifest("v.yaml", &pod("v", "", SPEC, CONTAINER, "echo two"));
    let uid = old.file_name().and_then(|uid| uid.to_str()).expect("a UID");
    rig.wait("the end of the last instance", || {
        let containers = rig.containers_of(&format!("v-{NODE}"));
        !containers.is_empty()
            && !containers.iter().any(|seen| seen.labels.values().any(|label| label == uid))
    });
    assert_eq!(said(&rig, "v"), ["two", "done"]);
    agent.wait_for_log("cannot unmount");
    assert!(precious.join("file").exists() && old.exists());
    // It goes when nothing is in its way, at the latest with the next agent.
    rig.output("umount", &[&inner]);
    agent.kill9();
    rig.remove_manifest("v.yaml");
    let _agent = rig.start_agent(&[]);
    wait_clean(&rig);
    assert!(precious.join("file").exists());
}

#[test]
fn a_killed_agent_leaves_no_mount() {
    let rig = Rig::new();
    // Three kills a round; `make kill-volumes` has more of them.
    let rounds =
        std::env::var("RKUBELET_KILL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(8_u64);
    let seed = std::env::var("RKUBELET_KILL_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("RKUBELET_KILL_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..rounds {
        let name = format!("v{round}");
        let file = format!("{name}.yaml");
        rig.write_manifest(&file, &pod(&name, "", SPEC, CONTAINER, "echo up"));
        let after = |moment: u64| wait_until(Duration::from_millis(moment), || false);
        // While it prepares: at some moment, and as soon as something is mounted.
        let agent = rig.start_agent(&[]);
        after(random.u64(20..400));
        kill(&rig, agent);
        let agent = rig.start_agent(&[]);
        rig.wait("the first mount", || !mounts(&rig).is_empty());
        kill(&rig, agent);
        let agent = rig.start_agent(&[]);
        said(&rig, &name);
        // While it releases: at some moment, and as soon as something is unmounted.
        let whole = mounts(&rig).len();
        assert_eq!(whole, 6, "none is missing: {:?}", mounts(&rig));
        rig.remove_manifest(&file);
        if round % 2 == 0 {
            rig.wait("the first mount to be gone", || mounts(&rig).len() < whole);
        } else {
            after(random.u64(0..800));
        }
        kill(&rig, agent);
    }
    let _agent = rig.start_agent(&[]);
    wait_clean(&rig);
}

#[test]
fn a_link_that_is_swapped_while_pods_start_leads_nowhere() {
    let rig = Rig::new();
    let (volume, outside) = (rig.dir().join("volume"), rig.dir().join("outside"));
    for dir in [&volume.join("d"), &outside] {
        fs::create_dir_all(dir).expect("create a directory");
    }
    fs::write(volume.join("d/which"), "inside\n").expect("write a file");
    fs::write(outside.join("which"), "outside\n").expect("write a file");
    symlink(&outside, volume.join("link")).expect("create a link");
    let paths: Vec<String> = (0..6).map(|n| format!("- {{name: h, mountPath: /m{n}, subPath: d}}")).collect();
    let names: Vec<String> = (0..8).map(|n| format!("hostile{n}")).collect();
    let spec = format!("volumes: [{{name: h, hostPath: {{path: {}}}}}]", volume.display());
    for name in &names {
        let container = format!("volumeMounts:\n{}", paths.join("\n"));
        rig.write_manifest(&format!("{name}.yaml"), &pod(name, "", &spec, &container, "cat /m*/which"));
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                swap(&volume);
                swap(&volume);
            }
        });
        let _agent = rig.start_agent(&[]);
        let tried = || {
            let waits = |name: &String| {
                let pod = rig.pod(&format!("{name}-{NODE}"));
                pod.is_some_and(|pod| pod["status"].to_string().contains("CreateContainerConfigError"))
            };
            names.iter().all(|name| waits(name) || !rig.containers_of(&format!("{name}-{NODE}")).is_empty())
        };
        rig.wait("every pod to have tried", tried);
        stop.store(true, Ordering::Relaxed);
        // With six mounts each, most tries were refused; now none is.
        for name in &names {
            let lines = said(&rig, name);
            assert!(lines.iter().all(|line| line == "inside" || line == "done"), "{name}: {lines:?}");
            assert_eq!(lines.len(), 7, "{name}: {lines:?}");
        }
    });
    assert_eq!(fs::read_dir(&outside).expect("read it").count(), 1);
}

/// Exchanges the directory and the link.
fn swap(volume: &Path) {
    let exchange = rustix::fs::RenameFlags::EXCHANGE;
    let (one, other) = (volume.join("d"), volume.join("link"));
    rustix::fs::renameat_with(rustix::fs::CWD, one, rustix::fs::CWD, other, exchange)
        .expect("exchange names");
}
