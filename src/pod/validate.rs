//! The validation that an API server would do, for what matters on a node.
//!
//! It runs on a pod with its identity and its defaults, and finds every problem, not just the first. Field
//! paths are those of the manifest, as Kubernetes writes them.

mod container;
mod findings;
mod lifecycle;
pub(crate) mod names;
mod objects;
mod probe;
mod references;
mod resources;
mod restart;
mod security;
mod volume;

use core::net::IpAddr;

use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::PodName;
use super::annotations;
use super::cdi::check_cdi;
use super::finding::Finding;
use super::keys::CONFIG_MIRROR;
use super::watch_files::watched_files;
use crate::text::excerpt::quoted;
use findings::Findings;

const MAX_ANNOTATIONS: usize = 256 * 1024;
const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_HOSTNAME: usize = 64;
const MAX_SEARCH_CHARACTERS: usize = 2048;

/// Whether pods may refer to ConfigMaps and Secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LocalObjects {
    /// They lie beside the pods.
    Allowed,
    /// Not even that, as in kubelet.
    Refused,
}

/// Finds what makes a pod invalid, in the order of the manifest: metadata first.
pub(crate) fn validate_pod(
    metadata: &ObjectMeta,
    spec: &PodSpec,
    local_objects: LocalObjects,
) -> Vec<Finding> {
    let mut findings = Findings::default();
    validate_metadata(metadata, &mut findings);
    validate_spec(spec, &mut findings);
    let volumes = volume::validate_volumes(spec, &mut findings);
    container::validate_containers(spec, &volumes, &mut findings);
    security::validate_annotations(metadata, spec, &mut findings);
    findings.0.extend(watched_files(metadata, spec).err().unwrap_or_default());
    references::validate_references(spec, local_objects, &mut findings);
    findings.0
}

/// Whether a pod can have this name, whatever else is said of it.
pub(crate) fn is_valid_name(pod: &PodName) -> bool {
    names::not_subdomain(&pod.name).is_none() && names::not_label(&pod.namespace).is_none()
}

fn validate_metadata(metadata: &ObjectMeta, findings: &mut Findings) {
    let name = metadata.name.as_deref().unwrap_or_default();
    findings.check("metadata.name", names::not_subdomain(name));
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    findings.check("metadata.namespace", names::not_label(namespace));
    findings.check("metadata.uid", metadata.uid.as_deref().and_then(names::not_uid));
    for (key, value) in metadata.labels.iter().flatten() {
        findings.check(format_args!("metadata.labels[{key}]"), names::not_qualified_name(key));
        findings.check(format_args!("metadata.labels[{key}]"), names::not_label_value(value));
    }
    findings.0.extend(annotations::duration(metadata, annotations::MAX_RESTART_BACKOFF).err());
    findings.0.extend(annotations::duration(metadata, annotations::AFTER_TIMEOUT).err());
    findings.0.extend(annotations::not_a_switch(metadata, annotations::RESTART_ON_CHANGE));
    for name in annotations::names(metadata, annotations::AFTER) {
        findings.check(annotations::field(annotations::AFTER), names::not_subdomain(name));
    }
    findings.0.extend(check_cdi(metadata));
    let mut size = 0;
    for (key, value) in metadata.annotations.iter().flatten() {
        // Annotations may be written in any case; their keys are compared in lower case.
        let reason = names::not_qualified_name(&key.to_lowercase());
        findings.check(format_args!("metadata.annotations[{key}]"), reason);
        size += key.len() + value.len();
        if key == CONFIG_MIRROR {
            findings.add(format_args!("metadata.annotations[{key}]"), "a static pod is not a mirror pod");
        }
    }
    if size > MAX_ANNOTATIONS {
        findings.add("metadata.annotations", format!("{size} bytes are more than {MAX_ANNOTATIONS}"));
    }
}

