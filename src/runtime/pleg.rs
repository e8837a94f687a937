//! What changed in the runtime: hints for the sync loop, never facts.
//!
//! Owns the event stream and the relist. Exits come from containerd's event stream; a slow relist is the net
//! under it, and a fast one takes over where there is no stream. Decides nothing about pods.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_lite::future;
use smol::Timer;
use tracing::{debug, info, warn};

use crate::pod::{ContainerId, PodUid, SandboxId, Source, keys};
use crate::runtime::cri::proto::{ContainerState, PodSandboxState};
use crate::runtime::cri::{CriClient, CriError, ErrorClass, TaskExits};
use crate::sync::handles::Handles;
use crate::sync::message::{Event, PlegEvent};
use crate::sync::node_list::{Listed, NodeList, Seen};

/// How often the node is listed where there is no event stream.
const FAST_RELIST: Duration = Duration::from_secs(1);
/// How long to wait between looks for an exit that the runtime does not show yet; the relist is behind it.
const LAG: [Duration; 11] = [
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
];
/// How soon a runtime that is away is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// Watches the runtime until the inbox is closed. `relist` is the period of the slow relist.
pub(crate) async fn run_pleg(cri: CriClient, endpoint: String, handles: Handles, relist: Duration) {
    let mut watch = RuntimeWatch { cri, endpoint, handles, period: relist, has_events: true, was_up: None };
    while !watch.handles.inbox.is_closed() {
        let error = watch.follow().await;
        let away = matches!(error.class, ErrorClass::Unavailable | ErrorClass::Timeout);
        if error.op == TaskExits::OP && !away {
            warn!(%error, every = ?FAST_RELIST, "the runtime tells of no exits: listing instead");
            watch.has_events = false;
            continue;
        }
        watch.report_down(&error).await;
        // Another runtime may come back than went.
        watch.has_events = true;
        Timer::after(RETRY).await;
    }
}

struct RuntimeWatch {
    cri: CriClient,
    endpoint: String,
    handles: Handles,
    period: Duration,
    has_events: bool,
    was_up: Option<bool>,
}

impl RuntimeWatch {
    /// Passes on exits and lists until one of them fails.
    async fn follow(&mut self) -> CriError {
        let (cri, handles, has_events) = (self.cri.clone(), self.handles.clone(), self.has_events);
        let exits = async {
            if !has_events {
                return future::pending().await;
            }
            let mut stream = cri.subscribe_task_exits();
            loop {
                match stream.next().await {
                    Ok(id) => handles.spawn(pass_on(cri.clone(), handles.clone(), id)),
                    Err(error) => return error,
                }
            }
        };
        // The stream is polled first, so that an exit is seen by it or by the list that follows.
        future::or(exits, self.list_again_and_again()).await
    }

    async fn list_again_and_again(&mut self) -> CriError {
        // An exit just before the subscription may not be in the first list yet: close together at first.
        let period = if self.has_events { self.period } else { FAST_RELIST };
        let mut wait = FAST_RELIST.min(period);
        loop {
            match list_node(&self.cri).await {
                Ok(list) => {
                    if self.was_up != Some(true) {
                        info!(pods = list.len(), "container runtime answers");
                        self.was_up = Some(true);
                    }
                    self.handles.send(Event::Pleg(PlegEvent::Listed(list))).await;
                }
                Err(error) => return error,
            }
            Timer::after(wait).await;
            wait = wait.saturating_mul(4).min(period);
        }
    }

    /// Says once that the runtime is away.
    async fn report_down(&mut self, error: &CriError) {
        if self.was_up != Some(false) {
            self.was_up = Some(false);
            warn!(endpoint = self.endpoint, %error, "container runtime is not available; waiting for it");
            self.handles.send(Event::Pleg(PlegEvent::Down(error.to_string()))).await;
        }
    }
}

/// Passes an exit on, once the runtime's own answers show it: containerd tells its CRI service and us at the same
/// moment, and we may be faster.
async fn pass_on(cri: CriClient, handles: Handles, id: ContainerId) {
    debug!(%id, "the runtime told of an exit");
    for wait in LAG {
        if !runs(&cri, &id).await {
            break;
        }
        Timer::after(wait).await;
    }
    handles.send(Event::Pleg(PlegEvent::Exited(id))).await;
}

/// The runtime still says that this container, or sandbox, runs.
async fn runs(cri: &CriClient, id: &ContainerId) -> bool {
    match cri.container_status(id).await {
        // While it is being started it counts as created, though it may have ended by now.
        Ok(status) => status.state != ContainerState::ContainerExited as i32,
        Err(error) if error.class == ErrorClass::NotFound => {
            let sandbox = cri.pod_sandbox_status(&SandboxId(id.0.clone())).await;
            sandbox.is_ok_and(|status| status.state == PodSandboxState::SandboxReady as i32)
        }
        Err(_) => false,
    }
}

/// Two List calls for the whole node.
async fn list_node(cri: &CriClient) -> Result<NodeList, CriError> {
    let sandboxes = cri.list_pod_sandbox(None).await?;
    let containers = cri.list_containers(None).await?;
    let mut list: NodeList = BTreeMap::new();
    for sandbox in sandboxes {
        let Some(name) = keys::pod_name(&sandbox.labels) else { continue };
        let listed = list.entry(name).or_default();
        let source =
            sandbox.annotations.get(keys::CONFIG_SOURCE).and_then(|text| Source::from_annotation(text));
        listed.sources.insert(source);
        listed.uids.extend(sandbox.labels.get(keys::POD_UID).cloned().map(PodUid));
        listed.seen.insert(sandbox.id, Seen::alive_if(sandbox.state == PodSandboxState::SandboxReady as i32));
    }
    for container in containers {
        let Some(name) = keys::pod_name(&container.labels) else { continue };
        let listed: &mut Listed = list.entry(name).or_default();
        listed
            .seen
            .insert(container.id, Seen::alive_if(container.state == ContainerState::ContainerRunning as i32));
    }
    Ok(list)
}
