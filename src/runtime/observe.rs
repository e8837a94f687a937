//! Reads what the runtime holds for one pod name: two lists, and a status call for what changed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use futures_lite::future;
use jiff::Timestamp;

use super::{Answer, PodObserver, Runtime};
use crate::host::termination_message;
use crate::host::volume::absolute;
use crate::pod::hook::Hook;
use crate::pod::observed::{Container, ContainerState, Exit, Observed, Sandbox};
use crate::pod::termination_message::{MessageFallback, joined};
use crate::pod::{ConfigHash, ContainerId, PodName, PodUid, SandboxId, keys, signal};
use crate::runtime::cri::proto::{
    self, ContainerFilter, ContainerState as CriState, PodSandboxFilter, PodSandboxState,
};
use crate::runtime::cri::{CriError, ErrorClass};

/// What was seen before: a status is asked for once per state.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    sandboxes: RememberedDetails<Sandbox>,
    containers: RememberedDetails<Container>,
}

/// Each with the state that the runtime listed it in. A list: a worker keeps one at rest, and a map takes four times the
/// memory for the one or two entries that most have.
#[derive(Debug)]
struct RememberedDetails<T>(Vec<(i32, T)>);

impl<T> Default for RememberedDetails<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: HasId> RememberedDetails<T> {
    /// Takes out the one with this id, if it was in this state.
    fn take(&mut self, id: &str, state: i32) -> Option<T> {
        let at = self.0.iter().position(|(_, one)| one.id() == id)?;
        let (was, one) = self.0.swap_remove(at);
        (was == state).then_some(one)
    }

    /// Adds one, in place of the one with its id.
    fn insert(&mut self, state: i32, one: T) {
        match self.0.iter_mut().find(|(_, other)| other.id() == one.id()) {
            Some(place) => *place = (state, one),
            None => {
                self.0.reserve_exact(1);
                self.0.push((state, one));
            }
        }
    }
}

/// What the runtime has given an id.
trait HasId {
    fn id(&self) -> &str;
}

impl HasId for Sandbox {
    fn id(&self) -> &str {
        self.id.as_str()
    }
}

impl HasId for Container {
    fn id(&self) -> &str {
        self.id.as_str()
    }
}

impl PodObserver for Runtime {
    fn observe<'a>(
        &'a self,
        pod: &'a PodName,
        cache: &'a mut Cache,
    ) -> Answer<'a, Result<Observed, CriError>> {
        Box::pin(async move {
            let labels = BTreeMap::from([
                (keys::POD_NAME.to_owned(), pod.name.clone()),
                (keys::POD_NAMESPACE.to_owned(), pod.namespace.clone()),
            ]);
            let sandboxes = PodSandboxFilter { label_selector: labels.clone(), ..Default::default() };
            let containers = ContainerFilter { label_selector: labels, ..Default::default() };
            let (sandboxes, containers) = future::try_zip(
                self.cri.list_pod_sandbox(Some(sandboxes)),
                self.cri.list_containers(Some(containers)),
            )
            .await?;

            let mut observed = Observed::default();
            let mut seen = Cache::default();
            for listed in sandboxes {
                let sandbox = match cache.sandboxes.take(&listed.id, listed.state) {
                    Some(sandbox) => sandbox,
                    None => match gone(self.observe_sandbox(&listed).await)? {
                        Some(sandbox) => sandbox,
                        None => continue,
                    },
                };
                seen.sandboxes.insert(listed.state, sandbox.clone());
                observed.sandboxes.push(sandbox);
            }
            for listed in containers {
                let container = match cache.containers.take(&listed.id, listed.state) {
                    Some(container) => container,
                    None => match gone(self.observe_container(&listed).await)? {
                        Some(container) => container,
                        None => continue,
                    },
                };
                seen.containers.insert(listed.state, container.clone());
                observed.containers.push(container);
            }
            *cache = seen;
            Ok(observed)
        })
    }

    fn observe_made<'a>(
        &'a self,
        mut observed: Observed,
        made: &'a [Made],
        cache: &'a mut Cache,
    ) -> Answer<'a, Result<Observed, CriError>> {
        Box::pin(async move {
            for made in made {
                match made {
                    Made::Sandbox(id) => {
                        let mut status = self.cri.pod_sandbox_status(id).await?;
                        let network = status.network.take();
                        let listed = proto::PodSandbox {
                            id: status.id,
                            metadata: status.metadata,
                            state: status.state,
                            created_at: status.created_at,
                            labels: status.labels,
                            annotations: status.annotations,
                            ..proto::PodSandbox::default()
                        };
                        let sandbox = sandbox(&listed, network);
                        cache.sandboxes.insert(listed.state, sandbox.clone());
                        observed.sandboxes.push(sandbox);
                    }
                    Made::Container { id, sandbox } => {
                        let status = self.cri.container_status(id).await?;
                        let listed = proto::Container {
                            id: status.id.clone(),
                            pod_sandbox_id: sandbox.0.clone(),
                            metadata: status.metadata.clone(),
                            state: status.state,
                            created_at: status.created_at,
                            labels: status.labels.clone(),
                            annotations: status.annotations.clone(),
                            ..proto::Container::default()
                        };
                        let container = container(&listed, status, &self.node.boot_id).await;
                        cache.containers.insert(listed.state, container.clone());
                        observed.containers.push(container);
                    }
                }
            }
            Ok(observed)
        })
    }

    fn node_ips(&self) -> Vec<String> {
        self.node.node_ips.get()
    }
}

