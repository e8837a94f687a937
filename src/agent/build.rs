//! The parts of the agent, from its configuration.

use std::sync::Arc;

use tracing::info;

use super::AgentError;
use crate::config::{Config, Enforced, NodeResourceSettings, ReservedCgroup};
use crate::host::boot::boot_id;
use crate::host::cgroup::Cgroups;
use crate::host::cpu_manager::{CpuError, CpuManager};
use crate::host::device_manager::DeviceManager;
use crate::host::machine;
use crate::host::security::node_security;
use crate::host::state::Store;
use crate::host::{Dirs, NodeIps};
use crate::http::{Client, Proxies, Reactor};
use crate::pod::Source;
use crate::pod::cgroup_name::CgroupRoot;
use crate::pod::dns::ClusterDns;
use crate::pod::node_allocatable::{ResourceAmounts, allocatable, enforced, find_excess, pods_capacity};
use crate::pod::resource_field::NodeCapacity;
use crate::pod::resources::{NodeResources, PodFigures, amount_figures};
use crate::pod::security::admission::NodeSecurity;
use crate::runtime::cri::{CriClient, ErrorClass, Timeouts};
use crate::runtime::devices::DevicePlugins;
use crate::runtime::handlers::HandlerRunner;
use crate::runtime::{Images, NodeSettings, PullFallback, PullSettings};
use crate::source::dir::{DirSource, Signing, run_dir};
use crate::source::http::{HttpSource, run_http};
use crate::source::trust::Trust;
use crate::status::Telemetry;
use crate::sync::admission::{NodeLimits, Requests};
use crate::sync::handles::Handles;

/// What the runtime consists of.
pub(super) struct RuntimeParts {
    pub(super) cri: CriClient,
    pub(super) node: NodeSettings,
    pub(super) images: Images,
    pub(super) handlers: HandlerRunner,
    /// What pods may request together.
    pub(super) allocatable: ResourceAmounts,
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
    let observer = Arc::new(move |op, took, failed: Option<ErrorClass>| {
        metrics.observe_operation(op, took, failed.is_some_and(|class| class != ErrorClass::Unimplemented))
    });
    let cri = CriClient::new(reactor, endpoint, image, timeouts, observer)?;
    let amounts = node_amounts(config)?;
    let node = NodeSettings {
        dirs: Dirs::new(config.root_dir.clone(), config.pod_logs_dir.clone()),
        node_ips: NodeIps::new(config.node_ips.clone()),
        cluster_dns: ClusterDns {
            servers: config.cluster_dns.iter().map(ToString::to_string).collect(),
            domain: config.cluster_domain.clone(),
        },
        cgroups: Arc::new(cgroups(config, &amounts)),
        cgroup_driver: config.cgroups.driver,
        cpus: cpus(config)?,
        devices: Arc::new(DevicePlugins::new(
            Arc::new(DeviceManager::new(&config.root_dir)),
            reactor.clone(),
        )),
        boot_id: boot_id(),
        resolv_conf: config.resolv_conf.clone(),
        security: node_security(config.allowed_unsafe_sysctls.clone(), config.seccomp_default),
    };
    let settings = PullSettings {
        width: config.parallel_image_pulls,
        fallback: if config.image_pull_fallback { PullFallback::Present } else { PullFallback::Never },
        root_dir: config.root_dir.clone(),
        providers: config.credential_providers.clone(),
        plugin_dir: config.credential_provider_bin_dir.clone(),
    };
    let images = Images::new(cri.clone(), settings);
    let (node_ips, metrics) = (node.node_ips.clone(), telemetry.metrics.clone());
    let handlers = HandlerRunner::new(cri.clone(), http.clone(), reactor.clone(), node_ips, metrics);
    Ok(RuntimeParts { cri, node, images, handlers, allocatable: amounts.allocatable })
}

/// Who has CPUs of its own, if anybody may.
fn cpus(config: &Config) -> Result<Option<Arc<CpuManager>>, CpuError> {
    let reserved = config.cpu_manager.as_ref();
    reserved.map(|reserved| CpuManager::new(&config.root_dir, reserved).map(Arc::new)).transpose()
}

