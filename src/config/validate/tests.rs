//! Good and bad values of each setting that kubelet checks. What the real kubelet says is in `tests/kubelet`.

use std::ffi::OsString;
use std::path::Path;

use super::*;

fn problems(body: &str, arguments: &[&str]) -> Vec<String> {
    let head = "apiVersion: kubelet.config.k8s.io/v1beta1, kind: KubeletConfiguration";
    let fields = body.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(body);
    let mut settings = KubeletConfiguration::default();
    settings.merge_file(&format!("{{{head}, {fields}}}"), Path::new("/etc/config.yaml")).unwrap();
    let flags = Flags::parse(arguments.iter().map(OsString::from), Path::new("/")).unwrap();
    flags.apply_to(&mut settings);
    find_problems(&settings, &flags)
}

#[test]
fn the_defaults_have_no_problem() {
    assert!(problems("", &[]).is_empty());
    let full = include_str!("../../../tests/fixtures/kubelet-configuration.json");
    let mut settings = KubeletConfiguration::default();
    settings.merge_file(full, Path::new("/etc/config.json")).unwrap();
    assert_eq!(find_problems(&settings, &Flags::default()), [] as [&str; 0]);
}

#[test]
fn fields_good_and_bad() {
    for (good, bad, reason) in [
        (
            "evictionHard: {memory.available: 100Mi}",
            "evictionHard: {memory.available: 100Zi}",
            "\"100Zi\" is not a quantity",
        ),
        (
            "evictionHard: {nodefs.available: 100%}",
            "evictionHard: {nodefs.available: 150%}",
            "\"150%\" is not a percentage",
        ),
        (
            "evictionHard: {pid.available: '5'}",
            "evictionHard: {pid.available: '0'}",
            "\"0\" is not a quantity",
        ),
        ("evictionHard: {}", "evictionHard: {memory.avalable: 1Gi}", "did you mean memory.available?"),
        (
            "{evictionSoft: {memory.available: 1Gi}, evictionSoftGracePeriod: {memory.available: 1m}}",
            "evictionSoft: {memory.available: 1Gi}",
            "memory.available needs a grace period in evictionSoftGracePeriod (--eviction-soft-grace-period)",
        ),
        (
            "evictionSoft: {memory.available: 0%}",
            "evictionSoftGracePeriod: {memory.available: -1s}",
            "not a duration",
        ),
        (
            "evictionMinimumReclaim: {imagefs.available: 10%}",
            "evictionMinimumReclaim: {imagefs.available: 0%}",
            "percentage",
        ),
        (
            "kubeReserved: {cpu: 100m, pid: '10'}",
            "kubeReserved: {cpu: abc}",
            "cpu: \"abc\" is not a quantity",
        ),
        (
            "systemReserved: {memory: 1Gi}",
            "systemReserved: {memory: '-1'}",
            "memory: \"-1\" is not a quantity",
        ),
        (
            "systemReserved: {ephemeral-storage: 1Gi}",
            "systemReserved: {gpu: '1'}",
            "\"gpu\" is not cpu, memory",
        ),
        ("qosReserved: {memory: 50%}", "qosReserved: {memory: 101%}", "not a percentage"),
        (
            "imageGCLowThresholdPercent: 84",
            "imageGCLowThresholdPercent: 85",
            "85 must be less than imageGCHigh",
        ),
        ("imageMaximumGCAge: 3m", "imageMaximumGCAge: 2m", "must be longer than imageMinimumGCAge"),
        (
            "{shutdownGracePeriod: 30s, shutdownGracePeriodCriticalPods: 10s}",
            "{shutdownGracePeriod: 10s, shutdownGracePeriodCriticalPods: 30s}",
            "must not be longer than shutdownGracePeriod",
        ),
        ("shutdownGracePeriod: 1s", "shutdownGracePeriod: 10ms", "one second or longer"),
        (
            "enforceNodeAllocatable: [none]",
            "enforceNodeAllocatable: [foo]",
            "\"foo\" is not one of none, pods",
        ),
        ("{enforceNodeAllocatable: [], cgroupsPerQOS: false}", "cgroupsPerQOS: false", "needs cgroupsPerQOS"),
        (
            "{enforceNodeAllocatable: [pods, kube-reserved], kubeReservedCgroup: /kube}",
            "enforceNodeAllocatable: [pods, kube-reserved]",
            "kube-reserved needs kubeReservedCgroup (--kube-reserved-cgroup)",
        ),
        ("enforceNodeAllocatable: [pods]", "enforceNodeAllocatable: [pods, pods]", "there twice"),
        (
            "{tlsCipherSuites: [TLS_AES_128_GCM_SHA256], tlsMinVersion: VersionTLS13}",
            "tlsCipherSuites: [FOO, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]",
            "\"FOO\" is not a known cipher suite",
        ),
        ("tlsCurvePreferences: [29]", "tlsCurvePreferences: [29, 29]", "29 is there twice"),
        ("reservedSystemCPUs: '0,2-3'", "reservedSystemCPUs: abc", "\"abc\" is not a list of CPUs"),
        ("reservedSystemCPUs: ''", "reservedSystemCPUs: 3-2", "is not a list of CPUs"),
        (
            "allowedUnsafeSysctls: ['net.*', kernel.sem, 'kernel.shm*']",
            "allowedUnsafeSysctls: [vm.swappiness]",
            "namespaces",
        ),
        (
            "allowedUnsafeSysctls: [net/ipv4/ip_forward]",
            "allowedUnsafeSysctls: ['net.*.a']",
            "is not a sysctl",
        ),
        (
            "podLogsDir: /var/log/pods",
            "podLogsDir: /var/log/../pods",
            "is not normalized, as \"/var/pods\" is",
        ),
        ("podLogsDir: ../log", "podLogsDir: /var/log/pods/", "is not normalized"),
        ("podLogsDir: ''", "podLogsDir: /var/pöds", "ASCII"),
        ("runOnce: false", "runOnce: true", "runOnce (--runonce): is not supported"),
        ("{systemCgroups: /a, cgroupRoot: /}", "systemCgroups: /a", "needs cgroupRoot"),
        ("memoryThrottlingFactor: 1", "memoryThrottlingFactor: 1.5", "greater than 0 and at most 1"),
        ("userNamespaces: {idsPerPod: 131072}", "userNamespaces: {idsPerPod: 1000}", "multiple of 65536"),
        ("showHiddenMetricsForVersion: '1.35'", "showHiddenMetricsForVersion: '1.0'", "must be 1.35"),
        (
            "tracing: {endpoint: 'localhost:4317'}",
            "tracing: {endpoint: 'http://localhost'}",
            "tracing.endpoint",
        ),
        (
            "logging: {vmodule: [{filePattern: f, verbosity: 1}]}",
            "logging: {vmodule: [{filePattern: '', verbosity: 1}]}",
            "pattern",
        ),
        (
            "{logging: {options: {json: {infoBufferSize: 1k}}}, featureGates: {LoggingAlphaOptions: true}}",
            "logging: {options: {json: {infoBufferSize: 1k}}}",
            "needs the feature gate LoggingAlphaOptions",
        ),
        ("containerLogMaxSize: 10Mi", "containerLogMaxSize: 100m", "whole number of bytes"),
        (
            "registerWithTaints: [{key: a, effect: NoSchedule}]",
            "registerWithTaints: [{key: 'a b'}]",
            "registerWithTaints",
        ),
        (
            "maxParallelImagePulls: 4",
            "{maxParallelImagePulls: 4, serializeImagePulls: true}",
            "maxParallelImagePulls: is 4, but",
        ),
        (
            "reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]",
            "reservedMemory: [{numaNode: 0, limits: {cpu: '1'}}]",
            "\"cpu\" is not memory",
        ),
    ] {
        assert_eq!(problems(good, &[]), [] as [&str; 0], "{good}");
        let found = problems(bad, &[]);
        assert!(found.len() == 1 && found[0].contains(reason), "{bad}: {found:?}");
    }
}

