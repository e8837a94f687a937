//! Security contexts as CRI messages: who the processes are, what they may do, and what they see of the kernel.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Capabilities, Container, PodSpec, SELinuxOptions, SeccompProfile};

use crate::pod::Pod;
use crate::pod::security::apparmor::{self, Profile};
use crate::pod::security::{
    ImageUser, capability_name, container_security, has_privileged_container, supplemental_groups,
};
use crate::runtime::cri::proto::{
    Capability, Int64Value, LinuxContainerSecurityContext, LinuxSandboxSecurityContext, NamespaceMode,
    NamespaceOption, SeLinuxOption, SecurityProfile, SupplementalGroupsPolicy, UserNamespace,
    security_profile::ProfileType,
};

/// Paths under /proc and /sys that a container does not see, as kubelet's.
const MASKED_PATHS: [&str; 12] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];

/// Paths that a container may only read, as kubelet's.
const READONLY_PATHS: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// What a container's security depends on besides the manifest.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// As whom its image runs, unless the manifest says otherwise.
    pub image_user: Option<ImageUser>,
    /// Whether it gets the runtime's seccomp profile, unless the manifest says otherwise.
    pub seccomp_default: bool,
    /// Where the node's own seccomp profiles lie.
    pub seccomp_root: PathBuf,
    /// Paths that are masked on this node, besides kubelet's.
    pub masked_paths: Vec<String>,
}

/// The context of a sandbox.
pub(super) fn sandbox_context(spec: &PodSpec) -> LinuxSandboxSecurityContext {
    let context = spec.security_context.as_ref();
    LinuxSandboxSecurityContext {
        namespace_options: Some(namespaces(spec)),
        selinux_options: context.and_then(|context| context.se_linux_options.as_ref()).map(se_linux_options),
        run_as_user: context.and_then(|context| context.run_as_user).map(number),
        run_as_group: context.and_then(|context| context.run_as_group).map(number),
        supplemental_groups: supplemental_groups(spec),
        supplemental_groups_policy: groups_policy(spec),
        privileged: has_privileged_container(spec),
        // The sandbox itself runs nothing of the pod's, whose profiles might be too tight for it.
        seccomp: Some(of_type(ProfileType::RuntimeDefault)),
        ..Default::default()
    }
}

/// The sysctls of a pod, set in its sandbox.
pub(super) fn sysctls(spec: &PodSpec) -> BTreeMap<String, String> {
    let context = spec.security_context.as_ref();
    let sysctls = context.and_then(|context| context.sysctls.as_ref());
    sysctls.into_iter().flatten().map(|sysctl| (sysctl.name.clone(), sysctl.value.clone())).collect()
}

/// The context of a container.
pub(super) fn container_context(
    pod: &Pod,
    container: &Container,
    around: &Surroundings,
) -> LinuxContainerSecurityContext {
    let security = container_security(&pod.spec, container);
    let (image_uid, image_name) = match (&security.run_as_user, &around.image_user) {
        (None, Some(ImageUser::Id(id))) => (Some(*id), ""),
        (None, Some(ImageUser::Name(name))) => (None, name.as_str()),
        _ => (None, ""),
    };
    let (masked_paths, readonly_paths) = match security.unmasked {
        true => (Vec::new(), Vec::new()),
        false => {
            let everywhere = MASKED_PATHS.map(str::to_owned);
            let masked = everywhere.into_iter().chain(around.masked_paths.iter().cloned()).collect();
            (masked, READONLY_PATHS.map(str::to_owned).to_vec())
        }
    };
    let apparmor = apparmor::profile(&pod.metadata, &pod.spec, container);
    #[expect(deprecated, reason = "older runtimes read AppArmor's profile in its old form only")]
    LinuxContainerSecurityContext {
        capabilities: security.capabilities.map(capabilities),
        privileged: security.privileged,
        namespace_options: Some(namespaces(&pod.spec)),
        selinux_options: security.se_linux.map(se_linux_options),
        run_as_user: security.run_as_user.or(image_uid).map(number),
        run_as_group: security.run_as_group.map(number),
        run_as_username: image_name.to_owned(),
        readonly_rootfs: security.read_only_root,
        supplemental_groups: supplemental_groups(&pod.spec),
        supplemental_groups_policy: groups_policy(&pod.spec),
        no_new_privs: security.no_new_privs,
        masked_paths,
        readonly_paths,
        seccomp: Some(seccomp(security.seccomp, around.seccomp_default, &around.seccomp_root)),
        apparmor: apparmor.map(apparmor_profile),
        apparmor_profile: apparmor.map(Profile::annotation).unwrap_or_default(),
        ..Default::default()
    }
}

fn number(value: i64) -> Int64Value {
    Int64Value { value }
}

fn groups_policy(spec: &PodSpec) -> i32 {
    let context = spec.security_context.as_ref();
    match context.and_then(|context| context.supplemental_groups_policy.as_deref()) {
        Some("Strict") => SupplementalGroupsPolicy::Strict as i32,
        _ => SupplementalGroupsPolicy::Merge as i32,
    }
}

fn capabilities(Capabilities { add, drop }: &Capabilities) -> Capability {
    let names = |names: &Option<Vec<String>>| -> Vec<String> {
        names.iter().flatten().map(|name| capability_name(name).to_owned()).collect()
    };
    Capability { add_capabilities: names(add), drop_capabilities: names(drop), ..Default::default() }
}

fn se_linux_options(options: &SELinuxOptions) -> SeLinuxOption {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    SeLinuxOption {
        user: text(&options.user),
        role: text(&options.role),
        r#type: text(&options.type_),
        level: text(&options.level),
    }
}

fn seccomp(profile: Option<&SeccompProfile>, by_default: bool, root: &Path) -> SecurityProfile {
    let Some(profile) = profile else {
        return of_type(if by_default { ProfileType::RuntimeDefault } else { ProfileType::Unconfined });
    };
    match (profile.type_.as_str(), profile.localhost_profile.as_deref()) {
        ("Unconfined", _) => of_type(ProfileType::Unconfined),
        ("Localhost", Some(path)) => SecurityProfile {
            profile_type: ProfileType::Localhost as i32,
            localhost_ref: root.join(path).to_string_lossy().into_owned(),
        },
        // What validation does not let through is confined.
        _ => of_type(ProfileType::RuntimeDefault),
    }
}

fn apparmor_profile(profile: Profile<'_>) -> SecurityProfile {
    match profile {
        Profile::RuntimeDefault => of_type(ProfileType::RuntimeDefault),
        Profile::Unconfined => of_type(ProfileType::Unconfined),
        Profile::Localhost(name) => {
            SecurityProfile { profile_type: ProfileType::Localhost as i32, localhost_ref: name.to_owned() }
        }
    }
}

fn of_type(kind: ProfileType) -> SecurityProfile {
    SecurityProfile { profile_type: kind as i32, ..Default::default() }
}

fn namespaces(spec: &PodSpec) -> NamespaceOption {
    let node_if =
        |host: Option<bool>| if host == Some(true) { NamespaceMode::Node } else { NamespaceMode::Pod };
    let pid = match (spec.host_pid, spec.share_process_namespace) {
        (Some(true), _) => NamespaceMode::Node,
        (_, Some(true)) => NamespaceMode::Pod,
        _ => NamespaceMode::Container,
    };
    NamespaceOption {
        network: node_if(spec.host_network) as i32,
        pid: pid as i32,
        ipc: node_if(spec.host_ipc) as i32,
        target_id: String::new(),
        userns_options: Some(UserNamespace { mode: NamespaceMode::Node as i32, ..Default::default() }),
    }
}
