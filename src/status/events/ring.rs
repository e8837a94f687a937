//! The newest events, and how they are shown. Pure: time is a parameter.
//!
//! Invariant: bounded in number and size, whatever happens how often; the same event again is a higher count, and events that
//! differ only in their message are combined when they become many.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::journal::{PendingEvents, encode};
use crate::pod::state::whole_second;
use crate::pod::{ContainerRef, PodName, PodUid};
use crate::text::excerpt::beginning;

/// How many events are kept.
const MAX_EVENTS: usize = 512;
/// How long a message may be, in bytes: Kubernetes' own limit.
const MAX_MESSAGE: usize = 1024;
/// How many events may differ only in their message, before they are combined: as many as with kubelet.
const MAX_SIMILAR: usize = 10;
/// What the message of combined events begins with, as with kubelet.
const COMBINED: &str = "(combined from similar events): ";

/// The type of an event, as in Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum EventType {
    /// Something happened that is expected.
    Normal,
    /// Something failed.
    Warning,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeEvent {
    /// Its type.
    pub kind: EventType,
    /// To whom.
    pub involved: Involved,
    /// A word of kubelet's.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

/// To whom something happened, as Kubernetes refers to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Involved {
    kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    namespace: String,
    name: String,
    uid: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    api_version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    field_path: Option<String>,
}

impl Involved {
    /// An instance of a pod, or one of its containers.
    pub(crate) fn pod(pod: &PodName, uid: &PodUid, container: Option<(ContainerRef, &str)>) -> Self {
        Self {
            kind: "Pod".into(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: uid.to_string(),
            api_version: "v1".into(),
            field_path: container.map(|(which, name)| field_path(which, name)),
        }
    }

    /// The node, which has its name for a UID, as with kubelet.
    pub(crate) fn node(name: &str) -> Self {
        Self {
            kind: "Node".into(),
            namespace: String::new(),
            name: name.to_owned(),
            uid: name.to_owned(),
            api_version: String::new(),
            field_path: None,
        }
    }
}

/// The newest events.
#[derive(Debug, Default)]
pub(crate) struct Ring(VecDeque<RingEntry>);

/// An event, and how often it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RingEntry {
    pub(super) event: NodeEvent,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    pub(super) count: u32,
    /// How far it is saved.
    #[serde(skip)]
    pub(super) saved: SavedAs,
}

/// How far an event is saved. What was read is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum SavedAs {
    /// With its count.
    #[default]
    Yes,
    /// But for its count.
    OldCount,
    /// Not at all.
    No,
}

impl Ring {
    /// Takes in an event.
    pub(crate) fn note(&mut self, mut event: NodeEvent, now: Timestamp) {
        event.message.truncate(beginning(&event.message, MAX_MESSAGE - COMBINED.len()).len());
        let is_known = self.0.iter().any(|entry| entry.event == event);
        if !is_known && self.0.iter().filter(|entry| is_similar(&entry.event, &event)).count() >= MAX_SIMILAR
        {
            event.message.insert_str(0, COMBINED);
        }
        let entry = match self.take(&event) {
            Some(entry) => {
                let saved = if entry.saved == SavedAs::No { SavedAs::No } else { SavedAs::OldCount };
                RingEntry { event, last: now, count: entry.count.saturating_add(1), saved, ..entry }
            }
            None => RingEntry { event, first: now, last: now, count: 1, saved: SavedAs::No },
        };
        self.push(entry);
    }

    /// Takes in an event that was saved.
    pub(crate) fn restore(&mut self, entry: RingEntry) {
        self.take(&entry.event);
        self.push(entry);
    }

    fn push(&mut self, entry: RingEntry) {
        if self.0.len() == MAX_EVENTS {
            self.0.pop_front();
        }
        self.0.push_back(entry);
    }

