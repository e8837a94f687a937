//! Every field of KubeletConfiguration (kubelet.config.k8s.io/v1beta1) as of Kubernetes 1.36. Data only.
//!
//! To honour one more field, write `Honoured` in its row and read it in `resolve.rs`; the warnings, the help text
//! and the check of `docs/configuration.md` follow.

use crate::config::kind::Effect::{Accepted, Honoured};
use crate::config::kind::ValueKind::{
    BindAddress, Bool, BoolMap, Duration, DurationOrNanos, Endpoint, Float, Headers, Int, Ints, Items,
    Object, OneOf, Path, Quantity, QuantityMap, String, StringMap, Strings, Thresholds, Url,
};
use crate::config::kind::{Effect, Field, ItemsKind, ValueKind};
use crate::config::text::{no_text, parse_reserved_memory, parse_taints, parse_vmodule};

const SECOND: i64 = 1_000_000_000;
const INT32: ValueKind = Int(i32::MIN as i64, i32::MAX as i64);
const INT64: ValueKind = Int(i64::MIN, i64::MAX);
const NATURAL: ValueKind = Int(0, i32::MAX as i64);
const LEVEL: ValueKind = Int(0, i32::MAX as i64);
const PORT: ValueKind = Int(0, 65_535);
const PERCENT: ValueKind = Int(0, 100);
const BIT: ValueKind = Int(0, 31);
const ANY_DURATION: ValueKind = Duration(i64::MIN, i64::MAX);
const PERIOD: ValueKind = Duration(0, i64::MAX);

const fn f(name: &'static str, kind: ValueKind, effect: Effect) -> Field {
    Field { name, kind, effect }
}

