//! Requests and limits: known names, quantities that make sense, and requests within their limits.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::findings::Findings;
use super::names;
use crate::pod::quantity::Amount;
use crate::text::excerpt::quoted;

/// What a list of resources says, by name.
type AmountsByName<'a> = BTreeMap<&'a str, Amount>;

/// Validates what the pod as a whole asks for.
pub(super) fn validate_pod_resources(spec: &PodSpec, findings: &mut Findings) {
    if let Some(overhead) = &spec.overhead {
        amounts(Some(overhead), "spec.overhead", findings);
    }
    let Some(resources) = &spec.resources else { return };
    validate_resources(resources, "spec.resources", findings);
    // What cannot be read is told where it is written.
    let mut ignore = Findings::default();
    let pod = amounts(resources.limits.as_ref(), "", &mut ignore);
    for (index, container) in spec.containers.iter().enumerate() {
        let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
        for (name, limit) in amounts(limits, "", &mut ignore) {
            if let Some(most) = pod.get(name).filter(|most| **most < limit) {
                let field = format!("spec.containers[{index}].resources.limits[{name}]");
                findings.add(field, format!("{limit} is more than the pod's limit {most}"));
            }
        }
    }
}

/// Validates requests and limits.
pub(super) fn validate_resources(resources: &ResourceRequirements, path: &str, findings: &mut Findings) {
    let limits = amounts(resources.limits.as_ref(), &format!("{path}.limits"), findings);
    let requests = amounts(resources.requests.as_ref(), &format!("{path}.requests"), findings);
    for (name, request) in &requests {
        let field = format!("{path}.requests[{name}]");
        match limits.get(name) {
            Some(limit) if limit < request => {
                findings.add(field, format!("{request} is more than the limit {limit}"));
            }
            Some(limit) if limit != request && !may_overcommit(name) => {
                findings.add(field, format!("{request} is not the limit {limit}, as it must be for {name}"));
            }
            None if !may_overcommit(name) => {
                findings
                    .add(format_args!("{path}.limits"), format!("must have {name}, as the requests have"));
            }
            _ => {}
        }
    }
    let names = || limits.keys().chain(requests.keys());
    if names().any(|name| is_huge_page(name)) && !names().any(|name| matches!(*name, "cpu" | "memory")) {
        findings.add(path, "huge pages need cpu or memory beside them");
    }
}

fn amounts<'a>(
    list: Option<&'a BTreeMap<String, Quantity>>,
    path: &str,
    findings: &mut Findings,
) -> AmountsByName<'a> {
    let mut amounts = AmountsByName::new();
    for (name, quantity) in list.into_iter().flatten() {
        let field = format!("{path}[{name}]");
        findings.check(&field, not_a_resource(name));
        match Amount::parse(&quantity.0) {
            Err(error) => findings.add(&field, format!("{} is {error}", quoted(&quantity.0))),
            Ok(amount) if amount.is_negative() => findings.add(&field, "must not be negative"),
            Ok(amount) if name.contains('/') && !amount.is_whole() => {
                findings.add(&field, format!("{amount} is not a whole number, as it must be for {name}"));
            }
            Ok(amount) => {
                amounts.insert(name.as_str(), amount);
            }
        }
    }
    amounts
}

/// The reason why a name is not that of a resource. A name without a domain is one of a few.
fn not_a_resource(name: &str) -> Option<String> {
    let known =
        name.contains('/') || matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_huge_page(name);
    names::not_qualified_name(name).or_else(|| {
        (!known).then(|| {
            format!("{} is not cpu, memory, ephemeral-storage, hugepages-SIZE or DOMAIN/NAME", quoted(name))
        })
    })
}

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Whether the limit of a resource may be higher than its request.
fn may_overcommit(name: &str) -> bool {
    !is_huge_page(name) && (!name.contains('/') || name.contains("kubernetes.io/"))
}
