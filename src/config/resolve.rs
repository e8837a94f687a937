//! The merged settings and the flags become one `Config`, with defaults. Pure.
//!
//! Every value was checked for its kind where it was written, and `validate` checks the merged ones; here a missing
//! value means its default, and a zero or an empty text does too wherever kubelet's file says so.

mod admission;
mod server;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{
    CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use serde_json::Value;

pub(crate) use server::SecurePort;

use super::error::ConfigError;
use super::flags::Flags;
use super::kind::parse_bind_address;
use super::kubelet_configuration::KubeletConfiguration;
use super::node_name::{is_usable, node_name};
use super::node_resources::{NodeResourceSettings, node_resource_settings};
use super::validate::find_problems;
use crate::host::cpu_manager::ReservedCpus;
use crate::http::tls::{Identity, Roots};
use crate::http::{PlainText, Tls, Url};
use crate::plan::log_rotation::Policy;
use crate::pod::cgroup_name::{CgroupDriver, CgroupRoot};
use crate::pod::dns::MAX_NAME_SERVERS;
use crate::pod::image::provider::Provider;
use crate::pod::quantity::Amount;
use crate::pod::validate::names::not_subdomain;
use crate::runtime::cri::Endpoint;
use crate::server::access::AccessRules;
use crate::server::router::RouteRules;
use crate::time::duration::parse_duration;

/// The configuration of the agent: validated, with all defaults. Fixed for the life of the process.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    /// The node's name (`--hostname-override`, else the hostname).
    pub node_name: String,
    /// The directory, or the one file, of the static pods' manifests (`staticPodPath`).
    pub pod_manifest_path: Option<PathBuf>,
    /// The URL to read manifests from (`staticPodURL`).
    pub manifest_url: Option<Url>,
    /// The headers of requests to that URL (`staticPodURLHeader`). Their values do not show in logs.
    pub manifest_url_headers: HeaderMap,
    /// Which hosts may be asked for manifests without TLS.
    pub manifest_url_plain_text: PlainText,
    /// The CA that the URL's server must have, and the client certificate for it.
    pub manifest_url_tls: Tls,
    /// How often the manifest directory is read anew, events or no events.
    pub file_check_frequency: Duration,
    /// How often the manifest URL is read.
    pub http_check_frequency: Duration,
    /// The longest time between two syncs of a pod.
    pub sync_frequency: Duration,
    /// The runtime service's socket.
    pub runtime_endpoint: Endpoint,
    /// The image service's socket; the runtime's unless set.
    pub image_endpoint: Endpoint,
    /// The deadline of calls to the runtime, long-running ones apart.
    pub runtime_request_timeout: Duration,
    /// Where the agent and the pods' volumes live.
    pub root_dir: PathBuf,
    /// Where the containers' logs live.
    pub pod_logs_dir: PathBuf,
    /// When the containers' logs are rotated, and how much of them is kept; `None` if a negative size switched it off.
    pub log_rotation: Option<Policy>,
    /// The node's addresses, at most one per family; `0.0.0.0` and `::` only prefer a family. Empty: find out.
    pub node_ips: Vec<IpAddr>,
    /// The health endpoint's address.
    pub healthz_bind_address: IpAddr,
    /// The health endpoint's port; `None` if it was switched off by 0.
    pub healthz_port: Option<u16>,
    /// The read-only port's address.
    pub address: IpAddr,
    /// The port without authentication; `None` unless asked for.
    pub read_only_port: Option<u16>,
    /// The port with TLS and authentication (`port`); `None` where no configuration file asks for kubelet's.
    pub secure_port: Option<SecurePort>,
    /// Who may ask there.
    pub access: AccessRules,
    /// Which paths it leaves out.
    pub routes: RouteRules,
    /// What `/configz` shows.
    pub configz: Arc<str>,
    /// The unix socket that serves everything to root (`--socket-path`); `None` if it was switched off by an empty path.
    pub socket_path: Option<PathBuf>,
    /// DNS servers for pods of policy ClusterFirst.
    pub cluster_dns: Vec<IpAddr>,
    /// The cluster's DNS domain; empty if there is none.
    pub cluster_domain: String,
    /// The resolver file that pods' DNS starts from; `None` if it was switched off by an empty path.
    pub resolv_conf: Option<PathBuf>,
    /// Where pods are placed, and how their limits are enforced.
    pub cgroups: CgroupSettings,
    /// The node's labels (`--node-labels`, and kubelet's own).
    pub node_labels: BTreeMap<String, String>,
    /// The CPUs that no container has for itself, if any may have some (`cpuManagerPolicy: static`).
    pub cpu_manager: Option<ReservedCpus>,
    /// What pods may use of the node.
    pub node_resources: NodeResourceSettings,
    /// How many images may be pulled at a time; none for no limit.
    pub parallel_image_pulls: Option<usize>,
    /// The longest time that a pull may take (`--image-pull-deadline`).
    pub image_pull_deadline: Duration,
    /// Whether `Always` falls back to the present image where no registry can be reached (`--image-pull-fallback`).
    pub image_pull_fallback: bool,
    /// The credential provider plugins (`--image-credential-provider-config`).
    pub credential_providers: Vec<Provider>,
    /// Where their programs are (`--image-credential-provider-bin-dir`).
    pub credential_provider_bin_dir: PathBuf,
    /// The longest back-off of a crash loop.
    pub max_container_restart_period: Duration,
    /// Unsafe sysctls that pods may set (`allowedUnsafeSysctls`).
    pub allowed_unsafe_sysctls: Vec<String>,
    /// Whether containers get the runtime's seccomp profile by default (`seccompDefault`).
    pub seccomp_default: bool,
    /// The log's verbosity, as klog counts it.
    pub verbosity: u32,
    /// The log's format.
    pub log_format: LogFormat,
    /// The most bytes that events take on disk (`--event-log-size`).
    pub event_log_size: usize,
    /// Whether a manifest with a field that would be ignored is refused.
    pub strict_manifests: bool,
    /// Whether ConfigMaps and Secrets, and pods that refer to them, are refused.
    pub kubelet_strict_static_pods: bool,
    /// The public key that manifests are signed with, in minisign's format.
    pub manifest_public_key: Option<PathBuf>,
    /// The key that every file of the manifest directory must be signed with, if any must.
    pub signed_files_key: Option<PathBuf>,
    /// Whether manifests are accepted that users other than root can write.
    pub allow_unsafe_manifest_permissions: bool,
    /// What is ignored, or has no effect yet, a line each. To be logged once, at the start.
    pub warnings: Vec<String>,
}

