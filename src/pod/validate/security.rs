//! Security contexts: ids that exist, words that mean something, and demands that do not contradict each other.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{AppArmorProfile, Container, PodSpec, SeccompProfile};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::findings::Findings;
use super::volume::backwards;
use crate::pod::containers_of;
use crate::pod::security::apparmor::{ANNOTATION, Profile};
use crate::pod::security::{MAX_ID, capability_name, is_capability, sysctl};
use crate::text::excerpt::quoted;

/// The longest name of a profile: no path is longer.
const MAX_PROFILE: usize = 4095;

/// Validates the pod's own context, and its share in the host's namespaces.
pub(super) fn validate_pod_security(spec: &PodSpec, findings: &mut Findings) {
    if spec.host_users == Some(false) {
        let shared =
            [("hostNetwork", spec.host_network), ("hostPID", spec.host_pid), ("hostIPC", spec.host_ipc)];
        for (name, _) in shared.into_iter().filter(|(_, on)| *on == Some(true)) {
            findings.add(format_args!("spec.{name}"), "may not be set when hostUsers is false");
        }
        findings.add("spec.hostUsers", "not supported yet");
    }
    let Some(context) = &spec.security_context else { return };
    let path = "spec.securityContext";
    let ids = [
        ("runAsUser", context.run_as_user),
        ("runAsGroup", context.run_as_group),
        ("fsGroup", context.fs_group),
    ];
    check_ids(&ids, path, findings);
    for (index, group) in context.supplemental_groups.iter().flatten().enumerate() {
        findings.in_range(format_args!("{path}.supplementalGroups[{index}]"), Some(*group), 0..=MAX_ID);
    }
    let words: [(&str, &Option<String>, &[&str]); 3] = [
        ("supplementalGroupsPolicy", &context.supplemental_groups_policy, &["Merge", "Strict"]),
        ("fsGroupChangePolicy", &context.fs_group_change_policy, &["OnRootMismatch", "Always"]),
        ("seLinuxChangePolicy", &context.se_linux_change_policy, &["MountOption", "Recursive"]),
    ];
    for (name, word, words) in words {
        one_of(format!("{path}.{name}"), word.as_deref(), words, findings);
    }
    validate_sysctls(spec, findings);
    validate_seccomp(context.seccomp_profile.as_ref(), &format!("{path}.seccompProfile"), findings);
    validate_apparmor(context.app_armor_profile.as_ref(), &format!("{path}.appArmorProfile"), findings);
    if context.windows_options.is_some() && is_for_linux(spec) {
        findings.add(format_args!("{path}.windowsOptions"), "may not be set for a Linux pod");
    }
}

/// Validates a container's context.
pub(super) fn validate_container_security(
    spec: &PodSpec,
    container: &Container,
    path: &str,
    findings: &mut Findings,
) {
    let Some(context) = &container.security_context else { return };
    let path = format!("{path}.securityContext");
    check_ids(&[("runAsUser", context.run_as_user), ("runAsGroup", context.run_as_group)], &path, findings);
    let capabilities = context.capabilities.as_ref();
    if context.allow_privilege_escalation == Some(false) {
        if context.privileged == Some(true) {
            findings.add(&path, "may not be privileged and forbid the escalation of privileges");
        }
        let added = capabilities.and_then(|names| names.add.as_ref()).into_iter().flatten();
        if added.into_iter().any(|name| name == "CAP_SYS_ADMIN") {
            findings.add(&path, "may not add CAP_SYS_ADMIN and forbid the escalation of privileges");
        }
    }
    let dropped = capabilities.and_then(|names| names.drop.as_ref()).into_iter().flatten();
    for (index, name) in dropped.enumerate().filter(|(_, name)| !is_capability(name)) {
        // The runtime would drop nothing, and say nothing.
        let reason = format!("Linux has no capability {}", quoted(capability_name(name)));
        findings.add(format_args!("{path}.capabilities.drop[{index}]"), reason);
    }
    let field = format!("{path}.procMount");
    let proc_mount = context.proc_mount.as_deref();
    if proc_mount == Some("Unmasked") && spec.host_users != Some(false) {
        findings.add(field, "Unmasked needs hostUsers: false");
    } else {
        one_of(field, proc_mount, &["Default", "Unmasked"], findings);
    }
    validate_seccomp(context.seccomp_profile.as_ref(), &format!("{path}.seccompProfile"), findings);
    validate_apparmor(context.app_armor_profile.as_ref(), &format!("{path}.appArmorProfile"), findings);
    if context.windows_options.is_some() && is_for_linux(spec) {
        findings.add(format_args!("{path}.windowsOptions"), "may not be set for a Linux pod");
    }
}

