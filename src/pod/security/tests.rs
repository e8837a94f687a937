//! Tables: precedence, who may not be root, sysctls, AppArmor.

use k8s_openapi::api::core::v1::{Container, PodSpec};
use serde_json::{Value, json};

use super::admission::{KernelVersion, NodeSecurity, NotAdmitted, admit, needs_selinux, needs_strict_groups};
use super::apparmor::{self, Profile};
use super::*;
use crate::pod::testing::pod;

fn with(pod_context: Value, own: Value) -> Pod {
    let mut pod = pod("p", "u");
    pod.spec.security_context = serde_json::from_value(pod_context).unwrap();
    pod.spec.containers[0].security_context = serde_json::from_value(own).unwrap();
    pod
}

fn read<T>(pod_context: Value, own: Value, read: impl Fn(ContainerSecurity<'_>) -> T) -> T {
    let pod = with(pod_context, own);
    read(container_security(&pod.spec, &pod.spec.containers[0]))
}

#[test]
fn a_container_takes_precedence_over_its_pod() {
    // The field; two values of it, and what each comes to.
    type Row = (&'static str, [Value; 2], fn(ContainerSecurity<'_>) -> Value, [Value; 2]);
    let rows: [Row; 5] = [
        ("runAsUser", [json!(0), json!(5)], |s| json!(s.run_as_user), [json!(0), json!(5)]),
        ("runAsGroup", [json!(0), json!(5)], |s| json!(s.run_as_group), [json!(0), json!(5)]),
        (
            "runAsNonRoot",
            [json!(false), json!(true)],
            |s| json!(s.run_as_non_root),
            [json!(false), json!(true)],
        ),
        (
            "seLinuxOptions",
            [json!({"type": "a"}), json!({"level": "b"})],
            |s| json!(s.se_linux),
            [json!({"type": "a"}), json!({"level": "b"})],
        ),
        (
            "seccompProfile",
            [json!({"type": "Unconfined"}), json!({"type": "RuntimeDefault"})],
            |s| json!(s.seccomp),
            [json!({"type": "Unconfined"}), json!({"type": "RuntimeDefault"})],
        ),
    ];
    for (field, [a, b], of, [is_a, is_b]) in rows {
        let none = of(ContainerSecurity::default());
        assert_eq!(read(Value::Null, Value::Null, of), none, "{field}");
        assert_eq!(read(json!({}), json!({}), of), none, "{field}");
        assert_eq!(read(json!({field: a}), Value::Null, of), is_a, "{field}");
        assert_eq!(read(json!({field: b}), json!({}), of), is_b, "{field}");
        assert_eq!(read(Value::Null, json!({field: b}), of), is_b, "{field}");
        assert_eq!(read(json!({field: a}), json!({field: b}), of), is_b, "{field}");
        assert_eq!(read(json!({field: b}), json!({field: a}), of), is_a, "{field}");
    }
}

