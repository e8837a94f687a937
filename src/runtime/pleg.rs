//! What changed in the runtime: hints for the sync loop, never facts.
//!
//! Owns the event stream and the relist. Exits come from containerd's event stream; a slow relist is the net
//! under it, and a fast one takes over where there is no stream. Decides nothing about pods.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_channel::Sender;
use futures_lite::future;
use smol::{Executor, Timer};
use tracing::{debug, info, warn};

use crate::pod::{ContainerId, SandboxId, Source, keys};
use crate::runtime::cri::proto::{ContainerState, PodSandboxState};
use crate::runtime::cri::{CriClient, CriError, ErrorClass, TaskExits};
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
pub(crate) async fn run_pleg(
    cri: CriClient,
    endpoint: String,
    executor: Arc<Executor<'static>>,
    inbox: Sender<Event>,
    relist: Duration,
) {
    let mut watch = Watch { cri, endpoint, inbox, executor, period: relist, has_events: true, was_up: None };
    while !watch.inbox.is_closed() {
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

struct Watch {
    cri: CriClient,
    endpoint: String,
    inbox: Sender<Event>,
    executor: Arc<Executor<'static>>,
    period: Duration,
    has_events: bool,
    was_up: Option<bool>,
}

impl Watch {
    /// Passes on exits and lists until one of them fails.
    async fn follow(&mut self) -> CriError {
        let (cri, inbox, has_events) = (self.cri.clone(), self.inbox.clone(), self.has_events);
        let executor = self.executor.clone();
        let exits = async {
            if !has_events {
                return future::pending().await;
            }
            let mut stream = cri.subscribe_task_exits();
            loop {
                match stream.next().await {
                    Ok(id) => executor.spawn(pass_on(cri.clone(), inbox.clone(), id)).detach(),
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
                    send(&self.inbox, PlegEvent::Listed(list)).await;
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
            send(&self.inbox, PlegEvent::Down(error.to_string())).await;
        }
    }
}

/// Passes an exit on, once the runtime's own answers show it: containerd tells its CRI service and us at the same
/// moment, and we may be faster.
async fn pass_on(cri: CriClient, inbox: Sender<Event>, id: ContainerId) {
    debug!(%id, "the runtime told of an exit");
    for wait in LAG {
        if !runs(&cri, &id).await {
            break;
        }
        Timer::after(wait).await;
    }
    send(&inbox, PlegEvent::Exited(id)).await;
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

/// The loop that we report to ends with the agent: then nobody is left to tell.
async fn send(inbox: &Sender<Event>, event: PlegEvent) {
    let _ = inbox.send(Event::Pleg(event)).await;
}

/// Two List calls for the whole node.
async fn list_node(cri: &CriClient) -> Result<NodeList, CriError> {
    let sandboxes = cri.list_pod_sandbox(None).await?;
    let containers = cri.list_containers(None).await?;
    let mut list: NodeList = BTreeMap::new();
    for sandbox in sandboxes {
        let Some(name) = keys::pod_name(&sandbox.labels) else { continue };
        let listed = list.entry(name).or_default();
        listed.source =
            sandbox.annotations.get(keys::CONFIG_SOURCE).and_then(|text| Source::from_annotation(text));
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
