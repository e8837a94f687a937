//! Security contexts: ids that exist, and demands that do not contradict each other.

use k8s_openapi::api::core::v1::{Container, PodSpec};

use super::findings::Findings;

/// The largest id of a user or group.
const MAX_ID: i64 = i32::MAX as i64;

/// Validates the pod's own context, and its share in the host's namespaces.
pub(super) fn validate_pod_security(spec: &PodSpec, findings: &mut Findings) {
    if spec.host_users == Some(false) {
        let shared =
            [("hostNetwork", spec.host_network), ("hostPID", spec.host_pid), ("hostIPC", spec.host_ipc)];
        for (name, _) in shared.into_iter().filter(|(_, on)| *on == Some(true)) {
            findings.add(format_args!("spec.{name}"), "may not be set when hostUsers is false");
        }
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
        findings.within(format_args!("{path}.supplementalGroups[{index}]"), Some(*group), 0..=MAX_ID);
    }
}

/// Validates a container's context.
pub(super) fn validate_container_security(container: &Container, path: &str, findings: &mut Findings) {
    let Some(context) = &container.security_context else { return };
    let path = format!("{path}.securityContext");
    check_ids(&[("runAsUser", context.run_as_user), ("runAsGroup", context.run_as_group)], &path, findings);
    if context.privileged == Some(true) && context.allow_privilege_escalation == Some(false) {
        findings.add(&path, "may not be privileged and forbid the escalation of privileges");
    }
}

fn check_ids(ids: &[(&str, Option<i64>)], path: &str, findings: &mut Findings) {
    for (name, id) in ids {
        findings.within(format_args!("{path}.{name}"), *id, 0..=MAX_ID);
    }
}
