//! The parts of the agent, from its configuration.

use std::sync::Arc;

use tracing::info;

use super::AgentError;
use crate::config::Config;
use crate::host::boot::boot_id;
use crate::host::cgroup::Cgroups;
use crate::host::machine;
use crate::host::security::node_security;
use crate::host::state::Store;
use crate::host::{Dirs, NodeIps};
use crate::http::{Client, Proxies, Reactor};
use crate::pod::Source;
use crate::pod::dns::ClusterDns;
use crate::pod::resources::NodeResources;
use crate::runtime::cri::{CriClient, Timeouts};
use crate::runtime::handlers::HandlerRunner;
use crate::runtime::{Images, NodeSettings, PullFallback, PullSettings};
use crate::source::dir::{DirSource, Signing, run_dir};
use crate::source::http::{HttpSource, run_http};
use crate::source::trust::Trust;
use crate::status::Telemetry;
use crate::sync::handles::Handles;

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
/// When the CRI client cannot be made.
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
    Ok(RuntimeParts { cri, node, images, handlers })
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
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Cgroups::new(
        settings.root.clone(),
        settings.per_qos,
        node,
        hierarchies,
        i64::try_from(cores).unwrap_or(i64::MAX / 1024),
    )
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
            kubelet_strict: config.kubelet_strict_static_pods,
            store: Store::new(&config.root_dir, "url"),
        };
        handles.spawn(run_http(source, client, handles.inbox.clone()));
    }
    sources
}
