//! The priority of pods: those of a higher priority start first.

use k8s_openapi::api::core::v1::PodSpec;

/// The classes that every cluster has. Others are objects of an API server.
const CLASSES: [(&str, i32); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

/// The priority of a pod: its own, or else that of its class.
pub(crate) fn priority(spec: &PodSpec) -> i32 {
    let class = spec.priority_class_name.as_deref();
    let of_class = CLASSES.iter().find(|(name, _)| Some(*name) == class).map(|(_, priority)| *priority);
    spec.priority.or(of_class).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_own_or_that_of_its_class() {
        for (own, class, expect) in [
            (None, None, 0),
            (Some(7), None, 7),
            (Some(7), Some("system-node-critical"), 7),
            (None, Some("system-node-critical"), 2_000_001_000),
            (None, Some("system-cluster-critical"), 2_000_000_000),
            (None, Some("mine"), 0),
            (Some(-5), None, -5),
        ] {
            let class_name = class.map(str::to_owned);
            let spec = PodSpec { priority: own, priority_class_name: class_name, ..PodSpec::default() };
            assert_eq!(priority(&spec), expect, "{own:?} {class:?}");
        }
    }
}
