//! `nodeSelector` and required node affinity, against the node's labels and name.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, PodSpec};

type NodeLabels = BTreeMap<String, String>;

/// The node is one that the pod asks for.
pub(super) fn matches(spec: &PodSpec, node: &str, labels: &NodeLabels) -> bool {
    let selected = spec.node_selector.iter().flatten().all(|(label, value)| labels.get(label) == Some(value));
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    let fits = |term: &NodeSelectorTerm| term_matches(term, node, labels);
    selected && required.is_none_or(|required| required.node_selector_terms.iter().any(fits))
}

/// All that a term says holds; one that says nothing matches no node.
fn term_matches(term: &NodeSelectorTerm, node: &str, labels: &NodeLabels) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    let of_label = |r: &NodeSelectorRequirement| holds(r, labels.get(&r.key).map(String::as_str));
    let of_field = |r: &NodeSelectorRequirement| r.key == "metadata.name" && holds(r, Some(node));
    expressions.iter().all(of_label) && fields.iter().all(of_field)
}

fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_listed = value.is_some_and(|value| values.iter().any(|listed| listed == value));
    let compared = |wanted: std::cmp::Ordering| {
        let [bound] = values else { return false };
        let pair = value.and_then(|value| value.parse::<i64>().ok()).zip(bound.parse::<i64>().ok());
        pair.is_some_and(|(value, bound)| value.cmp(&bound) == wanted)
    };
    match requirement.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared(std::cmp::Ordering::Greater),
        "Lt" => compared(std::cmp::Ordering::Less),
        _ => false,
    }
}