impl Config {
    /// Merges flags and files, checks the result, and adds the defaults.
    pub(crate) fn resolve(
        files: KubeletConfiguration,
        flags: &Flags,
        hostname: &str,
    ) -> Result<Self, ConfigError> {
        let mut warnings = Vec::new();
        warn(&mut warnings, "KubeletConfiguration fields without effect yet", &files.without_effect());
        warn(&mut warnings, "flags without effect yet", &flags.without_effect());

        let mut merged = files;
        flags.apply_to(&mut merged);
        let settings = Settings(&merged);

        let problems = find_problems(&merged, flags);
        if !problems.is_empty() {
            return Err(ConfigError::Invalid { problems });
        }

        let name = node_name(flags.text("hostname-override").unwrap_or_default(), hostname);
        if !is_usable(&name) {
            return Err(ConfigError::NodeName { name });
        }
        if not_subdomain(&name).is_some() {
            warnings
                .push(format!("node name {name:?} is not a DNS-1123 subdomain: no API server would take it"));
        }
        let cluster_dns = ips(merged.get("clusterDNS"), "clusterDNS (--cluster-dns)", &mut warnings);
        if cluster_dns.len() > MAX_NAME_SERVERS {
            let count = cluster_dns.len();
            warnings.push(format!(
                "clusterDNS (--cluster-dns): pods get the first {MAX_NAME_SERVERS} of {count} servers, resolvers use no more"
            ));
        }
        let node_ips = ips(flags.get("node-ip"), "--node-ip", &mut warnings);

        let pod_manifest_path = settings.text("staticPodPath").map(PathBuf::from);
        let manifest_url = settings.text("staticPodURL").map(manifest_url).transpose()?;
        let plain_text = match flags.get("allow-insecure-manifest-url").and_then(Value::as_bool) {
            Some(true) => PlainText::Anywhere,
            _ => PlainText::Loopback,
        };
        if let Some(url) = manifest_url.as_ref().filter(|url| !plain_text.allows(url)) {
            return Err(ConfigError::PlainTextUrl { url: url.clone() });
        }
        if pod_manifest_path.is_none() && manifest_url.is_none() {
            warnings.push(
                "no source of pods: neither staticPodPath (--pod-manifest-path) nor staticPodURL (--manifest-url) is set"
                    .to_owned(),
            );
        }

        let manifest_public_key = flags.text("manifest-public-key").map(PathBuf::from);
        let require_signed_files = flags.is_set("require-signed-files");
        if require_signed_files && manifest_public_key.is_none() {
            return Err(ConfigError::SignedFilesWithoutKey);
        }
        if !require_signed_files && manifest_public_key.is_some() && manifest_url.is_none() {
            warnings.push("--manifest-public-key checks no file without --require-signed-files".to_owned());
        }

        warnings.extend(server::insecure(&settings, flags));

        let max_parallel_image_pulls: Option<usize> = settings.int("maxParallelImagePulls");
        let parallel = max_parallel_image_pulls.unwrap_or(1);

        let runtime_endpoint = settings.endpoint("containerRuntimeEndpoint").unwrap_or_default();
        let root_dir = PathBuf::from(flags.text("root-dir").unwrap_or("/var/lib/kubelet"));

        Ok(Self {
            node_name: name.clone(),
            pod_manifest_path,
            manifest_url,
            manifest_url_headers: headers(merged.get("staticPodURLHeader"))?,
            manifest_url_plain_text: plain_text,
            manifest_url_tls: manifest_url_tls(flags)?,
            file_check_frequency: settings.period("fileCheckFrequency").unwrap_or(Duration::from_secs(20)),
            http_check_frequency: settings.period("httpCheckFrequency").unwrap_or(Duration::from_secs(20)),
            sync_frequency: settings.period("syncFrequency").unwrap_or(Duration::from_secs(60)),
            image_endpoint: settings
                .endpoint("imageServiceEndpoint")
                .unwrap_or_else(|| runtime_endpoint.clone()),
            runtime_endpoint,
            runtime_request_timeout: settings
                .period("runtimeRequestTimeout")
                .unwrap_or(Duration::from_secs(120)),
            root_dir,
            pod_logs_dir: PathBuf::from(settings.text("podLogsDir").unwrap_or("/var/log/pods")),
            log_rotation: settings.log_rotation(),
            node_ips,
            healthz_bind_address: settings
                .bind_address("healthzBindAddress")
                .unwrap_or(Ipv4Addr::LOCALHOST.into()),
            healthz_port: Some(settings.int("healthzPort").unwrap_or(10248)).filter(|port| *port != 0),
            address: settings.bind_address("address").unwrap_or(Ipv4Addr::UNSPECIFIED.into()),
            read_only_port: settings
                .int("readOnlyPort")
                .filter(|port| *port != 0 && settings.bool("enableServer").unwrap_or(true)),
            secure_port: server::secure_port(&settings, flags, &name),
            access: server::access(&settings),
            routes: server::routes(&settings),
            configz: server::configz(&merged).into(),
            socket_path: match flags.get("socket-path").and_then(Value::as_str) {
                Some("") => None,
                Some(path) => Some(path.into()),
                None => Some("/run/rkubelet/rkubelet.sock".into()),
            },
            cluster_dns,
            cluster_domain: settings.text("clusterDomain").unwrap_or_default().to_owned(),
            resolv_conf: match merged.get("resolvConf").and_then(Value::as_str) {
                Some("") => None,
                Some(path) => Some(path.into()),
                None => Some("/etc/resolv.conf".into()),
            },
            cgroups: cgroup_settings(&settings),
            node_labels: admission::node_labels(flags, &name),
            cpu_manager: admission::reserved_cpus(&settings),
            node_resources: node_resource_settings(&merged, flags),
            parallel_image_pulls: if settings.bool("serializeImagePulls").unwrap_or(parallel < 2) {
                Some(1)
            } else {
                max_parallel_image_pulls
            },
            image_pull_deadline: flags
                .text("image-pull-deadline")
                .and_then(positive_duration)
                .unwrap_or(Duration::from_secs(60 * 60)),
            image_pull_fallback: flags.get("image-pull-fallback").and_then(Value::as_bool).unwrap_or(false),
            credential_providers: Vec::new(),
            credential_provider_bin_dir: flags
                .text("image-credential-provider-bin-dir")
                .map(PathBuf::from)
                .unwrap_or_default(),
            max_container_restart_period: settings
                .period("crashLoopBackOff.maxContainerRestartPeriod")
                .unwrap_or(Duration::from_secs(300)),
            allowed_unsafe_sysctls: settings.texts("allowedUnsafeSysctls"),
            seccomp_default: settings.bool("seccompDefault").unwrap_or(false),
            verbosity: settings.int("logging.verbosity").unwrap_or(0),
            log_format: match settings.text("logging.format") {
                Some("json") => LogFormat::Json,
                _ => LogFormat::Text,
            },
            event_log_size: flags
                .text("event-log-size")
                .and_then(|text| Amount::parse(text).ok())
                .and_then(|size| usize::try_from(size.value()).ok())
                .unwrap_or(1 << 20),
            strict_manifests: flags.is_set("strict-manifests"),
            kubelet_strict_static_pods: flags.is_set("kubelet-strict-static-pods"),
            signed_files_key: manifest_public_key.clone().filter(|_| require_signed_files),
            manifest_public_key,
            allow_unsafe_manifest_permissions: flags.is_set("allow-unsafe-manifest-permissions"),
            warnings,
        })
    }
}

