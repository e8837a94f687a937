//! Events: what happened to pods and the node that somebody may want to read later, as kubelet records it.
//!
//! Owns the newest events, in memory; the server lists them, and `host::event_log` keeps them on disk. `record` and
//! `warn_of_pod` log what they record, so callers must not log it again; `note` is for what the caller has logged.
//! Must not: be used for a decision.

pub(crate) mod changes;
pub(crate) mod journal;
pub(crate) mod ring;

use std::sync::{Arc, Mutex, MutexGuard};

use async_channel::{Receiver, Sender};
use jiff::Timestamp;
use tracing::{info, warn};

use self::journal::PendingEvents;
use crate::pod::{ContainerRef, Pod, PodName, PodUid};
pub(crate) use ring::{EventList, EventType};
use ring::{Involved, NodeEvent, Ring, RingEntry};

/// Who records events. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    node: Arc<str>,
    ring: Arc<Mutex<Ring>>,
    /// Holds a message when something was recorded.
    recorded: (Sender<()>, Receiver<()>),
}

impl Recorder {
    /// An empty one, of the node with this name.
    pub(crate) fn new(node: &str) -> Self {
        Self { node: node.into(), ring: Arc::default(), recorded: async_channel::bounded(1) }
    }

    /// Records that something happened to a container of a pod's instance.
    pub(crate) fn record(
        &self,
        kind: EventType,
        (pod, uid): (&PodName, &PodUid),
        (which, container): (ContainerRef, &str),
        reason: &'static str,
        message: &str,
    ) {
        match kind {
            EventType::Normal => info!(%pod, container, reason, "{message}"),
            EventType::Warning => warn!(%pod, container, reason, "{message}"),
        }
        self.note(kind, (pod, uid), Some((which, container)), reason, message);
    }

    /// Records that something happened to a pod's instance as a whole, which is worth a warning.
    pub(crate) fn warn_of_pod(&self, (pod, uid): (&PodName, &PodUid), reason: String, message: &str) {
        warn!(%pod, reason, "{message}");
        self.note(EventType::Warning, (pod, uid), None, &reason, message);
    }

    /// Records, and does not log, that something happened to a pod's instance, or to one of its containers.
    pub(crate) fn note(
        &self,
        kind: EventType,
        (pod, uid): (&PodName, &PodUid),
        container: Option<(ContainerRef, &str)>,
        reason: &str,
        message: &str,
    ) {
        self.add(kind, Involved::pod(pod, uid, container), reason, message);
    }

    /// The same for a container that is known by its name.
    pub(crate) fn note_container(
        &self,
        kind: EventType,
        pod: &Pod,
        container: &str,
        reason: &str,
        message: &str,
    ) {
        let found = pod.containers().find(|(_, spec)| spec.name == container);
        let which = found.map(|(which, spec)| (which, spec.name.as_str()));
        self.note(kind, (&pod.name, &pod.uid), which, reason, message);
    }

    /// Records, and does not log, that something happened to the node.
    pub(crate) fn note_node(&self, kind: EventType, reason: &str, message: &str) {
        self.add(kind, Involved::node(&self.node), reason, message);
    }

    /// Records, and logs, that something happened to the node, which is worth a warning.
    pub(crate) fn warn_of_node(&self, reason: &str, message: &str) {
        warn!(reason, "{message}");
        self.note_node(EventType::Warning, reason, message);
    }

    fn add(&self, kind: EventType, involved: Involved, reason: &str, message: &str) {
        let event = NodeEvent { kind, involved, reason: reason.to_owned(), message: message.to_owned() };
        self.ring().note(event, Timestamp::now());
        // One message is enough for several events.
        let _ = self.recorded.0.try_send(());
    }

    /// The events, the oldest first.
    pub(crate) fn list(&self) -> EventList {
        self.ring().list(&self.node)
    }

    /// Waits until something was recorded.
    pub(crate) async fn recorded(&self) {
        // We hold a sender ourselves: the channel is never closed.
        let _ = self.recorded.1.recv().await;
    }

    /// What is still to be saved.
    pub(crate) fn unsaved(&self) -> PendingEvents {
        self.ring().unsaved()
    }

    /// What is still to be saved, as lines; from now on it counts as saved.
    pub(crate) fn take_unsaved(&self) -> Vec<String> {
        self.ring().take_unsaved()
    }

    /// What was saved cannot be relied on: all is to be saved again.
    pub(crate) fn mark_unsaved(&self) {
        self.ring().mark_unsaved();
    }

    /// Takes in what an earlier agent saved, in its order.
    pub(crate) fn restore(&self, entries: Vec<RingEntry>) {
        let mut ring = self.ring();
        entries.into_iter().for_each(|entry| ring.restore(entry));
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // A poisoned lock still guards whole events.
        self.ring.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
