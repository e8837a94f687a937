//! The validation that an API server would do, for what matters on a node.
//!
//! It runs on a pod with its identity and its defaults, and finds every problem, not just the first. Field
//! paths are those of the manifest, as Kubernetes writes them.

mod container;
mod findings;
mod names;
mod probe;
mod references;
mod volume;

use core::net::IpAddr;

use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::finding::Finding;
use super::keys::CONFIG_MIRROR;
use findings::Findings;

const MAX_ANNOTATIONS: usize = 256 * 1024;
const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;

/// Finds what makes a pod invalid, in the order of the manifest: metadata first.
pub fn validate_pod(metadata: &ObjectMeta, spec: &PodSpec) -> Vec<Finding> {
    let mut findings = Findings::default();
    validate_metadata(metadata, &mut findings);
    validate_spec(spec, &mut findings);
    let volumes = volume::validate_volumes(spec, &mut findings);
    container::validate_containers(spec, &volumes, &mut findings);
    references::validate_references(spec, &mut findings);
    findings.0
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
    findings.at_least("spec.terminationGracePeriodSeconds", spec.termination_grace_period_seconds, 0);
    findings.at_least("spec.activeDeadlineSeconds", spec.active_deadline_seconds, 1);
    let filled = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
    findings.check("spec.hostname", filled(&spec.hostname).and_then(|name| names::not_label(&name)));
    findings.check("spec.subdomain", filled(&spec.subdomain).and_then(|name| names::not_label(&name)));
    if spec.host_pid == Some(true) && spec.share_process_namespace == Some(true) {
        findings.add("spec.shareProcessNamespace", "may not be set together with hostPID");
    }
    for (index, alias) in spec.host_aliases.iter().flatten().enumerate() {
        if alias.ip.parse::<IpAddr>().is_err() {
            findings.add(format_args!("spec.hostAliases[{index}].ip"), not_an_ip(&alias.ip));
        }
        for (place, name) in alias.hostnames.iter().flatten().enumerate() {
            let field = format!("spec.hostAliases[{index}].hostnames[{place}]");
            findings.check(field, names::not_subdomain(name));
        }
    }
    validate_dns(spec, findings);
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
        if server.parse::<IpAddr>().is_err() {
            findings.add(format_args!("spec.dnsConfig.nameservers[{index}]"), not_an_ip(server));
        }
    }
    let searches = config.and_then(|config| config.searches.as_deref()).unwrap_or_default();
    if searches.len() > MAX_SEARCHES {
        findings.add("spec.dnsConfig.searches", format!("may not have more than {MAX_SEARCHES} entries"));
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
    format!("{text:?} is not an IP address")
}

#[cfg(test)]
mod tests;