/// How lines of the log are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// For people and for journald.
    Text,
    /// An object of JSON each, as kubelet writes them.
    Json,
}

/// Settings of cgroups and resources.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CgroupSettings {
    /// The driver, if one is configured (`cgroupDriver`).
    pub driver: Option<CgroupDriver>,
    /// The cgroup below which pods are placed (`cgroupRoot`).
    pub root: CgroupRoot,
    /// Whether pods have cgroups of their own (`cgroupsPerQOS`).
    pub per_qos: bool,
    /// The period of CPU quotas in microseconds (`cpuCFSQuotaPeriod`), unless they are off (`cpuCFSQuota`).
    pub quota_period: Option<i64>,
    /// The most processes of a pod (`podPidsLimit`).
    pub pod_pids_limit: Option<i64>,
    /// Whether the kernel kills one process of a container that is out of memory (`singleProcessOOMKill`).
    pub single_process_oom_kill: bool,
}

fn cgroup_settings(settings: &Settings<'_>) -> CgroupSettings {
    let period = settings.period("cpuCFSQuotaPeriod").unwrap_or(Duration::from_millis(100));
    let quota_period = i64::try_from(period.as_micros()).ok();
    CgroupSettings {
        driver: settings.text("cgroupDriver").map(|name| match name {
            "systemd" => CgroupDriver::Systemd,
            _ => CgroupDriver::Cgroupfs,
        }),
        root: CgroupRoot::new(settings.text("cgroupRoot").unwrap_or_default()),
        per_qos: settings.bool("cgroupsPerQOS").unwrap_or(true),
        quota_period: quota_period.filter(|_| settings.bool("cpuCFSQuota").unwrap_or(true)),
        pod_pids_limit: settings.int("podPidsLimit").filter(|limit| *limit > 0),
        single_process_oom_kill: settings.bool("singleProcessOOMKill").unwrap_or(false),
    }
}

