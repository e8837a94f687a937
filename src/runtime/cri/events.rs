//! The runtime's event stream, reduced to one question: which container's main process ended?
//!
//! Invariant: an event is a hint to look, never a fact; some are lost when the stream breaks or the runtime
//! restarts. It must not reconnect by itself: the reader lists anew, then subscribes again.

use std::pin::Pin;

use futures_lite::future::Boxed;
use futures_lite::{Stream, StreamExt as _};
use prost::Message as _;
use tonic::transport::Channel;
use tonic::{Request, Status};

use super::error::CriError;
use super::proto::event_service::events_client::EventsClient;
use super::proto::event_service::{Envelope, SubscribeRequest};
use super::proto::runtime_service_client::RuntimeServiceClient;
use super::proto::task_events::TaskExit;
use super::proto::{ContainerEventResponse, ContainerEventType, GetEventsRequest};
use super::version::RuntimeVersion;
use crate::pod::id::ContainerId;

/// containerd's CRI plugin keeps its containers in this namespace.
const FILTER: &str = "namespace==k8s.io,topic==\"/tasks/exit\"";

/// A service that tells of ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitFeed {
    /// CRI's own.
    Cri,
    /// containerd's service of events.
    Containerd,
}

impl ExitFeed {
    /// The one to try first. containerd 1.6 has no events in CRI. 1.7 has, but gives each to one subscriber only, and
    /// one that has gone takes one with it (containerd issue 7318); its own service tells all.
    pub fn of(runtime: &RuntimeVersion) -> Self {
        let version = runtime.version.trim_start_matches('v');
        let is_old = runtime.name == "containerd" && version.starts_with("1.");
        if is_old { Self::Containerd } else { Self::Cri }
    }

    /// The one to try where the runtime does not have this one.
    pub fn next(self) -> Option<Self> {
        (self == Self::Cri).then_some(Self::Containerd)
    }

    /// The operation that its errors name.
    pub fn op(self) -> &'static str {
        match self {
            Self::Cri => "GetContainerEvents",
            Self::Containerd => "Subscribe",
        }
    }
}

/// The ends of containers and sandboxes (whose pause process is a container too), as they happen.
pub struct RuntimeExits {
    feed: ExitFeed,
    state: FeedState,
}

/// Each event as the container that it tells the end of, if it does.
type FeedItems = Pin<Box<dyn Stream<Item = Result<Option<ContainerId>, Status>> + Send>>;

enum FeedState {
    /// The head of the answer comes with the first event, not when the runtime has subscribed us.
    Opening(Boxed<Result<FeedItems, Status>>),
    Open(FeedItems),
    Ended,
}

impl std::fmt::Debug for RuntimeExits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RuntimeExits").field(&self.feed).finish()
    }
}

impl RuntimeExits {
    /// A subscription to containerd's service, which opens at the first poll.
    pub(super) fn of_containerd(mut client: EventsClient<Channel>) -> Self {
        let request = Request::new(SubscribeRequest { filters: vec![FILTER.to_owned()] });
        let opening = async move {
            let events = client.subscribe(request).await?.into_inner();
            Ok(Box::pin(events.map(|event| event.map(|event| main_process_exit(&event)))) as FeedItems)
        };
        Self { feed: ExitFeed::Containerd, state: FeedState::Opening(Box::pin(opening)) }
    }

    /// A subscription to CRI's events, which opens at the first poll.
    pub(super) fn of_cri(mut client: RuntimeServiceClient<Channel>) -> Self {
        let opening = async move {
            let events = client.get_container_events(Request::new(GetEventsRequest {})).await?.into_inner();
            Ok(Box::pin(events.map(|event| event.map(|event| stopped(&event)))) as FeedItems)
        };
        Self { feed: ExitFeed::Cri, state: FeedState::Opening(Box::pin(opening)) }
    }

