//! With which rights a container runs: what its security context and its pod's say together. Pure.
//!
//! A field of the container takes precedence over the same field of the pod, as in kubelet. What is told to the runtime of
//! it is in `runtime::cri::convert`.

pub(crate) mod admission;
pub(crate) mod apparmor;
pub(crate) mod sysctl;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{Capabilities, Container, PodSpec, SELinuxOptions, SeccompProfile};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Finding, Pod, annotations, containers_of};

/// The largest id of a user or group.
pub(crate) const MAX_ID: i64 = i32::MAX as i64;

const OLD_SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const OLD_SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// The capabilities of Linux, by their names in a manifest.
const CAPABILITIES: [&str; 41] = [
    "AUDIT_CONTROL",
    "AUDIT_READ",
    "AUDIT_WRITE",
    "BLOCK_SUSPEND",
    "BPF",
    "CHECKPOINT_RESTORE",
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "IPC_LOCK",
    "IPC_OWNER",
    "KILL",
    "LEASE",
    "LINUX_IMMUTABLE",
    "MAC_ADMIN",
    "MAC_OVERRIDE",
    "MKNOD",
    "NET_ADMIN",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_RAW",
    "PERFMON",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYSLOG",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_CHROOT",
    "SYS_MODULE",
    "SYS_NICE",
    "SYS_PACCT",
    "SYS_PTRACE",
    "SYS_RAWIO",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "WAKE_ALARM",
];

/// The rights of one container.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ContainerSecurity<'a> {
    pub(crate) run_as_user: Option<i64>,
    pub(crate) run_as_group: Option<i64>,
    /// Whether it may not run as root.
    pub(crate) run_as_non_root: bool,
    pub(crate) privileged: bool,
    /// Whether its processes may not gain rights by what they execute.
    pub(crate) no_new_privs: bool,
    pub(crate) read_only_root: bool,
    /// Whether it sees all of /proc.
    pub(crate) unmasked: bool,
    pub(crate) capabilities: Option<&'a Capabilities>,
    pub(crate) se_linux: Option<&'a SELinuxOptions>,
    pub(crate) seccomp: Option<&'a SeccompProfile>,
}

/// The rights of a container of a pod.
pub(crate) fn container_security<'a>(spec: &'a PodSpec, container: &'a Container) -> ContainerSecurity<'a> {
    let pod = spec.security_context.as_ref();
    let own = container.security_context.as_ref();
    ContainerSecurity {
        run_as_user: own.and_then(|own| own.run_as_user).or_else(|| pod?.run_as_user),
        run_as_group: own.and_then(|own| own.run_as_group).or_else(|| pod?.run_as_group),
        run_as_non_root: own.and_then(|own| own.run_as_non_root).or_else(|| pod?.run_as_non_root)
            == Some(true),
        privileged: is_privileged(container),
        no_new_privs: own.and_then(|own| own.allow_privilege_escalation) == Some(false),
        read_only_root: own.and_then(|own| own.read_only_root_filesystem) == Some(true),
        unmasked: own.and_then(|own| own.proc_mount.as_deref()) == Some("Unmasked"),
        capabilities: own.and_then(|own| own.capabilities.as_ref()),
        se_linux: own
            .and_then(|own| own.se_linux_options.as_ref())
            .or_else(|| pod?.se_linux_options.as_ref()),
        seccomp: own.and_then(|own| own.seccomp_profile.as_ref()).or_else(|| pod?.seccomp_profile.as_ref()),
    }
}

/// Whether any container of a pod is privileged: then its sandbox is.
pub(crate) fn has_privileged_container(spec: &PodSpec) -> bool {
    containers_of(spec).any(|(_, container)| is_privileged(container))
}

fn is_privileged(container: &Container) -> bool {
    container.security_context.as_ref().is_some_and(|context| context.privileged == Some(true))
}

/// The groups that every process of a pod belongs to, besides its own: that of its volumes first, as kubelet has it.
pub(crate) fn supplemental_groups(spec: &PodSpec) -> Vec<i64> {
    let Some(context) = &spec.security_context else { return Vec::new() };
    context.fs_group.into_iter().chain(context.supplemental_groups.iter().flatten().copied()).collect()
}

/// The name of a capability without the kernel's prefix. Runtimes put it before the name that they are told, and what then
/// has it twice is dropped by none of them.
pub(crate) fn capability_name(written: &str) -> &str {
    match written.get(..4) {
        Some(prefix) if prefix.eq_ignore_ascii_case("CAP_") => &written[4..],
        _ => written,
    }
}

/// Whether Linux has a capability of this name.
pub(crate) fn is_capability(written: &str) -> bool {
    let name = capability_name(written).to_ascii_uppercase();
    name == "ALL" || CAPABILITIES.contains(&name.as_str())
}

/// Remarks on the annotations that chose a seccomp profile before there was a field. kubelet has not read them since 1.27.
pub(crate) fn old_annotations(metadata: &ObjectMeta) -> Vec<Finding> {
    let keys = metadata.annotations.iter().flatten().map(|(key, _)| key);
    let old = keys.filter(|key| *key == OLD_SECCOMP_POD || key.starts_with(OLD_SECCOMP_CONTAINER));
    let reason = "has no effect since Kubernetes 1.27; use securityContext.seccompProfile";
    old.map(|key| Finding::new(annotations::field(key), reason)).collect()
}

/// As whom an image runs its command, as the runtime tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageUser {
    /// A number. An image that says nothing runs as root, 0.
    Id(i64),
    /// A name, which only the image's own files can turn into a number.
    Name(String),
}

/// Holds a container that must not run as root to it. The messages are kubelet's.
///
/// # Errors
/// When it would run as root, or nobody can tell.
pub(crate) fn check_non_root(pod: &Pod, container: &Container, user: &ImageUser) -> Result<(), String> {
    let security = container_security(&pod.spec, container);
    if !security.run_as_non_root {
        return Ok(());
    }
    let place = format!(
        "(pod: \"{}_{}({})\", container: {})",
        pod.name.name, pod.name.namespace, pod.uid, container.name
    );
    match (security.run_as_user, user) {
        (Some(0), _) => Err(format!("container's runAsUser breaks non-root policy {place}")),
        (Some(_), _) => Ok(()),
        (None, ImageUser::Name(name)) => Err(format!(
            "container has runAsNonRoot and image has non-numeric user ({}), cannot verify user is non-root {place}",
            name.escape_debug()
        )),
        (None, ImageUser::Id(0)) => {
            Err(format!("container has runAsNonRoot and image will run as root {place}"))
        }
        (None, ImageUser::Id(id)) if !(0..=MAX_ID).contains(id) => Err(format!(
            "container has runAsNonRoot and image has an invalid user id ({id}). (Must be 1-({MAX_ID})): \
             must be between 0 and {MAX_ID}, inclusive {place}"
        )),
        (None, ImageUser::Id(_)) => Ok(()),
    }
}
