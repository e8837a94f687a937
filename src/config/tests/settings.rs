//! Defaults, precedence, and settings that need more than their kind.

use std::path::PathBuf;
use std::time::Duration;

use super::{resolve, resolve_on};
use crate::config::node_resources::{Enforced, NodeResourceSettings, ReservedCgroup};
use crate::config::resolve::CgroupSettings;
use crate::config::{Config, LogFormat};
use crate::http::tls::Roots;
use crate::http::{PlainText, Tls};
use crate::plan::log_rotation::Policy;
use crate::pod::cgroup_name::{CgroupDriver, CgroupRoot};
use crate::pod::cpu_set::CpuSet;
use crate::pod::node_allocatable::{Reservations, Threshold};
use crate::pod::quantity::Amount;
use crate::server::access::{AccessRules, Authorization};
use crate::server::router::RouteRules;

#[test]
fn defaults_are_those_of_kubelet() {
    let config = resolve("", &[]);
    let seconds = Duration::from_secs;
    assert_eq!(
        config,
        Config {
            node_name: "edge".into(),
            pod_manifest_path: None,
            manifest_url: None,
            manifest_url_headers: Default::default(),
            manifest_url_plain_text: PlainText::Loopback,
            manifest_url_tls: Tls::Verified { roots: Roots::System, identity: None },
            file_check_frequency: seconds(20),
            http_check_frequency: seconds(20),
            sync_frequency: seconds(60),
            runtime_endpoint: "unix:///run/containerd/containerd.sock".parse().unwrap(),
            image_endpoint: "unix:///run/containerd/containerd.sock".parse().unwrap(),
            runtime_request_timeout: seconds(120),
            root_dir: "/var/lib/kubelet".into(),
            pod_logs_dir: "/var/log/pods".into(),
            log_rotation: Some(Policy {
                max_size: 10 << 20,
                max_files: 5,
                workers: 1,
                interval: seconds(10),
            }),
            node_ips: vec![],
            healthz_bind_address: "127.0.0.1".parse().unwrap(),
            healthz_port: Some(10248),
            address: "0.0.0.0".parse().unwrap(),
            read_only_port: None,
            secure_port: None,
            access: AccessRules {
                own_uid: 0,
                anonymous: false,
                token_review: true,
                authorization: Authorization::Webhook,
            },
            routes: RouteRules { debugging: true, system_logs: true },
            configz: config.configz.clone(),
            socket_path: Some("/run/rkubelet/rkubelet.sock".into()),
            cluster_dns: vec![],
            cluster_domain: String::new(),
            resolv_conf: Some("/etc/resolv.conf".into()),
            cgroups: CgroupSettings {
                driver: None,
                root: CgroupRoot::new("/"),
                per_qos: true,
                quota_period: Some(100_000),
                pod_pids_limit: None,
                single_process_oom_kill: false,
            },
            node_labels: config.node_labels.clone(),
            cpu_manager: None,
            node_resources: NodeResourceSettings {
                reservations: Reservations {
                    memory_threshold: Some(Threshold::Quantity(Amount::parse("100Mi").unwrap())),
                    disk_threshold: Some(Threshold::Part(0.1)),
                    ..Reservations::default()
                },
                reserved_cpus: CpuSet::default(),
                limit_pods: true,
                kube_cgroup: None,
                system_cgroup: None,
                max_pods: 110,
                pods_per_core: 0,
            },
            parallel_image_pulls: Some(1),
            image_pull_deadline: Duration::from_secs(3600),
            image_pull_fallback: false,
            credential_providers: vec![],
            credential_provider_bin_dir: PathBuf::new(),
            max_container_restart_period: seconds(300),
            allowed_unsafe_sysctls: vec![],
            seccomp_default: false,
            verbosity: 0,
            log_format: LogFormat::Text,
            event_log_size: 1 << 20,
            strict_manifests: false,
            kubelet_strict_static_pods: false,
            manifest_public_key: None,
            signed_files_key: None,
            allow_unsafe_manifest_permissions: false,
            warnings: vec![
                "no source of pods: neither staticPodPath (--pod-manifest-path) nor staticPodURL (--manifest-url) is set"
                    .into()
            ],
        }
    );
}