impl Runtime {
    async fn observe_sandbox(&self, listed: &proto::PodSandbox) -> Result<Sandbox, CriError> {
        let network = if is_ready(listed) {
            self.cri.pod_sandbox_status(&SandboxId(listed.id.clone())).await?.network
        } else {
            None
        };
        Ok(sandbox(listed, network))
    }

    async fn observe_container(&self, listed: &proto::Container) -> Result<Container, CriError> {
        let status = self.cri.container_status(&ContainerId(listed.id.clone())).await?;
        Ok(container(listed, status, &self.node.boot_id).await)
    }
}

/// What a worker has just made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Made {
    /// A sandbox.
    Sandbox(SandboxId),
    /// A container.
    Container {
        /// Which.
        id: ContainerId,
        /// Where.
        sandbox: SandboxId,
    },
}

fn is_ready(listed: &proto::PodSandbox) -> bool {
    listed.state == PodSandboxState::SandboxReady as i32
}

fn sandbox(listed: &proto::PodSandbox, network: Option<proto::PodSandboxNetworkStatus>) -> Sandbox {
    let ready = is_ready(listed);
    let addresses = network.filter(|_| ready).map(|network| {
        let more = network.additional_ips.into_iter().map(|ip| ip.ip);
        [network.ip].into_iter().chain(more).filter(|ip| !ip.is_empty()).collect()
    });
    let label = |key: &str| listed.labels.get(key).cloned().unwrap_or_default();
    Sandbox {
        id: SandboxId(listed.id.clone()),
        uid: PodUid(label(keys::POD_UID)),
        hash: listed.annotations.get(keys::CONFIG_HASH).cloned().map(ConfigHash),
        attempt: listed.metadata.as_ref().map_or(0, |m| m.attempt),
        // One whose start was cut short has no time.
        created_at: time(listed.created_at).unwrap_or_else(Timestamp::now),
        ready,
        ips: addresses.unwrap_or_default(),
    }
}