    /// The next container, or sandbox, whose main process ended.
    ///
    /// Nothing is sent before the first poll. Has no deadline; may be dropped and called again without
    /// losing an event.
    ///
    /// # Errors
    /// When the stream cannot be had, breaks or is closed: after that there is nothing more.
    pub async fn next(&mut self) -> Result<ContainerId, CriError> {
        loop {
            let item = match &mut self.state {
                FeedState::Opening(answer) => match answer.await {
                    Ok(stream) => {
                        self.state = FeedState::Open(stream);
                        continue;
                    }
                    Err(status) => Some(Err(status)),
                },
                FeedState::Open(stream) => stream.next().await,
                FeedState::Ended => None,
            };
            match item {
                Some(Ok(Some(id))) => return Ok(id),
                Some(Ok(None)) => {}
                ended => {
                    self.state = FeedState::Ended;
                    let closed = || Status::unavailable("the event stream was closed");
                    return Err(CriError::from_status(
                        self.feed.op(),
                        &ended.and_then(Result::err).unwrap_or_else(closed),
                    ));
                }
            }
        }
    }
}

/// The container that ended with this event. An event that we cannot read is none: the next relist sees it.
fn main_process_exit(envelope: &Envelope) -> Option<ContainerId> {
    let event =
        envelope.event.as_ref().filter(|event| event.type_url.ends_with("containerd.events.TaskExit"))?;
    let exit = TaskExit::decode(event.value.as_slice()).ok()?;
    (exit.id == exit.container_id).then_some(ContainerId(exit.container_id))
}

/// The same for CRI's events.
fn stopped(event: &ContainerEventResponse) -> Option<ContainerId> {
    let stopped = event.container_event_type == ContainerEventType::ContainerStoppedEvent as i32;
    (stopped && !event.container_id.is_empty()).then(|| ContainerId(event.container_id.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::cri::proto::event_service::Any;

    fn envelope(type_url: &str, value: Vec<u8>) -> Envelope {
        Envelope { event: Some(Any { type_url: type_url.to_owned(), value }), ..Envelope::default() }
    }

    #[test]
    fn only_the_end_of_a_main_process_counts() {
        let exit = |id: &str| {
            TaskExit { container_id: "c1".to_owned(), id: id.to_owned(), ..TaskExit::default() }
                .encode_to_vec()
        };
        let url = "containerd.events.TaskExit";
        assert_eq!(main_process_exit(&envelope(url, exit("c1"))), Some("c1".into()));
        let prefixed = format!("type.googleapis.com/{url}");
        assert_eq!(main_process_exit(&envelope(&prefixed, exit("c1"))), Some("c1".into()));
        assert_eq!(main_process_exit(&envelope(url, exit("probe-7"))), None);
        assert_eq!(main_process_exit(&envelope("containerd.events.TaskOOM", exit("c1"))), None);
        assert_eq!(main_process_exit(&envelope(url, vec![0xff])), None);
        assert_eq!(main_process_exit(&Envelope::default()), None);
    }

    #[test]
    fn only_a_stop_counts() {
        use ContainerEventType::*;
        for (kind, id, expect) in [
            (ContainerCreatedEvent, "c1", None),
            (ContainerStartedEvent, "c1", None),
            (ContainerStoppedEvent, "c1", Some("c1")),
            (ContainerStoppedEvent, "", None),
            (ContainerDeletedEvent, "c1", None),
        ] {
            let event = ContainerEventResponse {
                container_id: id.to_owned(),
                container_event_type: kind as i32,
                ..ContainerEventResponse::default()
            };
            assert_eq!(stopped(&event), expect.map(Into::into), "{kind:?} {id:?}");
        }
    }

    #[test]
    fn feeds_by_version() {
        for (name, version, feed) in [
            ("containerd", "1.6.20~ds1", ExitFeed::Containerd),
            ("containerd", "v1.7.24", ExitFeed::Containerd),
            ("containerd", "v2.1.9", ExitFeed::Cri),
            ("containerd", "2.0.0", ExitFeed::Cri),
            ("containerd", "v10.0.0", ExitFeed::Cri),
            ("containerd", "", ExitFeed::Cri),
            ("cri-o", "1.31.0", ExitFeed::Cri),
        ] {
            let runtime = RuntimeVersion { name: name.to_owned(), version: version.to_owned() };
            assert_eq!(ExitFeed::of(&runtime), feed, "{name} {version}");
        }
        assert_eq!(ExitFeed::Cri.next(), Some(ExitFeed::Containerd));
        assert_eq!(ExitFeed::Containerd.next(), None);
    }
}
