//! What changed in the runtime: hints for the sync loop, never facts.
//!
//! Owns the event stream and the relist. Exits come from the runtime's event stream; a slow relist is the net
//! under it, and a fast one takes over where there is no stream. Decides nothing about pods.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_lite::future;
use tracing::{debug, info, warn};

use crate::pod::{ContainerId, PodUid, SandboxId, Source, keys};
use crate::runtime::cri::proto::{ContainerState, PodSandboxState};
use crate::runtime::cri::{CriClient, CriError, ErrorClass, ExitFeed};
use crate::sync::handles::Handles;
use crate::sync::message::{Event, PlegEvent};
use crate::sync::node_list::{Listed, NodeList, Seen};
use crate::time::backoff::Backoff;

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
    let mut watch = RuntimeWatch { cri, endpoint, handles, period: relist, was_up: None };
    // Not known before the runtime has said who it is.
    let mut mode = None;
    let mut failures = 0;
    while !watch.handles.inbox.is_closed() {
        let began = watch.handles.clock.uptime();
        let ended = match mode {
            None => match watch.cri.version().await {
                Ok(runtime) => {
                    mode = Some(WatchMode::Events(ExitFeed::of(&runtime)));
                    continue;
                }
                Err(error) => ModeEnd::Failed(error),
            },
            Some(mode) => watch.follow(mode).await,
        };
        if watch.handles.clock.uptime().saturating_sub(began) > Backoff::STEP.delay(u32::MAX) {
            failures = 0;
        }
        let next = after(mode, &ended, failures);
        if let (ModeEnd::Failed(error), AfterMode::Turn(WatchMode::Lists(wait))) = (&ended, next) {
            log_lost_stream(error, wait);
            failures += 1;
        }
        mode = match next {
            AfterMode::Turn(mode) => Some(mode),
            AfterMode::Ask => None,
            AfterMode::Away => {
                if let ModeEnd::Failed(error) = ended {
                    watch.report_down(&error).await;
                }
                failures = 0;
                watch.handles.clock.sleep(RETRY).await;
                // Another runtime may come back than went.
                None
            }
        };
    }
}

fn log_lost_stream(error: &CriError, wait: Option<Duration>) {
    match wait {
        None => warn!(%error, every = ?FAST_RELIST, "the runtime tells of no exits: listing instead"),
        // If the runtime is away, the first list says so.
        Some(_) if error.is_away() => debug!(%error, "the event stream has ended; listing"),
        Some(wait) => {
            warn!(%error, again_in = ?wait, "the runtime's events cannot be had; listing meanwhile");
        }
    }
}

/// How exits are learnt of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WatchMode {
    /// From this stream of events, and now and then from a list.
    Events(ExitFeed),
    /// From lists alone: for good, or until the stream is tried again.
    Lists(Option<Duration>),
}

/// Why a mode ended.
#[derive(Debug)]
enum ModeEnd {
    /// A call or the stream failed.
    Failed(CriError),
    /// It was to last so long.
    TimeIsUp,
}

/// What follows a mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterMode {
    /// This one.
    Turn(WatchMode),
    /// The one that suits the runtime.
    Ask,
    /// None for a while: the runtime is away.
    Away,
}

/// Decides what follows a mode; none is what was before the first. `failures` are those of the stream in a row.
fn after(mode: Option<WatchMode>, ended: &ModeEnd, failures: u32) -> AfterMode {
    match (mode, ended) {
        (_, ModeEnd::TimeIsUp) => AfterMode::Ask,
        (Some(WatchMode::Events(feed)), ModeEnd::Failed(error)) if error.op == feed.op() => {
            if error.class == ErrorClass::Unimplemented {
                return AfterMode::Turn(feed.next().map_or(WatchMode::Lists(None), WatchMode::Events));
            }
            // The lists show whether it is the stream alone that fails.
            AfterMode::Turn(WatchMode::Lists(Some(Backoff::STEP.delay(failures.saturating_add(1)))))
        }
        _ => AfterMode::Away,
    }
}

struct RuntimeWatch {
    cri: CriClient,
    endpoint: String,
    handles: Handles,
    period: Duration,
    was_up: Option<bool>,
}

