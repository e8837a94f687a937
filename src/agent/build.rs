//! The parts of the agent, from its configuration.

use std::sync::Arc;

use tracing::{info, warn};

use super::AgentError;
use crate::config::Config;
use crate::host::boot::boot_id;
use crate::host::capacity::read_capacity;
use crate::host::cgroup::Cgroups;
use crate::host::cpu_manager::{CpuError, CpuManager};
use crate::host::machine;
use crate::host::security::node_security;
use crate::host::state::Store;
use crate::host::{Dirs, NodeIps};
use crate::http::{Client, Proxies, Reactor};
use crate::pod::Source;
use crate::pod::dns::ClusterDns;
use crate::pod::resources::NodeResources;
use crate::pod::security::admission::NodeSecurity;
use crate::runtime::cri::{CriClient, Timeouts};
use crate::runtime::handlers::HandlerRunner;
use crate::runtime::{Fallback, Images, NodeSettings, PullSettings};
use crate::source::dir::{DirSource, Signing, run_dir};
use crate::source::http::{HttpSource, run_http};
use crate::source::trust::Trust;
use crate::status::Telemetry;
use crate::sync::admission::{NodeLimits, PODS, Requests};
use crate::sync::handles::Handles;
use crate::text::chain;

/// What the runtime consists of.
pub(super) struct RuntimeParts {
    pub(super) cri: CriClient,
    pub(super) node: NodeSettings,
    pub(super) images: Images,
    pub(super) handlers: HandlerRunner,
}

/// The runtime's parts.
///
/// # Errors
/// When the CRI client cannot be made, or the CPUs are not there that the configuration reserves.
pub(super) fn runtime(
    config: &Config,
    reactor: &Reactor,
    http: &Client,
    telemetry: &Telemetry,
) -> Result<RuntimeParts, AgentError> {
    let (endpoint, image) = (&config.runtime_endpoint, &config.image_endpoint);
    info!(%endpoint, "container runtime");
    let timeouts = Timeouts { request: config.runtime_request_timeout, pull: config.image_pull_deadline };
    let metrics = telemetry.metrics.clone();
    let observer =
        Arc::new(move |op, took, failed: Option<_>| metrics.observe_operation(op, took, failed.is_some()));
    let cri = CriClient::new(reactor, endpoint, image, timeouts, observer)?;
    let node = NodeSettings {
        dirs: Dirs::new(config.root_dir.clone(), config.pod_logs_dir.clone()),
        node_ips: NodeIps::new(config.node_ips.clone()),
        cluster_dns: ClusterDns {
            servers: config.cluster_dns.iter().map(ToString::to_string).collect(),
            domain: config.cluster_domain.clone(),
        },
        cgroups: Arc::new(cgroups(config)),
        cgroup_driver: config.cgroups.driver,
        cpus: cpus(config)?,
        boot_id: boot_id(),
        resolv_conf: config.resolv_conf.clone(),
        security: node_security(config.allowed_unsafe_sysctls.clone(), config.seccomp_default),
    };
    let settings = PullSettings {
        width: config.parallel_image_pulls,
        fallback: if config.image_pull_fallback { Fallback::Present } else { Fallback::Never },
        root_dir: config.root_dir.clone(),
        providers: config.credential_providers.clone(),
        plugin_dir: config.credential_provider_bin_dir.clone(),
    };
    let images = Images::new(cri.clone(), settings);
    let (node_ips, metrics) = (node.node_ips.clone(), telemetry.metrics.clone());
    let handlers = HandlerRunner::new(cri.clone(), http.clone(), reactor.clone(), node_ips, metrics);
    Ok(RuntimeParts { cri, node, images, handlers })
}

/// Who has CPUs of its own, if anybody may.
fn cpus(config: &Config) -> Result<Option<Arc<CpuManager>>, CpuError> {
    let reserved = config.cpu_manager.as_ref();
    reserved.map(|reserved| CpuManager::new(&config.root_dir, reserved).map(Arc::new)).transpose()
}

/// Where pods are placed, and what the machine has to give.
fn cgroups(config: &Config) -> Cgroups {
    let settings = &config.cgroups;
    let hierarchies = machine::cgroup_hierarchies();
    let node = NodeResources {
        memory_capacity: machine::memory_capacity(),
        quota_period: settings.quota_period,
        huge_page_sizes: machine::huge_page_sizes(),
        unified: hierarchies.is_unified(),
        swap_controller: machine::has_swap_controller(&hierarchies),
        single_process_oom_kill: settings.single_process_oom_kill,
        pod_pids_limit: settings.pod_pids_limit,
    };
    Cgroups::new(settings.root.clone(), settings.per_qos, node, hierarchies, cores())
}

/// What the node has room for.
pub(super) fn node_limits(config: &Config, security: &NodeSecurity) -> NodeLimits {
    let mut allocatable = Requests::default();
    match read_capacity(&config.root_dir) {
        Ok(found) => {
            allocatable.set("cpu", found.cpu.milli_value());
            allocatable.set("memory", found.memory.value());
            allocatable.set("ephemeral-storage", found.ephemeral_storage.value());
        }
        Err(error) => {
            warn!(error = chain(&error), "cannot find out what the node has: no pod fits that requests it")
        }
    }
    allocatable.set(PODS, config.admission.most_pods(cores()));
    for (name, bytes) in machine::huge_page_capacity() {
        allocatable.set(&name, bytes);
    }
    NodeLimits {
        name: config.node_name.clone(),
        labels: config.admission.labels.clone(),
        allocatable,
        security: security.clone(),
    }
}

fn cores() -> i64 {
    std::thread::available_parallelism().map_or(1, |cores| i64::try_from(cores.get()).unwrap_or(1))
}

/// Starts the sources that are configured, and names them.
pub(super) fn spawn_sources(config: &Config, handles: &Handles, client: Client) -> Vec<Source> {
    let mut sources = Vec::new();
    let trust = if config.allow_unsafe_manifest_permissions { Trust::Anybody } else { Trust::Root };
    if let Some(path) = &config.pod_manifest_path {
        sources.push(Source::File);
        let source = DirSource {
            path: path.clone(),
            rescan: config.file_check_frequency,
            node_name: config.node_name.clone(),
            strict: config.strict_manifests,
            root_dir: config.root_dir.clone(),
            trust,
            signing: config.signed_files_key.clone().map_or(Signing::NotRequired, Signing::Required),
        };
        handles.spawn(run_dir(source, handles.inbox.clone()));
    }
    if let Some(url) = &config.manifest_url {
        sources.push(Source::Http);
        let source = HttpSource {
            url: url.clone(),
            headers: config.manifest_url_headers.clone(),
            period: config.http_check_frequency,
            plain_text: config.manifest_url_plain_text,
            tls: config.manifest_url_tls.clone(),
            proxies: Arc::new(Proxies::from_environment()),
            public_key: config.manifest_public_key.clone(),
            trust,
            node_name: config.node_name.clone(),
            strict: config.strict_manifests,
            store: Store::new(&config.root_dir, "url"),
        };
        handles.spawn(run_http(source, client, handles.inbox.clone()));
    }
    sources
}
