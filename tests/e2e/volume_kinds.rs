//! Kinds of volumes beyond the plain ones, limits of storage, files of variables, and what a pod's directory looks like.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::rig::{NODE, Rig};
use crate::volumes::{mounts, only_pod_dir, pod, said, wait_clean};

fn status(rig: &Rig, name: &str) -> Value {
    rig.pod(&format!("{name}-{NODE}")).map(|pod| pod["status"].clone()).unwrap_or_default()
}

/// Waits until the status of a pod says this somewhere.
fn wait_said(rig: &Rig, name: &str, reason: &str, message: &str) {
    rig.wait(&format!("{name} to say {message:?}"), || {
        let text = status(rig, name).to_string();
        let message = Value::from(message).to_string();
        text.contains(reason) && text.contains(message.trim_matches('"'))
    });
}

#[test]
fn a_pod_that_fills_its_volume_is_evicted_and_others_are_not() {
    let rig = Rig::new();
    let spec = "volumes: [{name: v, emptyDir: {sizeLimit: 1Mi}}]";
    let mount = "volumeMounts: [{name: v, mountPath: /v}]";
    let fill = |kib: u32| format!("dd if=/dev/zero of=/v/fill bs=1k count={kib} 2>/dev/null");
    rig.write_manifest("much.yaml", &pod("much", "", spec, mount, &fill(2048)));
    rig.write_manifest("little.yaml", &pod("little", "", spec, mount, &fill(512)));
    let critical = format!("priorityClassName: system-node-critical\n{spec}");
    rig.write_manifest(
        "critical.yaml",
        &pod("critical", "namespace: kube-system", &critical, mount, &fill(2048)),
    );
    let limit = "resources: {limits: {ephemeral-storage: 1Mi}}\n";
    let talks = "i=0; while [ $i -lt 30000 ]; do echo this line fills the log of the container, and with it the disk; i=$((i+1)); done";
    rig.write_manifest("talks.yaml", &pod("talks", "", "enableServiceLinks: false", limit, talks));
    let agent = rig.start_agent(&[]);
    rig.wait("the eviction", || status(&rig, "much")["phase"] == "Failed");
    let found = status(&rig, "much");
    assert_eq!(found["reason"], "Evicted");
    assert_eq!(found["message"], "Usage of EmptyDir volume \"v\" exceeds the limit \"1Mi\". ");
    rig.wait("the eviction of the one that talks", || status(&rig, "talks")["reason"] == "Evicted");
    assert_eq!(
        status(&rig, "talks")["message"],
        "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. "
    );
    agent.wait_for_log("a critical pod goes on");
    assert_eq!(status(&rig, "little")["phase"], "Running");
    assert_eq!(status(&rig, "critical")["phase"], "Running");
    // It stays so, also for the next agent, and an edit brings it back.
    agent.kill9();
    let _agent = rig.start_agent(&[]);
    rig.wait("the next agent", || status(&rig, "little")["phase"] == "Running");
    assert_eq!(status(&rig, "much")["reason"], "Evicted");
    rig.write_manifest("much.yaml", &pod("much", "", spec, mount, "echo modest"));
    rig.wait("the edited pod", || status(&rig, "much")["phase"] == "Running");
}

#[test]
fn servers_that_cannot_be_mounted_say_why() {
    let rig = Rig::new();
    let mount = "volumeMounts: [{name: v, mountPath: /v}]";
    let nfs = "volumes: [{name: v, nfs: {server: 127.0.0.1, path: /none}}]";
    for n in 0..12 {
        rig.write_manifest(&format!("nfs{n}.yaml"), &pod(&format!("nfs{n}"), "", nfs, mount, "echo ran"));
    }
    rig.write_manifest(
        "other.yaml",
        &pod("other", "", "enableServiceLinks: false", "tty: false", "echo ran"),
    );
    let _agent = rig.start_agent(&[]);
    wait_said(&rig, "nfs0", "FailedMount", "mount of 127.0.0.1:/none failed: exit code 32");
    // Nobody waits for it.
    assert_eq!(said(&rig, "other"), ["ran", "done"]);
    for n in 0..12 {
        rig.remove_manifest(&format!("nfs{n}.yaml"));
    }
    rig.remove_manifest("other.yaml");
    wait_clean(&rig);
}

