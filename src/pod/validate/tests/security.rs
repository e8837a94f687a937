//! Security contexts, the pod's and a container's.

use serde_json::{Value, json};

use super::{findings, good, has_one_finding, with};

const POD: &str = "spec.securityContext";
const CONTAINER: &str = "spec.containers[0].securityContext";

fn both(value: Value) -> [(&'static str, &'static str, Value); 2] {
    [("/spec/securityContext", POD, value.clone()), ("/spec/containers/0/securityContext", CONTAINER, value)]
}

#[test]
fn what_is_fine() {
    let anywhere = [
        json!({}),
        json!({"runAsUser": 0, "runAsGroup": 2_147_483_647, "runAsNonRoot": true}),
        json!({"seccompProfile": {"type": "RuntimeDefault"}}),
        json!({"seccompProfile": {"type": "Unconfined"}}),
        json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "profiles/a.json"}}),
        json!({"appArmorProfile": {"type": "RuntimeDefault"}}),
        json!({"appArmorProfile": {"type": "Localhost", "localhostProfile": "k8s-a"}}),
        json!({"seLinuxOptions": {"user": "u", "role": "r", "type": "t", "level": "s0:c1"}}),
        json!({"windowsOptions": {"runAsUserName": "ContainerUser"}}),
    ];
    for (pointer, _, value) in anywhere.into_iter().flat_map(both) {
        assert_eq!(with(pointer, value.clone()), Vec::<String>::new(), "{pointer} {value}");
    }
    let pods = [
        json!({"supplementalGroups": [0, 5], "supplementalGroupsPolicy": "Strict"}),
        json!({"supplementalGroupsPolicy": "Merge", "seLinuxChangePolicy": "Recursive"}),
        json!({"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}, {"name": "kernel.sem", "value": ""}]}),
        json!({"sysctls": [{"name": "net/ipv4/conf/eth0.1/forwarding", "value": "1"}]}),
    ];
    for value in pods {
        assert_eq!(with("/spec/securityContext", value.clone()), Vec::<String>::new(), "{value}");
    }
    let containers = [
        json!({"privileged": true, "allowPrivilegeEscalation": true}),
        json!({"allowPrivilegeEscalation": false, "capabilities": {"add": ["SYS_ADMIN"]}}),
        json!({"capabilities": {"drop": ["ALL", "all", "NET_RAW", "CAP_NET_RAW", "cap_chown"], "add": ["NEW_ONE"]}}),
        json!({"procMount": "Default", "readOnlyRootFilesystem": true}),
    ];
    for value in containers {
        assert_eq!(
            with("/spec/containers/0/securityContext", value.clone()),
            Vec::<String>::new(),
            "{value}"
        );
    }
}

#[test]
fn what_is_not() {
    let anywhere = [
        (json!({"runAsUser": -1}), ".runAsUser: -1 is not from 0 to 2147483647"),
        (json!({"runAsGroup": 2_147_483_648_i64}), ".runAsGroup: 2147483648 is not"),
        (json!({"seccompProfile": {"type": ""}}), ".seccompProfile.type: must be one of Localhost, "),
        (json!({"seccompProfile": {"type": "Default"}}), ".seccompProfile.type: \"Default\" is not one of "),
        (
            json!({"seccompProfile": {"type": "Localhost"}}),
            ".seccompProfile.localhostProfile: must be set when type is Localhost",
        ),
        (
            json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "/a"}}),
            ".seccompProfile.localhostProfile: \"/a\" must be relative",
        ),
        (
            json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "a/../../b"}}),
            ".seccompProfile.localhostProfile: \"a/../../b\" must not contain '..'",
        ),
        (
            json!({"seccompProfile": {"type": "Unconfined", "localhostProfile": "a"}}),
            ".seccompProfile.localhostProfile: may only be set when type is Localhost",
        ),
        (json!({"appArmorProfile": {"type": "none"}}), ".appArmorProfile.type: \"none\" is not one of "),
        (
            json!({"appArmorProfile": {"type": "Localhost"}}),
            ".appArmorProfile.localhostProfile: must be set when type is Localhost",
        ),
        (
            json!({"appArmorProfile": {"type": "Localhost", "localhostProfile": " a"}}),
            ".appArmorProfile.localhostProfile: \" a\" must not begin or end with a space",
        ),
        (
            json!({"appArmorProfile": {"type": "Localhost", "localhostProfile": "a".repeat(4096)}}),
            ".appArmorProfile.localhostProfile: has 4096 bytes",
        ),
        (
            json!({"appArmorProfile": {"type": "RuntimeDefault", "localhostProfile": "a"}}),
            ".appArmorProfile.localhostProfile: may only be set when type is Localhost",
        ),
    ];
    for (value, want) in anywhere {
        for (pointer, path, value) in both(value.clone()) {
            has_one_finding((pointer, value, &format!("{path}{want}")));
        }
    }
    let pods = [
        (json!({"supplementalGroups": [1, -1]}), ".supplementalGroups[1]: -1 is not"),
        (
            json!({"supplementalGroupsPolicy": "strict"}),
            ".supplementalGroupsPolicy: \"strict\" is not one of",
        ),
        (json!({"supplementalGroupsPolicy": ""}), ".supplementalGroupsPolicy: must be one of"),
        (json!({"fsGroupChangePolicy": "Never"}), ".fsGroupChangePolicy: \"Never\" is not"),
        (json!({"seLinuxChangePolicy": "No"}), ".seLinuxChangePolicy: \"No\" is not"),
        (json!({"sysctls": [{"name": "", "value": "1"}]}), ".sysctls[0].name: must not be empty"),
        (
            json!({"sysctls": [{"name": "Net.a", "value": "1"}]}),
            ".sysctls[0].name: \"Net.a\" is not the name",
        ),
        (
            json!({"sysctls": [{"name": "net..a", "value": "1"}]}),
            ".sysctls[0].name: \"net..a\" is not the name",
        ),
        (
            json!({"sysctls": [{"name": "net.*", "value": "1"}]}),
            ".sysctls[0].name: \"net.*\" is not the name",
        ),
        (
            json!({"sysctls": [{"name": "net.a", "value": "1"}, {"name": "net.a", "value": "2"}]}),
            ".sysctls[1].name: \"net.a\" is used twice",
        ),
        (
            json!({"sysctls": [{"name": "vm.swappiness", "value": "1"}]}),
            ".sysctls[0].name: SysctlForbidden: forbidden sysctl: \"vm.swappiness\" not allowlisted",
        ),
    ];
    for (value, want) in pods {
        has_one_finding(("/spec/securityContext", value, &format!("{POD}{want}")));
    }
    let containers = [
        (json!({"privileged": true, "allowPrivilegeEscalation": false}), ": may not be privileged and"),
        (
            json!({"allowPrivilegeEscalation": false, "capabilities": {"add": ["CAP_SYS_ADMIN"]}}),
            ": may not add CAP_SYS_ADMIN and",
        ),
        (
            json!({"capabilities": {"drop": ["NET_RAW", "NET_ROW"]}}),
            ".capabilities.drop[1]: Linux has no capability \"NET_ROW\"",
        ),
        (json!({"procMount": "Unmasked"}), ".procMount: Unmasked needs hostUsers: false"),
        (json!({"procMount": "All"}), ".procMount: \"All\" is not one of Default, Unmasked"),
    ];
    for (value, want) in containers {
        has_one_finding(("/spec/containers/0/securityContext", value, &format!("{CONTAINER}{want}")));
    }
    has_one_finding(("/spec/hostUsers", json!(false), "spec.hostUsers: not supported yet"));
    assert_eq!(with("/spec/hostUsers", json!(true)), Vec::<String>::new());
}