impl RuntimeWatch {
    /// Passes on exits and lists until one of them fails, or the time is up.
    async fn follow(&mut self, mode: WatchMode) -> ModeEnd {
        let (cri, handles) = (self.cri.clone(), self.handles.clone());
        let exits = async {
            let feed = match mode {
                WatchMode::Events(feed) => feed,
                WatchMode::Lists(Some(wait)) => {
                    handles.clock.sleep(wait).await;
                    return ModeEnd::TimeIsUp;
                }
                WatchMode::Lists(None) => return future::pending().await,
            };
            let mut stream = cri.subscribe_exits(feed);
            debug!(?feed, "subscribing to the runtime's events");
            loop {
                match stream.next().await {
                    Ok(id) => handles.spawn(pass_on(cri.clone(), handles.clone(), id)),
                    Err(error) => return ModeEnd::Failed(error),
                }
            }
        };
        let period = if matches!(mode, WatchMode::Events(_)) { self.period } else { FAST_RELIST };
        let lists = async { ModeEnd::Failed(self.list_again_and_again(period).await) };
        // The stream is polled first, so that an exit is seen by it or by the list that follows.
        future::or(exits, lists).await
    }

    async fn list_again_and_again(&mut self, period: Duration) -> CriError {
        // An exit just before the subscription may not be in the first list yet: close together at first.
        let mut wait = FAST_RELIST.min(period);
        let mut before: Option<Duration> = None;
        loop {
            let begun = self.handles.clock.uptime();
            match list_node(&self.cri).await {
                Ok(list) => {
                    let since = before.replace(begun).map(|before| begun.saturating_sub(before));
                    let took = self.handles.clock.uptime().saturating_sub(begun);
                    let now = self.handles.clock.now();
                    self.handles.telemetry.metrics.observe_relist(took, since, now);
                    if self.was_up != Some(true) {
                        info!(pods = list.len(), "container runtime answers");
                        self.was_up = Some(true);
                    }
                    self.handles.send(Event::Pleg(PlegEvent::Listed(list))).await;
                }
                Err(error) => return error,
            }
            self.handles.clock.sleep(wait).await;
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
        handles.clock.sleep(wait).await;
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

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Status;

    #[test]
    fn what_follows_a_failure() {
        let seconds = |n| AfterMode::Turn(WatchMode::Lists(Some(Duration::from_secs(n))));
        let (cri, own) = (WatchMode::Events(ExitFeed::Cri), WatchMode::Events(ExitFeed::Containerd));
        let unknown = || Status::unimplemented("unknown method");
        let broken = || Status::internal("broken");
        let away = || Status::unavailable("closed");
        for (mode, op, status, failures, expect) in [
            (cri, "GetContainerEvents", unknown(), 0, AfterMode::Turn(own)),
            (own, "Subscribe", unknown(), 0, AfterMode::Turn(WatchMode::Lists(None))),
            (cri, "GetContainerEvents", broken(), 0, seconds(1)),
            (cri, "GetContainerEvents", broken(), 2, seconds(4)),
            (cri, "GetContainerEvents", broken(), u32::MAX, seconds(60)),
            (own, "Subscribe", away(), 0, seconds(1)),
            (cri, "ListPodSandbox", away(), 0, AfterMode::Away),
            (own, "ListContainers", unknown(), 0, AfterMode::Away),
            (WatchMode::Lists(None), "ListContainers", broken(), 0, AfterMode::Away),
            (WatchMode::Lists(Some(Duration::ZERO)), "ListContainers", away(), 3, AfterMode::Away),
        ] {
            let ended = ModeEnd::Failed(CriError::from_status(op, &status));
            assert_eq!(after(Some(mode), &ended, failures), expect, "{mode:?} {ended:?}");
        }
        let failed = ModeEnd::Failed(CriError::from_status("Version", &away()));
        assert_eq!(after(None, &failed, 0), AfterMode::Away);
        assert_eq!(after(Some(WatchMode::Lists(None)), &ModeEnd::TimeIsUp, 3), AfterMode::Ask);
    }
}
