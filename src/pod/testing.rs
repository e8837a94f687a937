//! Pods for the tables of the pure rooms.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::annotations::AFTER;
use super::{ConfigHash, Pod, PodName, PodUid, Source};

/// A pod with one container `main`; UID and hash are both `hash`.
pub(crate) fn pod(name: &str, hash: &str) -> Pod {
    pod_with(name, hash, "Always", &["main"])
}

/// A pod with one container, that starts after these.
pub(crate) fn pod_after(name: &str, hash: &str, after: &str) -> Pod {
    let mut pod = pod(name, hash);
    pod.metadata.annotations = Some([(AFTER.to_owned(), after.to_owned())].into());
    pod
}

/// A pod with these containers and this restartPolicy.
pub(crate) fn pod_with(name: &str, hash: &str, policy: &str, containers: &[&str]) -> Pod {
    let spec = PodSpec {
        restart_policy: Some(policy.into()),
        termination_grace_period_seconds: Some(30),
        containers: containers
            .iter()
            .map(|c| Container { name: (*c).into(), image: Some("image:1".into()), ..Container::default() })
            .collect(),
        ..PodSpec::default()
    };
    Pod {
        name: PodName::new("default", name),
        uid: PodUid::from(hash),
        hash: ConfigHash::from(hash),
        source: Source::File,
        metadata: ObjectMeta {
            name: Some(name.into()),
            namespace: Some("default".into()),
            ..ObjectMeta::default()
        },
        container_hashes: containers
            .iter()
            .map(|c| ((*c).to_owned(), format!("hash-{c}")))
            .collect::<BTreeMap<_, _>>(),
        spec,
    }
}
