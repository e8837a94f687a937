//! The quality-of-service class of a pod, from the resources of its specification.

use std::fmt;

use k8s_openapi::api::core::v1::{PodSpec, ResourceRequirements};

use super::containers_of;
use super::quantity::Amount;

/// The quality-of-service class: decides who is killed first when the node is short of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum QosClass {
    /// Every container asks for as much CPU and memory as it may use.
    Guaranteed,
    /// Something is asked for, but not everything.
    Burstable,
    /// Nothing is asked for.
    BestEffort,
}

impl QosClass {
    /// The name in `status.qosClass`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            QosClass::Guaranteed => "Guaranteed",
            QosClass::Burstable => "Burstable",
            QosClass::BestEffort => "BestEffort",
        }
    }
}

impl fmt::Display for QosClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The class of a pod, with its defaults applied: resources of the pod itself decide where they are written.
pub(crate) fn qos_class(spec: &PodSpec) -> QosClass {
    if let Some(resources) = &spec.resources
        && !is_empty(resources)
    {
        return class_of(resources);
    }
    let classes =
        containers_of(spec).map(|(_, c)| c.resources.as_ref().map_or(QosClass::BestEffort, class_of));
    agreed(classes)
}

/// The class that all agree on; otherwise Burstable.
fn agreed(mut classes: impl Iterator<Item = QosClass>) -> QosClass {
    let Some(first) = classes.next() else { return QosClass::BestEffort };
    if classes.all(|class| class == first) { first } else { QosClass::Burstable }
}

fn is_empty(resources: &ResourceRequirements) -> bool {
    resources.limits.iter().chain(&resources.requests).all(|list| list.is_empty())
}

fn class_of(resources: &ResourceRequirements) -> QosClass {
    if is_empty(resources) {
        return QosClass::BestEffort;
    }
    agreed(["cpu", "memory"].into_iter().map(|name| {
        let amount = |list: &Option<std::collections::BTreeMap<String, _>>| {
            let quantity: Option<&k8s_openapi::apimachinery::pkg::api::resource::Quantity> =
                list.as_ref().and_then(|list| list.get(name));
            quantity.and_then(|quantity| Amount::parse(&quantity.0).ok()).filter(|amount| !amount.is_zero())
        };
        match (amount(&resources.requests), amount(&resources.limits)) {
            (None, None) => QosClass::BestEffort,
            (request, limit) if request == limit => QosClass::Guaranteed,
            _ => QosClass::Burstable,
        }
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn class(containers: Value) -> &'static str {
        let spec: PodSpec = serde_json::from_value(json!({ "containers": containers })).unwrap();
        qos_class(&spec).as_str()
    }

    #[test]
    fn classes() {
        let full = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}});
        let cpu = json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}});
        let less = json!({"limits": {"cpu": "1", "memory": "1"}, "requests": {"cpu": "500m", "memory": "1"}});
        let zero = json!({"limits": {"cpu": "0"}, "requests": {"memory": "0"}});
        let table = [
            (json!([{}]), "BestEffort"),
            (json!([{"resources": {}}]), "BestEffort"),
            (json!([{"resources": zero}]), "BestEffort"),
            (json!([{"resources": full}]), "Guaranteed"),
            (json!([{"resources": full}, {"resources": full}]), "Guaranteed"),
            (json!([{"resources": full}, {}]), "Burstable"),
            (json!([{"resources": cpu}]), "Burstable"),
            (json!([{"resources": less}]), "Burstable"),
            (json!([{"resources": {"limits": {"ephemeral-storage": "1Gi"}}}]), "BestEffort"),
        ];
        for (containers, want) in table {
            assert_eq!(class(containers.clone()), want, "{containers}");
        }
    }

    #[test]
    fn init_containers_and_the_pod_itself_count() {
        let spec = |value| serde_json::from_value::<PodSpec>(value).unwrap();
        let full = json!({"limits": {"cpu": "1", "memory": "1"}, "requests": {"cpu": "1", "memory": "1"}});
        let mixed = spec(json!({"containers": [{"resources": full}], "initContainers": [{}]}));
        assert_eq!(qos_class(&mixed), QosClass::Burstable);
        let pod = spec(json!({"containers": [{}], "resources": full}));
        assert_eq!(qos_class(&pod), QosClass::Guaranteed);
    }
}