/// The fields at the top, `apiVersion` and `kind` apart.
#[rustfmt::skip]
pub(crate) static FIELDS: &[Field] = &[
    f("address", BindAddress, Honoured),
    f("allowedUnsafeSysctls", Strings, Honoured),
    f("authentication", Object(AUTHENTICATION), Accepted),
    f("authorization", Object(AUTHORIZATION), Accepted),
    f("cgroupDriver", OneOf(&["cgroupfs", "systemd"]), Honoured),
    f("cgroupRoot", String, Honoured),
    f("cgroupsPerQOS", Bool, Honoured),
    f("clusterDNS", Strings, Honoured),
    f("clusterDomain", String, Honoured),
    f("configMapAndSecretChangeDetectionStrategy", OneOf(&["Get", "Cache", "Watch"]), Accepted),
    f("containerLogMaxFiles", Int(2, i32::MAX as i64), Honoured),
    f("containerLogMaxSize", Quantity, Honoured),
    f("containerLogMaxWorkers", Int(1, i32::MAX as i64), Honoured),
    f("containerLogMonitorInterval", Duration(3 * SECOND, i64::MAX), Honoured),
    f("containerRuntimeEndpoint", Endpoint, Honoured),
    f("contentType", String, Accepted),
    f("cpuCFSQuota", Bool, Honoured),
    f("cpuCFSQuotaPeriod", Duration(SECOND / 1000, SECOND), Honoured),
    f("cpuManagerPolicy", OneOf(&["none", "static"]), Honoured),
    f("cpuManagerPolicyOptions", StringMap, Accepted),
    f("cpuManagerReconcilePeriod", ANY_DURATION, Accepted),
    f("crashLoopBackOff", Object(CRASH_LOOP_BACK_OFF), Accepted),
    f("defaultPodSysctls", StringMap, Accepted),
    f("enableContentionProfiling", Bool, Accepted),
    f("enableControllerAttachDetach", Bool, Accepted),
    f("enableDebugFlagsHandler", Bool, Accepted),
    f("enableDebuggingHandlers", Bool, Honoured),
    f("enableProfilingHandler", Bool, Accepted),
    f("enableServer", Bool, Honoured),
    f("enableSystemLogHandler", Bool, Honoured),
    f("enableSystemLogQuery", Bool, Accepted),
    f("enforceNodeAllocatable", Strings, Honoured),
    f("eventBurst", NATURAL, Accepted),
    f("eventRecordQPS", NATURAL, Accepted),
    f("evictionHard", Thresholds, Accepted),
    f("evictionMaxPodGracePeriod", INT32, Accepted),
    f("evictionMinimumReclaim", StringMap, Accepted),
    f("evictionPressureTransitionPeriod", ANY_DURATION, Accepted),
    f("evictionSoft", Thresholds, Accepted),
    f("evictionSoftGracePeriod", StringMap, Accepted),
    f("failCgroupV1", Bool, Accepted),
    f("failSwapOn", Bool, Accepted),
    f("featureGates", BoolMap, Accepted),
    f("fileCheckFrequency", PERIOD, Honoured),
    f("hairpinMode", OneOf(&["promiscuous-bridge", "hairpin-veth", "none"]), Accepted),
    f("healthzBindAddress", BindAddress, Honoured),
    f("healthzPort", PORT, Honoured),
    f("httpCheckFrequency", PERIOD, Honoured),
    f("imageGCHighThresholdPercent", PERCENT, Accepted),
    f("imageGCLowThresholdPercent", PERCENT, Accepted),
    f("imageMaximumGCAge", PERIOD, Accepted),
    f("imageMinimumGCAge", PERIOD, Accepted),
    f("imagePullCredentialsVerificationPolicy", OneOf(PULL_VERIFICATION), Accepted),
    f("imageServiceEndpoint", Endpoint, Honoured),
    f("iptablesDropBit", BIT, Accepted),
    f("iptablesMasqueradeBit", BIT, Accepted),
    f("kernelMemcgNotification", Bool, Accepted),
    f("kubeAPIBurst", NATURAL, Accepted),
    f("kubeAPIQPS", NATURAL, Accepted),
    f("kubeReserved", StringMap, Honoured),
    f("kubeReservedCgroup", String, Honoured),
    f("kubeletCgroups", String, Accepted),
    f("localStorageCapacityIsolation", Bool, Accepted),
    f("logging", Object(LOGGING), Accepted),
    f("makeIPTablesUtilChains", Bool, Accepted),
    f("maxOpenFiles", Int(0, i64::MAX), Accepted),
    f("maxParallelImagePulls", Int(1, i32::MAX as i64), Honoured),
    f("maxPods", NATURAL, Honoured),
    f("memoryManagerPolicy", OneOf(&["None", "Static"]), Accepted),
    f("memoryReservationPolicy", OneOf(&["None", "TieredReservation"]), Accepted),
    f("memorySwap", Object(MEMORY_SWAP), Accepted),
    f("memoryThrottlingFactor", Float, Accepted),
    f("mergeDefaultEvictionSettings", Bool, Accepted),
    f("nodeLeaseDurationSeconds", NATURAL, Accepted),
    f("nodeStatusMaxImages", Int(-1, i32::MAX as i64), Accepted),
    f("nodeStatusReportFrequency", ANY_DURATION, Accepted),
    f("nodeStatusUpdateFrequency", ANY_DURATION, Accepted),
    f("oomScoreAdj", Int(-1000, 1000), Accepted),
    f("podCIDR", String, Accepted),
    f("podLogsDir", Path, Honoured),
    f("podPidsLimit", INT64, Honoured),
    f("podsPerCore", NATURAL, Honoured),
    f("port", PORT, Honoured),
    f("preloadedImagesVerificationAllowlist", Strings, Accepted),
    f("protectKernelDefaults", Bool, Accepted),
    f("providerID", String, Accepted),
    f("qosReserved", StringMap, Accepted),
    f("readOnlyPort", PORT, Honoured),
    f("registerNode", Bool, Accepted),
    f("registerWithTaints", Items(&TAINTS), Accepted),
    f("registryBurst", NATURAL, Accepted),
    f("registryPullQPS", NATURAL, Accepted),
    f("reservedMemory", Items(&RESERVATIONS), Accepted),
    f("reservedSystemCPUs", String, Honoured),
    f("resolvConf", Path, Honoured),
    f("rotateCertificates", Bool, Accepted),
    f("runOnce", Bool, Accepted),
    f("runtimeRequestTimeout", PERIOD, Honoured),
    f("seccompDefault", Bool, Honoured),
    f("serializeImagePulls", Bool, Honoured),
    f("serverTLSBootstrap", Bool, Accepted),
    f("showHiddenMetricsForVersion", String, Accepted),
    f("shutdownGracePeriod", PERIOD, Accepted),
    f("shutdownGracePeriodByPodPriority", Items(&SHUTDOWN_GRACES), Accepted),
    f("shutdownGracePeriodCriticalPods", PERIOD, Accepted),
    f("singleProcessOOMKill", Bool, Honoured),
    f("staticPodPath", Path, Honoured),
    f("staticPodURL", Url, Honoured),
    f("staticPodURLHeader", Headers, Honoured),
    f("streamingConnectionIdleTimeout", ANY_DURATION, Accepted),
    f("syncFrequency", PERIOD, Honoured),
    f("systemCgroups", String, Accepted),
    f("systemReserved", StringMap, Honoured),
    f("systemReservedCgroup", String, Honoured),
    f("tlsCertFile", Path, Honoured),
    f("tlsCipherSuites", Strings, Honoured),
    f("tlsCurvePreferences", Ints, Accepted),
    f("tlsMinVersion", OneOf(TLS_VERSIONS), Honoured),
    f("tlsPrivateKeyFile", Path, Honoured),
    f("topologyManagerPolicy", OneOf(&["none", "best-effort", "restricted", "single-numa-node"]), Accepted),
    f("topologyManagerPolicyOptions", StringMap, Accepted),
    f("topologyManagerScope", OneOf(&["container", "pod"]), Accepted),
    f("tracing", Object(TRACING), Accepted),
    f("userNamespaces", Object(USER_NAMESPACES), Accepted),
    f("volumePluginDir", Path, Accepted),
    f("volumeStatsAggPeriod", ANY_DURATION, Accepted),
];

