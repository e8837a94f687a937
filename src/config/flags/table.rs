//! Every flag of kubelet 1.36, and our own. Data only.
//!
//! A flag that mirrors a field takes kind and effect from the field's row, so that the two cannot disagree.

use crate::config::kind::Effect::{Accepted, Honoured};
use crate::config::kind::ValueKind::{
    Bool, Duration, Int, Labels, NodeIps, OneOf, Path, Quantity, String, Version,
};
use crate::config::kind::{Effect, ValueKind};
use crate::config::kubelet_configuration::field_at;

const ANY_DURATION: ValueKind = Duration(i64::MIN, i64::MAX);
const DEADLINE: ValueKind = Duration(1_000_000_000, i64::MAX);
const INT32: ValueKind = Int(i32::MIN as i64, i32::MAX as i64);

/// One flag.
#[derive(Debug)]
pub(crate) struct Flag {
    /// The long name, without dashes.
    pub(crate) name: &'static str,
    /// What the flag sets.
    pub(crate) target: FlagTarget,
    /// One line for the list of flags.
    pub(crate) help: &'static str,
}

/// What a flag sets.
#[derive(Debug)]
pub(crate) enum FlagTarget {
    /// The field of KubeletConfiguration at this dotted path.
    Field(&'static str),
    /// Something that only a flag can say.
    Own(ValueKind, Effect),
}

impl Flag {
    /// What the value may be. (A test holds that every mirrored field exists.)
    pub(crate) fn kind(&self) -> ValueKind {
        match self.target {
            FlagTarget::Field(path) => field_at(path).map_or(String, |field| field.kind),
            FlagTarget::Own(kind, _) => kind,
        }
    }

    /// Whether rkubelet acts on it.
    pub(crate) fn effect(&self) -> Effect {
        match self.target {
            FlagTarget::Field(path) => field_at(path).map_or(Accepted, |field| field.effect),
            FlagTarget::Own(_, effect) => effect,
        }
    }

