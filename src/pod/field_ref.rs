//! The fields of a pod that its containers may ask for (`fieldRef`).

use super::Pod;

/// Whether an environment variable may be made from this field.
pub(crate) fn is_env_field(path: &str) -> bool {
    if let Some((map, key)) = subscript(path) {
        return !key.is_empty() && matches!(map, "metadata.labels" | "metadata.annotations");
    }
    matches!(
        path,
        "metadata.name"
            | "metadata.namespace"
            | "metadata.uid"
            | "spec.nodeName"
            | "spec.serviceAccountName"
            | "status.hostIP"
            | "status.hostIPs"
            | "status.podIP"
            | "status.podIPs"
    )
}

/// The value of a field, or `None` if there is no such field or it has no value yet (a pod without an address).
///
/// A label or annotation that the pod does not have is the empty string, as in Kubernetes.
pub(crate) fn resolve_field(
    pod: &Pod,
    path: &str,
    host_ips: &[String],
    pod_ips: &[String],
) -> Option<String> {
    if let Some((map, key)) = subscript(path) {
        let map = match map {
            "metadata.labels" => &pod.metadata.labels,
            "metadata.annotations" => &pod.metadata.annotations,
            _ => return None,
        };
        return Some(map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default());
    }
    let all = |ips: &[String]| (!ips.is_empty()).then(|| ips.join(","));
    match path {
        "metadata.name" => Some(pod.name.name.clone()),
        "metadata.namespace" => Some(pod.name.namespace.clone()),
        "metadata.uid" => Some(pod.uid.0.clone()),
        "spec.nodeName" => pod.spec.node_name.clone(),
        "spec.serviceAccountName" => Some(pod.spec.service_account_name.clone().unwrap_or_default()),
        "status.hostIP" => host_ips.first().cloned(),
        "status.hostIPs" => all(host_ips),
        "status.podIP" => pod_ips.first().cloned(),
        "status.podIPs" => all(pod_ips),
        _ => None,
    }
}

/// `metadata.labels['key']` in its two parts.
pub(super) fn subscript(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::{ConfigHash, PodName, PodUid, Source};

    #[test]
    fn fields() {
        let mut pod = Pod {
            name: PodName::new("edge", "web-node1"),
            uid: PodUid::from("u1"),
            hash: ConfigHash::from("h1"),
            source: Source::File,
            metadata: Default::default(),
            spec: Default::default(),
            container_hashes: Default::default(),
        };
        pod.spec.node_name = Some("node1".to_owned());
        pod.metadata.labels = Some([("a/b".to_owned(), "x".to_owned())].into());
        pod.metadata.annotations = Some([("note".to_owned(), "hello".to_owned())].into());
        let ips = ["10.0.0.2".to_owned(), "fd00::2".to_owned()];
        let hosts = ["192.0.2.1".to_owned()];
        let table = [
            ("metadata.name", Some("web-node1")),
            ("metadata.namespace", Some("edge")),
            ("metadata.uid", Some("u1")),
            ("metadata.labels['a/b']", Some("x")),
            ("metadata.labels['none']", Some("")),
            ("metadata.annotations['note']", Some("hello")),
            ("spec.nodeName", Some("node1")),
            ("spec.serviceAccountName", Some("")),
            ("status.hostIP", Some("192.0.2.1")),
            ("status.hostIPs", Some("192.0.2.1")),
            ("status.podIP", Some("10.0.0.2")),
            ("status.podIPs", Some("10.0.0.2,fd00::2")),
            ("metadata.labels", None),
            ("metadata.finalizers['x']", None),
            ("spec.hostname", None),
            ("", None),
        ];
        for (path, want) in table {
            assert_eq!(resolve_field(&pod, path, &hosts, &ips).as_deref(), want, "{path}");
            assert_eq!(is_env_field(path), want.is_some(), "{path}");
        }
        assert_eq!(resolve_field(&pod, "status.podIP", &hosts, &[]), None);
        assert!(!is_env_field("metadata.labels['']"));
    }
}