/// Fields for which zero, false or nothing differs from leaving them out. Of all others it means the default.
pub(crate) static ZERO_IS_A_CHOICE: &[&str] = &[
    "authentication.webhook.enabled",
    "cgroupsPerQOS",
    "cpuCFSQuota",
    "enableControllerAttachDetach",
    "enableDebugFlagsHandler",
    "enableDebuggingHandlers",
    "enableProfilingHandler",
    "enableServer",
    "enableSystemLogHandler",
    "enforceNodeAllocatable",
    "eventRecordQPS",
    "evictionHard",
    "failCgroupV1",
    "failSwapOn",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "iptablesDropBit",
    "iptablesMasqueradeBit",
    "kubeAPIQPS",
    "localStorageCapacityIsolation",
    "makeIPTablesUtilChains",
    "nodeStatusMaxImages",
    "oomScoreAdj",
    "podPidsLimit",
    "registerNode",
    "registryPullQPS",
    "singleProcessOOMKill",
];

const PULL_VERIFICATION: &[&str] =
    &["NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify"];
const TLS_VERSIONS: &[&str] = &["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"];

static AUTHENTICATION: &[Field] = &[
    f("anonymous", Object(ANONYMOUS), Accepted),
    f("webhook", Object(AUTHENTICATION_WEBHOOK), Accepted),
    f("x509", Object(X509), Accepted),
];
static ANONYMOUS: &[Field] = &[f("enabled", Bool, Honoured)];
static AUTHENTICATION_WEBHOOK: &[Field] =
    &[f("cacheTTL", ANY_DURATION, Accepted), f("enabled", Bool, Honoured)];
static X509: &[Field] = &[f("clientCAFile", Path, Honoured)];

static AUTHORIZATION: &[Field] = &[
    f("mode", OneOf(&["AlwaysAllow", "Webhook"]), Honoured),
    f("webhook", Object(AUTHORIZATION_WEBHOOK), Accepted),
];
static AUTHORIZATION_WEBHOOK: &[Field] =
    &[f("cacheAuthorizedTTL", ANY_DURATION, Accepted), f("cacheUnauthorizedTTL", ANY_DURATION, Accepted)];

static CRASH_LOOP_BACK_OFF: &[Field] =
    &[f("maxContainerRestartPeriod", Duration(SECOND, 300 * SECOND), Honoured)];

static LOGGING: &[Field] = &[
    f("flushFrequency", DurationOrNanos, Accepted),
    f("format", OneOf(&["text", "json"]), Honoured),
    f("options", Object(LOGGING_OPTIONS), Accepted),
    f("verbosity", LEVEL, Honoured),
    f("vmodule", Items(&VMODULES), Accepted),
];
static LOGGING_OPTIONS: &[Field] =
    &[f("json", Object(ROUTING), Accepted), f("text", Object(ROUTING), Accepted)];
static ROUTING: &[Field] = &[f("infoBufferSize", Quantity, Accepted), f("splitStream", Bool, Accepted)];
static VMODULE: &[Field] = &[f("filePattern", String, Accepted), f("verbosity", LEVEL, Accepted)];

static VMODULES: ItemsKind =
    ItemsKind { fields: VMODULE, parse: parse_vmodule, expected: "a list of patterns such as file=2" };

/// Static pods are critical to kubelet, and never swap whatever it says.
static MEMORY_SWAP: &[Field] = &[f("swapBehavior", OneOf(&["NoSwap", "LimitedSwap"]), Accepted)];
static RESERVED_MEMORY: &[Field] = &[f("limits", QuantityMap, Accepted), f("numaNode", INT32, Accepted)];
static RESERVATIONS: ItemsKind = ItemsKind {
    fields: RESERVED_MEMORY,
    parse: parse_reserved_memory,
    expected: "a list of reservations such as 0:memory=1Gi",
};
static SHUTDOWN_GRACE: &[Field] =
    &[f("priority", INT32, Accepted), f("shutdownGracePeriodSeconds", INT64, Accepted)];
static SHUTDOWN_GRACES: ItemsKind = ItemsKind {
    fields: SHUTDOWN_GRACE,
    parse: no_text,
    expected: "a list of objects with priority and shutdownGracePeriodSeconds",
};
static TAINT: &[Field] = &[
    f("effect", OneOf(&["NoSchedule", "PreferNoSchedule", "NoExecute"]), Accepted),
    f("key", String, Accepted),
    f("timeAdded", String, Accepted),
    f("value", String, Accepted),
];
static TAINTS: ItemsKind = ItemsKind {
    fields: TAINT,
    parse: parse_taints,
    expected: "a list of taints such as key=value:NoSchedule",
};
static TRACING: &[Field] =
    &[f("endpoint", String, Accepted), f("samplingRatePerMillion", Int(0, 1_000_000), Accepted)];
static USER_NAMESPACES: &[Field] = &[f("idsPerPod", INT64, Accepted)];