#[test]
fn cgroups_are_configured() {
    let body = "cgroupDriver: systemd\ncgroupRoot: /edge\ncpuCFSQuotaPeriod: 10ms\npodPidsLimit: 64\n\
                singleProcessOOMKill: true";
    let config = resolve(body, &[]);
    assert_eq!(
        config.cgroups,
        CgroupSettings {
            driver: Some(CgroupDriver::Systemd),
            root: CgroupRoot::new("edge"),
            per_qos: true,
            quota_period: Some(10_000),
            pod_pids_limit: Some(64),
            single_process_oom_kill: true,
        }
    );
    assert_eq!(config.warnings.len(), 1, "{:?}", config.warnings);
    let off = "cpuCFSQuota: false\ncgroupsPerQOS: false\nenforceNodeAllocatable: []\npodPidsLimit: -1";
    let off = resolve(off, &["--cgroup-driver=cgroupfs"]).cgroups;
    assert_eq!((off.driver, off.per_qos), (Some(CgroupDriver::Cgroupfs), false));
    assert_eq!((off.quota_period, off.pod_pids_limit), (None, None));
}

#[test]
fn flags_win_over_the_file() {
    let body =
        "maxPods: 10\nhealthzPort: 1\nstaticPodPath: /file\nlogging: {verbosity: 1}\nclusterDNS: [10.0.0.1]";
    let config = resolve(
        body,
        &["--max-pods=20", "--healthz-port=0", "--pod-manifest-path=m", "-v4", "--cluster-dns=10.0.0.2"],
    );
    assert_eq!(config.healthz_port, None);
    assert_eq!(config.pod_manifest_path, Some(PathBuf::from("/cwd/m")));
    assert_eq!(config.verbosity, 4);
    assert_eq!(config.cluster_dns, ["10.0.0.2".parse::<std::net::IpAddr>().unwrap()]);
    assert_eq!(config.node_resources.max_pods, 20);
    assert_eq!(config.warnings, Vec::<String>::new());

    assert_eq!(resolve(body, &["--pod-manifest-path="]).pod_manifest_path, None);
}

#[test]
fn zero_and_empty_mean_the_default_where_kubelet_says_so() {
    let config = resolve(
        "syncFrequency: 0s\nmaxPods: 0\naddress: ''\nport: 0\npodLogsDir: ''\ncontainerRuntimeEndpoint: ''\nresolvConf: ''",
        &[],
    );
    let mut expected = resolve("", &[]);
    expected.warnings.clone_from(&config.warnings);
    expected.resolv_conf = None;
    assert_eq!(config, expected);
}

#[test]
fn endpoints_addresses_labels_and_headers_are_read() {
    let config = resolve(
        "staticPodURL: https://host/pods\nstaticPodURLHeader: {a: [secret-1, secret-2]}",
        &["--container-runtime-endpoint=/run/a.sock", "--node-ip=10.0.0.1,::1", "--node-labels=a=b,c"],
    );
    assert_eq!(config.runtime_endpoint.to_string(), "unix:///run/a.sock");
    assert_eq!(config.image_endpoint.to_string(), "unix:///run/a.sock");
    assert_eq!(config.node_ips.len(), 2);
    assert_eq!(config.manifest_url_headers.get_all("a").iter().collect::<Vec<_>>(), ["secret-1", "secret-2"]);
    assert!(!format!("{config:?}").contains("secret"), "the values of headers do not show");
    assert_eq!((config.node_labels["a"].as_str(), config.node_labels["c"].as_str()), ("b", ""));
    assert_eq!(config.warnings, Vec::<String>::new());
}

#[test]
fn image_pulls_are_serial_unless_parallel_ones_are_asked_for() {
    for (body, width) in [
        ("", Some(1)),
        ("maxParallelImagePulls: 1", Some(1)),
        ("maxParallelImagePulls: 4", Some(4)),
        ("serializeImagePulls: false", None),
        ("serializeImagePulls: false\nmaxParallelImagePulls: 1", Some(1)),
    ] {
        assert_eq!(resolve(body, &[]).parallel_image_pulls, width, "{body}");
    }
}

#[test]
fn the_node_has_a_name_that_fits_into_paths() {
    for (host, arguments, name) in [
        ("Edge-7", &[][..], Ok("edge-7")),
        ("edge", &["--hostname-override=Other"], Ok("other")),
        ("my_host", &[], Ok("my_host")),
        ("", &[], Err("")),
        ("edge", &["--hostname-override=a/b"], Err("a/b")),
    ] {
        match (resolve_on(host, "", arguments), name) {
            (Ok(config), Ok(name)) => {
                assert_eq!(config.node_name, name);
                let warned = config.warnings.iter().any(|line| line.contains("is not a DNS-1123 subdomain"));
                assert_eq!(warned, name == "my_host");
            }
            (Err(line), Err(name)) => {
                assert!(line.starts_with(&format!("node name {name:?} is not")), "{line}")
            }
            (got, wanted) => panic!("{got:?}, wanted {wanted:?}"),
        }
    }
}