    /// Takes out the entry of the same event.
    fn take(&mut self, event: &NodeEvent) -> Option<RingEntry> {
        let is_combined = |event: &NodeEvent| event.message.starts_with(COMBINED);
        let same = |entry: &RingEntry| {
            entry.event == *event
                || is_combined(event) && is_combined(&entry.event) && is_similar(&entry.event, event)
        };
        self.0.iter().position(same).and_then(|place| self.0.remove(place))
    }

    /// What is still to be saved.
    pub(super) fn unsaved(&self) -> PendingEvents {
        let is = |saved: SavedAs| self.0.iter().any(|entry| entry.saved == saved);
        match (is(SavedAs::No), is(SavedAs::OldCount)) {
            (true, _) => PendingEvents::Events,
            (false, true) => PendingEvents::Counts,
            (false, false) => PendingEvents::Nothing,
        }
    }

    /// What is still to be saved, as lines; from now on it counts as saved.
    pub(super) fn take_unsaved(&mut self) -> Vec<String> {
        let unsaved = self.0.iter_mut().filter(|entry| entry.saved != SavedAs::Yes);
        unsaved
            .map(|entry| {
                entry.saved = SavedAs::Yes;
                encode(entry)
            })
            .collect()
    }

    /// All is to be saved again.
    pub(super) fn mark_unsaved(&mut self) {
        self.0.iter_mut().for_each(|entry| entry.saved = SavedAs::No);
    }

    /// All of them as Kubernetes lists events, the oldest first.
    pub(crate) fn list(&self, node: &str) -> EventList {
        EventList {
            kind: "EventList",
            api_version: "v1",
            metadata: ListMeta {},
            items: self.0.iter().map(|entry| entry.show(node)).collect(),
        }
    }
}

/// Whether two events differ in nothing but their message.
fn is_similar(one: &NodeEvent, other: &NodeEvent) -> bool {
    (one.kind, &one.involved, &one.reason) == (other.kind, &other.involved, &other.reason)
}

impl RingEntry {
    fn show(&self, node: &str) -> Shown {
        let NodeEvent { kind, involved, reason, message } = &self.event;
        let namespace = if involved.namespace.is_empty() { "default" } else { &involved.namespace };
        Shown {
            metadata: Metadata {
                // As kubelet names them.
                name: format!("{}.{:x}", involved.name, self.first.as_nanosecond()),
                namespace: namespace.to_owned(),
                creation_timestamp: whole_second(self.first),
            },
            involved_object: involved.clone(),
            reason: reason.clone(),
            message: message.clone(),
            source: EventSource { component: "kubelet", host: node.to_owned() },
            first_timestamp: whole_second(self.first),
            last_timestamp: whole_second(self.last),
            count: self.count,
            r#type: *kind,
            event_time: (),
            reporting_component: "kubelet",
            reporting_instance: node.to_owned(),
        }
    }
}

/// The field of the manifest that names a container, as kubelet writes it.
fn field_path(which: ContainerRef, container: &str) -> String {
    let list = match which {
        ContainerRef::Init(_) => "initContainers",
        ContainerRef::Main(_) => "containers",
    };
    format!("spec.{list}{{{container}}}")
}

/// Events as Kubernetes lists them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventList {
    kind: &'static str,
    api_version: &'static str,
    metadata: ListMeta,
    items: Vec<Shown>,
}

#[derive(Debug, Serialize)]
struct ListMeta {}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    metadata: Metadata,
    involved_object: Involved,
    reason: String,
    message: String,
    source: EventSource,
    first_timestamp: Timestamp,
    last_timestamp: Timestamp,
    count: u32,
    r#type: EventType,
    /// Not set, as with kubelet.
    event_time: (),
    reporting_component: &'static str,
    reporting_instance: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    namespace: String,
    creation_timestamp: Timestamp,
}

#[derive(Debug, Serialize)]
struct EventSource {
    component: &'static str,
    host: String,
}

#[cfg(test)]
mod tests;
