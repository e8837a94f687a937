//! The limits and requests of containers that others may ask for (`resourceFieldRef`). Pure.

use k8s_openapi::api::core::v1::{Container, ResourceFieldSelector};

use super::node_allocatable::ResourceAmounts;
use super::quantity::Amount;
use super::{Pod, finding::Finding};
use crate::text::excerpt::quoted;

/// What pods may use of the node; a container without a limit may use all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeCapacity {
    /// In cores.
    pub(crate) cpu: Amount,
    /// In bytes.
    pub(crate) memory: Amount,
    /// In bytes, of the file system of the root directory.
    pub(crate) ephemeral_storage: Amount,
}

impl NodeCapacity {
    /// From amounts by name; what is not there is zero.
    pub(crate) fn from_amounts(amounts: &ResourceAmounts) -> Self {
        let of = |name: &str| amounts.get(name).copied().unwrap_or(Amount::ZERO);
        Self { cpu: of("cpu"), memory: of("memory"), ephemeral_storage: of("ephemeral-storage") }
    }
}

/// The reason why a reference has no sense, and in which of its fields, if there is one.
pub(crate) fn wrong_reference(reference: &ResourceFieldSelector) -> Option<(&'static str, String)> {
    let Some((_, name)) = split(&reference.resource) else {
        let reason = match reference.resource.as_str() {
            "" => "must not be empty".to_owned(),
            other => format!("{} is not a resource that a container can ask for", quoted(other)),
        };
        return Some(("resource", reason));
    };
    let divisor = reference.divisor.as_ref().map(|divisor| divisor.0.as_str()).unwrap_or("0");
    let fits = match (Amount::parse(divisor), name) {
        (Ok(amount), _) if amount.is_zero() => true,
        (Ok(_), "cpu") => matches!(divisor, "1m" | "1"),
        (Ok(_), _) => matches!(
            divisor,
            "1" | "1k" | "1M" | "1G" | "1T" | "1P" | "1E" | "1Ki" | "1Mi" | "1Gi" | "1Ti" | "1Pi" | "1Ei"
        ),
        (Err(_), _) => false,
    };
    (!fits).then(|| ("divisor", format!("{} is not a unit of {name}", quoted(divisor))))
}

/// The value of a reference; without a name of a container it is for `own`.
///
/// # Errors
/// When there is no such container or resource.
pub(crate) fn resolve_resource(
    pod: &Pod,
    own: Option<&Container>,
    reference: &ResourceFieldSelector,
    node: &NodeCapacity,
) -> Result<String, Finding> {
    let named = reference.container_name.as_deref().filter(|name| !name.is_empty());
    let container = match named {
        Some(name) => pod.containers().map(|(_, container)| container).find(|c| c.name == name),
        None => own,
    };
    let Some(container) = container else {
        let reason = format!("there is no container {}", quoted(named.unwrap_or_default()));
        return Err(Finding::new("resourceFieldRef.containerName", reason));
    };
    if let Some((field, reason)) = wrong_reference(reference) {
        return Err(Finding::new(format!("resourceFieldRef.{field}"), reason));
    }
    let divisor = reference.divisor.as_ref().and_then(|divisor| Amount::parse(&divisor.0).ok());
    let divisor = divisor.filter(|divisor| !divisor.is_zero()).unwrap_or(Amount::whole(1));
    let amount = split(&reference.resource).and_then(|(limit, name)| amount_of(container, limit, name, node));
    Ok(amount.map_or(0, |amount| amount.divided_up(divisor)).to_string())
}

fn amount_of(container: &Container, limit: bool, name: &str, node: &NodeCapacity) -> Option<Amount> {
    let resources = container.resources.as_ref();
    let list = resources.and_then(|r| if limit { r.limits.as_ref() } else { r.requests.as_ref() });
    let own = list.and_then(|list| list.get(name)).and_then(|quantity| Amount::parse(&quantity.0).ok());
    let of_node = || match name {
        "cpu" => Some(node.cpu),
        "memory" => Some(node.memory),
        "ephemeral-storage" => Some(node.ephemeral_storage),
        _ => None,
    };
    own.filter(|amount| !amount.is_zero()).or_else(|| if limit { of_node() } else { None })
}