    /// The one-letter name, for the two flags that have one.
    pub(crate) fn short(&self) -> Option<char> {
        match self.name {
            "v" => Some('v'),
            "help" => Some('h'),
            _ => None,
        }
    }
}

const fn field(name: &'static str, path: &'static str, help: &'static str) -> Flag {
    Flag { name, target: FlagTarget::Field(path), help }
}

const fn own(name: &'static str, kind: ValueKind, effect: Effect, help: &'static str) -> Flag {
    Flag { name, target: FlagTarget::Own(kind, effect), help }
}

/// All flags, by name.
#[rustfmt::skip]
pub(crate) static FLAGS: &[Flag] = &[
    field("address", "address", "address that the server listens on"),
    own("allow-insecure-manifest-url", Bool, Honoured, "read manifests from other machines without TLS (rkubelet's own)"),
    own("allow-unsafe-manifest-permissions", Bool, Honoured, "accept manifests that users other than root can write (rkubelet's own)"),
    field("allowed-unsafe-sysctls", "allowedUnsafeSysctls", "unsafe sysctls that pods may set"),
    field("anonymous-auth", "authentication.anonymous.enabled", "let anonymous requests in"),
    own("application-metrics-count-limit", INT32, Accepted, "metrics kept per application (cAdvisor)"),
    field("authentication-token-webhook", "authentication.webhook.enabled", "check bearer tokens by TokenReview"),
    field("authentication-token-webhook-cache-ttl", "authentication.webhook.cacheTTL", "how long a token's verdict is kept"),
    field("authorization-mode", "authorization.mode", "AlwaysAllow or Webhook"),
    field("authorization-webhook-cache-authorized-ttl", "authorization.webhook.cacheAuthorizedTTL", "how long a yes is kept"),
    field("authorization-webhook-cache-unauthorized-ttl", "authorization.webhook.cacheUnauthorizedTTL", "how long a no is kept"),
    own("boot-id-file", String, Accepted, "files to read the boot id from (cAdvisor)"),
    own("bootstrap-kubeconfig", Path, Accepted, "kubeconfig used to obtain a client certificate"),
    own("cert-dir", Path, Honoured, "directory of the TLS certificates"),
    field("cgroup-driver", "cgroupDriver", "cgroupfs or systemd"),
    field("cgroup-root", "cgroupRoot", "cgroup below which pods are placed"),
    field("cgroups-per-qos", "cgroupsPerQOS", "a cgroup per QoS class and per pod"),
    field("client-ca-file", "authentication.x509.clientCAFile", "CA that client certificates are checked against"),
    own("cloud-provider", OneOf(&["external"]), Accepted, "cloud provider, empty or external"),
    field("cluster-dns", "clusterDNS", "DNS servers given to pods of policy ClusterFirst"),
    field("cluster-domain", "clusterDomain", "DNS domain of the cluster"),
    own("config", Path, Honoured, "KubeletConfiguration file; flags win over it"),
    own("config-dir", Path, Honoured, "directory of *.conf drop-ins, merged into --config"),
    own("container-hints", String, Accepted, "container hints file (cAdvisor)"),
    field("container-log-max-files", "containerLogMaxFiles", "log files kept per container"),
    field("container-log-max-size", "containerLogMaxSize", "size at which a container's log is rotated"),
    field("container-runtime-endpoint", "containerRuntimeEndpoint", "UNIX socket of the CRI runtime service"),
    own("containerd", String, Accepted, "containerd endpoint (cAdvisor)"),
    own("containerd-namespace", String, Accepted, "containerd namespace (cAdvisor)"),
    field("contention-profiling", "enableContentionProfiling", "profile lock contention"),
    field("cpu-cfs-quota", "cpuCFSQuota", "enforce CPU limits by CFS quota"),
    field("cpu-cfs-quota-period", "cpuCFSQuotaPeriod", "period of the CFS quota"),
    field("cpu-manager-policy", "cpuManagerPolicy", "none or static"),
    field("cpu-manager-policy-options", "cpuManagerPolicyOptions", "options of the CPU manager's policy"),
    field("cpu-manager-reconcile-period", "cpuManagerReconcilePeriod", "how often the CPU manager reconciles"),
    field("enable-controller-attach-detach", "enableControllerAttachDetach", "leave attaching of volumes to the controller"),
    field("enable-debugging-handlers", "enableDebuggingHandlers", "serve logs, exec, attach and port-forward"),
    own("enable-load-reader", Bool, Accepted, "read the CPU load (cAdvisor)"),
    field("enable-server", "enableServer", "serve the kubelet API"),
    field("enforce-node-allocatable", "enforceNodeAllocatable", "levels at which allocatable is enforced"),
    field("event-burst", "eventBurst", "burst of event records"),
    own("event-log-size", Quantity, Honoured, "bytes that events take on disk, 1Mi by default (rkubelet's own)"),
    field("event-qps", "eventRecordQPS", "event records per second"),
    own("event-storage-age-limit", String, Accepted, "age of kept events (cAdvisor)"),
    own("event-storage-event-limit", String, Accepted, "number of kept events (cAdvisor)"),
    field("eviction-hard", "evictionHard", "thresholds that evict at once"),
    field("eviction-max-pod-grace-period", "evictionMaxPodGracePeriod", "longest grace of a soft eviction, in seconds"),
    field("eviction-minimum-reclaim", "evictionMinimumReclaim", "least that an eviction reclaims"),
    field("eviction-pressure-transition-period", "evictionPressureTransitionPeriod", "wait before pressure is over"),
    field("eviction-soft", "evictionSoft", "thresholds that evict after a grace period"),
    field("eviction-soft-grace-period", "evictionSoftGracePeriod", "grace periods of the soft thresholds"),
    own("exit-on-lock-contention", Bool, Accepted, "exit when another process wants the lock file"),
    own("experimental-allocatable-ignore-eviction", Bool, Honoured, "leave hard thresholds out of allocatable"),
    own("experimental-mounter-path", Path, Accepted, "mounter to use instead of mount"),
    field("fail-cgroupv1", "failCgroupV1", "refuse to start on cgroup v1"),
    field("fail-swap-on", "failSwapOn", "refuse to start with swap enabled"),
    field("feature-gates", "featureGates", "features switched on and off"),
    field("file-check-frequency", "fileCheckFrequency", "how often the manifest directory is read anew"),
    own("global-housekeeping-interval", ANY_DURATION, Accepted, "interval of global housekeeping (cAdvisor)"),
    field("hairpin-mode", "hairpinMode", "how pods reach themselves through a service"),
    field("healthz-bind-address", "healthzBindAddress", "address of the health endpoint"),
    field("healthz-port", "healthzPort", "port of the health endpoint, 0 for none"),
    own("help", Bool, Honoured, "print this and exit"),
    own("hostname-override", String, Honoured, "name of the node, instead of the hostname"),
    own("housekeeping-interval", ANY_DURATION, Accepted, "interval of housekeeping (cAdvisor)"),
    field("http-check-frequency", "httpCheckFrequency", "how often the manifest URL is read"),
    own("image-credential-provider-bin-dir", Path, Honoured, "directory of credential provider plugins"),
    own("image-credential-provider-config", Path, Honoured, "configuration of credential provider plugins, a file or a directory"),
    field("image-gc-high-threshold", "imageGCHighThresholdPercent", "disk usage at which image collection starts"),
    field("image-gc-low-threshold", "imageGCLowThresholdPercent", "disk usage at which image collection stops"),
    own("image-pull-deadline", DEADLINE, Honoured, "longest time that a pull may take (rkubelet's own)"),
    own("image-pull-fallback", Bool, Honoured, "use the present image where Always cannot reach the registry (rkubelet's own)"),
    field("image-service-endpoint", "imageServiceEndpoint", "UNIX socket of the CRI image service"),
    field("kernel-memcg-notification", "kernelMemcgNotification", "let the kernel tell of memory thresholds"),
    field("kube-api-burst", "kubeAPIBurst", "burst of requests to the API server"),
    field("kube-api-content-type", "contentType", "content type of requests to the API server"),
    field("kube-api-qps", "kubeAPIQPS", "requests per second to the API server"),
    field("kube-reserved", "kubeReserved", "resources kept for Kubernetes' own daemons"),
    field("kube-reserved-cgroup", "kubeReservedCgroup", "cgroup of Kubernetes' own daemons"),
    own("kubeconfig", Path, Accepted, "how to reach the API server; none means standalone"),
    field("kubelet-cgroups", "kubeletCgroups", "cgroup of the agent itself"),
    own("kubelet-strict-static-pods", Bool, Honoured, "refuse ConfigMaps and Secrets, and pods that refer to them, as kubelet does (rkubelet's own)"),
    field("local-storage-capacity-isolation", "localStorageCapacityIsolation", "limit ephemeral storage"),
    own("lock-file", Path, Accepted, "lock file that the agent holds"),
    own("log-cadvisor-usage", Bool, Accepted, "log the usage of cAdvisor"),
    field("log-flush-frequency", "logging.flushFrequency", "longest time between log flushes"),
    field("log-json-info-buffer-size", "logging.options.json.infoBufferSize", "buffer of info messages in JSON"),
    field("log-json-split-stream", "logging.options.json.splitStream", "errors to stderr, info to stdout, in JSON"),
    field("log-text-info-buffer-size", "logging.options.text.infoBufferSize", "buffer of info messages in text"),
    field("log-text-split-stream", "logging.options.text.splitStream", "errors to stderr, info to stdout, in text"),
    field("logging-format", "logging.format", "text or json"),
    own("machine-id-file", String, Accepted, "files to read the machine id from (cAdvisor)"),
    field("make-iptables-util-chains", "makeIPTablesUtilChains", "keep the utility chains of iptables"),
    own("manifest-public-key", Path, Honoured, "minisign public key that signs the manifests (rkubelet's own)"),
    field("manifest-url", "staticPodURL", "URL to read more pod manifests from"),
    own("manifest-url-ca-file", Path, Honoured, "CA that the server of --manifest-url must have (rkubelet's own)"),
    own("manifest-url-client-certificate", Path, Honoured, "certificate shown to --manifest-url (rkubelet's own)"),
    own("manifest-url-client-key", Path, Honoured, "key of that certificate (rkubelet's own)"),
    field("manifest-url-header", "staticPodURLHeader", "HTTP headers for --manifest-url"),
    field("max-open-files", "maxOpenFiles", "limit of open files of the agent"),
    field("max-pods", "maxPods", "number of pods that may run on the node"),
    own("maximum-dead-containers", INT32, Accepted, "dead containers kept in all"),
    own("maximum-dead-containers-per-container", INT32, Accepted, "dead instances kept per container"),
    field("memory-manager-policy", "memoryManagerPolicy", "None or Static"),
    own("minimum-container-ttl-duration", ANY_DURATION, Accepted, "age at which a dead container may go"),
    field("minimum-image-ttl-duration", "imageMinimumGCAge", "age at which an unused image may go"),
    own("node-ip", NodeIps, Honoured, "address of the node, or one per family"),
    own("node-labels", Labels, Honoured, "labels for the node when it registers"),
    field("node-status-max-images", "nodeStatusMaxImages", "images reported in the node's status, -1 for all"),
    field("node-status-update-frequency", "nodeStatusUpdateFrequency", "how often the node's status is computed"),
    field("oom-score-adj", "oomScoreAdj", "oom_score_adj of the agent"),
    field("pod-cidr", "podCIDR", "range of pod addresses when standalone"),
    own("pod-infra-container-image", String, Accepted, "pause image; removed from kubelet, the runtime decides"),
    field("pod-manifest-path", "staticPodPath", "directory or file of the static pods' manifests"),
    field("pod-max-pids", "podPidsLimit", "processes per pod"),
    field("pods-per-core", "podsPerCore", "pods per core, 0 for no limit"),
    field("port", "port", "port of the kubelet API"),
    field("protect-kernel-defaults", "protectKernelDefaults", "refuse to change kernel tunables"),
    field("provider-id", "providerID", "id of the machine at its provider"),
    field("qos-reserved", "qosReserved", "requests reserved at the QoS level"),
    field("read-only-port", "readOnlyPort", "port without authentication, 0 for none"),
    field("register-node", "registerNode", "register the node with the API server"),
    field("register-with-taints", "registerWithTaints", "taints that the node registers with"),
    field("registry-burst", "registryBurst", "burst of image pulls"),
    field("registry-qps", "registryPullQPS", "image pulls per second, 0 for no limit"),
    own("require-signed-files", Bool, Honoured, "take only manifests signed with --manifest-public-key (rkubelet's own)"),
    field("reserved-cpus", "reservedSystemCPUs", "CPUs kept for the system"),
    field("reserved-memory", "reservedMemory", "memory reserved per NUMA node"),
    field("resolv-conf", "resolvConf", "resolver file that pods' DNS starts from"),
    own("root-dir", Path, Honoured, "directory of the agent's files and pods' volumes"),
    field("rotate-certificates", "rotateCertificates", "renew the client certificate"),
    field("rotate-server-certificates", "serverTLSBootstrap", "request and renew the serving certificate"),
    field("runonce", "runOnce", "start the pods and exit"),
    own("runtime-cgroups", String, Accepted, "cgroup of the runtime"),
    field("runtime-request-timeout", "runtimeRequestTimeout", "deadline of runtime calls, long-running ones apart"),
    field("seccomp-default", "seccompDefault", "RuntimeDefault seccomp for all workloads"),
    field("serialize-image-pulls", "serializeImagePulls", "pull one image at a time"),
    own("socket-path", Path, Honoured, "UNIX socket on which root is served, empty for none (rkubelet's own)"),
    own("storage-driver-buffer-duration", ANY_DURATION, Accepted, "buffering of the storage driver (cAdvisor)"),
    own("storage-driver-db", String, Accepted, "database of the storage driver (cAdvisor)"),
    own("storage-driver-host", String, Accepted, "host of the storage driver (cAdvisor)"),
    own("storage-driver-password", String, Accepted, "password of the storage driver (cAdvisor)"),
    own("storage-driver-secure", Bool, Accepted, "secure connection of the storage driver (cAdvisor)"),
    own("storage-driver-table", String, Accepted, "table of the storage driver (cAdvisor)"),
    own("storage-driver-user", String, Accepted, "user of the storage driver (cAdvisor)"),
    field("streaming-connection-idle-timeout", "streamingConnectionIdleTimeout", "idle time of exec, attach and port-forward"),
    own("strict-config", Bool, Honoured, "refuse a configuration file with a field that would be ignored (rkubelet's own)"),
    own("strict-manifests", Bool, Honoured, "refuse a manifest with a field that would be ignored (rkubelet's own)"),
    field("sync-frequency", "syncFrequency", "longest time between two looks at a pod"),
    field("system-cgroups", "systemCgroups", "cgroup of system processes"),
    field("system-reserved", "systemReserved", "resources kept for the system"),
    field("system-reserved-cgroup", "systemReservedCgroup", "cgroup of the system's daemons"),
    field("tls-cert-file", "tlsCertFile", "certificate of the kubelet API"),
    field("tls-cipher-suites", "tlsCipherSuites", "cipher suites of the kubelet API"),
    field("tls-min-version", "tlsMinVersion", "lowest TLS version of the kubelet API"),
    field("tls-private-key-file", "tlsPrivateKeyFile", "key of the kubelet API's certificate"),
    field("topology-manager-policy", "topologyManagerPolicy", "none, best-effort, restricted or single-numa-node"),
    field("topology-manager-policy-options", "topologyManagerPolicyOptions", "options of the topology manager's policy"),
    field("topology-manager-scope", "topologyManagerScope", "container or pod"),
    field("v", "logging.verbosity", "verbosity of the log"),
    own("version", Version, Honoured, "print the version and exit"),
    field("vmodule", "logging.vmodule", "verbosity by source file, pattern=N,..."),
    field("volume-plugin-dir", "volumePluginDir", "directory of flexvolume plugins"),
    field("volume-stats-agg-period", "volumeStatsAggPeriod", "how often volume usage is computed"),
];