#[test]
fn flags_good_and_bad() {
    for (good, bad, reason) in [
        ("--node-labels=a=b,x.io/c", "--node-labels=a b=c", "--node-labels: key"),
        ("--node-labels=node.kubernetes.io/a=b", "--node-labels=kubernetes.io/role=a", "may give itself"),
        (
            "--node-labels=kubernetes.io/arch=arm",
            "--node-labels=node-role.kubernetes.io/x=",
            "may give itself",
        ),
        (
            "--eviction-hard=memory.available<5%",
            "--eviction-hard=memory<5%",
            "evictionHard (--eviction-hard)",
        ),
        ("--runonce=false", "--runonce", "runOnce (--runonce)"),
        ("--log-json-split-stream=false", "--log-json-split-stream", "needs the feature gate"),
        (
            "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
            "HTTP/2 needs",
        ),
    ] {
        assert_eq!(problems("", &[good]), [] as [&str; 0], "{good}");
        let found = problems("", &[bad]);
        assert!(found.len() == 1 && found[0].contains(reason), "{bad}: {found:?}");
    }
    assert_eq!(
        problems("", &["--exit-on-lock-contention"]),
        ["--exit-on-lock-contention: needs --lock-file"]
    );
}

#[test]
fn every_problem_is_reported() {
    let found = problems(
        "{kubeReserved: {cpu: x}, tlsCipherSuites: [A, TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256], cgroupsPerQOS: false, runOnce: true}",
        &[],
    );
    assert_eq!(found.len(), 4, "{found:?}");
}
