//! Pods for the tables of the pure rooms.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::annotations::AFTER;
use super::observed::{self, ContainerState};
use super::{ConfigHash, ContainerId, Pod, PodName, PodUid, SandboxId, Source};

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
        container_hashes: containers.iter().map(|c| ((*c).to_owned(), format!("hash-{c}"))).collect(),
        spec,
    }
}

/// A container of sandbox `s` in this state, whose id is its name.
pub(crate) fn container(name: &str, state: ContainerState) -> observed::Container {
    observed::Container {
        id: ContainerId::from(name),
        sandbox: SandboxId::from("s"),
        uid: PodUid::from("u"),
        name: name.into(),
        attempt: 0,
        hash: format!("hash-{name}"),
        crashes: 0,
        round: 0,
        sidecar: None,
        grace: None,
        pre_stop: None,
        stop_signal: None,
        earlier_boot: false,
        image: "image:1".into(),
        image_ref: "sha256:1".into(),
        created_at: Timestamp::UNIX_EPOCH,
        state,
    }
}
