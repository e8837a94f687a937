//! Security contexts, seen from inside the containers, and pods that are refused for them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::manifest;
use crate::rig::{BUSYBOX, Rig};

/// Tells who the process is and what it may do, and then runs more.
const TELL: &str = "grep -E '^(Uid|Gid|Groups|CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status";

/// What a container printed, by the word before the colon, once it has said `done`.
fn told(rig: &Rig, pod: &str, container: &str) -> BTreeMap<String, String> {
    let log = rig.wait_running(pod, container).log_path;
    let text = || fs::read_to_string(&log).unwrap_or_default();
    rig.wait(&format!("{container} of {pod} to have told"), || text().contains(" stdout F done\n"));
    let text = text();
    let lines = text.lines().filter_map(|line| line.split_once(" stdout F ")?.1.split_once(':'));
    lines
        .map(|(key, value)| (key.to_owned(), value.split_whitespace().collect::<Vec<_>>().join(" ")))
        .collect()
}

/// A pod with these lines in its specification, and these in its container.
fn pod(name: &str, spec: &str, container: &str, more: &str) -> String {
    let text = manifest::pod(name, spec, &format!("{TELL}\n{more}\necho done\n{}", manifest::IDLE));
    let container: String = container.lines().map(|line| format!("    {line}\n")).collect();
    text.replace("    command:\n", &format!("{container}    command:\n"))
}

fn capabilities(set: &str) -> u64 {
    u64::from_str_radix(set, 16).expect("capabilities")
}

const CHOWN: u64 = 1;
const NET_BIND_SERVICE: u64 = 1 << 10;
const NET_ADMIN: u64 = 1 << 12;
const NET_RAW: u64 = 1 << 13;
const SYS_ADMIN: u64 = 1 << 21;

#[test]
fn a_container_has_the_rights_that_it_asks_for_and_no_others() {
    let rig = Rig::new();
    let touch = "touch /here 2>/dev/null && echo root: written || echo root: read-only";
    rig.write_manifest("plain.yaml", &pod("plain", "", "", touch));
    let tight = "securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, \
                 runAsNonRoot: true, capabilities: {drop: [ALL], add: [NET_BIND_SERVICE]}}";
    let pods = "securityContext: {runAsUser: 1000, runAsGroup: 2000, supplementalGroups: [4000, 5000], \
                supplementalGroupsPolicy: Merge, seccompProfile: {type: RuntimeDefault}, \
                sysctls: [{name: net.ipv4.ip_unprivileged_port_start, value: '80'}]}";
    let sysctl = "echo port: $(cat /proc/sys/net/ipv4/ip_unprivileged_port_start)";
    rig.write_manifest("tight.yaml", &pod("tight", pods, tight, &format!("{touch}\n{sysctl}")));
    let over = "securityContext: {runAsUser: 0, runAsGroup: 7, seccompProfile: {type: Unconfined}, \
                capabilities: {add: [CAP_NET_ADMIN], drop: [CAP_NET_RAW]}}";
    rig.write_manifest("over.yaml", &pod("over", pods, over, ""));
    let agent = rig.start_agent(&[]);

    let plain = told(&rig, "plain-node1", "main");
    assert_eq!((plain["Uid"].as_str(), plain["Gid"].as_str()), ("0 0 0 0", "0 0 0 0"), "{plain:?}");
    assert_eq!((plain["NoNewPrivs"].as_str(), plain["Seccomp"].as_str()), ("0", "0"), "{plain:?}");
    assert_eq!(plain["root"], "written");
    let usual = capabilities(&plain["CapEff"]);
    assert_eq!(usual & (CHOWN | NET_RAW | NET_ADMIN), CHOWN | NET_RAW, "{plain:?}");

    let tight = told(&rig, "tight-node1", "main");
    assert_eq!(tight["Uid"], "1000 1000 1000 1000");
    assert_eq!(tight["Gid"], "2000 2000 2000 2000");
    let groups: Vec<&str> = tight["Groups"].split(' ').collect();
    assert!(groups.contains(&"4000") && groups.contains(&"5000"), "{tight:?}");
    assert_eq!(capabilities(&tight["CapBnd"]), NET_BIND_SERVICE, "{tight:?}");
    assert_eq!(capabilities(&tight["CapEff"]) & !NET_BIND_SERVICE, 0, "{tight:?}");
    assert_eq!((tight["NoNewPrivs"].as_str(), tight["Seccomp"].as_str()), ("1", "2"), "{tight:?}");
    assert_eq!((tight["root"].as_str(), tight["port"].as_str()), ("read-only", "80"));

    let over = told(&rig, "over-node1", "main");
    assert_eq!((over["Uid"].as_str(), over["Gid"].as_str()), ("0 0 0 0", "7 7 7 7"), "{over:?}");
    assert_eq!((over["NoNewPrivs"].as_str(), over["Seccomp"].as_str()), ("0", "0"), "{over:?}");
    assert_eq!(capabilities(&over["CapEff"]), (usual | NET_ADMIN) & !NET_RAW, "{over:?}");
    assert_eq!(agent.log_lines_with("not honoured"), Vec::<String>::new());
}