fn validate_spec(spec: &PodSpec, findings: &mut Findings) {
    let restart = spec.restart_policy.as_deref();
    findings.one_of("spec.restartPolicy", restart, &["Always", "OnFailure", "Never"]);
    findings.in_range("spec.activeDeadlineSeconds", spec.active_deadline_seconds, 1..=i64::from(i32::MAX));
    let filled = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
    findings.check("spec.hostname", filled(&spec.hostname).and_then(|name| names::not_label(&name)));
    findings.check("spec.subdomain", filled(&spec.subdomain).and_then(|name| names::not_label(&name)));
    let class = filled(&spec.runtime_class_name);
    findings.check("spec.runtimeClassName", class.and_then(|name| names::not_subdomain(&name)));
    validate_hostname_override(spec, findings);
    if let Some(os) = spec.os.as_ref().filter(|os| os.name != "linux") {
        let reason =
            format!("PodOSNotSupported: {} is not this node's operating system, linux", quoted(&os.name));
        findings.add("spec.os.name", reason);
    }
    if spec.host_pid == Some(true) && spec.share_process_namespace == Some(true) {
        findings.add("spec.shareProcessNamespace", "may not be set together with hostPID");
    }
    for (index, alias) in spec.host_aliases.iter().flatten().enumerate() {
        if alias.ip.parse::<IpAddr>().is_err() {
            findings.add(format_args!("spec.hostAliases[{index}].ip"), not_an_ip(&alias.ip));
        }
        for (inner, name) in alias.hostnames.iter().flatten().enumerate() {
            let field = format!("spec.hostAliases[{index}].hostnames[{inner}]");
            findings.check(field, names::not_subdomain(name));
        }
    }
    for (index, toleration) in spec.tolerations.iter().flatten().enumerate() {
        let path = format!("spec.tolerations[{index}]");
        findings.one_of(
            format_args!("{path}.operator"),
            toleration.operator.as_deref(),
            &["Equal", "Exists"],
        );
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        findings.one_of(format_args!("{path}.effect"), toleration.effect.as_deref(), &effects);
    }
    validate_dns(spec, findings);
    security::validate_pod_security(spec, findings);
}

fn validate_hostname_override(spec: &PodSpec, findings: &mut Findings) {
    const FIELD: &str = "spec.hostnameOverride";
    let Some(name) = spec.hostname_override.as_deref() else { return };
    if spec.set_hostname_as_fqdn == Some(true) {
        findings.add(FIELD, "may not be set together with setHostnameAsFQDN");
    }
    if spec.host_network == Some(true) {
        findings.add(FIELD, "may not be set together with hostNetwork");
    }
    if name.len() > MAX_HOSTNAME {
        findings.add(FIELD, format!("has {} characters, at most {MAX_HOSTNAME} are allowed", name.len()));
    }
    findings.check(FIELD, names::not_subdomain(name));
}

fn validate_dns(spec: &PodSpec, findings: &mut Findings) {
    let policies = ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"];
    findings.one_of("spec.dnsPolicy", spec.dns_policy.as_deref(), &policies);
    let config = spec.dns_config.as_ref();
    let nameservers = config.and_then(|config| config.nameservers.as_deref()).unwrap_or_default();
    if spec.dns_policy.as_deref() == Some("None") && nameservers.is_empty() {
        findings.add("spec.dnsConfig.nameservers", "must name a server when dnsPolicy is None");
    }
    if nameservers.len() > MAX_NAMESERVERS {
        findings
            .add("spec.dnsConfig.nameservers", format!("may not have more than {MAX_NAMESERVERS} entries"));
    }
    for (index, server) in nameservers.iter().enumerate() {
        let field = format!("spec.dnsConfig.nameservers[{index}]");
        match server.parse() {
            Err(_) => findings.add(field, not_an_ip(server)),
            Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
                findings.add(field, format!("{} is an IPv4-mapped IPv6 address", quoted(server)));
            }
            Ok(_) => {}
        }
    }
    let searches = config.and_then(|config| config.searches.as_deref()).unwrap_or_default();
    if searches.len() > MAX_SEARCHES {
        findings.add("spec.dnsConfig.searches", format!("may not have more than {MAX_SEARCHES} entries"));
    }
    let length = searches.iter().map(|search| search.len() + 1).sum::<usize>().saturating_sub(1);
    if length > MAX_SEARCH_CHARACTERS {
        let reason = format!("{length} characters in all, at most {MAX_SEARCH_CHARACTERS} are allowed");
        findings.add("spec.dnsConfig.searches", reason);
    }
    for (index, search) in searches.iter().enumerate() {
        // Underscores and a trailing dot (or the dot alone) are fine in a search path.
        let name = search.strip_suffix('.').unwrap_or(search).replace('_', "-");
        let reason = (search != ".").then(|| names::not_subdomain(name.trim_start_matches('-'))).flatten();
        findings.check(format_args!("spec.dnsConfig.searches[{index}]"), reason);
    }
    let options = config.and_then(|config| config.options.as_deref()).unwrap_or_default();
    for (index, option) in options.iter().enumerate() {
        if option.name.as_deref().unwrap_or_default().is_empty() {
            findings.add(format_args!("spec.dnsConfig.options[{index}].name"), "must not be empty");
        }
    }
}

fn not_an_ip(text: &str) -> String {
    format!("{} is not an IP address", quoted(text))
}

#[cfg(test)]
mod tests;