/// What the node has and pods may use.
#[derive(Debug, Clone)]
pub(super) struct NodeAmounts {
    /// All that it has, process IDs too.
    pub(super) capacity: ResourceAmounts,
    /// What pods may request together.
    pub(super) allocatable: ResourceAmounts,
}

/// Reads what the node has, and takes off what is reserved.
///
/// # Errors
/// When more is reserved than there is, as with kubelet.
pub(super) fn node_amounts(config: &Config) -> Result<NodeAmounts, AgentError> {
    let settings = &config.node_resources;
    let pods = |cores| pods_capacity(settings.max_pods, settings.pods_per_core, cores);
    let capacity = machine::node_capacity(&config.root_dir, pods);
    let mut excess = find_excess(&capacity, &settings.reservations);
    let missing = settings.reserved_cpus.minus(&machine::online_cpus());
    if missing.len() > 0 {
        excess.push(format!("reservedSystemCPUs: there is no CPU {missing}"));
    }
    if !excess.is_empty() {
        return Err(AgentError::Reservations(excess));
    }
    let allocatable = allocatable(&capacity, &settings.reservations);
    let text = |name: &str| allocatable.get(name).map(ToString::to_string).unwrap_or_default();
    info!(
        cpu = text("cpu"),
        memory = text("memory"),
        ephemeral_storage = text("ephemeral-storage"),
        pods = text("pods"),
        "pods may request"
    );
    Ok(NodeAmounts { capacity, allocatable })
}

/// Where pods are placed, and what the machine has to give.
fn cgroups(config: &Config, amounts: &NodeAmounts) -> Cgroups {
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
        allocatable: Some(NodeCapacity::from_amounts(&amounts.allocatable)),
    };
    let of_all = if config.node_resources.limit_pods {
        enforced(&amounts.capacity, &config.node_resources.reservations)
    } else {
        amounts.capacity.clone()
    };
    let of_all = amount_figures(&of_all, &node);
    let reserved = reserved_cgroups(&config.node_resources, &node);
    Cgroups::new(settings.root.clone(), settings.per_qos, node, hierarchies, of_all).with_reserved(reserved)
}

/// The cgroups whose reservations are enforced, and what each is given.
fn reserved_cgroups(settings: &NodeResourceSettings, node: &NodeResources) -> Vec<(CgroupRoot, PodFigures)> {
    let both = [
        (&settings.system_cgroup, &settings.reservations.system),
        (&settings.kube_cgroup, &settings.reservations.kube),
    ];
    let figures = |(cgroup, amounts): (&Option<ReservedCgroup>, &ResourceAmounts)| {
        let cgroup = cgroup.as_ref().filter(|cgroup| cgroup.enforced != Enforced::Nothing)?;
        let mut amounts = amounts.clone();
        amounts.retain(|name, _| cgroup.enforced == Enforced::All || name == "cpu");
        Some((CgroupRoot::named(&cgroup.name), amount_figures(&amounts, node)))
    };
    both.into_iter().filter_map(figures).collect()
}

/// What the node has room for.
pub(super) fn node_limits(config: &Config, amounts: &ResourceAmounts, security: NodeSecurity) -> NodeLimits {
    NodeLimits {
        name: config.node_name.clone(),
        labels: config.node_labels.clone(),
        allocatable: Requests::of_amounts(amounts),
        security,
    }
}

/// Where ConfigMaps and Secrets are looked for, in words.
pub(super) fn object_places(config: &Config) -> Arc<str> {
    let dir = config.pod_manifest_path.as_ref().map(|path| path.display().to_string());
    let url = config.manifest_url.as_ref().map(ToString::to_string);
    let places: Vec<_> = dir.into_iter().chain(url).collect();
    if places.is_empty() {
        "no place: there is no source of manifests".into()
    } else {
        places.join(" and ").into()
    }
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
            kubelet_strict: config.kubelet_strict_static_pods,
            root_dir: config.root_dir.clone(),
            trust,
            signing: config.signed_files_key.clone().map_or(Signing::NotRequired, Signing::Required),
        };
        handles.spawn(run_dir(source, handles.clone()));
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
            kubelet_strict: config.kubelet_strict_static_pods,
            store: Store::new(&config.root_dir, "url"),
        };
        handles.spawn(run_http(source, client, handles.clone()));
    }
    sources
}
