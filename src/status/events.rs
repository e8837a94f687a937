//! Events: what happened to pods, or to the node, that somebody may want to read later, as kubelet records it.
//!
//! Owns the newest events of the node, in memory; the server lists them. An event is logged when it is recorded, so
//! callers must not log it again. Must not: be used for a decision.

pub(crate) mod ring;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard};

use jiff::Timestamp;
use tracing::{info, warn};

use crate::pod::{ContainerRef, PodName, PodUid};
pub(crate) use ring::{EventList, EventType};
use ring::{EventSubject, RecordedEvent, Ring};

/// Who records events. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    node: Arc<str>,
    ring: Arc<Mutex<Ring>>,
}

impl Recorder {
    /// An empty one, of the node with this name.
    pub(crate) fn new(node: &str) -> Self {
        Self { node: node.into(), ring: Arc::default() }
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
        let container = Some((which, container.to_owned()));
        let subject = EventSubject::Pod { name: pod.clone(), uid: uid.clone(), container };
        self.note(kind, subject, reason.into(), message);
    }

    /// Records that something happened to a pod's instance as a whole, which is worth a warning.
    pub(crate) fn warn_of_pod(&self, (pod, uid): (&PodName, &PodUid), reason: String, message: &str) {
        warn!(%pod, reason, "{message}");
        let subject = EventSubject::Pod { name: pod.clone(), uid: uid.clone(), container: None };
        self.note(EventType::Warning, subject, reason.into(), message);
    }

    /// Records that something happened to the node, which is worth a warning.
    pub(crate) fn warn_of_node(&self, reason: &'static str, message: &str) {
        warn!(reason, "{message}");
        self.note(EventType::Warning, EventSubject::Node, reason.into(), message);
    }

    fn note(&self, kind: EventType, subject: EventSubject, reason: Cow<'static, str>, message: &str) {
        let event = RecordedEvent { kind, subject, reason, message: message.to_owned() };
        self.ring().note(event, Timestamp::now());
    }

    /// The events, the oldest first.
    pub(crate) fn list(&self) -> EventList {
        self.ring().list(&self.node)
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // A poisoned lock still guards whole events.
        self.ring.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
