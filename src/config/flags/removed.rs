//! Flags that kubelet once had. Data only: old units still carry them, and deserve better than "unknown".

/// Names of removed flags, and the release of Kubernetes that no longer has them.
#[rustfmt::skip]
static REMOVED: &[(&str, &[&str])] = &[
    ("1.12", &["cadvisor-port", "docker-disable-shared-pid", "enable-custom-metrics", "rkt-api-endpoint", "rkt-path"]),
    ("1.15", &["allow-privileged", "host-ipc-sources", "host-network-sources", "host-pid-sources"]),
    ("1.16", &["containerized"]),
    ("1.19", &["bootstrap-checkpoint-path", "experimental-dockershim"]),
    ("1.20", &["redirect-container-streaming"]),
    ("1.21", &["enable-cadvisor-json-endpoints"]),
    ("1.22", &["chaos-chance", "experimental-logging-sanitization"]),
    ("1.23", &["experimental-bootstrap-kubeconfig", "seccomp-profile-root"]),
    ("1.24", &[
        "cni-bin-dir", "cni-cache-dir", "cni-conf-dir", "docker", "docker-endpoint", "docker-env-metadata-whitelist",
        "docker-only", "docker-root", "docker-tls", "docker-tls-ca", "docker-tls-cert", "docker-tls-key",
        "dynamic-config-dir", "experimental-check-node-capabilities-before-mount",
        "experimental-dockershim-root-directory", "image-pull-progress-deadline", "network-plugin",
        "network-plugin-mtu", "non-masquerade-cidr", "really-crash-for-testing",
    ]),
    ("1.25", &["experimental-kernel-memcg-notification"]),
    ("1.26", &[
        "add-dir-header", "alsologtostderr", "log-backtrace-at", "log-dir", "log-file", "log-file-max-size",
        "logtostderr", "one-output", "skip-headers", "skip-log-headers", "stderrthreshold",
    ]),
    ("1.27", &["container-runtime", "master-service-namespace"]),
    ("1.30", &["azure-container-registry-config"]),
    ("1.31", &["iptables-drop-bit", "iptables-masquerade-bit", "keep-terminated-pod-volumes"]),
    ("1.34", &["cloud-config", "register-schedulable"]),
];

/// The release of Kubernetes whose kubelet no longer has the flag, if it once had it.
pub(crate) fn removed_in(name: &str) -> Option<&'static str> {
    REMOVED.iter().find(|(_, names)| names.contains(&name)).map(|(release, _)| *release)
}
