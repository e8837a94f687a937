//! Which sysctls a pod may set: those that belong to its namespaces, and of these the safe and the allowed ones.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::PodSpec;

use super::admission::KernelVersion;

/// Sysctls, or what they begin with before `*`, that belong to the IPC namespace of a pod.
const IPC: [&str; 10] = [
    "kernel.msg",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.sem",
    "kernel.shm",
    "kernel.shm_rmid_forced",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
];

/// Those that do no harm to other pods, with the first kernel whose network namespaces have them.
const SAFE: [(&str, KernelVersion); 12] = [
    ("kernel.shm_rmid_forced", KernelVersion(0, 0)),
    ("net.ipv4.ip_local_port_range", KernelVersion(0, 0)),
    ("net.ipv4.ip_local_reserved_ports", KernelVersion(3, 16)),
    ("net.ipv4.ip_unprivileged_port_start", KernelVersion(0, 0)),
    ("net.ipv4.ping_group_range", KernelVersion(0, 0)),
    ("net.ipv4.tcp_fin_timeout", KernelVersion(4, 6)),
    ("net.ipv4.tcp_keepalive_intvl", KernelVersion(4, 5)),
    ("net.ipv4.tcp_keepalive_probes", KernelVersion(4, 5)),
    ("net.ipv4.tcp_keepalive_time", KernelVersion(4, 5)),
    ("net.ipv4.tcp_rmem", KernelVersion(4, 15)),
    ("net.ipv4.tcp_syncookies", KernelVersion(0, 0)),
    ("net.ipv4.tcp_wmem", KernelVersion(4, 15)),
];

/// A namespace of a pod that has sysctls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Namespace {
    Ipc,
    Net,
}

impl Namespace {
    fn name(self) -> &'static str {
        match self {
            Namespace::Ipc => "IPC",
            Namespace::Net => "Net",
        }
    }

    fn is_hosts(self, spec: &PodSpec) -> bool {
        match self {
            Namespace::Ipc => spec.host_ipc == Some(true),
            Namespace::Net => spec.host_network == Some(true),
        }
    }
}

/// The name with dots. `net/ipv4/conf/eth0.1/forwarding` is another way to write `net.ipv4.conf.eth0/1.forwarding`: dots and
/// slashes change places, if a slash comes first.
pub(crate) fn dotted(name: &str) -> Cow<'_, str> {
    match name.find(['.', '/']) {
        Some(at) if name[at..].starts_with('/') => name
            .chars()
            .map(|char| match char {
                '/' => '.',
                '.' => '/',
                other => other,
            })
            .collect(),
        _ => name.into(),
    }
}

/// The namespace of a sysctl, or of a pattern that ends in `*`.
pub(crate) fn namespace_of(name: &str) -> Option<Namespace> {
    let name = dotted(name);
    let beginning = name.split('*').next().unwrap_or_default();
    if IPC.contains(&beginning) || beginning.starts_with("fs.mqueue.") {
        Some(Namespace::Ipc)
    } else if beginning.starts_with("net.") {
        Some(Namespace::Net)
    } else {
        None
    }
}

/// Whether it can be the name of a sysctl: segments of lower-case letters, digits, and `-` and `_` inside.
pub(crate) fn is_name(name: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_segment = |segment: &str| {
        let bytes = segment.as_bytes();
        bytes.first().is_some_and(alphanumeric)
            && bytes.last().is_some_and(alphanumeric)
            && bytes.iter().all(|byte| alphanumeric(byte) || matches!(byte, b'-' | b'_'))
    };
    name.len() <= 253 && name.split(['.', '/']).all(is_segment)
}

/// Why no node would let this pod set a sysctl of this name.
pub(crate) fn never_allowed(name: &str, spec: &PodSpec) -> Option<String> {
    match namespace_of(name) {
        None => Some(format!("forbidden sysctl: {:?} not allowlisted", dotted(name))),
        Some(namespace) if namespace.is_hosts(spec) => {
            let namespace = namespace.name();
            Some(format!("forbidden sysctl: {:?} not allowed with host {namespace} enabled", dotted(name)))
        }
        Some(_) => None,
    }
}

/// Why this node does not let a pod set a sysctl of this name; `unsafe_ones` are the patterns of `allowedUnsafeSysctls`.
pub(crate) fn not_allowed(
    name: &str,
    spec: &PodSpec,
    kernel: KernelVersion,
    unsafe_ones: &[String],
) -> Option<String> {
    let known = dotted(name);
    let is_safe = SAFE.iter().any(|(safe, since)| *safe == known && *since <= kernel);
    let is_listed = || {
        unsafe_ones.iter().map(|pattern| dotted(pattern)).any(|pattern| match pattern.split_once('*') {
            Some((beginning, _)) => known.starts_with(beginning),
            None => pattern == known,
        })
    };
    never_allowed(name, spec).or_else(|| {
        (!is_safe && !is_listed()).then(|| format!("forbidden sysctl: {known:?} not allowlisted"))
    })
}