#[test]
fn what_depends_on_other_fields() {
    let found = |spec: Value, context: Value| {
        let mut pod = good();
        pod["spec"]["containers"][0].as_object_mut().unwrap().remove("ports");
        pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        pod["spec"]["securityContext"] = context;
        findings(pod)
    };
    let sysctl = |name: &str| json!({"sysctls": [{"name": name, "value": "1"}]});
    let rows = [
        (json!({"hostNetwork": true}), sysctl("kernel.shm_rmid_forced"), None),
        (json!({"hostIPC": true}), sysctl("net.ipv4.tcp_syncookies"), None),
        (
            json!({"hostNetwork": true}),
            sysctl("net.ipv4.tcp_syncookies"),
            Some("\"net.ipv4.tcp_syncookies\" not allowed with host Net enabled"),
        ),
        (
            json!({"hostIPC": true}),
            sysctl("kernel.shm_rmid_forced"),
            Some("\"kernel.shm_rmid_forced\" not allowed with host IPC enabled"),
        ),
    ];
    for (spec, context, want) in rows {
        let want =
            want.map(|want| format!("{POD}.sysctls[0].name: SysctlForbidden: forbidden sysctl: {want}"));
        assert_eq!(found(spec.clone(), context), Vec::from_iter(want), "{spec}");
    }
    let windows = json!({"windowsOptions": {}});
    let want = vec![format!("{POD}.windowsOptions: may not be set for a Linux pod")];
    assert_eq!(found(json!({"os": {"name": "linux"}}), windows), want);
}

#[test]
fn apparmors_annotations() {
    let key = |name: &str| format!("container.apparmor.security.beta.kubernetes.io/{name}");
    let found = |container: &str, value: &str, profile: Value| {
        let mut pod = good();
        pod["metadata"]["annotations"] = json!({key(container): value});
        pod["spec"]["securityContext"] = json!({"appArmorProfile": profile});
        findings(pod)
    };
    let localhost = json!({"type": "Localhost", "localhostProfile": "x"});
    let rows = [
        ("a", "runtime/default", Value::Null, None),
        ("b", "unconfined", Value::Null, None),
        ("a", "localhost/x", Value::Null, None),
        ("a", "", Value::Null, None),
        ("a", "localhost/x", localhost.clone(), None),
        ("a", "x", Value::Null, Some("\"x\" is not an AppArmor profile")),
        ("a", "localhost/ ", Value::Null, Some("must name a profile after localhost/")),
        ("none", "unconfined", Value::Null, Some("there is no container \"none\"")),
        ("a", "localhost/y", localhost.clone(), Some("appArmorProfile says another, \"localhost/x\"")),
        ("a", "unconfined", localhost, Some("appArmorProfile says another, \"localhost/x\"")),
    ];
    for (container, value, profile, want) in rows {
        let want = want.map(|want| format!("metadata.annotations[{}]: {want}", key(container)));
        assert_eq!(found(container, value, profile), Vec::from_iter(want), "{container}: {value}");
    }
}