/// Whether it is a limit, and the name of the resource.
fn split(resource: &str) -> Option<(bool, &str)> {
    let (list, name) = resource.split_once('.')?;
    let limit = match list {
        "limits" => true,
        "requests" => false,
        _ => return None,
    };
    let known = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    known.then_some((limit, name))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pod::testing::pod_with;

    fn resolved(reference: Value) -> Result<String, String> {
        let mut pod = pod_with("p", "u", "Always", &["main", "other"]);
        let resources = json!({
            "limits": {"cpu": "1500m", "memory": "64Mi", "hugepages-2Mi": "4Mi"},
            "requests": {"cpu": "250m", "memory": "1e7", "ephemeral-storage": "0"},
        });
        pod.spec.containers[0].resources = Some(serde_json::from_value(resources).unwrap());
        let node = NodeCapacity {
            cpu: Amount::whole(4),
            memory: Amount::parse("2Gi").unwrap(),
            ephemeral_storage: Amount::parse("10Gi").unwrap(),
        };
        let reference: ResourceFieldSelector = serde_json::from_value(reference).unwrap();
        resolve_resource(&pod, pod.spec.containers.first(), &reference, &node)
            .map_err(|finding| finding.to_string())
    }

    #[test]
    fn limits_and_requests_by_their_divisor() {
        let rows = [
            (json!({"resource": "limits.cpu"}), "2"),
            (json!({"resource": "limits.cpu", "divisor": "0"}), "2"),
            (json!({"resource": "limits.cpu", "divisor": "1m"}), "1500"),
            (json!({"resource": "requests.cpu", "divisor": "1"}), "1"),
            (json!({"resource": "requests.cpu", "divisor": "1m"}), "250"),
            (json!({"resource": "limits.memory"}), "67108864"),
            (json!({"resource": "limits.memory", "divisor": "1Mi"}), "64"),
            (json!({"resource": "limits.memory", "divisor": "1M"}), "68"),
            (json!({"resource": "requests.memory", "divisor": "1k"}), "10000"),
            (json!({"resource": "requests.ephemeral-storage"}), "0"),
            (json!({"resource": "limits.ephemeral-storage", "divisor": "1Gi"}), "10"),
            (json!({"resource": "limits.hugepages-2Mi", "divisor": "1Mi"}), "4"),
            (json!({"resource": "limits.hugepages-1Gi"}), "0"),
            // Without a limit, all of the node.
            (json!({"resource": "limits.cpu", "containerName": "other"}), "4"),
            (json!({"resource": "limits.memory", "divisor": "1Gi", "containerName": "other"}), "2"),
            (json!({"resource": "requests.memory", "containerName": "other"}), "0"),
        ];
        for (reference, expect) in rows {
            assert_eq!(resolved(reference.clone()).as_deref(), Ok(expect), "{reference}");
        }
    }

    #[test]
    fn what_has_no_value_is_named() {
        let rows = [
            (
                json!({"resource": "limits.cpu", "containerName": "none"}),
                "resourceFieldRef.containerName: there is no container \"none\"",
            ),
            (
                json!({"resource": "limits.disk"}),
                "resourceFieldRef.resource: \"limits.disk\" is not a resource that a container can ask for",
            ),
            (json!({"resource": ""}), "resourceFieldRef.resource: must not be empty"),
            (
                json!({"resource": "limits.cpu", "divisor": "1Mi"}),
                "resourceFieldRef.divisor: \"1Mi\" is not a unit of cpu",
            ),
            (
                json!({"resource": "limits.memory", "divisor": "1m"}),
                "resourceFieldRef.divisor: \"1m\" is not a unit of memory",
            ),
            (
                json!({"resource": "limits.memory", "divisor": "x"}),
                "resourceFieldRef.divisor: \"x\" is not a unit of memory",
            ),
        ];
        for (reference, expect) in rows {
            assert_eq!(resolved(reference.clone()), Err(expect.to_owned()), "{reference}");
        }
    }
}
