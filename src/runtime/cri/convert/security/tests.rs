//! How security contexts are told to the runtime. What kubelet sent is compared in `convert::tests`.

use serde_json::{Value, json};

use super::*;
use crate::pod::testing::pod;

fn with(pod_context: Value, own: Value) -> Pod {
    let mut pod = pod("p", "u");
    pod.spec.security_context = serde_json::from_value(pod_context).unwrap();
    pod.spec.containers[0].security_context = serde_json::from_value(own).unwrap();
    pod
}

fn around() -> Surroundings {
    Surroundings {
        image_user: Some(ImageUser::Id(33)),
        seccomp_default: false,
        seccomp_root: "/root/seccomp".into(),
        masked_paths: vec!["/sys/hot".into()],
    }
}

fn told(pod_context: Value, own: Value, around: &Surroundings) -> LinuxContainerSecurityContext {
    let pod = with(pod_context, own);
    container_context(&pod, &pod.spec.containers[0], around)
}

#[test]
fn the_user_is_the_manifests_or_the_images() {
    let named = Surroundings { image_user: Some(ImageUser::Name("web".into())), ..around() };
    let rows = [
        (json!({}), json!({}), around(), Some(33), ""),
        (json!({}), json!({}), named.clone(), None, "web"),
        (json!({}), json!({}), Surroundings::default(), None, ""),
        (json!({"runAsUser": 1}), json!({}), around(), Some(1), ""),
        (json!({"runAsUser": 1}), json!({"runAsUser": 0}), named, Some(0), ""),
    ];
    for (pod_context, own, around, user, name) in rows {
        let context = told(pod_context.clone(), own.clone(), &around);
        let got = (context.run_as_user.map(|user| user.value), context.run_as_username.as_str());
        assert_eq!(got, (user, name), "{pod_context} {own} {around:?}");
    }
    // The sandbox knows nothing of the containers' users.
    let sandbox = sandbox_context(&with(json!({}), json!({"runAsUser": 1, "runAsGroup": 2})).spec);
    assert_eq!((sandbox.run_as_user, sandbox.run_as_group), (None, None));
}

#[test]
fn seccomp_and_its_default() {
    let (default, unconfined, localhost) = (0, 1, 2);
    let profile = |kind: &str| json!({"seccompProfile": {"type": kind}});
    let file = json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "a/b.json"}});
    let rows = [
        (json!({}), json!({}), false, unconfined, ""),
        (json!({}), json!({}), true, default, ""),
        (json!({}), json!({"privileged": true}), true, default, ""),
        (profile("Unconfined"), json!({}), true, unconfined, ""),
        (profile("Unconfined"), profile("RuntimeDefault"), false, default, ""),
        (profile("RuntimeDefault"), profile("Unconfined"), false, unconfined, ""),
        (file.clone(), json!({}), false, localhost, "/root/seccomp/a/b.json"),
        (json!({}), file, true, localhost, "/root/seccomp/a/b.json"),
    ];
    for (pod_context, own, seccomp_default, kind, path) in rows {
        let context = told(pod_context.clone(), own.clone(), &Surroundings { seccomp_default, ..around() });
        let got = context.seccomp.unwrap();
        let case = format!("{pod_context} {own} {seccomp_default}");
        assert_eq!((got.profile_type, got.localhost_ref.as_str()), (kind, path), "{case}");
        let sandbox = sandbox_context(&with(pod_context, own).spec);
        assert_eq!(sandbox.seccomp.unwrap().profile_type, default, "the sandbox, {case}");
    }
}

#[test]
fn apparmor_is_told_in_both_forms() {
    let rows = [
        (json!({}), None, ""),
        (json!({"type": "RuntimeDefault"}), Some((0, "")), "runtime/default"),
        (json!({"type": "Unconfined"}), Some((1, "")), "unconfined"),
        (json!({"type": "Localhost", "localhostProfile": "x"}), Some((2, "x")), "localhost/x"),
    ];
    for (profile, new, old) in rows {
        let own = if profile == json!({}) { json!({}) } else { json!({"appArmorProfile": profile}) };
        let context = told(json!({}), own, &around());
        let got = context.apparmor.as_ref().map(|got| (got.profile_type, got.localhost_ref.as_str()));
        assert_eq!(got, new, "{profile}");
        #[expect(deprecated, reason = "older runtimes read it")]
        let got = context.apparmor_profile;
        assert_eq!(got, old, "{profile}");
    }
}

#[test]
fn rights_of_a_container() {
    let context = told(json!({}), json!({}), &around());
    assert_eq!((context.privileged, context.readonly_rootfs, context.no_new_privs), (false, false, false));
    assert_eq!((context.capabilities, context.selinux_options), (None, None));
    assert!(context.masked_paths.starts_with(&["/proc/asound".to_owned()]));
    assert!(context.masked_paths.ends_with(&["/sys/devices/virtual/powercap".into(), "/sys/hot".into()]));
    assert_eq!(context.readonly_paths, READONLY_PATHS);

    let own = json!({
        "privileged": true, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false, "procMount": "Unmasked",
        "capabilities": {"add": ["CAP_NET_ADMIN", "SYS_TIME"], "drop": ["ALL", "cap_kill"]},
        "seLinuxOptions": {"user": "u", "role": "r", "type": "t", "level": "l"},
    });
    let context =
        told(json!({"seLinuxOptions": {"user": "other", "level": "other"}}), own.clone(), &around());
    assert_eq!((context.privileged, context.readonly_rootfs, context.no_new_privs), (true, true, true));
    let capabilities = context.capabilities.unwrap();
    assert_eq!(capabilities.add_capabilities, ["NET_ADMIN", "SYS_TIME"]);
    assert_eq!(capabilities.drop_capabilities, ["ALL", "kill"]);
    let options = context.selinux_options.unwrap();
    assert_eq!([options.user, options.role, options.r#type, options.level], ["u", "r", "t", "l"]);
    assert_eq!((context.masked_paths.len(), context.readonly_paths.len()), (0, 0));

    let sandbox = sandbox_context(&with(json!({"seLinuxOptions": {"level": "pod"}}), own).spec);
    assert!(sandbox.privileged);
    assert_eq!(sandbox.selinux_options.unwrap().level, "pod");
}

#[test]
fn groups_and_sysctls_are_the_pods() {
    let pod_context = json!({
        "fsGroup": 1, "supplementalGroups": [2], "supplementalGroupsPolicy": "Strict",
        "sysctls": [{"name": "net.a", "value": "1"}, {"name": "net.b", "value": ""}],
    });
    let context = told(pod_context.clone(), json!({}), &around());
    let spec = with(pod_context, json!({})).spec;
    let sandbox = sandbox_context(&spec);
    let strict = SupplementalGroupsPolicy::Strict as i32;
    assert_eq!((context.supplemental_groups, context.supplemental_groups_policy), (vec![1, 2], strict));
    assert_eq!((sandbox.supplemental_groups, sandbox.supplemental_groups_policy), (vec![1, 2], strict));
    let want = [("net.a", "1"), ("net.b", "")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(sysctls(&spec), want.into());
    assert_eq!(sysctls(&PodSpec::default()), BTreeMap::new());
}