async fn container(
    listed: &proto::Container,
    mut status: proto::ContainerStatus,
    boot_id: &str,
) -> Container {
    let message = match CriState::try_from(listed.state) {
        Ok(CriState::ContainerExited) => closing_message(&mut status).await,
        _ => String::new(),
    };
    let label = |key: &str| listed.labels.get(key).cloned().unwrap_or_default();
    let annotation = |key: &str| listed.annotations.get(key);
    let started_at = time(status.started_at);
    Container {
        id: ContainerId(listed.id.clone()),
        sandbox: SandboxId(listed.pod_sandbox_id.clone()),
        uid: PodUid(label(keys::POD_UID)),
        name: label(keys::CONTAINER_NAME),
        attempt: listed.metadata.as_ref().map_or(0, |m| m.attempt),
        hash: annotation(keys::CONTAINER_HASH).cloned().unwrap_or_default(),
        crashes: annotation(keys::CRASHES).and_then(|n| n.parse().ok()).unwrap_or(0),
        round: annotation(keys::ROUND).and_then(|n| n.parse().ok()).unwrap_or(0),
        sidecar: annotation(keys::SIDECAR).and_then(|n| n.parse().ok()),
        grace: annotation(keys::GRACE_PERIOD).and_then(|n| n.parse().ok()),
        pre_stop: annotation(keys::PRE_STOP_HANDLER)
            .and_then(|handler| pre_stop(handler, annotation(keys::CONTAINER_PORTS), &listed.id)),
        // A runtime that knows of stop signals tells the one that it will send.
        stop_signal: annotation(keys::STOP_SIGNAL)
            .filter(|_| status.stop_signal == proto::Signal::RuntimeDefault as i32)
            .and_then(|name| signal::number(name)),
        // One that does not say was made by an earlier version, in whatever boot.
        earlier_boot: annotation(keys::BOOT_ID).is_some_and(|made_in| made_in != boot_id),
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
                message,
            }),
            Ok(CriState::ContainerUnknown) | Err(_) => ContainerState::Unknown,
        },
    }
}

/// The preStop hook that a container was created with.
fn pre_stop(handler: &str, ports: Option<&String>, container: &str) -> Option<Hook> {
    let hook = Hook::from_annotations(handler, ports.map(String::as_str));
    // Read once per state of the container, and said as often.
    hook.inspect_err(|error| tracing::warn!(container, %error, "cannot read the preStop hook of a container"))
        .ok()
}

/// The runtime's sentence about an end, and the container's termination message. Where they lie is in the runtime's own list of
/// mounts, as kubelet looks it up.
async fn closing_message(status: &mut proto::ContainerStatus) -> String {
    let annotation = |key: &str| status.annotations.get(key).map_or("", String::as_str);
    let policy = annotation(keys::TERMINATION_MESSAGE_POLICY);
    let fallback = MessageFallback::by_policy(policy, status.exit_code, &status.reason);
    let path = annotation(keys::TERMINATION_MESSAGE_PATH);
    let mount = status.mounts.iter().find(|mount| !path.is_empty() && mount.container_path == absolute(path));
    let file = mount.map(|mount| PathBuf::from(&mount.host_path));
    let log = PathBuf::from(&status.log_path);
    let words = smol::unblock(move || termination_message::read(file.as_deref(), &log, fallback)).await;
    joined(std::mem::take(&mut status.message), &words)
}

/// What vanished between list and status is not there.
fn gone<T>(result: Result<T, CriError>) -> Result<Option<T>, CriError> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.class == ErrorClass::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// CRI counts nanoseconds; zero means never, and so does what Go makes of a time that was not set, long before 1970.
fn time(nanoseconds: i64) -> Option<Timestamp> {
    if nanoseconds <= 0 { None } else { Timestamp::from_nanosecond(i128::from(nanoseconds)).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::testing::container;

    #[test]
    fn what_was_seen_is_taken_once_and_only_in_the_same_state() {
        let named = |id: &str, crashes| Container {
            id: ContainerId::from(id),
            crashes,
            ..container("main", ContainerState::Created)
        };
        let mut cache = RememberedDetails::default();
        cache.insert(0, named("a", 1));
        cache.insert(1, named("b", 1));
        cache.insert(1, named("a", 2));
        assert_eq!(cache.0.len(), 2, "one per id");
        assert_eq!(cache.take("c", 1), None);
        assert_eq!(cache.take("a", 1), Some(named("a", 2)), "the newer");
        assert_eq!(cache.take("a", 1), None);
        assert_eq!(cache.take("b", 2), None, "its state has changed");
        assert_eq!(cache.0.len(), 0);
    }

    #[test]
    fn a_time_that_was_not_set_is_none() {
        assert_eq!(time(0), None);
        assert_eq!(time(-6_795_364_578_871_345_152), None, "as containerd writes it");
        assert_eq!(time(1_000_000_000), Timestamp::from_second(1).ok());
    }
}