#[test]
fn addresses_that_kubelet_takes() {
    let config = resolve("healthzBindAddress: localhost", &[]);
    assert_eq!(config.healthz_bind_address.to_string(), "127.0.0.1");

    let config =
        resolve("clusterDNS: [10.0.0.1, name, 10.0.0.2, 10.0.0.3, '::1']", &["--pod-manifest-path=/m"]);
    assert_eq!(config.cluster_dns.len(), 4);
    assert_eq!(
        config.warnings,
        [
            "clusterDNS (--cluster-dns): ignored, not an IP address: \"name\"",
            "clusterDNS (--cluster-dns): pods get the first 3 of 4 servers, resolvers use no more"
        ]
    );
}

#[test]
fn a_negative_size_switches_rotation_off() {
    let size = |text: &str| {
        let config = resolve(&format!("containerLogMaxSize: {text}"), &[]);
        config.log_rotation.map(|policy| policy.max_size)
    };
    for (text, bytes) in
        [("''", Some(10 << 20)), ("1k", Some(1000)), ("64Ki", Some(65536)), ("'0'", Some(0)), ("'-1'", None)]
    {
        assert_eq!(size(text), bytes, "{text}");
    }
}

#[test]
fn what_is_reserved() {
    let read = |yaml: &str, flags: &[&str]| resolve(yaml, flags).node_resources;
    let quantity = |text| Some(Threshold::Quantity(Amount::parse(text).unwrap()));
    let rows: [(&str, &[&str], Option<Threshold>, Option<Threshold>); 6] = [
        ("evictionHard: {}", &[], None, None),
        ("evictionHard: {memory.available: 5%}", &[], Some(Threshold::Part(0.05)), None),
        ("evictionHard: {nodefs.available: 1Gi, memory.available: 0%}", &[], None, quantity("1Gi")),
        (
            "evictionHard: {nodefs.available: 1Gi}\nmergeDefaultEvictionSettings: true",
            &[],
            quantity("100Mi"),
            quantity("1Gi"),
        ),
        ("", &["--eviction-hard=memory.available<1Gi"], quantity("1Gi"), None),
        ("", &["--experimental-allocatable-ignore-eviction"], None, None),
    ];
    for (yaml, flags, memory, disk) in rows {
        let found = read(yaml, flags).reservations;
        assert_eq!((found.memory_threshold, found.disk_threshold), (memory, disk), "{yaml} {flags:?}");
    }
    let found = read(
        "kubeReserved: {cpu: 500m, memory: 1Gi}\nsystemReserved: {pid: '10'}\nreservedSystemCPUs: '0,2-3'\n\
         enforceNodeAllocatable: [none]\nmaxPods: 20\npodsPerCore: 5",
        &[],
    );
    let amount = |text: &str| Amount::parse(text).unwrap();
    assert_eq!(found.reservations.kube, [("memory".to_owned(), amount("1Gi"))].into());
    assert_eq!(
        found.reservations.system,
        [("cpu".to_owned(), amount("3")), ("pid".to_owned(), amount("10"))].into()
    );
    assert_eq!(found.reserved_cpus.to_string(), "0,2-3");
    assert_eq!((found.limit_pods, found.max_pods, found.pods_per_core), (false, 20, 5));
    let found = read(
        "enforceNodeAllocatable: [kube-reserved-compressible, system-reserved]\nkubeReservedCgroup: /kube\n\
         systemReservedCgroup: system.slice",
        &[],
    );
    let cgroup = |name: &str, enforced| Some(ReservedCgroup { name: name.to_owned(), enforced });
    assert_eq!(found.kube_cgroup, cgroup("/kube", Enforced::CpuAlone));
    assert_eq!(found.system_cgroup, cgroup("system.slice", Enforced::All));
    assert!(!found.limit_pods);
}

#[test]
fn configz_shows_no_secret_of_a_url() {
    let config = resolve("staticPodURL: https://user:secret-1@host/pods?token=secret-2\n", &[]);
    assert!(config.configz.contains("https://host/pods"), "{}", config.configz);
    assert!(!config.configz.contains("secret"), "{}", config.configz);
    let config = resolve("staticPodURLHeader: {Authorization: [secret]}\n", &[]);
    assert!(!config.configz.contains("secret"), "{}", config.configz);
}