/// Typed reading of settings: a value was checked to be of its kind, or is missing.
struct Settings<'a>(&'a KubeletConfiguration);

impl<'a> Settings<'a> {
    /// A text that is not empty.
    fn text(&self, field: &str) -> Option<&'a str> {
        self.0.get(field)?.as_str().filter(|text| !text.is_empty())
    }

    fn texts(&self, field: &str) -> Vec<String> {
        self.0.get(field).into_iter().flat_map(texts).map(str::to_owned).collect()
    }

    fn bool(&self, field: &str) -> Option<bool> {
        self.0.get(field)?.as_bool()
    }

    fn int<T: TryFrom<i64>>(&self, field: &str) -> Option<T> {
        self.0.get(field)?.as_i64()?.try_into().ok()
    }

    /// A duration longer than zero.
    fn period(&self, field: &str) -> Option<Duration> {
        positive_duration(self.text(field)?)
    }

    fn log_rotation(&self) -> Option<Policy> {
        let size = self.text("containerLogMaxSize").and_then(|text| Amount::parse(text).ok());
        Some(Policy {
            max_size: u64::try_from(size.map_or(10 << 20, Amount::value)).ok()?,
            max_files: self.int("containerLogMaxFiles").unwrap_or(5),
            workers: self.int("containerLogMaxWorkers").unwrap_or(1),
            interval: self.period("containerLogMonitorInterval").unwrap_or(Duration::from_secs(10)),
        })
    }

    fn bind_address(&self, field: &str) -> Option<IpAddr> {
        parse_bind_address(self.text(field)?)
    }

    fn endpoint(&self, field: &str) -> Option<Endpoint> {
        self.text(field)?.parse().ok()
    }
}

