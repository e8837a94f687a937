//! The defaults that Kubernetes gives to a Pod, as kubelet serves them.
//!
//! Never part of an identity: a default that changes with a version must not restart a pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, HTTPGetAction, ObjectFieldSelector, PodSpec, Probe, ResourceRequirements, Volume,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::quantity::Amount;
use crate::pod::image::name::ImageName;

const DEFAULT_MODE: i32 = 0o644;
const TOKEN_SECONDS: i64 = 3600;

/// Fills in what the manifest leaves open. An empty string counts as open, as in Kubernetes.
pub(crate) fn apply_defaults(spec: &mut PodSpec) {
    default_to(&mut spec.restart_policy, "Always");
    default_to(&mut spec.dns_policy, "ClusterFirst");
    default_to(&mut spec.scheduler_name, "default-scheduler");
    let grace = spec.termination_grace_period_seconds.get_or_insert(30);
    if *grace < 0 {
        *grace = 1;
    }
    spec.security_context.get_or_insert_default();
    spec.enable_service_links.get_or_insert(true);
    sync_service_account(spec);
    if let Some(resources) = &mut spec.resources {
        default_resources(resources);
    }
    if let Some(overhead) = &mut spec.overhead {
        canonical_quantities(overhead);
    }
    let host_network = spec.host_network == Some(true);
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        default_container(container, host_network);
    }
    spec.volumes.iter_mut().flatten().for_each(default_volume);
}

/// The pull policy of an image that names none: what means the newest is pulled always. One that cannot be read is
/// never pulled either way.
pub(crate) fn default_pull_policy(image: &str) -> &'static str {
    match ImageName::parse(image) {
        Ok(name) if name.is_latest() => "Always",
        _ => "IfNotPresent",
    }
}

fn default_to(field: &mut Option<String>, value: &str) {
    if field.as_deref().unwrap_or_default().is_empty() {
        *field = Some(value.to_owned());
    }
}

/// `serviceAccount` is the old name of `serviceAccountName`; the new one wins.
fn sync_service_account(spec: &mut PodSpec) {
    let filled = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
    let name = filled(&spec.service_account_name).or_else(|| filled(&spec.service_account));
    spec.service_account_name.clone_from(&name);
    spec.service_account = name;
}

fn default_container(container: &mut Container, host_network: bool) {
    let image = container.image.as_deref().unwrap_or_default();
    let policy = default_pull_policy(image);
    default_to(&mut container.image_pull_policy, policy);
    default_to(&mut container.termination_message_path, "/dev/termination-log");
    default_to(&mut container.termination_message_policy, "File");
    default_resources(container.resources.get_or_insert_default());
    for port in container.ports.iter_mut().flatten() {
        default_to(&mut port.protocol, "TCP");
        if host_network && port.host_port.unwrap_or_default() == 0 {
            port.host_port = Some(port.container_port);
        }
    }
    for variable in container.env.iter_mut().flatten() {
        let source = variable.value_from.as_mut();
        default_field_ref(source.and_then(|source| source.field_ref.as_mut()));
    }
    let probes =
        [&mut container.liveness_probe, &mut container.readiness_probe, &mut container.startup_probe];
    probes.into_iter().flatten().for_each(default_probe);
    if let Some(lifecycle) = &mut container.lifecycle {
        for handler in [&mut lifecycle.post_start, &mut lifecycle.pre_stop].into_iter().flatten() {
            handler.http_get.iter_mut().for_each(default_http_get);
        }
    }
}

fn default_field_ref(reference: Option<&mut ObjectFieldSelector>) {
    if let Some(reference) = reference {
        default_to(&mut reference.api_version, "v1");
    }
}

fn default_probe(probe: &mut Probe) {
    let default_number = |field: &mut Option<i32>, value| {
        if field.unwrap_or_default() == 0 {
            *field = Some(value);
        }
    };
    default_number(&mut probe.timeout_seconds, 1);
    default_number(&mut probe.period_seconds, 10);
    default_number(&mut probe.success_threshold, 1);
    default_number(&mut probe.failure_threshold, 3);
    probe.http_get.iter_mut().for_each(default_http_get);
    if let Some(grpc) = &mut probe.grpc {
        grpc.service.get_or_insert_default();
    }
}

fn default_http_get(action: &mut HTTPGetAction) {
    default_to(&mut action.path, "/");
    default_to(&mut action.scheme, "HTTP");
}

/// What has a limit and no request requests its limit.
fn default_resources(resources: &mut ResourceRequirements) {
    if let Some(limits) = &mut resources.limits {
        canonical_quantities(limits);
    }
    if let Some(requests) = &mut resources.requests {
        canonical_quantities(requests);
    }
    if let Some(limits) = resources.limits.as_ref().filter(|limits| !limits.is_empty()) {
        let requests = resources.requests.get_or_insert_default();
        for (name, limit) in limits {
            requests.entry(name.clone()).or_insert_with(|| limit.clone());
        }
    }
}

/// Quantities are served in their canonical form; what is none is left for validation to name.
fn canonical_quantities(list: &mut BTreeMap<String, Quantity>) {
    for quantity in list.values_mut() {
        if let Ok(amount) = Amount::parse(&quantity.0) {
            quantity.0 = amount.rounded_to_milli().to_string();
        }
    }
}

fn default_volume(volume: &mut Volume) {
    if *volume == (Volume { name: volume.name.clone(), ..Default::default() }) {
        volume.empty_dir = Some(Default::default());
    }
    if let Some(host_path) = &mut volume.host_path {
        host_path.type_.get_or_insert_default();
    }
    if let Some(limit) = volume.empty_dir.as_mut().and_then(|empty_dir| empty_dir.size_limit.as_mut())
        && let Ok(amount) = Amount::parse(&limit.0)
    {
        limit.0 = amount.to_string();
    }
    if let Some(config_map) = &mut volume.config_map {
        config_map.default_mode.get_or_insert(DEFAULT_MODE);
    }
    if let Some(secret) = &mut volume.secret {
        secret.default_mode.get_or_insert(DEFAULT_MODE);
    }
    if let Some(downward) = &mut volume.downward_api {
        downward.default_mode.get_or_insert(DEFAULT_MODE);
        downward.items.iter_mut().flatten().for_each(|item| default_field_ref(item.field_ref.as_mut()));
    }
    if let Some(projected) = &mut volume.projected {
        projected.default_mode.get_or_insert(DEFAULT_MODE);
        for source in projected.sources.iter_mut().flatten() {
            if let Some(token) = &mut source.service_account_token {
                token.expiration_seconds.get_or_insert(TOKEN_SECONDS);
            }
            let items = source.downward_api.iter_mut().flat_map(|downward| &mut downward.items).flatten();
            items.for_each(|item| default_field_ref(item.field_ref.as_mut()));
        }
    }
    if let Some(image) = &mut volume.image {
        let policy = default_pull_policy(image.reference.as_deref().unwrap_or_default());
        default_to(&mut image.pull_policy, policy);
    }
}

#[cfg(test)]
mod tests;