#[test]
fn a_pods_directory_is_laid_out_as_kubelets() {
    let rig = Rig::new();
    let spec = "volumes:\n- {name: mem, emptyDir: {medium: Memory, sizeLimit: 1Mi}}\n- {name: scratch, emptyDir: {}}\n\
                - {name: info, downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}";
    let container = "volumeMounts:\n- {name: scratch, mountPath: /s, subPath: sub}\n- {name: mem, mountPath: /m}\n\
                     - {name: info, mountPath: /i}";
    rig.write_manifest("app.yaml", &pod("app", "", spec, container, "echo up"));
    let _agent = rig.start_agent(&[]);
    said(&rig, "app");
    let dir = only_pod_dir(&rig);
    let text = rig.output("find", &[dir.to_str().expect("UTF-8"), "-printf", "%M %y %P\\n"]);
    let mut found: Vec<String> = text
        .lines()
        .map(|line| {
            let parts = line.split('/').map(|part| match part {
                part if part.starts_with("..20") => "..TIME",
                part if part.len() == 8 && part.bytes().all(|b| b.is_ascii_hexdigit()) => "HEX",
                part => part,
            });
            parts.collect::<Vec<_>>().join("/").trim_end().to_owned()
        })
        .collect();
    found.sort();
    // As recorded from kubelet 1.36.4, for a pod with these volumes.
    let mut expect = [
        "drwxr-x--- d",
        "drwxr-x--- d containers",
        "drwxr-x--- d containers/main",
        "-rw-rw-rw- f containers/main/HEX",
        "-rw-r--r-- f etc-hosts",
        "drwxr-x--- d plugins",
        "drwxr-x--- d plugins/kubernetes.io~empty-dir",
        "drwxr-x--- d plugins/kubernetes.io~empty-dir/mem",
        "-rw-r--r-- f plugins/kubernetes.io~empty-dir/mem/ready",
        "drwxr-x--- d plugins/kubernetes.io~empty-dir/scratch",
        "-rw-r--r-- f plugins/kubernetes.io~empty-dir/scratch/ready",
        "drwxr-x--- d plugins/kubernetes.io~empty-dir/wrapped_info",
        "-rw-r--r-- f plugins/kubernetes.io~empty-dir/wrapped_info/ready",
        "drwxr-x--- d volume-subpaths",
        "drwxr-x--- d volume-subpaths/scratch",
        "drwxr-x--- d volume-subpaths/scratch/main",
        "drwxrwxrwx d volume-subpaths/scratch/main/0",
        "drwxr-x--- d volumes",
        "drwxr-xr-x d volumes/kubernetes.io~downward-api",
        "drwxrwxrwt d volumes/kubernetes.io~downward-api/info",
        "drwxr-xr-x d volumes/kubernetes.io~downward-api/info/..TIME",
        "-rw-r--r-- f volumes/kubernetes.io~downward-api/info/..TIME/name",
        "lrwxrwxrwx l volumes/kubernetes.io~downward-api/info/..data",
        "lrwxrwxrwx l volumes/kubernetes.io~downward-api/info/name",
        "drwxr-xr-x d volumes/kubernetes.io~empty-dir",
        "drwxrwxrwt d volumes/kubernetes.io~empty-dir/mem",
        "drwxrwxrwx d volumes/kubernetes.io~empty-dir/scratch",
        "drwxrwxrwx d volumes/kubernetes.io~empty-dir/scratch/sub",
    ];
    expect.sort_unstable();
    assert_eq!(found, expect);
    rig.remove_manifest("app.yaml");
    wait_clean(&rig);
}

