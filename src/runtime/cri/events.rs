//! containerd's event stream, reduced to one question: which container's main process ended?
//!
//! Invariant: an event is a hint to look, never a fact; some are lost when the stream breaks or containerd
//! restarts. It must not reconnect by itself: the reader lists anew, then subscribes again.

use futures_lite::StreamExt as _;
use futures_lite::future::Boxed;
use prost::Message as _;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use super::error::CriError;
use super::proto::event_service::events_client::EventsClient;
use super::proto::event_service::{Envelope, SubscribeRequest};
use super::proto::task_events::TaskExit;
use crate::pod::id::ContainerId;

/// containerd's CRI plugin keeps its containers in this namespace.
const FILTER: &str = "namespace==k8s.io,topic==\"/tasks/exit\"";

/// The ends of containers and sandboxes (a sandbox's pause process is a container to containerd), as they happen.
pub struct TaskExits {
    state: TaskState,
}

enum TaskState {
    /// containerd sends the head of its answer with the first event, not when it has subscribed.
    Opening(Boxed<Result<Response<Streaming<Envelope>>, Status>>),
    Open(Box<Streaming<Envelope>>),
    Ended,
}

impl std::fmt::Debug for TaskExits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TaskExits")
    }
}

impl TaskExits {
    /// The operation that its errors name.
    pub const OP: &'static str = "Subscribe";

    /// A subscription that opens at the first poll.
    pub(super) fn new(mut client: EventsClient<Channel>) -> Self {
        let request = Request::new(SubscribeRequest { filters: vec![FILTER.to_owned()] });
        Self { state: TaskState::Opening(Box::pin(async move { client.subscribe(request).await })) }
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
                TaskState::Opening(answer) => match answer.await {
                    Ok(stream) => {
                        self.state = TaskState::Open(Box::new(stream.into_inner()));
                        continue;
                    }
                    Err(status) => Some(Err(status)),
                },
                TaskState::Open(stream) => stream.next().await,
                TaskState::Ended => None,
            };
            match item {
                Some(Ok(envelope)) => {
                    if let Some(id) = main_process_exit(&envelope) {
                        return Ok(id);
                    }
                }
                ended => {
                    self.state = TaskState::Ended;
                    let closed = || Status::unavailable("the event stream was closed");
                    return Err(CriError::from_status(
                        Self::OP,
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
}