/// Validates the deprecated annotations for AppArmor, which say what a container has no field for.
pub(super) fn validate_annotations(metadata: &ObjectMeta, spec: &PodSpec, findings: &mut Findings) {
    for (key, value) in metadata.annotations.iter().flatten() {
        let Some(name) = key.strip_prefix(ANNOTATION) else { continue };
        let field = format!("metadata.annotations[{key}]");
        let profile = Profile::of_annotation(value);
        match profile {
            None if !value.is_empty() => {
                findings.add(&field, format!("{} is not an AppArmor profile", quoted(value)));
            }
            Some(Profile::Localhost(name)) if name.trim().is_empty() => {
                findings.add(&field, "must name a profile after localhost/");
            }
            _ => {}
        }
        let Some((_, container)) = containers_of(spec).find(|(_, container)| container.name == name) else {
            findings.add(&field, format!("there is no container {}", quoted(name)));
            continue;
        };
        let own = container.security_context.as_ref().and_then(|own| own.app_armor_profile.as_ref());
        let pods = spec.security_context.as_ref().and_then(|pod| pod.app_armor_profile.as_ref());
        let Some(said) = own.or(pods).and_then(Profile::of_field) else { continue };
        if profile != Some(said) {
            findings.add(&field, format!("appArmorProfile says another, {:?}", said.annotation()));
        }
    }
}

fn validate_sysctls(spec: &PodSpec, findings: &mut Findings) {
    let sysctls = spec.security_context.as_ref().and_then(|context| context.sysctls.as_ref());
    let mut seen = BTreeSet::new();
    for (index, sysctl) in sysctls.into_iter().flatten().enumerate() {
        let field = format!("spec.securityContext.sysctls[{index}].name");
        if sysctl.name.is_empty() {
            findings.add(field, "must not be empty");
        } else if !sysctl::is_name(&sysctl.name) {
            findings.add(field, format!("{} is not the name of a sysctl", quoted(&sysctl.name)));
        } else if !seen.insert(&sysctl.name) {
            findings.add(field, format!("{} is used twice", quoted(&sysctl.name)));
        } else if let Some(problem) = sysctl::never_allowed(&sysctl.name, spec) {
            findings.add(field, format!("SysctlForbidden: {problem}"));
        }
    }
}

fn validate_seccomp(profile: Option<&SeccompProfile>, path: &str, findings: &mut Findings) {
    let Some(profile) = profile else { return };
    let field = format!("{path}.localhostProfile");
    check_type(&profile.type_, path, findings);
    match (profile.type_ == "Localhost", profile.localhost_profile.as_deref()) {
        (true, None | Some("")) => findings.add(field, "must be set when type is Localhost"),
        (true, Some(file)) => {
            let absolute = file.starts_with('/').then(|| format!("{} must be relative", quoted(file)));
            findings.check(field, absolute.or_else(|| backwards(file)));
        }
        (false, Some(_)) => findings.add(field, "may only be set when type is Localhost"),
        (false, None) => {}
    }
}

fn validate_apparmor(profile: Option<&AppArmorProfile>, path: &str, findings: &mut Findings) {
    let Some(profile) = profile else { return };
    let field = format!("{path}.localhostProfile");
    check_type(&profile.type_, path, findings);
    match (profile.type_ == "Localhost", profile.localhost_profile.as_deref()) {
        (true, None | Some("")) => findings.add(field, "must be set when type is Localhost"),
        (true, Some(name)) if name.trim() != name => {
            findings.add(field, format!("{} must not begin or end with a space", quoted(name)));
        }
        (true, Some(name)) if name.len() > MAX_PROFILE => {
            findings.add(field, format!("has {} bytes, at most {MAX_PROFILE} are allowed", name.len()));
        }
        (false, Some(_)) => findings.add(field, "may only be set when type is Localhost"),
        _ => {}
    }
}

fn check_type(kind: &str, path: &str, findings: &mut Findings) {
    let field = format!("{path}.type");
    one_of(field, Some(kind), &["Localhost", "RuntimeDefault", "Unconfined"], findings);
}

/// One of a few words, for fields that no default fills in: an empty text is none of them.
fn one_of(field: String, word: Option<&str>, words: &[&str], findings: &mut Findings) {
    match word {
        Some("") => findings.add(field, format!("must be one of {}", words.join(", "))),
        word => findings.one_of(field, word, words),
    }
}

fn is_for_linux(spec: &PodSpec) -> bool {
    spec.os.as_ref().is_some_and(|os| os.name == "linux")
}

fn check_ids(ids: &[(&str, Option<i64>)], path: &str, findings: &mut Findings) {
    for (name, id) in ids {
        findings.in_range(format_args!("{path}.{name}"), *id, 0..=MAX_ID);
    }
}