#[test]
fn variables_come_from_files_of_init_containers() {
    let rig = Rig::new();
    let reference = |name: &str, path: &str, key: &str, optional: bool| {
        format!(
            "- {{name: {name}, valueFrom: {{fileKeyRef: {{volumeName: config, path: {path}, key: {key}, optional: {optional}}}}}}}\n"
        )
    };
    let init = |script: &str| {
        format!(
            "volumes: [{{name: config, emptyDir: {{}}}}]\ninitContainers:\n- name: setup\n  image: {}\n  \
             volumeMounts: [{{name: config, mountPath: /c}}]\n  command:\n  - sh\n  - -c\n  - |\n    {script}",
            crate::rig::BUSYBOX
        )
    };
    let script = "printf \"A='one \\$(B) \\$\\$'\\nB='two\\nlines'\\n\" > /c/env";
    let env = format!(
        "env:\n{}{}{}{}- {{name: D, value: 'got $(A)'}}",
        reference("A", "env", "A", false),
        reference("B", "env", "B", false),
        reference("C", "env", "C", true),
        reference("E", "nowhere", "C", true),
    );
    let print = "echo \"$A\"; echo \"$B\"; echo \"${C-unset} ${E-unset}\"; echo \"$D\"";
    rig.write_manifest("good.yaml", &pod("good", "", &init(script), &env, print));
    let bad = [
        ("missing", "true", "env", "A", "cannot read"),
        ("unset", script, "env", "C", "environment variable key \"C\" not found in file \"env\""),
        ("fifo", "mkfifo /c/env", "env", "A", "not a regular file"),
        ("link", "ln -s /etc/hostname /c/env", "env", "A", "cannot read"),
        ("form", "echo A=one > /c/env", "env", "A", "the value must be in single quotes"),
    ];
    for (name, script, path, key, _) in bad {
        let env = format!("env:\n{}", reference("A", path, key, false));
        rig.write_manifest(&format!("{name}.yaml"), &pod(name, "", &init(script), &env, "echo ran"));
    }
    let _agent = rig.start_agent(&[]);
    assert_eq!(said(&rig, "good"), ["one $(B) $$", "two", "lines", "unset unset", "got one $(B) $$", "done"]);
    for (name, .., message) in bad {
        wait_said(&rig, name, "CreateContainerConfigError", message);
    }
}

#[test]
fn mounts_pass_on_what_is_mounted_later_as_they_say() {
    let rig = Rig::new();
    let host = rig.dir().join("host");
    fs::create_dir_all(host.join("later")).expect("create a directory");
    let host_text = host.display().to_string();
    rig.output("mount", &["--bind", &host_text, &host_text]);
    rig.output("mount", &["--make-shared", &host_text]);
    let spec = format!("volumes: [{{name: h, hostPath: {{path: {host_text}}}}}]");
    for (name, propagation) in [("none", "None"), ("slave", "HostToContainer")] {
        let container =
            format!("volumeMounts: [{{name: h, mountPath: /h, mountPropagation: {propagation}}}]");
        let script = "until [ -e /h/go ]; do sleep 0.1; done\nls /h/later";
        rig.write_manifest(&format!("{name}.yaml"), &pod(name, "", &spec, &container, script));
    }
    let _agent = rig.start_agent(&[]);
    for name in ["none", "slave"] {
        rig.wait_running(&format!("{name}-{NODE}"), "main");
    }
    let later = host.join("later").display().to_string();
    rig.output("mount", &["-t", "tmpfs", "tmpfs", &later]);
    // In the namespace where it is mounted.
    rig.output("touch", &[&format!("{later}/file")]);
    fs::write(host.join("go"), "").expect("write a file");
    assert_eq!(said(&rig, "none"), ["done"]);
    assert_eq!(said(&rig, "slave"), ["file", "done"]);
    for name in ["none", "slave"] {
        rig.remove_manifest(&format!("{name}.yaml"));
    }
    wait_clean(&rig);
    rig.output("umount", &[&later]);
    rig.output("umount", &[&host_text]);
}

