//! What changed in the runtime: hints for the sync loop, never facts.
//!
//! Owns the event stream and the relist. Exits come from containerd's event stream; a slow relist is the net
//! under it, and a fast one takes over where there is no stream. Decides nothing about pods.

pub mod diff;

use std::collections::BTreeMap;
use std::time::Duration;

use async_channel::Sender;
use futures_lite::future;
use smol::Timer;
use tracing::{debug, info, warn};

use crate::cri::proto::{ContainerState, PodSandboxState};
use crate::cri::{CriClient, CriError, ErrorClass, TaskExits};
use crate::pod::{ContainerId, Source, keys};
use diff::{Listed, NodeList, Seen};

/// How often the node is listed where there is no event stream.
const FAST_RELIST: Duration = Duration::from_secs(1);
/// How soon a runtime that is away is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// A hint.
#[derive(Debug)]
pub enum PlegEvent {
    /// The runtime answered with all that it holds.
    Listed(NodeList),
    /// The main process of a container ended.
    Exited(ContainerId),
    /// The runtime does not answer.
    Down(String),
}

/// Watches the runtime until the inbox is closed. `relist` is the period of the slow relist.
pub async fn run_pleg(cri: CriClient, inbox: Sender<PlegEvent>, relist: Duration) {
    let mut was_up = None;
    let mut has_events = true;
    loop {
        // Subscribe first, list second: an exit between the two is seen by one of them.
        let mut stream = match subscribe(&cri, &mut has_events).await {
            Ok(stream) => stream,
            Err(error) => {
                if !report_down(&inbox, &error, &mut was_up).await {
                    return;
                }
                Timer::after(RETRY).await;
                continue;
            }
        };
        let error = loop {
            match list_node(&cri).await {
                Ok(list) => {
                    if was_up != Some(true) {
                        info!(sandboxes = list.len(), events = stream.is_some(), "container runtime answers");
                        was_up = Some(true);
                    }
                    if inbox.send(PlegEvent::Listed(list)).await.is_err() {
                        return;
                    }
                }
                Err(error) => break error,
            }
            let waited = match &mut stream {
                Some(stream) => follow(stream, &inbox, relist).await,
                None => {
                    Timer::after(FAST_RELIST).await;
                    Ok(())
                }
            };
            if let Err(error) = waited {
                break error;
            }
            if inbox.is_closed() {
                return;
            }
        };
        debug!(%error, "lost the runtime's events");
        if error.class == ErrorClass::Unavailable && !report_down(&inbox, &error, &mut was_up).await {
            return;
        }
        Timer::after(RETRY).await;
    }
}

/// Opens the event stream; `None` where the runtime has none.
async fn subscribe(cri: &CriClient, has_events: &mut bool) -> Result<Option<TaskExits>, CriError> {
    if !*has_events {
        return Ok(None);
    }
    match cri.subscribe_task_exits().await {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if error.class == ErrorClass::Unimplemented => {
            warn!(every = ?FAST_RELIST, "the runtime has no event stream that we know: listing instead");
            *has_events = false;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Passes exits on until the next relist is due.
async fn follow(stream: &mut TaskExits, inbox: &Sender<PlegEvent>, relist: Duration) -> Result<(), CriError> {
    let exits = async {
        while let Some(id) = stream.next().await? {
            if inbox.send(PlegEvent::Exited(id)).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    };
    let due = async {
        Timer::after(relist).await;
        Ok(())
    };
    future::or(exits, due).await
}

/// Says once that the runtime is away. False when nobody listens any more.
async fn report_down(inbox: &Sender<PlegEvent>, error: &CriError, was_up: &mut Option<bool>) -> bool {
    if *was_up == Some(false) {
        return true;
    }
    *was_up = Some(false);
    warn!(%error, "container runtime is not available; waiting for it");
    inbox.send(PlegEvent::Down(error.to_string())).await.is_ok()
}

/// Two List calls for the whole node.
async fn list_node(cri: &CriClient) -> Result<NodeList, CriError> {
    let sandboxes = cri.list_pod_sandbox(None).await?;
    let containers = cri.list_containers(None).await?;
    let mut list: NodeList = BTreeMap::new();
    for sandbox in sandboxes {
        let Some(name) = keys::pod_name(&sandbox.labels) else { continue };
        let listed = list.entry(name).or_default();
        listed.source = sandbox.annotations.get(keys::CONFIG_SOURCE).and_then(|text| Source::from_annotation(text));
        listed.seen.insert(sandbox.id, Seen::alive_if(sandbox.state == PodSandboxState::SandboxReady as i32));
    }
    for container in containers {
        let Some(name) = keys::pod_name(&container.labels) else { continue };
        let listed: &mut Listed = list.entry(name).or_default();
        listed.seen.insert(container.id, Seen::alive_if(container.state == ContainerState::ContainerRunning as i32));
    }
    Ok(list)
}

