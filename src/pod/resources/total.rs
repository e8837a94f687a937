//! The resources of a whole pod, as the scheduler counts them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::Quantities;
use crate::pod::is_sidecar;
use crate::pod::quantity::Amount;

type Amounts = BTreeMap<String, Amount>;

/// Requests and limits of a pod: its own where they are written, else what its containers need at most.
pub(crate) fn pod_resources(spec: &PodSpec) -> ResourceRequirements {
    let mut requests = needed(spec, |resources| resources.requests.as_ref());
    let mut limits = needed(spec, |resources| resources.limits.as_ref());
    for (name, more) in spec.overhead.as_ref().map(amounts).unwrap_or_default() {
        if let Some(limit) = limits.get_mut(&name).filter(|limit| !limit.is_zero()) {
            *limit = *limit + more;
        }
        add(&mut requests, name, more);
    }
    ResourceRequirements { requests: quantities(requests), limits: quantities(limits), claims: None }
}

/// Containers and sidecars need the sum of theirs, and an init container its own beside the sidecars before it.
fn needed(spec: &PodSpec, list: impl Fn(&ResourceRequirements) -> Option<&Quantities>) -> Amounts {
    let of =
        |resources: Option<&ResourceRequirements>| resources.and_then(&list).map(amounts).unwrap_or_default();
    let mut together = Amounts::new();
    for container in &spec.containers {
        add_all(&mut together, of(container.resources.as_ref()));
    }
    let (mut sidecars, mut most) = (Amounts::new(), Amounts::new());
    for init in spec.init_containers.iter().flatten() {
        let own = of(init.resources.as_ref());
        let mut meanwhile = sidecars.clone();
        add_all(&mut meanwhile, own.clone());
        if is_sidecar(init) {
            add_all(&mut together, own);
            sidecars.clone_from(&meanwhile);
        }
        raise_all(&mut most, meanwhile);
    }
    raise_all(&mut together, most);
    let whole = of(spec.resources.as_ref()).into_iter().filter(|(name, _)| is_of_pods(name));
    together.extend(whole);
    together
}

/// What can be given to a pod as a whole.
fn is_of_pods(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

fn add_all(sum: &mut Amounts, more: Amounts) {
    for (name, amount) in more {
        add(sum, name, amount);
    }
}

fn add(sum: &mut Amounts, name: String, amount: Amount) {
    sum.entry(name).and_modify(|sum| *sum = *sum + amount).or_insert(amount);
}

fn raise_all(most: &mut Amounts, others: Amounts) {
    for (name, amount) in others {
        most.entry(name).and_modify(|most| *most = amount.max(*most)).or_insert(amount);
    }
}

/// Validation has seen to it that all of them are quantities.
fn amounts(list: &Quantities) -> Amounts {
    list.iter()
        .filter_map(|(name, quantity)| Some((name.clone(), Amount::parse(&quantity.0).ok()?)))
        .collect()
}

fn quantities(amounts: Amounts) -> Option<Quantities> {
    let each = amounts.into_iter().map(|(name, amount)| (name, Quantity(amount.to_string())));
    Some(each.collect::<Quantities>()).filter(|list| !list.is_empty())
}