#[test]
fn hostile_manifests_are_refused_or_work() {
    let rig = Rig::new();
    let plain = "volumes: [{name: v}]";
    let mount = "volumeMounts: [{name: v, mountPath: /v}]";
    let fifo = rig.dir().join("fifo");
    rig.output("mkfifo", &[fifo.to_str().expect("UTF-8")]);
    let file = format!("volumes: [{{name: v, hostPath: {{path: {}, type: File}}}}]", fifo.display());
    rig.write_manifest("fifo.yaml", &pod("fifo", "", &file, mount, "echo ran"));
    let refused = [
        (
            "dots",
            "volumes: [{name: v, hostPath: {path: /tmp/../etc}}]",
            mount,
            "spec.volumes[0].hostPath.path",
        ),
        (
            "name",
            "volumes: [{name: ../../etc}]",
            "volumeMounts: [{name: ../../etc, mountPath: /v}]",
            "spec.volumes[0].name",
        ),
        (
            "sub",
            plain,
            "volumeMounts: [{name: v, mountPath: /v, subPath: ../../x}]",
            "spec.containers[0].volumeMounts[0].subPath",
        ),
        (
            "pvc",
            "volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]",
            mount,
            "spec.volumes[0].persistentVolumeClaim",
        ),
        ("csi", "volumes: [{name: v, csi: {driver: d}}]", mount, "spec.volumes[0].csi"),
        ("option", "volumes: [{name: v, nfs: {server: -o, path: /x}}]", mount, "spec.volumes[0].nfs.server"),
    ];
    for (name, spec, container, _) in refused {
        rig.write_manifest(&format!("{name}.yaml"), &pod(name, "", spec, container, "echo ran"));
    }
    let volumes: String = (0..1000).map(|n| format!("- {{name: v{n}, emptyDir: {{}}}}\n")).collect();
    let mounts_of: String = (0..1000).map(|n| format!("- {{name: v{n}, mountPath: /v/{n}}}\n")).collect();
    let (volumes, mounts_of) = (format!("volumes:\n{volumes}"), format!("volumeMounts:\n{mounts_of}"));
    rig.write_manifest("many.yaml", &pod("many", "", &volumes, &mounts_of, "ls /v | wc -l"));
    // The kernel takes no string of an environment above 128 KiB.
    let value = format!("env: [{{name: BIG, value: {}}}]", "x".repeat(1 << 20));
    rig.write_manifest("big.yaml", &pod("big", "", plain, &value, "echo ran"));
    rig.write_manifest("other.yaml", &pod("other", "", plain, mount, "echo ran"));
    let agent = rig.start_agent(&[]);
    assert_eq!(said(&rig, "other"), ["ran", "done"]);
    for (name, _, _, field) in refused {
        agent.wait_for_log(&format!("field=\"{field}"));
        assert_eq!(status(&rig, name), Value::Null, "{name} must be refused");
    }
    wait_said(&rig, "fifo", "FailedMount", "is not a file");
    assert_eq!(said(&rig, "many"), ["1000", "done"]);
    let big = || status(&rig, "big").to_string();
    rig.wait("the large variable to be refused", || {
        big().contains("Error") || big().contains("argument list")
    });
    assert!(fs::metadata(&fifo).expect("the FIFO").permissions().mode() > 0);
    for name in ["fifo", "many", "big", "other"] {
        rig.remove_manifest(&format!("{name}.yaml"));
    }
    rig.wait("no mount to be left", || mounts(&rig).is_empty());
}

#[test]
fn many_files_in_a_volume_hold_up_no_other_pod() {
    let rig = Rig::new();
    let plain = "volumes: [{name: v}]";
    let mount = "volumeMounts: [{name: v, mountPath: /v}]";
    let script = "i=0; while [ $i -lt 10000 ]; do : > /v/$i; i=$((i+1)); done; ls /v | wc -l";
    rig.write_manifest("many.yaml", &pod("many", "", plain, mount, script));
    rig.write_manifest("few.yaml", &pod("few", "", plain, mount, "echo ran"));
    let _agent = rig.start_agent(&[]);
    assert_eq!(said(&rig, "many"), ["10000", "done"]);
    said(&rig, "few");
    rig.remove_manifest("many.yaml");
    rig.remove_manifest("few.yaml");
    wait_clean(&rig);
}