fn manifest_url(text: &str) -> Result<Url, ConfigError> {
    text.parse().map_err(|cause| ConfigError::Url { cause })
}

fn manifest_url_tls(flags: &Flags) -> Result<Tls, ConfigError> {
    let path = |flag: &str| flags.text(flag).map(PathBuf::from);
    let identity = match (path("manifest-url-client-certificate"), path("manifest-url-client-key")) {
        (Some(certificate), Some(key)) => Some(Identity { certificate, key }),
        (None, None) => None,
        _ => return Err(ConfigError::IncompleteIdentity),
    };
    let roots = path("manifest-url-ca-file").map_or(Roots::System, Roots::File);
    Ok(Tls::Verified { roots, identity })
}

/// Headers that describe the framing of the request: only the HTTP client may set them.
const FRAMING: [HeaderName; 6] = [CONNECTION, CONTENT_LENGTH, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

fn headers(value: Option<&Value>) -> Result<HeaderMap, ConfigError> {
    let mut headers = HeaderMap::new();
    for (name, values) in value.and_then(Value::as_object).into_iter().flatten() {
        // Neither error shows the value.
        let refuse = || ConfigError::Header { name: name.clone() };
        let known = HeaderName::try_from(name).ok().filter(|name| !FRAMING.contains(name));
        let header = known.ok_or_else(refuse)?;
        for text in texts(values) {
            let mut value = HeaderValue::try_from(text).map_err(|_| refuse())?;
            value.set_sensitive(true);
            headers.append(header.clone(), value);
        }
    }
    Ok(headers)
}

fn positive_duration(text: &str) -> Option<Duration> {
    let nanos = u64::try_from(parse_duration(text)?).ok()?;
    (nanos > 0).then(|| Duration::from_nanos(nanos))
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// The IP addresses of a list. As in kubelet, what is none is left out, with a warning.
fn ips(list: Option<&Value>, name: &str, warnings: &mut Vec<String>) -> Vec<IpAddr> {
    let mut found = Vec::new();
    for text in list.into_iter().flat_map(texts) {
        match text.parse() {
            Ok(ip) => found.push(ip),
            Err(_) => warnings.push(format!("{name}: ignored, not an IP address: {text:?}")),
        }
    }
    found
}

fn warn(warnings: &mut Vec<String>, what: &str, names: &[String]) {
    if !names.is_empty() {
        warnings.push(format!("{what}: {}", names.join(", ")));
    }
}