#[test]
fn privileged_containers_seccomp_profiles_and_init_containers() {
    let rig = Rig::new();
    rig.write_config("seccompDefault: true\nallowedUnsafeSysctls: ['net.core.*']\n");
    let profiles = rig.root_dir().join("seccomp/mine");
    fs::create_dir_all(&profiles).expect("create the directory of profiles");
    let profile = r#"{"defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}"#;
    fs::write(profiles.join("no-mkdir.json"), profile).expect("write a profile");
    rig.write_manifest("default.yaml", &pod("default", "", "", ""));
    let local = "securityContext: {seccompProfile: {type: Localhost, localhostProfile: mine/no-mkdir.json}}";
    let mkdir = "mkdir /new 2>/dev/null && echo mkdir: done || echo mkdir: refused";
    rig.write_manifest("local.yaml", &pod("local", "", local, mkdir));
    let privileged = "securityContext: {privileged: true}";
    // An init container and a sidecar have contexts of their own.
    let init = format!(
        "initContainers:\n- {{name: side, image: {BUSYBOX}, restartPolicy: Always, securityContext: {{runAsUser: 12}}, \
         command: [sh, -c, '{TELL}; echo done; exec sleep 1000']}}\n\
         securityContext: {{runAsUser: 0, runAsGroup: 34, sysctls: [{{name: net.core.somaxconn, value: '77'}}]}}",
    );
    let init = init.replace("'^(", "\"^(").replace("):'", "):\"");
    let sysctl = "echo somaxconn: $(cat /proc/sys/net/core/somaxconn)";
    rig.write_manifest("mighty.yaml", &pod("mighty", &init, privileged, sysctl));
    let _agent = rig.start_agent(&[]);

    assert_eq!(told(&rig, "default-node1", "main")["Seccomp"], "2");
    let local = told(&rig, "local-node1", "main");
    assert_eq!((local["Seccomp"].as_str(), local["mkdir"].as_str()), ("2", "refused"), "{local:?}");
    let mighty = told(&rig, "mighty-node1", "main");
    assert_eq!(capabilities(&mighty["CapEff"]) & SYS_ADMIN, SYS_ADMIN, "{mighty:?}");
    assert_eq!((mighty["Seccomp"].as_str(), mighty["Gid"].as_str()), ("0", "34 34 34 34"), "{mighty:?}");
    assert_eq!(mighty["somaxconn"], "77");
    let side = told(&rig, "mighty-node1", "side");
    assert_eq!((side["Uid"].as_str(), side["Gid"].as_str()), ("12 12 12 12", "34 34 34 34"), "{side:?}");
    assert_eq!(capabilities(&side["CapEff"]), 0, "{side:?}");
}

#[test]
fn what_cannot_be_held_to_what_it_asks_for_does_not_run() {
    let rig = Rig::new();
    rig.write_config("");
    let mut rows = vec![
        ("sysctl", "sysctls: [{name: net.core.somaxconn, value: '1'}]", "SysctlForbidden"),
        ("strict", "supplementalGroupsPolicy: Strict", "SupplementalGroupsPolicyNotSupported"),
    ];
    // What the kernel of this machine has, it can enforce.
    for (module, row) in [
        ("/sys/module/apparmor", ("apparmor", "appArmorProfile: {type: RuntimeDefault}", "AppArmor")),
        ("/sys/fs/selinux/enforce", ("selinux", "seLinuxOptions: {level: 's0:c1,c2'}", "SELinux")),
    ] {
        if !Path::new(module).exists() {
            rows.push(row);
        }
    }
    for (name, field, _) in &rows {
        let text = pod(name, &format!("securityContext: {{{field}}}"), "", "");
        rig.write_manifest(&format!("{name}.yaml"), &text);
    }
    rig.write_manifest("root.yaml", &pod("root", "securityContext: {runAsNonRoot: true}", "", ""));
    let refused = [
        ("users", "hostUsers: false", "spec.hostUsers"),
        (
            "net",
            "hostNetwork: true\nsecurityContext: {sysctls: [{name: net.ipv4.tcp_syncookies, value: '1'}]}",
            "SysctlForbidden",
        ),
    ];
    for (name, spec, _) in refused {
        rig.write_manifest(&format!("{name}.yaml"), &pod(name, spec, "", ""));
    }
    let agent = rig.start_agent(&[]);

    for (name, _, reason) in rows {
        let status =
            || rig.pod(&format!("{name}-node1")).map(|pod| pod["status"].clone()).unwrap_or_default();
        rig.wait(&format!("{name} to be refused"), || status()["reason"] == reason);
    }
    let waiting = || -> Value {
        let pod = rig.pod("root-node1").unwrap_or_default();
        pod["status"]["containerStatuses"][0]["state"]["waiting"].clone()
    };
    rig.wait("root to be refused", || waiting()["reason"] == "CreateContainerConfigError");
    let message = waiting()["message"].as_str().expect("a message").to_owned();
    assert!(message.starts_with("container has runAsNonRoot and image will run as root (pod: "), "{message}");
    assert_eq!(rig.containers_of("root-node1").len(), 0);
    for (name, _, words) in refused {
        agent.wait_for_log(words);
        assert!(agent.log_lines_with(words).iter().any(|line| line.contains(&format!("{name}.yaml"))));
    }
    let made: Vec<String> = rig.sandboxes().into_iter().map(|sandbox| sandbox.pod).collect();
    assert_eq!(made, ["root-node1"]);

    // An edit puts it right.
    let fixed = "securityContext: {runAsNonRoot: true, runAsUser: 5}";
    rig.write_manifest("root.yaml", &pod("root", fixed, "", ""));
    assert_eq!(told(&rig, "root-node1", "main")["Uid"], "5 5 5 5");
}
