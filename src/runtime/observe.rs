//! Reads what the runtime holds for one pod name: two lists, and a status call for what changed.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;

use super::Runtime;
use crate::cri::proto::{
    self, ContainerFilter, ContainerState as CriState, PodSandboxFilter, PodSandboxState,
};
use crate::cri::{CriError, ErrorClass};
use crate::observed::{Container, ContainerState, Exit, Observed, Sandbox};
use crate::pod::{ConfigHash, ContainerId, PodName, PodUid, SandboxId, keys};

/// What was seen before: a status is asked for once per state.
#[derive(Debug, Default)]
pub struct Cache {
    sandboxes: HashMap<String, (i32, Sandbox)>,
    containers: HashMap<String, (i32, Container)>,
}

impl Runtime {
    /// Reads all instances of a pod name.
    ///
    /// # Errors
    /// When a call fails; what vanished between two calls is no error.
    pub async fn observe_pod(&self, name: &PodName, cache: &mut Cache) -> Result<Observed, CriError> {
        let labels = BTreeMap::from([
            (keys::POD_NAME.to_owned(), name.name.clone()),
            (keys::POD_NAMESPACE.to_owned(), name.namespace.clone()),
        ]);
        let sandboxes = self
            .cri
            .list_pod_sandbox(Some(PodSandboxFilter { label_selector: labels.clone(), ..Default::default() }))
            .await?;
        let containers = self
            .cri
            .list_containers(Some(ContainerFilter { label_selector: labels, ..Default::default() }))
            .await?;

        let mut observed = Observed::default();
        let mut seen = Cache::default();
        for listed in sandboxes {
            let sandbox = match cache.sandboxes.remove(&listed.id) {
                Some((state, sandbox)) if state == listed.state => sandbox,
                _ => match gone(self.observe_sandbox(&listed).await)? {
                    Some(sandbox) => sandbox,
                    None => continue,
                },
            };
            seen.sandboxes.insert(listed.id, (listed.state, sandbox.clone()));
            observed.sandboxes.push(sandbox);
        }
        for listed in containers {
            let container = match cache.containers.remove(&listed.id) {
                Some((state, container)) if state == listed.state => container,
                _ => match gone(self.observe_container(&listed).await)? {
                    Some(container) => container,
                    None => continue,
                },
            };
            seen.containers.insert(listed.id, (listed.state, container.clone()));
            observed.containers.push(container);
        }
        *cache = seen;
        Ok(observed)
    }

    async fn observe_sandbox(&self, listed: &proto::PodSandbox) -> Result<Sandbox, CriError> {
        let id = SandboxId(listed.id.clone());
        let ready = listed.state == PodSandboxState::SandboxReady as i32;
        let mut ips = Vec::new();
        if ready && let Some(network) = self.cri.pod_sandbox_status(&id).await?.network {
            let more = network.additional_ips.into_iter().map(|ip| ip.ip);
            ips.extend([network.ip].into_iter().chain(more).filter(|ip| !ip.is_empty()));
        }
        let label = |key: &str| listed.labels.get(key).cloned().unwrap_or_default();
        Ok(Sandbox {
            id,
            uid: PodUid(label(keys::POD_UID)),
            hash: listed.annotations.get(keys::CONFIG_HASH).cloned().map(ConfigHash),
            attempt: listed.metadata.as_ref().map_or(0, |m| m.attempt),
            created_at: time(listed.created_at).unwrap_or_default(),
            ready,
            ips,
        })
    }

    async fn observe_container(&self, listed: &proto::Container) -> Result<Container, CriError> {
        let id = ContainerId(listed.id.clone());
        let status = self.cri.container_status(&id).await?;
        let label = |key: &str| listed.labels.get(key).cloned().unwrap_or_default();
        let annotation = |key: &str| listed.annotations.get(key);
        let started_at = time(status.started_at);
        Ok(Container {
            id,
            sandbox: SandboxId(listed.pod_sandbox_id.clone()),
            uid: PodUid(label(keys::POD_UID)),
            name: label(keys::CONTAINER_NAME),
            attempt: listed.metadata.as_ref().map_or(0, |m| m.attempt),
            hash: annotation(keys::CONTAINER_HASH).cloned().unwrap_or_default(),
            crashes: annotation(keys::CRASHES).and_then(|n| n.parse().ok()).unwrap_or(0),
            sidecar: annotation(keys::SIDECAR).and_then(|n| n.parse().ok()),
            grace: annotation(keys::GRACE_PERIOD).and_then(|n| n.parse().ok()),
            image: status.image.map(|image| image.image).unwrap_or_default(),
            image_ref: status.image_ref,
            created_at: time(listed.created_at).unwrap_or_default(),
            // The list's state, which the cache compares: a later one shows up in the next list.
            state: match CriState::try_from(listed.state) {
                Ok(CriState::ContainerCreated) => ContainerState::Created,
                Ok(CriState::ContainerRunning) => {
                    ContainerState::Running { started_at: started_at.unwrap_or_default() }
                }
                Ok(CriState::ContainerExited) => ContainerState::Exited(Exit {
                    started_at,
                    finished_at: time(status.finished_at).unwrap_or_default(),
                    code: status.exit_code,
                    reason: status.reason,
                    message: status.message,
                }),
                Ok(CriState::ContainerUnknown) | Err(_) => ContainerState::Unknown,
            },
        })
    }
}

/// What vanished between list and status is not there.
fn gone<T>(result: Result<T, CriError>) -> Result<Option<T>, CriError> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.class == ErrorClass::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// CRI counts nanoseconds; zero means never.
fn time(nanoseconds: i64) -> Option<Timestamp> {
    if nanoseconds == 0 { None } else { Timestamp::from_nanosecond(i128::from(nanoseconds)).ok() }
}
