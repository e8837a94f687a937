//! What the node shows of itself, labels and taints, and the sysctls that its pods may set. Pure.

use serde_json::Value;

use super::Checks;
use crate::pod::security::sysctl::namespace_of;
use crate::pod::validate::names::{not_label_value, not_qualified_name};

/// Labels of Kubernetes' own namespaces that a node may give itself.
const OWN_LABELS: [&str; 11] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// Checks taints, labels, sysctls and the lock file.
pub(super) fn check(checks: &mut Checks<'_>) {
    let flags = checks.flags;
    const TAINTS: &str = "registerWithTaints";
    for taint in checks.items(TAINTS) {
        let text = |field: &str| taint[field].as_str().unwrap_or_default();
        let (key, value) = (text("key"), text("value"));
        if let Some(reason) = not_qualified_name(key) {
            checks.refuse(TAINTS, format!("key: {reason}"));
        }
        if let Some(reason) = not_label_value(value) {
            checks.refuse(TAINTS, format!("value: {reason}"));
        }
        if !taint["timeAdded"].is_null() {
            checks.refuse(TAINTS, "timeAdded cannot be set");
        }
    }
    for sysctl in checks.texts("allowedUnsafeSysctls") {
        if !is_sysctl_pattern(sysctl) {
            checks
                .refuse("allowedUnsafeSysctls", format!("{sysctl:?} is not a sysctl, or a beginning and *"));
        } else if namespace_of(sysctl).is_none() {
            checks.refuse(
                "allowedUnsafeSysctls",
                format!("{sysctl:?} is not known to belong to a pod's namespaces"),
            );
        }
    }
    let labels = flags.get("node-labels").and_then(Value::as_object);
    for (key, value) in labels.into_iter().flatten() {
        let problem = match (not_qualified_name(key), not_label_value(value.as_str().unwrap_or_default())) {
            (Some(reason), _) => Some(format!("key: {reason}")),
            (None, Some(reason)) => Some(format!("value of {key}: {reason}")),
            (None, None) if !may_set(key) => {
                Some(format!("{key} is not a label that a node may give itself; use another prefix"))
            }
            (None, None) => None,
        };
        checks.problems.extend(problem.map(|reason| format!("--node-labels: {reason}")));
    }
    if flags.is_set("exit-on-lock-contention") && flags.text("lock-file").is_none() {
        checks.problems.push("--exit-on-lock-contention: needs --lock-file".to_owned());
    }
}

/// Whether a node may give itself the label: Kubernetes keeps most of its own for itself.
fn may_set(key: &str) -> bool {
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    let is_below =
        |domain: &str| prefix.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    !(is_below("kubernetes.io") || is_below("k8s.io"))
        || OWN_LABELS.contains(&key)
        || is_below("kubelet.kubernetes.io")
        || is_below("node.kubernetes.io")
}

/// Segments of lower-case letters, digits, `-` and `_`; the last may end in `*`.
fn is_sysctl_pattern(text: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let inner = |byte: &u8| alphanumeric(byte) || matches!(byte, b'-' | b'_');
    let is_segment = |segment: &str, can_end: &dyn Fn(&u8) -> bool| match segment.as_bytes() {
        [] => false,
        [only] => can_end(only),
        [first, middle @ .., last] => alphanumeric(first) && middle.iter().all(inner) && can_end(last),
    };
    let segments: Vec<&str> = text.split(['.', '/']).collect();
    let Some((last, others)) = segments.split_last() else { return false };
    text.len() <= 253
        && others.iter().all(|segment| is_segment(segment, &alphanumeric))
        && is_segment(last, &|byte| alphanumeric(byte) || *byte == b'*')
}
