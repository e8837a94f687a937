//! Whether this node can run a pod with the rights that it asks for, and no more. The reasons are kubelet's.

use k8s_openapi::api::core::v1::SELinuxOptions;

use super::{apparmor, sysctl};
use crate::pod::Pod;

/// A version of the kernel, as far as it matters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KernelVersion(pub(crate) u32, pub(crate) u32);

impl KernelVersion {
    /// From the kernel's release, such as `6.1.0-18-amd64`; the oldest of all if it cannot be read.
    pub(crate) fn parse(release: &str) -> Self {
        let mut numbers = release.split(|char: char| !char.is_ascii_digit()).map(|part| part.parse().ok());
        match (numbers.next().flatten(), numbers.next().flatten()) {
            (Some(major), Some(minor)) => Self(major, minor),
            _ => Self::default(),
        }
    }
}

/// What the node has and allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NodeSecurity {
    /// The kernel's version.
    pub(crate) kernel: KernelVersion,
    /// Whether the kernel has AppArmor, and it is switched on.
    pub(crate) has_apparmor: bool,
    /// Whether the kernel has SELinux, and it is switched on.
    pub(crate) has_selinux: bool,
    /// Paths that containers do not see here, besides those that they see nowhere.
    pub(crate) masked_paths: Vec<String>,
    /// `allowedUnsafeSysctls`.
    pub(crate) unsafe_sysctls: Vec<String>,
    /// `seccompDefault`.
    pub(crate) seccomp_default: bool,
}

/// Why a pod may not run here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotAdmitted {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// Checks what the node must have for a pod.
///
/// # Errors
/// When it has not, or does not allow it.
pub(crate) fn admit(pod: &Pod, node: &NodeSecurity) -> Result<(), NotAdmitted> {
    let context = pod.spec.security_context.as_ref();
    for sysctl in context.and_then(|context| context.sysctls.as_ref()).into_iter().flatten() {
        let problem = sysctl::not_allowed(&sysctl.name, &pod.spec, node.kernel, &node.unsafe_sysctls);
        if let Some(message) = problem {
            return Err(NotAdmitted { reason: "SysctlForbidden", message });
        }
    }
    if apparmor::is_required(&pod.metadata, &pod.spec) && !node.has_apparmor {
        let message = "Cannot enforce AppArmor: AppArmor is not enabled on the host".to_owned();
        return Err(NotAdmitted { reason: "AppArmor", message });
    }
    Ok(())
}

/// Whether the runtime must be able to give containers the groups of the pod and no others.
pub(crate) fn needs_strict_groups(pod: &Pod) -> bool {
    let context = pod.spec.security_context.as_ref();
    context.and_then(|context| context.supplemental_groups_policy.as_deref()) == Some("Strict")
}

/// What is said of a pod that needs them, when the runtime is not.
pub(crate) fn no_strict_groups() -> NotAdmitted {
    NotAdmitted {
        reason: "SupplementalGroupsPolicyNotSupported",
        message: "SupplementalGroupsPolicy=Strict is not supported in this node".to_owned(),
    }
}

/// The type of SELinux that confines nothing, for which privileged pods ask.
const UNCONFINED: &str = "spc_t";

/// Whether a pod is to be confined by SELinux. Options that ask for more rights than others have are no confinement.
pub(crate) fn needs_selinux(pod: &Pod) -> bool {
    let confines = |options: Option<&SELinuxOptions>| {
        options.is_some_and(|options| options.type_.as_deref() != Some(UNCONFINED))
    };
    let of_pod = pod.spec.security_context.as_ref().and_then(|context| context.se_linux_options.as_ref());
    confines(of_pod)
        || pod.containers().any(|(_, container)| {
            let context = container.security_context.as_ref();
            confines(context.and_then(|context| context.se_linux_options.as_ref()))
        })
}

/// What is said of a pod that needs it, when the kernel has none.
pub(crate) fn no_selinux() -> NotAdmitted {
    NotAdmitted {
        reason: "SELinux",
        message: "Cannot enforce SELinux: seLinuxOptions are set, and SELinux is not enabled on the host"
            .to_owned(),
    }
}