#[test]
fn what_only_a_container_can_say() {
    type Row = (Value, fn(&ContainerSecurity<'_>) -> bool, bool);
    let rows: [Row; 12] = [
        (json!({}), |s| s.privileged, false),
        (json!({"privileged": false}), |s| s.privileged, false),
        (json!({"privileged": true}), |s| s.privileged, true),
        (json!({}), |s| s.no_new_privs, false),
        (json!({"allowPrivilegeEscalation": true}), |s| s.no_new_privs, false),
        (json!({"allowPrivilegeEscalation": false}), |s| s.no_new_privs, true),
        (json!({"capabilities": {"drop": ["ALL"]}}), |s| s.no_new_privs, false),
        (json!({"readOnlyRootFilesystem": true}), |s| s.read_only_root, true),
        (json!({"readOnlyRootFilesystem": false}), |s| s.read_only_root, false),
        (json!({"procMount": "Unmasked"}), |s| s.unmasked, true),
        (json!({"procMount": "Default"}), |s| s.unmasked, false),
        (json!({}), |s| s.unmasked, false),
    ];
    for (own, of, want) in rows {
        assert_eq!(read(json!({}), own.clone(), |security| of(&security)), want, "{own}");
    }
}

#[test]
fn one_privileged_container_makes_a_privileged_sandbox() {
    let container = |privileged: Option<bool>| Container {
        security_context: serde_json::from_value(json!({"privileged": privileged})).unwrap(),
        ..Default::default()
    };
    let rows = [
        (vec![], vec![None], false),
        (vec![], vec![Some(false), None], false),
        (vec![], vec![None, Some(true)], true),
        (vec![Some(true)], vec![None], true),
    ];
    for (init, main, want) in rows {
        let spec = PodSpec {
            init_containers: Some(init.iter().copied().map(container).collect()),
            containers: main.iter().copied().map(container).collect(),
            ..Default::default()
        };
        assert_eq!(has_privileged_container(&spec), want, "{init:?} {main:?}");
    }
}

#[test]
fn the_group_of_volumes_comes_before_the_others() {
    let groups = |context: Value| supplemental_groups(&with(context, Value::Null).spec);
    assert_eq!(groups(Value::Null), Vec::<i64>::new());
    assert_eq!(groups(json!({"supplementalGroups": [4, 3]})), [4, 3]);
    assert_eq!(groups(json!({"fsGroup": 9, "supplementalGroups": [4]})), [9, 4]);
}

#[test]
fn who_must_not_be_root_is_not() {
    let name = |name: &str| ImageUser::Name(name.into());
    let root = "container has runAsNonRoot and image will run as root";
    let rows = [
        (json!({}), json!({}), ImageUser::Id(0), None),
        (json!({"runAsNonRoot": true}), json!({}), ImageUser::Id(0), Some(root)),
        (json!({}), json!({"runAsNonRoot": true}), ImageUser::Id(0), Some(root)),
        (json!({"runAsNonRoot": true}), json!({"runAsNonRoot": false}), ImageUser::Id(0), None),
        (json!({"runAsNonRoot": true}), json!({}), ImageUser::Id(1), None),
        (
            json!({"runAsNonRoot": true}),
            json!({}),
            ImageUser::Id(-1),
            Some("container has runAsNonRoot and image has an invalid user id (-1). "),
        ),
        (
            json!({"runAsNonRoot": true}),
            json!({}),
            name("nobody"),
            Some(
                "container has runAsNonRoot and image has non-numeric user (nobody), cannot verify user is non-root",
            ),
        ),
        (json!({"runAsNonRoot": true}), json!({"runAsUser": 7}), name("nobody"), None),
        (json!({"runAsNonRoot": true, "runAsUser": 7}), json!({}), ImageUser::Id(0), None),
        (
            json!({"runAsNonRoot": true, "runAsUser": 7}),
            json!({"runAsUser": 0}),
            ImageUser::Id(7),
            Some("container's runAsUser breaks non-root policy"),
        ),
        (json!({"runAsUser": 0}), json!({}), name("nobody"), None),
    ];
    for (pod_context, own, user, want) in rows {
        let pod = with(pod_context.clone(), own.clone());
        let got = check_non_root(&pod, &pod.spec.containers[0], &user).err();
        let case = format!("{pod_context} {own} {user:?}: {got:?}");
        match (want, got) {
            (None, None) => {}
            (Some(want), Some(got)) => {
                assert!(got.starts_with(want), "{case}");
                assert!(got.ends_with(" (pod: \"p_default(u)\", container: main)"), "{case}");
            }
            _ => panic!("{case}"),
        }
    }
}

#[test]
fn capabilities_have_one_name() {
    for (written, name, known) in [
        ("NET_RAW", "NET_RAW", true),
        ("CAP_NET_RAW", "NET_RAW", true),
        ("cap_net_raw", "net_raw", true),
        ("ALL", "ALL", true),
        ("all", "all", true),
        ("CAP", "CAP", false),
        ("é_NET", "é_NET", false),
        ("", "", false),
    ] {
        assert_eq!((capability_name(written), is_capability(written)), (name, known), "{written}");
    }
}

fn node(kernel: KernelVersion, unsafe_sysctls: &[&str]) -> NodeSecurity {
    let unsafe_sysctls = unsafe_sysctls.iter().map(|name| (*name).to_owned()).collect();
    NodeSecurity { kernel, unsafe_sysctls, ..Default::default() }
}

#[test]
fn sysctls_are_safe_or_allowed_or_forbidden() {
    let (old, new) = (KernelVersion(4, 4), KernelVersion(6, 1));
    let rows = [
        ("kernel.shm_rmid_forced", old, &[][..], true),
        ("net.ipv4.ip_local_reserved_ports", old, &[], true),
        ("net.ipv4.tcp_keepalive_time", old, &[], false),
        ("net.ipv4.tcp_keepalive_time", KernelVersion(4, 5), &[], true),
        ("net.ipv4.tcp_rmem", KernelVersion(4, 14), &[], false),
        ("net.ipv4.tcp_rmem", KernelVersion(4, 15), &[], true),
        ("net/ipv4/tcp_wmem", new, &[], true),
        ("net.core.somaxconn", new, &[], false),
        ("net.core.somaxconn", new, &["net.core.somaxconn"], true),
        ("net.core.somaxconn", new, &["net/core/somaxconn"], true),
        ("net.core.somaxconn", new, &["net.core.*"], true),
        ("net.core.somaxconn", new, &["net.*"], true),
        ("net.core.somaxconn", new, &["net.core", "kernel.shm*"], false),
        ("kernel.shmmax", new, &["kernel.shm*"], true),
        ("kernel.pid_max", new, &["kernel.pid_max"], false),
    ];
    for (name, kernel, allowed, want) in rows {
        let pod = with(json!({"sysctls": [{"name": name, "value": "1"}]}), Value::Null);
        let message = format!("forbidden sysctl: {:?} not allowlisted", name.replace('/', "."));
        let expect = if want { Ok(()) } else { Err(NotAdmitted { reason: "SysctlForbidden", message }) };
        assert_eq!(admit(&pod, &node(kernel, allowed)), expect, "{name} {kernel:?} {allowed:?}");
    }
    let mut shared = with(json!({"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]}), json!({}));
    shared.spec.host_network = Some(true);
    let message = admit(&shared, &node(new, &["net.*"])).unwrap_err().message;
    assert_eq!(message, "forbidden sysctl: \"net.ipv4.tcp_syncookies\" not allowed with host Net enabled");
}

#[test]
fn kernels_are_known_by_two_numbers() {
    for (release, want) in [
        ("6.1.0-18-amd64\n", KernelVersion(6, 1)),
        ("4.19", KernelVersion(4, 19)),
        ("5.15.0-rc1", KernelVersion(5, 15)),
        ("", KernelVersion(0, 0)),
        ("linux", KernelVersion(0, 0)),
    ] {
        assert_eq!(KernelVersion::parse(release), want, "{release}");
    }
}

#[test]
fn apparmors_profile_is_the_containers_the_annotations_or_the_pods() {
    let field = |kind: &str| json!({"appArmorProfile": {"type": kind}});
    let localhost = json!({"appArmorProfile": {"type": "Localhost", "localhostProfile": "x"}});
    let default = Some(Profile::RuntimeDefault);
    let rows = [
        (json!({}), None, json!({}), None, false),
        (field("RuntimeDefault"), None, json!({}), default, true),
        (field("Unconfined"), None, json!({}), Some(Profile::Unconfined), false),
        (field("Unconfined"), None, field("RuntimeDefault"), default, true),
        (localhost.clone(), None, json!({}), Some(Profile::Localhost("x")), true),
        (localhost.clone(), Some("unconfined"), json!({}), Some(Profile::Unconfined), true),
        (localhost, Some("unconfined"), field("RuntimeDefault"), default, true),
        (json!({}), Some("runtime/default"), json!({}), default, true),
        (json!({}), Some("localhost/y"), json!({}), Some(Profile::Localhost("y")), true),
        (json!({}), Some("unconfined"), json!({}), Some(Profile::Unconfined), false),
        (field("Unconfined"), Some("odd"), json!({}), Some(Profile::Unconfined), true),
    ];
    for (pod_context, annotation, own, want, required) in rows {
        let mut pod = with(pod_context.clone(), own.clone());
        let key = format!("{}main", apparmor::ANNOTATION);
        pod.metadata.annotations = annotation.map(|value: &str| [(key, value.to_owned())].into());
        let case = format!("{pod_context} {annotation:?} {own}");
        assert_eq!(apparmor::profile(&pod.metadata, &pod.spec, &pod.spec.containers[0]), want, "{case}");
        let without = admit(&pod, &node(KernelVersion(6, 1), &[]));
        assert_eq!(
            without.as_ref().err().map(|refusal| refusal.reason),
            required.then_some("AppArmor"),
            "{case}"
        );
        let has_it = NodeSecurity { has_apparmor: true, ..Default::default() };
        assert_eq!(admit(&pod, &has_it), Ok(()), "{case}");
    }
}

#[test]
fn what_else_is_asked_of_the_node() {
    let groups =
        |policy: Value| needs_strict_groups(&with(json!({"supplementalGroupsPolicy": policy}), json!({})));
    assert_eq!([json!(null), json!("Merge"), json!("Strict")].map(groups), [false, false, true]);
    for (options, expect) in [
        (json!({"type": "container_t"}), true),
        (json!({"level": "s0:c1,c2"}), true),
        (json!({"type": "spc_t"}), false),
        (json!({"type": "spc_t", "level": "s0"}), false),
    ] {
        let options = json!({"seLinuxOptions": options});
        assert_eq!(needs_selinux(&with(options.clone(), json!({}))), expect, "{options}");
        assert_eq!(needs_selinux(&with(json!({}), options.clone())), expect, "{options}");
    }
    assert!(!needs_selinux(&with(json!({}), json!({}))));
}

#[test]
fn annotations_that_nobody_reads_any_more_are_named() {
    let annotations =
        ["seccomp.security.alpha.kubernetes.io/pod", "container.seccomp.security.alpha.kubernetes.io/c", "a"];
    let annotations = annotations.map(|key| (key.to_owned(), "runtime/default".to_owned()));
    let metadata = ObjectMeta { annotations: Some(annotations.into()), ..Default::default() };
    let remarks = old_annotations(&metadata);
    assert_eq!(remarks.len(), 2);
    assert!(remarks.iter().all(|remark| remark.reason.starts_with("has no effect since Kubernetes 1.27")));
    assert_eq!(old_annotations(&ObjectMeta::default()), Vec::new());
}
